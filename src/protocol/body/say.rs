//! Messages as they are shown: to a person one readable line each, to a model a quotation of its sender that cannot end
//! itself (cases C104, C106; probe J08).

use super::Body;
use crate::protocol::{AgentName, Entry, signature::Verdict};
use std::fmt::Write;

/// Longest piece of a plan, a result or an input on a line, in characters.
const PIECE_CHARS_MAX: usize = 200;
/// What stands for an id that is none of the protocol's.
const BAD_ID: &str = "(no valid id)";

/// How sure a reader is of a message's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As sure as names are without keys.
    Named,
    /// It claims to be the leader's, and its signature does not prove it.
    Unverified,
}

impl From<Option<Verdict>> for Standing {
    fn from(verdict: Option<Verdict>) -> Standing {
        if verdict == Some(Verdict::Forged) { Standing::Unverified } else { Standing::Named }
    }
}

/// The sender's name; what is no name is said to be none, and shown without its line ends and tags.
pub fn sender(entry: &Entry) -> String {
    match AgentName::new(&entry.from) {
        Ok(name) => name.as_str().to_owned(),
        Err(_) => {
            let shown: String = entry.from.chars().take(80).collect();
            format!("unknown sender '{}'", harmless(&shown.escape_debug().to_string()))
        }
    }
}

/// A text in which nothing is a tag any more: `&`, `<` and `>` are written as in HTML.
pub fn harmless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The message as a model gets it: a quotation in the original's form (II.6). Neither text nor attributes can close it.
pub fn quoted(entry: &Entry, standing: Standing) -> String {
    let attribute = |text: &str| {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        harmless(&line).replace('"', "&quot;")
    };
    let mut tag = format!("<teammate-message teammate_id=\"{}\"", attribute(&sender(entry)));
    for (key, value) in [("color", &entry.color), ("summary", &entry.summary)] {
        if let Some(value) = value {
            let _ = write!(tag, " {key}=\"{}\"", attribute(value));
        }
    }
    if standing == Standing::Unverified {
        tag.push_str(" verified=\"false\"");
    }
    format!("{tag}>\n{}\n</teammate-message>", harmless(&entry.text))
}

/// The message for a model that is a teammate: quoted, structured kinds as sentences, a task with what is to be done.
pub fn for_model(entry: &Entry) -> String {
    let said = match Body::parse(&entry.text) {
        Body::Text(_) | Body::Unknown { .. } => entry.text.clone(),
        Body::TaskAssignment(task) => {
            let about = task.description.trim();
            let about = if about.is_empty() { String::new() } else { format!("\n{about}") };
            let id = &task.task_id;
            format!(
                "Task {id} is yours: {}{about}\nBegin with: throng task claim {id}; when it is done: throng task done {id}",
                task.subject
            )
        }
        _ => line(entry),
    };
    quoted(&Entry { text: said, ..entry.clone() }, Standing::Named)
}

/// What the message says, for a person: plain text with all its lines, a structured kind as one sentence. Control
/// characters are shown, not sent to the terminal; lines after the first are indented, so that none looks like another
/// sender's.
pub fn line(entry: &Entry) -> String {
    let text = match Body::parse(&entry.text) {
        Body::Text(text) => text,
        // It says why, for example that nothing blocks the task any more.
        Body::TaskAssignment(_) if entry.summary.is_some() => entry.summary.clone().unwrap_or_default(),
        Body::Unknown { kind, .. } => format!("[{}] {}", kind, entry.text),
        body => sentence(&body),
    };
    visible(text.trim_end(), "\n  ")
}

/// [`line()`], or the message's own summary, on one line of at most `chars_max` characters.
pub fn one_line(entry: &Entry, chars_max: usize) -> String {
    let said = match (&entry.summary, Body::parse(&entry.text)) {
        (Some(summary), Body::Text(_)) => visible(summary, " "),
        (_, Body::Text(text)) => visible(text.lines().next().unwrap_or_default(), " "),
        _ => line(entry).replace("\n  ", " "),
    };
    said.chars().take(chars_max).collect()
}

/// A text with all its lines, for a person: control characters are shown, not sent to the terminal.
pub fn harmless_lines(text: &str) -> String {
    visible(text, "\n")
}

