//! The rules of the house that a machine can check: the order of the rooms, their "never" lines, sizes and headers, and
//! that nothing of a build machine is in the texts. Each rule proves itself on a planted violation.

use crate::support::repository;
use crate::support::world::walk;
use std::path::Path;

/// The rooms in their order, as `ARCHITECTURE.md` has it. A room may name itself and those before it.
const ROOMS: [&str; 20] = [
    "sys",
    "protocol",
    "config",
    "store",
    "agents",
    "permission",
    "hooks",
    "worktree",
    "backend",
    "driver",
    "launch",
    "provider",
    "mcp",
    "tools",
    "session",
    "leader",
    "server",
    "bridge",
    "tui",
    "cli",
];
const LINES_MAX: usize = 600;
/// Rooms whose data other programs or later runs of ours read.
const SERDE_ROOMS: [&str; 7] = ["protocol", "config", "agents", "provider", "store", "tools", "session"];
/// Pure functions of `std::env`: they read nothing.
const PURE_ENV: [&str; 2] = ["split_paths", "join_paths"];

/// A file of the repository: its path below the root, and its text.
type File = (String, String);

/// Every violation, as `path:line: what`.
fn violations(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        // A file of tests stands behind `#[cfg(test)]` in its folder's file.
        let is_code = path.ends_with(".rs") && !path.ends_with("/tests.rs");
        if let Some(below) = path.strip_prefix("src/").filter(|_| is_code) {
            let source = Source::read(below, text);
            let mut say = |(line, what): (usize, String)| found.push(format!("{path}:{line}: {what}"));
            source.order_of_rooms().into_iter().for_each(&mut say);
            source.never().into_iter().for_each(&mut say);
            if below == "lib.rs" {
                source.order_of_mods().into_iter().for_each(&mut say);
            }
        }
        let lines = text.lines().count();
        if path.ends_with(".rs") && lines > LINES_MAX {
            found.push(format!("{path}:{LINES_MAX}: {lines} lines, more than {LINES_MAX}"));
        }
        if path.ends_with(".rs") && !text.starts_with("//!") {
            found.push(format!("{path}:1: it does not begin with a //! line that says what it is"));
        }
        found.extend(of_a_build_machine(path, text));
    }
    // Once for each line: `use a::{b, c}` names `a` twice.
    found.dedup();
    found
}

/// Paths and hosts of the machine that this was written on.
fn of_a_build_machine(path: &str, text: &str) -> Vec<String> {
    // In pieces, so that this file may be checked too.
    let words: [String; 8] = [
        ["/wo", "rk/"].concat(),
        ["/ro", "ot/"].concat(),
        ["sparse", "+http"].concat(),
        ["index.", "crates.io"].concat(),
        ["static.", "crates.io"].concat(),
        ["registry.", "npmjs.org"].concat(),
        ["pypi.org", "/simple"].concat(),
        ["artif", "actory"].concat(),
    ];
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let hits = words.iter().filter(|w| line.contains(w.as_str()));
        found.extend(hits.map(|w| format!("{path}:{}: '{w}' is of a build machine", i + 1)));
    }
    found
}

/// One piece of code.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    /// `::` or one other character.
    Sign(&'static str),
    Other(char),
}

/// A source file without comments, texts and test code.
struct Source {
    room: String,
    /// How many modules deep it is: `super` that often is the crate.
    depth: usize,
    tokens: Vec<(usize, Token)>,
}

impl Source {
    fn read(below_src: &str, text: &str) -> Source {
        let parts: Vec<&str> = below_src.split('/').collect();
        let file = parts.last().unwrap().trim_end_matches(".rs");
        let is_folder_file = file == "mod";
        let room = if parts.len() == 1 { file } else { parts[0] };
        let depth = if is_folder_file { parts.len() - 1 } else { parts.len() };
        Source { room: room.to_owned(), depth, tokens: without_tests(tokens(text)) }
    }

