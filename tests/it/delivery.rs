//! What became of messages: broadcast, receipts, dead letters, alarms, and idle notices that are no noise.

use crate::support::{Outcome, Team, World, until};
use serde_json::{Value, json};
use std::fs;

const IDLE: &str = r#"{"type":"idle_notification","from":"bob","timestamp":"2026-11-30T16:00:10.853Z","idleReason":"available"}"#;

fn send(world: &World, from: &str, words: &[&str]) -> Outcome {
    world.throng(["send"].iter().chain(words).chain(&["--team", "demo", "--json"])).by(from).run()
}

/// Sends a message that arrives, and answers its id.
fn sent(world: &World, from: &str, words: &[&str]) -> String {
    send(world, from, words).ok().json()["msg_id"].as_str().unwrap().to_owned()
}

/// Every message with its state, oldest first, by `throng inbox status`.
fn messages(world: &World, words: &[&str]) -> Vec<Value> {
    let outcome = world.throng(["inbox", "status", "--team", "demo", "--json"].iter().chain(words)).run();
    outcome.ok().json()["messages"].as_array().unwrap().clone()
}

fn states(world: &World) -> Vec<String> {
    messages(world, &[]).iter().map(|m| m["state"].as_str().unwrap().to_owned()).collect()
}

fn demo<'a>(world: &'a World, names: &[&str]) -> Team<'a> {
    names.iter().for_each(|name| world.spawn_sleeper("demo", name));
    world.team("demo")
}

#[test]
fn goal_a6_a_message_is_queued_delivered_and_answered() {
    let world = World::new();
    let team = demo(&world, &["bob"]);
    let asked = sent(&world, "team-lead", &["bob", "what is 6 x 7?"]);
    let also = sent(&world, "team-lead", &["bob", "and 7 x 6?"]);
    assert_eq!(states(&world), ["queued", "queued"]);
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok();
    assert_eq!(states(&world), ["delivered", "queued"]);
    // The beginning of an id is enough.
    let answer = sent(&world, "bob", &["lead", "42", "--reply-to", &asked[..8]]);
    assert_eq!(team.inbox("team-lead")[0]["in_reply_to"], asked);
    let all = messages(&world, &[]);
    assert_eq!(states(&world), ["answered", "queued", "queued"]);
    assert_eq!((&all[0]["answered_by"], &all[0]["msg_id"]), (&json!(answer), &json!(asked)));
    assert_eq!(
        (&all[2]["in_reply_to"], &all[2]["from"], &all[2]["to"]),
        (&json!(asked), &json!("bob"), &json!("team-lead"))
    );
    assert!(all[0]["age_ms"].is_u64() && all[0]["since"].is_string());
    world
        .throng(["inbox", "status", "bob", "--team", "demo"])
        .run()
        .ok()
        .says(&format!("{}  team-lead -> bob  answered", &asked[..8]))
        .says(&format!("{}  team-lead -> bob  queued", &also[..8]))
        .says("what is 6 x 7?");
    // What waits is known from the file alone.
    fs::remove_file(team.state_dir().join("journal.jsonl")).unwrap();
    assert_eq!(states(&world), ["answered", "queued", "queued"]);
    assert_eq!(messages(&world, &["carol"]), Vec::<Value>::new());
    for id in ["no-such-id", &asked[..3]] {
        send(&world, "bob", &["lead", "x", "--reply-to", id]).code(3).complains("throng inbox status");
    }
    assert_eq!(team.inbox("team-lead").len(), 1, "nothing was sent");
}

