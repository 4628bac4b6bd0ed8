//! The shared task list: ids, deletion, blockers, who is told what, and a list that was emptied behind our back.

use crate::support::{Outcome, Team, World, until, until_some};
use serde_json::{Value, json};
use std::fs;

fn task<'a>(world: &World, words: impl IntoIterator<Item = &'a str>) -> Outcome {
    world.throng(["task"].into_iter().chain(words).chain(["--team", "demo"])).run()
}

fn task_by<'a>(world: &World, who: &str, words: impl IntoIterator<Item = &'a str>) -> Outcome {
    world.throng(["task"].into_iter().chain(words).chain(["--team", "demo"])).by(who).run()
}

/// Task ids and summaries of the assignments in an inbox.
fn assignments(team: &Team<'_>, agent: &str) -> Vec<(String, String)> {
    if !team.inbox_path(agent).exists() {
        return Vec::new();
    }
    let bodies = team.inbox(agent).into_iter().map(|e| {
        let body: Value = serde_json::from_str(e["text"].as_str().unwrap()).unwrap();
        assert_eq!(body["type"], "task_assignment");
        let summary = e["summary"].as_str().unwrap().to_owned();
        (body["taskId"].as_str().unwrap().to_owned(), summary)
    });
    bodies.collect()
}

/// A team with state of ours, so that it has an event log and a journal.
fn with_state(world: &World) -> Team<'_> {
    world.spawn_sleeper("demo", "bob");
    world.team("demo")
}

fn kinds(team: &Team<'_>, kind: &str) -> Vec<Value> {
    team.events().into_iter().filter(|e| e["event"] == kind).collect()
}

#[test]
fn probe_e07_the_owner_of_an_unblocked_task_gets_mail() {
    let world = World::new();
    let team = world.plant_team("demo", &["alice", "bob"]);
    for words in [
        vec!["add", "first"],
        vec!["add", "second"],
        vec!["add", "third", "--owner", "bob", "--blocked-by", "1", "--blocked-by", "2"],
    ] {
        task_by(&world, "bob", words).ok();
    }
    assert_eq!(assignments(&team, "bob"), [], "nobody is told what he did himself");
    task_by(&world, "alice", ["done", "1"]).ok();
    assert_eq!(assignments(&team, "bob"), [], "it still waits for another");
    task_by(&world, "alice", ["done", "2", "--failed", "no time"]).ok();
    let expected = ("3".to_owned(), "task 3 can begin, task 2 has ended: third".to_owned());
    assert_eq!(assignments(&team, "bob"), std::slice::from_ref(&expected));
    assert_eq!(team.inbox("bob")[0]["from"], "alice");
    world
        .throng(["inbox", "list", "bob", "--team", "demo"])
        .run()
        .ok()
        .says("task 3 can begin, task 2 has ended: third");
    task_by(&world, "alice", ["update", "2", "--subject", "changed"]).ok();
    assert_eq!(assignments(&team, "bob"), [expected], "told once");
}

#[test]
fn probe_e07_a_task_without_owner_wakes_nobody_but_is_in_the_event_log() {
    let world = World::new();
    let team = with_state(&world);
    task(&world, ["add", "first"]).ok();
    task(&world, ["add", "second", "--blocked-by", "1"]).ok();
    task(&world, ["delete", "1"]).ok().prints("task 1 deleted: first\n");
    assert_eq!(assignments(&team, "bob"), []);
    let unblocked = kinds(&team, "task_unblocked");
    assert_eq!(
        (&unblocked[0]["id"], &unblocked[0]["owner"], &unblocked[0]["ended"]),
        (&json!("2"), &Value::Null, &json!("1"))
    );
    assert_eq!(unblocked.len(), 1);
}