    /// Every path that the code names, whole: `use a::{b, c::d}` gives `a::b` and `a::c::d`.
    fn paths(&self) -> Vec<(usize, Vec<String>)> {
        let mut all = Vec::new();
        let mut i = 0;
        while i < self.tokens.len() {
            let follows_path = i > 0 && self.tokens[i - 1].1 == Token::Sign("::");
            match &self.tokens[i].1 {
                Token::Word(_) if !follows_path => i = self.path(i, &[], &mut all),
                _ => i += 1,
            }
        }
        all
    }

    /// Reads one path from token `i` on; answers the token behind it.
    fn path(&self, mut i: usize, head: &[String], all: &mut Vec<(usize, Vec<String>)>) -> usize {
        let mut path = head.to_vec();
        let line = self.tokens.get(i).map_or(0, |t| t.0);
        loop {
            match self.tokens.get(i).map(|t| &t.1) {
                Some(Token::Word(word)) => path.push(word.clone()),
                Some(Token::Other('{')) if !path.is_empty() => {
                    i += 1;
                    while let Some((_, token)) = self.tokens.get(i) {
                        match token {
                            Token::Other('}') => return i + 1,
                            Token::Word(_) => i = self.path(i, &path, all),
                            _ => i += 1,
                        }
                    }
                    return i;
                }
                // `a::<T>` and `a::*` end here.
                _ => break,
            }
            i += 1;
            if self.tokens.get(i).map(|t| &t.1) != Some(&Token::Sign("::")) {
                break;
            }
            i += 1;
        }
        all.push((line, path));
        i
    }

    /// The rooms that the code names.
    fn rooms(&self) -> Vec<(usize, String)> {
        let room = |path: &[String]| -> Option<String> {
            let supers = path.iter().take_while(|w| *w == "super").count();
            let at = match path.first().map(String::as_str) {
                Some("crate" | "throng") => 1,
                Some("super") if supers >= self.depth => supers,
                _ => return None,
            };
            path.get(at).filter(|w| ROOMS.contains(&w.as_str())).cloned()
        };
        self.paths().iter().filter_map(|(line, path)| Some((*line, room(path)?))).collect()
    }

    fn order_of_rooms(&self) -> Vec<(usize, String)> {
        let place = |room: &str| ROOMS.iter().position(|r| *r == room);
        if self.room == "lib" || self.room == "main" {
            return Vec::new();
        }
        let Some(mine) = place(&self.room) else {
            return vec![(1, format!("'{}' is no room of the house", self.room))];
        };
        let below = self.rooms().into_iter().filter(|(_, room)| place(room).is_some_and(|p| p > mine));
        below
            .map(|(line, room)| (line, format!("room {} names {room}, which is below it", self.room)))
            .collect()
    }

    /// The `pub mod` lines of `lib.rs`.
    fn order_of_mods(&self) -> Vec<(usize, String)> {
        let words = |i: usize| self.tokens.get(i).map(|t| &t.1);
        let is = |i: usize, word: &str| matches!(words(i), Some(Token::Word(w)) if w == word);
        let mut last = 0;
        let mut found = Vec::new();
        for i in (0..self.tokens.len()).filter(|i| is(*i, "mod")) {
            let (line, Some(Token::Word(room))) = (self.tokens[i].0, words(i + 1)) else { continue };
            match ROOMS.iter().position(|r| r == room) {
                None => found.push((line, format!("'{room}' is no room of the house"))),
                Some(place) if place < last => found.push((line, format!("room {room} is out of order"))),
                Some(place) => last = place,
            }
        }
        found
    }

