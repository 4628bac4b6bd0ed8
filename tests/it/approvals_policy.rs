//! Approvals by rule, by hook, and where nobody is there: decided by the leader process.

use crate::approvals::{answers, ask, bash, pending, plan};
use crate::support::process::is_running;
use crate::support::{Outcome, World, until, until_some};
use serde_json::{Value, json};
use std::time::Duration;

/// A team whose member bob sends the requests `asks` one after the other and prints each answer.
fn team_file(world: &World, approvals: &str, asks: &[String]) {
    let mut script = String::new();
    for (i, ask) in asks.iter().enumerate() {
        world.write(format!("t/ask-{i}.json"), ask);
        script += &format!(
            "throng send lead @$THRONG_DIR/ask-{i}.json && throng inbox take --wait >>$THRONG_OUT/answers; "
        );
    }
    world.write("t/bob.sh", script);
    world.write(
        "t/team.toml",
        format!(
            "[team]\nname = \"t\"\n{approvals}\n[[member]]\nname = \"bob\"\ncommand = [\"sh\", \"{{dir}}/bob.sh\"]\n"
        ),
    );
}

fn hook(world: &World, script: &str) -> String {
    world.write("t/approve.sh", script);
    "[approvals]\nhook = [\"sh\", \"{dir}/approve.sh\"]\n".to_owned()
}

