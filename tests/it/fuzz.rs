//! Mutated files and messages against the properties of `fuzz/properties.rs`: what lies in `fuzz/corpus/`, the public fixtures
//! and the example teams, changed by chance, and from then on also what was taken in a new way. Some thousands a run, always
//! the same; `THRONG_FUZZ_SECONDS=600 scripts/test fuzz::` goes on as long with other ones and prints its seed.

#[path = "../../fuzz/properties.rs"]
mod properties;

use crate::support::repository;
use crate::support::world::walk;
use fastrand::Rng;
use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Inputs of a short run.
const INPUTS: usize = 4000;
/// Longest input in bytes.
const LENGTH_MAX: usize = 4096;
/// What often decides how a text is read.
const WORDS: [&str; 84] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\ud800",
    "\\ude00",
    "\\u0000",
    "\\\"",
    "\u{feff}",
    "\u{1b}[31m",
    "\n",
    "\r\n",
    "\0",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "1.5",
    "\"\"",
    "{}",
    "[]",
    "\"type\":",
    "\"read\":",
    "\"from\":",
    "\"msg_id\":",
    "\"name\":",
    "\"members\":",
    "\"metadata\":",
    "\"status\":",
    "\"id\":",
    "'''",
    "[[",
    "]]",
    "=",
    "#",
    "\u{2028}",
    "</teammate-message>",
    "$(",
    "${",
    "$((",
    "))",
    ")",
    "(",
    "`",
    "'",
    "$'",
    "\\\n",
    "<<EOF",
    "\nEOF\n",
    "<<<",
    "<(",
    "&&",
    "||",
    "|&",
    ";;",
    "&>",
    ">&2",
    " > f",
    "\t",
    "; ",
    " if ",
    " then ",
    " fi",
    " do ",
    " done",
    " for x in ",
    "while ",
    " case x in ",
    " esac",
    "[[ ",
    " ]]",
    "{ ",
    "; }",
    "f() ",
    "A=",
    "~",
    "*",
];

/// A bash that answers for each text whether `bash -n` refuses it; one process, since each text costs one otherwise.
struct Bash {
    child: std::process::Child,
    answers: std::io::BufReader<std::process::ChildStdout>,
}

impl Bash {
    fn start() -> Bash {
        // Texts come as escapes of printf, one a line.
        let loop_text = r#"while IFS= read -r line; do
            printf -v text '%b' "$line"
            if bash -n -c -- "$text" 2>/dev/null; then echo ok; else echo refused; fi
        done"#;
        let mut child = std::process::Command::new("bash")
            .args(["-c", loop_text])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let answers = std::io::BufReader::new(child.stdout.take().unwrap());
        Bash { child, answers }
    }

    fn refuses(&mut self, text: &str) -> bool {
        use std::io::{BufRead, Write};
        let quoted: String = text.bytes().map(|byte| format!("\\0{byte:03o}")).collect();
        writeln!(self.child.stdin.as_mut().unwrap(), "{quoted}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(answer == "ok\n" || answer == "refused\n", "{answer:?}");
        answer == "refused\n"
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What this target begins with: its own corpus, and of `more` the files that end so.
fn corpus(target: &str, more: &[(&str, &str)]) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    let own = format!("fuzz/corpus/{target}");
    for (dir, end) in [(own.as_str(), "")].iter().chain(more) {
        walk(&repository().join(dir), &mut |path, is_dir| {
            let is_one = !is_dir && path.to_string_lossy().ends_with(end) && !path.ends_with("target");
            paths.extend(is_one.then(|| path.to_owned()));
        });
    }
    paths.sort();
    assert!(paths.len() >= 3, "a corpus of {target}");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn mutated(rng: &mut Rng, all: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = all[rng.usize(..all.len())].clone();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=bytes.len());
        let end = (at + rng.usize(..20)).min(bytes.len());
        match rng.u8(..7) {
            0 => drop(bytes.splice(at..at, WORDS[rng.usize(..WORDS.len())].bytes())),
            1 => drop(bytes.splice(at..end, WORDS[rng.usize(..WORDS.len())].bytes())),
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            4 => bytes.truncate(at),
            5 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            _ => {
                // The end of another.
                let other = &all[rng.usize(..all.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
        }
    }
    bytes.truncate(LENGTH_MAX);
    bytes
}

fn fuzz(target: &str, more: &[(&str, &str)], holds: impl Fn(&[u8]) -> String) {
    #[allow(clippy::disallowed_methods, reason = "the tester's own word to the tests")]
    let seconds = std::env::var("THRONG_FUZZ_SECONDS").ok().map(|text| text.parse().unwrap());
    let limit = seconds.map(Duration::from_secs);
    let seed = limit.map_or(1, |_| fastrand::u64(..));
    let (mut rng, start) = (Rng::with_seed(seed), Instant::now());
    let (mut all, mut ways, mut tried) = (corpus(target, more), HashSet::new(), 0);
    let mut inputs: Vec<Vec<u8>> = all.clone();
    while limit.map_or(tried < INPUTS, |limit| start.elapsed() < limit) {
        let input = inputs.pop().unwrap_or_else(|| mutated(&mut rng, &all));
        let Ok(way) = catch_unwind(AssertUnwindSafe(|| holds(&input))) else {
            let shown = input.escape_ascii();
            panic!("{target}, seed {seed}, input {tried}: put this into fuzz/corpus/{target}: b\"{shown}\"");
        };
        tried += 1;
        if ways.insert(way) {
            all.push(input);
        }
    }
    eprintln!("{target}: {tried} inputs, {} ways to be taken, seed {seed}", ways.len());
    assert!(ways.len() >= 3, "the inputs get somewhere: {ways:?}");
}

#[test]
fn fuzz_inbox_files() {
    let more = [("tests/it/fixtures/C011", ".json"), ("tests/it/fixtures/C015", ".json")];
    fuzz("inbox", &more, properties::inbox);
}

#[test]
fn fuzz_team_files() {
    fuzz("team", &[], properties::team);
}

#[test]
fn fuzz_task_files() {
    fuzz("task", &[], properties::task);
}

#[test]
fn fuzz_bodies() {
    fuzz("body", &[("tests/it/fixtures/C023", ".json")], properties::body);
}

#[test]
fn fuzz_team_toml() {
    let dir = tempfile::tempdir().unwrap();
    fuzz("plan", &[("teams-example", "team.toml")], |bytes| {
        properties::plan(bytes, &dir.path().join("team.toml"))
    });
}

#[test]
fn fuzz_shell_lines_against_bash_and_another_splitter() {
    let bash = std::cell::RefCell::new(Bash::start());
    assert!(bash.borrow_mut().refuses("a 'b") && !bash.borrow_mut().refuses("a 'b\n'"), "bash answers");
    fuzz("shell", &[], |bytes| {
        // The words of other targets are few enough in here; the long ones cost bash too much.
        properties::shell_line(&bytes[..bytes.len().min(400)], |text| bash.borrow_mut().refuses(text))
    });
}
