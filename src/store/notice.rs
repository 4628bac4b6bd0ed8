//! What we hear from and tell a leader in the name of a program that knows nothing of it (protocol II.3.1).

use crate::protocol::body::{Body, Idle, ShutdownApproved, Situation, may_say};
use crate::protocol::{AgentName, Entry, names, timestamp};
use std::time::SystemTime;

fn entry(agent: &AgentName, text: &str) -> Entry {
    let id = uuid::Uuid::new_v4().to_string();
    Entry::new(agent.as_str(), text, &timestamp::format(SystemTime::now()), &id)
}

/// A turn has ended; this was said in it, and it failed if there is a reason.
pub fn idle(agent: &AgentName, said: String, failure: Option<String>) -> Entry {
    let idle = Idle {
        from: agent.to_string(),
        timestamp: timestamp::format(SystemTime::now()),
        idle_reason: if failure.is_some() { "failed" } else { "available" }.to_owned(),
        failure_reason: failure,
        result: Some(said).filter(|text| !text.is_empty()),
        ..Idle::default()
    };
    entry(agent, &Body::Idle(idle.bounded()).to_text())
}

/// Whether a message to `agent` asks it to end, and may: the leader alone does.
pub fn asks_to_end(message: &Entry, agent: &AgentName) -> bool {
    let body = Body::parse(&message.text);
    let situation = Situation { me: agent, leader: names::LEAD, signature: None, pending: &[] };
    matches!(body, Body::ShutdownRequest(_)) && may_say(&body, message, &situation).is_ok()
}

/// It ends, as `request` asks.
pub fn agreement(agent: &AgentName, request: &str) -> Entry {
    let approved = ShutdownApproved {
        request_id: Body::parse(request).request_id().unwrap_or_default().to_owned(),
        from: agent.to_string(),
        timestamp: timestamp::format(SystemTime::now()),
        ..ShutdownApproved::default()
    };
    entry(agent, &Body::ShutdownApproved(approved).to_text_answering(request))
}
