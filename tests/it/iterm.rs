//! Members in iTerm2 sessions (B3): the real, unmodified `it2` against a fake iTerm2 that speaks the real API, with real
//! shells on real terminals (`fakes/iterm2_server.py`). No Mac was at hand: `docs/iterm2.md` has the checklist for one.

use crate::support::process::{is_running, signal};
use crate::support::tmux::search_path;
use crate::support::world::walk;
use crate::support::{Call, Running, World, fake, repository, until, until_some};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the pinned `it2`; `None` where the tester said that there is none.
#[allow(clippy::disallowed_methods, reason = "the tester's own word to the tests")]
fn venv() -> Option<&'static Path> {
    static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        if std::env::var_os("THRONG_TEST_NO_IT2").is_some() {
            eprintln!("skipped: THRONG_TEST_NO_IT2 is set");
            return None;
        }
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("it2");
        let made = Command::new(repository().join("scripts/it2-venv")).arg(&dir).status();
        let is_made = made.is_ok_and(|s| s.success());
        assert!(is_made, "scripts/it2-venv failed; THRONG_TEST_NO_IT2=1 leaves the iTerm2 tests out");
        Some(dir)
    };
    DIR.get_or_init(make).as_deref()
}

/// A fake iTerm2 with one session, the leader's.
struct Iterm<'a> {
    world: &'a World,
    server: Running,
    leader: String,
}

impl<'a> Iterm<'a> {
    /// `None` where there is no `it2`. `options` as the server has them.
    fn start(world: &'a World, options: Value) -> Option<Iterm<'a>> {
        let venv = venv()?;
        world.write("options.json", options.to_string());
        world.write("bin/.keep", "");
        std::os::unix::fs::symlink(venv.join("bin/it2"), world.path("bin/it2")).unwrap();
        let socket = world.root().join("home/Library/Application Support/iTerm2/private/socket");
        let server = world
            .program(venv.join("bin/python"))
            .args([fake("iterm2_server.py")])
            .args([&socket, &world.path("log.jsonl"), &world.path("options.json")])
            .start();
        let mut iterm = Iterm { world, server, leader: String::new() };
        until("the fake iTerm2 listens", || {
            assert!(iterm.server.is_running(), "{}", iterm.server.stderr());
            !iterm.logged("ready").is_empty()
        });
        iterm.leader = iterm.logged("start")[0]["session"].as_str().unwrap().to_owned();
        Some(iterm)
    }

    /// Everything of a kind that has happened.
    fn logged(&self, what: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.world.path("log.jsonl")).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        events.filter(|e: &Value| e["what"] == what).collect()
    }

    /// What a session has printed.
    fn printed(&self, session: &str) -> String {
        let of = |e: &Value| e["text"].as_str().unwrap().to_owned();
        self.logged("output").iter().filter(|e| e["session"] == session).map(of).collect()
    }

    /// What was typed into a session.
    fn typed(&self, session: &str) -> Vec<String> {
        let of = |e: &Value| e["text"].as_str().unwrap().to_owned();
        self.logged("send").iter().filter(|e| e["session"] == session).map(of).collect()
    }

    /// Pid of a session's shell.
    fn shell(&self, session: &str) -> i64 {
        let of = |e: &Value| (e["session"] == session).then(|| e["pid"].as_i64().unwrap());
        self.logged("start").iter().find_map(of).unwrap()
    }

    /// Which session was split for which new one, and how.
    fn splits(&self) -> Vec<(String, String, bool)> {
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let of = |e: &Value| (text(&e["session"]), text(&e["new"]), e["vertical"].as_bool().unwrap());
        self.logged("split").iter().map(of).collect()
    }

    fn inside(&self, call: Call) -> Call {
        call.env("TERM_PROGRAM", "iTerm.app")
            .env("ITERM_SESSION_ID", format!("w0t0p0:{}", self.leader))
            .env("ITERM2_COOKIE", "cookie")
            .env("PATH", path_with(&self.world.path("bin")))
    }

