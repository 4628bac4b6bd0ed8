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
