//! Disks that are full, read-only or somebody else's: an error at once that names the path, and nothing half done.

use crate::support::{Call, World};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A call by a user who is not root. Root may write everywhere.
fn unprivileged(world: &World, program: &Path, args: &[&str]) -> Call {
    if is_root() {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        world.program("setpriv").args(nobody).args([program]).args(args)
    } else {
        world.program(program).args(args)
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What must fail at once, naming the path, and what must still work.
fn check_read_only(world: &World, program: &Path, cause: &str) {
    let team = world.team("demo");
    let send = unprivileged(world, program, &["send", "bob", "x", "--team", "demo"]).run();
    send.check("refused", send.code.is_some_and(|c| c != 0))
        .complains(team.dir().to_str().unwrap())
        .complains(cause);
    send.check("at once: this is no contention", send.took < Duration::from_secs(10));
    let add = unprivileged(world, program, &["task", "add", "x", "--team", "demo"]).run();
    add.check("refused", add.code.is_some_and(|c| c != 0)).complains(team.tasks_dir().to_str().unwrap());
    for args in [
        &["inbox", "list", "bob", "--team", "demo"][..],
        &["inbox", "list", "ann", "--team", "demo"],
        &["status", "--team", "demo"],
        &["task", "list", "--team", "demo"],
        &[],
    ] {
        unprivileged(world, program, args).run().ok();
    }
    unprivileged(world, program, &["inbox", "list", "bob", "--team", "demo"]).run().ok().says("kept");
}

fn plant(world: &World) {
    world.plant_team("demo", &["bob", "ann"]);
    world.throng(["send", "bob", "kept", "--team", "demo"]).run().ok();
    world.throng(["task", "add", "A task", "--team", "demo"]).run().ok();
}

#[test]
fn case_c010_a_folder_that_may_not_be_written_fails_at_once_and_reads_on() {
    let world = World::new();
    plant(&world);
    let program = world.program_for_all();
    if is_root() {
        let owner = Command::new("chown").args(["-R", "65534:65534"]).arg(world.root()).status().unwrap();
        assert!(owner.success());
    }
    let team = world.team("demo");
    let closed = [team.dir(), team.dir().join("inboxes"), team.tasks_dir()];
    closed.iter().for_each(|dir| set_mode(dir, 0o555));
    check_read_only(&world, &program, "ermission denied");
    closed.iter().for_each(|dir| set_mode(dir, 0o755));
    unprivileged(&world, &program, &["send", "bob", "x", "--team", "demo"]).run().ok();
}

#[test]
fn case_c010_a_read_only_file_system_fails_at_once_and_reads_on() {
    let world = World::new();
    if !world.mount_small(&world.config_dir(), 512) {
        eprintln!("SKIPPED: this user may not mount a file system");
        return;
    }
    plant(&world);
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(world.config_dir()).status().unwrap();
    assert!(remount.success());
    let program = world.program_for_all();
    if is_root() {
        set_mode(&world.root().join("state"), 0o777);
        set_mode(&world.root().join("run"), 0o755);
    }
    check_read_only(&world, &program, "ead-only file system");
}

#[test]
fn case_c012_a_full_disk_leaves_the_old_file_and_tells_the_sender() {
    let world = World::new();
    if !world.mount_small(&world.config_dir(), 96) {
        eprintln!("SKIPPED: this user may not mount a file system");
        return;
    }
    let team = world.plant_team("demo", &["bob"]);
    let entry = serde_json::json!({"from": "lead", "text": "x".repeat(60 * 1024), "timestamp": "2030-01-02T03:04:05.678Z"});
    let path = team.plant_inbox("bob", format!("[{entry}]"));
    let before = fs::read(&path).unwrap();
    let outcome = world.throng(["send", "bob", "-", "--team", "demo"]).stdin("y".repeat(8 * 1024)).run();
    outcome.check("refused", outcome.code.is_some_and(|c| c != 0));
    outcome.complains(path.to_str().unwrap()).complains("No space left");
    assert_eq!(fs::read(&path).unwrap(), before, "the old file is as it was");
    world.assert_nothing_left();
    // The same for a task list.
    let add = world.throng(["task", "add", &"z".repeat(60_000), "--team", "demo"]).run();
    add.check("refused", add.code.is_some_and(|c| c != 0));
    world.assert_nothing_left();
    assert!(!team.task_path("1").exists());
}

#[test]
fn case_c012_a_full_state_folder_does_not_lose_a_message() {
    let world = World::new();
    let state = world.state_dir();
    if !world.mount_small(&state, 256) {
        eprintln!("SKIPPED: this user may not mount a file system");
        return;
    }
    world.spawn_sleeper("demo", "bob");
    let filled = fs::write(state.join("filler"), vec![0; 1 << 20]);
    assert!(filled.is_err(), "it is full now");
    // Our log cannot be written; the message can.
    world.throng(["send", "bob", "x", "--team", "demo"]).run().code(0);
    assert_eq!(world.team("demo").texts("bob"), ["x"]);
    fs::remove_file(state.join("filler")).unwrap();
    world.throng(["down", "demo"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_h09_a_team_file_that_may_not_be_read_is_named_and_left_alone() {
    let world = World::new();
    plant(&world);
    let program = world.program_for_all();
    let path = world.team("demo").config_path();
    set_mode(&path, 0o000);
    if is_root() {
        set_mode(&world.state_dir(), 0o777);
        set_mode(&world.root().join("run"), 0o777);
    }
    for args in [&["status", "--team", "demo"][..], &["send", "bob", "x", "--team", "demo"]] {
        let outcome = unprivileged(&world, &program, args).run();
        outcome.code(2).complains(path.to_str().unwrap()).complains("ermission denied");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0);
}