#[test]
fn probe_e07_a_leader_tells_what_another_program_completed() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\ncommand = [\"sleep\", \"600\"]\n\
         [[task]]\nkey = \"a\"\nsubject = \"first\"\n[[task]]\nkey = \"b\"\nsubject = \"second\"\nowner = \"bob\"\nblocked_by = [\"a\"]\n",
    );
    world.throng(["up", "t", "--backend", "process"]).run().code(0);
    let team = world.team("demo");
    assert_eq!(assignments(&team, "bob"), [], "the team file says what is whose, before anybody runs");
    // The leader knows the list before it is changed.
    until("it is known", || {
        fs::read_to_string(team.state_dir().join("tasks.jsonl")).is_ok_and(|t| t.contains("second"))
    });
    let mut first = team.task("1");
    first["status"] = json!("completed");
    team.plant_task("1", &first);
    until("bob is told", || !assignments(&team, "bob").is_empty());
    assert_eq!(team.inbox("bob")[0]["from"], "team-lead");
    assert_eq!(kinds(&team, "task_completed").len(), 1);
    // What one of ours completes is told once, though the leader sees it too.
    task(&world, ["add", "third", "--owner", "bob", "--blocked-by", "b"]).ok();
    task_by(&world, "bob", ["done", "b"]).ok();
    task_by(&world, "alice", ["add", "fourth", "--owner", "bob"]).ok();
    until("the leader has noticed", || assignments(&team, "bob").len() >= 3);
    let ids: Vec<String> = assignments(&team, "bob").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["2", "3", "4"]);
    world.throng(["down", "demo"]).run().code(0);
    world.assert_nothing_left();
}

#[test]
fn an_owner_is_mailed_what_others_assign() {
    let world = World::new();
    let team = world.plant_team("demo", &["alice", "bob"]);
    task(&world, ["add", "first", "--owner", "bob", "--description", "all of it"]).ok();
    task(&world, ["add", "second"]).ok();
    task(&world, ["update", "2", "--owner", "bob"]).ok();
    task(&world, ["update", "2", "--owner", "bob"]).ok();
    task_by(&world, "bob", ["claim", "2"]).ok();
    task(&world, ["add", "third"]).ok();
    task(&world, ["claim", "3", "--as", "bob"]).ok();
    task(&world, ["update", "3", "--owner", "alice"]).ok();
    let expected = ["task 1 is yours: first", "task 2 is yours: second", "task 3 is yours: third"];
    let told: Vec<String> = assignments(&team, "bob").into_iter().map(|(_, summary)| summary).collect();
    assert_eq!(told, expected);
    assert_eq!(assignments(&team, "alice").len(), 1);
    let body: Value = serde_json::from_str(&team.texts("bob")[0]).unwrap();
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["type", "taskId", "subject", "description", "assignedBy", "timestamp"].iter().collect::<Vec<_>>()
    );
    assert_eq!((&body["assignedBy"], &body["description"]), (&json!("team-lead"), &json!("all of it")));
    // Who begins a task that is nobody's has it, and is not told.
    task(&world, ["add", "fourth"]).ok();
    task_by(&world, "alice", ["update", "4", "--status", "in_progress"]).ok();
    assert_eq!(team.task("4")["owner"], "alice");
    assert_eq!(assignments(&team, "alice").len(), 1);
}

#[test]
fn a_deleted_task_leaves_no_trace_but_its_id() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for words in
        [vec!["add", "1"], vec!["add", "2", "--blocked-by", "1"], vec!["add", "3", "--blocked-by", "2"]]
    {
        task(&world, words).ok();
    }
    task(&world, ["update", "2", "--status", "deleted", "--json"]).ok().prints("{\"deleted\":\"2\"}\n");
    assert!(!team.task_path("2").exists());
    assert_eq!((&team.task("1")["blocks"], &team.task("3")["blockedBy"]), (&json!([]), &json!([])));
    task(&world, ["delete", "3"]).ok();
    assert_eq!(fs::read_to_string(team.tasks_dir().join(".highwatermark")).unwrap(), "3");
    task(&world, ["add", "4"]).ok().prints("task 4 pending: 4\n");
    for verb in ["delete", "show", "claim", "done"] {
        task(&world, [verb, "3"]).code(3).complains("has no task '3'");
    }
    world.assert_nothing_left();
}

