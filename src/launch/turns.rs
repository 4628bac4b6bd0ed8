//! A program that runs one turn and ends (`mail = "resume"`): started once for each message, the later ones in the
//! conversation that the first began. This runs below `tend`, in the place of the program.

use super::control;
use crate::config::drivers::{Argument, DriverEntry};
use crate::config::plan::AgentOptions;
use crate::driver::{letter, table};
use crate::protocol::body;
use crate::protocol::{AgentName, Entry};
use crate::store::{Error, LaunchFile, Result, TeamStore, notice};
use crate::sys::outlet::set_nonblocking;
use crate::sys::process::{self, Process};
use crate::sys::socket::poll_readable;
use regex::Regex;
use std::collections::{HashSet, VecDeque};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Last bytes of a turn's output that are kept: its end is its result.
const OUTPUT_BYTES_KEPT: usize = 256 * 1024;
/// Longest line in which the conversation's name is looked for.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Pause before what failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How long the rest of a turn's output is read after its program has ended: what it left running may print for ever.
const DRAIN_WITHIN: Duration = Duration::from_millis(500);
/// How often the program's end is looked for where the system does not tell of it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long it may take to end after it has agreed to.
const END_WITHIN: Duration = Duration::from_secs(60);

/// Who runs turn by turn.
struct Turns<'a> {
    store: &'a TeamStore,
    agent: &'a AgentName,
    launch: &'a LaunchFile,
    entry: &'a DriverEntry,
    program: &'a Path,
    session: Option<String>,
    is_introduced: bool,
    /// Messages whose turn is over, but which could not be marked as read.
    unmarked: HashSet<String>,
    /// What could not be told to the leader yet, oldest first.
    untold: VecDeque<Entry>,
}

/// What a turn gave.
struct Ran {
    /// The end of what it printed, without what only terminals obey.
    said: String,
    /// The conversation, if its output names it.
    session: Option<String>,
    status: ExitStatus,
}

/// Runs a turn for each message, until the leader asks for the end. What the turns print goes to `out` too. What cannot be
/// read, marked or told is tried again, and said on `out`.
///
/// # Errors
/// The team is gone.
pub fn turns(
    store: &TeamStore,
    launch: &LaunchFile,
    (entry, program): (&DriverEntry, &Path),
    out: &mut impl Write,
) -> Result<()> {
    let mut turns = Turns {
        store,
        agent: &launch.agent,
        launch,
        entry,
        program,
        session: None,
        is_introduced: false,
        unmarked: HashSet::new(),
        untold: VecDeque::new(),
    };
    let mut watch = store.watch_mail(turns.agent);
    let mut said = String::new();
    loop {
        // Looked at first, so that no change between the two is missed.
        let _ = watch.has_changed();
        let mut trouble = turns.settle();
        match turns.next() {
            Ok(Some(message)) if notice::asks_to_end(&message, turns.agent) => return turns.agree(&message),
            Ok(Some(message)) => match turns.prepare(&message) {
                Ok(prepared) => {
                    say(out, table::TURN_BEGINS);
                    said.clear();
                    turns.turn(&message, prepared, out);
                    continue;
                }
                Err(why) => trouble = Some(why),
            },
            Ok(None) => {}
            Err(e @ Error::NoTeam(_)) => return Err(e),
            Err(e) => trouble = Some(e.to_string()),
        }
        let line = match &trouble {
            None => table::TURN_ENDED.to_owned(),
            Some(why) => format!("{}{why}", table::TURN_STUCK),
        };
        if said != line {
            say(out, &line);
            said = line;
        }
        watch.wait(if trouble.is_some() { AGAIN_AFTER } else { Duration::MAX });
    }
}

/// A line of ours that `tend` reads off the screen. Where it cannot be shown, nobody looks.
fn say(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "\n{line}").and_then(|()| out.flush());
}

/// What is given to a turn's program.
struct Prepared {
    argv: Vec<String>,
    /// For its standard input.
    input: Option<String>,
    mark: String,
}