#[test]
fn goal_a6_a_message_that_left_the_file_is_told_by_the_journal() {
    let world = World::new();
    let team = demo(&world, &["bob"]);
    sent(&world, "team-lead", &["bob", "read and pruned"]);
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok();
    sent(&world, "team-lead", &["bob", "lost"]);
    // Another program begins a new file.
    team.plant_inbox("bob", "[]");
    assert_eq!(states(&world), ["delivered", "missing"]);
    // A member of another program removes what it has read.
    let mut config = team.config();
    config["members"].as_array_mut().unwrap().push(json!({"agentId": "claude@demo", "name": "claude"}));
    fs::write(team.config_path(), config.to_string()).unwrap();
    sent(&world, "team-lead", &["claude", "hello"]);
    assert_eq!(states(&world)[2], "queued");
    team.plant_inbox("claude", "[]");
    assert_eq!(states(&world)[2], "delivered");
    // After the end it is still known.
    world.throng(["down", "demo"]).run().code(0);
    assert_eq!(states(&world).len(), 3);
}

#[test]
fn probe_d14_a_message_to_a_stopped_member_is_a_dead_letter() {
    let world = World::new();
    let team = demo(&world, &["alice", "bob"]);
    sent(&world, "alice", &["bob", "before the end"]);
    world.throng(["stop", "bob", "--team", "demo", "--grace", "2s"]).run().code(0);
    send(&world, "alice", &["bob", "too late"]).code(3).complains("bob is not alive");
    sent(&world, "team-lead", &["alice", "alive"]);
    let dead = messages(&world, &["--dead"]);
    let texts: Vec<&str> = dead.iter().map(|m| m["summary"].as_str().unwrap()).collect();
    assert_eq!(texts, ["before the end", "too late"]);
    assert!(dead.iter().all(|m| m["state"] == "dead" && m["from"] == "alice"));
    world.throng(["inbox", "status", "--dead", "--team", "demo"]).run().ok().says("alice -> bob  dead");
    assert_eq!(team.status()["dead_letters"], 2);
    world
        .throng(["status", "--team", "demo"])
        .run()
        .ok()
        .says("dead letters: 2, see 'throng inbox status --dead'");
    // It returns and reads them.
    world.spawn_sleeper("demo", "bob");
    assert_eq!(messages(&world, &["--dead"]), Vec::<Value>::new());
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok().prints("before the end\n");
}

#[test]
fn a_broadcast_is_one_message_to_each_told_one_by_one() {
    let world = World::new();
    let team = demo(&world, &["alice", "bob", "carol"]);
    world
        .throng(["send", "*", "stop and save", "--team", "demo"])
        .run()
        .ok()
        .prints("alice  sent\nbob    sent\ncarol  sent\n");
    for name in ["alice", "bob", "carol"] {
        assert_eq!(team.texts(name), ["stop and save"]);
    }
    assert!(!team.inbox_path("team-lead").exists() || team.inbox("team-lead").is_empty(), "not to oneself");
    // One of them dies: its message is kept, the others get theirs.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(team.pid("bob")), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    team.until_member("bob", "exited");
    let outcome = send(&world, "alice", &["*", "who is there?", "--summary", "roll call"]);
    let told = outcome.code(3).complains("not alive: bob").json();
    let alive: Vec<(&str, bool)> = told["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| {
            assert_eq!(m["sent"], true);
            (m["to"].as_str().unwrap(), m["recipient_is_alive"] == true)
        })
        .collect();
    assert_eq!(alive, [("team-lead", true), ("bob", false), ("carol", true)]);
    let id = |name: &str| team.inbox(name).pop().unwrap()["msg_id"].clone();
    assert!(id("team-lead") != id("bob") && id("bob") != id("carol"), "an id each");
    assert_eq!(team.texts("alice"), ["stop and save"]);
    world
        .throng(["send", "*", "again", "--team", "demo"])
        .run()
        .code(3)
        .says("bob    sent, but it is not alive (exited): kept until it returns\n");
}

#[test]
fn a_broadcast_with_one_inbox_that_cannot_be_written_reaches_the_others() {
    let world = World::new();
    let team = world.plant_team("demo", &["alice", "bob", "carol"]);
    fs::create_dir_all(team.inbox_path("bob")).unwrap();
    let outcome = world.throng(["send", "*", "hello", "--team", "demo"]).run();
    outcome.says("bob    not sent: ").check("it failed", outcome.code.is_some_and(|code| code != 0));
    assert_eq!(
        (team.texts("alice"), team.texts("carol")),
        (vec!["hello".to_owned()], vec!["hello".to_owned()])
    );
    let world = World::new();
    world.plant_team("demo", &[]);
    send(&world, "team-lead", &["*", "hello"]).code(3).complains("nobody else is in team 'demo'");
}