/// Runs it without a terminal; answers what bob got, too.
fn run(world: &World) -> (Outcome, Vec<Value>) {
    let outcome = world.throng(["run", "t", "--out", "out"]).run();
    let text = std::fs::read_to_string(world.path("out/answers")).unwrap_or_default();
    (outcome, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn goal_headless_without_an_approver_it_is_denied_said_and_exit_code_7() {
    let world = World::new();
    team_file(&world, "", &[bash("perm-1-a", "bob", "ls"), plan("plan_approval-1@bob@t", "bob", "x")]);
    let (outcome, answers) = run(&world);
    outcome
        .code(7)
        .complains("bob asks to use Bash (try it): ls (perm-1-a), and was denied: nobody is there");
    outcome.says("denied by throng, since nobody was there to ask");
    assert_eq!((&answers[0]["subtype"], &answers[1]["approved"]), (&json!("error"), &json!(false)));
    let why = answers[0]["error"].as_str().unwrap();
    assert!(why.contains("nobody is there to ask"), "{why}");
    assert!(answers[1]["feedback"].as_str().unwrap().contains("nobody is there"), "a plan neither");
    world.assert_nothing_left();
    let json = world.throng(["run", "t", "--json"]).run();
    let end = json.code(7).json_lines().pop().unwrap();
    assert_eq!((&end["event"], &end["exit_code"]), (&json!("run_ended"), &json!(7)));
    assert_eq!(end["unanswered"].as_array().unwrap().len(), 2);
    // Being late goes before it.
    world.write(
        "t/bob.sh",
        "throng send lead @$THRONG_DIR/ask-0.json && throng inbox take --wait && exec sleep 600",
    );
    world.throng(["run", "t", "--timeout", "3s"]).run().code(124).complains("was denied: nobody is there");
}

#[test]
fn a_rule_answers_and_the_first_that_fits_decides() {
    let world = World::new();
    let rules = r#"
        [[approvals.rule]]
        answer = "deny"
        tool = "Bash"
        input = "python3 bad*"
        feedback = "use good.py"
        [[approvals.rule]]
        answer = "allow"
        kind = "permission"
        tool = "Ba*"
        input = "python3 *"
        member = "bob"
        [[approvals.rule]]
        answer = "allow"
        kind = "plan"
        mode = "acceptEdits"
    "#;
    let asks = [
        bash("perm-1-a", "bob", "python3 good.py"),
        bash("perm-2-a", "bob", "python3 bad.py"),
        plan("plan_approval-1@bob@t", "bob", "x"),
    ];
    team_file(&world, rules, &asks);
    let (outcome, answers) = run(&world);
    outcome.ok().says("allowed by rule 2 [approval 1]").says("denied by rule 1: use good.py [approval 2]");
    assert_eq!(answers[0]["response"]["updated_input"], json!({"command": "python3 good.py"}));
    assert_eq!(answers[1]["error"], "use good.py");
    assert_eq!(
        (&answers[2]["approved"], &answers[2]["permissionMode"]),
        (&json!(true), &json!("acceptEdits"))
    );
    world.assert_nothing_left();
}

#[test]
fn glob_traps_do_not_get_through_an_allow_rule() {
    let world = World::new();
    let rules = "[[approvals.rule]]\nanswer = \"allow\"\ntool = \"Bash\"\ninput = \"python3 *\"\n";
    let commands = ["python3 x; rm -rf /", "python3 $(rm x)", "python3 x\nrm x", "python3 'x'"];
    let asks: Vec<String> =
        commands.iter().enumerate().map(|(i, c)| bash(&format!("perm-{i}-a"), "bob", c)).collect();
    team_file(&world, rules, &asks);
    let (outcome, answers) = run(&world);
    outcome.code(7);
    let words: Vec<&str> = answers.iter().map(|a| a["subtype"].as_str().unwrap()).collect();
    assert_eq!(words, ["error", "error", "error", "success"]);
}

#[test]
fn probe_j06_a_hook_gets_json_and_its_exit_code_decides() {
    let world = World::new();
    let script = r#"
        cat >seen.json
        if grep -q '"kind":"plan"' seen.json; then echo '{"mode": "auto"}'; exit 0; fi
        if grep -q secret seen.json; then echo 'keep out' >&2; exit 2; fi
        echo '{"updated_input": {"command": "true"}}'
    "#;
    let asks = [
        bash("perm-1-a", "bob", "ls"),
        bash("perm-2-a", "bob", "cat secret"),
        plan("plan_approval-1@bob@t", "bob", "do it"),
    ];
    team_file(&world, &hook(&world, script), &asks);
    let (outcome, answers) = run(&world);
    outcome.ok().says("denied by the hook: keep out");
    assert_eq!(answers[0]["response"]["updated_input"], json!({"command": "true"}));
    assert_eq!(answers[1]["error"], "keep out");
    assert_eq!((&answers[2]["approved"], &answers[2]["permissionMode"]), (&json!(true), &json!("auto")));
    let seen: Value = serde_json::from_str(&world.read("t/seen.json")).unwrap();
    assert_eq!(
        (&seen["event"], &seen["team"], &seen["from"]),
        (&json!("approval"), &json!("t"), &json!("bob"))
    );
    assert_eq!((&seen["plan"], &seen["request_id"]), (&json!("do it"), &json!("plan_approval-1@bob@t")));
    world.assert_nothing_left();
}

#[test]
fn a_hook_that_times_out_fails_is_missing_or_prints_garbage_denies_and_says_so() {
    for (script, why) in [
        ("sleep 600", "took longer than 0.2 s"),
        ("exit 3", "failed with exit code 3"),
        ("echo oops >&2; exit 1", "failed with exit code 1: oops"),
        ("kill -9 $$", "ended by a signal"),
        ("echo fine", "printed what is no JSON object"),
        ("echo '{\"updated_input\": {\"command\": \"tr'", "printed what is no JSON object"),
        ("echo '{\"allow\": false}'", "unknown key 'allow'"),
        ("", "cannot be run"),
    ] {
        let world = World::new();
        let mut approvals = hook(&world, script);
        if script.is_empty() {
            approvals = approvals.replace("\"sh\", \"{dir}/approve.sh\"", "\"./gone\"");
        }
        if script.starts_with("sleep") {
            approvals += "hook_timeout = \"200ms\"\n";
        }
        team_file(&world, &approvals, &[bash("perm-1-a", "bob", "ls")]);
        if script.is_empty() {
            // It is there when the team starts, and not when it is asked.
            std::fs::copy("/bin/true", world.path("t/gone")).unwrap();
            world.write("t/bob.sh", format!("rm $THRONG_DIR/gone\n{}", world.read("t/bob.sh")));
        }
        let (outcome, answers) = run(&world);
        outcome.code(7).complains(why).says(why);
        assert_eq!(answers[0]["subtype"], "error", "{why}");
        assert!(answers[0]["error"].as_str().unwrap().contains(why), "{why}: {}", answers[0]["error"]);
        world.assert_nothing_left();
    }
}

#[test]
fn a_hook_that_is_not_there_is_refused_before_anything_starts() {
    let world = World::new();
    for (hook, why) in [
        ("[\"./no-such\"]", "there is no program './no-such' in "),
        ("[\"no-such-hook\", \"x\"]", "there is no program 'no-such-hook' on PATH"),
        ("[\"{dir}/bob.sh\"]", "it is there, but cannot be executed"),
    ] {
        team_file(&world, &format!("\n[approvals]\nhook = {hook}\n"), &[bash("perm-1-a", "bob", "ls")]);
        for verb in ["run", "up"] {
            let refused = world.throng([verb, "t"]).run();
            refused.code(2).complains("t/team.toml:5: hook: ").complains(why);
        }
        assert!(!world.team("t").dir().exists());
    }
    // The program that members have on their PATH is the hook's, too.
    team_file(&world, "[approvals]\nhook = [\"throng\", \"--version\"]\n", &[]);
    world.write("t/bob.sh", "true");
    world.throng(["run", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_rule_that_asks_goes_past_the_hook_and_a_run_may_wait() {
    let world = World::new();
    let mut approvals = hook(&world, "exit 2");
    approvals +=
        "when_nobody_answers = \"wait\"\n[[approvals.rule]]\nanswer = \"ask\"\nkind = \"permission\"\n";
    team_file(&world, &approvals, &[bash("perm-1-a", "bob", "ls")]);
    let run = world.throng(["run", "t"]).start();
    run.until_says("waits for you: throng approvals approve 1 --team t");
    world.throng(["approvals", "approve", "1", "--team", "t"]).run().ok();
    run.wait().ok().says("allowed by a person");
}

#[test]
fn a_hook_that_is_being_asked_does_not_hold_up_the_end() {
    let world = World::new();
    let approvals = hook(&world, "echo $$ >asked; sleep 600") + "hook_timeout = \"10m\"\n";
    team_file(&world, &approvals, &[bash("perm-1-a", "bob", "ls")]);
    let run = world.throng(["run", "t"]).start();
    until_some("the hook is asked", || {
        std::fs::read_to_string(world.path("t/asked")).ok().filter(|s| !s.is_empty())
    });
    run.signal(nix::sys::signal::Signal::SIGINT);
    let outcome = run.wait();
    outcome.signalled(nix::sys::signal::Signal::SIGINT).check("soon", outcome.took < Duration::from_secs(15));
    world.assert_nothing_left();
}

/// A run whose hook is being asked, with the processes of bob, who does not end by TERM, and the hook.
fn asking(world: &World) -> (crate::support::Running, i32, i32) {
    let approvals = hook(world, "env >env; echo $$ >asked; exec sleep 600") + "hook_timeout = \"10m\"\n";
    team_file(world, &approvals, &[bash("perm-1-a", "bob", "ls")]);
    let script = format!("trap '' TERM\necho $$ >$THRONG_DIR/bob\n{}", world.read("t/bob.sh"));
    world.write("t/bob.sh", script);
    let run = world.throng(["run", "t"]).without_env("CLAUDE_CONFIG_DIR").start();
    let pid = |file: &str| {
        until_some("it runs", || std::fs::read_to_string(world.path(file)).ok()?.trim().parse::<i32>().ok())
    };
    (run, pid("t/bob"), pid("t/asked"))
}

#[test]
fn a_hook_is_ended_when_the_end_begins_and_not_after_the_members() {
    let world = World::new();
    let (run, bob, hook) = asking(&world);
    run.signal(nix::sys::signal::Signal::SIGINT);
    until("the hook is ended", || !is_running(hook));
    assert!(is_running(bob), "its members have their grace still");
    run.wait().signalled(nix::sys::signal::Signal::SIGINT);
    world.assert_nothing_left();
}

#[test]
fn a_hook_dies_with_its_leader_and_is_told_of_no_config_dir_that_nobody_named() {
    let world = World::new();
    let (run, _, hook) = asking(&world);
    let env = world.read("t/env");
    assert!(env.contains("THRONG_TEAM=t") && !env.contains("CLAUDE_CONFIG_DIR"), "{env}");
    run.signal(nix::sys::signal::Signal::SIGKILL);
    until("the hook is dead", || !is_running(hook));
    run.wait();
    world.throng(["down", "t", "--force"]).without_env("CLAUDE_CONFIG_DIR").run();
    // A file that it was just writing may be left of one that was killed.
    until("no process is left", || world.processes().is_empty());
}

#[test]
fn what_a_hook_started_dies_with_a_killed_leader_too() {
    let world = World::new();
    let script = "sh -c 'echo $$ >below; exec sleep 601' & sleep 602 & echo $$ >asked; wait";
    let approvals = hook(&world, script) + "hook_timeout = \"10m\"\n";
    team_file(&world, &approvals, &[bash("perm-1-a", "bob", "ls")]);
    let run = world.throng(["run", "t"]).start();
    let pid = |file: &str| {
        until_some("it runs", || std::fs::read_to_string(world.path(file)).ok()?.trim().parse::<i32>().ok())
    };
    let (hook, below) = (pid("t/asked"), pid("t/below"));
    run.signal(nix::sys::signal::Signal::SIGKILL);
    until("the hook and what it started are dead", || !is_running(hook) && !is_running(below));
    run.wait();
    world.throng(["down", "t", "--force"]).run();
    until("no process is left", || world.processes().is_empty());
}

#[test]
fn the_detached_leader_of_an_up_answers_by_the_same_policy() {
    let world = World::new();
    world.write("t/approve.sh", "grep -q plan && exit 0\nexit 2");
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        [approvals]
        hook = ["sh", "{dir}/approve.sh"]
        [[approvals.rule]]
        answer = "allow"
        tool = "Bash"
        input = "ls*"
        [[approvals.rule]]
        answer = "ask"
        kind = "permission"
        [[member]]
        name = "bob"
        command = ["sleep", "600"]
        "#,
    );
    world.throng(["up", "t"]).run().ok();
    let team = world.team("t");
    ask(&world, "bob", &bash("perm-1-a", "bob", "ls"));
    ask(&world, "bob", &plan("plan_approval-1@bob@t", "bob", "a plan"));
    ask(&world, "bob", &bash("perm-2-a", "bob", "rm x"));
    let given = until_some("both are answered", || Some(answers(&team, "bob")).filter(|a| a.len() == 2));
    let allowed = |kind: &str| {
        given.iter().any(|a| a["type"] == kind && (a["subtype"] == "success" || a["approved"] == true))
    };
    assert!(allowed("permission_response") && allowed("plan_approval_response"), "{given:?}");
    // What no rule allows waits for a person, whoever is there.
    let waits = until_some("the third waits", || Some(pending(&world)).filter(|p| p.len() == 1));
    assert_eq!(waits[0]["request_id"], "perm-2-a");
    // A non-member is never answered by a rule.
    ask(&world, "mallory", &bash("perm-3-a", "mallory", "ls"));
    until_some("the leader leaves it to a person", || {
        team.events().into_iter().find(|e| e["event"] == "approval_waits" && e["from"] == "mallory")
    });
    assert!(answers(&team, "bob").len() == 2 && pending(&world).len() == 2);
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn what_was_answered_in_an_earlier_life_is_not_answered_again() {
    let world = World::new();
    world.write("ask.json", bash("perm-1-a", "bob", "ls"));
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\ncwd = \"..\"\n[[approvals.rule]]\nanswer = \"allow\"\n[[member]]\nname = \"bob\"\nrestart = \"on-failure\"\n\
         command = [\"sh\", \"-c\", \"[ -e again ] && exit 0; throng send lead @ask.json && throng inbox take --wait && touch again; exit 3\"]\n",
    );
    let outcome = world.throng(["run", "t", "--json"]).run();
    let events = outcome.code(0).json_lines();
    let count = |kind: &str| events.iter().filter(|e| e["event"] == kind).count();
    assert_eq!(
        (count("approval_requested"), count("approval_answered"), count("member_restarting")),
        (1, 1, 1)
    );
}
