//! `throng inbox`: looking into inboxes, and taking a message from one's own.

use super::context::{Context, agent, span};
use super::delivery;
use super::error::{Failure, Result};
use super::out::age;
use crate::protocol::delivery::StateChanges;
use crate::protocol::{AgentName, Entry, body};
use crate::store::{MailWatch, TeamStore, Unread};
use crate::sys::fault;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::time::{Duration, Instant};

/// Longest line of a list in characters.
const LINE_CHARS_MAX: usize = 100;

/// Look into inboxes, or take a message from one's own
#[derive(Debug, clap::Args)]
pub struct Inbox {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List an inbox, without changing it
    List(List),
    /// Take the oldest unread message of one's own inbox: print it, then mark it read
    Take(Take),
    /// Print messages as they arrive, without changing the inbox
    #[command(after_help = "Example:\n  throng inbox follow bob --json")]
    Follow(List),
    /// Show what became of messages: queued, delivered, answered, dead
    Status(delivery::Status),
}

/// List an inbox
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng inbox list bob")]
struct List {
    /// Whose (default: $THRONG_AGENT, else lead)
    name: Option<String>,
    /// Read messages too
    #[arg(long)]
    all: bool,
}

/// Take a message
#[derive(Debug, clap::Args)]
#[command(after_help = "Nothing there: exit code 3, with --timeout 124. Take with --json to see the sender.

Example:
  msg=$(throng inbox take --wait --timeout 10m)")]
struct Take {
    /// Wait until there is one
    #[arg(long)]
    wait: bool,
    /// Longest wait
    #[arg(long, value_name = "TIME", value_parser = span, requires = "wait")]
    timeout: Option<Duration>,
    /// Only from this sender
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Every message that is there, not only the oldest
    #[arg(long)]
    all: bool,
    /// Whose inbox (default: $THRONG_AGENT, else lead)
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// Dispatches.
pub fn inbox(verb: &Inbox, context: &mut Context) -> Result {
    match &verb.verb {
        Verb::List(list) => show(list, context),
        Verb::Take(verb) => take(verb, context),
        Verb::Follow(list) => follow(list, context),
        Verb::Status(verb) => delivery::status(verb, context),
    }
}

fn owner(name: Option<&String>, store: &TeamStore, context: &Context) -> Result<AgentName> {
    let owner = match name {
        Some(name) => agent(name, store)?,
        None => context.config.me.clone(),
    };
    let team = store.read_team()?;
    let known =
        owner.is_lead() || team.member(owner.as_str()).is_some() || store.mailbox(&owner).path().exists();
    if known {
        return Ok(owner);
    }
    Err(Failure::missing(format!("team '{}' has no member '{owner}'", store.name())))
}

/// Says once on standard error what could not be read.
fn warn(trouble: &Option<String>) {
    if let Some(trouble) = trouble {
        let _ = writeln!(std::io::stderr(), "throng: {trouble}");
    }
}

fn as_json(entry: &Entry) -> Value {
    serde_json::to_value(entry).unwrap_or_default()
}

fn show(list: &List, context: &mut Context) -> Result {
    let store = context.team()?;
    let owner = owner(list.name.as_ref(), &store, context)?;
    let mailbox = store.mailbox(&owner);
    let Unread { entries, trouble } = if list.all { mailbox.entries()? } else { mailbox.unread()? };
    warn(&trouble);
    if context.out.json {
        let messages: Vec<Value> = entries.iter().map(as_json).collect();
        return context.out.json(&json!({"inbox": owner, "messages": messages}));
    }
    let mut changes = StateChanges::default();
    let rows: Vec<Vec<String>> = entries
        .iter()
        .filter(|e| changes.is_news(e))
        .map(|e| {
            let mark = if e.read { " " } else { "*" };
            let id = delivery::short(e.msg_id.as_deref().unwrap_or_default());
            vec![mark.to_owned(), body::sender(e), age(&e.timestamp), id, body::one_line(e, LINE_CHARS_MAX)]
        })
        .collect();
    if rows.is_empty() {
        return context.out.line(format!("nothing {}for {owner}", if list.all { "" } else { "unread " }));
    }
    context.out.table(&rows)
}

fn take(verb: &Take, context: &mut Context) -> Result {
    let store = context.team()?;
    let owner = owner(verb.name.as_ref(), &store, context)?;
    let from = verb.from.as_ref().map(|name| agent(name, &store)).transpose()?;
    let deadline = verb.timeout.and_then(|t| Instant::now().checked_add(t));
    let mailbox = store.mailbox(&owner);
    mailbox.create()?;
    let mut watch = verb.wait.then(|| store.watch_mail(&owner));
    let mut told = None;
    loop {
        let mut entries = Vec::new();
        if watch.as_mut().is_none_or(MailWatch::has_changed) {
            let unread = mailbox.unread()?;
            entries = unread.entries;
            if unread.trouble != told {
                warn(&unread.trouble);
                told = unread.trouble;
            }
        }
        entries.retain(|e| from.as_ref().is_none_or(|from| e.from == from.as_str()));
        if !verb.all {
            entries.truncate(1);
        }
        if !entries.is_empty() {
            for entry in &entries {
                match context.out.json {
                    true => context.out.json(&as_json(entry))?,
                    false => context.out.line(&entry.text)?,
                }
            }
            // Only now does the reader have them.
            fault::point("printed");
            let ids: Vec<String> = entries.iter().map(Entry::identity).collect();
            return Ok(mailbox.mark_read(&ids)?);
        }
        let Some(watch) = &watch else {
            return Err(Failure::missing(format!("no unread message for {owner}")));
        };
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(Failure::timed_out(format!("no message for {owner} in time")));
        }
        if !store.exists() {
            return Err(Failure::missing(format!("team '{}' has ended", store.name())));
        }
        watch.wait(left);
    }
}

fn follow(list: &List, context: &mut Context) -> Result {
    let store = context.team()?;
    let owner = owner(list.name.as_ref(), &store, context)?;
    let mailbox = store.mailbox(&owner);
    mailbox.create()?;
    let mut watch = store.watch_mail(&owner);
    let mut seen = HashSet::new();
    let mut changes = StateChanges::default();
    let mut shows_old = list.all;
    let mut told = None;
    while store.exists() {
        if !watch.has_changed() {
            watch.wait(Duration::MAX);
            continue;
        }
        let Unread { entries, trouble } = mailbox.entries()?;
        if trouble != told {
            warn(&trouble);
            told = trouble;
        }
        for entry in entries.iter().filter(|e| seen.insert(e.identity())) {
            if entry.read && !shows_old {
                continue;
            }
            match context.out.json {
                true => context.out.json(&as_json(entry))?,
                false if !changes.is_news(entry) => {}
                false => context.out.line(format!("{}: {}", body::sender(entry), body::line(entry)))?,
            }
        }
        shows_old = true;
        watch.wait(Duration::MAX);
    }
    Ok(())
}
