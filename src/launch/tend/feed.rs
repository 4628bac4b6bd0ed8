//! How mail gets into a program that is typed to: one message at a time, only when it waits for input and nobody types;
//! sent only once it is seen on the screen, and marked read only once it was seen to be taken. Pure: it is told what is
//! seen, and answers what is to be done.

use crate::config::drivers::DriverEntry;
use crate::driver::letter::{self, Letter};
use crate::protocol::body::{Body, Situation, may_say};
use crate::protocol::{AgentName, Entry, names};
use crate::store::Doing;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A person who typed less long ago may go on.
const PERSON_QUIET: Duration = Duration::from_secs(5);
/// Pause between the keys that empty the input and the paste: Codex loses a long paste that comes with them.
const CLEARED_AFTER: Duration = Duration::from_millis(200);
/// How long it may take to look idle again after that.
const CLEARED_WITHIN: Duration = Duration::from_secs(10);
/// How often the keys that empty the input are typed at least: many programs empty one line with them.
const CLEARS_MIN: usize = 8;
/// How long a paste may take to be shown, the first time; each further time it may take longer.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);
/// Pause between the paste that is seen and the keys that send it: programs take quick keys for a part of the paste.
const SUBMIT_AFTER: Duration = Duration::from_millis(250);
/// How long the sending keys may take to have an effect.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// How often a message is pasted, and how often it is sent, before it stays unread.
const PASTES_MAX: u32 = 3;
const SUBMITS_MAX: u32 = 4;
/// Least duration of a turn of which nothing is seen.
const TURN_AT_LEAST: Duration = Duration::from_millis(800);
/// Longest line that is typed where no paste can be told from typing; terminals of line-wise programs take no more.
const LINE_BYTES_MAX: usize = 900;
/// Longest result of a turn in characters, as the protocol has it.
const RESULT_CHARS_MAX: usize = 4000;
/// How often something that is under way is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// What is seen of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) now: Instant,
    pub(super) doing: Option<Doing>,
    /// Its whole screen, all rows.
    pub(super) screen: &'a str,
    /// Its lowest lines.
    pub(super) lowest: &'a [&'a str],
    /// Row of its cursor.
    pub(super) cursor: usize,
    /// The lowest row that tells that it is idle: what stands there and below was not said in its turn.
    pub(super) idle_row: Option<usize>,
    /// It shows what stands for a long paste.
    pub(super) shows_paste: bool,
    /// It has asked for pastes to be marked as such.
    pub(super) is_bracketed: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// Type this.
    Keys(Vec<u8>),
    /// Write this file before the next keys.
    Put(PathBuf, String),
    /// The program has this message: it can be marked as read.
    Taken(String),
    /// A turn has ended; this is what was said in it.
    TurnEnded(String),
    /// The leader wants the program to end: the text of its request.
    ShutDown(String),
}

#[derive(Debug)]
enum State {
    Resting,
    /// The input was emptied for it.
    Cleared {
        letter: Letter,
        at: Instant,
        pastes: u32,
    },
    /// It was pasted and is waited for on the screen.
    Pasted {
        letter: Letter,
        at: Instant,
        seen_at: Option<Instant>,
        pastes: u32,
    },
    /// It was sent; `row` is where the cursor stood beside it.
    Sent {
        letter: Letter,
        at: Instant,
        submits: u32,
        row: Option<usize>,
        by_marker: bool,
    },
    /// It was taken.
    Turn {
        mark: String,
        since: Instant,
    },
}

/// One program's mail.
#[derive(Debug)]
pub(super) struct Feed {
    me: AgentName,
    preamble: String,
    entry: DriverEntry,
    /// Where long messages are put.
    dir: PathBuf,
    state: State,
    queue: VecDeque<Entry>,
    taken: HashSet<String>,
    is_introduced: bool,
    person_typed: Option<Instant>,
    idle_since: Option<Instant>,
    was_working: bool,
    /// Why mail stays unread.
    trouble: Option<String>,
}

