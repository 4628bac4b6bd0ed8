//! What `status` says of members whose processes are killed, stopped or stubborn, and what remains (B9, B10, I7).

use crate::support::process::{is_running, signal};
use crate::support::{World, until};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;

fn spawn(world: &World, name: &str, script: &str) {
    world.throng(["spawn", name, "--team", "t", "--", "sh", "-c", script]).run().ok();
}

/// The state of a member as a word and what it is busy with.
fn activity(world: &World, name: &str) -> String {
    world.team("t").member(name)["activity"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_agent_that_is_stopped_is_paused_and_can_be_ended() {
    let world = World::new();
    spawn(&world, "a", "exec sleep 600");
    let pid = world.team("t").pid("a");
    signal(pid, Signal::SIGSTOP);
    until("it is paused", || activity(&world, "a") == "paused");
    world.throng(["status", "--team", "t"]).run().ok().says("paused");
    signal(pid, Signal::SIGCONT);
    until("it goes on", || activity(&world, "a") == "ready");
    signal(pid, Signal::SIGSTOP);
    world.throng(["stop", "a", "--team", "t"]).run().ok().says("by TERM");
    assert!(!is_running(pid));
}

#[test]
fn a_member_is_working_on_its_task_or_blocked_by_anothers() {
    let world = World::new();
    world.spawn_sleeper("t", "a");
    world.spawn_sleeper("t", "b");
    let task = |words: &[&str]| {
        world.throng(words.iter().chain(&["--team", "t"])).run().ok();
    };
    task(&["task", "add", "first", "--owner", "a"]);
    task(&["task", "add", "second", "--owner", "b", "--blocked-by", "1"]);
    assert_eq!((activity(&world, "a").as_str(), activity(&world, "b").as_str()), ("ready", "blocked"));
    world.throng(["task", "claim", "1", "--team", "t"]).by("a").run().ok();
    assert_eq!(activity(&world, "a"), "working");
    task(&["task", "done", "1"]);
    assert_eq!((activity(&world, "a").as_str(), activity(&world, "b").as_str()), ("ready", "ready"));
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn probe_g02_a_killed_tend_leaves_a_lost_member_which_down_still_ends() {
    let world = World::new();
    // Without a terminal: one that has it is hung up by the system when its keeper dies.
    let words = ["spawn", "a", "--team", "t", "--no-tty", "--", "sh", "-c", "sleep 601 & exec sleep 600"];
    world.throng(words).run().ok();
    let team = world.team("t");
    let (pid, tend) = (team.pid("a"), team.tend("a"));
    signal(tend, Signal::SIGKILL);
    until("it is lost", || team.member_state("a") == "lost");
    assert_eq!(team.member("a")["pid"], pid, "its process is still there, and shown");
    assert!(is_running(pid));
    // It is not forgotten as dead while it runs.
    let gc = world.throng(["gc", "--dry-run"]).run();
    gc.ok().check("the team is not dead", !gc.stdout.contains("team t"));
    // Nor is its name free.
    world.throng(["spawn", "a", "--team", "t", "--", "true"]).run().code(2).complains("runs already");
    assert!(is_running(pid));
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_stopped_tend_does_not_hold_up_the_end() {
    let world = World::new();
    spawn(&world, "a", "exec sleep 600");
    signal(world.team("t").tend("a"), Signal::SIGSTOP);
    assert_eq!(world.team("t").member_state("a"), "ready", "it runs, whatever its keeper does");
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_members_memory_and_children_are_shown() {
    let world = World::new();
    spawn(&world, "a", "sleep 601 & sleep 602 & wait");
    until("its children are there", || world.team("t").member("a")["processes"] == 3);
    assert!(world.team("t").member("a")["resident_kb"].as_u64().unwrap() > 100);
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_f01_q065_force_kills_at_once_and_says_so() {
    let world = World::new();
    spawn(&world, "a", "trap '' TERM HUP INT; echo deaf; while :; do sleep 1; done");
    until("it is deaf", || world.throng(["screen", "a", "--team", "t"]).run().ok().stdout.contains("deaf"));
    let stopped = world.throng(["stop", "a", "--team", "t", "--force", "--json"]).run().ok().json();
    assert_eq!(
        (&stopped["ended"][0]["how"], &stopped["ended"][0]["exit"]),
        (&json!("by KILL"), &json!({"signal": 9}))
    );
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn down_during_the_pause_before_a_restart_ends_it() {
    let world = World::new();
    let words = ["spawn", "a", "--team", "t", "--restart", "on-failure", "--", "sh", "-c", "exit 3"];
    world.throng(words).run().ok();
    let restarting = world.team("t").until_member("a", "restarting");
    assert_eq!(restarting["exit"], json!({"code": 3}));
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_f13_q064_the_users_own_server_below_a_member_stays_and_strays_do_not() {
    let world = World::new();
    let socket = world.tmux_socket();
    let script = format!(
        "setsid sleep 601 & tmux -S {} -f /dev/null new-session -d -s mine -- sleep 602; exec sleep 600",
        socket.display()
    );
    spawn(&world, "a", &script);
    // The shell's own command line holds the numbers too.
    let has = |word: &str| world.processes().iter().any(|p| p.command_line() == ["sleep", word]);
    until("all are there", || has("601") && has("602"));
    world.throng(["down", "t"]).run().ok();
    assert!(!has("601"), "a stray is ended");
    assert!(has("602"), "what lives below a terminal server is the user's");
}

#[test]
fn probe_q077_caps_are_refused_before_anything_starts_with_the_number() {
    let world = World::new();
    let file = |limits: &str| {
        format!(
            "[team]\nname = \"t\"\n[limits]\n{limits}\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n"
        )
    };
    world.write("t.toml", file("memory_free_mb = 99999999"));
    world.throng(["run", "t.toml"]).run().code(5).complains("limits.memory_free_mb is 99999999");
    world.assert_nothing_left();
    world.write("t.toml", file("depth = 1\nagents = 2"));
    world.throng(["up", "t.toml"]).run().ok();
    // A member is one deep; what it spawns would be two deep.
    let deep = world.throng(["spawn", "deep", "--team", "t", "--", "true"]).env("THRONG_DEPTH", "1").run();
    deep.code(5).complains("2 deep").complains("limits.depth is 1");
    world.spawn_sleeper("t", "b");
    let many = world.throng(["spawn", "c", "--team", "t", "--", "true"]).run();
    many.code(5).complains("has 2 members").complains("limits.agents is 2");
    assert_eq!(world.team("t").roster(), ["team-lead", "a", "b"]);
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn an_agent_has_descriptors_0_1_2_only_and_dies_before_its_leader_when_memory_is_short() {
    let world = World::new();
    for (name, flags) in [("a", &["--no-tty"][..]), ("b", &[])] {
        let mut words = vec!["spawn", name, "--team", "t"];
        words.extend(flags);
        words.extend(["--", "sleep", "600"]);
        world.throng(words).run().ok();
        let pid = world.team("t").pid(name);
        let mut fds: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .map(|fd| fd.unwrap().file_name().into_string().unwrap())
            .collect();
        fds.sort();
        assert_eq!(fds, ["0", "1", "2"]);
        let score = |pid: i32| {
            fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().parse::<i32>().unwrap()
        };
        assert!(score(pid) > score(world.team("t").tend(name)));
    }
    world.throng(["down", "t"]).run().ok();
}
