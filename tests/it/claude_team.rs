//! The whole of it, headless: two real Claude Code teammates and a script on one small job. Messages both ways, a task that
//! waits for another, a permission by rule, a plan by hook (B12, F3, F4, C3); and with a teammate killed on the way (B11).

use crate::claude::Stage;
use crate::support::model::{Part, load, send, tool};
use crate::support::process::{Process, signal};
use crate::support::tmux::Tmux;
use crate::support::{until, until_some};
use nix::sys::signal::Signal;
use serde_json::json;

/// A hook that approves plans with a step in them, and nothing else.
const HOOK: &str = r#"#!/bin/sh
cat > seen-by-hook.json
grep -q '1. Report the sum' seen-by-hook.json || { echo 'no such plan' >&2; exit 2; }
echo '{"mode": "acceptEdits"}'
"#;

const TEAM: &str = r#"
[team]
name = "sum"
backend = "process"

[approvals]
hook = ["sh", "{dir}/approve.sh"]
[[approvals.rule]]
answer = "allow"
kind = "permission"
tool = "Bash"
input = "python3 make.py"
member = "ann"

[[member]]
name = "ann"
driver = "claude"
restart = "on-failure"
prompt = "You make numbers."

[[member]]
name = "counter"
command = ["sh", "count.sh"]

[[member]]
name = "pam"
driver = "claude"
plan_required = true
prompt = "Plan what you will do with the sum."

[[task]]
key = "make"
subject = "Make the numbers"
owner = "ann"

[[task]]
key = "count"
subject = "Count them"
owner = "counter"
blocked_by = ["make"]

[[task]]
key = "report"
subject = "Say what came out"
owner = "pam"
blocked_by = ["count"]
"#;

/// What the script does: it hears from ann, counts, tells pam.
const COUNT: &str = r#"
set -e
throng inbox take --wait --timeout 2m --from ann
throng task claim count --wait
sum=$(awk '{ s += $1 } END { print s }' numbers.txt)
throng send pam "the sum is $sum"
throng send ann "thank you for the numbers"
throng task done count
"#;

/// What the two models do, once they read their words.
fn parts() -> Vec<Part> {
    let task = |id: &str, status: &str| tool("TaskUpdate", json!({"taskId": id, "status": status}));
    let plan = json!({"file_path": "{plan_file}", "content": "# Plan\n\n1. Report the sum.\n"});
    let make = json!({"command": "python3 make.py", "description": "make numbers"});
    let begin_make = vec![
        load("TaskUpdate,SendMessage"),
        vec![task("1", "in_progress")],
        vec![tool("Bash", make.clone())],
    ];
    let end_make =
        vec![vec![task("1", "completed")], vec![send("counter", "The numbers are in numbers.txt.")]];
    let again = vec![load("TaskUpdate,SendMessage"), vec![tool("Bash", make)]];
    vec![
        Part::new("started you again", [again, end_make.clone()].concat()),
        Part::new("Make the numbers", [begin_make, end_make].concat()),
        Part::new(
            "Plan what you will do",
            vec![load("ExitPlanMode"), vec![tool("Write", plan)], vec![tool("ExitPlanMode", json!({}))]],
        ),
        Part::new(
            "Say what came out",
            vec![
                load("TaskUpdate,SendMessage"),
                vec![task("3", "completed")],
                vec![send("team-lead", "The sum is what the counter says.")],
            ],
        ),
    ]
}

/// A stage with the team on it; `make` is the program that makes the numbers.
fn stage(make: &str) -> Option<Stage> {
    let stage = Stage::new(parts())?;
    for (file, text) in [("team.toml", TEAM), ("approve.sh", HOOK), ("count.sh", COUNT), ("make.py", make)] {
        stage.world.write(file, text);
    }
    Some(stage)
}

const MAKE: &str = "open('numbers.txt', 'w').write('1\\n2\\n3\\n')\n";

#[test]
fn b12_f3_f4_two_claudes_and_a_script_do_a_job_without_a_terminal() {
    let Some(stage) = stage(MAKE) else { return };
    let outcome = stage.throng(&["run", "team.toml", "--trust", "--timeout", "150s"]).run();
    outcome.ok().says("pam         says: The sum is what the counter says.");
    outcome.says("counter     -> pam").says("counter     -> ann").says("3 tasks completed, 0 failed");
    let events = stage.world.team("sum").events();
    let answers: Vec<_> = events.iter().filter(|e| e["event"] == "approval_answered").collect();
    assert_eq!(answers.len(), 2, "{answers:#?}");
    let by = |who: &str| answers.iter().find(|a| a["from"] == who).unwrap();
    assert!(by("ann")["by"].to_string().contains("rule"), "{answers:#?}");
    assert!(by("pam")["by"].to_string().contains("hook"), "{answers:#?}");
    // What the script said reached both models.
    let has_read = |words: &[&str]| stage.model_has_read(words);
    assert!(has_read(&["Plan what you will do", "the sum is 6"]));
    assert!(has_read(&["You make numbers.", "thank you for the numbers"]));
    let retired = |who: &str| {
        events.iter().any(|e| {
            e["event"] == "member_retired" && e["agent"] == who && e["how"] == "by itself when asked by mail"
        })
    };
    assert!(retired("ann") && retired("pam"));
    stage.world.assert_nothing_left();
}

#[test]
fn b1_b12_the_same_team_has_panes_beside_its_leader_in_tmux() {
    let Some(stage) = stage(MAKE) else { return };
    let tmux = Tmux::plain(&stage.world);
    let run =
        stage.model_known_to(tmux.throng(&["run", "team.toml", "--trust", "--backend", "tmux"])).start();
    let team = stage.world.team("sum");
    let pane = |name: &str| {
        let members = team.state_dir().join("members").join(format!("{name}.json")).exists();
        members.then(|| team.member(name)["place"]["pane"].as_str().map(str::to_owned)).flatten()
    };
    let shows = |pane: &str, words: &str| tmux.ask(&["capture-pane", "-p", "-t", pane]).contains(words);
    until_some("pam's plan was approved", || pane("pam").filter(|pane| shows(pane, "accept edits on")));
    for name in ["ann", "pam"] {
        let pane = pane(name).unwrap();
        eprintln!("--- {name} in {pane}\n{}", tmux.ask(&["capture-pane", "-p", "-t", &pane]));
        assert!(shows(&pane, &format!("@{name} ")), "{name}'s screen is in its pane");
    }
    run.wait().ok().says("3 tasks completed, 0 failed");
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"], "the leader's pane alone is left");
}

#[test]
fn b11_the_job_is_done_too_when_a_teammate_is_killed_in_the_middle() {
    // The first time it hangs, so that there is a middle.
    let make = format!(
        "import os, time\nif not os.path.exists('begun'):\n    open('begun', 'w').close()\n    time.sleep(600)\n{MAKE}"
    );
    let Some(stage) = stage(&make) else { return };
    let run = stage.throng(&["run", "team.toml", "--trust", "--timeout", "150s"]).start();
    until("ann is in the middle of it", || stage.world.path("begun").exists());
    let ann = until_some("ann runs", || {
        let all = stage.world.processes();
        all.into_iter().find(|p: &Process| p.command_line().windows(2).any(|w| w == ["--agent-name", "ann"]))
    });
    signal(ann.pid, Signal::SIGKILL);
    let outcome = run.wait();
    outcome
        .ok()
        .says("ann         killed by signal 9, will be started again")
        .says("3 tasks completed, 0 failed");
    stage.clean_up_after_a_kill();
    stage.world.assert_nothing_left();
}
