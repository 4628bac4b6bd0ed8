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
