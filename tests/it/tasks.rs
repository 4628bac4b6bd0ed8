//! The shared task list: ids are never used twice, what is deleted stays deleted, blockers hold, one claimer wins.

use crate::support::wait::SetOnDrop;
use crate::support::{Outcome, Running, World, until};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn task(world: &World, args: &[&str]) -> Outcome {
    world.throng(["task"]).args(args).args(["--team", "demo"]).run()
}

#[test]
fn probe_i02_an_id_is_above_every_id_there_ever_was() {
    for (mark, expected) in [
        (None, 3),
        (Some(""), 3),
        (Some("abc"), 3),
        (Some("1"), 3),
        (Some("2\n"), 3),
        (Some("7"), 8),
        (Some("-5"), 3),
    ] {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        let two = json!({"id": "2", "subject": "Second", "description": "", "status": "pending", "blocks": [], "blockedBy": []});
        team.plant_task("2", &two);
        if let Some(mark) = mark {
            fs::write(team.tasks_dir().join(".highwatermark"), mark).unwrap();
        }
        let added = task(&world, &["add", "New", "--json"]);
        assert_eq!(added.ok().json()["id"], expected.to_string(), "{mark:?}");
        assert_eq!(team.task("2"), two, "{mark:?}: nothing was overwritten");
        assert_eq!(team.task(&expected.to_string())["subject"], "New");
    }
}

#[test]
fn many_adders_at_once_get_an_id_each() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let add = |_| world.throng(["task", "add", "x", "--json", "--team", "demo"]).start();
    let mut ids: Vec<u64> = (0..12)
        .map(add)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|call| call.wait().ok().json()["id"].as_str().unwrap().parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=12).collect::<Vec<u64>>());
    assert_eq!(
        fs::read_dir(team.tasks_dir())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"))
            .count(),
        12
    );
    world.assert_nothing_left();
}

#[test]
fn probe_i03_a_task_deleted_while_it_is_updated_stays_deleted() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for round in 1..=5 {
        let id = round.to_string();
        task(&world, &["add", "Doomed"]).ok();
        let is_gone = AtomicBool::new(false);
        let updates = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for n in 0..2 {
                let (world, id, is_gone, updates) = (&world, &id, &is_gone, &updates);
                scope.spawn(move || {
                    for i in 0.. {
                        let was_gone = is_gone.load(Ordering::SeqCst);
                        let outcome = task(world, &["update", id, "--subject", &format!("{n} {i}")]);
                        if was_gone {
                            outcome.code(3);
                            break;
                        }
                        outcome.check("updated or gone", matches!(outcome.code, Some(0 | 3)));
                        updates.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let gone = SetOnDrop(&is_gone);
            until("it is being updated", || updates.load(Ordering::SeqCst) >= 4);
            // As another program deletes it: under its lock.
            let lock = team.task_path(&id).with_extension("json.lock");
            until("its lock is ours", || fs::create_dir(&lock).is_ok());
            fs::remove_file(team.task_path(&id)).unwrap();
            fs::write(team.tasks_dir().join(".highwatermark"), &id).unwrap();
            fs::remove_dir(&lock).unwrap();
            drop(gone);
        });
        assert!(!team.task_path(&id).exists(), "round {round}: it was revived");
    }
    assert_eq!(task(&world, &["add", "After"]).ok().stdout, "task 6 pending: After\n");
    world.assert_nothing_left();
}

#[test]
fn probe_i05_a_blocked_task_is_neither_begun_nor_completed() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    task(&world, &["add", "First", "--key", "first"]).ok();
    task(&world, &["add", "Second", "--blocked-by", "first", "--key", "second"]).ok();
    task(&world, &["add", "Third"]).ok();
    for args in [
        &["claim", "second"][..],
        &["done", "second"],
        &["update", "second", "--status", "in_progress"],
        &["update", "second", "--status", "completed"],
    ] {
        task(&world, args).code(1).complains("waits for task 1");
    }
    assert_eq!(
        (team.task("2")["status"].as_str(), team.task("2")["owner"].as_str()),
        (Some("pending"), None)
    );
    // Blocked after its creation too.
    task(&world, &["update", "3", "--add-blocked-by", "2"]).ok();
    task(&world, &["claim", "3"]).code(1).complains("waits for task 2");
    task(&world, &["claim", "first"]).ok();
    task(&world, &["claim", "second"]).code(1);
    task(&world, &["done", "first"]).ok();
    task(&world, &["claim", "second"]).ok();
    // Given up is possible at any time, and unblocks as well.
    task(&world, &["done", "second", "--failed", "no time"]).ok();
    task(&world, &["claim", "3"]).ok();
    assert_eq!(team.task("2")["metadata"]["throng"]["outcome"], "failed");
}

