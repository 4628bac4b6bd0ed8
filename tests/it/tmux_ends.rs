//! Members in tmux panes: environment, servers that end, placement, control-mode clients, odd words.

use crate::support::process::{Process, is_running, signal};
use crate::support::tmux::{Tmux, sleepers};
use crate::support::{Terminal, World, fixture, until, until_some};
use nix::sys::signal::Signal;
use std::fs;

#[test]
fn probe_k04_case_c036_the_callers_environment_arrives_and_no_secret_stands_in_a_command_line() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    tmux.ask(&["set-environment", "-g", "FOO", "the servers"]);
    let script = "printf %s \"$FOO $SECRET\" > env.tmp && mv env.tmp env; exec sleep 600";
    let words = [
        "spawn", "a", "--team", "t", "--env", "FOO", "--env", "SECRET", "--env", "OWN=1", "--", "sh", "-c",
        script,
    ];
    let call = tmux.throng(&words);
    call.env("NOT_NAMED", "x").env("FOO", "the callers").env("SECRET", "hunter2").run().ok();
    let env = until_some("it wrote", || fs::read_to_string(world.path("env")).ok());
    assert_eq!(env, "the callers hunter2");
    for process in Process::all() {
        assert!(!process.command_line().iter().any(|w| w.contains("hunter2")), "{process:?}");
    }
    let shown = world.throng(["env", "a", "--team", "t"]).run().ok().stdout.clone();
    assert!(
        shown.contains("FOO=the callers\n")
            && shown.contains("OWN=1\n")
            && shown.contains("SECRET=(secret)\n"),
        "{shown}"
    );
    assert!(!shown.contains("NOT_NAMED"), "{shown}");
    let shown = tmux.panes("#{pane_start_command}").join("\n") + &tmux.ask(&["show-environment", "-g"]);
    assert!(!shown.contains("hunter2"));
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn probe_q047_q069_a_server_of_our_own_needs_no_locale_and_inherits_nothing_of_ours() {
    let world = World::new();
    let spawn = ["spawn", "a", "--team", "t", "--backend", "tmux", "--", "sleep", "600"];
    let call = world.throng(spawn).without_env("LANG").without_env("TERM").env("SECRET", "hunter2");
    call.run().ok();
    assert_eq!(world.team("t").member_state("a"), "ready");
    let server = Process::of(Process::of(world.team("t").tend("a")).unwrap().parent).unwrap();
    assert_eq!(server.name, "tmux: server");
    for fd in fs::read_dir(format!("/proc/{}/fd", server.pid)).unwrap() {
        let target = fs::read_link(fd.unwrap().path()).unwrap_or_default();
        assert!(
            !target.starts_with(world.state_dir()) && !target.starts_with(world.config_dir()),
            "{target:?}"
        );
    }
    let environ = fs::read(format!("/proc/{}/environ", server.pid)).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains("hunter2"));
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_q074_f12_a_killed_server_is_noticed_and_nothing_of_it_stays() {
    let world = World::new();
    world.write("t.toml", sleepers(2));
    world.throng(["up", "t.toml", "--backend", "tmux"]).run().ok();
    let pids = [world.team("t").pid("m1"), world.team("t").pid("m2")];
    let server = Process::of(world.team("t").tend("m1")).unwrap().parent;
    signal(server, Signal::SIGKILL);
    for name in ["m1", "m2"] {
        world.team("t").until_member(name, "exited");
    }
    assert!(pids.iter().all(|pid| !is_running(*pid)));
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn placement_window_gives_each_member_a_window_and_touches_no_other() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    let layout = tmux.value("%0", "#{window_layout}");
    world.write("t.toml", sleepers(3).replace("name = \"t\"", "name = \"t\"\nplacement = \"window\""));
    tmux.throng(&["up", "t.toml"]).run().ok();
    assert_eq!(tmux.value("%0", "#{window_layout}"), layout);
    let mut windows = tmux.ask(&["list-windows", "-t", "user", "-F", "#{window_name} #{window_panes}"]);
    windows = windows.lines().skip(1).collect::<Vec<_>>().join(",");
    let mut names: Vec<&str> = windows.split(',').collect();
    names.sort_unstable();
    assert_eq!(names, ["m1 1", "m2 1", "m3 1"]);
    assert_eq!(tmux.value("user:", "#{pane_id}"), "%0", "focus stays");
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[test]
fn a_foreign_pane_is_never_closed_for_ours() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    tmux.spawn("a");
    let pane = tmux.pane_of("a");
    // Another program takes the pane over: it stays, whatever becomes of our member.
    tmux.ask(&["set-option", "-p", "-t", &pane, "remain-on-exit", "on"]);
    signal(world.team("t").pid("a"), Signal::SIGKILL);
    world.team("t").until_member("a", "exited");
    until("the pane is dead", || tmux.value(&pane, "#{pane_dead}") == "1");
    tmux.ask(&["set-option", "-p", "-t", &pane, "-u", "@throng_token"]);
    tmux.ask(&["respawn-pane", "-t", &pane, "--", "sleep", "600"]);
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id}"), ["%0", pane.as_str()]);
}

