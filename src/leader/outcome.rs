//! How leading ended, and how members did.

use crate::driver;
use crate::launch::{Life, MemberView};
use crate::protocol::AgentName;
use crate::store::Exit;
use nix::sys::signal::Signal;
use std::time::Duration;

/// How an agent of ours ends whose model refused or could not be reached, or whose replay differs.
pub(super) const MODEL_FAILED: Exit = Exit::Code(6);

/// How leading ended. Several can be true at once; the exit code is that of the first that applies, in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// A signal ended it.
    pub signal: Option<Signal>,
    /// A member could not be started.
    pub not_started: Option<String>,
    /// It did not end in time.
    pub timed_out: Option<Duration>,
    /// What members asked and nobody was there to answer.
    pub unanswered: Vec<String>,
    /// Nobody could get anywhere.
    pub stalled: Option<String>,
    /// Members and tasks that failed.
    pub failed: Vec<Failed>,
    /// Processes and places that could not be ended.
    pub left: Vec<String>,
}

/// A member or task that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// The member, if it is one.
    pub member: Option<AgentName>,
    /// What happened, as a sentence.
    pub what: String,
    /// Whose failure it was.
    pub of: Of,
}

/// Whose failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Of the work.
    Work,
    /// Of the model that an agent of ours asks: it refused, could not be reached, or a replay differs.
    Model,
}

impl Outcome {
    /// Whether all went well.
    pub fn is_success(&self) -> bool {
        *self == Outcome::default()
    }
}

/// Whether a member is an agent of ours.
pub(super) fn is_ours(member: &MemberView) -> bool {
    member.record.as_ref().is_some_and(|record| driver::tells(&record.driver))
}

/// A member that failed, and how.
pub(super) fn failed_member(member: &MemberView) -> Failed {
    let is_model = is_ours(member) && member.life == Life::Exited(MODEL_FAILED);
    let of = if is_model { Of::Model } else { Of::Work };
    Failed { member: Some(member.name.clone()), what: format!("{} {}", member.name, fate(member)), of }
}

/// How a member ended, as the end of a sentence.
pub(super) fn fate(member: &MemberView) -> String {
    match member.life {
        Life::Exited(exit) => {
            let note = member.record.as_ref().and_then(|r| r.note.as_deref());
            note.map_or(exit.to_string(), |note| format!("{exit} ({note})"))
        }
        Life::Failed => "could not be started".to_owned(),
        Life::Lost(_) => "was lost: its tend died".to_owned(),
        _ => format!("is {}", member.life.word()),
    }
}
