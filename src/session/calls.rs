//! The calls of an agent that run: each beside the loop, all of them ended when the session is.

use super::instructions::Instructions;
use super::state::State;
use crate::provider::{Call, Content, IsError};
use crate::tools::{self, Cancel, Effect, Outcome, Tool, View};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;

/// A call that is over.
#[derive(Debug)]
pub struct Done {
    /// Its id.
    pub call: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What an agent works with.
#[derive(Debug)]
pub struct Hands {
    /// Directory for long output; see [`View::output`].
    pub output: PathBuf,
    /// The environment of commands.
    pub environment: Vec<(OsString, OsString)>,
    running: JoinSet<Done>,
    cancel: Cancel,
}

impl Hands {
    /// Nothing runs yet.
    pub fn new(output: PathBuf, environment: Vec<(OsString, OsString)>) -> Hands {
        Hands { output, environment, running: JoinSet::new(), cancel: Cancel::default() }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, call: Call, state: &State) {
        let view = View {
            directory: state.directory().clone(),
            seen: state.seen().clone(),
            output: self.output.clone(),
            environment: self.environment.clone(),
        };
        let cancel = self.cancel.clone();
        self.running.spawn(async move {
            let outcome = match Tool::named(&call.name) {
                Some(tool) => tools::run(tool, call.input, view, cancel).await,
                None => unknown(&call.name),
            };
            Done { call: call.id, outcome }
        });
    }

    /// The next call that is over; none while none runs.
    pub(super) async fn next(&mut self) -> Option<Done> {
        match self.running.join_next().await? {
            Ok(done) => Some(done),
            Err(e) => {
                tracing::error!(error = %e, "a call broke down");
                None
            }
        }
    }

    /// Ends all that run. New ones may begin.
    pub(super) fn cancel(&mut self) {
        self.cancel.set();
        self.cancel = Cancel::default();
    }

    /// Ends all that run, for good.
    pub(super) async fn end(mut self, within: Duration) {
        self.cancel.set();
        let all = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::error!("calls did not end in time");
        }
    }
}

/// Instructions of folders in which a call has seen files, if they are new.
pub(super) fn instructions_for(done: &Done, known: &mut Instructions, state: &State) -> Option<String> {
    let saw = done.outcome.effects.iter().filter_map(|effect| match effect {
        Effect::Saw(path, _) => Some(path),
        Effect::Directory(_) => None,
    });
    let texts: Vec<String> = saw.filter_map(|path| known.nested(state.directory(), path)).collect();
    (!texts.is_empty()).then(|| format!("<system-reminder>\n{}\n</system-reminder>", texts.join("\n\n")))
}

fn unknown(name: &str) -> Outcome {
    let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
    let text = format!("There is no tool '{name}'. There are: {}", names.join(", "));
    Outcome { content: Content::Text(text), is_error: IsError::Yes, effects: Vec::new() }
}
