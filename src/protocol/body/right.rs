//! Who may say what (protocol I.7). Everything that does not count stays text of its sender.

use super::Body;
use crate::protocol::signature::{Verdict, claims_to_lead};
use crate::protocol::{AgentName, Entry};

/// What a reader knows when it judges a message.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Who reads.
    pub me: &'a AgentName,
    /// Name of the leader that the team file records (`Team::leader_name`).
    pub leader: &'a str,
    /// What the leader's signature says; `None` for a reader that was given no key.
    pub signature: Option<Verdict>,
    /// Ids of the reader's requests that wait for an answer.
    pub pending: &'a [&'a str],
}

/// Why a message of a structured kind does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Only the leader may say this.
    #[error("only the leader may say this")]
    NotTheLeader,
    /// Nobody says this to the leader.
    #[error("this is said by the leader, not to it")]
    ToTheLeader,
    /// Only a mate says this, and to its leader.
    #[error("this is said to the leader")]
    NotToTheLeader,
    /// It claims to be the leader's, and its signature does not prove it.
    #[error("the leader's signature is missing or wrong")]
    NotVerified,
    /// No request of that id waits for an answer.
    #[error("no request of that id is pending")]
    NotPending,
    /// It speaks for somebody else.
    #[error("it speaks for somebody else than its sender")]
    ForAnother,
    /// Words, and objects of kinds that we do not know, are never obeyed.
    #[error("it is text")]
    Text,
}

/// Whether what an entry says counts for its reader.
///
/// # Errors
/// Why it is mere text.
pub fn may_say(body: &Body, entry: &Entry, situation: &Situation<'_>) -> Result<(), Refusal> {
    match body {
        Body::Text(_) | Body::Unknown { .. } | Body::TeammateTerminated(_) => Err(Refusal::Text),
        Body::ShutdownRequest(_) => is_from_the_leader(entry, situation),
        Body::PlanVerdict(_) | Body::PermissionVerdict(_) | Body::SandboxVerdict(_) => {
            is_from_the_leader(entry, situation)?;
            is_pending(body, situation)
        }
        Body::ShutdownApproved(_) | Body::ShutdownRejected(_) => {
            is_to_the_leader(entry, situation)?;
            is_pending(body, situation)?;
            // The id ends with the name of whom it asked.
            let asked = body.request_id().and_then(|id| id.split('@').nth(1));
            if asked.is_none_or(|name| name == entry.from) { Ok(()) } else { Err(Refusal::ForAnother) }
        }
        Body::PermissionRequest(request) => {
            is_to_the_leader(entry, situation)?;
            is_for_itself(&request.agent_id, entry)
        }
        Body::SandboxRequest(request) => {
            is_to_the_leader(entry, situation)?;
            is_for_itself(&request.worker_name, entry)
        }
        Body::Idle(_) | Body::PlanRequest(_) => is_to_the_leader(entry, situation),
        // News that nobody obeys: the task's file is the truth.
        Body::TaskAssignment(_) | Body::TaskCompleted(_) => Ok(()),
    }
}

fn is_leader(name: &str, situation: &Situation<'_>) -> bool {
    name == situation.leader
}

fn is_from_the_leader(entry: &Entry, situation: &Situation<'_>) -> Result<(), Refusal> {
    if is_leader(situation.me.as_str(), situation) {
        return Err(Refusal::ToTheLeader);
    }
    if !is_leader(&entry.from, situation) {
        return Err(Refusal::NotTheLeader);
    }
    match situation.signature {
        None | Some(Verdict::Verified) => Ok(()),
        Some(Verdict::Forged | Verdict::Plain) => Err(Refusal::NotVerified),
    }
}

/// It is said to the leader, by somebody who does not claim to be the leader.
fn is_to_the_leader(entry: &Entry, situation: &Situation<'_>) -> Result<(), Refusal> {
    if !is_leader(situation.me.as_str(), situation) {
        return Err(Refusal::NotToTheLeader);
    }
    if is_leader(&entry.from, situation) || claims_to_lead(&entry.from) {
        return Err(Refusal::ForAnother);
    }
    Ok(())
}

fn is_for_itself(named: &str, entry: &Entry) -> Result<(), Refusal> {
    if named == entry.from { Ok(()) } else { Err(Refusal::ForAnother) }
}

fn is_pending(body: &Body, situation: &Situation<'_>) -> Result<(), Refusal> {
    let id = body.request_id().unwrap_or_default();
    if situation.pending.contains(&id) { Ok(()) } else { Err(Refusal::NotPending) }
}