#[test]
fn a_server_whose_socket_is_gone_is_not_inside_and_does_not_hold_up_the_end() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    tmux.spawn("a");
    let pid = world.team("t").pid("a");
    let server = tmux.ask(&["display-message", "-p", "#{pid}"]).parse().unwrap();
    fs::remove_file(world.tmux_socket()).unwrap();
    world.write("u.toml", sleepers(1).replace("name = \"t\"", "name = \"u\""));
    let inside = format!("{},{server},0", world.tmux_socket().display());
    let up = world.throng(["up", "u.toml"]).env("TMUX", inside).env("TMUX_PANE", "%0").run();
    up.ok().says("TMUX_PANE is no pane of that server");
    assert_eq!(world.team("u").member("m1")["place"]["backend"], "process");
    for team in ["t", "u"] {
        world.throng(["down", team]).run().ok();
    }
    assert!(!is_running(pid));
    // The server makes its socket again, and its pane is gone with its program.
    signal(server, Signal::SIGUSR1);
    until("the socket is back", || world.tmux_socket().exists());
    until("the pane is gone", || tmux.panes("#{pane_id}") == ["%0"]);
}

#[test]
fn probe_b12_q010_members_are_reached_under_a_control_mode_client() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    let socket = world.tmux_socket();
    let client = world.program("tmux").args(["-S", socket.to_str().unwrap(), "-CC", "attach", "-t", "user"]);
    let mut client = Terminal::start(client);
    client.until_shows("%session-changed");
    for round in ["one", "two"] {
        for name in ["a", "b"] {
            let words =
                ["spawn", name, "--team", "t", "--", "sh", "-c", "throng inbox take --wait; exec sleep 600"];
            tmux.throng(&words).run().ok();
            world.throng(["send", name, round, "--team", "t"]).run().ok();
        }
        for name in ["a", "b"] {
            let expected = format!("{round}\n");
            until("its message came", || {
                world.throng(["screen", name, "--team", "t"]).run().ok().stdout == expected
            });
        }
        world.throng(["down", "t"]).run().ok();
        assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
    }
    tmux.call(&["kill-server"]);
    client.wait();
}

#[test]
fn case_c023_odd_words_arrive_unchanged_as_arguments_and_as_messages() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    let payloads: Vec<String> =
        serde_json::from_slice(&fs::read(fixture("C023/payloads.json")).unwrap()).unwrap();
    // As arguments of a program in a pane, all at once and in order.
    let script = "printf '%s\\0' \"$@\" > args.tmp && mv args.tmp args; exec sleep 600";
    let mut words = vec!["spawn", "a", "--team", "t", "--", "sh", "-c", script, "sh"];
    words.extend(payloads.iter().map(String::as_str));
    tmux.throng(&words).run().ok();
    let args = until_some("it wrote its arguments", || fs::read(world.path("args")).ok());
    let args: Vec<&[u8]> = args.strip_suffix(b"\0").unwrap().split(|b| *b == 0).collect();
    assert_eq!(args, payloads.iter().map(String::as_bytes).collect::<Vec<_>>());
    // As the last argument, where a `;` would end tmux's command.
    for (i, payload) in payloads.iter().enumerate() {
        let (name, out) = (format!("m{i}"), format!("last{i}"));
        let script = "printf %s \"$2\" > \"$1.tmp\" && mv \"$1.tmp\" \"$1\"";
        tmux.throng(&["spawn", &name, "--team", "t", "--", "sh", "-c", script, "sh", &out, payload])
            .run()
            .ok();
        assert_eq!(&until_some("it wrote its last", || fs::read_to_string(world.path(&out)).ok()), payload);
    }
    // As messages: by standard input, whatever they begin with. An empty one is none.
    for payload in &payloads {
        let sent = world.throng(["send", "a", "-", "--team", "t"]).stdin(payload).run();
        if payload.trim().is_empty() {
            sent.code(2).complains("nothing was sent");
            continue;
        }
        sent.ok();
        let taken = world.throng(["inbox", "take", "--team", "t"]).by("a").run();
        assert_eq!(taken.ok().stdout, format!("{payload}\n"));
    }
    assert!(!world.path("pwn").exists() && !world.root().join("home/pwn").exists());
    world.throng(["down", "t"]).run().ok();
}
