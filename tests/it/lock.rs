//! The lock directories of the shared files: waited for, taken over when abandoned, never in vain and never for ever.

use crate::support::wait::throughout;
use crate::support::{Running, Team, World};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

fn lock_of(team: &Team<'_>) -> PathBuf {
    team.plant_inbox("bob", "[]").with_extension("json.lock")
}

fn set_age(path: &Path, age: Duration) {
    let times = fs::FileTimes::new().set_modified(SystemTime::now() - age);
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

fn send(world: &World, text: &str) -> Running {
    world.throng(["send", "bob", text, "--team", "demo"]).start()
}

#[test]
fn a_lock_of_another_program_only_delays_a_message() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let lock = lock_of(&team);
    fs::create_dir(&lock).unwrap();
    let start = Instant::now();
    let mut sending = send(&world, "x");
    // Three times as long as the original would wait.
    let is_held = || start.elapsed() < Duration::from_secs(2);
    throughout(is_held, || assert!(sending.is_running() && team.inbox("bob").is_empty(), "it waits"));
    fs::remove_dir(&lock).unwrap();
    sending.wait().ok();
    assert_eq!(team.texts("bob"), ["x"]);
    world.assert_nothing_left();
}

#[test]
fn a_lock_that_is_not_had_in_time_is_exit_code_4_and_nothing_was_sent() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let lock = lock_of(&team);
    fs::create_dir(&lock).unwrap();
    let outcome = world.throng(["send", "bob", "x", "--team", "demo"]).env("THRONG_LOCK_BUDGET", "1s").run();
    outcome.code(4).complains(lock.to_str().unwrap()).complains("s old").prints("");
    outcome.check("not before its time", outcome.took >= Duration::from_secs(1));
    assert!(team.inbox("bob").is_empty() && lock.is_dir());
    fs::remove_dir(&lock).unwrap();
    // The team file's lock and the task list's are no different.
    fs::create_dir(team.config_path().with_extension("json.lock")).unwrap();
    let spawn = world.throng(["task", "add", "x", "--team", "demo"]).env("THRONG_LOCK_BUDGET", "300ms").run();
    spawn.ok();
    fs::create_dir(team.tasks_dir().join(".lock.lock")).unwrap();
    let add = world.throng(["task", "add", "y", "--team", "demo"]).env("THRONG_LOCK_BUDGET", "300ms").run();
    add.code(4).complains(".lock.lock");
    assert!(!team.task_path("2").exists());
    world.throng(["send", "bob", "x", "--team", "demo"]).env("THRONG_LOCK_BUDGET", "soon").run().code(2);
}

#[test]
fn case_c002_an_abandoned_lock_is_taken_over_when_it_is_stale() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let lock = lock_of(&team);
    fs::create_dir(&lock).unwrap();
    set_age(&lock, Duration::from_secs(11));
    send(&world, "at once").wait().ok();
    assert!(!lock.exists());
    fs::create_dir(&lock).unwrap();
    set_age(&lock, Duration::from_secs(8));
    let outcome = send(&world, "2 s later").wait();
    outcome.ok().check("a fresh lock is respected", outcome.took >= Duration::from_millis(1500));
    assert_eq!(team.texts("bob"), ["at once", "2 s later"]);
    world.assert_nothing_left();
}

/// An inbox so large that a writer can be caught while it holds the lock.
fn plant_large_inbox(team: &Team<'_>) {
    let entry = json!({"from": "lead", "text": "x".repeat(500), "timestamp": "2030-01-02T03:04:05.678Z", "read": false});
    let all = vec![entry.to_string(); 40_000].join(",\n");
    team.plant_inbox("bob", format!("[{all}]"));
}

/// Sends until a writer was caught by `signal` while it held the lock, and was ended by it.
fn catch_a_holder(world: &World, lock: &Path, signal: Signal) {
    for _ in 0..20 {
        let sending = send(world, "of the dead");
        let start = Instant::now();
        while !lock.exists() && start.elapsed() < Duration::from_secs(10) {
            std::hint::spin_loop();
        }
        sending.signal(signal);
        let outcome = sending.wait();
        if outcome.signal.is_some() && (signal != Signal::SIGKILL || lock.exists()) {
            return;
        }
    }
    panic!("no writer could be caught");
}

#[test]
fn case_c002_a_writer_killed_while_it_held_the_lock_stops_nobody() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    plant_large_inbox(&team);
    let lock = team.inbox_path("bob").with_extension("json.lock");
    catch_a_holder(&world, &lock, Signal::SIGKILL);
    let outcome = send(&world, "of the living").wait();
    outcome.ok().check("within the life of a stale lock", outcome.took < Duration::from_secs(20));
    let texts = team.texts("bob");
    assert_eq!(texts.last().unwrap(), "of the living");
    // What the dead left beside the file is no lock any more, and the file was whole all the time.
    assert!(!lock.exists());
}

#[test]
fn case_c002_a_writer_told_to_end_lets_its_lock_go_first() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        plant_large_inbox(&team);
        let lock = team.inbox_path("bob").with_extension("json.lock");
        catch_a_holder(&world, &lock, signal);
        assert!(!lock.exists(), "{signal}");
        world.assert_nothing_left();
        let _: Vec<Value> = team.inbox("bob");
    }
}

#[test]
fn case_c009_what_is_no_lock_is_named_and_left_alone() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let lock = lock_of(&team);
    fs::write(&lock, "of somebody").unwrap();
    set_age(&lock, Duration::from_secs(60));
    let outcome = send(&world, "x").wait();
    outcome.code(4).complains(lock.to_str().unwrap());
    outcome.check("no endless retry", outcome.took < Duration::from_secs(10));
    assert_eq!(fs::read_to_string(&lock).unwrap(), "of somebody");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    fs::write(lock.join("inside"), "of somebody").unwrap();
    set_age(&lock, Duration::from_secs(60));
    send(&world, "x").wait().code(4).complains(lock.to_str().unwrap());
    assert_eq!(fs::read_to_string(lock.join("inside")).unwrap(), "of somebody");
    assert!(team.inbox("bob").is_empty());
}

#[test]
fn case_c014_what_another_program_writes_without_a_lock_is_not_lost() {
    for _ in 0..3 {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        plant_large_inbox(&team);
        let path = team.inbox_path("bob");
        let lock = path.with_extension("json.lock");
        let foreign = json!([{"from": "lead", "text": "foreign", "timestamp": "2030-01-02T03:04:05.678Z"}]);
        let beside = world.write("beside.json", foreign.to_string());
        let sending = send(&world, "ours");
        let start = Instant::now();
        while !lock.exists() && start.elapsed() < Duration::from_secs(10) {
            std::hint::spin_loop();
        }
        // While throng reads and writes the large file, it becomes another.
        fs::rename(&beside, &path).unwrap();
        sending.wait().ok();
        assert_eq!(team.texts("bob"), ["foreign", "ours"]);
        world.assert_nothing_left();
    }
}