#[test]
fn sending_to_oneself_works_with_a_note() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for (me, to) in [("bob", "bob"), ("team-lead", "lead"), ("bob", "BOB"), ("bob", "bob@demo")] {
        let outcome = send(&world, me, &[to, "remember"]);
        outcome.code(0).complains("is you: the message is in your own inbox");
        assert_eq!(outcome.json()["to_oneself"], true);
    }
    assert_eq!((team.texts("bob").len(), team.texts("team-lead").len()), (3, 1));
}

#[test]
fn probe_d11_a_type_of_agent_is_no_address() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob", "carol", "Reviewer2"]);
    let mut config = team.config();
    for row in [1, 2] {
        config["members"][row]["agentType"] = json!("reviewer");
    }
    fs::write(team.config_path(), config.to_string()).unwrap();
    send(&world, "team-lead", &["reviewer", "please look"]).code(3).complains("send to bob and carol");
    assert!(!team.inbox_path("reviewer").exists());
    // A name goes before a type.
    config["members"][3]["name"] = json!("Reviewer");
    fs::write(team.config_path(), config.to_string()).unwrap();
    sent(&world, "team-lead", &["reviewer", "please look"]);
    assert_eq!(team.texts("Reviewer"), ["please look"]);
}

#[test]
fn case_c019_a_wrong_name_makes_no_inbox() {
    let world = World::new();
    let team = world.plant_team("demo", &["engineer"]);
    send(&world, "team-lead", &["enginer", "x"]).code(3).complains("did you mean engineer?");
    send(&world, "team-lead", &["nobody-like-that", "x"]).code(3).complains("--force");
    assert!(!team.dir().join("inboxes").exists(), "no file was made");
    for name in ["engineer", "Engineer", "engineer@demo"] {
        sent(&world, "team-lead", &[name, name]);
    }
    assert_eq!(team.texts("engineer"), ["engineer", "Engineer", "engineer@demo"]);
    assert_eq!(fs::read_dir(team.dir().join("inboxes")).unwrap().count(), 1, "one file in any spelling");
    // Before it joins, on demand.
    sent(&world, "team-lead", &["later", "x", "--force"]);
    assert_eq!(team.texts("later"), ["x"]);
}

#[test]
fn probe_d01_unread_mail_has_an_age_and_raises_an_alarm() {
    let world = World::new();
    let team = demo(&world, &["bob"]);
    let quiet = team.member("bob");
    assert_eq!((&quiet["oldest_unread"], &quiet["alarm"]), (&Value::Null, &json!(false)));
    sent(&world, "team-lead", &["bob", "fresh"]);
    assert_eq!(team.member("bob")["alarm"], false);
    let old = json!({"from": "x", "text": "old", "timestamp": "2020-01-02T03:04:05.678Z"});
    team.plant_inbox(
        "bob",
        json!([old, {"from": "x", "text": "new", "timestamp": "2026-01-02T03:04:05.678Z"}]).to_string(),
    );
    team.plant_inbox("team-lead", json!([old]).to_string());
    let bob = team.member("bob");
    assert_eq!(
        (&bob["unread"], &bob["oldest_unread"], &bob["alarm"]),
        (&json!(2), &old["timestamp"], &json!(true))
    );
    assert_eq!(team.status()["lead_alarm"], true);
    let shown = world.throng(["status", "--team", "demo"]).run();
    shown.ok().says("2 unread, oldest ").says(" d: ALARM\nmail for you: 1 unread, oldest ");
    let patient = world.throng(["status", "--team", "demo", "--alarm-after", "1000000h"]).run();
    patient.ok().check("no alarm", !patient.stdout.contains("ALARM"));
    // Who has ended reads nothing: that is no alarm, but dead letters.
    world.throng(["stop", "bob", "--team", "demo", "--grace", "2s"]).run().code(0);
    let ended = team.member("bob");
    assert_eq!((&ended["alarm"], &ended["unread"]), (&json!(false), &json!(2)));
}