    /// A call of throng from the leader's session.
    fn throng(&self, words: &[&str]) -> Call {
        self.inside(self.world.throng(words))
    }

    fn spawn(&self, name: &str) -> String {
        self.throng(&["spawn", name, "--team", "t", "--", "cat"]).run().ok();
        self.session_of(name)
    }

    fn session_of(&self, name: &str) -> String {
        self.world.team("t").member(name)["place"]["session"].as_str().expect("it has a session").to_owned()
    }

    /// The sessions that are there, as the real `it2` lists them.
    fn sessions(&self) -> Vec<String> {
        let list = self.it2(&["session", "list", "--json"]).run().ok().json();
        list.as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
    }

    fn it2(&self, words: &[&str]) -> Call {
        self.inside(self.world.program(venv().unwrap().join("bin/it2"))).args(words)
    }

    /// Puts a program in front of the real `it2`, which it finds as `$REAL`.
    fn wrap(&self, script: &str) {
        let path = self.world.path("bin/it2");
        fs::remove_file(&path).unwrap();
        let real = venv().unwrap().join("bin/it2");
        self.world.write("bin/it2", format!("#!/bin/sh\nREAL={}\n{script}\n", real.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Only the leader's session is there, and nothing of anybody's once iTerm2 has ended.
    fn assert_nothing_left(self) {
        assert_eq!(self.sessions(), [self.leader.as_str()]);
        let world = self.world;
        drop(self);
        world.assert_nothing_left();
    }
}

fn path_with(dir: &Path) -> OsString {
    let mut path = dir.as_os_str().to_owned();
    path.push(":");
    path.push(search_path());
    path
}

/// A shell that runs `script` before it reads a line.
fn bash_with(world: &World, script: &str) -> Value {
    let rc = world.write("bashrc", script);
    json!({"shell": ["bash", "--rcfile", rc, "-i"]})
}

/// How many agents run.
fn cats(world: &World) -> usize {
    world.processes().iter().filter(|p| p.command_line() == ["cat"]).count()
}

#[test]
fn goal_b3_three_members_beside_the_leader_and_below_each_other() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| iterm.spawn(name));
    let expected = [
        (iterm.leader.clone(), a.clone(), true),
        (a.clone(), b.clone(), false),
        (b.clone(), c.clone(), false),
    ];
    assert_eq!(iterm.splits(), expected);
    let rows = world.team("t").config();
    for (name, session) in [("a", &a), ("b", &b), ("c", &c)] {
        let row = rows["members"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap();
        assert_eq!((&row["tmuxPaneId"], &row["backendType"]), (&json!(session), &json!("iterm2")));
        // The shell has become tend: nothing stands between the session and it.
        assert_eq!(i64::from(world.team("t").tend(name)), iterm.shell(session));
        let typed = iterm.typed(session);
        assert_eq!(typed.len(), 1, "{typed:?}");
        assert!(typed[0].starts_with("\x15 exec ") && typed[0].len() < 256, "{typed:?}");
        let printed = iterm.printed(session);
        assert!(printed.contains(&format!("\x1b]1;{name}\x07")), "{printed:?}");
    }
    // What a person types there reaches the agent, and what the agent prints is shown.
    iterm.it2(&["session", "run", "-s", &b, "hello"]).run().ok();
    until("cat answered", || {
        world.throng(["screen", "b", "--team", "t"]).run().ok().stdout == "hello\nhello\n"
    });
    until("it is shown", || iterm.printed(&b).ends_with("hello\r\nhello\r\n"));
    world.throng(["status", "--team", "t"]).run().ok().says(&format!("session {}", &a[..8]));
    iterm.throng(&["stop", "b", "--team", "t"]).run().ok();
    assert!(!iterm.sessions().contains(&b));
    iterm.throng(&["down", "t"]).run().ok();
    // Each ended with its tend, so there was nothing to close.
    assert_eq!(iterm.logged("close"), Vec::<Value>::new());
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_a_team_file_names_the_backend_and_a_run_ends_by_itself() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    world.write(
        "t.toml",
        "[team]\nname = \"t\"\nbackend = \"iterm2\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"test -t 0\"]\n",
    );
    iterm.throng(&["run", "t.toml"]).run().code(0).says("t on iterm2 (asked for: inside iTerm2, it2 works)");
    iterm.assert_nothing_left();
}

#[test]
fn probe_q060_a_closed_session_is_no_anchor() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    let [a, b] = ["a", "b"].map(|name| iterm.spawn(name));
    let anchor = || iterm.splits().last().unwrap().0.clone();
    // A person closes b's session: b ends with it.
    iterm.it2(&["session", "close", "-f", "-s", &b]).run().ok();
    world.team("t").until_member("b", "exited");
    let c = iterm.spawn("c");
    assert_eq!(anchor(), a);
    // One that is closed between our look and our split: the next anchor is tried.
    iterm.wrap(&format!(
        "case \"$*\" in *split*{c}*) \"$REAL\" session close -f -s {c} >&2;; esac\nexec \"$REAL\" \"$@\""
    ));
    iterm.spawn("d");
    assert_eq!(anchor(), a);
    // None of ours is left: beside the leader again.
    iterm.throng(&["stop", "a", "d", "--team", "t"]).run().ok();
    iterm.spawn("e");
    assert_eq!(anchor(), iterm.leader);
    // No anchor at all: refused in words, and no other backend.
    iterm.throng(&["stop", "e", "--team", "t"]).run().ok();
    iterm.it2(&["session", "close", "-f", "-s", &iterm.leader]).run().ok();
    let refused = iterm.throng(&["spawn", "f", "--team", "t", "--", "cat"]).run();
    refused.code(5).complains("the leader's session and those of its teammates are closed");
    assert_eq!(world.team("t").member("f"), Value::Null);
    iterm.throng(&["down", "t"]).run().ok();
    drop(iterm);
    world.assert_nothing_left();
}

#[test]
fn probe_b03_a_slow_it2_that_warns_is_accepted_and_asked_once() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    let calls = world.path("calls");
    iterm.wrap(&format!(
        "echo \"$*\" >> {}\nsleep 2\necho 'DeprecationWarning: old' >&2\nexec \"$REAL\" \"$@\"",
        calls.display()
    ));
    let lists = || fs::read_to_string(&calls).unwrap().matches("session list").count();
    let spawned = iterm
        .throng(&["spawn", "a", "--team", "t", "--backend", "iterm2", "--json", "--", "cat"])
        .run()
        .ok()
        .json();
    assert_eq!(spawned["backend"], "iterm2", "{spawned}");
    // The check, asked once although the backend was chosen twice, and the look before the split.
    assert_eq!(lists(), 2);
    // The team's backend is known: no check.
    iterm.spawn("b");
    assert_eq!(lists(), 3);
    iterm.throng(&["down", "t"]).run().ok();
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_a_line_that_a_slow_start_file_swallowed_is_typed_again() {
    let world = World::new();
    let options = bash_with(&world, "sleep 4\nwhile read -r -t 0.2 lost; do :; done\n");
    let Some(iterm) = Iterm::start(&world, options) else { return };
    let a = iterm.spawn("a");
    assert!((2..=5).contains(&iterm.typed(&a).len()), "{:?}", iterm.typed(&a));
    assert_eq!(cats(&world), 1);
    iterm.throng(&["down", "t"]).run().ok();
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_a_line_that_was_typed_twice_starts_one_agent_and_is_not_its_input() {
    let world = World::new();
    // Nothing is lost here: all lines wait in the terminal.
    let Some(iterm) = Iterm::start(&world, bash_with(&world, "sleep 7\n")) else { return };
    let a = iterm.spawn("a");
    assert!(iterm.typed(&a).len() >= 2, "{:?}", iterm.typed(&a));
    assert_eq!(cats(&world), 1);
    iterm.it2(&["session", "run", "-s", &a, "mine"]).run().ok();
    until_some("it answered", || {
        let screen = world.throng(["screen", "a", "--team", "t"]).run().ok().stdout.clone();
        screen.contains("mine").then_some(screen)
    });
    until("only what was meant for it came", || {
        world.throng(["screen", "a", "--team", "t"]).run().ok().stdout == "mine\nmine\n"
    });
    iterm.throng(&["down", "t"]).run().ok();
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_every_shell_understands_the_line() {
    let shells: [&[&str]; 5] =
        [&["dash", "-i"], &["bash", "-i"], &["zsh", "-i"], &["fish", "-i"], &["tcsh", "-i"]];
    for shell in shells {
        let world = World::new();
        if world.program("sh").args(["-c", "command -v \"$0\"", shell[0]]).run().code != Some(0) {
            eprintln!("skipped: no {}", shell[0]);
            continue;
        }
        // zsh asks a new user about his files.
        fs::write(world.root().join("home/.zshrc"), "").unwrap();
        let Some(iterm) = Iterm::start(&world, json!({"shell": shell})) else { return };
        // A path that has to be quoted, and a line begun by a person, which is not ours.
        let runtime = world.root().join("run/a ü&b");
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        iterm.wrap("case \"$*\" in *' run '*) \"$REAL\" session send -s \"$4\" 'rm -rf ';; esac\nexec \"$REAL\" \"$@\"");
        let call = |words: &[&str]| iterm.throng(words).env("XDG_RUNTIME_DIR", &runtime).run();
        call(&["spawn", "a", "--team", "t", "--", "cat"]).ok();
        let session = iterm.session_of("a");
        assert_eq!(i64::from(world.team("t").tend("a")), iterm.shell(&session), "{}", shell[0]);
        call(&["down", "t"]).ok();
        assert_eq!(iterm.sessions(), [iterm.leader.as_str()]);
        let mut left = Vec::new();
        walk(&runtime, &mut |path, is_dir| left.extend((!is_dir).then(|| path.to_owned())));
        assert!(left.is_empty(), "{}: {left:?}", shell[0]);
    }
}

#[test]
fn probe_c07_each_session_is_closed_once_and_nobody_is_asked() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({"on_end": "hold", "asks": true})) else { return };
    let mut sessions = ["a", "b", "c"].map(|name| iterm.spawn(name));
    iterm.throng(&["down", "t"]).run().ok();
    let closes = iterm.logged("close");
    let mut closed: Vec<&str> = closes.iter().map(|c| c["session"].as_str().unwrap()).collect();
    closed.sort_unstable();
    sessions.sort_unstable();
    assert_eq!(closed, sessions, "{closes:#?}");
    assert!(closes.iter().all(|c| c["answer"] == "OK"), "{closes:#?}");
    iterm.assert_nothing_left();
}

#[test]
fn probe_c07_a_start_that_failed_leaves_no_session_and_asks_nobody() {
    let world = World::new();
    let mut options = bash_with(&world, "while :; do sleep 1; done\n");
    options["asks"] = json!(true);
    let Some(iterm) = Iterm::start(&world, options) else { return };
    let failed = iterm.throng(&["spawn", "a", "--team", "t", "--", "cat"]).run();
    failed.code(5).complains("a was not started: wait until it is ready");
    let session = iterm.splits()[0].1.clone();
    let lines = iterm.typed(&session).iter().filter(|t| t.contains(".line")).count();
    assert!((2..=6).contains(&lines), "{:?}", iterm.typed(&session));
    let asked: Vec<Value> = iterm.logged("close").into_iter().filter(|c| c["answer"] != "OK").collect();
    assert_eq!(asked, Vec::<Value>::new());
    assert!(!world.team("t").dir().exists());
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_a_session_whose_shell_ends_at_once_fails_the_spawn() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    world.write("options.json", json!({"shell": ["false"]}).to_string());
    let failed = iterm.throng(&["spawn", "a", "--team", "t", "--", "cat"]).run();
    failed.code(5).complains("it was closed, or its shell has ended");
    assert!(!world.team("t").dir().exists());
    iterm.assert_nothing_left();
}

#[test]
fn probe_b13_without_it2_auto_says_why_and_an_explicit_choice_is_an_error() {
    let world = World::new();
    let leaked = |words: &[&str]| {
        world.throng(words).env("TERM_PROGRAM", "iTerm.app").env("ITERM_SESSION_ID", "w0t0p0:6A1B-C2")
    };
    let spawned = leaked(&["spawn", "a", "--team", "t", "--json", "--", "sleep", "600"]).run().ok().json();
    assert_eq!(spawned["place"], json!({"backend": "process"}), "{spawned}");
    let refused = leaked(&["spawn", "b", "--team", "u", "--backend", "iterm2", "--", "cat"]).run();
    refused.code(5).complains("it2").complains("pipx install it2");
    assert!(!world.team("u").dir().exists());
    world.write("t.toml", "[team]\nname = \"v\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n");
    let ran = leaked(&["run", "t.toml"]).run();
    ran.code(0).says("v on process (auto: not inside tmux; iTerm2's variables are set, but ").says("it2");
    let first = ran.stdout.lines().next().unwrap();
    assert!(first.ends_with(')'), "the reason is one line: {first}");
    // Outside iTerm2 it is no choice at all.
    let outside = world.throng(["run", "t.toml", "--backend", "iterm2"]).run();
    outside.code(5).complains("not inside iTerm2").complains("choose another backend");
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_b13_it2_without_an_iterm2_is_no_reason_to_fail() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    world.write("t.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n");
    // The session that the variable names is another iTerm2's.
    let leaked = iterm.throng(&["run", "t.toml"]).env("ITERM_SESSION_ID", "w0t0p0:6A1B-C2").run();
    leaked.code(0).says("t on process").says("iTerm2 has no such session");
    // No iTerm2 at all, as in a container.
    let socket = world.root().join("home/Library/Application Support/iTerm2/private/socket");
    fs::remove_file(socket).unwrap();
    iterm.throng(&["run", "t.toml"]).run().code(0).says("t on process").says("it2 session list failed");
    let refused = iterm.throng(&["run", "t.toml", "--backend", "iterm2"]).run();
    refused.code(5).complains("Enable Python API");
    drop(iterm);
    world.assert_nothing_left();
}

#[test]
fn goal_b3_a_team_whose_iterm2_was_quit_can_be_ended() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    iterm.spawn("a");
    let down = iterm.throng(&["down", "t"]);
    drop(iterm);
    world.team("t").until_member("a", "exited");
    down.run().ok();
    world.assert_nothing_left();
}

