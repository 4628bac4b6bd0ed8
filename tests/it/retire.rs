//! Ending members for certain: asked, then made to, verified by process id, and with all they started.

use crate::support::wait::throughout;
use crate::support::{World, fake, process, until, until_some};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::time::Duration;

fn spawn(world: &World, name: &str, command: &[&str]) -> i32 {
    world.throng(["spawn", name, "--team", "demo", "--"]).args(command).run().ok();
    world.team("demo").pid(name)
}

fn until_logged(world: &World, name: &str, text: &str) {
    let log = world.team("demo").state_dir().join(format!("logs/{name}.log"));
    until(&format!("{name} says '{text}'"), || fs::read_to_string(&log).is_ok_and(|l| l.contains(text)));
}

#[test]
fn an_agent_starts_with_no_signal_blocked_or_ignored() {
    let world = World::new();
    for flag in ["--env=X=1", "--no-tty"] {
        world.throng(["spawn", "a", "--team", "demo", flag, "--", "sleep", "600"]).run().ok();
        let status = fs::read_to_string(format!("/proc/{}/status", world.team("demo").pid("a"))).unwrap();
        let line = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)).unwrap().trim().to_owned();
        assert_eq!(u64::from_str_radix(&line("SigBlk:"), 16), Ok(0), "{flag}");
        // HUP, INT, QUIT, PIPE, TERM, CHLD, WINCH; whatever else was ignored comes from whoever runs the tests.
        let ignored = u64::from_str_radix(&line("SigIgn:"), 16).unwrap();
        assert_eq!(ignored & 0x0801_5007, 0, "{flag}: {ignored:x}");
        world.throng(["stop", "a", "--team", "demo"]).run().ok().says("by TERM");
    }
}

#[test]
fn a_polite_agent_ends_by_itself_within_its_grace() {
    let world = World::new();
    let script = "trap 'echo bye; exit 0' TERM; echo listening; while :; do sleep 0.05; done";
    let pid = spawn(&world, "a", &["sh", "-c", script]);
    until_logged(&world, "a", "listening");
    let stop = world.throng(["stop", "a", "--team", "demo", "--json", "--grace", "20s"]).run();
    assert_eq!(
        stop.ok().json()["ended"][0],
        json!({"name": "a", "how": "by itself when asked", "exit": {"code": 0}, "refusal": null, "left": []})
    );
    assert!(!process::is_running(pid));
    until_logged(&world, "a", "bye");
}

#[test]
fn probe_f01_f06_q065_an_agent_that_takes_no_hint_is_killed_after_the_grace() {
    let world = World::new();
    let pid = spawn(&world, "a", &["sh", &fake("stubborn.sh")]);
    until_logged(&world, "a", "deaf");
    let stop = world.throng(["stop", "a", "--team", "demo", "--grace", "700ms", "--json"]).run();
    let ended = &stop.ok().json()["ended"][0];
    assert_eq!((ended["how"].as_str(), &ended["exit"]), (Some("by KILL"), &json!({"signal": 9})));
    stop.check("it had its grace", stop.took >= Duration::from_millis(700));
    assert!(!process::is_running(pid), "verified by its pid");
    assert_eq!(world.team("demo").roster(), ["team-lead"]);
    world.assert_nothing_left();
}

#[test]
fn probe_f03_q061_case_c090_an_agent_that_only_promises_to_end_is_killed() {
    let world = World::new();
    let pid = spawn(&world, "a", &["sh", &fake("promises.sh")]);
    until_logged(&world, "a", "listening");
    world.throng(["stop", "a", "--team", "demo", "--grace", "1s"]).run().ok().says("by KILL");
    assert!(!process::is_running(pid));
    assert_eq!(
        world.team("demo").texts("team-lead"),
        ["shutdown approved"],
        "its promise arrived all the same"
    );
    world.assert_nothing_left();
}

#[test]
fn probe_f05_q063_files_go_only_after_the_last_process_is_gone() {
    let world = World::new();
    let pid = spawn(&world, "a", &["sh", &fake("stubborn.sh")]);
    until_logged(&world, "a", "deaf");
    let team = world.team("demo");
    let mut down = world.throng(["down", "demo", "--grace", "1s"]).start();
    let check = || {
        let has_files = team.config_path().exists();
        assert!(has_files || !process::is_running(pid), "files removed under a living member");
    };
    throughout(|| down.is_running(), check);
    down.wait().ok().says("team demo is down");
    assert!(!team.dir().exists() && !process::is_running(pid));
    world.assert_nothing_left();
}

