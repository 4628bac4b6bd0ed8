//! Who owns a team: leaders die, are frozen, adopted and killed; members are started again (B11).

use crate::support::process::{is_running, signal};
use crate::support::{World, until, until_some};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const PAIR: &str = "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n\
                    [[member]]\nname = \"b\"\ncommand = [\"sleep\", \"600\"]\n";

fn up(world: &World, text: &str) {
    world.write("t.toml", text);
    world.throng(["up", "t.toml"]).run().ok();
}

/// Kills the leader and waits until the team has none.
fn kill_leader(world: &World) {
    let leader = world.team("t").leader();
    signal(leader, Signal::SIGKILL);
    until("it has no leader", || world.team("t").status()["leader"].is_null());
}

#[test]
fn probe_m06_of_many_adopts_at_once_one_wins() {
    let world = World::new();
    up(&world, PAIR);
    let pids = [world.team("t").pid("a"), world.team("t").pid("b")];
    for _ in 0..10 {
        kill_leader(&world);
        let adopts: Vec<_> = (0..4).map(|_| world.throng(["adopt", "--json"]).start()).collect();
        let outcomes: Vec<_> = adopts.into_iter().map(crate::support::Running::wait).collect();
        let won = outcomes.iter().filter(|o| o.code == Some(0)).count();
        let lost = outcomes.iter().filter(|o| o.code == Some(2) && o.stderr.contains("is led by")).count();
        assert_eq!((won, lost), (1, 3), "{outcomes:#?}");
        assert!(is_running(world.team("t").leader()));
    }
    assert_eq!(pids, [world.team("t").pid("a"), world.team("t").pid("b")], "the members never noticed");
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn an_adopted_team_has_its_tasks_freed_again_when_a_member_dies() {
    let world = World::new();
    up(&world, &format!("{PAIR}[[task]]\nkey = \"k\"\nsubject = \"s\"\nowner = \"a\"\n"));
    kill_leader(&world);
    signal(world.team("t").pid("a"), Signal::SIGKILL);
    world.team("t").until_member("a", "exited");
    assert_eq!(world.team("t").task("1")["owner"], "a", "nobody leads");
    world.throng(["adopt"]).run().ok();
    until("its task is free", || world.team("t").task("1")["owner"].is_null());
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_frozen_leader_still_leads_until_it_is_killed_by_force() {
    let world = World::new();
    up(&world, PAIR);
    let leader = world.team("t").leader();
    signal(leader, Signal::SIGSTOP);
    world.throng(["adopt"]).run().code(2).complains(&format!("led by process {leader}")).complains("--force");
    world.throng(["adopt", "--force"]).run().ok();
    assert!(!is_running(leader));
    let second = world.team("t").leader();
    assert!(second != leader && is_running(second));
    // A frozen one does not hold up the end either.
    signal(second, Signal::SIGSTOP);
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_f09_on_leader_death_stop_ends_the_members_and_a_new_leader_is_followed() {
    let world = World::new();
    up(&world, &PAIR.replace("name = \"t\"", "name = \"t\"\non_leader_death = \"stop\""));
    let pids = [world.team("t").pid("a"), world.team("t").pid("b")];
    let first = world.team("t").leader();
    // The detached leader took over from `up`, which has ended: the members follow it.
    assert!(pids.iter().all(|pid| is_running(*pid)));
    signal(first, Signal::SIGKILL);
    for name in ["a", "b"] {
        assert_eq!(world.team("t").until_member(name, "exited")["note"], "its leader died");
    }
    assert!(pids.iter().all(|pid| !is_running(*pid)));
    // A dead leader's name does not block a new team (probe H03).
    world.throng(["up", "t.toml"]).run().ok();
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_h05_m03_respawn_starts_a_member_again_in_its_place_or_anew() {
    let world = World::new();
    up(&world, PAIR);
    let team = world.team("t");
    let (pid, tend) = (team.pid("a"), team.tend("a"));
    world.throng(["respawn", "a"]).run().ok().says("in its place");
    until("it is another process", || team.member("a")["pid"].as_i64().is_some_and(|p| p != i64::from(pid)));
    assert_eq!(team.tend("a"), tend);
    assert_eq!(team.member("a")["restarts"], 1);
    assert!(!is_running(pid));
    // Dead with its tend: a new place.
    signal(team.tend("a"), Signal::SIGKILL);
    until("it is lost", || team.member_state("a") == "lost");
    world.throng(["stop", "b"]).run().ok();
    world.throng(["respawn", "b"]).run().code(5).complains("was retired");
    world.throng(["respawn", "a"]).run().ok().says("anew");
    assert_eq!(team.member_state("a"), "ready");
    assert_eq!(team.roster(), ["team-lead", "a"]);
    world.throng(["respawn", "nobody"]).run().code(3);
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_member_spawned_into_a_run_ends_with_it() {
    let world = World::new();
    world.write("t.toml", PAIR);
    let run = world.throng(["run", "t.toml"]).start();
    world.team("t").until_member("b", "ready");
    world.throng(["spawn", "late", "--", "sleep", "600"]).run().ok();
    let pid = world.team("t").pid("late");
    let begun = Instant::now();
    run.signal(Signal::SIGKILL);
    until("all have ended", || world.processes_with("sleep").is_empty() && !is_running(pid));
    // P7 asks for 2 s; a loaded machine may take longer, but never the grace of a polite end.
    assert!(begun.elapsed() < Duration::from_secs(15));
    run.wait();
    world.throng(["run", "t.toml", "--timeout", "200ms"]).run().code(124);
    world.assert_nothing_left();
}

#[test]
fn probe_b09_the_detached_leader_keeps_its_flags_and_logs_to_its_team() {
    let world = World::new();
    up(&world, PAIR);
    let leader = crate::support::process::Process::of(world.team("t").leader()).unwrap();
    let words = leader.command_line();
    assert_eq!(words[1..4], ["lead", "--team", "t"], "{words:?}");
    assert!(world.team("t").state_dir().join("logs/leader.log").exists());
    // Only the lock is open beside 0, 1, 2 and what its loop needs; none is the caller's.
    let lock = until_some("it holds the lock", || {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", leader.pid)).ok()?;
        let targets: Vec<_> = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok()).collect();
        targets.iter().any(|t| t.ends_with("leader.lock")).then_some(targets)
    });
    assert_eq!(lock.iter().filter(|t| t.ends_with("leader.lock")).count(), 1);
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}
