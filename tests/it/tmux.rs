//! Members in tmux panes: on a real server with a private socket, as a user has it and as throng starts it itself.

use crate::support::process::{Process, is_running, signal};
use crate::support::{Call, Outcome, Terminal, World, fixture, until, until_some};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

/// A user's tmux server with a session `user`, of which pane `%0` is the leader's.
struct Tmux<'a> {
    world: &'a World,
}

impl<'a> Tmux<'a> {
    fn start(world: &'a World, size: (u16, u16), config: &str) -> Tmux<'a> {
        let file = world.write("tmux.conf", config);
        let tmux = Tmux { world };
        let (cols, rows) = (size.0.to_string(), size.1.to_string());
        let file = file.to_str().unwrap();
        tmux.call(&[
            "-f",
            file,
            "new-session",
            "-d",
            "-s",
            "user",
            "-x",
            &cols,
            "-y",
            &rows,
            "--",
            "sleep",
            "600",
        ])
        .ok();
        tmux
    }

    fn plain(world: &'a World) -> Tmux<'a> {
        Tmux::start(world, (200, 50), "")
    }

    fn call(&self, words: &[&str]) -> Outcome {
        let socket = self.world.tmux_socket();
        self.world.program("tmux").args(["-u", "-S", socket.to_str().unwrap()]).args(words).run()
    }

    fn ask(&self, words: &[&str]) -> String {
        self.call(words).ok().stdout.trim_end().to_owned()
    }

    /// One line per pane of the whole server.
    fn panes(&self, format: &str) -> Vec<String> {
        self.ask(&["list-panes", "-a", "-F", format]).lines().map(str::to_owned).collect()
    }

    /// A call of the program from the leader's pane.
    fn throng(&self, words: &[&str]) -> Call {
        self.throng_at("%0", words)
    }

    fn throng_at(&self, pane: &str, words: &[&str]) -> Call {
        let socket = self.world.tmux_socket();
        let pid = self.ask(&["display-message", "-p", "#{pid}"]);
        self.world.throng(words).env("TMUX", format!("{},{pid},0", socket.display())).env("TMUX_PANE", pane)
    }

    fn spawn(&self, name: &str) {
        self.throng(&["spawn", name, "--team", "t", "--", "sleep", "600"]).run().ok();
    }

    fn pane_of(&self, name: &str) -> String {
        self.world.team("t").member(name)["place"]["pane"].as_str().expect("it has a pane").to_owned()
    }

    fn value(&self, pane: &str, format: &str) -> String {
        self.ask(&["display-message", "-p", "-t", pane, format])
    }
}

/// The tester's `PATH`.
#[allow(clippy::disallowed_methods)]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

/// A team file with this many members that sleep.
fn sleepers(count: usize) -> String {
    let member = |i| format!("[[member]]\nname = \"m{i}\"\ncommand = [\"sleep\", \"60{i}\"]\n");
    let members: String = (1..=count).map(member).collect();
    format!("[team]\nname = \"t\"\n[limits]\nagents = 40\n{members}")
}

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
