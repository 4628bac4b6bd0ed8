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
