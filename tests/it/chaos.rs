//! The chaos run of `scripts/chaos`, for a few seconds: that it works, and that it finds what is planted.

use crate::npm_lock::package;
use crate::support::{Call, World, repository};
use std::path::Path;
use std::time::Duration;

fn chaos(world: &World, seconds: &str, args: &[&str]) -> Call {
    let script = repository().join("tests/chaos/chaos.py");
    let root = world.root().join("chaos");
    let call = world.program("python3").args([script.as_path(), Path::new("--root"), &root]);
    let call = call.args(["--program", env!("CARGO_BIN_EXE_throng"), "--seconds", seconds]).args(args);
    call.timeout(Duration::from_secs(200))
}

/// Senders, takers, task workers and lock-free readers beside killers, counted against the parties' own ledger.
#[test]
fn probe_q121_d18_nothing_is_lost_doubled_torn_or_left_under_fire() {
    let world = World::new();
    let npm = package();
    let npm: Vec<&str> = npm.iter().flat_map(|dir| ["--npm", dir.to_str().unwrap()]).collect();
    chaos(&world, "4", &npm).run().ok().says("no fault in").says("kill -9 of who has the turn");
    world.assert_nothing_left();
}

/// A judge that finds nothing proves nothing: each kind of fault is planted once.
#[test]
fn what_is_planted_into_a_chaos_run_is_found() {
    let plants = [
        ("loss", "FAULT lost: 1\n    planted to ours/plant: acknowledged, never given"),
        ("double", "FAULT doubled: 1\n    planted to ours/plant: taken with success in turn 0, then again"),
        ("altered", "FAULT altered: 1\n    planted to ours/plant"),
        ("torn", "FAULT torn:"),
        ("litter", "b0.json.tmp.deadbeef"),
        ("process", "FAULT left: 1\n    process "),
        ("winner", "FAULT two winners: 1"),
    ];
    for (plant, finding) in plants {
        let world = World::new();
        let outcome = chaos(&world, "0.3", &["--plant", plant]).run();
        outcome.code(1).says(finding);
        // The planted fault alone, not a run that went wrong altogether. Of a file that is torn under way more may follow.
        let faults = outcome.stdout.matches("FAULT").count();
        assert!(faults == 1 || plant == "torn", "{}", outcome.stdout);
    }
}
