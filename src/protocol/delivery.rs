//! What became of each message (A6), derived from the inbox files and our journal together: the file is the truth for
//! what waits, the journal remembers what has left it. Pure.

use super::body::{self, Body};
use super::{AgentName, Entry, timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

/// Field of an entry that names the message it answers.
pub const IN_REPLY_TO: &str = "in_reply_to";
/// Longest summary that is kept of a message, in characters.
const SUMMARY_CHARS_MAX: usize = 100;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// It is in the recipient's inbox.
    Queued(Sent),
    /// Its owner has it.
    Delivered {
        /// Identity of the message.
        id: String,
        /// Whose inbox.
        by: String,
        /// When, RFC 3339.
        time: String,
    },
    /// Its sender took it back before anybody could read it.
    Withdrawn {
        /// Identity of the message.
        id: String,
        /// Whose inbox.
        by: String,
        /// When, RFC 3339.
        time: String,
    },
}

/// A message, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Its identity: [`Entry::identity`].
    pub id: String,
    /// Who.
    pub from: String,
    /// To whom.
    pub to: String,
    /// Its timestamp.
    pub time: String,
    /// Its structured kind, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// One line of it.
    pub summary: String,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// It is an idle notice that brings the turn's result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_result: bool,
    /// It is an idle notice of a turn that failed, for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Sent {
    /// What is kept of an entry in the inbox of `to`.
    pub fn of(entry: &Entry, to: &AgentName) -> Sent {
        let body = Body::parse(&entry.text);
        let (has_result, failure) = match &body {
            Body::Idle(idle) => (
                idle.result.as_deref().is_some_and(|text| !text.trim().is_empty()),
                (idle.idle_reason == "failed").then(|| idle.failure_reason.clone().unwrap_or_default()),
            ),
            _ => (false, None),
        };
        Sent {
            id: entry.identity(),
            from: entry.from.clone(),
            to: to.as_str().to_owned(),
            time: entry.timestamp.clone(),
            kind: body.kind().map(str::to_owned),
            summary: body::one_line(entry, SUMMARY_CHARS_MAX),
            in_reply_to: entry.extra.get(IN_REPLY_TO).and_then(|id| id.as_str()).map(str::to_owned),
            has_result,
            failure,
        }
    }

    /// When it was sent; what is no time was sent before all others.
    pub fn moment(&self) -> Option<SystemTime> {
        timestamp::parse(&self.time)
    }

    fn is_idle(&self) -> bool {
        self.kind.as_deref() == Some("idle_notification")
    }
}

/// How far a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits in the inbox.
    Queued,
    /// Its owner has it: it is marked read, or a program that removes what it has read has removed it.
    Delivered,
    /// Its recipient has answered it.
    Answered,
    /// It waits in the inbox of somebody who has ended.
    Dead,
    /// It is neither in the inbox nor known to be read: another program lost it.
    Missing,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Delivered => "delivered",
            State::Answered => "answered",
            State::Dead => "dead",
            State::Missing => "missing",
        }
    }
}

/// A message and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The message.
    pub sent: Sent,
    /// How far it is.
    pub state: State,
    /// Since when, RFC 3339, where that is known.
    pub since: Option<String>,
    /// The message that answers it.
    pub answer: Option<String>,
}

/// What is known of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    /// A program that removes what it has read, instead of marking it.
    pub removes: bool,
    /// It has ended.
    pub has_ended: bool,
}

/// Recipient and identity: a broadcast of another program may repeat an id.
type Key = (String, String);

fn key(to: &str, id: &str) -> Key {
    (to.to_owned(), id.to_owned())
}

