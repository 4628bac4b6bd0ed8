//! Programs that run one turn for each message (`mail = "resume"`): what is in the way of a turn, its mark or its notice
//! neither repeats nor loses it.

use crate::support::{World, until};
use serde_json::Value;
use std::fs;

/// Writes the driver `once`: a script of sh that has its message on standard input, and names the conversation `s-7`.
fn table(world: &World, script: &str, keys: &str) {
    let dir = world.root().join("home/.config/throng");
    fs::create_dir_all(&dir).unwrap();
    let script = format!("text=$(cat); echo \"$*\" >> turns.log; {script}");
    let table = format!(
        "[driver.once]\nprogram = \"sh\"\nmail = \"resume\"\nsession = 'session id: (\\S+)'\n\
         args = [\"-c\", {script:?}, \"once\", \"first\"]\n\
         resume = [\"-c\", {script:?}, \"once\", \"later\", \"{{session}}\"]\n{keys}\n"
    );
    fs::write(dir.join("drivers.toml"), table).unwrap();
}

fn spawn(world: &World) {
    world.throng(["spawn", "f", "--team", "t", "--driver", "once", "--prompt", "one"]).run().ok();
}

fn send(world: &World, text: &str) {
    world.throng(["send", "f", text, "--team", "t"]).run().ok();
}

fn notices(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.team("t").inbox_path("team-lead")).unwrap_or_default();
    let Ok(Value::Array(entries)) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let said = entries.iter().filter_map(|e| serde_json::from_str::<Value>(e["text"].as_str()?).ok());
    said.filter(|body| body["type"] == "idle_notification").collect()
}

fn unread(world: &World) -> usize {
    world.team("t").inbox("f").iter().filter(|e| e["read"] != true).count()
}

/// What it needs a person for, as its `tend` has written it down.
fn trouble(world: &World) -> String {
    let path = world.team("t").state_dir().join("members/f.json");
    let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    record["sight"]["what"].as_str().unwrap_or_default().to_owned()
}

fn down(world: &World) {
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_turn_ends_with_its_program_whatever_that_left_running() {
    let world = World::new();
    table(&world, "sleep 600 & while :; do echo more; sleep 0.01; done & echo answer", "stdin = true");
    spawn(&world);
    until("its turn has ended", || notices(&world).len() == 1);
    assert!(notices(&world)[0]["result"].as_str().unwrap().contains("answer"));
    until("it is idle", || world.team("t").member("f")["activity"] == "idle");
    down(&world);
}

#[test]
fn the_conversation_is_known_after_a_turn_of_any_length() {
    let world = World::new();
    let long = "echo 'session id: s-7'; yes 'some more words' | head -c 1000000; echo answer";
    table(&world, long, "stdin = true");
    spawn(&world);
    until("the first turn has ended", || notices(&world).len() == 1);
    send(&world, "two");
    until("the second turn has ended", || notices(&world).len() == 2);
    assert_eq!(world.read("turns.log"), "first\nlater s-7\n");
    let result = notices(&world)[0]["result"].as_str().unwrap().to_owned();
    assert!(result.len() <= 4000 && result.ends_with("answer"), "{result}");
    down(&world);
}

#[test]
fn where_no_conversation_is_known_another_begins() {
    let world = World::new();
    table(&world, "echo answer to \"$text\"", "stdin = true");
    spawn(&world);
    until("the first turn has ended", || notices(&world).len() == 1);
    send(&world, "two");
    until("the second turn has ended", || notices(&world).len() == 2);
    assert_eq!(world.read("turns.log"), "first\nfirst\n");
    down(&world);
}

#[test]
fn a_turn_that_cannot_be_told_is_told_later_and_not_repeated() {
    let world = World::new();
    table(&world, "echo 'session id: s-7'", "stdin = true");
    spawn(&world);
    until("the first turn has ended", || notices(&world).len() == 1);
    let pid = world.team("t").pid("f");
    let inbox = world.team("t").inbox_path("team-lead");
    let kept = fs::read(&inbox).unwrap();
    fs::remove_file(&inbox).unwrap();
    fs::create_dir(&inbox).unwrap();
    send(&world, "two");
    until("it says what is in the way", || trouble(&world).starts_with("its leader is not told:"));
    assert_eq!(unread(&world), 0, "it was done");
    fs::remove_dir(&inbox).unwrap();
    fs::write(&inbox, kept).unwrap();
    until("it is told", || notices(&world).len() == 2);
    until("it is idle", || world.team("t").member("f")["activity"] == "idle");
    assert_eq!(world.read("turns.log"), "first\nlater s-7\n");
    assert_eq!(world.team("t").pid("f"), pid, "nothing has ended");
    down(&world);
}

#[test]
fn a_message_that_cannot_be_put_into_its_file_stays_unread() {
    let world = World::new();
    table(&world, "echo 'session id: s-7'", "");
    let table = world.root().join("home/.config/throng/drivers.toml");
    let text = fs::read_to_string(&table).unwrap();
    let text = text.replace("\"first\"]", "\"first\", \"{prompt}\"]");
    fs::write(&table, text.replace("\"{session}\"]", "\"{session}\", \"{prompt}\"]")).unwrap();
    spawn(&world);
    until("the first turn has ended", || notices(&world).len() == 1);
    let log = world.read("turns.log");
    let path = log.split("is in the file ").nth(1).unwrap().split(" - ").next().unwrap();
    assert!(fs::read_to_string(path).unwrap().contains("\n\none"), "{log}");
    assert!(!log.contains("teammate-message"), "nothing of it is among the arguments: {log}");
    let dir = std::path::Path::new(path).parent().unwrap().to_owned();
    fs::rename(&dir, dir.with_extension("away")).unwrap();
    fs::write(&dir, "in the way").unwrap();
    send(&world, "two");
    until("it says what is in the way", || trouble(&world).starts_with("mail stays unread: cannot write "));
    assert_eq!((unread(&world), notices(&world).len()), (1, 1));
    fs::remove_file(&dir).unwrap();
    until("the second turn has ended", || notices(&world).len() == 2);
    until("it is marked as read", || unread(&world) == 0);
    down(&world);
}