impl Turns<'_> {
    /// The oldest unread message whose turn was not run yet.
    fn next(&self) -> Result<Option<Entry>> {
        let unread = self.store.mailbox(self.agent).unread()?.entries;
        Ok(unread.into_iter().find(|m| !self.unmarked.contains(&m.identity())))
    }

    /// Ends, as the leader asks.
    fn agree(&mut self, request: &Entry) -> Result<()> {
        // Else `tend` may start it again. One that does not answer starts nothing.
        if let Err(e) = control::expect_end(self.store, self.agent, END_WITHIN) {
            tracing::warn!(error = %e, "tend was not told of the end");
        }
        self.store.mailbox(self.agent).mark_read(&[request.identity()])?;
        self.untold.push_back(notice::agreement(self.agent, &request.text));
        match self.settle() {
            None => Ok(()),
            // Who asked sees the end itself.
            Some(why) => {
                tracing::error!(%why, "the agreement was not sent");
                Ok(())
            }
        }
    }

    /// Marks and tells what is still to be marked and told; answers why it cannot.
    fn settle(&mut self) -> Option<String> {
        if !self.unmarked.is_empty() {
            let identities: Vec<String> = self.unmarked.iter().cloned().collect();
            match self.store.mailbox(self.agent).mark_read(&identities) {
                Ok(()) => self.unmarked.clear(),
                Err(e) => return Some(format!("what it has done is not marked as read: {e}")),
            }
        }
        while let Some(notice) = self.untold.front() {
            if let Err(e) = self.store.mailbox(&AgentName::lead()).append(notice) {
                return Some(format!("its leader is not told: {e}"));
            }
            self.untold.pop_front();
        }
        None
    }

    /// What a message's turn is started with: the text on standard input, or a file's name among the arguments, which
    /// every user of the machine can see.
    fn prepare(&self, message: &Entry) -> std::result::Result<Prepared, String> {
        let names_session = |args: &[Argument]| {
            args.iter().flat_map(Argument::words).any(|word| word.contains(table::SESSION))
        };
        let goes_on = self.is_introduced && (self.session.is_some() || !names_session(&self.entry.resume));
        let preamble = letter::preamble(self.agent, &self.launch.team);
        let preamble = (!goes_on).then_some(preamble.as_str());
        let letter::Letter { mut text, mark, .. } = letter::letter(message, preamble);
        if !self.entry.stdin || text.len() > self.entry.text_bytes_max {
            let path = self.store.state().letters(self.agent).join(letter::file_name(message));
            letter::put(&path, &letter::file(message, preamble))
                .map_err(|why| format!("mail stays unread: {why}"))?;
            text = letter::letter_in_file(message, &path.to_string_lossy()).text;
        }
        let args = if goes_on { &self.entry.resume } else { &self.entry.args };
        let places = [("{prompt}", Some(text.as_str())), (table::SESSION, self.session.as_deref())];
        // The member's own options were filled in when it was spawned.
        let argv = table::argv(self.entry, args, (&AgentOptions::default(), &places));
        Ok(Prepared { argv, input: self.entry.stdin.then_some(text), mark })
    }

    /// Runs one turn. It is marked before it is told: what was done must not be done again.
    fn turn(&mut self, message: &Entry, prepared: Prepared, out: &mut impl Write) {
        let mark = prepared.mark.clone();
        let notice = match self.run(prepared, out) {
            Ok(ran) => self.notice_of(ran, &mark),
            Err(e) => {
                let why = format!("cannot run {}: {e}", self.program.display());
                notice::idle(self.agent, String::new(), Some(why))
            }
        };
        self.unmarked.insert(message.identity());
        self.untold.push_back(notice);
    }

    /// What the leader is told of a turn.
    fn notice_of(&mut self, Ran { said, session, status }: Ran, mark: &str) -> Entry {
        self.session = session.or(self.session.take());
        // A first turn that failed has begun no conversation.
        self.is_introduced |= status.success();
        let failure = (!status.success()).then(|| format!("its turn ended with {status}"));
        let failure = failure.or_else(|| table::Eyes::of(self.entry).failure(&said));
        // Many programs repeat what they were asked.
        let result = said.split_once(mark).map_or(said.as_str(), |(_, after)| after).trim();
        notice::idle(self.agent, body::tail(result).to_owned(), failure)
    }

    /// Runs the program to its end, showing what it prints.
    fn run(&self, prepared: Prepared, out: &mut impl Write) -> io::Result<Ran> {
        let (ours, theirs) = io::pipe()?;
        set_nonblocking(&ours)?;
        let mut command = Command::new(self.program);
        command.args(prepared.argv.iter().skip(1));
        command.stdin(if prepared.input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(theirs.try_clone()?).stderr(theirs);
        let mut child = command.spawn()?;
        // Our copies of its side go with it, so that its end is seen.
        drop(command);
        if let (Some(text), Some(mut input)) = (prepared.input, child.stdin.take()) {
            // It may read late, or never: whatever it then does is its answer.
            std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
        }
        let pattern = self.entry.session.as_deref().and_then(|text| Regex::new(text).ok());
        let mut heard = Heard { pattern, ..Heard::default() };
        let status = listen(&mut child, ours, |piece| {
            // Nobody looking is no fault of the turn.
            let _ = out.write_all(piece).and_then(|()| out.flush());
            heard.take(piece);
        })?;
        let (said, session) = heard.end();
        Ok(Ran { said, session, status })
    }
}

