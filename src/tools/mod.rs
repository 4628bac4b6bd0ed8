//! What a model may do, one file per tool. Whether it may is decided by the caller.
//!
//! A tool gets a [`View`] of its agent, which nothing changes while it runs, and gives an [`Outcome`]; what it changes about
//! the agent (files it has seen, its directory) stands in the outcome as [`Effect`]s, which the agent's owner applies.

pub mod background;
mod bash;
mod beside;
mod cancel;
mod change;
mod edit;
mod glob;
mod grep;
mod image;
mod input;
mod notebook;
pub mod pool;
mod read;
mod search;
mod target;
mod text;
mod todo;
mod write;

pub use background::Background;
pub use cancel::Cancel;
pub use target::{Access, Target, targets};

use crate::provider::{Content, IsError, ToolDefinition};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// Directory for output that is too long to be told, and for that of background commands. Mode 0700;
    /// it is made when it is needed.
    pub output: PathBuf,
    /// The environment of commands.
    pub environment: Vec<(OsString, OsString)>,
    /// The files of the call as they were when it was judged: it is led there and nowhere else. What is not among them is
    /// resolved when it is used.
    pub judged: Vec<Target>,
    /// Files that the agent may not read: searches pass them over.
    pub hidden: Hidden,
    /// What runs beside the agent; all views of one agent share it.
    pub background: Background,
}

type Hides = dyn Fn(&Path) -> bool + Send + Sync;

/// Which files an agent may not read, as its owner says.
#[derive(Clone, Default)]
pub struct Hidden(Option<Arc<Hides>>);

impl Hidden {
    /// Those for which `hides` says so.
    pub fn new(hides: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Hidden {
        Hidden(Some(Arc::new(hides)))
    }

    fn hides(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|hides| hides(path))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "none" })
    }
}

/// What a tool changes about its agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The agent has seen a file as it is now.
    Saw(PathBuf, Stamp),
    /// The agent's commands run in another directory from now on.
    Directory(PathBuf),
}

/// What a model may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Reads a file.
    Read,
    /// Replaces a text in a file.
    Edit,
    /// Writes a whole file.
    Write,
    /// Finds files by their path.
    Glob,
    /// Finds files by their content.
    Grep,
    /// Runs a shell command.
    Bash,
    /// Tells of a command in the background.
    TaskOutput,
    /// Ends a command in the background.
    TaskStop,
    /// Notes the steps of the work.
    TodoWrite,
}

/// All tools, in the order in which a model is told of them.
pub const ALL: [Tool; 9] = [
    Tool::Bash,
    Tool::Read,
    Tool::Edit,
    Tool::Write,
    Tool::Glob,
    Tool::Grep,
    Tool::TaskOutput,
    Tool::TaskStop,
    Tool::TodoWrite,
];

/// What may run while a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Other tools of this kind: it reads, searches or fetches.
    Others,
    /// Nothing: it may change what others look at.
    Nothing,
}

/// What is told of a tool.
struct About {
    name: &'static str,
    beside: Beside,
    /// The field that names a file, and what is done to it.
    target: Option<(&'static str, Access)>,
    description: &'static str,
    schema: fn() -> Value,
}

impl Tool {
    /// The tool of that name.
    pub fn named(name: &str) -> Option<Tool> {
        ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// What the model is told of it.
    pub fn definition(self) -> ToolDefinition {
        let about = self.about();
        ToolDefinition {
            name: about.name.to_owned(),
            description: about.description.to_owned(),
            input_schema: (about.schema)(),
        }
    }

    /// What may run while it runs.
    pub fn runs_beside(self) -> Beside {
        self.about().beside
    }

    fn about(self) -> &'static About {
        match self {
            Tool::Read => &read::ABOUT,
            Tool::Edit => &edit::ABOUT,
            Tool::Write => &write::ABOUT,
            Tool::Glob => &glob::ABOUT,
            Tool::Grep => &grep::ABOUT,
            Tool::TaskOutput => &beside::OUTPUT,
            Tool::TaskStop => &beside::STOP,
            Tool::TodoWrite => &todo::ABOUT,
            Tool::Bash => &bash::ABOUT,
        }
    }
}

/// Runs a tool. Whether it may run was decided before. A wrong input is answered like any failure, in words that say what
/// would be right.
pub async fn run(tool: Tool, input: Value, view: View, cancel: Cancel) -> Outcome {
    let ran = match tool {
        Tool::Read => blocking(move || read::run(input, &view)).await,
        Tool::Edit => blocking(move || edit::run(input, &view)).await,
        Tool::Write => blocking(move || write::run(input, &view)).await,
        Tool::Glob => blocking(move || glob::run(input, &view, &cancel)).await,
        Tool::Grep => blocking(move || grep::run(input, &view, &cancel)).await,
        Tool::TaskOutput => beside::output(input, view, cancel).await,
        Tool::TaskStop => beside::stop(input, view).await,
        Tool::TodoWrite => todo::run(input),
        Tool::Bash => bash::run(input, view, cancel).await,
    };
    ran.unwrap_or_else(Outcome::failed)
}

/// What came of a call, or why nothing did.
type Ran = Result<Outcome, String>;

/// Does file work beside the loop, which must not wait for a disk.
async fn blocking(work: impl FnOnce() -> Ran + Send + 'static) -> Ran {
    let broke = || Err("The tool itself broke, which is a fault of throng.".to_owned());
    blocking_value(work).await.unwrap_or_else(broke)
}

/// As [`blocking`]; `None` if it panicked.
async fn blocking_value<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
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

impl Outcome {
    /// A success that is told in words.
    fn said(text: impl Into<String>) -> Outcome {
        Outcome { content: Content::Text(text.into()), is_error: IsError::No, effects: Vec::new() }
    }

    /// A failure that is told in words.
    fn failed(text: impl Into<String>) -> Outcome {
        Outcome { is_error: IsError::Yes, ..Outcome::said(text) }
    }

    fn with(mut self, effects: impl IntoIterator<Item = Effect>) -> Outcome {
        self.effects.extend(effects);
        self
    }
}