impl Feed {
    pub(super) fn new(me: &AgentName, preamble: String, (entry, dir): (&DriverEntry, PathBuf)) -> Feed {
        Feed {
            me: me.clone(),
            preamble,
            entry: entry.clone(),
            dir,
            state: State::Resting,
            queue: VecDeque::new(),
            taken: HashSet::new(),
            is_introduced: false,
            person_typed: None,
            idle_since: None,
            was_working: false,
            trouble: None,
        }
    }

    /// Another process of the program: it knows nothing of what the one before was told. What that one has taken it has
    /// taken, what it was being given is given again.
    pub(super) fn begin_anew(&mut self) {
        self.state = State::Resting;
        self.is_introduced = false;
        self.idle_since = None;
        self.was_working = false;
        self.trouble = None;
    }

    /// What lies unread in the inbox, oldest first.
    pub(super) fn has_mail(&mut self, unread: Vec<Entry>) {
        self.queue = unread.into_iter().filter(|e| !self.taken.contains(&e.identity())).collect();
    }

    /// Somebody typed at its terminal.
    pub(super) fn person_typed(&mut self, now: Instant) {
        self.person_typed = Some(now);
        // Whatever was in the way may be no more.
        self.trouble = None;
    }

    /// Whether it was given a message whose turn has not ended, whatever its screen shows yet.
    pub(super) fn is_in_turn(&self) -> bool {
        matches!(self.state, State::Turn { .. })
    }

