//! `throng run`: its exit code tells the truth about the team's work, and nothing is left behind.

use crate::support::{Outcome, World, until_some};
use std::time::Duration;

/// Runs a team of this file in this world.
fn run(world: &World, team: &str) -> Outcome {
    world.write("t/team.toml", team);
    world.throng(["run", "t"]).run()
}

#[test]
fn a_team_whose_tasks_are_all_done_ends_with_0() {
    let world = World::new();
    let outcome = run(
        &world,
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        command = ["sh", "-c", "throng task claim first && throng send lead 'all is well' && throng task done first"]
        [[member]]
        name = "b"
        command = ["sh", "-c", "throng task claim second --wait && throng task done second"]
        [[task]]
        key = "second"
        subject = "Second"
        owner = "b"
        blocked_by = ["first"]
        [[task]]
        key = "first"
        subject = "First"
        "#,
    );
    outcome.ok().says("a           says: all is well").says("2 tasks completed, 0 failed");
    world.assert_nothing_left();
    // Its shared files are put away, its own record is kept.
    assert!(!world.team("t").dir().exists() && !world.team("t").tasks_dir().exists());
    assert!(world.team("t").state_dir().join("final/team/config.json").exists());
    assert_eq!(world.team("t").status()["state"], "ended");
}

#[test]
fn a_member_that_fails_makes_it_1_and_is_named() {
    let world = World::new();
    let outcome = run(
        &world,
        r#"
        [team]
        name = "t"
        [[member]]
        name = "good"
        command = ["true"]
        [[member]]
        name = "bad"
        command = ["sh", "-c", "echo a last word; exit 7"]
        "#,
    );
    outcome.code(1).complains("bad exited 7");
    outcome.check("the good one is not blamed", !outcome.stderr.contains("good"));
    world.assert_nothing_left();
}

#[test]
fn a_failed_task_makes_it_1_though_every_member_ended_well() {
    let world = World::new();
    let outcome = run(
        &world,
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        command = ["sh", "-c", "throng task claim k && throng task done k --failed 'two tests fail'"]
        [[task]]
        key = "k"
        subject = "The tests pass"
        "#,
    );
    outcome.code(1).complains("task 1 'The tests pass' failed: two tests fail");
    world.assert_nothing_left();
}

#[test]
fn probe_n02_a_team_that_hangs_ends_at_the_timeout_with_124() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n",
    );
    let outcome = world.throng(["run", "t", "--timeout", "700ms"]).run();
    outcome.code(124).complains("did not end within 0.7 s");
    outcome.check("not before its time", outcome.took >= Duration::from_millis(700));
    world.assert_nothing_left();
    world.write("u/team.toml", "[team]\nname = \"u\"\n[limits]\nrun_timeout = \"600ms\"\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    world.throng(["run", "u"]).run().code(124);
    world.assert_nothing_left();
}

#[test]
fn a_member_that_was_killed_is_told_and_its_task_stalls_the_team() {
    let world = World::new();
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        command = ["sh", "-c", "throng task claim k; sleep 600"]
        [[task]]
        key = "k"
        subject = "Never done"
        owner = "a"
        "#,
    );
    let running = world.throng(["run", "t"]).start();
    running.until_says("a works on it");
    let shell =
        until_some("the agent runs", || world.processes_with("throng task claim k").into_iter().next());
    shell.kill();
    let outcome = running.wait();
    outcome.code(1).complains("stalled").complains("a killed by signal 9").complains("Never done");
    world.assert_nothing_left();
}
