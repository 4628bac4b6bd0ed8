//! What a session shows: its last text, one JSON object, a stream of them, or lines for a person.

use crate::cli::error::Result;
use crate::cli::out::{Out, Paint};
use crate::protocol::body::harmless_lines;
use crate::provider::{Block, Usage};
use crate::session::{Ended, News, Progress, Rest, Whom, activity};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

/// Form of a session's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The last text, when the session is over
    Text,
    /// One JSON object, when the session is over
    Json,
    /// A JSON object a line, as things happen
    StreamJson,
}

/// Where a person writes.
const PROMPT: &str = "> ";
/// Longest piece of a result that a person is shown, in characters.
const RESULT_CHARS_MAX: usize = 200;

/// A session as it is shown.
pub struct Shown<'a> {
    out: &'a mut Out,
    /// None: lines for a person.
    format: Option<Format>,
    session: String,
    /// Whether the line that was printed last is still open.
    is_in_line: bool,
    /// The first failure to print.
    broken: Result,
    progress: Progress,
}

impl<'a> Shown<'a> {
    /// Nothing was shown yet.
    pub fn new(out: &'a mut Out, format: Option<Format>, session: &str) -> Shown<'a> {
        let session = session.to_owned();
        Shown { out, format, session, is_in_line: false, broken: Ok(()), progress: Progress::default() }
    }

    /// The session begins.
    pub fn begin(&mut self, about: &Value) {
        if self.format == Some(Format::StreamJson) {
            let mut line = json!({"type": "system", "subtype": "init", "session_id": self.session});
            if let (Some(line), Some(about)) = (line.as_object_mut(), about.as_object()) {
                line.extend(about.clone());
            }
            self.json(&line);
        }
    }

    /// Something has happened.
    pub fn show(&mut self, news: &News, progress: &Progress) {
        self.progress.clone_from(progress);
        match self.format {
            None => self.for_person(news),
            Some(Format::StreamJson) => self.stream(news),
            Some(_) => warn(news),
        }
    }

    fn stream(&mut self, news: &News) {
        let mut line = match news {
            News::Answer(answer) => json!({"type": "assistant", "message": {
                "id": answer.id, "type": "message", "role": "assistant", "model": answer.model, "content": answer.content,
                "stop_reason": answer.stop_reason, "usage": answer.usage,
            }}),
            News::Heard(content) => json!({"type": "user", "message": {"role": "user", "content": content}}),
            News::Result(block) => json!({"type": "user", "message": {"role": "user", "content": [block]}}),
            News::AskingAgain { attempt, wait, why } => json!({
                "type": "system", "subtype": "api_retry", "attempt": attempt, "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), "error": why,
            }),
            News::Shrunk { how } => json!({"type": "system", "subtype": "compact_boundary", "how": how}),
            News::Refused { call, why } => json!({
                "type": "system", "subtype": "call_refused", "tool_use_id": call.id, "tool_name": call.name, "why": why,
            }),
            News::Text(_) | News::Thinking(_) | News::CallBegins(_) | News::Calling(_) => return,
            // Nobody is asked where this is read, and the end has a line of its own.
            News::Rests(_) | News::Asks { .. } => return,
        };
        line["session_id"] = json!(self.session);
        self.json(&line);
    }

    fn for_person(&mut self, news: &News) {
        match news {
            News::Text(text) => {
                self.piece(&harmless_lines(text));
                self.is_in_line = !text.ends_with('\n');
            }
            News::Calling(call) => {
                let line = format!("* {}", activity(call));
                self.line(Paint::Green, &line);
            }
            News::Result(block) => {
                let is_error = block.0.get("is_error") == Some(&Value::Bool(true));
                let line = format!("  {}", result_line(block));
                self.line(if is_error { Paint::Red } else { Paint::Dim }, &line);
            }
            News::AskingAgain { wait, why, .. } => {
                let line = format!("the model is asked again in {:.1} s: {why}", wait.as_secs_f64());
                self.line(Paint::Yellow, &line);
            }
            News::Shrunk { how } => {
                self.line(Paint::Yellow, &format!("the conversation was made shorter: {how}"));
            }
            News::Heard(content) => {
                for text in
                    content.iter().filter_map(Block::as_text).filter(|t| t.starts_with("<teammate-message"))
                {
                    self.line(Paint::Yellow, &harmless_lines(text));
                }
            }
            News::Answer(_) => self.close(),
            News::Asks { call, why, whom: Whom::Leader } => {
                let line = format!("the leader is asked ('throng approvals'): {}: {why}", activity(call));
                self.line(Paint::Yellow, &line);
            }
            News::Asks { call, why, whom: Whom::Person } => {
                let line = format!("may it? {}: {why}", activity(call));
                self.line(Paint::Yellow, &line);
                self.piece("y or n> ");
            }
            News::Refused { call, why } => {
                self.line(Paint::Red, &format!("  refused {}: {why}", activity(call)));
            }
            News::Rests(rest) => self.rests(rest),
            News::Thinking(_) | News::CallBegins(_) => {}
        }
    }

    fn rests(&mut self, rest: &Rest) {
        match rest {
            Rest::Done(_) => {}
            Rest::Interrupted => self.line(Paint::Yellow, "interrupted: Ctrl-C again ends the session"),
            Rest::Failed(error) => self.line(Paint::Red, &error.to_string()),
        }
        self.close();
        self.ask();
    }

    /// A person may write.
    pub fn ask(&mut self) {
        self.piece(PROMPT);
    }

    /// Ends a line that is open.
    pub fn close(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            self.piece("\n");
        }
    }

