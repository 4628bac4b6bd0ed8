//! What an agent hears, what it wants done, and what it shows of itself.

use crate::protocol::Entry;
use crate::provider::{Answer, Block, Call, Error, ModelEvent, Request};
use crate::session::transcript::Record;
use crate::tools::Outcome;
use std::time::Duration;

/// What happens to an agent.
#[derive(Debug)]
pub enum Event {
    /// It may begin: a conversation that was cut off goes on.
    Begin,
    /// The user says something.
    Prompt(String),
    /// Others have written. What the conversation holds already is skipped.
    Mail(Vec<Entry>),
    /// The leader asks the agent to end.
    EndAsked(Box<Entry>),
    /// Something that the agent is to know with its next turn, such as instructions of a folder that it now works in.
    Notice(String),
    /// News of the answer on its way.
    Model(ModelEvent),
    /// There will be no answer.
    ModelFailed(Error),
    /// A call has its result.
    CallDone {
        /// The call's id.
        call: String,
        /// What came of it.
        outcome: Outcome,
    },
    /// The user interrupts: once ends the turn, again ends the session.
    Interrupt,
}

/// What an agent wants done, in this order.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Write this into the transcript, before anything that follows.
    Write(Record),
    /// Ask the model.
    Ask(Request),
    /// The answer on its way is not wanted any more.
    StopAsking,
    /// Run a tool, if it is permitted.
    Run(Call),
    /// End all calls that run. Nobody waits for their results.
    CancelCalls,
    /// These messages stand in the transcript: they are delivered.
    MarkRead(Vec<String>),
    /// Show this.
    Show(News),
    /// The turn is over, and nothing waits.
    Rest(Rest),
    /// The session is over.
    End(End),
}

/// Why an agent rests.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest {
    /// The model has ended its turn; the last text it said.
    Done(String),
    /// The user has interrupted it.
    Interrupted,
    /// The model could not be asked.
    Failed(Error),
}

/// Why a session is over.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The user has interrupted twice.
    Interrupted,
    /// A limit was reached, in words.
    Limit(String),
    /// It ends as the leader asks, in this message.
    Asked(Box<Entry>),
}

/// Who is asked whether a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The person at the terminal.
    Person,
    /// The leader of the team.
    Leader,
}

/// What there is to see of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// The user's, or others', words have become part of the conversation.
    Heard(Vec<Block>),
    /// More text of the answer.
    Text(String),
    /// More of a thought.
    Thinking(String),
    /// The answer will be a call of this tool.
    CallBegins(String),
    /// The model is asked again after a while.
    AskingAgain {
        /// Number of the try that failed, from 1.
        attempt: u32,
        /// How long is waited.
        wait: Duration,
        /// Why.
        why: String,
    },
    /// A whole answer.
    Answer(Box<Answer>),
    /// A call runs.
    Calling(Call),
    /// Somebody is asked whether a call may run, and why.
    Asks {
        /// The call.
        call: Call,
        /// What the rules say.
        why: String,
        /// Who is asked.
        whom: Whom,
    },
    /// A call may not run.
    Refused {
        /// The call.
        call: Call,
        /// The rule or the answer.
        why: String,
    },
    /// What a call gave.
    Result(Block),
    /// The conversation was made shorter.
    Shrunk {
        /// How, in words.
        how: String,
    },
    /// The turn is over.
    Rests(Rest),
}