#[test]
fn probe_i02_a_bad_high_water_mark_gives_no_id_twice() {
    for mark in ["", "abc", "1", "-5", "99999999999999999999999", "1.5\n"] {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        team.plant_task(
            "2",
            &json!({"id": "2", "subject": "two", "status": "pending", "blocks": [], "blockedBy": []}),
        );
        fs::write(team.tasks_dir().join(".highwatermark"), mark).unwrap();
        task(&world, ["add", "next"]).ok().says("task 3 pending");
        assert_eq!(team.task("2")["subject"], "two", "mark {mark:?}");
    }
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    fs::create_dir_all(team.tasks_dir()).unwrap();
    fs::write(team.tasks_dir().join(".highwatermark"), "41\n").unwrap();
    task(&world, ["add", "next"]).ok().says("task 42 pending");
}

#[test]
fn probe_i06_all_views_agree_on_blockers_and_the_file_keeps_its_own() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let one = |id: &str, status: &str, by: Value| json!({"id": id, "subject": "s", "status": status, "blocks": [], "blockedBy": by});
    team.plant_task("1", &one("1", "completed", json!([])));
    team.plant_task("2", &one("2", "pending", json!([])));
    team.plant_task("3", &one("3", "pending", json!(["1", "2", "77"])));
    let before = fs::read(team.task_path("3")).unwrap();
    let shown = task(&world, ["get", "3", "--json"]).ok().json();
    let listed = task(&world, ["list", "--json"]).ok().json();
    assert_eq!((&shown["openBlockers"], &listed["tasks"][2]["openBlockers"]), (&json!(["2"]), &json!(["2"])));
    task(&world, ["show", "3"]).ok().says("waits for  2\n");
    task(&world, ["list"]).ok().says("s (waits for 2)");
    assert_eq!(fs::read(team.task_path("3")).unwrap(), before);
}

#[test]
fn probe_i09_an_emptied_list_is_noticed_and_restored() {
    let world = World::new();
    let team = with_state(&world);
    for words in
        [vec!["add", "one"], vec!["add", "two", "--owner", "bob", "--blocked-by", "1"], vec!["add", "three"]]
    {
        task(&world, words).ok();
    }
    task(&world, ["done", "1", "--failed", "no luck"]).ok();
    task(&world, ["delete", "3"]).ok();
    task(&world, ["add", "four"]).ok();
    let kept: Vec<Value> = ["1", "2", "4"].iter().map(|id| team.task(id)).collect();
    task(&world, ["list"]).ok();
    for id in ["1", "2", "4"] {
        fs::remove_file(team.task_path(id)).unwrap();
    }
    task(&world, ["list"])
        .code(0)
        .says("no tasks")
        .complains("task 1, 2, 4: removed by another program")
        .complains("throng task restore");
    assert_eq!(task(&world, ["list", "--json"]).json()["lost"], json!(["1", "2", "4"]));
    assert!(team.status()["tasks_trouble"].as_str().unwrap().contains("throng task restore"));
    world.throng(["status", "--team", "demo"]).run().ok().says("removed by another program");
    task(&world, ["restore"])
        .ok()
        .says("task 1 restored, completed: one\n")
        .says("task 4 restored, pending: four\n");
    let restored: Vec<Value> = ["1", "2", "4"].iter().map(|id| team.task(id)).collect();
    assert_eq!(restored, kept);
    assert!(!team.task_path("3").exists(), "a deleted one stays deleted");
    task(&world, ["restore"]).ok().prints("no task is lost\n");
    task(&world, ["list"]).ok();
    // Emptied again, with its mark: no id is given twice all the same.
    fs::remove_dir_all(team.tasks_dir()).unwrap();
    task(&world, ["add", "five"]).ok().says("task 5 pending");
    assert_eq!(task(&world, ["list", "--json"]).json()["lost"], json!(["1", "2", "4"]));
    task(&world, ["restore"]).ok();
    assert_eq!(task(&world, ["list", "--json"]).json()["tasks"].as_array().unwrap().len(), 4);
}

