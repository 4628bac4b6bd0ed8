//! `throng run`: its exit code tells the truth about the team's work, and nothing is left behind.

use crate::support::{Outcome, World, until_some};
use std::fs;
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

#[test]
fn a_member_that_ends_well_without_its_task_stalls_the_team() {
    let world = World::new();
    let outcome = run(
        &world,
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        command = ["true"]
        [[member]]
        name = "b"
        command = ["sh", "-c", "throng task claim after --wait"]
        [[task]]
        key = "before"
        subject = "Before"
        owner = "a"
        [[task]]
        key = "after"
        subject = "After"
        owner = "b"
        blocked_by = ["before"]
        "#,
    );
    outcome.code(1).complains("stalled: task 1 'Before' was a's, which exited 0");
    outcome.complains("task 2 'After' waits for task 1");
    // The one that waited was ended by us: that is no failure of its own.
    outcome.check("b is not blamed", !outcome.stderr.contains("b killed"));
    world.assert_nothing_left();
}

#[test]
fn a_member_that_runs_always_does_not_keep_a_done_team_alive() {
    let world = World::new();
    let outcome = run(
        &world,
        r#"
        [team]
        name = "t"
        [[member]]
        name = "server"
        restart = "always"
        command = ["sleep", "600"]
        [[member]]
        name = "a"
        command = ["sh", "-c", "throng task claim k && throng task done k"]
        [[task]]
        key = "k"
        subject = "Done"
        "#,
    );
    outcome.ok().says("1 tasks completed, 0 failed");
    world.assert_nothing_left();
}

#[test]
fn a_team_of_nobody_says_so() {
    let world = World::new();
    run(&world, "[team]\nname = \"t\"\n").code(0);
    let stalled = run(&world, "[team]\nname = \"t\"\n[[task]]\nkey = \"k\"\nsubject = \"Nobody's\"\n");
    stalled.code(1).complains("stalled").complains("nobody is alive to take it");
    world.assert_nothing_left();
}

#[test]
fn one_run_after_another_keeps_what_the_first_made() {
    let world = World::new();
    let team = "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"echo made > $THRONG_OUT/made; throng send lead kept\"]\n";
    run(&world, team).ok();
    run(&world, team).ok();
    let ended: Vec<_> =
        fs::read_dir(world.state_dir().join("ended")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(fs::read_to_string(ended[0].join("out/made")).unwrap(), "made\n");
    let mail = fs::read_to_string(ended[0].join("final/team/inboxes/team-lead.json")).unwrap();
    assert!(mail.contains("\"kept\"") && mail.contains("\"read\": true"), "{mail}");
}

#[test]
fn the_name_of_another_programs_team_is_refused_and_left_alone() {
    let world = World::new();
    let team = world.plant_team("t", &["claude-mate"]);
    let before = fs::read(team.config_path()).unwrap();
    world.write("t/team.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n");
    for verb in ["run", "up"] {
        world.throng([verb, "t"]).run().code(2).complains("belongs to another program");
    }
    world.throng(["spawn", "a", "--team", "t", "--", "true"]).run().code(2).complains("not made by throng");
    world.throng(["down", "t"]).run().code(2).complains("not made by throng");
    world.throng(["gc"]).run().ok();
    assert_eq!(fs::read(team.config_path()).unwrap(), before);
    // Another name is a way out, without touching the file.
    world.throng(["run", "t", "--team", "other"]).run().ok();
    assert_eq!(world.team("other").status()["state"], "ended");
    world.assert_nothing_left();
}

#[test]
fn probe_n01_up_and_wait_are_a_run_in_two_steps() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\n[[member]]\nname = \"good\"\ncommand = [\"sh\", \"-c\", \"throng inbox take --wait\"]\n[[member]]\nname = \"bad\"\ncommand = [\"sh\", \"-c\", \"throng inbox take --wait; exit 3\"]\n",
    );
    world.throng(["up", "t"]).run().ok();
    world.throng(["wait", "--all", "--timeout", "200ms"]).run().code(124).complains("good, bad");
    let good = world.throng(["wait", "good"]).start();
    let all = world.throng(["wait", "--all", "--timeout", "1m"]).start();
    world.throng(["send", "good", "go"]).run().ok();
    good.wait().ok();
    world.throng(["send", "bad", "go"]).run().ok();
    all.wait().code(1).complains("bad exited 3");
    world.throng(["wait", "nobody"]).run().code(3);
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}
