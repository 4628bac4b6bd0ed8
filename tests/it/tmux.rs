//! Members in tmux panes: on a real server with a private socket, as a user has it and as throng starts it itself.

use crate::support::process::is_running;
use crate::support::tmux::{Tmux, search_path, sleepers};
use crate::support::{World, until, until_some};
use std::collections::HashSet;
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn probe_a01_case_c040_no_shell_stands_between_us_and_the_agent() {
    for shell in ["#!/bin/sh\nexec sleep 600\n", "#!/bin/sh\nexit 1\n"] {
        let world = World::new();
        let path = world.write("shell", shell);
        let mut mode = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        fs::set_permissions(&path, mode).unwrap();
        let tmux = Tmux::start(&world, (200, 50), &format!("set -g default-shell {}\n", path.display()));
        tmux.throng(&["spawn", "a", "--team", "t", "--", "sh", "-c", "echo started; exec sleep 600"])
            .run()
            .ok();
        until("it printed", || world.throng(["screen", "a", "--team", "t"]).run().ok().stdout == "started\n");
        // The pane's own process is tend.
        let pid = tmux.value(&tmux.pane_of("a"), "#{pane_pid}");
        assert_eq!(pid, world.team("t").tend("a").to_string());
        world.throng(["down", "t"]).run().ok();
    }
}

#[test]
fn probe_a03_a05_eight_at_once_leave_the_users_panes_and_focus_alone() {
    let world = World::new();
    let tmux = Tmux::start(&world, (240, 60), "");
    for _ in 0..3 {
        tmux.ask(&["split-window", "-t", "%0", "-c", "/usr", "--", "sleep", "600"]);
        tmux.ask(&["select-layout", "-t", "user", "tiled"]);
    }
    tmux.ask(&["select-pane", "-t", "%2"]);
    let users = "#{pane_id} #{pane_current_path} #{pane_active} #{window_active} #{pane_pid}";
    let before = tmux.panes(users);
    world.write("t.toml", sleepers(8));
    tmux.throng(&["up", "t.toml"]).run().ok();
    let status = world.team("t").status();
    let members = status["members"].as_array().unwrap();
    assert!(members.iter().all(|m| m["state"] == "ready"), "{status:#}");
    let commands: HashSet<String> = members.iter().map(|m| m["command"].to_string()).collect();
    assert_eq!(commands.len(), 8);
    let after = tmux.panes(users);
    assert!(before.iter().all(|pane| after.contains(pane)), "{before:#?}\n{after:#?}");
    assert_eq!(after.len(), 12);
    // The row, the pane and the process are one (probe A22).
    let panes = tmux.panes("#{pane_id} #{pane_pid}");
    for member in members {
        let pane = format!("{} {}", member["place"]["pane"].as_str().unwrap(), member["tend"]);
        assert!(panes.contains(&pane), "{pane}: {panes:?}");
    }
    let rows = world.team("t").config();
    let ids: HashSet<&str> =
        rows["members"].as_array().unwrap().iter().filter_map(|m| m["tmuxPaneId"].as_str()).collect();
    assert_eq!(ids.len(), 9);
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id}").len(), 4);
}

