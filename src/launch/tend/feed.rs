//! How mail gets into a program that is typed to: one message at a time, only when it waits for input and nobody types;
//! sent only once it is seen on the screen, and marked read only once it was seen to be taken. No key is pressed unless the
//! program is seen to be idle: what else stands there may take a key for an answer. Pure: it is told what is seen, and
//! answers what is to be done.

use crate::config::drivers::DriverEntry;
use crate::driver::letter::{self, Letter};
use crate::protocol::body;
use crate::protocol::{AgentName, Entry};
use crate::store::Doing;
use crate::store::notice;
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
/// Pause before a file that could not be written is tried again: a disk that is full may be so no more.
const PUT_AGAIN: Duration = Duration::from_secs(10);
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
    /// It was sent.
    Sent {
        letter: Letter,
        sending: Sending,
    },
    /// It was taken.
    Turn {
        mark: String,
        since: Instant,
    },
}

/// How far the sending of a letter is.
#[derive(Debug, Clone, Copy)]
struct Sending {
    at: Instant,
    submits: u32,
    /// The cursor stood beside its mark.
    was_at_cursor: bool,
    by_marker: bool,
    /// Since when it looks taken: one look may be at a screen that is being painted.
    gone_since: Option<Instant>,
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
    /// When it is tried again in spite of that.
    retry_at: Option<Instant>,
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
            retry_at: None,
        }
    }

    /// Another process of the program: it knows nothing of what the one before was told. What that one has taken it has
    /// taken, what it was being given is given again.
    pub(super) fn begin_anew(&mut self) {
        self.state = State::Resting;
        self.is_introduced = false;
        self.idle_since = None;
        self.was_working = false;
        (self.trouble, self.retry_at) = (None, None);
    }

    /// What lies unread in the inbox, oldest first.
    pub(super) fn has_mail(&mut self, unread: Vec<Entry>) {
        self.queue = unread.into_iter().filter(|e| !self.taken.contains(&e.identity())).collect();
    }

    /// Somebody typed at its terminal.
    pub(super) fn person_typed(&mut self, now: Instant) {
        self.person_typed = Some(now);
        // Whatever was in the way may be no more.
        (self.trouble, self.retry_at) = (None, None);
    }

    /// Whether it was sent a message whose turn has not ended, whatever its screen shows yet.
    pub(super) fn is_in_turn(&self) -> bool {
        matches!(self.state, State::Sent { .. } | State::Turn { .. })
    }

    /// Whether keys can be pressed now without disturbing anybody: it rests, and so does the person at its terminal.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        matches!(self.state, State::Resting) && self.person_is_quiet(now)
    }

    /// The file that was to be written is there.
    pub(super) fn has_put(&mut self) {
        (self.trouble, self.retry_at) = (None, None);
    }

    /// The file that was to be written could not be: the message stays unread, and is tried again later.
    pub(super) fn could_not_put(&mut self, why: &str, now: Instant) {
        self.trouble = Some(format!("its mail stays unread: {why}"));
        self.retry_at = Some(now + PUT_AGAIN);
        self.state = State::Resting;
    }

    /// Why mail stays unread, if it does.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// When to look again, if nothing happens before.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let rests = matches!(self.state, State::Resting);
        let has_work = !rests || self.was_working || (!self.queue.is_empty() && self.trouble.is_none());
        if has_work {
            return Some(now + LOOK_EVERY);
        }
        self.retry_at.filter(|_| !self.queue.is_empty()).map(|at| at.max(now + LOOK_EVERY))
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
            State::Sent { letter, sending } => self.await_taken(view, letter, sending),
            State::Turn { mark, since } => self.await_end(view, mark, since),
        }
    }

    fn is_settled(&self, view: &View<'_>) -> bool {
        let settle = Duration::from_millis(self.entry.settle_ms);
        self.idle_since.is_some_and(|since| view.now >= since + settle)
    }

    /// Whether nobody has typed at its terminal of late.
    pub(super) fn person_is_quiet(&self, now: Instant) -> bool {
        self.person_typed.is_none_or(|at| now >= at + PERSON_QUIET)
    }

    /// Whether keys may be pressed: they can mean nothing else than they should.
    fn may_press(&self, view: &View<'_>) -> bool {
        self.is_settled(view) && self.person_is_quiet(view.now)
    }

    /// The same where a letter may stand in its input: an input of many rows leaves none that tells that it is idle.
    fn may_press_beside(&self, view: &View<'_>, letter: &Letter) -> bool {
        let covers = view.doing.is_none() && shows(view.lowest, &letter.mark);
        self.may_press(view) || (covers && self.person_is_quiet(view.now))
    }

    /// Whether a message still waits: its owner may have taken it by another way.
    fn waits(&self, letter: &Letter) -> bool {
        self.queue.iter().any(|e| e.identity() == letter.identity)
    }

    fn rest(&mut self, view: &View<'_>) -> Vec<Act> {
        if !self.is_settled(view) {
            return Vec::new();
        }
        if std::mem::take(&mut self.was_working) {
            return vec![Act::TurnEnded(said(view, None))];
        }
        let is_stuck = self.trouble.is_some() && self.retry_at.is_none_or(|at| view.now < at);
        if is_stuck || !self.person_is_quiet(view.now) {
            return Vec::new();
        }
        let Some(entry) = self.queue.front().cloned() else { return Vec::new() };
        if notice::asks_to_end(&entry, &self.me) {
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
        if !self.waits(&letter) {
            return Vec::new();
        }
        if view.now >= at + CLEARED_WITHIN && !is_busy(view) && !self.is_settled(view) {
            return self.give_up(view, &letter, "its input cannot be emptied");
        }
        if view.now < at + CLEARED_AFTER || !self.may_press(view) {
            self.state = State::Cleared { letter, at, pastes };
            return Vec::new();
        }
        if self.person_typed.is_some_and(|typed| typed > at) {
            return self.paste(view, letter, pastes);
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
        let is_mixed = self.person_typed.is_some_and(|typed| typed > at);
        if is_mixed || !self.waits(&letter) {
            // What stands there now is partly a person's, or is nobody's any more.
            if !self.may_press_beside(view, &letter) {
                self.state = State::Pasted { letter, at, seen_at: None, pastes };
                return Vec::new();
            }
            if self.waits(&letter) {
                return self.paste(view, letter, pastes);
            }
            return vec![self.clear(&letter)];
        }
        let is_shown = view.shows_paste || shows(view.lowest, &letter.mark);
        if is_shown {
            let seen = seen_at.unwrap_or(view.now);
            if view.now >= seen + SUBMIT_AFTER && !is_busy(view) {
                let sending = Sending {
                    at: view.now,
                    submits: 1,
                    was_at_cursor: row_of(view.screen, &letter.mark) == Some(view.cursor),
                    by_marker: !shows(view.lowest, &letter.mark),
                    gone_since: None,
                };
                self.state = State::Sent { letter, sending };
                return vec![Act::Keys(self.entry.submit.clone().into_bytes())];
            }
            self.state = State::Pasted { letter, at, seen_at: Some(seen), pastes };
            return Vec::new();
        }
        let waited_until = at + SHOWN_WITHIN * pastes;
        let is_last = pastes >= PASTES_MAX || view.now >= waited_until + CLEARED_WITHIN;
        // What it shows while something else stands in its input may tell nothing.
        if view.now < waited_until || is_busy(view) || (!is_last && !self.may_press(view)) {
            self.state = State::Pasted { letter, at, seen_at: None, pastes };
            return Vec::new();
        }
        if is_last {
            return self.give_up(view, &letter, "what was typed to it does not show on its screen");
        }
        self.paste(view, letter, pastes + 1)
    }

    /// Mail stays unread until a person, or another process of the program, changes something.
    fn give_up(&mut self, view: &View<'_>, letter: &Letter, why: &str) -> Vec<Act> {
        self.trouble = Some(format!("its mail stays unread: {why}"));
        self.state = State::Resting;
        // Else it is emptied before the next paste.
        if self.may_press_beside(view, letter) { vec![self.clear(letter)] } else { Vec::new() }
    }

    fn await_taken(&mut self, view: &View<'_>, letter: Letter, mut sending: Sending) -> Vec<Act> {
        let is_shown = if sending.by_marker { view.shows_paste } else { shows(view.lowest, &letter.mark) };
        let row = row_of(view.screen, &letter.mark);
        let has_left = sending.was_at_cursor && row.is_some_and(|row| row != view.cursor);
        let is_mixed = self.person_typed.is_some_and(|typed| typed > sending.at);
        let looks_taken = match view.doing {
            // Whatever asks may cover the input.
            Some(Doing::NeedsHuman) => {
                if !is_mixed {
                    sending.at = view.now;
                }
                false
            }
            // A person may have emptied the input and begun a turn with other words.
            Some(Doing::Working) if is_mixed => row.is_some(),
            Some(Doing::Working) => return self.taken(view, letter),
            _ if is_mixed => has_left,
            Some(Doing::Idle) => !is_shown || has_left,
            // What the screen shows is neither its input nor its work.
            _ => has_left,
        };
        sending.gone_since = looks_taken.then(|| sending.gone_since.unwrap_or(view.now));
        if sending.gone_since.is_some_and(|since| view.now >= since + LOOK_EVERY) {
            return self.taken(view, letter);
        }
        let is_due = !looks_taken && view.now >= sending.at + TAKEN_WITHIN;
        let is_due = is_due && self.may_press_beside(view, &letter);
        if !is_due {
            self.state = State::Sent { letter, sending };
            return Vec::new();
        }
        if is_mixed {
            // Nobody knows what became of it: it is better given twice than never.
            return self.paste(view, letter, 1);
        }
        if sending.submits >= SUBMITS_MAX {
            return self.give_up(view, &letter, "it does not take what was typed to it");
        }
        sending = Sending { at: view.now, submits: sending.submits + 1, ..sending };
        self.state = State::Sent { letter, sending };
        vec![Act::Keys(self.entry.submit.clone().into_bytes())]
    }

    /// It was seen to be taken.
    fn taken(&mut self, view: &View<'_>, letter: Letter) -> Vec<Act> {
        self.was_working = true;
        self.is_introduced = true;
        let taken = self.take(&letter.identity);
        self.state = State::Turn { mark: letter.mark, since: view.now };
        vec![taken]
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
    body::tail(&text).to_owned()
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