    /// The "never" lines.
    fn never(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, path) in self.paths() {
            let words: Vec<&str> = path.iter().map(String::as_str).collect();
            if let Some(rule) = self.broken_rule(&words) {
                found.push((line, format!("{} names {}: {rule}", self.room, path.join("::"))));
            }
        }
        let is_serde = |w: &str| w == "Serialize" || w == "Deserialize";
        for (i, (line, token)) in self.tokens.iter().enumerate() {
            let Token::Word(word) = token else { continue };
            let next = self.tokens.get(i + 1).map(|t| &t.1);
            if ["println", "eprintln", "print", "eprint"].contains(&word.as_str())
                && next == Some(&Token::Other('!'))
            {
                found.push((*line, format!("{word}! panics when its reader has gone")));
            }
            if word == "derive" && !SERDE_ROOMS.contains(&self.room.as_str()) {
                let rest = self.tokens[i..].iter().take_while(|t| t.1 != Token::Other(')'));
                let mut names = rest.filter_map(|t| if let Token::Word(w) = &t.1 { Some(w) } else { None });
                if names.any(|w| is_serde(w)) {
                    found.push((
                        *line,
                        format!("serde derive in {}: shapes of files are not its business", self.room),
                    ));
                }
            }
        }
        found
    }

    fn broken_rule(&self, path: &[&str]) -> Option<&'static str> {
        let is_below = |heads: &[&[&str]]| heads.iter().any(|head| path.starts_with(head));
        let reads_clock = path.ends_with(&["SystemTime", "now"]) || path.ends_with(&["Instant", "now"]);
        let files: &[&[&str]] = &[&["std", "fs"], &["tokio", "fs"]];
        let processes: &[&[&str]] = &[&["std", "process"], &["tokio", "process"], &["crate", "sys", "run"]];
        let io: &[&[&str]] = &[
            &["std", "fs"],
            &["std", "net"],
            &["std", "process"],
            &["std", "io", "stdin"],
            &["std", "os", "unix", "net"],
            &["tokio"],
            &["crate", "sys"],
        ];
        match self.room.as_str() {
            "protocol" if is_below(io) => return Some("the disk format does no I/O"),
            "protocol" if reads_clock => return Some("the disk format reads no clock"),
            "permission" if is_below(io) => return Some("permission is pure"),
            "tui" if is_below(files) => return Some("the screen writes no files"),
            "tui" if is_below(processes) => return Some("the screen starts nothing"),
            "session" if is_below(&[&["crate", "backend"], &["crate", "driver"], &["crate", "launch"]]) => {
                return Some("an agent that wants a teammate says so as an Action");
            }
            _ => {}
        }
        let is_pure = path.get(2).is_some_and(|f| PURE_ENV.contains(f));
        let may_read_env = matches!(self.room.as_str(), "config" | "main");
        if is_below(&[&["std", "env"]]) && !is_pure && !may_read_env {
            return Some("the environment is read once, in config");
        }
        None
    }
}

/// The code without what stands behind `#[cfg(test)]`.
fn without_tests(tokens: Vec<(usize, Token)>) -> Vec<(usize, Token)> {
    let word = |w: &str| Token::Word(w.to_owned());
    let mark = [
        Token::Other('#'),
        Token::Other('['),
        word("cfg"),
        Token::Other('('),
        word("test"),
        Token::Other(')'),
        Token::Other(']'),
    ];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let is_mark = tokens[i..].iter().map(|t| &t.1).take(mark.len()).eq(mark.iter());
        if !is_mark {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        }
        i += mark.len();
        let mut braces = 0;
        while let Some((_, token)) = tokens.get(i) {
            i += 1;
            match token {
                Token::Other('{') => braces += 1,
                Token::Other('}') if braces == 1 => break,
                Token::Other('}') => braces -= 1,
                Token::Other(';') if braces == 0 => break,
                _ => {}
            }
        }
    }
    kept
}

/// The code as words and signs with their lines; comments and the insides of texts are left out.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        match chars[i] {
            '/' if at(i + 1) == '/' => i = find(&chars, i, |k| at(k) == '\n'),
            '/' if at(i + 1) == '*' => i = find(&chars, i + 2, |k| at(k) == '*' && at(k + 1) == '/') + 2,
            '"' => i = end_of_text(&chars, i + 1),
            'r' if raw_text(&chars, i).is_some() => i = raw_text(&chars, i).unwrap(),
            '\'' if at(i + 1) == '\\' => i = find(&chars, i + 3, |k| at(k) == '\'') + 1,
            '\'' if at(i + 2) == '\'' => i += 3,
            ':' if at(i + 1) == ':' => {
                out.push((line, Token::Sign("::")));
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                i = find(&chars, i, |k| !(at(k).is_alphanumeric() || at(k) == '_'));
                let word: String = chars[start..i].iter().collect();
                // The prefix of a byte text or raw byte text is none.
                if !(matches!(word.as_str(), "b" | "br" | "c") && matches!(at(i), '"' | '#' | '\'')) {
                    out.push((line, Token::Word(word)));
                } else if word == "br" {
                    i = raw_text(&chars, i - 1).unwrap_or(i);
                }
            }
            c => {
                if !c.is_whitespace() {
                    out.push((line, Token::Other(c)));
                }
                i += 1;
            }
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    out
}