#[test]
fn case_c031_probe_a10_q001_indexes_prefix_and_renumbering_do_not_matter() {
    let world = World::new();
    let config = "set -g base-index 1\nsetw -g pane-base-index 1\nset -g renumber-windows on\nset -g prefix C-Space\nunbind C-b\n";
    let tmux = Tmux::start(&world, (200, 50), config);
    for name in ["a", "b"] {
        let script = "exec sh -c 'throng inbox take --wait; exec sleep 600'";
        tmux.throng(&["spawn", name, "--team", "t", "--", "sh", "-c", script]).run().ok();
        world.throng(["send", name, &format!("for {name}"), "--team", "t"]).run().ok();
    }
    for name in ["a", "b"] {
        let expected = format!("for {name}\n");
        until("its message came", || {
            world.throng(["screen", name, "--team", "t"]).run().ok().stdout == expected
        });
    }
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[test]
fn probe_a11_windows_that_were_killed_or_moved_are_found_again() {
    let world = World::new();
    let tmux = Tmux::start(&world, (200, 50), "set -g renumber-windows on\n");
    tmux.ask(&["new-window", "-d", "-t", "user:", "--", "sleep", "600"]);
    tmux.ask(&["new-window", "-d", "-t", "user:", "--", "sleep", "600"]);
    tmux.spawn("a");
    tmux.ask(&["kill-window", "-t", "user:1"]);
    tmux.ask(&["move-window", "-s", "user:0", "-t", "user:7"]);
    tmux.spawn("b");
    let window = |pane: &str| tmux.value(pane, "#{window_id}");
    assert_eq!(window(&tmux.pane_of("b")), window("%0"));
    world.throng(["down", "t"]).run().ok();
}

#[test]
fn probe_a12_f08_a_pane_closed_by_hand_is_noticed_and_its_id_not_used_again() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    tmux.spawn("a");
    tmux.spawn("b");
    let (pane, pid) = (tmux.pane_of("a"), world.team("t").pid("a"));
    tmux.ask(&["kill-pane", "-t", &pane]);
    let gone = world.team("t").until_member("a", "exited");
    assert_eq!(gone["note"], "its place was closed");
    assert!(!is_running(pid));
    tmux.spawn("c");
    assert_ne!(tmux.pane_of("c"), pane);
    world.throng(["stop", "a", "--team", "t"]).run().ok();
    tmux.spawn("a");
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[test]
fn probe_a14_a15_case_c044_panes_go_beside_the_leader_wherever_the_client_looks() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    tmux.ask(&["new-session", "-d", "-s", "other", "-x", "200", "-y", "50", "--", "sleep", "600"]);
    tmux.ask(&["new-window", "-t", "user:", "-n", "second", "--", "sleep", "600"]);
    // A control-mode client is a client: it looks at the other session.
    let socket = world.tmux_socket();
    let mut client = Command::new("tmux");
    client.args(["-S", socket.to_str().unwrap(), "-C", "attach", "-t", "other"]);
    // It lives as long as its input is open.
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    until("the client is there", || tmux.ask(&["list-clients"]).contains("other"));
    let names = tmux.panes("#{window_id} #{window_name}");
    tmux.spawn("a");
    let place = tmux.value(&tmux.pane_of("a"), "#{session_name} #{window_id}");
    assert_eq!(place, format!("user {}", tmux.value("%0", "#{window_id}")));
    let after = tmux.panes("#{window_id} #{window_name}");
    assert!(names.iter().all(|n| after.contains(n)), "{names:?} {after:?}");
    assert_eq!(
        tmux.ask(&["display-message", "-p", "-t", "user:", "#{window_name}"]),
        "second",
        "focus stays"
    );
    world.throng(["down", "t"]).run().ok();
    tmux.call(&["kill-server"]);
    client.wait().unwrap();
}

#[test]
fn probe_a24_case_c026_the_directory_is_exactly_the_one_asked_for() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    let dirs = [
        "x#{session_name}",
        "y#(touch pwn)",
        "a##b",
        "trail#",
        "#",
        "sp ace",
        "q'uote",
        "semi;",
        "-dash",
        "日本",
        "a b/ü",
        "p'$(touch PWNED)'q",
    ];
    for (i, dir) in dirs.iter().enumerate() {
        fs::create_dir_all(world.path(dir)).unwrap();
        let (name, out) = (format!("m{i}"), world.path(format!("out{i}")));
        let cwd = format!("--cwd={dir}");
        let script = "pwd -P > \"$1.tmp\" && mv \"$1.tmp\" \"$1\"; exec sleep 600";
        tmux.throng(&[
            "spawn",
            &name,
            "--team",
            "t",
            &cwd,
            "--",
            "sh",
            "-c",
            script,
            "sh",
            out.to_str().unwrap(),
        ])
        .run()
        .ok();
        let at = until_some("it said where it is", || fs::read_to_string(&out).ok());
        assert_eq!(at.trim_end(), world.path(dir).to_str().unwrap());
        assert_eq!(world.team("t").member(&name)["cwd"].as_str().unwrap(), at.trim_end());
        world.throng(["stop", &name, "--team", "t"]).run().ok();
    }
    let missing = tmux.throng(&["spawn", "gone", "--team", "t", "--cwd", "not-there", "--", "true"]).run();
    missing.code(5).complains("not-there");
    for trap in ["pwn", "PWNED"] {
        assert!(!world.path(trap).exists() && !world.root().join("home").join(trap).exists());
    }
}

