//! Names: who is meant, and that no name leaves its folder.

use crate::support::world::walk;
use crate::support::{World, fixture};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

#[test]
fn case_c019_probe_d10_an_unknown_name_is_an_error_and_makes_no_file() {
    let world = World::new();
    let team = world.plant_team("demo", &["engineer"]);
    let send = |args: &[&str]| world.throng(["send", "--team", "demo"]).args(args).run();
    send(&["enginer", "x"]).code(3).complains("no member 'enginer'").complains("did you mean engineer?");
    send(&["zzzzzz", "x"]).code(3).complains("--force");
    assert!(!team.dir().join("inboxes").exists(), "no inbox was made");
    send(&["engineer", "1"]).ok();
    send(&["Engineer", "2"]).ok();
    send(&["ENGINEER@demo", "3"]).ok();
    send(&["engineer@other", "x"]).code(2);
    assert_eq!(team.texts("engineer"), ["1", "2", "3"]);
    let files: Vec<_> = fs::read_dir(team.dir().join("inboxes")).unwrap().collect();
    assert_eq!(files.len(), 1, "one member, one file: {files:?}");
    // Somebody who is to come may be written to on purpose.
    send(&["zzzzzz", "later", "--force"]).ok();
    assert_eq!(team.texts("zzzzzz"), ["later"]);
}

#[test]
fn case_c019_probe_d14_a_message_to_a_member_that_left_is_kept_and_told() {
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    world.throng(["stop", "bob", "--team", "demo"]).run().ok();
    let outcome = world.throng(["send", "bob", "x", "--team", "demo"]).run();
    outcome.code(3).complains("not alive").complains("kept");
    assert_eq!(world.team("demo").texts("bob"), ["x"]);
    // It is there when the member returns.
    world.throng(["spawn", "bob", "--team", "demo", "--", "sh", "-c", "throng inbox take > got"]).run().ok();
    world.throng(["wait", "bob", "--team", "demo"]).run().ok();
    assert_eq!(world.read("got"), "x\n");
}

#[test]
fn probe_d12_the_leader_has_an_alias_and_its_names_are_reserved() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for name in ["lead", "Lead", "team-lead", "team-lead@demo"] {
        world.throng(["send", name, "x", "--team", "demo"]).by("bob").run().ok();
    }
    assert_eq!(team.inbox("team-lead").len(), 4);
    for name in ["team-lead", "lead", "LEAD", "Team-Lead", "main", "user", "system"] {
        world.throng(["spawn", name, "--team", "new", "--", "true"]).run().code(2).complains("reserved");
    }
    assert!(!world.team("new").dir().exists() && !world.team("new").state_dir().exists());
}

/// The names of the fixture that are to be refused, unescaped.
fn refused_names() -> Vec<String> {
    let table = fs::read_to_string(fixture("C095/names.tsv")).unwrap();
    let row = |line: &str| {
        let (name, right) = line.split_once('\t').unwrap();
        let name =
            name.replace("\\\\", "\u{1}").replace("\\n", "\n").replace("\\0", "\0").replace('\u{1}', "\\");
        (name, right.to_owned())
    };
    let mut names: Vec<String> = table
        .lines()
        .skip(1)
        .map(row)
        .filter(|(_, right)| !right.starts_with("accept ") && right != "accept")
        .map(|r| r.0)
        .collect();
    assert!(names.len() >= 12, "{names:?}");
    // Rows that leave us a choice, and those of probe D27: ASCII only, no '.', no blank.
    names.extend(
        ["проект", "a b", "demo.json", "%2e%2e", "ü", "日本", "a.b", "../x", ".", ".."].map(str::to_owned),
    );
    names.push("x".repeat(300));
    // A program's arguments hold no NUL.
    names.retain(|n| !n.contains('\0'));
    names
}

/// Every path below the world.
fn tree(world: &World) -> Vec<PathBuf> {
    let mut all = Vec::new();
    walk(world.root(), &mut |path, _| all.push(path.to_owned()));
    all.sort();
    all
}