#[test]
fn probe_i09_what_another_program_deletes_by_the_rules_is_not_lost() {
    let world = World::new();
    let team = with_state(&world);
    task(&world, ["add", "one"]).ok();
    task(&world, ["add", "two"]).ok();
    fs::write(team.tasks_dir().join(".highwatermark"), "2").unwrap();
    fs::remove_file(team.task_path("2")).unwrap();
    task(&world, ["list"]).ok();
    task(&world, ["restore"]).ok().prints("no task is lost\n");
    // Without the mark it is.
    fs::write(team.tasks_dir().join(".highwatermark"), "1").unwrap();
    task(&world, ["list"]).code(0).complains("task 2: removed");
}

#[test]
fn a_damaged_task_file_is_told_once_and_left() {
    let world = World::new();
    let team = with_state(&world);
    task(&world, ["add", "one"]).ok();
    for (id, text) in [
        ("2", "{\"id\": \"2\", \"subj"),
        ("3", ""),
        ("4", "[]"),
        ("5", "{\"id\":\"5\",\"status\":\"no such\"}"),
    ] {
        fs::write(team.task_path(id), text).unwrap();
    }
    for _ in 0..2 {
        let outcome = task(&world, ["list"]);
        outcome.code(0).says("one").complains("2.json is no task and is left as it is: EOF");
        outcome.check("all four", outcome.stderr.lines().count() == 4);
    }
    task(&world, ["add", "six"]).ok().says("task 6 pending");
    assert_eq!(fs::read_to_string(team.task_path("2")).unwrap(), "{\"id\": \"2\", \"subj");
    assert_eq!(kinds(&team, "task_damaged").len(), 4);
    assert_eq!(team.quarantined().len(), 4);
    task(&world, ["claim", "2"]).code(3);
}

#[test]
fn probe_i11_the_tasks_of_a_dead_owner_go_back_into_the_same_list() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\ncommand = [\"sleep\", \"600\"]\n\
         [[task]]\nkey = \"a\"\nsubject = \"first\"\nowner = \"bob\"\n",
    );
    world.throng(["up", "t", "--backend", "process"]).run().code(0);
    let team = world.team("demo");
    task_by(&world, "bob", ["claim", "a"]).ok();
    // Another program writes the owner's id, not his name.
    let mut first = team.task("1");
    first["owner"] = json!("bob@demo");
    team.plant_task("1", &first);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(team.pid("bob")), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    let freed = until_some("his task is free", || Some(team.task("1")).filter(|t| t["status"] == "pending"));
    assert_eq!((&freed["owner"], &freed["id"]), (&Value::Null, &json!("1")));
    let lists: Vec<_> = fs::read_dir(world.config_dir().join("tasks")).unwrap().collect();
    assert_eq!(lists.len(), 1, "no second list");
    world.throng(["down", "demo"]).run().code(0);
    world.assert_nothing_left();
}

#[test]
fn probes_i14_and_d09_list_and_mail_outlive_their_leader() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\ncommand = [\"sleep\", \"600\"]\n[[task]]\nkey = \"a\"\nsubject = \"first\"\n",
    );
    world.throng(["up", "t", "--backend", "process"]).run().code(0);
    let team = world.team("demo");
    let session = team.config()["leadSessionId"].clone();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(team.leader()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    until("it has no leader", || team.status()["state"] == "without a leader");
    task(&world, ["add", "second"]).ok().says("task 2 pending");
    world.throng(["send", "lead", "an answer", "--team", "demo"]).by("bob").run().ok();
    // Another leader with another session: the list goes by the team's name.
    let mut config = team.config();
    config["leadSessionId"] = json!("another");
    fs::write(team.config_path(), config.to_string()).unwrap();
    assert_ne!(session, "another");
    task(&world, ["list"]).ok().says("first").says("second");
    world.throng(["adopt", "--team", "demo"]).run().code(0);
    task(&world, ["list"]).ok().says("first").says("second");
    world.throng(["inbox", "take", "--team", "demo"]).run().ok().prints("an answer\n");
    world.throng(["down", "demo"]).run().code(0);
    world.assert_nothing_left();
}
