//! `throng send`: a message into an inbox. It counts as sent only when it is in the file.

use super::context::{Context, agent, did_you_mean};
use super::delivery;
use super::error::{Failure, Result};
use super::out::Paint;
use crate::launch::{self, Life, MemberView};
use crate::protocol::delivery::IN_REPLY_TO;
use crate::protocol::signature::claims_to_lead;
use crate::protocol::{AgentName, Body, Entry, Member, names, timestamp};
use crate::store::TeamStore;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::SystemTime;

/// Longest summary in characters (protocol II.3.1).
const SUMMARY_CHARS_MAX: usize = 200;

/// Put a message into a teammate's inbox
#[derive(Debug, clap::Args)]
#[command(after_help = "Long texts come from standard input or a file: a shell's arguments are bounded.

Examples:
  throng send bob 'the tests pass'
  git diff | throng send reviewer - --summary 'please review'
  throng send '*' 'stop and save your work'
  throng send lead 'it is 42' --reply-to 1c9e3a52")]
pub struct Send {
    /// The teammate, lead, or '*' for everybody but oneself
    to: String,
    /// The text, - for standard input, or @FILE; a text that begins with @ is written @@
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// One line for lists
    #[arg(long)]
    summary: Option<String>,
    /// The message that this one answers: its id, or the beginning of it
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
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
        // `@@` is how a text begins with `@`.
        Some(text) if text.starts_with('@') => text.as_bytes().to_vec(),
        Some(file) => std::fs::read(file).map_err(|e| unreadable(file, e))?,
        None => text.as_bytes().to_vec(),
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What goes out, but for its recipient.
struct Letter {
    from: AgentName,
    text: String,
    summary: Option<String>,
    color: Option<String>,
    reply_to: Option<String>,
}

impl Letter {
    /// A message with an id of its own.
    fn entry(&self) -> Entry {
        let id = uuid::Uuid::new_v4().to_string();
        let mut entry =
            Entry::new(self.from.as_str(), &self.text, &timestamp::format(SystemTime::now()), &id);
        entry.summary.clone_from(&self.summary);
        entry.color.clone_from(&self.color);
        if let Some(id) = &self.reply_to {
            entry.extra.insert(IN_REPLY_TO.to_owned(), Value::from(id.as_str()));
        }
        entry
    }
}

/// Sends one message, or one to each.
pub fn send(verb: &Send, context: &mut Context) -> Result {
    let store = context.team()?;
    let from = sender(verb, context, &store)?;
    let to = if verb.to == "*" { None } else { Some(recipient(verb, &store)?) };
    let reply_to = verb.reply_to.as_ref().map(|word| delivery::message_id(word, &store)).transpose()?;
    let text = body(&verb.text)?;
    if text.trim().is_empty() {
        return Err(Failure::usage("the message is empty: nothing was sent"));
    }
    check_word(&from, &text)?;
    let summary = verb.summary.as_ref().map(|s| s.chars().take(SUMMARY_CHARS_MAX).collect());
    let color = store.read_team()?.member(from.as_str()).and_then(|m| m.color.clone());
    let letter = Letter { from, text, summary, color, reply_to };
    match to {
        Some(to) => send_one(&letter, &to, context, &store),
        None => broadcast(&letter, context, &store),
    }
}

/// In whose name. A member does not speak in its leader's, which would be signed.
fn sender(verb: &Send, context: &Context, store: &TeamStore) -> Result<AgentName> {
    let me = &context.config.me;
    let from = verb.from.as_ref().map_or(Ok(me.clone()), |name| agent(name, store))?;
    match claims_to_lead(from.as_str()) && !me.is_lead() {
        true => Err(Failure::usage(format!("you are {me} ($THRONG_AGENT) and do not speak for {from}"))),
        false => Ok(from),
    }
}

/// Verdicts, and asking to end, are more than words in a leader's mouth.
fn check_word(from: &AgentName, text: &str) -> Result {
    let Some(kind) = Body::leaders_kind(text).filter(|_| claims_to_lead(from.as_str())) else {
        return Ok(());
    };
    let way = if Body::may_be_verdict(text) { "throng approvals" } else { "throng stop NAME" };
    Err(Failure::usage(format!("a {kind} is not sent as a message: use '{way}'")))
}

fn send_one(letter: &Letter, to: &AgentName, context: &mut Context, store: &TeamStore) -> Result {
    let entry = letter.entry();
    store.mailbox(to).append(&entry)?;
    let fate = launch::observe_one(store, to)?.filter(|m| !m.life.is_alive());
    let to_oneself = letter.from == *to;
    if to_oneself {
        let _ = writeln!(std::io::stderr(), "throng: note: {to} is you: the message is in your own inbox");
    }
    if context.out.json {
        let about = json!({
            "sent": true, "to": to, "from": letter.from, "msg_id": entry.msg_id,
            "recipient_is_alive": fate.is_none(), "to_oneself": to_oneself, "in_reply_to": letter.reply_to,
        });
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

/// One message to everybody but the sender. Each is told of; one that fails does not keep the others from theirs.
fn broadcast(letter: &Letter, context: &mut Context, store: &TeamStore) -> Result {
    let everybody = launch::observe(store)?;
    // Who was stopped is no member any more; who is planned will be one.
    let is_member = |m: &MemberView| m.row.is_some() || m.life == Life::Planned;
    let mut to: Vec<(AgentName, Option<&'static str>)> = vec![(AgentName::lead(), None)];
    to.extend(everybody.into_iter().filter(is_member).map(|m| {
        let fate = (!m.life.is_alive()).then(|| m.life.word());
        (m.name, fate)
    }));
    to.retain(|(name, _)| *name != letter.from);
    let mut sent = Vec::new();
    let mut rows = Vec::new();
    let (mut failure, mut dead) = (None, Vec::new());
    for (name, fate) in &to {
        let entry = letter.entry();
        let error = store.mailbox(name).append(&entry).err();
        sent.push(json!({
            "sent": error.is_none(), "to": name, "msg_id": entry.msg_id, "recipient_is_alive": fate.is_none(),
            "error": error.as_ref().map(ToString::to_string),
        }));
        let how = match (&error, fate) {
            (Some(e), _) => context.out.paint(Paint::Red, &format!("not sent: {e}")),
            (None, Some(fate)) => format!("sent, but it is not alive ({fate}): kept until it returns"),
            (None, None) => "sent".to_owned(),
        };
        rows.push(vec![name.to_string(), how]);
        dead.extend(fate.map(|_| name.to_string()));
        failure = failure.or(error);
    }
    if context.out.json {
        context.out.json(&json!({"to": "*", "from": letter.from, "messages": sent}))?;
    } else {
        context.out.table(&rows)?;
    }
    match failure {
        Some(e) => Err(e.into()),
        None if to.is_empty() => Err(Failure::missing(format!("nobody else is in team '{}'", store.name()))),
        None if dead.is_empty() => Ok(()),
        None => Err(Failure::missing(format!("not alive: {}", dead.join(", ")))),
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
    let is_type =
        |row: &&Member| row.agent_type.as_deref().is_some_and(|t| t.eq_ignore_ascii_case(to.as_str()));
    let of_type: Vec<&str> =
        team.teammates().map(|(_, row)| row).filter(is_type).map(|row| row.name.as_str()).collect();
    if !of_type.is_empty() {
        let names = of_type.join(" and ");
        return Err(Failure::missing(format!(
            "'{to}' is a type of agent, not a name: send to {names}, which are of that type"
        )));
    }
    let known = members.iter().map(|m| m.name.as_str()).chain(["lead"]);
    let near = names::near(to.as_str(), known);
    let hint =
        if near.is_empty() { "; --force writes to it all the same".to_owned() } else { did_you_mean(&near) };
    Err(Failure::missing(format!("team '{}' has no member '{to}'{hint}", store.name())))
}
