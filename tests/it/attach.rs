//! Attaching: a person's terminal is a teammate's for a while.

use crate::support::{Terminal, World, fake, process, until};

fn spawn_echo(world: &World) -> i32 {
    world.throng(["spawn", "a", "--team", "demo", "--", "sh", &fake("echo.sh")]).run().ok();
    world.team("demo").pid("a")
}

fn attach(world: &World) -> Terminal {
    let terminal = Terminal::start(world.throng(["attach", "a", "--team", "demo"]));
    terminal.until_shows("attached to a; Ctrl-] goes away again");
    terminal.until_shows("ready");
    terminal
}

#[test]
fn what_is_typed_reaches_the_agent_and_its_output_comes_back() {
    let world = World::new();
    let pid = spawn_echo(&world);
    let mut terminal = attach(&world);
    terminal.types("hello there\r");
    terminal.until_shows("got hello there");
    // Keys of signals are the agent's, not ours.
    terminal.types("\u{3}");
    terminal.until_shows("interrupted");
    assert!(terminal.is_running() && process::is_running(pid));
    terminal.types("still here\r");
    terminal.until_shows("got still here");
    // A second one sees the same, from the first picture on.
    let second = attach(&world);
    second.until_shows("got still here");
    terminal.types("both\r");
    second.until_shows("got both");
    drop(second);
    terminal.types("\u{1d}");
    assert!(terminal.wait().success());
    terminal.until_shows("detached");
    assert!(process::is_running(pid), "the agent lives on");
    let screen = world.throng(["screen", "a", "--team", "demo"]).run();
    screen.ok().says("got hello there").says("got both");
    assert_eq!(world.team("demo").member_state("a"), "ready");
    let mut again = attach(&world);
    again.until_shows("got both");
    again.types("quit\r");
    assert!(again.wait().success());
    again.until_shows("the agent has ended");
    world.team("demo").until_member("a", "exited");
}

#[test]
fn the_terminals_size_is_passed_on() {
    let world = World::new();
    spawn_echo(&world);
    let mut terminal = attach(&world);
    terminal.types("size\r");
    terminal.until_shows("size 30 100");
    terminal.resize(20, 60);
    let mut asked = 0;
    until("the new size has arrived", || {
        terminal.types("size\r");
        asked += 1;
        terminal.until_shows(&format!("size {}", if asked == 1 { "30 100" } else { "" }));
        terminal.seen().contains("size 20 60")
    });
}

#[test]
fn a_terminal_is_needed_on_both_sides() {
    let world = World::new();
    spawn_echo(&world);
    world.throng(["attach", "a", "--team", "demo"]).run().code(2).complains("needs a terminal");
    world.throng(["attach", "--team", "demo"]).run().code(2).complains("attach NAME");
    world.throng(["spawn", "mute", "--team", "demo", "--no-tty", "--", "sleep", "600"]).run().ok();
    let mut terminal = Terminal::start(world.throng(["attach", "mute", "--team", "demo"]));
    assert_eq!(terminal.wait().code(), Some(3));
    terminal.until_shows("no terminal");
    world.throng(["stop", "a", "--team", "demo"]).run().ok();
    let mut terminal = Terminal::start(world.throng(["attach", "a", "--team", "demo"]));
    assert_eq!(terminal.wait().code(), Some(3));
    terminal.until_shows("cannot be attached to");
}

#[test]
fn case_c108_colours_are_for_terminals_that_want_them() {
    let world = World::new();
    world.spawn_sleeper("demo", "a");
    let shown = |call: crate::support::Call| {
        let mut terminal = Terminal::start(call);
        assert!(terminal.wait().success());
        terminal.until_shows("unread");
        terminal.seen()
    };
    let status = || world.throng(["status", "--team", "demo"]);
    assert!(shown(status()).contains("\u{1b}[32mready"), "colours are there to be had");
    assert!(!shown(status().env("NO_COLOR", "1")).contains('\u{1b}'));
    assert!(!shown(status().env("TERM", "dumb")).contains('\u{1b}'));
    assert!(shown(status().env("NO_COLOR", "")).contains('\u{1b}'), "set but empty means nothing");
}

#[test]
fn an_agent_without_a_real_terminal_gets_its_questions_to_the_terminal_answered() {
    let world = World::new();
    let script = world.write(
        "ask.py",
        r#"
import os, sys, tty
tty.setraw(0)
os.write(1, b"ab\x1b[6n\x1b[c")
got = b""
while not got.endswith(b"c"):
    got += os.read(0, 100)
os.write(1, b"\r\nanswers: " + repr(got).encode() + b"\r\n")
os.read(0, 1)
"#,
    );
    let command = ["python3", script.to_str().unwrap()];
    let spawn = ["spawn", "a", "--team", "demo", "--backend", "process", "--"];
    world.throng([&spawn[..], &command].concat()).run().ok();
    until("the answers have come", || {
        let screen = world.throng(["screen", "a", "--team", "demo"]).run();
        screen.stdout.contains("answers: b'\\x1b[1;3R\\x1b[?62;22c'")
    });
    world.throng(["down", "demo", "--force"]).run().ok();
}