#[test]
fn case_c095_probe_d27_no_name_on_the_command_line_leaves_its_folder() {
    let world = World::new();
    world.plant_team("demo", &["bob"]);
    world.throng(["task", "add", "A task", "--team", "demo"]).run().ok();
    let names = refused_names();
    let before = tree(&world);
    for name in &names {
        let name = name.as_str();
        for args in [
            &["--team", name, "status"][..],
            &["--team", name, "spawn", "bob", "--", "true"],
            &["--team", name, "send", "bob", "x"],
            &["down", name],
            &["--team", "demo", "spawn", name, "--", "true"],
            &["--team", "demo", "send", name, "x"],
            &["--team", "demo", "send", name, "x", "--force"],
            &["--team", "demo", "send", "bob", "x", "--from", name],
            &["--team", "demo", "inbox", "list", name],
            &["--team", "demo", "inbox", "take", "--as", name],
            &["--team", "demo", "inbox", "follow", name],
            &["--team", "demo", "logs", name],
            &["--team", "demo", "screen", name],
            &["--team", "demo", "attach", name],
            &["--team", "demo", "stop", name],
            &["--team", "demo", "wait", name],
            &["--team", "demo", "task", "add", "x", "--owner", name],
            &["--team", "demo", "task", "claim", "1", "--as", name],
            &["--team", "demo", "task", "show", name],
            &["--team", "demo", "task", "done", name],
            &["--team", "demo", "task", "update", name, "--subject", "x"],
            &["--team", "demo", "task", "add", "x", "--blocked-by", name],
        ] {
            let outcome = world.throng(args).run();
            outcome.check("refused with 2 or 3", matches!(outcome.code, Some(2 | 3)));
        }
        if !name.is_empty() {
            for key in ["THRONG_TEAM", "THRONG_AGENT"] {
                world.throng(["inbox", "list"]).env("THRONG_TEAM", "demo").env(key, name).run().code(2);
            }
        }
        assert_eq!(tree(&world), before, "'{name}' made or removed something");
    }
    // Good names are good everywhere.
    world.throng(["spawn", "Demo-1_x", "--team", "de-mo1", "--", "sleep", "600"]).run().ok();
    world.throng(["spawn", "CON", "--team", "de-mo1", "--", "sleep", "600"]).run().ok();
    world.throng(["send", "Demo-1_x", "x", "--team", "de-mo1", "--from", "CON"]).run().ok();
}

#[test]
fn case_c095_no_name_in_a_team_file_leaves_its_folder() {
    let world = World::new();
    for name in refused_names() {
        let name = json!(name).to_string();
        for text in [
            format!("[team]\nname = {name}\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n"),
            format!("[team]\nname = \"t\"\n[[member]]\nname = {name}\ncommand = [\"true\"]\n"),
            format!(
                "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n[[task]]\nkey = \"k\"\nsubject = \"s\"\nowner = {name}\n"
            ),
        ] {
            world.write("t/team.toml", &text);
            let before = tree(&world);
            world.throng(["run", "t"]).run().code(2).complains("team.toml:");
            assert_eq!(tree(&world), before, "{text}");
        }
    }
}

#[test]
fn case_c095_hostile_names_in_files_of_others_reach_no_path() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob", "../../../here/victim", "/etc/passwd", "a/b"]);
    world.write("victim.json", "precious");
    let entry =
        json!([{"from": "../../../here/victim", "text": "t", "timestamp": "2030-01-02T03:04:05.678Z"}]);
    team.plant_inbox("bob", entry.to_string());
    team.plant_task(
        "1",
        &json!({"id": "../../../here/victim", "subject": "s", "status": "pending", "owner": "a/b"}),
    );
    fs::create_dir_all(world.state_dir().join("teams/..odd")).unwrap();
    for args in [
        &["status", "--team", "demo"][..],
        &[],
        &["inbox", "list", "bob", "--team", "demo"],
        &["send", "bob", "x", "--team", "demo"],
        &["task", "list", "--team", "demo"],
        &["gc"],
    ] {
        world.throng(args).run().code(0);
    }
    world.throng(["send", "../../../here/victim", "x", "--team", "demo"]).run().code(2);
    let done = world.throng(["task", "done", "../../../here/victim", "--team", "demo"]).run();
    done.check("refused", done.code != Some(0));
    let claimed = world.throng(["task", "claim", "../../../here/victim", "--team", "demo"]).run();
    claimed.check("refused", claimed.code != Some(0));
    assert_eq!(world.read("victim.json"), "precious");
    assert!(world.state_dir().join("teams/..odd").exists(), "gc leaves alone what is not its own");
    assert_eq!(fs::read_dir(world.path("")).unwrap().count(), 1, "nothing was made beside it");
}
