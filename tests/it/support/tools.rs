//! An agent as a tool sees it: a directory of its own, and a view that effects are applied to.

use serde_json::Value;
use std::path::Path;
use throng::provider::{Content, IsError};
use throng::tools::{Cancel, Effect, Outcome, Tool, View};

/// One agent.
pub struct Agent {
    pub view: View,
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Agent {
    pub fn new() -> Agent {
        let dir = tempfile::tempdir().unwrap();
        let home = std::fs::canonicalize(dir.path()).unwrap();
        let directory = home.join("project");
        std::fs::create_dir(&directory).unwrap();
        #[allow(clippy::disallowed_methods, reason = "tests run programs of this machine")]
        let environment = std::env::vars_os().filter(|(key, _)| key == "PATH" || key == "LANG").collect();
        let view = View { directory, output: home.join("output"), environment, ..View::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Agent { view, runtime, _dir: dir }
    }

    pub fn dir(&self) -> &Path {
        &self.view.directory
    }

    /// Runs a tool; its effects are not applied.
    pub fn run(&self, tool: Tool, input: &Value) -> Outcome {
        self.block_on(throng::tools::run(tool, input.clone(), self.view.clone(), Cancel::default()))
    }

    /// Runs a tool and applies its effects.
    pub fn does(&mut self, tool: Tool, input: &Value) -> Outcome {
        let outcome = self.run(tool, input);
        self.apply(&outcome);
        outcome
    }

    pub fn apply(&mut self, outcome: &Outcome) {
        for effect in outcome.effects.clone() {
            match effect {
                Effect::Saw(path, stamp) => drop(self.view.seen.insert(path, stamp)),
                Effect::Directory(directory) => self.view.directory = directory,
            }
        }
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// What a model is told, if it is words alone.
pub fn text(outcome: &Outcome) -> String {
    match &outcome.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => panic!("blocks: {blocks:?}"),
    }
}

pub fn is_error(outcome: &Outcome) -> bool {
    outcome.is_error == IsError::Yes
}

/// Waits beside a tool that runs until `is_so`.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < super::wait::LIMIT, "waited in vain until {what}");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}