fn find(chars: &[char], from: usize, is_there: impl Fn(usize) -> bool) -> usize {
    (from..chars.len()).find(|k| is_there(*k)).unwrap_or(chars.len())
}

fn end_of_text(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The end of a raw text whose `r` is at `i`, if there is one and no word goes on.
fn raw_text(chars: &[char], i: usize) -> Option<usize> {
    let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(i + 1 + hashes) != Some(&'"') {
        return None;
    }
    let closes = |k: usize| {
        chars[k] == '"' && chars[k + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    Some(find(chars, i + 2 + hashes, closes) + 1 + hashes)
}

/// The texts of the repository that are checked.
fn repository_files() -> Vec<File> {
    let root = repository();
    let mut paths = Vec::new();
    for dir in ["src", "tests", "benches", "scripts", "docs", "teams-example", ".ci"] {
        walk(&root.join(dir), &mut |path, is_dir| {
            let is_built = path.components().any(|c| c.as_os_str() == "target");
            if !is_dir && !is_built {
                paths.push(path.to_owned());
            }
        });
    }
    let top = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml", "clippy.toml", "deny.toml"];
    paths.extend(top.iter().map(|name| root.join(name)).filter(|p| p.exists()));
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    // What is no text has no rule.
    paths.iter().filter_map(|p| Some((name(p), std::fs::read_to_string(p).ok()?))).collect()
}

#[test]
fn the_house_is_tidy() {
    let files = repository_files();
    assert!(files.iter().any(|(path, _)| path == "src/lib.rs"), "the sources are found");
    let found = violations(&files);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What the rules say about one file of these lines.
fn about(path: &str, lines: &[&str]) -> Vec<String> {
    let text = format!("//! Header.\n{}\n", lines.join("\n"));
    violations(&[(path.to_owned(), text)])
}

fn assert_found(path: &str, lines: &[&str], expected: &str) {
    let found = about(path, lines);
    assert!(found.len() == 1 && found[0].contains(expected), "{path} {lines:?}: {found:#?}");
}

#[test]
fn a_planted_name_of_a_room_below_is_found() {
    let expected = "src/store/x.rs:2: room store names launch, which is below it";
    for line in [
        "use crate::launch;",
        "use crate::launch::{spawn, retire};",
        "use crate::{launch, protocol};",
        "use crate::{protocol::{Team, Task}, launch::spawn};",
        "fn f() { crate::launch::spawn() }",
        "use super::super::launch;",
        "pub(in crate::launch) fn f() {}",
        "const A: &str = \"// no comment\"; use crate::launch;",
        "const A: char = '\"'; use crate::launch; const B: char = '\"';",
        "const A: &str = r#\"a \" b\"#; use crate::launch;",
    ] {
        assert_found("src/store/x.rs", &[line], expected);
    }
    assert_found("src/store/mod.rs", &["use super::cli;"], "names cli");
    assert_found("src/sys.rs", &["use super::protocol;"], "names protocol");
    assert_found("src/util/mod.rs", &["fn f() {}"], "'util' is no room of the house");
    for harmless in [
        "use crate::protocol::Team;",
        "use crate::store;",
        "use super::launch_file;",
        "use super::launch;",
        "// crate::launch",
        "/* use crate::launch; */",
        "const A: &str = \"crate::launch\";",
        "#[cfg(test)] mod tests { use crate::launch; fn f() { {} } }",
        "#[cfg(test)] use crate::launch;",
    ] {
        assert_eq!(about("src/store/x.rs", &[harmless]), Vec::<String>::new(), "{harmless}");
    }
    // Only the test code itself is passed over.
    assert_found(
        "src/store/x.rs",
        &["#[cfg(test)]", "mod tests { fn f() {} }", "use crate::launch;"],
        "x.rs:4:",
    );
}

#[test]
fn planted_rooms_out_of_order_are_found() {
    assert_found(
        "src/lib.rs",
        &["pub mod sys;", "pub mod cli;", "pub mod store;"],
        "lib.rs:4: room store is out of order",
    );
    assert_found("src/lib.rs", &["pub mod util;"], "'util' is no room");
    assert!(about("src/lib.rs", &["pub mod sys;", "pub mod protocol;", "pub mod cli;"]).is_empty());
}

#[test]
fn a_planted_breach_of_each_never_line_is_found() {
    for (path, line, expected) in [
        ("src/protocol/x.rs", "use std::fs;", "does no I/O"),
        ("src/protocol/x.rs", "use std::{fmt, fs::File};", "does no I/O"),
        ("src/protocol/x.rs", "fn f() { std::net::lookup_host() }", "does no I/O"),
        ("src/protocol/x.rs", "use std::process::Command;", "does no I/O"),
        ("src/protocol/x.rs", "fn f() { std::io::stdin(); }", "does no I/O"),
        ("src/protocol/x.rs", "use crate::sys::atomic_file;", "does no I/O"),
        ("src/protocol/x.rs", "fn f() { SystemTime::now(); }", "reads no clock"),
        ("src/protocol/x.rs", "fn f() { std::time::Instant::now(); }", "reads no clock"),
        ("src/permission.rs", "use std::fs;", "permission is pure"),
        ("src/tui/x.rs", "use std::fs;", "writes no files"),
        ("src/tui/x.rs", "use tokio::process::Command;", "starts nothing"),
        ("src/session/x.rs", "use crate::launch::spawn;", "says so as an Action"),
        ("src/session/x.rs", "use crate::{store, backend};", "says so as an Action"),
        ("src/session/x.rs", "fn f() { crate::driver::prepare() }", "says so as an Action"),
        ("src/launch/x.rs", "fn f() { std::env::var(\"X\"); }", "read once, in config"),
        ("src/cli/x.rs", "use std::{env, fs};", "read once, in config"),
        ("src/launch/x.rs", "#[derive(Debug, Serialize)] struct A;", "serde derive in launch"),
        ("src/cli/x.rs", "#[derive(serde::Deserialize, Debug)] struct A;", "serde derive in cli"),
        ("src/cli/x.rs", "fn f() { println!(); }", "println! panics"),
        ("src/sys/x.rs", "fn f() { eprint!(\"x\"); }", "eprint! panics"),
    ] {
        assert_found(path, &[line], expected);
    }
    for (path, harmless) in [
        ("src/driver/x.rs", "fn f() { std::env::split_paths(p); }"),
        ("src/config/x.rs", "use std::env;"),
        ("src/main.rs", "fn main() { std::env::args_os(); }"),
        ("src/store/x.rs", "#[derive(Debug, Serialize)] struct A;"),
        ("src/launch/x.rs", "#[derive(Debug)] struct A(Serialize);"),
        ("src/protocol/x.rs", "use std::time::SystemTime;"),
        ("src/protocol/x.rs", "#[cfg(test)] mod tests { use std::fs; }"),
        ("src/cli/x.rs", "fn f() { print(x) }"),
        ("src/store/tests.rs", "use crate::launch; fn f() { println!(); }"),
    ] {
        assert_eq!(about(path, &[harmless]), Vec::<String>::new(), "{harmless}");
    }
}

#[test]
fn planted_sizes_headers_and_build_machines_are_found() {
    let long = vec!["fn f() {}"; LINES_MAX];
    assert_found("src/sys/x.rs", &long, "601 lines, more than 600");
    assert!(about("src/sys/x.rs", &long[1..]).is_empty());
    let bare = violations(&[("src/sys/x.rs".to_owned(), "fn f() {}\n".to_owned())]);
    assert!(bare.len() == 1 && bare[0].contains("does not begin with a //! line"), "{bare:?}");
    for word in [["/wo", "rk/main"].concat(), ["/ro", "ot/.cargo"].concat(), ["index.", "crates.io"].concat()]
    {
        for path in ["README.md", "ARCHITECTURE.md", "docs/x.md", "scripts/demo", "src/sys/x.rs"] {
            assert_found(path, &[&format!("// see {word}")], "is of a build machine");
        }
    }
}
