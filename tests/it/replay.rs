//! Recordings and replays of an agent of ours (D10): a real process, a stub of a model service on a socket, then nobody.

use crate::support::World;
use crate::support::model::{Model, Part, refuse, say, tool};
use crate::support::{Call, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// An address at which nobody answers.
const NOBODY: &str = "http://127.0.0.1:9";

/// What the model does when it is asked to look: it reads a file and says where it is. Asked to make: it writes another in
/// a temporary folder.
fn parts(world: &World) -> Vec<Part> {
    let read = |file: &str| tool("Read", json!({"file_path": world.path(file)}));
    let look = "cat a.txt && date +%F && pwd && echo \"$HOME\" && echo '{directory} {tmp:1}'";
    let make =
        "d=$(mktemp -d) && cp a.txt \"$d/b\" && echo \"$d\" && cat \"$d/b\" && ls \"$TMPDIR\"/x 2>&1; true";
    vec![
        Part::new(
            "Look at a.txt",
            vec![
                vec![say("I look."), read("a.txt")],
                vec![read("a.txt"), read("b.txt")],
                vec![tool("Bash", json!({"command": look}))],
                vec![say("It says what it says.")],
            ],
        ),
        Part::new("Make one", vec![vec![tool("Bash", json!({"command": make}))], vec![say("Made.")]]),
    ]
}

const LOOK: &str = "Look at a.txt";

fn agent(world: &World, prompt: &str, words: &[&str]) -> Call {
    let usual = ["agent", "run", "--allow", "Bash", "--output-format", "stream-json", "--prompt", prompt];
    world.throng(usual.iter().chain(words))
}

fn record(world: &World, model: &Model, prompt: &str) -> Outcome {
    model.known_to(agent(world, prompt, &["--model", "m", "--record", "tape"])).run()
}

/// Without a key, and with nobody at the model's address.
fn replay(world: &World, prompt: &str) -> Outcome {
    agent(world, prompt, &["--replay", "tape"]).env("ANTHROPIC_BASE_URL", NOBODY).run()
}

/// The one transcript in a folder of the state directory.
fn transcript(world: &World, folder: &str) -> String {
    let mut files: Vec<PathBuf> =
        fs::read_dir(world.state_dir().join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    assert_eq!(files.len(), 1, "{files:?}");
    fs::read_to_string(&files[0]).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A world with a recording in `tape/main.jsonl`.
fn recorded(prompt: &str) -> (World, Outcome) {
    let world = World::new();
    world.write("a.txt", "first\nsecond\n");
    world.write("b.txt", "another\n");
    world.write("CLAUDE.md", "Be brief.\n");
    let model = Model::start(parts(&world));
    let outcome = record(&world, &model, prompt);
    outcome.ok();
    assert!(model.requests().len() >= 2);
    (world, outcome)
}

/// A recording in another world, with other folders and another home.
fn carried(from: &World) -> World {
    let world = World::new();
    for file in ["a.txt", "b.txt", "CLAUDE.md", "tape/main.jsonl"] {
        world.write(file, from.read(file));
    }
    world
}

#[test]
fn probe_d10_a_recorded_run_is_replayed_byte_for_byte_without_a_network() {
    let (world, outcome) = recorded(LOOK);
    let tape = world.path("tape/main.jsonl");
    assert_eq!(fs::metadata(&tape).unwrap().permissions().mode() & 0o777, 0o600);
    let again = replay(&world, LOOK);
    assert_eq!(again.ok().stdout, outcome.stdout);
    assert!(outcome.stdout.contains("It says what it says."), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("{directory} {tmp:1}"), "{}", outcome.stdout);
    assert_eq!(transcript(&world, "replays"), transcript(&world, "sessions"));
    // Each message stands once, and neither key nor header in it.
    let recording = world.read("tape/main.jsonl");
    assert_eq!(recording.matches(LOOK).count(), 1, "{recording}");
    assert!(!recording.contains(crate::support::model::KEY) && !recording.contains("x-api-key"));
    // Once more: a replay changes nothing.
    assert_eq!(replay(&world, LOOK).ok().stdout, outcome.stdout);
    world.assert_nothing_left();
}

#[test]
fn probe_d10_another_directory_home_and_day_make_no_difference() {
    for prompt in [LOOK, "Make one"] {
        let (world, _) = recorded(prompt);
        let elsewhere = carried(&world);
        // As if it had been recorded long ago.
        let day = lines(&world.read("tape/main.jsonl"))[0]["time"].as_str().unwrap()[..10].to_owned();
        elsewhere.write("tape/main.jsonl", world.read("tape/main.jsonl").replace(&day, "2020-02-29"));
        replay(&elsewhere, prompt).ok();
        let told = transcript(&elsewhere, "replays");
        assert!(told.contains("\"time\":\"2020-02-29T"), "{told}");
        assert!(!told.contains(&*world.root().to_string_lossy()), "{told}");
    }
}

#[test]
fn probe_d10_a_changed_file_of_the_project_is_a_difference_and_is_shown() {
    let (world, _) = recorded(LOOK);
    world.write("b.txt", "another thing\n");
    let outcome = replay(&world, LOOK);
    outcome.code(6);
    for part in [
        "the replay differs: call 3 of tape/main.jsonl: message 5 block 2 (tool_result of Read {\"file_path\":\"{directory}/b.txt\"}) content",
        "recorded ",
        ", now ",
        "another thing\\n\"",
    ] {
        outcome.complains(part);
    }
    let last = lines(&outcome.stdout).pop().unwrap();
    assert_eq!((&last["type"], &last["is_error"]), (&json!("result"), &json!(true)));
    world.write("b.txt", "another\n");
    world.write("CLAUDE.md", "Be very brief.\n");
    replay(&world, LOOK)
        .code(6)
        .complains("call 1 of tape/main.jsonl: system part 2")
        .complains("very brief");
    world.write("CLAUDE.md", "Be brief.\n");
    replay(&world, "Look at a.txt now")
        .code(6)
        .complains("call 1")
        .complains("message 1 block 1 (text) text");
    replay(&world, LOOK).ok();
}

#[test]
fn probe_d10_calls_that_are_missing_or_left_are_a_difference() {
    let (world, _) = recorded(LOOK);
    let whole = world.read("tape/main.jsonl");
    let lines: Vec<&str> = whole.lines().collect();
    let first_three = format!("{}\n", lines[..3].join("\n"));
    // A torn last line is none, and is told.
    let torn = format!("{first_three}{}", &lines[3][..lines[3].len() / 2]);
    for (text, holds) in [(first_three, "2"), (torn, "2, and a last line that was cut off")] {
        world.write("tape/main.jsonl", text);
        replay(&world, LOOK)
            .code(6)
            .complains(&format!("call 3 was not recorded: tape/main.jsonl holds {holds}; asked: user"));
    }
    world.write("tape/main.jsonl", &whole);
    let limited = agent(&world, LOOK, &["--replay", "tape", "--max-turns", "2"]).run();
    limited.code(6).complains("of the 4 recorded calls of tape/main.jsonl only 2 were made");
    world.write("tape/main.jsonl", whole.replacen("\"events\":[", "\"events\":{", 1));
    replay(&world, LOOK).code(2).complains("tape/main.jsonl:2: ").complains("record again");
    world.write("tape/main.jsonl", whole.replacen("\"version\":1", "\"version\":9", 1));
    replay(&world, LOOK).code(2).complains("tape/main.jsonl:1: a recording of version 9");
}

#[test]
fn d10_a_recording_is_not_overwritten() {
    let (world, _) = recorded(LOOK);
    let before = world.read("tape/main.jsonl");
    record(&world, &Model::start(parts(&world)), LOOK)
        .code(2)
        .complains("another session")
        .complains("tape/main.jsonl");
    assert_eq!(world.read("tape/main.jsonl"), before);
}

#[test]
fn d10_a_failure_of_the_service_is_replayed_too() {
    let world = World::new();
    let model = Model::start(vec![Part::new("Look", vec![vec![refuse("no such thing")]])]);
    let outcome = record(&world, &model, LOOK);
    outcome.code(6).complains("no such thing");
    drop(model);
    let again = replay(&world, LOOK);
    again.code(6).complains("no such thing");
    assert_eq!(again.stdout, outcome.stdout);
    assert_eq!(transcript(&world, "replays"), transcript(&world, "sessions"));
}