#[test]
fn probe_i06_every_view_shows_the_same_blockers() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for args in [&["add", "a"][..], &["add", "b"], &["add", "c", "--blocked-by", "1", "--blocked-by", "2"]] {
        task(&world, args).ok();
    }
    let blockers = || {
        let shown = task(&world, &["show", "3", "--json"]).ok().json()["openBlockers"].clone();
        let list = task(&world, &["list", "--json"]).ok().json();
        let row = list["tasks"].as_array().unwrap().iter().find(|t| t["id"] == "3").cloned().unwrap();
        assert_eq!(row["openBlockers"], shown);
        shown
    };
    assert_eq!(blockers(), json!(["1", "2"]));
    task(&world, &["done", "1"]).ok();
    assert_eq!(blockers(), json!(["2"]));
    task(&world, &["list"]).ok().says("c (waits for 2)");
    // A blocker that is gone blocks nobody.
    fs::remove_file(team.task_path("2")).unwrap();
    assert_eq!(blockers(), json!([]));
    assert_eq!(team.task("3")["blockedBy"], json!(["1", "2"]), "the file stays as its writers left it");
    assert_eq!(team.task("1")["blocks"], json!(["3"]));
}

#[test]
fn probe_i12_tasks_cannot_wait_for_each_other() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for args in [&["add", "a"][..], &["add", "b", "--blocked-by", "1"], &["add", "c", "--blocked-by", "2"]] {
        task(&world, args).ok();
    }
    task(&world, &["update", "1", "--add-blocked-by", "3"]).code(1).complains("1 -> 3 -> 2 -> 1");
    task(&world, &["update", "1", "--add-blocked-by", "1"]).code(1).complains("1 -> 1");
    assert_eq!(team.task("1")["blockedBy"], json!([]));
    assert_eq!(team.task("3")["blocks"], json!([]));
    task(&world, &["add", "d", "--blocked-by", "no-such"]).code(3).complains("no-such");
    assert!(!team.task_path("4").exists());
}

#[test]
fn one_of_many_claimers_wins() {
    let world = World::new();
    let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let team = world.plant_team("demo", &names.iter().map(String::as_str).collect::<Vec<_>>());
    for round in 1..=3 {
        let id = round.to_string();
        task(&world, &["add", "The one"]).ok();
        let claim = |name: &String| world.throng(["task", "claim", &id, "--team", "demo"]).by(name).start();
        let calls: Vec<_> = names.iter().map(claim).collect();
        let outcomes: Vec<Outcome> = calls.into_iter().map(Running::wait).collect();
        let winners: Vec<usize> = (0..names.len()).filter(|i| outcomes[*i].code == Some(0)).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let owner = &names[winners[0]];
        assert_eq!(
            (&team.task(&id)["owner"], &team.task(&id)["status"]),
            (&json!(owner), &json!("in_progress"))
        );
        for (i, outcome) in outcomes.iter().enumerate().filter(|(i, _)| !winners.contains(i)) {
            outcome.code(1).complains(&format!("belongs to {owner}"));
            assert_ne!(&names[i], owner);
        }
    }
    world.assert_nothing_left();
}

#[test]
fn probe_e07_whoever_waits_for_a_blocked_task_gets_it_when_it_is_free() {
    let world = World::new();
    world.plant_team("demo", &["bob"]);
    task(&world, &["add", "a"]).ok();
    task(&world, &["add", "b", "--blocked-by", "1", "--owner", "bob"]).ok();
    task(&world, &["claim", "2", "--wait", "--timeout", "200ms", "--as", "bob"])
        .code(124)
        .complains("waits for task 1");
    let mut waiting = world.throng(["task", "claim", "2", "--wait", "--team", "demo"]).by("bob").start();
    task(&world, &["update", "1", "--subject", "A"]).ok();
    assert!(waiting.is_running(), "another change does not free it");
    task(&world, &["done", "1"]).ok();
    waiting.wait().ok().says("task 2 in_progress");
    // Waiting is for blockers alone: what is another's stays another's.
    task(&world, &["claim", "2", "--wait"]).code(1).complains("belongs to bob");
}

#[test]
fn owners_are_members_and_keys_are_unique() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    task(&world, &["add", "a", "--key", "k", "--owner", "BOB"]).ok();
    assert_eq!(team.task("1")["owner"], "bob");
    task(&world, &["add", "b", "--owner", "bbo"]).code(3).complains("did you mean bob?");
    task(&world, &["add", "b", "--key", "k"]).code(1).complains("'k'");
    task(&world, &["show", "nope"]).code(3);
    task(&world, &["update", "k", "--owner", ""]).ok();
    assert_eq!(team.task("1")["owner"], Value::Null);
    let status = task(&world, &["update", "k", "--status", "doing"]);
    status.code(2).complains("in_progress");
}

#[test]
fn metadata_and_fields_of_strangers_survive_an_update() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    team.plant_task(
        "1",
        &json!({"id": "1", "subject": "s", "description": "d", "status": "pending", "blocks": [], "blockedBy": [], "metadata": {"n": 1}, "x": {"y": 2}}),
    );
    task(&world, &["claim", "1", "--as", "bob"]).ok();
    let task = team.task("1");
    assert_eq!((&task["metadata"]["n"], &task["x"]["y"]), (&json!(1), &json!(2)));
}
