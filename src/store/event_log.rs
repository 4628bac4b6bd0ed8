//! `events.jsonl`: what happened to a team, one JSON object a line, for people and tools that follow (I8).

use super::Result;
use crate::protocol::timestamp;
use crate::sys::atomic_file;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::SystemTime;

/// A team's event log.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
}

impl EventLog {
    pub(super) fn new(path: PathBuf) -> EventLog {
        EventLog { path }
    }

    /// Where it lies.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Appends an event of the given kind and answers its line.
    ///
    /// # Errors
    /// The file system's.
    pub fn append(&self, kind: &str, fields: &Value, now: SystemTime) -> Result<String> {
        let line = line(kind, fields, now);
        atomic_file::append_line(&self.path, &line)?;
        Ok(line)
    }
}

/// One event as a line of JSON: time and kind first.
fn line(kind: &str, fields: &Value, now: SystemTime) -> String {
    let mut event = Map::new();
    event.insert("time".to_owned(), Value::from(timestamp::format(now)));
    event.insert("event".to_owned(), Value::from(kind));
    if let Value::Object(fields) = fields {
        event.extend(fields.clone());
    }
    Value::Object(event).to_string()
}
