//! Interrupts and deaths of a `run` leader: it dies of its signal, nothing is left, and the next run needs no repair.

use crate::support::{Running, World, fake, until};
use nix::sys::signal::Signal;
use std::time::Duration;

const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM];

/// A team of a few members and tasks that never ends by itself, and one that does.
fn plant(world: &World) {
    let member = |n: usize| {
        format!(
            "[[member]]\nname = \"m{n}\"\ncommand = [\"sh\", \"-c\", \"throng task claim t{n}; throng send lead hi; sleep 600\"]\n"
        )
    };
    let task = |n: usize| format!("[[task]]\nkey = \"t{n}\"\nsubject = \"Task {n}\"\n");
    let members: String = (0..4).map(member).collect();
    let tasks: String = (0..4).map(task).collect();
    world.write("long/team.toml", format!("[team]\nname = \"t\"\n{members}{tasks}"));
    world.write("short/team.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n");
}

fn start(world: &World) -> Running {
    world.throng(["run", "long", "--json"]).start()
}

fn assert_ends_of(world: &World, running: Running, signal: Signal) {
    running.signal(signal);
    running.wait().signalled(signal);
    world.assert_nothing_left();
    world.throng(["run", "short"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_f14_a_signal_at_any_event_ends_all_and_the_next_run_works() {
    let world = World::new();
    plant(&world);
    for signal in ENDING {
        for event in ["team_started", "member_ready", "task_changed", "lead_mail"] {
            let running = start(&world);
            running.until_says(&format!("\"event\":\"{event}\""));
            assert_ends_of(&world, running, signal);
        }
    }
}

#[test]
fn probe_f14_a_signal_at_any_moment_of_the_start_ends_all_and_the_next_run_works() {
    let world = World::new();
    plant(&world);
    for (i, ms) in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40].into_iter().enumerate() {
        let running = start(&world);
        // The moment is the subject here; whatever it meets, the outcome is the same.
        std::thread::sleep(Duration::from_millis(ms));
        assert_ends_of(&world, running, ENDING[i % ENDING.len()]);
    }
}

#[test]
fn a_second_signal_skips_the_grace() {
    let world = World::new();
    world.write(
        "t/team.toml",
        format!(
            "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", '{}']\n",
            fake("stubborn.sh")
        ),
    );
    let running = world.throng(["run", "t", "--json"]).start();
    let log = world.team("t").state_dir().join("logs/a.log");
    until("it is deaf", || std::fs::read_to_string(&log).is_ok_and(|l| l.contains("deaf")));
    running.signal(Signal::SIGINT);
    running.until_says("team_ending");
    running.signal(Signal::SIGTERM);
    let outcome = running.wait();
    outcome
        .signalled(Signal::SIGINT)
        .check("the grace of 5 s was skipped", outcome.took < Duration::from_secs(4));
    world.assert_nothing_left();
}

#[test]
fn a_signal_ends_stubborn_members_after_their_grace() {
    let world = World::new();
    world.write(
        "t/team.toml",
        format!(
            "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", '{}']\n",
            fake("stubborn.sh")
        ),
    );
    let running = world.throng(["run", "t"]).start();
    let log = world.team("t").state_dir().join("logs/a.log");
    until("it is deaf", || std::fs::read_to_string(&log).is_ok_and(|l| l.contains("deaf")));
    running.signal(Signal::SIGTERM);
    let outcome = running.wait();
    // Probe N04: a runner of a CI waits no longer than this.
    outcome.signalled(Signal::SIGTERM).check("within 10 s", outcome.took < Duration::from_secs(10));
    world.assert_nothing_left();
}

#[test]
fn probe_h03_q064_q079_a_killed_leader_takes_its_members_with_it_and_the_next_run_works() {
    let world = World::new();
    plant(&world);
    let running = start(&world);
    until("all four have begun", || running.stdout().matches("\"in_progress\"").count() == 4);
    running.signal(Signal::SIGKILL);
    running.wait().signalled(Signal::SIGKILL);
    until("its members have ended", || world.processes().is_empty());
    // What it left is shown for what it is, and in nobody's way.
    world.throng(["status", "--team", "t"]).run().ok();
    world.throng(["run", "short"]).run().ok();
    // Killed while it held a lock, it leaves that among what is put aside.
    world.throng(["gc"]).run().ok().says("removed earlier team t");
    world.assert_nothing_left();
}

#[test]
fn probe_f11_a_late_writer_makes_no_ghost_of_a_team() {
    let world = World::new();
    plant(&world);
    world.throng(["run", "short"]).run().ok();
    let team = world.team("t");
    for args in [
        &["send", "a", "late", "--team", "t"][..],
        &["send", "lead", "late", "--team", "t"],
        &["task", "add", "late", "--team", "t"],
        &["inbox", "take", "--team", "t"],
    ] {
        world.throng(args).by("a").run().code(3).complains("'t'");
    }
    assert!(!team.dir().exists() && !team.tasks_dir().exists());
}

#[test]
fn probe_h01_a_second_run_of_a_living_team_is_refused_with_the_owners_pid() {
    let world = World::new();
    plant(&world);
    let running = start(&world);
    running.until_says("member_ready");
    for verb in ["run", "up"] {
        let second = world.throng([verb, "long"]).run();
        second.code(2).complains("'t' is alive").complains(&running.pid().to_string());
    }
    let before = world.team("t").roster();
    assert!(before.len() > 1, "the first is not harmed");
    running.signal(Signal::SIGTERM);
    running.wait().signalled(Signal::SIGTERM);
    // Both at once: one wins, the other is refused.
    let (mut one, mut two) = (start(&world), start(&world));
    until("one of them was refused", || !one.is_running() || !two.is_running());
    let (loser, winner) = if one.is_running() { (two, one) } else { (one, two) };
    loser.wait().code(2).complains("is alive");
    winner.until_says("member_ready");
    assert_ends_of(&world, winner, Signal::SIGTERM);
}

#[test]
fn a_run_is_ended_by_down_from_outside() {
    let world = World::new();
    plant(&world);
    let running = start(&world);
    running.until_says("member_ready");
    let pid = running.pid();
    world.throng(["down", "t"]).run().ok().says(&format!("process {pid}")).says("team t is down");
    running.wait().signalled(Signal::SIGTERM);
    world.assert_nothing_left();
}
