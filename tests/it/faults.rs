//! A process that is killed at any step of a spawn, a birth or an end leaves a state from which the next command works.

use crate::support::{World, until};
use nix::sys::signal::Signal;

const TEAM: &str = "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"throng task claim k && throng task done k\"]\n\
                    prompt = \"go\"\n[[task]]\nkey = \"k\"\nsubject = \"s\"\n";

#[test]
fn probe_f14_a_run_killed_at_any_step_does_not_stand_in_the_way_of_the_next() {
    let steps = [
        "birth:state",
        "birth:manifest",
        "birth:team",
        "spawn:launch",
        "spawn:row",
        "spawn:inbox",
        "spawn:opened",
        "spawn:ready",
        "end:members",
        "end:files",
    ];
    for step in steps {
        let world = World::new();
        world.write("t.toml", TEAM);
        world.throng(["run", "t.toml"]).env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        let next = world.throng(["run", "t.toml"]).run();
        next.check(&format!("the next works after {step}"), next.code == Some(0));
        world.throng(["gc"]).run().ok();
        world.assert_nothing_left();
    }
}

#[test]
fn probe_f14_a_spawn_killed_at_any_step_does_not_block_its_name_or_the_end() {
    for step in ["spawn:launch", "spawn:row", "spawn:inbox", "spawn:opened", "spawn:ready"] {
        let world = World::new();
        world.spawn_sleeper("t", "first");
        let words = ["spawn", "a", "--team", "t", "--", "sleep", "600"];
        world.throng(words).env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        // From the opened place on it is simply there; before, it is lost and its name free.
        match step {
            "spawn:opened" | "spawn:ready" => {
                until("it is ready", || world.team("t").member_state("a") == "ready");
                world.throng(words).run().code(2).complains("runs already");
            }
            _ => {
                let state = world.team("t").member_state("a");
                assert!(["", "lost"].contains(&state.as_str()), "{step}: {state}");
                world.throng(words).run().ok();
            }
        }
        assert_eq!(world.team("t").roster(), ["team-lead", "first", "a"], "{step}");
        world.throng(["stop", "a", "--team", "t"]).run().ok();
        assert_eq!(world.team("t").roster(), ["team-lead", "first"], "{step}");
        world.throng(["down", "t"]).run().ok();
        world.throng(["gc"]).run().ok();
        world.assert_nothing_left();
    }
}

#[test]
fn a_down_that_was_killed_can_be_said_again() {
    for step in ["end:members", "end:files"] {
        let world = World::new();
        world.spawn_sleeper("t", "a");
        world.throng(["down", "t"]).env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        let again = world.throng(["down", "t"]).run();
        again.check(&format!("it can be ended after {step}"), again.code == Some(0));
        assert_eq!(world.team("t").status()["state"], "ended");
        world.assert_nothing_left();
    }
}

/// A change of a task that is killed leaves nothing that stays or that anybody has to wait for, whatever comes next, even if
/// nobody ever changes that task again.
#[test]
fn probe_q121_a_task_change_killed_at_any_step_is_cleared_away_by_the_next_one() {
    let changes: [&[&str]; 3] = [&["add", "new"], &["claim", "1"], &["delete", "1"]];
    for (change, step) in
        changes.iter().flat_map(|c| ["signed", "prepared", "intended", "renamed"].map(|s| (c, s)))
    {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        std::fs::create_dir_all(team.state_dir()).unwrap();
        let task = |args: &[&str]| world.throng(["task"]).args(args).args(["--team", "demo"]);
        task(&["add", "first"]).run().ok();
        task(change).env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        let next = task(&["add", "next"]).run();
        let quick = next.took < std::time::Duration::from_secs(9);
        next.ok().check(&format!("{step}: a dead writer's lock is not waited for"), quick);
        world.throng(["task", "list", "--team", "demo"]).run().ok().says("next");
        world.assert_nothing_left();
    }
}
