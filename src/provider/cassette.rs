//! A recording on the disk: one file for each agent, one JSON object a line (D10). The first line says what was recorded,
//! each further one is a call: what was asked and what came. `docs/replay.md` describes it for users.
//!
//! What came is kept as the session saw it, events and error, not as the bytes of the stream: a replay proves what the agent
//! does, not how HTTP is read, stays readable and mendable by hand, and needs no waiting between tries.

use super::known::Known;
use super::{Error, ModelEvent, Request};
use crate::protocol::timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Version of the format.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// The throng that wrote it: another one may say other things to the model.
    #[serde(default)]
    pub throng: String,
    /// The session's id.
    pub session: String,
    /// The agent's key.
    pub agent: String,
    /// The agent's directory.
    pub directory: PathBuf,
    /// When it began, RFC 3339.
    pub time: String,
    /// The model that was asked.
    pub model: String,
}

impl Header {
    /// Of a recording that begins.
    pub fn new(session: &str, agent: &str, (directory, time, model): (&Path, &str, &str)) -> Header {
        let [session, agent, time, model] = [session, agent, time, model].map(str::to_owned);
        let throng = env!("CARGO_PKG_VERSION").to_owned();
        Header { version: VERSION, throng, session, agent, directory: directory.to_owned(), time, model }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Its number, from 1.
    pub call: usize,
    /// What was asked.
    pub request: Change,
    /// Temporary paths that it is the first to name: who goes on with the recording goes on with their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub temporary: Vec<String>,
    /// What came, in its order.
    pub events: Vec<ModelEvent>,
    /// Why no answer came. Neither this nor an answer: it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// When it was over, RFC 3339.
    pub time: String,
}

/// A request after the one before: so a recording grows with what is said, not with its square.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    /// What else than the messages has changed.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub set: Map<String, Value>,
    /// How many messages of the request before stand at its beginning.
    pub same: usize,
    /// Those that follow.
    pub messages: Vec<Value>,
}

/// A whole request, with names for known values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plain {
    /// `model`, `tokens_max`, `thinking_tokens`, `system`, `tools`.
    pub set: Map<String, Value>,
    /// The conversation.
    pub messages: Vec<Value>,
}

impl Plain {
    /// Of this request.
    pub fn of(request: &Request, known: &mut Known) -> Plain {
        let set = json!({
            "model": request.model, "tokens_max": request.tokens_max, "thinking_tokens": request.thinking_tokens,
            "system": &*request.system, "tools": &*request.tools,
        });
        let Value::Object(mut set) = set else { return Plain::default() };
        set.values_mut().for_each(|value| Known::each(value, &mut |text| known.named(text)));
        let message = |message| {
            let mut value = json!(message);
            Known::each(&mut value, &mut |text| known.named(text));
            value
        };
        Plain { set, messages: request.messages.iter().map(message).collect() }
    }

    /// What makes this request out of the one before.
    pub fn since(&self, before: &Plain) -> Change {
        let is_new = |(key, value): &(&String, &Value)| before.set.get(*key) != Some(value);
        let set = self.set.iter().filter(is_new).map(|(key, value)| (key.clone(), value.clone())).collect();
        let same = self.messages.iter().zip(&before.messages).take_while(|(a, b)| a == b).count();
        Change { set, same, messages: self.messages[same..].to_vec() }
    }

    /// The request after this one.
    pub fn after(mut self, change: Change) -> Plain {
        self.set.extend(change.set);
        self.messages.truncate(change.same);
        self.messages.extend(change.messages);
        self
    }
}

/// The clock of a recording and of its replay. It stands still between two answers, since only so much of it can be the same
/// again. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Moment(Arc<AtomicU64>);

impl Moment {
    /// It is then.
    pub fn at(time: SystemTime) -> Moment {
        Moment(Arc::new(AtomicU64::new(timestamp::millis(time))))
    }

