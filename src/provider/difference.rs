//! Where two requests differ, in words that a person can act on. Pure.

use super::cassette::Plain;
use serde_json::Value;
use std::fmt::Write as _;

/// What is shown before and after the first difference of two texts, in characters.
const BEFORE_CHARS: usize = 40;
const AFTER_CHARS: usize = 80;
/// Longest piece of a call's input or of a value that is shown, in characters.
const VALUE_CHARS_MAX: usize = 120;

/// The first difference of a request from the recorded one; none if they are the same.
pub(super) fn difference(recorded: &Plain, asked: &Plain) -> Option<String> {
    for (key, value) in &recorded.set {
        let now = asked.set.get(key).unwrap_or(&Value::Null);
        if value != now {
            return Some(of_settings(key, value, now));
        }
    }
    if let Some(key) = asked.set.keys().find(|key| !recorded.set.contains_key(*key)) {
        return Some(format!("{key} was not recorded"));
    }
    let longest = recorded.messages.len().max(asked.messages.len());
    let at = (0..longest).find(|at| recorded.messages.get(*at) != asked.messages.get(*at))?;
    Some(of_messages(recorded, asked, at))
}

fn of_settings(key: &str, recorded: &Value, asked: &Value) -> String {
    let (Value::Array(then), Value::Array(now)) = (recorded, asked) else {
        return between(key, recorded, asked);
    };
    let at = (0..then.len().max(now.len())).find(|at| then.get(*at) != now.get(*at)).unwrap_or(0);
    let name = |tools: &[Value]| tools.get(at).and_then(|tool| tool["name"].as_str()).map(str::to_owned);
    let place = match (key, name(then).or_else(|| name(now))) {
        ("tools", Some(name)) => format!("tool {} ({name})", at + 1),
        _ => format!("{key} part {}", at + 1),
    };
    let none = Value::Null;
    between(&place, then.get(at).unwrap_or(&none), now.get(at).unwrap_or(&none))
}

fn of_messages(recorded: &Plain, asked: &Plain, at: usize) -> String {
    let number = at + 1;
    let (Some(then), Some(now)) = (recorded.messages.get(at), asked.messages.get(at)) else {
        let (then, now) = (recorded.messages.get(at).map(shown), asked.messages.get(at).map(shown));
        let none = || "none".to_owned();
        let (then, now) = (then.unwrap_or_else(none), now.unwrap_or_else(none));
        return format!("message {number}: recorded {then}, now {now}");
    };
    if then["role"] != now["role"] {
        return between(&format!("message {number} role"), &then["role"], &now["role"]);
    }
    let nothing = Vec::new();
    let blocks = |message: &'_ Value| message["content"].as_array().cloned().unwrap_or_default();
    let (then, now) = (blocks(then), blocks(now));
    let block = (0..then.len().max(now.len())).find(|at| then.get(*at) != now.get(*at)).unwrap_or(0);
    let none = Value::Null;
    let (before, after) = (then.get(block).unwrap_or(&none), now.get(block).unwrap_or(&none));
    let kind = [before, after].into_iter().find_map(|b| b["type"].as_str()).unwrap_or("?");
    let mut place = format!("message {number} block {} ({kind}", block + 1);
    let call = [before, after].into_iter().find_map(|b| b["tool_use_id"].as_str());
    let earlier = asked.messages[..at].iter().flat_map(|m| m["content"].as_array().unwrap_or(&nothing));
    let call = call.and_then(|id| earlier.into_iter().find(|b| b["id"] == id));
    if let Some(call) = call {
        let _ = write!(
            place,
            " of {} {}",
            call["name"].as_str().unwrap_or_default(),
            cut(&call["input"].to_string())
        );
    }
    place.push(')');
    between(&place, before, after)
}

/// The first difference of two values, with the way to it.
fn between(place: &str, then: &Value, now: &Value) -> String {
    match (then, now) {
        (Value::String(then), Value::String(now)) => of_texts(place, then, now),
        (Value::Object(a), Value::Object(b)) => {
            let mut keys = a.keys().chain(b.keys());
            let none = Value::Null;
            // Two objects that differ in the order of their keys alone are the same.
            let Some(key) = keys.find(|key| a.get(*key) != b.get(*key)) else { return place.to_owned() };
            between(&format!("{place} {key}"), a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none))
        }
        (Value::Array(a), Value::Array(b)) => {
            let at = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at)).unwrap_or(0);
            let none = Value::Null;
            let place = format!("{place} [{at}]");
            between(&place, a.get(at).unwrap_or(&none), b.get(at).unwrap_or(&none))
        }
        (then, now) => format!("{place}: recorded {}, now {}", value(then), value(now)),
    }
}

fn value(value: &Value) -> String {
    if value.is_null() { "none".to_owned() } else { cut(&value.to_string()) }
}

/// Two texts around the first character in which they differ.
fn of_texts(place: &str, then: &str, now: &str) -> String {
    let same: usize =
        then.chars().zip(now.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let line = then[..same].matches('\n').count() + 1;
    let from = then[..same].char_indices().rev().take(BEFORE_CHARS).last().map_or(same, |(at, _)| at);
    let piece = |text: &str| {
        let end = text[same..].char_indices().nth(AFTER_CHARS).map_or(text.len(), |(at, _)| same + at);
        let (head, tail) = (if from > 0 { "..." } else { "" }, if end < text.len() { "..." } else { "" });
        format!("{head}{:?}{tail}", &text[from..end])
    };
    format!("{place}, line {line}: recorded {}, now {}", piece(then), piece(now))
}

/// A message in a few words.
pub(super) fn shown(message: &Value) -> String {
    let nothing = Vec::new();
    let blocks = message["content"].as_array().unwrap_or(&nothing);
    let role = message["role"].as_str().unwrap_or_default();
    let said = blocks.last().map(|block| match block["type"].as_str() {
        Some("text") => cut(block["text"].as_str().unwrap_or_default()),
        _ => cut(&block.to_string()),
    });
    format!("{role} {:?}", said.unwrap_or_default())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