    fn line(&mut self, paint: Paint, text: &str) {
        self.close();
        let text = self.out.paint(paint, text);
        let said = self.out.line(text);
        self.note(said);
    }

    fn piece(&mut self, text: &str) {
        let said = self.out.bytes(text.as_bytes());
        self.note(said);
    }

    fn json(&mut self, line: &Value) {
        let said = self.out.json(line);
        self.note(said);
    }

    fn note(&mut self, said: Result) {
        if self.broken.is_ok() {
            self.broken = said;
        }
    }

    /// Whether the reader of the output has gone.
    pub fn is_broken(&self) -> bool {
        self.broken.is_err()
    }

    /// The session is over. `took`: on its own clock.
    ///
    /// # Errors
    /// Something could not be printed.
    pub fn end(mut self, ended: &Ended, took: Duration) -> Result {
        self.close();
        let (subtype, text) = match ended {
            Ended::Done(text) => ("success", text.clone()),
            Ended::Limit(limit) => ("error_limit", limit.clone()),
            Ended::Interrupted => ("interrupted", "interrupted".to_owned()),
            Ended::Asked(_) => ("success", String::new()),
            Ended::Terminated => ("interrupted", "ended by a signal".to_owned()),
            Ended::Failed(error) => ("error_during_execution", error.to_string()),
        };
        match self.format {
            None => {}
            Some(Format::Text) => {
                if let Ended::Done(text) = ended {
                    let said = self.out.line(text);
                    self.note(said);
                }
            }
            Some(_) => {
                let Progress { turns, usage, cost_usd, .. } = self.progress.clone();
                let line = json!({
                    "type": "result", "subtype": subtype, "is_error": subtype != "success", "result": text, "session_id": self.session,
                    "num_turns": turns, "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX), "total_cost_usd": cost_usd, "usage": usage_json(&usage),
                });
                self.json(&line);
            }
        }
        self.broken
    }
}

fn usage_json(usage: &Usage) -> Value {
    serde_json::to_value(usage).unwrap_or_default()
}

/// What a person should know although only results are wanted.
fn warn(news: &News) {
    let line = match news {
        News::AskingAgain { wait, why, .. } => {
            format!("the model is asked again in {:.1} s: {why}", wait.as_secs_f64())
        }
        News::Shrunk { how } => format!("the conversation was made shorter: {how}"),
        News::Refused { call, why } => format!("refused {}: {why}", activity(call)),
        _ => return,
    };
    let _ = writeln!(std::io::stderr(), "throng: {line}");
}

/// A result on one line.
fn result_line(block: &Block) -> String {
    let text = match block.0.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let lines = text.lines().count();
    let first: String =
        harmless_lines(text.lines().next().unwrap_or("(nothing)")).chars().take(RESULT_CHARS_MAX).collect();
    if lines > 1 { format!("{first} (+{} lines)", lines - 1) } else { first }
}
