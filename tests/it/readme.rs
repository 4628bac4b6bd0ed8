//! The README: what it shows can be done as it stands there, and its tables name what there is.

use crate::support::normalise::normalise;
use crate::support::{World, quoted, repository, until_some};
use std::fs;

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).unwrap()
}

/// The fenced block that follows the line that begins so.
fn block_after(line: &str) -> String {
    let readme = readme();
    let mut lines = readme.lines().skip_while(|l| !l.starts_with(line));
    assert!(lines.next().is_some(), "no line '{line}'");
    let block = lines.skip_while(|l| !l.starts_with("```")).skip(1).take_while(|l| !l.starts_with("```"));
    block.map(|l| format!("{l}\n")).collect()
}

/// Lines without what differs between two runs, in an order of their own.
fn lines(text: &str, world: &World) -> Vec<String> {
    let state = world.state_dir();
    let text = text.replace(&*state.to_string_lossy(), "~/.local/state/throng");
    let text = normalise(&text, world);
    let mut lines: Vec<String> = text.lines().filter(|l| !l.trim().is_empty()).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_quick_start_goes_as_it_is_shown() {
    let world = World::new();
    world.write("hello/team.toml", block_after("Save this as `hello/team.toml`"));
    let shown = block_after("Run it. throng makes the team");
    let (command, shown) = shown.split_once('\n').unwrap();
    assert_eq!(command, "$ throng run hello");
    let outcome = world.throng(["run", "hello"]).run();
    assert_eq!(lines(&outcome.ok().stdout, &world), lines(shown, &world));
    world.assert_nothing_left();
}

#[test]
fn the_team_without_a_file_goes_as_it_is_shown() {
    let world = World::new();
    let transcript = block_after("Without a team file, and left running:");
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in transcript.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), String::new())),
            (None, Some((_, shown))) => *shown += &format!("{line}\n"),
            (None, None) => panic!("no command before '{line}'"),
        }
    }
    assert!(steps.len() >= 4, "{steps:?}");
    for (command, shown) in steps {
        let line = format!("throng() {{ {} \"$@\"; }}; {command}", quoted(env!("CARGO_BIN_EXE_throng")));
        // A person types slowly: an answer that is on its way has come by then.
        until_some(&format!("'{command}' shows {shown}"), || {
            let outcome = world.program("sh").args(["-c", &line]).run();
            (outcome.code == Some(0)).then(|| {
                outcome.code(0).check(&shown, lines(&outcome.stdout, &world) == lines(&shown, &world)).code
            })
        });
    }
    world.assert_nothing_left();
}

#[test]
fn its_table_of_verbs_is_that_of_the_help() {
    let world = World::new();
    let help = world.throng(["--help"]).run();
    let commands =
        help.ok().stdout.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let mut verbs: Vec<String> = commands
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .map(|l| l.split_whitespace().next().unwrap().to_owned())
        .collect();
    let readme = readme();
    let rows = readme
        .lines()
        .skip_while(|l| *l != "| verb | what it does |")
        .skip(2)
        .take_while(|l| l.starts_with("| `"));
    // A row may stand for several: the first word of each code.
    let mut named: Vec<String> = Vec::new();
    for row in rows {
        let cell = row.trim_start_matches("| ").split(" | ").next().unwrap();
        let codes = cell.split('`').skip(1).step_by(2);
        named.extend(codes.map(|code| code.split_whitespace().next().unwrap().to_owned()));
    }
    let is_sub = |word: &String| {
        ["inbox", "task"].iter().any(|group| {
            let help = world.throng([group, "--help"]).run();
            help.stdout.lines().any(|l| l.split_whitespace().next() == Some(word))
        })
    };
    named.retain(|word| word != "throng" && (verbs.contains(word) || !is_sub(word)));
    named.sort();
    named.dedup();
    verbs.sort();
    assert_eq!(named, verbs);
}