#[test]
fn probe_f13_q068_what_left_the_agents_session_is_ended_too() {
    let world = World::new();
    let daemon = |file: &str| -> i32 {
        until_some("the daemon runs", || {
            world.path(file).exists().then(|| world.read(file).trim().parse().ok()).flatten()
        })
    };
    // When the agent is stopped.
    spawn(&world, "a", &["sh", &fake("daemon.sh"), "pid-a"]);
    let left = daemon("pid-a");
    assert!(process::is_running(left));
    world.throng(["stop", "a", "--team", "demo"]).run().ok();
    assert!(!process::is_running(left), "ended when stop returns");
    // When the agent ends by itself.
    world.throng(["spawn", "b", "--team", "demo", "--", "sh", &fake("daemon.sh"), "pid-b", "go"]).run().ok();
    let left = daemon("pid-b");
    world.team("demo").until_member("b", "exited");
    assert!(!process::is_running(left), "ended before the member counts as ended");
    // With a whole run.
    let member =
        format!("[[member]]\nname = \"c\"\ncommand = [\"sh\", '{}', \"pid-c\", \"go\"]\n", fake("daemon.sh"));
    world.write("t/team.toml", format!("[team]\nname = \"t\"\ncwd = \"..\"\n{member}"));
    world.throng(["run", "t"]).run().ok();
    assert!(!process::is_running(daemon("pid-c")));
    world.throng(["down", "demo"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_q117_spawns_and_stops_leave_no_trace_in_the_roster() {
    let world = World::new();
    let team = world.team("demo");
    world.spawn_sleeper("demo", "stays");
    for _ in 0..5 {
        world.spawn_sleeper("demo", "bob");
        assert_eq!(team.roster(), ["team-lead", "stays", "bob"]);
        world.throng(["stop", "bob", "--team", "demo"]).run().ok();
        assert_eq!(team.roster(), ["team-lead", "stays"]);
        assert_eq!(world.processes().len(), 2, "the other's agent and tend");
    }
    assert_eq!(team.config()["members"].as_array().unwrap().len(), 2);
    world.throng(["stop", "nobody", "--team", "demo"]).run().code(3);
}

#[test]
fn several_are_stopped_at_once_and_the_dead_again() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.spawn_sleeper("demo", name);
    }
    world.throng(["stop", "a", "b", "--team", "demo"]).run().ok();
    assert_eq!(world.team("demo").roster(), ["team-lead", "c"]);
    world.throng(["stop", "a", "--team", "demo"]).run().ok().says("ended before");
    assert_eq!(world.team("demo").member_state("c"), "ready");
}

#[test]
fn case_c092_no_zombies_are_left_while_a_team_lives() {
    let world = World::new();
    let members: String = (0..20)
        .map(|n| {
            format!(
                "[[member]]\nname = \"m{n}\"\ncommand = [\"sh\", \"-c\", \"sleep 0.01 & exit {}\"]\n",
                n % 3
            )
        })
        .collect();
    let stays = "[[member]]\nname = \"stays\"\ncommand = [\"sleep\", \"600\"]\n";
    world.write("t/team.toml", format!("[team]\nname = \"t\"\n[limits]\nagents = 30\n{members}{stays}"));
    let running = world.throng(["run", "t"]).start();
    let team = world.team("t");
    until("all but one have ended", || {
        team.events().iter().filter(|e| e["event"] == "member_ended").count() == 20
    });
    until("their keepers have ended too", || world.processes_with("tend").len() == 1);
    until(&format!("no zombie is left of {:?}", world.zombies()), || world.zombies().is_empty());
    let status = team.status();
    for n in 0..20 {
        let member = status["members"]
            .as_array()
            .unwrap()
            .iter()
            .find(|m| m["name"] == format!("m{n}"))
            .unwrap()
            .clone();
        assert_eq!(member["exit"], json!({"code": n % 3}), "each exit is known");
    }
    running.signal(Signal::SIGTERM);
    running.wait().signalled(Signal::SIGTERM);
    world.assert_nothing_left();
}

#[test]
fn case_c092_an_agents_orphans_are_reaped() {
    let world = World::new();
    // Its children end as orphans of the agent, over and over.
    let script = "for i in 1 2 3 4 5; do (sleep 0.01 &); done; echo through; exec sleep 600";
    spawn(&world, "a", &["sh", "-c", script]);
    until_logged(&world, "a", "through");
    until("no zombie is left", || world.zombies().is_empty() && world.processes_with("0.01").is_empty());
}

#[test]
fn probe_n05_logs_and_the_last_screen_stay_after_the_end() {
    let world = World::new();
    let script = "printf 'one\\ntwo\\n'; echo three >&2; printf '\\033[31mred\\033[0m\\n'";
    world.throng(["spawn", "a", "--team", "demo", "--", "sh", "-c", script]).run().ok();
    world.throng(["wait", "a", "--team", "demo"]).run().ok();
    world.throng(["down", "demo"]).run().ok();
    let logs = |args: &[&str]| world.throng(["logs", "a", "--team", "demo"]).args(args).run();
    assert_eq!(logs(&[]).ok().stdout.replace('\r', ""), "one\ntwo\nthree\nred\n");
    assert_eq!(logs(&["--tail", "2"]).ok().stdout.replace('\r', ""), "three\nred\n");
    assert_eq!(
        logs(&["-f"]).ok().stdout.replace('\r', ""),
        "one\ntwo\nthree\nred\n",
        "following the dead ends"
    );
    world.throng(["screen", "a", "--team", "demo"]).run().ok().prints("one\ntwo\nthree\nred\n");
    let raw = fs::read_to_string(world.team("demo").state_dir().join("logs/a.log")).unwrap();
    assert!(raw.contains("\u{1b}[31m"), "the file has what was printed");
}

#[test]
fn probe_f08_a_member_killed_from_outside_is_seen_at_once_and_its_name_is_free() {
    let world = World::new();
    let pid = spawn(&world, "a", &["sleep", "600"]);
    process::signal(pid, Signal::SIGKILL);
    let member = world.team("demo").until_member("a", "exited");
    assert_eq!(member["exit"], json!({"signal": 9}));
    world.throng(["send", "a", "x", "--team", "demo"]).run().code(3);
    spawn(&world, "a", &["sleep", "600"]);
    // Its keeper killed: the agent is known to be left, and stop still ends it.
    world.throng(["stop", "a", "--team", "demo"]).run().ok();
    spawn(&world, "a", &["sh", &fake("stubborn.sh")]);
    until_logged(&world, "a", "deaf");
    let (pid, tend) = (world.team("demo").pid("a"), world.team("demo").tend("a"));
    process::signal(tend, Signal::SIGKILL);
    world.team("demo").until_member("a", "lost");
    assert!(process::is_running(pid));
    world.throng(["stop", "a", "--team", "demo"]).run().ok();
    assert!(!process::is_running(pid));
    world.throng(["down", "demo"]).run().ok();
}
