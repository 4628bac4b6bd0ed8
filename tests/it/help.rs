//! Help for people and programs: every verb shows an example, the protocol is explained, the machine can be tried out.

use crate::support::World;
use serde_json::json;

/// The words under `Commands:` of a help text.
fn verbs(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    lines
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .map(|l| l.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_verbs_help_has_an_example_and_the_shared_flags() {
    let world = World::new();
    let help = world.throng(["--help"]).run();
    let all = verbs(&help.ok().stdout);
    for verb in [
        "run",
        "up",
        "spawn",
        "send",
        "inbox",
        "task",
        "wait",
        "status",
        "logs",
        "screen",
        "attach",
        "stop",
        "down",
        "gc",
        "doctor",
        "help",
        "completions",
        "man",
    ] {
        assert!(all.contains(&verb.to_owned()), "{verb} in {all:?}");
    }
    assert!(
        !all.contains(&"tend".to_owned()) && !all.contains(&"lead".to_owned()),
        "inner roles are not shown"
    );
    help.says("124  timed out").says("3  no such team");
    let mut paths: Vec<Vec<String>> = all.iter().map(|v| vec![v.clone()]).collect();
    for group in ["approvals", "inbox", "task"] {
        let help = world.throng([group, "--help"]).run();
        paths.extend(verbs(&help.ok().stdout).into_iter().map(|v| vec![group.to_owned(), v]));
    }
    assert!(paths.len() >= 25, "{paths:?}");
    for path in paths {
        let help = world.throng(path.iter().map(String::as_str).chain(["--help"])).run();
        help.ok().says("--team").says("--json");
        let is_group = !verbs(&help.stdout).is_empty();
        help.check("an example", is_group || help.stdout.contains("Example"));
        if !is_group {
            help.says(&format!("throng {}", path.join(" ")));
        }
        // The other way to ask says the same.
        let topic = world.throng(["help"]).args(&path).run();
        topic.ok().check("an example", is_group || topic.stdout.contains("Example"));
    }
}

#[test]
fn a_mistake_is_exit_code_2_with_a_hint() {
    let world = World::new();
    world.throng(["runn"]).run().code(2).complains("run").prints("");
    world.throng(["run"]).run().code(2).complains("<FILE>");
    world.throng(["send", "bob"]).run().code(2);
    world.throng(["wait", "--timeout", "soon"]).run().code(2).complains("90s");
    world.throng(["run", "x", "--backend", "screen"]).run().code(2).complains("tmux");
    world.throng(["help", "no-such"]).run().code(3).complains("no-such");
    world.throng(["status"]).run().code(3).complains("throng up FILE");
    world.plant_team("demo", &["bob"]);
    world.throng(["status", "--team", "dmeo"]).run().code(3).complains("did you mean demo?");
    world
        .throng(["status"])
        .without_env("HOME")
        .without_env("CLAUDE_CONFIG_DIR")
        .run()
        .code(2)
        .complains("HOME");
}

#[test]
fn a_bad_team_file_is_named_with_its_line_before_anything_starts() {
    let world = World::new();
    for (text, complaint) in [
        (
            "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncomand = [\"true\"]\n",
            "team.toml:5: unknown key of [[member]] 'comand': did you mean 'command'?",
        ),
        ("[team]\nname = \"t\"\n[[member]\n", "team.toml:3:"),
        (
            "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n[[task]]\nkey = \"k\"\nsubject = \"s\"\nowner = \"b\"\n",
            "team.toml:9: unknown owner 'b'",
        ),
        (
            "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\nrestart = \"sometimes\"\n",
            "team.toml:6:",
        ),
    ] {
        world.write("t/team.toml", text);
        for verb in ["run", "up"] {
            world.throng([verb, "t"]).run().code(2).complains(complaint);
            world.throng([verb, "t/team.toml"]).run().code(2).complains(complaint);
        }
    }
    world.throng(["run", "no-such"]).run().code(2).complains("no-such");
    assert!(!world.team("t").state_dir().exists() && !world.team("t").dir().exists());
    world.assert_nothing_left();
}

#[test]
fn probe_j11_the_protocol_is_explained() {
    let world = World::new();
    let help = world.throng(["help", "protocol"]).run();
    for word in [
        "THRONG_TEAM",
        "THRONG_AGENT",
        "THRONG_DIR",
        "THRONG_OUT",
        "inbox take",
        "send",
        "task claim",
        "task done",
        "config.json",
        "mkdir",
    ] {
        help.ok().says(word);
    }
}

#[test]
fn completions_and_manual_can_be_read_by_their_programs() {
    let world = World::new();
    let script = world.throng(["completions", "bash"]).run();
    world.write("throng.bash", &script.ok().stdout);
    world.program("bash").args(["-n", "throng.bash"]).run().ok();
    let words = "source ./throng.bash; COMP_WORDS=(throng sta); COMP_CWORD=1; _throng throng sta throng; echo \"${COMPREPLY[@]}\"";
    world.program("bash").args(["-c", words]).run().code(0).says("status");
    for shell in ["zsh", "fish"] {
        world.throng(["completions", shell]).run().ok().says("status");
    }
    world.throng(["completions", "tcl"]).run().code(2);
    world.throng(["man"]).run().ok().says(".TH throng 1").says("Exit codes").says("attach");
    world.throng(["man", "run"]).run().ok().says(".TH").says("timeout");
    world.throng(["--version"]).run().ok().prints(&format!("throng {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn doctor_tries_everything_and_leaves_nothing() {
    let world = World::new();
    let doctor = world.throng(["doctor", "--json"]).run();
    let report = doctor.ok().json();
    assert_eq!(report["ok"], true);
    let checks = report["checks"].as_array().unwrap();
    for what in [
        "shared files",
        "own state",
        "sockets",
        "processes",
        "pseudo-terminals",
        "backend auto",
        "backend process",
        "backend tmux",
    ] {
        let check =
            checks.iter().find(|c| c["check"] == what).unwrap_or_else(|| panic!("{what}: {checks:?}"));
        assert!(check["detail"].as_str().is_some_and(|d| !d.is_empty()), "{check}");
        assert!(check["ok"] == true || check["optional"] == true, "{check}");
    }
    let text = world.throng(["doctor"]).run();
    let has_row = text.ok().stdout.lines().any(|l| l.starts_with("backend process ") && l.contains(" ok "));
    text.check("a row for each", has_row);
    world.assert_nothing_left();
    // What it cannot do it says, with the path.
    let file = world.write("file", "");
    let bad = world.throng(["doctor", "--json"]).env("THRONG_STATE_DIR", file.join("below")).run();
    bad.code(5);
    let report = bad.json();
    let own =
        report["checks"].as_array().unwrap().iter().find(|c| c["check"] == "own state").cloned().unwrap();
    assert_eq!((&report["ok"], &own["ok"]), (&json!(false), &json!(false)));
    assert!(own["detail"].as_str().unwrap().contains("file/below"), "{own}");
}

#[test]
fn doctor_looks_at_the_claude_code_that_members_would_run() {
    let world = World::new();
    let program = world.write("claude", "#!/bin/sh\necho '2.9.9 (Claude Code)'\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let doctor = |path: &str| world.throng(["doctor"]).env("THRONG_CLAUDE", path).run();
    doctor(program.to_str().unwrap()).ok().says(&format!("2.9.9 at {}", program.display()));
    doctor("/nowhere/claude").ok().says("there is no program '/nowhere/claude'");
}
