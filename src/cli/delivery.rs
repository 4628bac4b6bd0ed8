//! `throng inbox status`: what became of messages: queued, delivered, answered, dead (A6).

use super::context::{Context, agent};
use super::error::{Failure, Result};
use super::out::{Paint, age};
use crate::launch;
use crate::protocol::delivery::{Idle, Recipient, Record, State, idle, records};
use crate::protocol::{AgentName, Entry, timestamp};
use crate::store::{Deliveries, TeamStore};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// How many messages that need nobody's attention are shown without `--all`.
const DONE_SHOWN_MAX: usize = 20;
/// Shortest beginning of an id that is taken for it.
const ID_CHARS_MIN: usize = 4;
/// How much of an id is shown.
const ID_CHARS_SHOWN: usize = 8;

/// Show what became of messages
#[derive(Debug, clap::Args)]
#[command(
    after_help = "queued: it waits. delivered: its owner has it. answered: its owner replied with --reply-to.
dead: it waits in the inbox of somebody who has ended. missing: another program lost it.

Examples:
  throng inbox status bob
  throng inbox status --dead --json"
)]
pub struct Status {
    /// Only messages to or from this one
    name: Option<String>,
    /// Only messages whose recipient has ended
    #[arg(long)]
    dead: bool,
    /// All of those that were delivered, not only the newest
    #[arg(long)]
    all: bool,
}

/// Shows what became of messages.
pub fn status(verb: &Status, context: &mut Context) -> Result {
    let store = context.team()?;
    let name = verb.name.as_ref().map(|name| agent(name, &store)).transpose()?;
    let found = all_records(&store)?;
    let mut all = found.records.clone();
    let is_of = |r: &Record, name: &AgentName| r.sent.to == name.as_str() || r.sent.from == name.as_str();
    all.retain(|r| name.as_ref().is_none_or(|name| is_of(r, name)));
    all.retain(|r| !verb.dead || r.state == State::Dead);
    if context.out.json {
        let messages: Vec<Value> = all.iter().map(as_json).collect();
        context.out.json(&json!({"team": store.name(), "messages": messages}))?;
        return found.check();
    }
    let is_done = |r: &Record| matches!(r.state, State::Delivered | State::Answered);
    let done = all.iter().filter(|r| is_done(r)).count();
    let mut hidden = if verb.all { 0 } else { done.saturating_sub(DONE_SHOWN_MAX) };
    let left_out = hidden;
    all.retain(|r| {
        let is_hidden = is_done(r) && hidden > 0;
        hidden -= usize::from(is_hidden);
        !is_hidden
    });
    if all.is_empty() {
        context.out.line(if verb.dead { "no dead letters" } else { "no messages" })?;
        return found.check();
    }
    let rows: Vec<Vec<String>> = all.iter().map(|r| row(r, context)).collect();
    context.out.table(&rows)?;
    if left_out > 0 {
        context.out.line(format!("{left_out} older ones were delivered: see them with --all"))?;
    }
    found.check()
}

fn row(record: &Record, context: &Context) -> Vec<String> {
    let paint = match record.state {
        State::Queued => Paint::Yellow,
        State::Delivered | State::Answered => Paint::Green,
        State::Dead | State::Missing => Paint::Red,
    };
    vec![
        short(&record.sent.id),
        format!("{} -> {}", record.sent.from.escape_debug(), record.sent.to),
        context.out.paint(paint, record.state.word()),
        age(record.since.as_ref().unwrap_or(&record.sent.time)),
        record.sent.summary.clone(),
    ]
}

fn as_json(record: &Record) -> Value {
    let sent = &record.sent;
    let age = sent.moment().and_then(|t| SystemTime::now().duration_since(t).ok());
    json!({
        "msg_id": sent.id, "from": sent.from, "to": sent.to, "state": record.state, "sent": sent.time,
        "since": record.since, "age_ms": age.map(|a| u64::try_from(a.as_millis()).unwrap_or(u64::MAX)),
        "kind": sent.kind, "summary": sent.summary, "in_reply_to": sent.in_reply_to, "answered_by": record.answer,
    })
}

