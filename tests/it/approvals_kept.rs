//! What is kept of requests and answers, and for how long.

use crate::approvals::{answers, ask, bash, home, pending};
use crate::support::World;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

#[test]
fn what_is_over_is_forgotten_once_there_is_much_of_it_and_nothing_else_is() {
    let world = World::new();
    let team = home(&world);
    let file = team.state_dir().join("approvals.jsonl");
    ask(&world, "bob", &bash("perm-1-a", "bob", "ls"));
    ask(&world, "bob", &bash("perm-2-a", "bob", "ls"));
    world.throng(["approvals", "approve", "1", "--team", "t"]).run().ok();
    // A thousand more, which were answered long ago: as the first, but their requests have left the leader's inbox.
    let first = fs::read_to_string(&file).unwrap();
    let mut all = first.clone();
    for number in 3..1003 {
        for line in first.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            if line["number"] == 2 {
                continue;
            }
            let mut line = line;
            line["key"] = json!(format!("key-{number}"));
            if line["event"] == "seen" {
                line["number"] = json!(number);
            }
            all += &format!("{line}\n");
        }
    }
    fs::write(&file, &all).unwrap();
    assert!(all.len() > 600_000);
    ask(&world, "bob", &bash("perm-3-a", "bob", "ls"));
    ask(&world, "bob", &bash("perm-4-a", "bob", "ls"));
    let numbers = |list: Vec<Value>| list.iter().map(|a| a["number"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers(pending(&world)), [2, 1003, 1004]);
    // Killed before it is replaced, it is whole.
    let killed =
        world.throng(["approvals", "deny", "1003", "--team", "t"]).env("THRONG_FAULT", "approval:small");
    killed.run().signalled(Signal::SIGKILL);
    assert!(fs::metadata(&file).unwrap().len() > 600_000);
    assert_eq!(numbers(pending(&world)), [2, 1004]);
    world.throng(["approvals", "approve", "1004", "--team", "t"]).run().ok();
    let size = fs::metadata(&file).unwrap().len();
    assert!(size < 200_000, "{size}");
    // Who waits still waits under its number; what stands in the leader's inbox is known as answered; numbers go on.
    assert_eq!(numbers(pending(&world)), [2]);
    for number in ["1", "1003", "1004", "1002"] {
        let late = world.throng(["approvals", "deny", number, "--team", "t"]).run();
        late.code(3).complains("answered already");
    }
    world.throng(["approvals", "deny", "3", "--team", "t"]).run().code(3);
    ask(&world, "bob", &bash("perm-5-a", "bob", "ls"));
    assert_eq!(numbers(pending(&world)), [2, 1005]);
    world.throng(["approvals", "approve", "2", "--team", "t"]).run().ok();
    let said: Vec<Value> = answers(&team, "bob").iter().map(|a| a["request_id"].clone()).collect();
    assert_eq!(said, ["perm-1-a", "perm-3-a", "perm-4-a", "perm-2-a"], "each once");
    world.throng(["down", "t"]).run().ok();
}