/// Without control characters but for line ends, which become `line_end`.
fn visible(text: &str, line_end: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str(line_end),
            '\t' => shown.push('\t'),
            c if c.is_control() || is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that turn the direction of writing or take no place: what is shown would not be what is there.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn piece(text: &str) -> String {
    let mut piece: String = text.chars().take(PIECE_CHARS_MAX).collect();
    if piece.len() < text.len() {
        piece.push_str("...");
    }
    piece
}

fn because(reason: Option<&str>) -> String {
    reason.filter(|r| !r.is_empty()).map_or(String::new(), |r| format!(": {}", piece(r)))
}

/// A structured kind as one sentence of its sender.
fn sentence(body: &Body) -> String {
    let id = body.request_id().map_or(BAD_ID, |id| if is_id(id) { id } else { BAD_ID });
    match body {
        Body::Text(text) | Body::Unknown { text, .. } => text.clone(),
        Body::Idle(idle) => {
            let task = idle.completed_task_id.as_ref().map_or(String::new(), |task| {
                format!(", task {task} {}", idle.completed_status.as_deref().unwrap_or("ended"))
            });
            let how = match idle.idle_reason.as_str() {
                "failed" => format!("is idle, its turn failed{}", because(idle.failure_reason.as_deref())),
                "interrupted" => "is idle, its turn was interrupted".to_owned(),
                _ => "is idle".to_owned(),
            };
            let said = idle.summary.as_deref().or(idle.result.as_deref());
            format!("{how}{task}{}", because(said))
        }
        Body::ShutdownRequest(b) => {
            format!("asks you to shut down ({id}){}", because(b.reason.as_deref()))
        }
        Body::ShutdownApproved(_) => format!("shuts down as asked ({id})"),
        Body::ShutdownRejected(b) => format!("does not shut down ({id}){}", because(Some(&b.reason))),
        Body::PlanRequest(b) => {
            format!(
                "asks for approval of its plan {} ({id}){}",
                b.plan_file_path,
                because(Some(&b.plan_content))
            )
        }
        Body::PlanVerdict(b) if b.approved => {
            let mode =
                b.permission_mode.as_ref().map_or(String::new(), |mode| format!(", go on in mode {mode}"));
            format!("approves the plan ({id}){mode}")
        }
        Body::PlanVerdict(b) => format!("rejects the plan ({id}){}", because(b.feedback.as_deref())),
        Body::PermissionRequest(b) => {
            let wants =
                b.input.get("command").and_then(|c| c.as_str()).map_or(b.input.to_string(), str::to_owned);
            let place =
                b.input.get("cwd").and_then(|c| c.as_str()).map_or(String::new(), |cwd| format!(" in {cwd}"));
            let what = if b.description.is_empty() {
                String::new()
            } else {
                format!(" ({})", piece(&b.description))
            };
            format!("asks to use {}{place}{what}: {} ({id})", b.tool_name, piece(&wants))
        }
        Body::PermissionVerdict(b) if b.subtype == "success" => format!("allows it ({id})"),
        Body::PermissionVerdict(b) => format!("denies it ({id}){}", because(b.error.as_deref())),
        Body::SandboxRequest(b) => format!("asks to reach the host {} ({id})", b.host_pattern.host),
        Body::SandboxVerdict(b) => {
            format!("{} the host {} ({id})", if b.allow { "allows" } else { "denies" }, b.host)
        }
        Body::TaskAssignment(b) => {
            let by = if b.assigned_by.is_empty() {
                String::new()
            } else {
                format!(", given by {}", b.assigned_by)
            };
            format!("task {} is yours{by}: {}", b.task_id, b.subject)
        }
        Body::TaskCompleted(b) => {
            format!("completed task {}{}", b.task_id, because(b.task_subject.as_deref()))
        }
        Body::TeammateTerminated(b) => b.message.clone(),
    }
}

/// Whether it is an id as the protocol makes them: `perm-{ms}-{7 base36}`, `sandbox-{ms}-{7 base36}`, `shutdown-{ms}@{name}`,
/// `plan_approval-{ms}@{name}@{team}`.
fn is_id(id: &str) -> bool {
    let number = |text: &str| (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let random = |text: &str| {
        (1..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
    };
    let names = |text: &str| {
        (1..=200).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-@".contains(&b))
    };
    let after = |prefix: &str| id.strip_prefix(prefix);
    let is_drawn = after("perm-").or(after("sandbox-")).and_then(|rest| rest.split_once('-'));
    let is_named = after("shutdown-").or(after("plan_approval-")).and_then(|rest| rest.split_once('@'));
    is_drawn.is_some_and(|(ms, rest)| number(ms) && random(rest))
        || is_named.is_some_and(|(ms, rest)| number(ms) && names(rest))
}