    /// Why mail stays unread, if it does.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// When to look again, if nothing happens before.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let rests = matches!(self.state, State::Resting);
        let has_work = !rests || self.was_working || (!self.queue.is_empty() && self.trouble.is_none());
        has_work.then(|| now + LOOK_EVERY)
    }

    /// One step.
    pub(super) fn step(&mut self, view: &View<'_>) -> Vec<Act> {
        self.idle_since = match view.doing {
            Some(Doing::Idle) => Some(self.idle_since.unwrap_or(view.now)),
            _ => None,
        };
        self.was_working |= view.doing == Some(Doing::Working);
        match std::mem::replace(&mut self.state, State::Resting) {
            State::Resting => self.rest(view),
            State::Cleared { letter, at, pastes } => self.put_in(view, letter, (at, pastes)),
            State::Pasted { letter, at, seen_at, pastes } => {
                self.look_for(view, letter, (at, seen_at, pastes))
            }
            State::Sent { letter, at, submits, row, by_marker } => {
                self.await_taken(view, (letter, at, submits), (row, by_marker))
            }
            State::Turn { mark, since } => self.await_end(view, mark, since),
        }
    }

    fn is_settled(&self, view: &View<'_>) -> bool {
        let settle = Duration::from_millis(self.entry.settle_ms);
        self.idle_since.is_some_and(|since| view.now >= since + settle)
    }

    fn person_is_quiet(&self, view: &View<'_>) -> bool {
        self.person_typed.is_none_or(|at| view.now >= at + PERSON_QUIET)
    }

    fn rest(&mut self, view: &View<'_>) -> Vec<Act> {
        if !self.is_settled(view) {
            return Vec::new();
        }
        if std::mem::take(&mut self.was_working) {
            return vec![Act::TurnEnded(said(view, None))];
        }
        if self.trouble.is_some() || !self.person_is_quiet(view) {
            return Vec::new();
        }
        let Some(entry) = self.queue.front().cloned() else { return Vec::new() };
        let situation = Situation { me: &self.me, leader: names::LEAD, signature: None, pending: &[] };
        let body = Body::parse(&entry.text);
        if matches!(body, Body::ShutdownRequest(_)) && may_say(&body, &entry, &situation).is_ok() {
            return vec![self.take(&entry.identity()), Act::ShutDown(entry.text)];
        }
        let preamble = (!self.is_introduced).then_some(self.preamble.as_str());
        let letter = letter::letter(&entry, preamble);
        let limit = if view.is_bracketed { self.entry.text_bytes_max } else { self.line_bytes_max() };
        if letter.text.len() <= limit {
            return self.paste(view, letter, 1);
        }
        let path = self.dir.join(letter::file_name(&entry));
        let mut acts = vec![Act::Put(path.clone(), letter::file(&entry, preamble))];
        acts.extend(self.paste(view, letter::letter_in_file(&entry, &path.to_string_lossy()), 1));
        acts
    }

    fn line_bytes_max(&self) -> usize {
        LINE_BYTES_MAX.min(self.entry.text_bytes_max)
    }

    /// Empties the input for a letter.
    fn paste(&mut self, view: &View<'_>, letter: Letter, pastes: u32) -> Vec<Act> {
        let clear = self.clear(&letter);
        self.state = State::Cleared { letter, at: view.now, pastes };
        vec![clear]
    }

    /// Empties the input, in which this letter may stand: a line, and its end, at a time.
    fn clear(&self, letter: &Letter) -> Act {
        let times = CLEARS_MIN.max(2 * letter.text.lines().count());
        Act::Keys(self.entry.clear.repeat(times).into_bytes())
    }

    /// Puts it in.
    fn put_in(&mut self, view: &View<'_>, letter: Letter, (at, pastes): (Instant, u32)) -> Vec<Act> {
        if self.person_typed.is_some_and(|typed| typed > at) && self.person_is_quiet(view) {
            return self.paste(view, letter, pastes);
        }
        if view.now >= at + CLEARED_WITHIN && !is_busy(view) && !self.is_settled(view) {
            return self.give_up(&letter, "its input cannot be emptied");
        }
        if view.now < at + CLEARED_AFTER || !self.is_settled(view) || !self.person_is_quiet(view) {
            self.state = State::Cleared { letter, at, pastes };
            return Vec::new();
        }
        let keys = match view.is_bracketed {
            // As terminals do: lines of a paste end with a carriage return.
            true => format!("\x1b[200~{}\x1b[201~", letter.text.replace('\n', "\r")),
            false => letter.text.replace('\n', " "),
        };
        self.state = State::Pasted { letter, at: view.now, seen_at: None, pastes };
        vec![Act::Keys(keys.into_bytes())]
    }

    fn look_for(
        &mut self,
        view: &View<'_>,
        letter: Letter,
        (at, seen_at, pastes): (Instant, Option<Instant>, u32),
    ) -> Vec<Act> {
        if self.person_typed.is_some_and(|typed| typed > at) {
            // What stands there now is partly a person's.
            if self.person_is_quiet(view) && self.is_settled(view) {
                return self.paste(view, letter, pastes);
            }
            self.state = State::Pasted { letter, at, seen_at: None, pastes };
            return Vec::new();
        }
        let is_shown = view.shows_paste || shows(view.lowest, &letter.mark);
        match seen_at {
            Some(seen) if is_shown && view.now >= seen + SUBMIT_AFTER => {
                let row = row_of(view.screen, &letter.mark).filter(|row| *row == view.cursor);
                let by_marker = !shows(view.lowest, &letter.mark);
                self.state = State::Sent { letter, at: view.now, submits: 1, row, by_marker };
                vec![Act::Keys(self.entry.submit.clone().into_bytes())]
            }
            Some(_) if is_shown => {
                self.state = State::Pasted { letter, at, seen_at, pastes };
                Vec::new()
            }
            _ if is_shown => {
                self.state = State::Pasted { letter, at, seen_at: Some(view.now), pastes };
                Vec::new()
            }
            // What it shows while something else stands in its input may tell nothing.
            _ if view.now < at + SHOWN_WITHIN * pastes || is_busy(view) => {
                self.state = State::Pasted { letter, at, seen_at: None, pastes };
                Vec::new()
            }
            _ if pastes < PASTES_MAX => self.paste(view, letter, pastes + 1),
            _ => self.give_up(&letter, "what was typed to it does not show on its screen"),
        }
    }

    /// Mail stays unread until a person, or another process of the program, changes something.
    fn give_up(&mut self, letter: &Letter, why: &str) -> Vec<Act> {
        self.trouble = Some(format!("its mail stays unread: {why}"));
        self.state = State::Resting;
        vec![self.clear(letter)]
    }

    fn await_taken(
        &mut self,
        view: &View<'_>,
        (letter, at, submits): (Letter, Instant, u32),
        (row, by_marker): (Option<usize>, bool),
    ) -> Vec<Act> {
        let is_shown = if by_marker { view.shows_paste } else { shows(view.lowest, &letter.mark) };
        let has_left =
            row.is_some() && row_of(view.screen, &letter.mark).is_some_and(|row| row != view.cursor);
        if view.doing == Some(Doing::Working) || !is_shown || has_left {
            self.was_working = true;
            self.is_introduced = true;
            self.state = State::Turn { mark: letter.mark, since: view.now };
            let Some(entry) = self.queue.front() else { return Vec::new() };
            return vec![self.take(&entry.identity())];
        }
        if view.now < at + TAKEN_WITHIN {
            self.state = State::Sent { letter, at, submits, row, by_marker };
            return Vec::new();
        }
        if submits >= SUBMITS_MAX {
            return self.give_up(&letter, "it does not take what was typed to it");
        }
        self.state = State::Sent { letter, at: view.now, submits: submits + 1, row, by_marker };
        vec![Act::Keys(self.entry.submit.clone().into_bytes())]
    }

    fn take(&mut self, identity: &str) -> Act {
        self.queue.retain(|e| e.identity() != identity);
        self.taken.insert(identity.to_owned());
        Act::Taken(identity.to_owned())
    }

    fn await_end(&mut self, view: &View<'_>, mark: String, since: Instant) -> Vec<Act> {
        if !self.is_settled(view) || view.now < since + TURN_AT_LEAST {
            self.state = State::Turn { mark, since };
            return Vec::new();
        }
        self.was_working = false;
        vec![Act::TurnEnded(said(view, Some(&mark)))]
    }
}