/// Every message, the oldest first. `journal` must have been read before `inboxes`: what it knows is in the file or has
/// left it.
pub fn records(
    journal: &[Line],
    inboxes: &[(AgentName, Vec<Entry>)],
    recipient: impl Fn(&str) -> Recipient,
) -> Vec<Record> {
    let mut all: Vec<Sent> = Vec::new();
    let mut known: HashSet<Key> = HashSet::new();
    let mut is_read: HashMap<Key, Option<String>> = HashMap::new();
    let mut in_file: HashMap<Key, bool> = HashMap::new();
    let mut withdrawn: HashSet<Key> = HashSet::new();
    for line in journal {
        match line {
            Line::Queued(sent) => {
                if known.insert(key(&sent.to, &sent.id)) {
                    all.push(sent.clone());
                }
            }
            Line::Delivered { id, by, time } => {
                is_read.insert(key(by, id), Some(time.clone()));
            }
            Line::Withdrawn { id, by, .. } => {
                withdrawn.insert(key(by, id));
            }
        }
    }
    for (owner, entries) in inboxes {
        for entry in entries {
            let key = key(owner.as_str(), &entry.identity());
            if entry.read {
                is_read.entry(key.clone()).or_insert(None);
            }
            in_file.insert(key.clone(), entry.read);
            if known.insert(key) {
                all.push(Sent::of(entry, owner));
            }
        }
    }
    let answers: HashMap<Key, String> =
        all.iter().filter_map(|s| Some(((s.from.clone(), s.in_reply_to.clone()?), s.id.clone()))).collect();
    let mut records: Vec<Record> = all
        .into_iter()
        .filter(|sent| !withdrawn.contains(&key(&sent.to, &sent.id)))
        .map(|sent| {
            let key = key(&sent.to, &sent.id);
            let to = recipient(&sent.to);
            let answer = answers.get(&key).cloned();
            let read = is_read.get(&key);
            let state = match (in_file.get(&key), read) {
                _ if answer.is_some() => State::Answered,
                (Some(false), _) if to.has_ended => State::Dead,
                (Some(false), _) => State::Queued,
                (Some(true), _) | (None, Some(_)) => State::Delivered,
                (None, None) if to.removes => State::Delivered,
                (None, None) => State::Missing,
            };
            let since = match state {
                State::Queued | State::Dead => Some(sent.time.clone()),
                _ => read.cloned().flatten(),
            };
            Record { sent, state, since, answer }
        })
        .collect();
    // Equal times keep their order.
    records.sort_by_key(|r| r.sent.moment());
    records
}

/// What a member's idle notices say of it now.
#[derive(Debug, Clone, PartialEq)]
pub struct Idle {
    /// Since when, RFC 3339.
    pub since: String,
    /// Identities of messages it had before, and has given no answer to.
    pub owes: Vec<String>,
    /// Why its last turn failed, if it did.
    pub failure: Option<String>,
}

/// Whether `member` is idle: its last idle notice to `leader` is younger than everything that was sent to it. A notice
/// that was stamped before a message or an assignment says nothing of a member that has work again.
pub fn idle(member: &str, leader: &str, records: &[Record]) -> Option<Idle> {
    let notices = records.iter().filter(|r| r.sent.is_idle() && r.sent.from == member && r.sent.to == leader);
    let notice = &notices.max_by_key(|r| r.sent.moment())?.sent;
    let to_it: Vec<&Record> = records
        .iter()
        .filter(|r| r.sent.to == member && r.sent.from != member && !r.sent.is_idle())
        .collect();
    if to_it.iter().any(|r| r.sent.moment() > notice.moment()) {
        return None;
    }
    let is_answer = |r: &Record, to: &Sent| {
        let is_later = r.sent.from == member && r.sent.to == to.from && r.sent.moment() >= to.moment();
        match (&r.sent.in_reply_to, r.sent.is_idle()) {
            (Some(id), _) => *id == to.id,
            (None, true) => is_later && r.sent.has_result,
            (None, false) => is_later,
        }
    };
    // Structured kinds ask for a kind of their own, or for none.
    let asks = |r: &&&Record| r.sent.kind.is_none() && r.answer.is_none();
    let open = to_it.iter().filter(asks).filter(|asked| !records.iter().any(|r| is_answer(r, &asked.sent)));
    Some(Idle {
        since: notice.time.clone(),
        owes: open.map(|r| r.sent.id.clone()).collect(),
        failure: notice.failure.clone(),
    })
}

/// Remembers each sender's last state, so that ten idle notices in a row are one piece of news (probe E01).
#[derive(Debug, Default)]
pub struct StateChanges {
    last: HashMap<String, String>,
}

impl StateChanges {
    /// Whether the message says something new: it is no idle notice, or the first since its sender said anything else.
    pub fn is_news(&mut self, entry: &Entry) -> bool {
        let Body::Idle(idle) = Body::parse(&entry.text) else {
            self.last.remove(&entry.from);
            return true;
        };
        // A result, or a task's end, is news each time.
        let what =
            [idle.summary, idle.completed_task_id, idle.completed_status, idle.failure_reason, idle.result];
        let what: Vec<String> = what.into_iter().map(Option::unwrap_or_default).collect();
        let state = format!("{}\n{}", idle.idle_reason, what.join("\n"));
        self.last.insert(entry.from.clone(), state.clone()).as_ref() != Some(&state)
    }
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