#[test]
fn goal_b11_a_member_is_respawned_in_a_session_of_its_own() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    let first = iterm.spawn("a");
    signal(world.team("t").pid("a"), Signal::SIGKILL);
    world.team("t").until_member("a", "exited");
    until("its session went with it", || iterm.sessions() == [iterm.leader.as_str()]);
    iterm.throng(&["respawn", "a", "--team", "t"]).run().ok();
    let second = iterm.session_of("a");
    assert_ne!(first, second);
    let row = &world.team("t").config()["members"][1];
    assert_eq!((&row["name"], &row["tmuxPaneId"]), (&json!("a"), &json!(second)));
    assert_eq!(i64::from(world.team("t").tend("a")), iterm.shell(&second));
    iterm.throng(&["down", "t"]).run().ok();
    iterm.assert_nothing_left();
}

#[test]
fn goal_b11_a_respawn_that_failed_leaves_no_session() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({"asks": true})) else { return };
    iterm.spawn("a");
    signal(world.team("t").pid("a"), Signal::SIGKILL);
    world.team("t").until_member("a", "exited");
    let mut options = bash_with(&world, "while :; do sleep 1; done\n");
    options["asks"] = json!(true);
    world.write("options.json", options.to_string());
    iterm.throng(&["respawn", "a", "--team", "t"]).run().code(5).complains("wait until it is ready");
    assert_eq!(iterm.sessions(), [iterm.leader.as_str()]);
    iterm.throng(&["down", "t"]).run().ok();
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_eight_at_once_each_have_their_session() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    let member = |i| format!("[[member]]\nname = \"m{i}\"\ncommand = [\"cat\"]\n");
    let members: String = (1..=8).map(member).collect();
    world.write("t.toml", format!("[team]\nname = \"t\"\n{members}"));
    iterm.throng(&["up", "t.toml"]).run().ok();
    let mut sessions: Vec<String> = (1..=8).map(|i| iterm.session_of(&format!("m{i}"))).collect();
    sessions.sort();
    let mut opened: Vec<String> = iterm.splits().into_iter().map(|(_, new, _)| new).collect();
    opened.sort();
    assert_eq!(sessions, opened);
    assert_eq!(cats(&world), 8);
    // The leader's session was split once.
    assert_eq!(iterm.splits().iter().filter(|(old, ..)| *old == iterm.leader).count(), 1);
    iterm.throng(&["down", "t"]).run().ok();
    iterm.assert_nothing_left();
}

