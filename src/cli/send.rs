//! `throng send`: a message into an inbox. It counts as sent only when it is in the file.

use super::context::{Context, agent, did_you_mean};
use super::error::{Failure, Result};
use crate::launch;
use crate::protocol::{AgentName, Entry, names, timestamp};
use crate::store::TeamStore;
use serde_json::json;
use std::io::Read;
use std::time::SystemTime;

/// Longest summary in characters (protocol II.3.1).
const SUMMARY_CHARS_MAX: usize = 200;

/// Put a message into a teammate's inbox
#[derive(Debug, clap::Args)]
#[command(after_help = "Long texts come from standard input or a file: a shell's arguments are bounded.

Examples:
  throng send bob 'the tests pass'
  git diff | throng send reviewer - --summary 'please review'")]
pub struct Send {
    /// The teammate, or lead
    to: String,
    /// The text, - for standard input, or @FILE
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// One line for lists
    #[arg(long)]
    summary: Option<String>,
    /// Sender's name (default: $THRONG_AGENT, else lead)
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Put it into the inbox of a name that is not in the team yet
    #[arg(long)]
    force: bool,
}

/// A text as the user gives it: itself, standard input, or a file. Bytes that are not UTF-8 are replaced.
pub fn body(text: &str) -> Result<String> {
    let unreadable = |what: &str, e: std::io::Error| Failure::usage(format!("failed to read {what}: {e}"));
    let bytes = match text.strip_prefix('@') {
        _ if text == "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(|e| unreadable("standard input", e))?;
            // The line end is the pipe's, as with `$(...)`; printing the message adds it again.
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            }
            bytes
        }
        Some(file) => std::fs::read(file).map_err(|e| unreadable(file, e))?,
        None => text.as_bytes().to_vec(),
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sends one message.
pub fn send(verb: &Send, context: &mut Context) -> Result {
    let store = context.team()?;
    let from = match &verb.from {
        Some(name) => agent(name, &store)?,
        None => context.config.me.clone(),
    };
    let to = recipient(verb, &store)?;
    let text = body(&verb.text)?;
    if text.trim().is_empty() {
        return Err(Failure::usage("the message is empty: nothing was sent"));
    }
    let id = uuid::Uuid::new_v4().to_string();
    let mut entry = Entry::new(from.as_str(), &text, &timestamp::format(SystemTime::now()), &id);
    entry.summary = verb.summary.as_ref().map(|s| s.chars().take(SUMMARY_CHARS_MAX).collect());
    entry.color = store.read_team()?.member(from.as_str()).and_then(|m| m.color.clone());
    store.mailbox(&to).append(&entry)?;
    let fate = launch::observe_one(&store, &to)?.filter(|m| !m.life.is_alive());
    if context.out.json {
        let about =
            json!({"sent": true, "to": to, "from": from, "msg_id": id, "recipient_is_alive": fate.is_none()});
        context.out.json(&about)?;
    }
    match fate {
        Some(member) => Err(Failure::missing(format!(
            "{to} is not alive ({}): the message is kept in its inbox until it returns",
            member.life.word()
        ))),
        None => Ok(()),
    }
}

/// The name whose inbox is meant.
fn recipient(verb: &Send, store: &TeamStore) -> Result<AgentName> {
    let team = store.read_team()?;
    let to = agent(&verb.to, store)?;
    if to.is_lead() {
        return Ok(to);
    }
    if let Some(row) = team.member(to.as_str()) {
        return Ok(AgentName::new(&row.name)?);
    }
    let members = launch::observe(store)?;
    if let Some(member) = members.iter().find(|m| m.name.as_str().eq_ignore_ascii_case(to.as_str())) {
        return Ok(member.name.clone());
    }
    if verb.force {
        return Ok(AgentName::for_member(to.as_str())?);
    }
    let known = members.iter().map(|m| m.name.as_str()).chain(["lead"]);
    let near = names::near(to.as_str(), known);
    let hint =
        if near.is_empty() { "; --force writes to it all the same".to_owned() } else { did_you_mean(&near) };
    Err(Failure::missing(format!("team '{}' has no member '{to}'{hint}", store.name())))
}
