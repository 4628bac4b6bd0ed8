//! Corners of ending and starting where two things happen at once, or where a file or process is not what it should be.

use crate::support::process::{is_running, signal};
use crate::support::{Terminal, World, until, until_some};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const ONE: &str = "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n";

fn up(world: &World, text: &str) {
    world.write("t.toml", text);
    world.throng(["up", "t.toml"]).run().ok();
}

#[test]
fn a_damaged_team_file_hides_nobody_from_down() {
    let world = World::new();
    up(&world, ONE);
    let team = world.team("t");
    let pid = team.pid("a");
    let whole = fs::read(team.config_path()).unwrap();
    fs::write(team.config_path(), &whole[..whole.len() / 2]).unwrap();
    world.throng(["down", "t"]).run().ok();
    assert!(!is_running(pid));
    world.assert_nothing_left();
}

#[test]
fn an_agent_whose_leader_died_before_it_was_started_is_not_started() {
    let world = World::new();
    world.write("t.toml", ONE);
    let stopped = world.throng(["run", "t.toml"]).env("THRONG_FAULT", "stop@spawn:inbox").start();
    let leader = stopped.pid();
    until("it stands still before the place is opened", || {
        crate::support::process::Process::of(leader).is_some_and(|p| p.state == 'T')
    });
    // What the leader would have started, started by hand once it is dead.
    let launch = world.team("t").state_dir().join("launch/a.json");
    let file: serde_json::Value = serde_json::from_slice(&fs::read(&launch).unwrap()).unwrap();
    assert_eq!(file["ends_with"]["pid"], leader);
    signal(leader, Signal::SIGKILL);
    stopped.wait();
    world.throng([std::ffi::OsStr::new("tend"), launch.as_os_str()]).run();
    assert!(world.processes_with("600").is_empty());
    assert_eq!(world.team("t").member("a")["note"], "its leader died");
    world.throng(["run", "t.toml", "--timeout", "100ms"]).run().code(124);
    world.assert_nothing_left();
}