#[test]
fn probe_a02_case_c030_arguments_of_any_length_arrive_whole() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    for (i, size) in [4_000, 40_000, 120_000].into_iter().enumerate() {
        let word: String = "#{x} ;'\"$(y)\\é ".chars().cycle().take(size).collect::<String>() + ";";
        let (name, out) = (format!("m{i}"), world.path(format!("out{i}")));
        let script = "printf %s \"$2\" > \"$1.tmp\" && mv \"$1.tmp\" \"$1\"";
        let words =
            ["spawn", &name, "--team", "t", "--", "sh", "-c", script, "sh", out.to_str().unwrap(), &word];
        let half: String = word.chars().take(60_000).collect();
        let mut words = words;
        if word.len() > 120_000 {
            words[10] = &half;
        }
        tmux.throng(&words).run().ok();
        assert_eq!(until_some("it wrote", || fs::read_to_string(&out).ok()), words[10]);
    }
}

#[test]
fn case_c033_probe_q004_a_session_whose_name_begins_alike_is_not_touched() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    for team in ["quest", "quest-two"] {
        world.write(
            format!("{team}.toml"),
            format!("[team]\nname = \"{team}\"\nplacement = \"session\"\n[[member]]\nname = \"w1\"\ncommand = [\"sleep\", \"600\"]\n"),
        );
        tmux.throng(&["up", &format!("{team}.toml")]).run().ok();
    }
    world.throng(["down", "quest"]).run().ok();
    world.throng(["down", "quest"]).run().code(3);
    assert_eq!(world.team("quest-two").member_state("w1"), "ready");
    let sessions = tmux.ask(&["list-sessions", "-F", "#{session_name}"]);
    assert_eq!(sessions, "throng-quest-two\nuser");
    world.throng(["down", "quest-two"]).run().ok();
}

#[test]
fn case_c034_probe_q014_twelve_in_a_small_terminal_all_run_and_stay_readable() {
    let world = World::new();
    let tmux = Tmux::start(&world, (80, 24), "");
    world.write("t.toml", sleepers(12));
    tmux.throng(&["up", "t.toml"]).run().ok();
    let status = world.team("t").status();
    assert!(status["members"].as_array().unwrap().iter().all(|m| m["state"] == "ready"), "{status:#}");
    for pane in tmux.panes("#{pane_width} #{pane_height} #{pane_id}") {
        let words: Vec<&str> = pane.split(' ').collect();
        let size: Vec<u32> = words[..2].iter().map(|w| w.parse().unwrap()).collect();
        assert!(size[0] >= 40 && size[1] >= 8, "{pane}");
    }
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id} #{pane_width} #{pane_height}"), ["%0 80 24"]);
}

