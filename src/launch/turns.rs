//! A program that runs one turn and ends (`mail = "resume"`): started once for each message, the later ones in the
//! conversation that the first began. This runs below `tend`, in the place of the program.

use super::notice;
use crate::config::drivers::DriverEntry;
use crate::config::plan::AgentOptions;
use crate::driver::{letter, table};
use crate::protocol::body::{Body, Situation, may_say};
use crate::protocol::{AgentName, Entry, names};
use crate::store::{LaunchFile, Result, TeamStore};
use regex::Regex;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Last bytes of a turn's output that are kept: its beginning may name the conversation, its end is its result.
const OUTPUT_BYTES_KEPT: usize = 256 * 1024;
/// Longest result in characters, as the protocol has it.
const RESULT_CHARS_MAX: usize = 4000;

/// Who runs turn by turn.
struct Turns<'a> {
    store: &'a TeamStore,
    agent: &'a AgentName,
    launch: &'a LaunchFile,
    entry: &'a DriverEntry,
    program: &'a Path,
    session: Option<String>,
    is_introduced: bool,
}

/// Runs a turn for each message, until the leader asks for the end. What the turns print goes to `out` too.
///
/// # Errors
/// The inbox cannot be read or marked.
pub fn turns(
    store: &TeamStore,
    launch: &LaunchFile,
    (entry, program): (&DriverEntry, &Path),
    out: &mut impl Write,
) -> Result<()> {
    let agent = &launch.agent;
    let mut turns = Turns { store, agent, launch, entry, program, session: None, is_introduced: false };
    let mailbox = store.mailbox(agent);
    let mut watch = store.watch_mail(agent);
    let mut has_said = false;
    loop {
        // Looked at first, so that no change between the two is missed.
        let _ = watch.has_changed();
        let Some(message) = mailbox.unread()?.entries.into_iter().next() else {
            if !std::mem::replace(&mut has_said, true) {
                say(out, table::TURN_ENDED);
            }
            watch.wait(Duration::MAX);
            continue;
        };
        has_said = false;
        let body = Body::parse(&message.text);
        let situation = Situation { me: agent, leader: names::LEAD, signature: None, pending: &[] };
        if matches!(body, Body::ShutdownRequest(_)) && may_say(&body, &message, &situation).is_ok() {
            store.mailbox(&AgentName::lead()).append(&notice::agreement(agent, &message.text))?;
            return mailbox.mark_read(&[message.identity()]);
        }
        say(out, table::TURN_BEGINS);
        let notice = turns.turn(&message, out);
        store.mailbox(&AgentName::lead()).append(&notice)?;
        mailbox.mark_read(&[message.identity()])?;
    }
}

/// A line of ours that `tend` reads off the screen. Where it cannot be shown, nobody looks.
fn say(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "\n{line}").and_then(|()| out.flush());
}

impl Turns<'_> {
    /// Runs one turn; answers what the leader is told of it.
    fn turn(&mut self, message: &Entry, out: &mut impl Write) -> Entry {
        let preamble = letter::preamble(self.agent, &self.launch.team);
        let preamble = (!self.is_introduced).then_some(preamble.as_str());
        let letter::Letter { mut text, mark } = letter::letter(message, preamble);
        if text.len() > self.entry.text_bytes_max {
            let dir = self.store.state().letters(self.agent);
            let path = dir.join(letter::file_name(message));
            letter::put(&path, &letter::file(message, preamble));
            text = letter::letter_in_file(message, &path.to_string_lossy()).text;
        }
        let args = if self.is_introduced { &self.entry.resume } else { &self.entry.args };
        let places = [("{prompt}", Some(text.as_str())), ("{session}", self.session.as_deref())];
        // The member's own options were filled in when it was spawned.
        let argv = table::argv(self.entry, args, (&AgentOptions::default(), &places));
        let (said, status) = match self.run(&argv, out) {
            Ok(ran) => ran,
            Err(e) => {
                return notice::idle(
                    self.agent,
                    String::new(),
                    Some(format!("cannot start {}: {e}", self.program.display())),
                );
            }
        };
        let pattern = self.entry.session.as_deref().and_then(|text| Regex::new(text).ok());
        let found =
            pattern.and_then(|p| p.captures(&said).and_then(|c| c.get(1)).map(|m| m.as_str().to_owned()));
        self.session = found.or(self.session.take());
        // A first turn that failed has begun no conversation.
        self.is_introduced |= status.success();
        let failure = (!status.success()).then(|| format!("its turn ended with {status}"));
        let failure = failure.or_else(|| table::Eyes::of(self.entry).failure(&said));
        // Many programs repeat what they were asked.
        let result = said.split_once(&mark).map_or(said.as_str(), |(_, after)| after).trim();
        let excess = result.chars().count().saturating_sub(RESULT_CHARS_MAX);
        notice::idle(self.agent, result.chars().skip(excess).collect(), failure)
    }

    /// Runs the program to its end, showing what it prints. Answers that, without what only terminals obey.
    fn run(&self, argv: &[String], out: &mut impl Write) -> io::Result<(String, ExitStatus)> {
        let (mut ours, theirs) = io::pipe()?;
        let mut command = Command::new(self.program);
        command.args(argv.iter().skip(1)).stdin(Stdio::null());
        command.stdout(theirs.try_clone()?).stderr(theirs);
        let mut child = command.spawn()?;
        // Our copies of its side go with it, so that its end is seen.
        drop(command);
        let mut said: Vec<u8> = Vec::new();
        let mut piece = [0; 8192];
        loop {
            let n = ours.read(&mut piece)?;
            if n == 0 {
                break;
            }
            // Nobody looking is no fault of the turn.
            let _ = out.write_all(&piece[..n]).and_then(|()| out.flush());
            said.extend(&piece[..n]);
            if said.len() > 2 * OUTPUT_BYTES_KEPT {
                said.drain(..said.len() - OUTPUT_BYTES_KEPT);
            }
        }
        let status = child.wait()?;
        Ok((String::from_utf8_lossy(&strip_ansi_escapes::strip(said)).into_owned(), status))
    }
}