#[test]
fn goal_b3_gc_removes_launchers_that_were_never_used() {
    let world = World::new();
    let dir = world.sockets();
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    for (name, age) in [("old.line", "1 hour ago"), ("new.line", "now")] {
        let path = dir.join(name);
        world.program("touch").args([Path::new("-d"), Path::new(age), &path]).run().ok();
    }
    world.throng(["gc"]).run().ok().says("launcher never used");
    assert!(!dir.join("old.line").exists() && dir.join("new.line").exists());
}

#[test]
fn probe_b06_inside_tmux_inside_iterm2_it_is_tmux() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({})) else { return };
    let socket = world.tmux_socket();
    let tmux = |words: &[&str]| {
        world.program("tmux").args([Path::new("-S"), &socket]).args(words).run().ok().stdout.clone()
    };
    tmux(&["new-session", "-d", "--", "sleep", "600"]);
    let pid = tmux(&["display-message", "-p", "#{pid}"]);
    let spawned = iterm
        .throng(&["spawn", "a", "--team", "t", "--json", "--", "sleep", "600"])
        .env("TMUX", format!("{},{},0", socket.display(), pid.trim()))
        .env("TMUX_PANE", "%0")
        .run()
        .ok()
        .json();
    assert_eq!(spawned["place"]["backend"], "tmux", "{spawned}");
    assert_eq!(iterm.splits(), []);
    iterm.throng(&["down", "t"]).run().ok();
}

