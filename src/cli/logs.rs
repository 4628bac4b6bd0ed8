//! `throng logs`: what a teammate printed.

use super::context::{Context, agent, did_you_mean};
use super::error::{Failure, Result};
use super::out::Out;
use crate::launch;
use crate::protocol::{AgentName, names};
use crate::store::TeamStore;
use crate::sys::failed;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait between two looks at a growing log.
const LOOK: Duration = Duration::from_millis(200);

/// Show what a teammate printed
#[derive(Debug, clap::Args)]
#[command(after_help = "Beyond 16 MiB the older part is put aside, and only one such part is kept.

Example:
  throng logs bob -f")]
pub struct Logs {
    /// Whose
    name: String,
    /// Go on until it has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
}

/// A member that is or was, by the name a user wrote.
pub fn known_member(word: &str, store: &TeamStore) -> Result<AgentName> {
    let name = agent(word, store)?;
    let members = launch::observe(store)?;
    match members.iter().find(|m| m.name.as_str().eq_ignore_ascii_case(name.as_str())) {
        Some(member) => Ok(member.name.clone()),
        None => {
            let near = names::near(name.as_str(), members.iter().map(|m| m.name.as_str()));
            let hint = did_you_mean(&near);
            Err(Failure::missing(format!("team '{}' has no member '{name}'{hint}", store.name())))
        }
    }
}

/// Shows a log.
pub fn logs(verb: &Logs, context: &mut Context) -> Result {
    let store = context.team()?;
    // One that could not be started is no member, but what it printed is there.
    let printed = agent(&verb.name, &store).ok().filter(|name| store.state().log(name).exists());
    let name = known_member(&verb.name, &store).or_else(|e| printed.ok_or(e))?;
    let path = store.state().log(&name);
    if !path.exists() && !verb.follow {
        return Err(Failure::missing(format!("{name} has printed nothing yet")));
    }
    let mut log = Growing::new(path);
    let mut first = verb.tail;
    let mut rest = Vec::new();
    loop {
        // Ended first, then read: nothing printed before the end is missed.
        let has_ended = launch::observe_one(&store, &name)?.is_none_or(|m| !m.life.is_alive());
        log.read(&mut rest)?;
        if let Some(count) = first.take() {
            rest = last_lines(&rest, Some(count)).to_vec();
        }
        // JSON has whole lines only.
        let whole = match context.out.json && verb.follow && !has_ended {
            true => rest.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1),
            false => rest.len(),
        };
        let piece: Vec<u8> = rest.drain(..whole).collect();
        print(&mut context.out, &name, &piece)?;
        if !verb.follow || has_ended {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// A log that grows, and is put aside as `.1` and begun anew when it has grown long.
struct Growing {
    path: PathBuf,
    /// The present one, or the one put aside that is not read to its end.
    file: Option<File>,
}

impl Growing {
    fn new(path: PathBuf) -> Growing {
        // What was put aside comes first.
        Growing { file: File::open(path.with_extension("log.1")).ok(), path }
    }

    /// Takes what was added.
    fn read(&mut self, into: &mut Vec<u8>) -> Result {
        loop {
            if let Some(file) = &mut self.file {
                file.read_to_end(into).map_err(failed("read log", &self.path))?;
            }
            let Ok(now) = File::open(&self.path) else { return Ok(()) };
            let inode = |file: &File| file.metadata().map(|m| m.ino()).ok();
            if self.file.as_ref().is_some_and(|file| inode(file) == inode(&now)) {
                return Ok(());
            }
            // Once more: it may have grown before it was put aside.
            if let Some(file) = &mut self.file {
                file.read_to_end(into).map_err(failed("read log", &self.path))?;
            }
            self.file = Some(now);
        }
    }
}

fn last_lines(bytes: &[u8], count: Option<usize>) -> &[u8] {
    let Some(count) = count else { return bytes };
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let ends = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').map(|(i, _)| i);
    match count.checked_sub(1) {
        None => &[],
        Some(skip) => ends.skip(skip).map(|i| &bytes[i + 1..]).next().unwrap_or(bytes),
    }
}

/// A terminal gets the bytes as they are; anything else gets text without escape sequences.
fn print(out: &mut Out, name: &AgentName, bytes: &[u8]) -> Result {
    if out.is_terminal && !out.json {
        return out.bytes(bytes);
    }
    let text = strip_ansi_escapes::strip(bytes);
    if !out.json {
        return out.bytes(&text);
    }
    for line in String::from_utf8_lossy(&text).lines() {
        out.json(&json!({"name": name, "line": line}))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines() {
        assert_eq!(last_lines(b"a\nb\nc\n", Some(2)), b"b\nc\n");
        assert_eq!(last_lines(b"a\nb\nc", Some(1)), b"c");
        assert_eq!(last_lines(b"a\n", Some(5)), b"a\n");
        assert_eq!(last_lines(b"a\n", Some(0)), b"");
        assert_eq!(last_lines(b"a\nb", None), b"a\nb");
    }
}