#[test]
fn probe_e01_ten_idle_notices_are_one_line() {
    let world = World::new();
    world.write("t/idle.json", IDLE);
    let member = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do throng send lead @{}; done; throng send lead 'at last'",
        world.path("t/idle.json").display()
    );
    let team = format!(
        "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\ncommand = [\"sh\", \"-c\", \"{member}\"]\n"
    );
    world.write("t/team.toml", team);
    let outcome = world.throng(["run", "t"]).run();
    outcome.ok().says("bob         says: at last");
    assert_eq!(outcome.stdout.matches("is idle").count(), 1, "{}", outcome.stdout);
    let mail = world.team("demo").events().into_iter().filter(|e| e["event"] == "lead_mail").count();
    assert_eq!(mail, 2);
    assert_eq!(states(&world).iter().filter(|s| *s == "delivered").count(), 11, "each was taken");

    let world = World::new();
    world.plant_team("demo", &["bob"]);
    for _ in 0..4 {
        sent(&world, "bob", &["lead", IDLE]);
    }
    let first = world.team("demo").inbox("team-lead")[0]["msg_id"].as_str().unwrap()[..8].to_owned();
    let listed = world.throng(["inbox", "list", "--team", "demo"]).run();
    listed.ok().says(&first);
    assert_eq!(listed.ok().stdout.lines().count(), 1, "{}", listed.stdout);
    let following = world.throng(["inbox", "follow", "--team", "demo"]).start();
    following.until_says("bob: is idle\n");
    sent(&world, "bob", &["lead", IDLE]);
    sent(&world, "bob", &["lead", "done"]);
    following.until_says("bob: done\n");
    assert_eq!(following.stdout(), "bob: is idle\nbob: done\n");
    // A program gets them all.
    let all = world.throng(["inbox", "list", "--team", "demo", "--json"]).run().json();
    assert_eq!(all["messages"].as_array().unwrap().len(), 6);
}

#[test]
fn probe_e04_status_tells_idle_from_owing_a_reply() {
    let world = World::new();
    let team = demo(&world, &["bob"]);
    assert_eq!(team.member("bob")["idle"], Value::Null);
    let asked = sent(&world, "team-lead", &["bob", "report!"]);
    assert_eq!(team.member("bob")["idle"], Value::Null);
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok();
    sent(&world, "bob", &["lead", IDLE]);
    assert_eq!(team.member("bob")["idle"]["owes"], json!([asked]));
    let shown = world.throng(["status", "--team", "demo"]).run();
    shown.ok().says("bob  idle").says(&format!("0 unread, owes a reply to {}", &asked[..8]));
    // It answers.
    sent(&world, "bob", &["lead", "here it is", "--reply-to", &asked]);
    assert_eq!(team.member("bob")["idle"]["owes"], json!([]));
    // New work ends it, though no new notice came.
    world.throng(["task", "add", "more", "--owner", "bob", "--team", "demo"]).run().ok();
    assert_eq!(team.member("bob")["idle"], Value::Null);
    let shown = world.throng(["status", "--team", "demo"]).run();
    shown.ok().check("not idle", !shown.stdout.contains("idle"));
}

#[test]
fn the_prompt_of_a_spawn_that_failed_is_no_message() {
    let world = World::new();
    let team = demo(&world, &["bob"]);
    let spawn = ["spawn", "carol", "--team", "demo", "--prompt", "begin", "--", "/no/such/program"];
    world.throng(spawn).run().code(5);
    until("nothing is left of it", || !team.roster().contains(&"carol".to_owned()));
    assert_eq!(messages(&world, &[]), Vec::<Value>::new());
}