#[test]
fn goal_b7_doctor_splits_and_closes_a_session() {
    let world = World::new();
    let Some(iterm) = Iterm::start(&world, json!({"asks": true})) else { return };
    let told = iterm.throng(&["doctor", "--json"]).run().code(0).json();
    let checks = told["checks"].as_array().unwrap();
    let find = |what: &str| checks.iter().find(|c| c["check"] == what).unwrap();
    for what in ["backend iterm2", "backend auto"] {
        let check = find(what);
        assert_eq!(check["ok"], true, "{check}");
        assert!(check["detail"].as_str().unwrap().contains("split and closed a session"), "{check}");
    }
    let shells: Vec<i64> = iterm.splits().iter().map(|(_, new, _)| iterm.shell(new)).collect();
    assert_eq!(shells.len(), 2);
    assert!(shells.iter().all(|pid| !is_running(i32::try_from(*pid).unwrap())));
    assert!(iterm.logged("close").iter().all(|c| c["answer"] == "OK"));
    iterm.assert_nothing_left();
    // Without iTerm2 it is one check less, not a fault.
    let told = world.throng(["doctor", "--json"]).run().code(0).json();
    let check =
        told["checks"].as_array().unwrap().iter().find(|c| c["check"] == "backend iterm2").unwrap().clone();
    assert_eq!((&check["ok"], &check["optional"]), (&json!(false), &json!(true)), "{check}");
}