#[test]
fn case_c041_the_exit_status_comes_from_tend_though_pane_and_server_vanish() {
    let world = World::new();
    for (name, script, exit) in [
        ("a", "echo bye; exit 7", serde_json::json!({"code": 7})),
        ("b", "kill -9 $$", serde_json::json!({"signal": 9})),
    ] {
        world
            .throng(["spawn", name, "--team", "t", "--backend", "tmux", "--", "sh", "-c", script])
            .run()
            .ok();
        assert_eq!(world.team("t").until_member(name, "exited")["exit"], exit);
    }
    world.throng(["logs", "a", "--team", "t"]).run().ok().says("bye");
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_c05_c03_options_and_sizes_of_the_user_stay_as_they_are() {
    let world = World::new();
    let tmux = Tmux::start(&world, (200, 50), "set -g pane-border-status off\nset -g status-left 'mine'\n");
    let options = || {
        let all = [vec!["show-options", "-g"], vec!["show-options", "-s"], vec!["show-options", "-gw"]];
        let mut text: String = all.iter().map(|words| tmux.ask(words)).collect();
        text += &tmux.ask(&["show-options", "-w", "-t", "%0"]);
        text += &tmux.ask(&["show-options", "-p", "-t", "%0"]);
        text += &tmux.ask(&["show-options", "-t", "user"]);
        text
    };
    let before = options();
    tmux.spawn("a");
    tmux.ask(&["resize-pane", "-t", "%0", "-x", "120"]);
    let size = tmux.value("%0", "#{pane_width}x#{pane_height}");
    tmux.spawn("b");
    tmux.spawn("c");
    assert_eq!(tmux.value("%0", "#{pane_width}x#{pane_height}"), size);
    assert_eq!(options(), before);
    // Ours is dressed.
    let pane = tmux.pane_of("b");
    assert_eq!(tmux.value(&pane, "#{pane_title}"), "b");
    assert!(tmux.ask(&["show-options", "-p", "-t", &pane]).contains("@throng_token"));
    world.throng(["down", "t"]).run().ok();
    assert_eq!(options(), before);
}

#[test]
fn probe_b04_b05_b06_b11_the_choice_is_kept_and_auto_says_why() {
    let world = World::new();
    let tmux = Tmux::plain(&world);
    // Asked for plain processes inside tmux: tmux is not even called.
    let fakes = world.path("fakes");
    fs::create_dir(&fakes).unwrap();
    let called = world.path("called");
    let fake = world.write("fakes/tmux", format!("#!/bin/sh\necho \"$@\" >> {}\nexit 1\n", called.display()));
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path =
        std::env::join_paths(std::iter::once(fakes).chain(std::env::split_paths(&search_path()))).unwrap();
    tmux.throng(&["spawn", "a", "--team", "p", "--backend", "process", "--", "true"])
        .env("PATH", &path)
        .run()
        .ok();
    assert!(!called.exists());
    // Inside tmux, whatever terminal program it is.
    world.write("t.toml", sleepers(1));
    tmux.throng(&["up", "t.toml"]).env("TERM_PROGRAM", "vscode").run().ok().says("auto: inside tmux");
    assert!(tmux.pane_of("m1").starts_with('%'));
    world.throng(["down", "t"]).run().ok();
    // A pane of another server: not inside.
    let elsewhere = tmux.throng_at("%77", &["up", "t.toml"]).run();
    elsewhere.ok().says("TMUX_PANE is no pane of that server");
    assert_eq!(world.team("t").member("m1")["place"]["backend"], "process");
    world.throng(["down", "t"]).run().ok();
    // tmux asked for outside: a server of its own, and how to see it.
    world.throng(["up", "t.toml", "--backend", "tmux"]).run().ok().says("attach-session");
    assert!(world.team("t").status()["attach"].as_str().unwrap().contains("throng-t"));
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[test]
fn case_c037_probe_q029_a_tmux_that_cannot_do_it_is_an_error_and_nothing_is_left() {
    let world = World::new();
    let answers = [
        ("echo 'tmux 2.9a'", "too old: 3.1 is needed"),
        ("exit 1", "tells no version"),
        ("test \"$1\" = -V && echo 'tmux 3.4' || { echo 'unknown flag -Q' >&2; exit 1; }", "unknown flag -Q"),
    ];
    for (script, complaint) in answers {
        let fakes = world.path("fakes");
        let fake = world.write("fakes/tmux", format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::join_paths(std::iter::once(fakes).chain(std::env::split_paths(&search_path())))
            .unwrap();
        world.write("t.toml", sleepers(1));
        let outcome = world.throng(["run", "t.toml", "--backend", "tmux"]).env("PATH", &path).run();
        outcome.code(5).complains(complaint);
        world.assert_nothing_left();
        assert!(!world.team("t").dir().exists());
    }
    let none = world.throng(["run", "t.toml", "--backend", "tmux"]).env("PATH", "/nowhere").run();
    none.code(5).complains("tmux");
}