/// Reads what a program prints until it has ended, and what is there then: what it left running may hold its output open.
fn listen(child: &mut Child, mut output: PipeReader, mut heard: impl FnMut(&[u8])) -> io::Result<ExitStatus> {
    let end = Process::of(child.id().cast_signed()).and_then(process::end_descriptor);
    let mut ended: Option<(ExitStatus, Instant)> = None;
    let mut piece = [0; 8192];
    loop {
        if ended.is_none() {
            ended = child.try_wait()?.map(|status| (status, Instant::now() + DRAIN_WITHIN));
        }
        match output.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => heard(&piece[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if ended.is_some() {
                    break;
                }
                let limit = if end.is_some() { Duration::MAX } else { LOOK_EVERY };
                let fds: Vec<_> =
                    std::iter::once(output.as_fd()).chain(end.iter().map(AsFd::as_fd)).collect();
                poll_readable(&fds, limit);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if ended.is_some_and(|(_, until)| Instant::now() >= until) {
            break;
        }
    }
    match ended {
        Some((status, _)) => Ok(status),
        None => child.wait(),
    }
}

/// What a turn has printed so far.
#[derive(Default)]
struct Heard {
    /// Its end.
    kept: Vec<u8>,
    /// The line that is not over.
    line: Vec<u8>,
    pattern: Option<Regex>,
    session: Option<String>,
}

impl Heard {
    fn take(&mut self, piece: &[u8]) {
        self.kept.extend(piece);
        if self.kept.len() > 2 * OUTPUT_BYTES_KEPT {
            self.kept.drain(..self.kept.len() - OUTPUT_BYTES_KEPT);
        }
        if self.pattern.is_none() || self.session.is_some() {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.look();
            }
        }
    }

    /// Looks for the conversation in the line that is over.
    fn look(&mut self) {
        let line = text_of(std::mem::take(&mut self.line));
        self.session = self.session.take().or_else(|| self.find(line.trim_end_matches(['\r', '\n'])));
    }

    fn find(&self, text: &str) -> Option<String> {
        self.pattern.as_ref()?.captures(text)?.get(1).map(|found| found.as_str().to_owned())
    }

    fn end(mut self) -> (String, Option<String>) {
        self.look();
        let said = text_of(std::mem::take(&mut self.kept));
        // A pattern may be about more than a line.
        let session = self.session.take().or_else(|| self.find(&said));
        (said, session)
    }
}

/// Without what only terminals obey.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&strip_ansi_escapes::strip(bytes)).into_owned()
}
