//! The calls of an agent that run: each beside the loop, all of them ended when the session is.

use super::instructions::Instructions;
use super::permits::{Asked, Permits};
use super::state::State;
use crate::provider::{Call, Content, IsError};
use crate::tools::{self, Background, Cancel, Effect, Outcome, Tool, View};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet};

/// A call that is over.
#[derive(Debug)]
pub struct Done {
    /// Its id.
    pub call: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What is heard of the calls that run.
#[derive(Debug)]
pub(super) enum Heard {
    Done(Done),
    Asked(Asked),
}

/// What an agent works with.
#[derive(Debug)]
pub struct Hands {
    /// Directory for long output; see [`View::output`].
    pub output: PathBuf,
    /// The environment of commands.
    pub environment: Vec<(OsString, OsString)>,
    /// What the agent may do.
    pub permits: Permits,
    asks: mpsc::UnboundedSender<Asked>,
    asked: mpsc::UnboundedReceiver<Asked>,
    running: JoinSet<Done>,
    /// Ids of the calls that run.
    calls: HashMap<task::Id, String>,
    cancel: Cancel,
    /// Commands that run, or have left something running.
    background: Background,
}

impl Hands {
    /// Nothing runs yet.
    pub fn new(output: PathBuf, environment: Vec<(OsString, OsString)>, permits: Permits) -> Hands {
        let (asks, asked) = mpsc::unbounded_channel();
        let (running, cancel) = (JoinSet::new(), Cancel::default());
        Hands {
            output,
            environment,
            permits,
            asks,
            asked,
            running,
            calls: HashMap::new(),
            cancel,
            background: Background::default(),
        }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, call: Call, state: &State) {
        let view = View {
            directory: state.directory().clone(),
            seen: state.seen().clone(),
            output: self.output.clone(),
            environment: self.environment.clone(),
            judged: Vec::new(),
            hidden: self.permits.hidden(),
            background: self.background.clone(),
        };
        let cancel = self.cancel.clone();
        let (permits, asks) = (self.permits.clone(), self.asks.clone());
        let id = call.id.clone();
        let handle = self.running.spawn(async move {
            let outcome = match Tool::named(&call.name) {
                Some(tool) => match permits.settle((tool, &call), &view, &asks).await {
                    Ok((input, judged)) => tools::run(tool, input, View { judged, ..view }, cancel).await,
                    Err(why) => failure(format!("Refused: {why}")),
                },
                None => unknown(&call.name),
            };
            Done { call: call.id, outcome }
        });
        self.calls.insert(handle.id(), id);
    }

    /// The next call that is over, or asks; none while none runs.
    pub(super) async fn next(&mut self) -> Option<Heard> {
        tokio::select! {
            biased;
            Some(asked) = self.asked.recv() => Some(Heard::Asked(asked)),
            Some(done) = self.running.join_next_with_id() => {
                let id = done.as_ref().map_or_else(task::JoinError::id, |(id, _)| *id);
                let call = self.calls.remove(&id).unwrap_or_default();
                Some(Heard::Done(match done {
                    Ok((_, done)) => done,
                    Err(e) => Done { call, outcome: failure(format!("The call broke down: {e}")) },
                }))
            },
            else => None,
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
        let all = async {
            while self.running.join_next().await.is_some() {}
            self.background.stop_all().await;
        };
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
    let names: Vec<&str> = tools::ALL.iter().map(|tool| tool.name()).collect();
    let text = format!("There is no tool '{name}'. There are: {}", names.join(", "));
    failure(text)
}

fn failure(text: String) -> Outcome {
    Outcome { content: Content::Text(text), is_error: IsError::Yes, effects: Vec::new() }
}
