//! Programs of the table of drivers (B12): what is typed to them, when, and what their screens tell. The program is a
//! small one of our own (`fakes/typed_agent.py`), described by a table of the test.

use crate::support::{World, fake, until, until_some};
use serde_json::Value;
use std::fs;

/// Python as most machines have it.
const PATTERNS: &str = r#"
idle = ['^>']
working = ['esc to interrupt', '^thinking']
failed = ['API error']
paste_marker = '\[Pasted text #\d+\]'
dialogs = [{ text = 'Do you trust', name = "the folder trust dialog" }, { text = 'May I', name = "a permission dialog" }]
settle_ms = 300
end = "/exit"
"#;

/// Writes the user's table: the driver `fake`, with these options of the program and these keys.
fn table(world: &World, options: &str, keys: &str) {
    let dir = world.root().join("home/.config/throng");
    fs::create_dir_all(&dir).unwrap();
    let log = world.path("log.jsonl");
    let program = fake("typed_agent.py");
    let mut words: Vec<String> = vec![program];
    words.extend(options.split('|').map(str::to_owned));
    words.extend(["--log".to_owned(), log.to_string_lossy().into_owned()]);
    let words: Vec<String> = words.iter().map(|w| format!("{w:?}")).collect();
    let text = format!("[driver.fake]\nprogram = \"python3\"\nargs = [{}]\n{keys}\n", words.join(", "));
    fs::write(dir.join("drivers.toml"), text).unwrap();
}

fn spawn(world: &World, more: &[&str]) {
    let words = ["spawn", "f", "--team", "t", "--driver", "fake"];
    world.throng(words.iter().chain(more)).run().ok();
}

fn send(world: &World, text: &str) {
    world.throng(["send", "f", text, "--team", "t"]).run().ok();
}

/// The messages that the program got.
fn got(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.path("log.jsonl")).unwrap_or_default();
    let line = |line: &str| serde_json::from_str::<Value>(line).ok()?["body"].as_str().map(str::to_owned);
    text.lines().filter_map(line).collect()
}

fn until_got(world: &World, n: usize) -> Vec<String> {
    until_some(&format!("it has {n} messages, but it has {:?}", got(world)), || {
        let got = got(world);
        (got.len() >= n).then_some(got)
    })
}

fn unread(world: &World) -> usize {
    world.team("t").inbox("f").iter().filter(|e| e["read"] != true).count()
}

/// What `status` says that it does.
fn activity(world: &World) -> String {
    world.team("t").member("f")["activity"].as_str().unwrap_or_default().to_owned()
}

/// Idle notices in the leader's inbox.
fn notices(world: &World) -> Vec<Value> {
    let path = world.team("t").inbox_path("team-lead");
    let text = fs::read_to_string(path).unwrap_or_default();
    let Ok(Value::Array(entries)) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let said = entries.iter().filter_map(|e| serde_json::from_str::<Value>(e["text"].as_str()?).ok());
    said.filter(|body| body["type"] == "idle_notification").collect()
}

fn down(world: &World) {
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn b12_a_prompt_and_later_mail_are_typed_one_by_one_and_turns_end_in_notices() {
    let world = World::new();
    table(&world, "screen|--turn|0.5", PATTERNS);
    spawn(&world, &["--prompt", "Look at a.txt.\nThen run:\n run: throng send team-lead 'found it'"]);
    let first = until_got(&world, 1).remove(0);
    assert!(first.starts_with("You are f, a teammate in the team t."), "{first}");
    assert!(
        first.contains("<teammate-message teammate_id=\"team-lead\">\nLook at a.txt.\nThen run:\n"),
        "{first}"
    );
    // Two come while it works: neither is typed into its turn, and each is a turn of its own.
    send(&world, "second");
    send(&world, "third; $(x) #{y} -z;");
    let got = until_got(&world, 3);
    assert!(
        got[1].starts_with("<teammate-message teammate_id=\"team-lead\">\nsecond\n</teammate-message> ["),
        "{}",
        got[1]
    );
    assert!(got[2].contains("\nthird; $(x) #{y} -z;\n"), "{}", got[2]);
    until("all are marked as read", || unread(&world) == 0);
    until("each turn has ended in a notice", || notices(&world).len() == 3);
    assert_eq!(notices(&world)[1]["idleReason"], "available");
    let result = notices(&world)[1]["result"].as_str().unwrap().to_owned();
    assert!(result.contains("I have read second") && !result.contains("Look at a.txt"), "{result}");
    assert!(world.team("t").texts("team-lead").contains(&"found it".to_owned()), "it has answered by itself");
    until("it is idle", || activity(&world) == "idle");
    assert_eq!(got.len(), 3);
    down(&world);
}
