//! Events of the log as lines for people.

use super::out::{Out, Paint};
use crate::protocol::{Body, Entry, body};
use serde_json::Value;

/// The line for an event, or `None` for one that people do not need to see.
pub fn line(out: &Out, event: &Value) -> Option<String> {
    let text = |key: &str| harmless(event[key].as_str().unwrap_or_default());
    let (good, bad) = (Paint::Green, Paint::Red);
    let who = |key: &str| format!("{:<11} ", text(key));
    let task = || {
        let key = event["key"].as_str().map_or(String::new(), |key| format!(" ({key})"));
        format!("{:<12}task {}{key} {}", "", text("id"), text("subject"))
    };
    Some(match event["event"].as_str()? {
        "team_started" => {
            format!("{} on {} ({})", text("team"), text("backend"), text("reason"))
        }
        "member_ready" => format!("{}ready, process {}", who("agent"), event["pid"]),
        "member_restarting" => format!("{}{}, will be started again", who("agent"), exit(&event["exit"])),
        "member_ended" => {
            let how = exit(&event["exit"]);
            let well = event["exit"]["code"] == 0;
            let note = event["note"].as_str().map_or(String::new(), |note| format!(" ({note})"));
            format!("{}{}{note}", who("agent"), out.paint(if well { good } else { bad }, &how))
        }
        "member_failed" | "spawn_failed" => {
            format!("{}{} {}", who("agent"), out.paint(bad, "not started:"), text("why"))
        }
        "member_needs_human" => {
            format!("{}{} {}", who("agent"), out.paint(bad, "needs a person for"), text("what"))
        }
        "member_interrupted" => format!("{}is interrupted, to read its mail", who("agent")),
        "member_reminded" => format!("{}is reminded of its tasks", who("agent")),
        "message_sent" => {
            let summary = event["summary"].as_str().map_or(String::new(), |s| format!(": {s}"));
            format!("{}-> {}{summary}", who("from"), text("to"))
        }
        "lead_mail" => {
            let entry = Entry::new(&text("from"), &text("text"), "", "");
            let said = body::line(&entry).replace("\n  ", &format!("\n{:<14}", ""));
            let says = if Body::parse(&entry.text).kind().is_some() { "" } else { "says: " };
            format!("{:<12}{says}{said}", body::sender(&entry))
        }
        "approval_requested" => {
            format!("{}{} [approval {}]", who("from"), text("what").replace('\n', " "), event["number"])
        }
        "approval_waits" => {
            let (number, team) = (&event["number"], text("team"));
            let command = format!("throng approvals approve {number} --team {team}");
            format!("{}{} {command}, or deny", who("from"), out.paint(Paint::Yellow, "waits for you:"))
        }
        "approval_answered" => {
            let word =
                if event["allow"] == true { out.paint(good, "allowed") } else { out.paint(bad, "denied") };
            let why = event["feedback"].as_str().map_or(String::new(), |_| format!(": {}", text("feedback")));
            format!("{}{word} by {}{why} [approval {}]", who("from"), text("by"), event["number"])
        }
        "task_completed" => match event["failure"].as_str() {
            Some(why) => format!("{}: {}", task(), out.paint(bad, &format!("failed: {why}"))),
            None => format!("{}: {}", task(), out.paint(good, "completed")),
        },
        "task_changed" if event["status"] == "in_progress" => {
            format!("{}: {} works on it", task(), text("owner"))
        }
        "task_unblocked" => format!("{}: can begin", task()),
        "task_deleted" => format!("{}: deleted", task()),
        "task_restored" => format!("{}: {}", task(), out.paint(Paint::Yellow, "restored")),
        "task_damaged" => {
            let what = out.paint(bad, "no task:");
            format!("{what} {} is left as it is ({})", text("path"), text("why"))
        }
        "task_freed" => format!("{}: {}", task(), out.paint(Paint::Yellow, "its owner is gone")),
        "stalled" => format!("{} {}", out.paint(bad, "stalled:"), text("why")),
        "team_ending" => out.paint(Paint::Dim, &format!("ending: {}", text("why"))),
        _ => return None,
    })
}

/// What an agent wrote, without what would drive the reader's terminal.
fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// An exit as the log has it, for people.
fn exit(exit: &Value) -> String {
    match (exit["code"].as_i64(), exit["signal"].as_i64()) {
        (Some(code), _) => format!("exited {code}"),
        (_, Some(signal)) => format!("killed by signal {signal}"),
        _ => "ended".to_owned(),
    }
}
