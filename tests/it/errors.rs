//! What is said when something is wrong: of one bad file beside good ones, and to programs.

use crate::support::World;
use serde_json::{Value, json};
use std::fs;

#[test]
fn status_shows_the_others_beside_an_inbox_that_cannot_be_read_and_names_it() {
    let world = World::new();
    for name in ["ann", "bob"] {
        world.spawn_sleeper("t", name);
        world.throng(["send", name, "hello", "--team", "t"]).run().ok();
    }
    let team = world.team("t");
    for owner in ["bob", "team-lead"] {
        // Whoever runs the tests, a folder is no inbox.
        fs::remove_file(team.inbox_path(owner)).unwrap();
        fs::create_dir(team.inbox_path(owner)).unwrap();
        let shown = world.throng(["status", "--team", "t"]).run();
        shown.code(2).complains(&format!("inboxes/{owner}.json")).says("1 unread").says("mail unreadable");
        assert_eq!(shown.stdout.matches("process ").count(), 2, "both members: {}", shown.stdout);
        let shown = world.throng(["status", "--team", "t", "--json"]).run();
        let picture: Value = serde_json::from_str(&shown.code(2).stdout).unwrap();
        assert_eq!(picture["members"][0]["unread"], 1);
        let trouble = picture["mail_trouble"].as_array().unwrap();
        assert!(trouble.iter().any(|t| t.as_str().unwrap().contains(owner)), "{trouble:?}");
        let error: Value = serde_json::from_str(shown.stderr.trim()).unwrap();
        assert_eq!((&error["error"]["exit_code"], &error["error"]["kind"]), (&json!(2), &json!("usage")));
    }
    let messages = world.throng(["inbox", "status", "--team", "t"]).run();
    messages.code(2).complains("inboxes/bob.json").says("-> ann");
    // What may still wait in it is not called missing.
    assert!(!messages.stdout.contains("missing"), "{}", messages.stdout);
    fs::remove_dir(team.inbox_path("team-lead")).unwrap();
    fs::remove_dir(team.inbox_path("bob")).unwrap();
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn with_json_an_error_is_an_object_on_standard_error() {
    let world = World::new();
    let error = |words: &[&str], code: i32| -> Value {
        let outcome = world.throng(words.iter().copied()).run();
        outcome.code(code);
        assert!(outcome.stdout.is_empty(), "data only: {}", outcome.stdout);
        let error: Value = serde_json::from_str(outcome.stderr.trim()).expect("one object and nothing else");
        assert_eq!(error["error"]["exit_code"], code);
        error["error"].clone()
    };
    let missing = error(&["status", "--team", "none", "--json"], 3);
    assert_eq!(
        (&missing["kind"], &missing["message"]),
        (&json!("missing"), &json!("there is no team 'none'"))
    );
    // A command line that cannot be parsed, too, wherever the flag stands.
    for words in [["--json", "send"], ["stats", "--json"]] {
        let usage = error(&words, 2);
        assert!(!usage["message"].as_str().unwrap().is_empty());
        assert_eq!(usage["kind"], "usage");
    }
    world
        .write("t.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"no-such-program\"]\n");
    let not_started = error(&["up", "t.toml", "--json"], 5);
    assert_eq!(not_started["kind"], "not_started");
    // Behind -- it is the member's, and without it an error is text.
    world.throng(["spawn", "--", "--json"]).run().code(2).complains("error: ");
    world.throng(["status", "--team", "none"]).run().code(3).complains("throng: there is no team 'none'");
}
