//! What a model may do, one file per tool. Whether it may is decided by the caller.
//!
//! A tool gets a [`View`] of its agent, which nothing changes while it runs, and gives an [`Outcome`]; what it changes about
//! the agent (files it has seen, its directory) stands in the outcome as [`Effect`]s, which the agent's owner applies.

use crate::provider::{Content, IsError};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

/// A file as the agent last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Its time of change.
    pub modified: Option<SystemTime>,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
}

/// What a tool may know of its agent.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The agent's directory; absolute.
    pub directory: PathBuf,
    /// Files that the agent has read or written, with what it saw. A file is written only if it is as it was seen.
    pub seen: BTreeMap<PathBuf, Stamp>,
    /// Directory for output that is too long to be told, and for that of background commands. Exists, mode 0700.
    pub output: PathBuf,
    /// The environment of commands.
    pub environment: Vec<(OsString, OsString)>,
}

/// What a tool changes about its agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The agent has seen a file as it is now.
    Saw(PathBuf, Stamp),
    /// The agent's commands run in another directory from now on.
    Directory(PathBuf),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the model is told.
    pub content: Content,
    /// Whether it failed.
    pub is_error: IsError,
    /// What changes about the agent.
    pub effects: Vec<Effect>,
}

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Reads.
    Read,
    /// Runs.
    Bash,
}

/// What a tool may run beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Others that do.
    Others,
    /// Nothing.
    Nothing,
}

impl Tool {
    /// All.
    pub const ALL: [Tool; 2] = [Tool::Read, Tool::Bash];
    /// By its name.
    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Read => "Read",
            Tool::Bash => "Bash",
        }
    }
    /// Whether.
    pub fn runs_beside(self) -> Beside {
        if self == Tool::Read { Beside::Others } else { Beside::Nothing }
    }
    /// For the model.
    pub fn definition(self) -> crate::provider::ToolDefinition {
        crate::provider::ToolDefinition {
            name: self.name().into(),
            description: String::new(),
            input_schema: serde_json::json!({"type":"object"}),
        }
    }
}

/// A switch.
#[derive(Debug, Clone, Default)]
pub struct Cancel(std::sync::Arc<tokio::sync::Notify>);

impl Cancel {
    /// Sets it.
    pub fn set(&self) {
        self.0.notify_waiters();
    }
}
/// Runs one.
pub async fn run(tool: Tool, input: serde_json::Value, view: View, _cancel: Cancel) -> Outcome {
    let text = tokio::task::spawn_blocking(move || match tool {
        Tool::Read => {
            std::fs::read_to_string(view.directory.join(input["file_path"].as_str().unwrap_or_default()))
                .unwrap_or_else(|e| e.to_string())
        }
        Tool::Bash => std::process::Command::new("bash")
            .arg("-c")
            .arg(input["command"].as_str().unwrap_or_default())
            .current_dir(view.directory)
            .output()
            .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
            .unwrap_or_else(|e| e.to_string()),
    })
    .await
    .unwrap_or_default();
    Outcome { content: Content::Text(text), is_error: IsError::No, effects: Vec::new() }
}