/// Whether something else than its input is going on.
fn is_busy(view: &View<'_>) -> bool {
    view.doing.is_some_and(|doing| doing != Doing::Idle)
}

/// A text without what programs put between its characters when they wrap it in a frame.
fn squashed(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && !('\u{2500}'..='\u{259f}').contains(c) && *c != '|')
        .collect()
}

fn shows(lines: &[&str], mark: &str) -> bool {
    squashed(&lines.concat()).contains(&squashed(mark))
}

/// Rows with the end of a mark.
fn rows_of(screen: &str, mark: &str) -> Vec<usize> {
    let end: String = mark.chars().skip(mark.chars().count().saturating_sub(5)).collect();
    let rows = screen.lines().enumerate().filter(|(_, line)| squashed(line).contains(&end));
    rows.map(|(row, _)| row).collect()
}

/// The lowest of them.
fn row_of(screen: &str, mark: &str) -> Option<usize> {
    rows_of(screen, mark).last().copied()
}

/// The end of what stands on the screen, below a message if that is still there.
fn said(view: &View<'_>, mark: Option<&str>) -> String {
    // The answer may repeat the mark.
    let mark = mark.and_then(|mark| rows_of(view.screen, mark).first().copied());
    let from = mark.map_or(0, |row| row + 1);
    let to = view.idle_row.filter(|row| *row > from).unwrap_or(usize::MAX);
    let lines = view.screen.lines().take(to).skip(from).map(str::trim_end);
    let lines: Vec<&str> = lines.filter(|line| !squashed(line).is_empty()).collect();
    let text = lines.join("\n");
    let excess = text.chars().count().saturating_sub(RESULT_CHARS_MAX);
    text.chars().skip(excess).collect()
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