    /// What time it is.
    pub fn now(&self) -> SystemTime {
        timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, time: SystemTime) {
        self.0.store(timestamp::millis(time), Ordering::Relaxed);
    }
}

/// The same with all texts changed in the given way.
pub(super) fn changed(event: &ModelEvent, change: &mut dyn FnMut(&str) -> String) -> ModelEvent {
    match event {
        ModelEvent::Text(text) => ModelEvent::Text(change(text)),
        ModelEvent::Thinking(text) => ModelEvent::Thinking(change(text)),
        ModelEvent::Done(answer) => {
            let mut answer = answer.clone();
            for block in &mut answer.content {
                let mut value = Value::Object(std::mem::take(&mut block.0));
                Known::each(&mut value, change);
                if let Value::Object(object) = value {
                    block.0 = object;
                }
            }
            ModelEvent::Done(answer)
        }
        event => event.clone(),
    }
}

/// The file of an agent's recording or script: `ending` is `jsonl` or `toml`. A sub-agent's key is its parent's and a number.
pub(super) fn file(dir: &Path, agent: &str, ending: &str) -> Result<PathBuf, Error> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if agent.is_empty() || agent.starts_with('.') || !agent.chars().all(is_part) {
        return Err(Error::Settings(format!(
            "an agent with the name '{agent}' cannot be recorded or replayed"
        )));
    }
    Ok(dir.join(format!("{agent}.{ending}")))
}

/// Keys of the sub-agents of an agent, theirs too, that are recorded in a directory. Members' names hold no dot.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn sub_agents(dir: &Path, agent: &str) -> Result<Vec<String>, Error> {
    let failed = |e: std::io::Error| Error::Settings(format!("cannot read {}: {e}", dir.display()));
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let key = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        let Some(key) = key else { continue };
        let numbers = key.strip_prefix(agent).and_then(|rest| rest.strip_prefix('.'));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if numbers.is_some_and(|numbers| numbers.split('.').all(is_number)) {
            keys.push(key.to_owned());
        }
    }
    keys.sort();
    Ok(keys)
}

/// What a recording holds.
#[derive(Debug)]
pub(super) struct Found {
    /// The first line.
    pub header: Header,
    /// The calls in their order.
    pub lines: Vec<Line>,
    /// Whether a last line was cut off by a kill. It is none, and what stands before it counts.
    pub is_torn: bool,
}

/// Reads a recording.
///
/// # Errors
/// It cannot be read, or a whole line of it is none of a recording.
pub(super) fn read(path: &Path) -> Result<Found, Error> {
    let bytes =
        std::fs::read(path).map_err(|e| Error::Settings(format!("cannot read {}: {e}", path.display())))?;
    let bad = |line: usize, problem: String| {
        Error::Settings(format!("{}:{line}: {problem}; correct the line, or record again", path.display()))
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let (_, first) = lines.next().ok_or_else(|| bad(1, "the recording has no first line".to_owned()))?;
    let header: Header = serde_json::from_slice(first).map_err(|e| bad(1, e.to_string()))?;
    if header.version != VERSION {
        let problem = format!("a recording of version {}, and this throng reads {VERSION}", header.version);
        return Err(bad(1, problem));
    }
    if timestamp::parse(&header.time).is_none() {
        return Err(bad(1, format!("'{}' is no time", header.time)));
    }
    let mut calls = Vec::new();
    for (at, line) in lines {
        let line: Line = serde_json::from_slice(line).map_err(|e| bad(at + 1, e.to_string()))?;
        calls.push(line);
    }
    // The line of an interrupted call may come after the next one's.
    calls.sort_by_key(|line| line.call);
    match calls.iter().zip(1..).find(|(line, number)| line.call != *number) {
        Some((_, number)) => {
            let problem = format!("call {number} is missing in {}: record again", path.display());
            Err(Error::Settings(problem))
        }
        None => Ok(Found { header, lines: calls, is_torn: whole < bytes.len() }),
    }
}