/// The messages of a team.
pub struct All {
    /// The oldest first, but for those to inboxes that cannot be read.
    pub records: Vec<Record>,
    /// Inboxes that cannot be read, and why.
    pub unreadable: Vec<(AgentName, String)>,
}

impl All {
    /// An error for the inboxes that could not be read, once the others have been shown.
    pub fn check(&self) -> Result {
        match self.unreadable.is_empty() {
            true => Ok(()),
            false => {
                let whys: Vec<&str> = self.unreadable.iter().map(|(_, why)| why.as_str()).collect();
                Err(Failure::usage(whys.join("\n  ")))
            }
        }
    }
}

/// Every message of a team.
pub fn all_records(store: &TeamStore) -> Result<All> {
    let Deliveries { journal, inboxes, unreadable } = store.deliveries()?;
    let members = launch::observe(store)?;
    let recipient = |name: &str| {
        let ours = AgentName::new(name).is_ok_and(|name| store.is_read_by_ours(&name));
        let has_ended = members.iter().any(|m| m.name.as_str() == name && !m.life.is_alive());
        Recipient { removes: !ours, has_ended }
    };
    let mut records = records(&journal, &inboxes, recipient);
    // It may wait there still.
    records.retain(|r| !unreadable.iter().any(|(name, _)| r.sent.to == name.as_str()));
    Ok(All { records, unreadable })
}

/// The id of the message that a word means: itself, or its beginning.
pub fn message_id(word: &str, store: &TeamStore) -> Result<String> {
    let all = all_records(store)?.records;
    let mut found: Vec<&str> = all.iter().map(|r| r.sent.id.as_str()).filter(|id| *id == word).collect();
    if found.is_empty() && word.len() >= ID_CHARS_MIN {
        found = all.iter().map(|r| r.sent.id.as_str()).filter(|id| id.starts_with(word)).collect();
    }
    found.dedup();
    match found.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => Err(Failure::missing(format!(
            "team '{}' has no message '{word}': 'throng inbox status' lists them",
            store.name()
        ))),
        _ => Err(Failure::usage(format!("several messages begin with '{word}': give more of the id"))),
    }
}

/// An id as lists show it. Messages of programs that give none have no short name.
pub fn short(id: &str) -> String {
    let is_plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if is_plain { id.chars().take(ID_CHARS_SHOWN).collect() } else { "-".to_owned() }
}

/// What waits for somebody, and what its idle notices say.
#[derive(Debug, Clone)]
pub struct Mail {
    /// Messages that it has not read.
    pub unread: usize,
    /// When the oldest of them was sent, RFC 3339.
    pub oldest: Option<String>,
    /// It is idle.
    pub idle: Option<Idle>,
    /// Why it cannot be read, if it cannot.
    pub trouble: Option<String>,
}

impl Mail {
    /// That of one agent.
    pub fn of(name: &AgentName, store: &TeamStore, records: &[Record]) -> Mail {
        let (unread, trouble) = match store.mailbox(name).unread() {
            Ok(unread) => (unread.entries, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        let sent = |e: &Entry| timestamp::parse(&e.timestamp);
        let oldest = unread.iter().filter(|e| sent(e).is_some()).min_by_key(|e| sent(e));
        Mail {
            unread: unread.len(),
            oldest: oldest.map(|e| e.timestamp.clone()),
            idle: idle(name.as_str(), AgentName::lead().as_str(), records),
            trouble,
        }
    }

    /// Whether its oldest message waits for longer than `limit`.
    pub fn is_late(&self, limit: Duration) -> bool {
        let sent = self.oldest.as_deref().and_then(timestamp::parse);
        sent.and_then(|sent| SystemTime::now().duration_since(sent).ok()).is_some_and(|age| age > limit)
    }

    /// `2 unread, oldest 75 s`.
    pub fn words(&self) -> String {
        if self.trouble.is_some() {
            return "mail unreadable".to_owned();
        }
        let oldest = self.oldest.as_ref().map_or(String::new(), |time| format!(", oldest {}", age(time)));
        format!("{} unread{oldest}", self.unread)
    }
}
