//! Use from shell scripts: pipes that close, disks that are full, no colours, JSON that is JSON.

use crate::support::world::walk;
use crate::support::{Outcome, World, quoted};
use serde_json::Value;
use std::fs::OpenOptions;

const PROGRAM: &str = env!("CARGO_BIN_EXE_throng");

/// Runs a line of bash with `T` for the program; every part of a pipe counts.
fn bash(world: &World, line: &str) -> Outcome {
    let line = format!("set -o pipefail; T={}; {line}", quoted(PROGRAM));
    world.program("bash").args(["-c", &line]).run()
}

fn assert_quiet(outcome: &Outcome, codes: &[i32]) {
    outcome.check(&format!("one of {codes:?}"), outcome.code.is_some_and(|c| codes.contains(&c)));
    outcome.check("no panic", !outcome.stderr.contains("panicked"));
}

fn plant_run(world: &World) {
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        command = ["sh", "-c", "for i in 1 2 3 4 5; do throng send lead \"mail $i\"; done; throng task done k"]
        [[task]]
        key = "k"
        subject = "Done"
        "#,
    );
}

#[test]
fn case_c107_a_reader_that_goes_away_ends_a_verb_quietly() {
    let world = World::new();
    let names: Vec<String> = (0..600).map(|n| format!("member-with-a-long-name-{n}")).collect();
    world.plant_team("demo", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let size = world.throng(["status", "--json", "--team", "demo"]).run().ok().stdout.len();
    assert!(size > 64 * 1024, "more than a pipe holds: {size}");
    for line in [
        "$T status --json --team demo | head -c 1",
        "$T status --json --team demo | true",
        "$T status --team demo | head -n 1",
        "$T help run | true",
        "$T --help | true",
        "$T completions bash | head -c 1",
        "$T man | true",
        "$T | true",
    ] {
        let outcome = bash(&world, line);
        assert_quiet(&outcome, &[0, 141]);
        outcome.check("not a word about it", outcome.stderr.is_empty());
    }
    // Without any standard output there is no reader either.
    for line in ["$T status --team demo >&-", "$T help protocol >&-"] {
        assert_quiet(&bash(&world, line), &[0, 1, 141]);
    }
}

#[test]
fn case_c107_a_run_goes_on_without_a_reader_and_tells_the_truth() {
    let world = World::new();
    plant_run(&world);
    for line in [
        "$T run t | head -n 1",
        "$T run t --json | head -n 1",
        "$T run t --json | true",
        "$T run t | (exec <&-; sleep 0.05)",
    ] {
        assert_quiet(&bash(&world, line), &[0, 141]);
        world.assert_nothing_left();
        assert!(!world.team("t").tasks_dir().exists(), "the list is put away");
        assert_eq!(world.team("t").status()["tasks"]["completed"], 1, "and can be read still");
        let done = world.team("t").state_dir().join("final/tasks/1.json");
        assert!(
            std::fs::read_to_string(done).unwrap().contains("\"completed\""),
            "{line}: the work was done"
        );
    }
    bash(&world, "sed -i 's/task done k/task done k --failed x/' t/team.toml; $T run t | true").code(1);
    world.assert_nothing_left();
}

#[test]
fn case_c107_output_that_cannot_be_written_is_an_error() {
    let world = World::new();
    plant_run(&world);
    world.plant_team("demo", &["bob"]);
    for args in [
        &["status", "--team", "demo"][..],
        &["status", "--json", "--team", "demo"],
        &["task", "list", "--team", "demo"],
        &["inbox", "list", "bob", "--team", "demo"],
        &["help", "protocol"],
        &["help", "run"],
        &["completions", "bash"],
        &["man"],
        &["doctor"],
        &["run", "t"],
        &["run", "t", "--json"],
        &[],
        &["--help"],
        &["--version"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let outcome = world.throng(args).stdout(full).run();
        outcome.check("not 0 and not a panic", outcome.code.is_some_and(|c| c != 0 && c != 101));
        outcome.complains("No space left");
        world.assert_nothing_left();
    }
    // What could not be printed was not taken.
    world.throng(["send", "bob", "x", "--team", "demo"]).run().ok();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let take = world.throng(["inbox", "take", "--team", "demo"]).by("bob").stdout(full).run();
    take.check("not 0", take.code != Some(0));
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok().prints("x\n");
}

#[test]
fn case_c108_no_escape_sequences_without_a_terminal() {
    let world = World::new();
    plant_run(&world);
    let mut outcomes = vec![world.throng(["run", "t"]).run()];
    world
        .throng([
            "spawn",
            "bob",
            "--team",
            "demo",
            "--",
            "sh",
            "-c",
            "printf '\\033[31mred\\033[0m\\n'; exit 3",
        ])
        .run()
        .ok();
    world.throng(["wait", "bob", "--team", "demo"]).run().code(1);
    world.throng(["task", "add", "x", "--team", "demo"]).run().ok();
    for args in [
        &["status", "--team", "demo"][..],
        &["task", "list", "--team", "demo"],
        &["logs", "bob", "--team", "demo"],
        &["screen", "bob", "--team", "demo"],
        &["doctor"],
        &["--help"],
        &["run", "--help"],
        &["no-such-verb"],
        &[],
        &["run", "no-such-file"],
    ] {
        outcomes.push(world.throng(args).run());
    }
    for outcome in outcomes {
        outcome.check("no ESC", !outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'));
    }
}

#[test]
fn case_c108_json_is_json_on_every_verb_and_notes_go_to_stderr() {
    let world = World::new();
    plant_run(&world);
    let json = |args: &[&str]| world.throng(args).args(["--json"]).run().ok().json_lines();
    let one = |args: &[&str]| -> Value {
        let mut lines = json(args);
        assert_eq!(lines.len(), 1, "{args:?}: {lines:#?}");
        lines.remove(0)
    };
    let events = json(&["run", "t"]);
    assert!(events.len() > 5 && events.iter().all(|e| e["event"].is_string()), "{events:#?}");
    assert_eq!(events.last().unwrap()["event"], "run_ended");
    assert_eq!(events.last().unwrap()["success"], true);
    // The flag stands before what belongs to the teammate.
    let spawn = |name: &str| {
        let args = ["spawn", name, "--team", "demo", "--json", "--", "sleep", "600"];
        world.throng(args).run().ok().json_lines().len()
    };
    assert_eq!((spawn("bob"), spawn("ann")), (1, 1));
    assert_eq!(one(&["send", "bob", "x", "--team", "demo"])["to"], "bob");
    assert_eq!(one(&["inbox", "list", "bob", "--team", "demo"])["messages"][0]["text"], "x");
    assert_eq!(one(&["inbox", "take", "--as", "bob", "--team", "demo"])["text"], "x");
    assert_eq!(one(&["task", "add", "s", "--key", "k", "--team", "demo"])["id"], "1");
    assert_eq!(one(&["task", "list", "--team", "demo"])["tasks"][0]["subject"], "s");
    assert_eq!(one(&["task", "claim", "k", "--as", "bob", "--team", "demo"])["owner"], "bob");
    assert_eq!(one(&["task", "update", "k", "--subject", "t", "--team", "demo"])["subject"], "t");
    assert_eq!(one(&["task", "done", "k", "--team", "demo"])["status"], "completed");
    assert_eq!(one(&["task", "show", "k", "--team", "demo"])["id"], "1");
    assert_eq!(one(&["screen", "bob", "--team", "demo"])["name"], "bob");
    assert_eq!(one(&["status", "--team", "demo"])["team"], "demo");
    assert_eq!(one(&["stop", "bob", "--team", "demo"])["ended"][0]["name"], "bob");
    let wait = world.throng(["wait", "bob", "--team", "demo", "--json"]).run();
    assert_eq!(wait.code(1).json()["ended"][0]["how"], "killed by signal 15");
    assert!(one(&[])["teams"].as_array().unwrap().len() == 2);
    assert_eq!(one(&["down", "demo"])["ended"][0]["name"], "ann");
    assert_eq!(one(&["gc", "--dry-run"])["dry_run"], true);
    assert_eq!(one(&["doctor"])["ok"], true);
    world.assert_nothing_left();
}

#[test]
fn a_run_reports_while_it_goes_on() {
    let world = World::new();
    world.write("t/team.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"throng send lead first; throng inbox take --wait\"]\n");
    let mut running = world.throng(["run", "t", "--json"]).start();
    // Each line is there before the next thing happens: the team waits for our answer to it.
    running.until_says("\"text\":\"first\"");
    assert!(running.is_running());
    world.throng(["send", "a", "go on", "--team", "t"]).run().ok();
    let events = running.wait().ok().json_lines();
    let kinds: Vec<&str> = events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    let at =
        |kind: &str| kinds.iter().position(|k| *k == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"));
    assert!(at("team_started") < at("member_ready") && at("member_ready") < at("lead_mail"));
    assert!(at("lead_mail") < at("member_ended") && at("member_ended") < at("run_ended"), "{kinds:?}");
    assert!(events.iter().take(kinds.len() - 1).all(|e| e["time"].is_string()));
}

#[test]
fn two_streams_are_kept_apart() {
    let world = World::new();
    let outcome = world.throng(["status", "--team", "none", "--json"]).run();
    outcome.code(3).prints("").complains("\"message\":\"there is no team 'none'\"");
    let mut odd = Vec::new();
    walk(world.root(), &mut |path, is_dir| {
        if !is_dir {
            odd.push(path.to_owned());
        }
    });
    assert!(odd.is_empty(), "a verb that finds nothing makes nothing: {odd:?}");
}
