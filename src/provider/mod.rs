//! Speaks with a model service: a request goes out, a stream of events comes in. Runs no tools and knows no teams.

mod assemble;
mod body;
mod cassette;
mod difference;
mod known;
mod message;
mod record;
mod replay;
mod script;
mod service;
pub mod sse;

pub use assemble::Assembly;
pub use body::{body, repaired};
pub use cassette::{Header, Moment};
pub use known::Known;
pub use message::{
    Answer, Block, Call, Content, IsError, Message, ModelEvent, Request, Role, ToolDefinition, Usage,
};
pub use record::Recorder;
pub use replay::Replay;
pub use script::Script;
pub use service::Service;

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What can go wrong with a model service. None of it holds the key.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// The conversation does not fit into the model's window.
    #[error("the conversation is too long for the model: {message}")]
    TooLong {
        /// The service's words.
        message: String,
    },
    /// The service said no, and would say so again.
    #[error("the model service refused the request ({status} {kind}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The service's word for it: `invalid_request_error`, `authentication_error`, ...
        kind: String,
        /// The service's words.
        message: String,
    },
    /// The service failed or was too busy, in every try.
    #[error("the model service failed in {tries} tries, the last time with {status} {kind}: {message}")]
    Failed {
        /// HTTP status; 200 if the error came in the middle of the stream.
        status: u16,
        /// The service's word for it: `overloaded_error`, `rate_limit_error`, ...
        kind: String,
        /// The service's words.
        message: String,
        /// How often it was asked.
        tries: u32,
    },
    /// Nobody answers at its address.
    #[error("the model service at {url} cannot be reached ({tries} tries): {problem}")]
    Unreachable {
        /// Its address without credentials.
        url: String,
        /// The system's words.
        problem: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The stream was closed before the answer was whole.
    #[error("the stream ended early: the answer is not whole")]
    EndedEarly,
    /// Not a byte came for too long.
    #[error("the model service said nothing for {:.1} s", waited.as_secs_f64())]
    Silent {
        /// How long it was waited for.
        waited: Duration,
    },
    /// What came is not of the Messages API.
    #[error("the model service's answer is not of the Messages API: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// A replay met a request, or a script a result, that is not the one it was made for.
    #[error("the replay differs: {difference}")]
    Differs {
        /// Where, what was expected and what came.
        difference: String,
    },
    /// It cannot be asked at all: no key, a bad address, an unreadable recording.
    #[error("{0}")]
    Settings(String),
}

/// Events of an answer on its way that may wait to be taken.
const EVENTS_MAX: usize = 64;

/// An answer on its way. Dropping it cancels the request.
#[derive(Debug)]
pub struct Answering {
    events: mpsc::Receiver<Result<ModelEvent, Error>>,
    task: JoinHandle<()>,
}

impl Answering {
    /// One that is there already.
    fn of(all: Vec<Result<ModelEvent, Error>>) -> Answering {
        let (sender, events) = mpsc::channel(all.len().max(1));
        for event in all {
            // There is room for all of them.
            let _ = sender.try_send(event);
        }
        Answering { events, task: tokio::spawn(std::future::ready(())) }
    }

    /// The next event; none after [`ModelEvent::Done`] or an error.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, Error>> {
        self.events.recv().await
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the pieces of an answer are wanted as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deltas {
    /// They are shown.
    Wanted,
    /// Only the whole answer counts.
    Unwanted,
}

/// Whom an agent asks.
#[derive(Debug)]
pub enum Provider {
    /// A model service.
    Service(Service),
    /// A model service, and what it says is written down.
    Recorder(Box<Recorder>),
    /// What was written down.
    Replay(Box<Replay>),
    /// What was written by hand.
    Script(Box<Script>),
}

impl Provider {
    /// Asks for an answer, in the name of this agent. What is on its way ends when it is dropped.
    pub fn start(&mut self, agent: &str, request: &Request, deltas: Deltas) -> Answering {
        match self {
            Provider::Service(service) => service.start(request, deltas),
            Provider::Recorder(recorder) => recorder.start(agent, request, deltas),
            Provider::Replay(replay) => replay.start(agent, request, deltas),
            Provider::Script(script) => script.start(request, deltas),
        }
    }

    /// The clock that goes with it, if it is not the usual one.
    pub fn moment(&self) -> Option<Moment> {
        match self {
            Provider::Service(_) | Provider::Script(_) => None,
            Provider::Recorder(recorder) => Some(recorder.moment()),
            Provider::Replay(replay) => Some(replay.moment()),
        }
    }

    /// The session is over.
    ///
    /// # Errors
    /// [`Error::Differs`]: there was more to be replayed.
    pub fn end(&self) -> Result<(), Error> {
        match self {
            Provider::Service(_) | Provider::Recorder(_) => Ok(()),
            Provider::Replay(replay) => replay.end(),
            Provider::Script(script) => script.end(),
        }
    }
}
