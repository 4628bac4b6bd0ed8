//! Making a conversation shorter that has become too long for its model: first the long results of tools are cut, then the
//! older parts are replaced by a summary of the model's own. Each is tried once before the next answer (case C085).

use crate::provider::{Block, Content, IsError, Message, Role};
use serde_json::Value;

/// A conversation fuller than this share of the window is made shorter before the next request.
const FULL_PERCENT: u64 = 90;
/// Results longer than this are cut, in bytes.
const RESULT_BYTES_MAX: usize = 4_000;
/// What stays of such a result at either end, in bytes.
const RESULT_BYTES_KEPT: usize = 1_000;
/// Of a conversation that is to be summarised, this much is shown to the model: the newest part, in bytes.
const SUMMARISED_BYTES_MAX: usize = 200_000;

const SUMMARISE: &str = "The conversation has become too long. Write a summary from which the work can go on without it: \
    the task and its constraints in the user's words, what was done and found (files, lines, commands and their results), \
    what was decided and why, what is open, and the next step. Do not call any tool.";
const SUMMARY_BEGINS: &str = "The conversation so far was replaced by this summary of it:";

/// How far the tries of one request have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shrinking {
    /// Nothing was tried yet.
    #[default]
    Not,
    /// Results were cut.
    Cut,
    /// A summary was asked for.
    Summarised,
}

/// The next try.
#[derive(Debug)]
pub enum Step {
    /// The conversation with its long results cut.
    Cut(Vec<Message>),
    /// The request for a summary.
    Summarise(Vec<Message>),
    /// Nothing is left to try.
    GiveUp,
}

impl Shrinking {
    /// Whether the conversation should be made shorter although the service has not refused it yet. Nothing is tried twice.
    pub fn is_due(self, context_tokens: u64, window_tokens: u64) -> bool {
        self == Shrinking::Not && context_tokens * 100 > window_tokens * FULL_PERCENT
    }

    /// The next try.
    pub fn next(&mut self, messages: &[Message]) -> Step {
        if *self == Shrinking::Not {
            *self = Shrinking::Cut;
            let cut = cut(messages);
            if cut != messages {
                return Step::Cut(cut);
            }
        }
        if *self == Shrinking::Cut {
            *self = Shrinking::Summarised;
            return Step::Summarise(for_summary(messages));
        }
        Step::GiveUp
    }
}

/// The conversation with its long results cut.
fn cut(messages: &[Message]) -> Vec<Message> {
    let block = |block: &Block| match (block.answers(), text_of(block)) {
        (Some(call), Some(text)) if text.len() > RESULT_BYTES_MAX => {
            let is_error = block.0.get("is_error") == Some(&Value::Bool(true));
            let (head, tail) = (floor(&text, RESULT_BYTES_KEPT), ceil(&text, text.len() - RESULT_BYTES_KEPT));
            let left_out = tail - head;
            let text = format!("{}\n[{left_out} bytes left out]\n{}", &text[..head], &text[tail..]);
            let is_error = if is_error { IsError::Yes } else { IsError::No };
            Block::result(call, &Content::Text(text), is_error)
        }
        _ => block.clone(),
    };
    let message = |m: &Message| Message { role: m.role, content: m.content.iter().map(block).collect() };
    messages.iter().map(message).collect()
}

/// The whole of a result's content as text; blocks that are none count as their JSON.
fn text_of(block: &Block) -> Option<String> {
    match block.0.get("content")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => Some(
            blocks
                .iter()
                .map(|b| b["text"].as_str().map_or_else(|| b.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        _ => None,
    }
}

/// Greatest character boundary up to `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Smallest character boundary from `at`.
fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// The conversation written out as one text, of which its newest part fits, and the question.
fn for_summary(messages: &[Message]) -> Vec<Message> {
    let mut text = String::new();
    for message in messages {
        for block in &message.content {
            let said = match block.kind() {
                "text" => block.as_text().unwrap_or_default().to_owned(),
                "tool_use" => {
                    block.as_call().map(|c| format!("calls {} {}", c.name, c.input)).unwrap_or_default()
                }
                "tool_result" => format!("result: {}", text_of(block).unwrap_or_default()),
                _ => continue,
            };
            let who = if message.role == Role::User { "user" } else { "assistant" };
            text += &format!("[{who}] {said}\n\n");
        }
    }
    let from = ceil(&text, text.len().saturating_sub(SUMMARISED_BYTES_MAX));
    let text = format!("{}\n\n{SUMMARISE}", &text[from..]);
    vec![Message { role: Role::User, content: vec![Block::text(text)] }]
}

/// What goes on after a summary: the summary, and the user's last words if the model has not answered them.
pub fn summarised(messages: &[Message], summary: &str) -> Vec<Message> {
    let mut content = vec![Block::text(format!("{SUMMARY_BEGINS}\n\n{summary}"))];
    if let Some(last) = messages.last().filter(|m| m.role == Role::User) {
        // The calls that its results answer are gone.
        let words = last.content.iter().filter(|block| block.answers().is_none());
        content.extend(words.filter(|b| b.as_text().is_some_and(|t| t.len() <= RESULT_BYTES_MAX)).cloned());
    }
    vec![Message { role: Role::User, content }]
}