#[test]
fn a_member_that_spawns_another_while_it_is_ended_leaves_nobody() {
    let world = World::new();
    let script = "trap 'throng spawn kid -- sleep 601; exit' TERM; echo set; while :; do sleep 0.05; done";
    world.throng(["spawn", "a", "--team", "t", "--", "sh", "-c", script]).run().ok();
    until("its trap is set", || {
        world.throng(["screen", "a", "--team", "t"]).run().ok().stdout.contains("set")
    });
    world.throng(["down", "t"]).run().ok();
    assert!(!world.processes().iter().any(|p| p.command_line() == ["sleep", "601"]));
    world.assert_nothing_left();
    // Nor can one be added to what is over.
    world.throng(["spawn", "late", "--team", "t", "--", "true"]).run().ok();
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn an_orphan_without_any_mark_is_ended_by_its_identity() {
    let world = World::new();
    world.throng(["spawn", "a", "--team", "t", "--no-tty", "--", "env", "-i", "sleep", "601"]).run().ok();
    let pid = world.team("t").pid("a");
    until("it is what it shall be", || {
        crate::support::process::Process::of(pid).is_some_and(|p| p.command_line() == ["sleep", "601"])
    });
    signal(world.team("t").tend("a"), Signal::SIGKILL);
    until("it is lost", || world.team("t").member_state("a") == "lost");
    world.throng(["down", "t"]).run().ok().says("its tend being gone");
    assert!(!is_running(pid));
}

#[test]
fn a_failed_birth_touches_nothing_that_was_there() {
    let world = World::new();
    let mail = world.team("t").plant_inbox("bob", "[]");
    world.write("t.toml", ONE);
    world.throng(["up", "t.toml"]).run().code(2).complains("belongs to another program");
    assert!(mail.exists());
    fs::remove_dir_all(world.team("t").dir()).unwrap();
    fs::create_dir_all(world.team("t").tasks_dir()).unwrap();
    fs::write(world.team("t").task_path("7"), "{\"id\":\"7\",\"status\":\"pending\"}").unwrap();
    world.throng(["up", "t.toml", "--out", "/proc/nope"]).run().code(2);
    assert!(world.team("t").task_path("7").exists(), "a task that was kept stays");
    assert!(!world.team("t").dir().exists());
    world.throng(["run", "t.toml", "--log-level", "throng=nolevel"]).run().code(2);
    assert!(!world.team("t").dir().exists());
    world.throng(["spawn", "x", "--team", "typo", "--", "no-such-program"]).run().code(5);
    assert!(!world.team("typo").dir().exists(), "no team for a member that cannot be");
}

#[test]
fn an_adopter_by_force_keeps_the_members_of_a_team_that_ends_with_its_leader() {
    let world = World::new();
    up(&world, &ONE.replace("name = \"t\"", "name = \"t\"\non_leader_death = \"stop\""));
    let pid = world.team("t").pid("a");
    for _ in 0..3 {
        signal(world.team("t").leader(), Signal::SIGSTOP);
        world.throng(["adopt", "--force"]).run().ok();
    }
    assert_eq!(world.team("t").pid("a"), pid);
    // They follow the new one to its death.
    signal(world.team("t").leader(), Signal::SIGKILL);
    world.team("t").until_member("a", "exited");
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_closed_place_gives_the_agent_its_grace() {
    let world = World::new();
    let script =
        "trap 'sleep 0.2; echo over > over; exit 0' TERM HUP; echo set; while :; do sleep 0.02; done";
    let words = ["spawn", "a", "--team", "t", "--backend", "tmux", "--", "sh", "-c", script];
    world.throng(words).run().ok();
    until("its trap is set", || {
        world.throng(["screen", "a", "--team", "t"]).run().ok().stdout.contains("set")
    });
    let place = world.team("t").member("a")["place"].clone();
    let (socket, pane) = (place["socket"].as_str().unwrap(), place["pane"].as_str().unwrap());
    world.program("tmux").args(["-S", socket, "kill-pane", "-t", pane]).run().ok();
    let member = world.team("t").until_member("a", "exited");
    assert_eq!((&member["exit"], &member["note"]), (&json!({"code": 0}), &json!("its place was closed")));
    assert_eq!(world.read("over"), "over\n");
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_row_of_another_program_is_not_stopped() {
    let world = World::new();
    world.spawn_sleeper("t", "a");
    let path = world.team("t").config_path();
    let mut config = world.team("t").config();
    let row = json!({"agentId": "alice@t", "name": "alice", "backendType": "in-process"});
    config["members"].as_array_mut().unwrap().push(row);
    fs::write(&path, serde_json::to_vec_pretty(&config).unwrap()).unwrap();
    world.throng(["stop", "alice", "--team", "t"]).run().code(2).complains("another program's");
    assert_eq!(world.team("t").roster(), ["team-lead", "a", "alice"]);
    // Nor waited for.
    world.throng(["stop", "a", "--team", "t"]).run().ok();
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn what_is_pasted_arrives_whole_however_late_the_agent_reads() {
    let world = World::new();
    let script = "stty raw -echo; echo ready; until [ -e go ]; do sleep 0.02; done; head -c 200000 > got.tmp; mv got.tmp got; exec sleep 600";
    world.throng(["spawn", "a", "--team", "t", "--", "sh", "-c", script]).run().ok();
    let mut terminal = Terminal::start(world.throng(["attach", "a", "--team", "t"]));
    terminal.until_shows("ready");
    let text: String = ('a'..='z').cycle().take(200_000).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| terminal.types(&text));
        // Far more than a terminal's queue has gone in before it reads.
        until("the screen still answers", || {
            world.throng(["screen", "a", "--team", "t"]).run().code == Some(0)
        });
        world.write("go", "");
    });
    let got = until_some("it has it all", || fs::read_to_string(world.path("got")).ok());
    assert_eq!(got.len(), text.len());
    assert!(got == text);
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn an_agent_that_opens_its_terminal_anew_is_read_again() {
    let world = World::new();
    let script = "exec 0</dev/null 1>/dev/null 2>/dev/null; sleep 0.3; exec 1>/dev/tty; head -c 200000 /dev/zero | tr '\\0' x; echo end; exec sleep 600";
    world.throng(["spawn", "a", "--team", "t", "--", "sh", "-c", script]).run().ok();
    until("its output is there", || {
        world.throng(["screen", "a", "--team", "t"]).run().ok().stdout.contains("end")
    });
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn down_of_a_run_has_the_grace_that_was_asked_for() {
    let script = "trap 'sleep 0.5; exit 0' TERM; echo set; while :; do sleep 0.02; done";
    for (flags, exit) in
        [(vec!["--grace", "30s"], json!({"code": 0})), (vec!["--force"], json!({"signal": 9}))]
    {
        let world = World::new();
        world.write("t.toml", ONE.replace("[\"sleep\", \"600\"]", &json!(["sh", "-c", script]).to_string()));
        let run = world.throng(["run", "t.toml"]).start();
        until("its trap is set", || {
            let screen = world.throng(["screen", "a", "--team", "t"]).run();
            screen.code == Some(0) && screen.stdout.contains("set")
        });
        world.throng(["down", "t"].into_iter().chain(flags)).run().ok();
        run.wait().signalled(Signal::SIGTERM);
        assert_eq!(world.team("t").member("a")["exit"], exit);
        world.assert_nothing_left();
    }
}

#[test]
fn a_leader_that_a_member_started_outlives_it() {
    let world = World::new();
    world.write("inner.toml", ONE.replace("name = \"t\"", "name = \"inner\""));
    let script = "throng up inner.toml > done 2>&1; mv done up; exec sleep 600";
    world.throng(["spawn", "boss", "--team", "outer", "--", "sh", "-c", script]).run().ok();
    until("the inner team is up", || world.path("up").exists());
    world.throng(["down", "outer"]).run().ok();
    assert!(is_running(world.team("inner").leader()), "{}", world.read("up"));
    world.throng(["down", "inner"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn limits_hold_for_spawns_at_once_and_for_respawns() {
    let world = World::new();
    up(&world, &format!("{ONE}[limits]\nagents = 2\n"));
    let spawns: Vec<_> = (0..4)
        .map(|i| world.throng(["spawn", &format!("s{i}"), "--team", "t", "--", "sleep", "600"]).start())
        .collect();
    let codes: Vec<_> = spawns.into_iter().map(|s| s.wait().code).collect();
    assert_eq!(codes.iter().filter(|c| **c == Some(0)).count(), 1, "{codes:?}");
    let one = world.team("t").roster().pop().unwrap();
    signal(world.team("t").pid(&one), Signal::SIGKILL);
    world.team("t").until_member(&one, "exited");
    world.throng(["spawn", "other", "--team", "t", "--", "sleep", "600"]).run().ok();
    world.throng(["respawn", &one, "--team", "t"]).run().code(5).complains("limits.agents is 2");
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_restart_whose_program_is_away_for_a_moment_is_tried_again() {
    let world = World::new();
    let program = world.write("agent", "#!/bin/sh\necho life >> lives\nexit 3\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    world.throng(["spawn", "a", "--team", "t", "--restart", "on-failure", "--", "./agent"]).run().ok();
    world.team("t").until_member("a", "restarting");
    fs::rename(&program, world.path("away")).unwrap();
    until("it was missed", || {
        world
            .team("t")
            .events()
            .iter()
            .any(|e| e["event"] == "member_restarting" && e["exit"] == json!({"code": 126}))
    });
    fs::rename(world.path("away"), &program).unwrap();
    until("it lives again", || world.read("lives").lines().count() >= 2);
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn wait_does_not_wait_for_a_member_that_nobody_will_start() {
    let world = World::new();
    let team =
        format!("{ONE}[[member]]\nname = \"b\"\ncommand = [\"true\"]\n[limits]\nstart_rate_per_s = 0.01\n");
    world.write("t.toml", team);
    let run = world.throng(["run", "t.toml"]).start();
    world.team("t").until_member("a", "ready");
    assert_eq!(world.team("t").member_state("b"), "planned");
    run.signal(Signal::SIGKILL);
    run.wait();
    world.throng(["wait", "--team", "t", "--timeout", "20s"]).run().code(1).complains("b lost");
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn another_login_reaches_a_living_member() {
    let world = World::new();
    world.throng(["spawn", "a", "--team", "t", "--", "sh", "-c", "echo hello; exec sleep 600"]).run().ok();
    until("it is seen from elsewhere", || {
        let screen = world.throng(["screen", "a", "--team", "t"]).without_env("XDG_RUNTIME_DIR").run();
        screen.code == Some(0) && screen.stdout == "hello\n"
    });
    world.throng(["down", "t"]).without_env("XDG_RUNTIME_DIR").run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_reader_that_does_not_read_holds_up_neither_the_timeout_nor_the_end() {
    let world = World::new();
    let script = "i=0; while [ $i -lt 40 ]; do head -c 5000 /dev/zero | tr '\\0' x | throng send lead -; i=$((i+1)); done; exec sleep 600";
    world.write("t.toml", ONE.replace("[\"sleep\", \"600\"]", &json!(["sh", "-c", script]).to_string()));
    // Open, and never read: the pipe is full after 64 KiB.
    let (reader, writer) = std::io::pipe().unwrap();
    let run = world.throng(["run", "t.toml", "--timeout", "3s"]).stdout(writer).run();
    run.code(124);
    drop(reader);
    world.assert_nothing_left();
}

#[test]
fn a_reader_that_is_gone_does_not_end_a_leader() {
    let world = World::new();
    up(&world, ONE);
    signal(world.team("t").leader(), Signal::SIGKILL);
    until("it has no leader", || world.team("t").status()["leader"].is_null());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    world.throng(["adopt"]).stdout(writer).timeout(Duration::from_secs(30)).run().code(0);
    assert!(is_running(world.team("t").leader()));
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_team_file_without_members_comes_up_and_goes_down() {
    let world = World::new();
    up(&world, "[team]\nname = \"t\"\n");
    assert_eq!(world.team("t").status()["state"], "led");
    world.throng(["down", "t"]).run().ok();
    world.throng(["run", "t.toml"]).run().code(0);
    world.assert_nothing_left();
}
