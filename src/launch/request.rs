//! Asking a member by mail to end (protocol II.3.1, `shutdown_request`): its program decides, says so, and ends by itself.
//! What it does not do in time is done by the steps after this one.

use super::watch::takes_mail;
use super::{control, observe_all};
use crate::protocol::body::{Body, ShutdownRequest};
use crate::protocol::{AgentName, names, timestamp};
use crate::store::{Doing, MemberRecord, Result, TeamStore};
use crate::sys::process::Process;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant, SystemTime};

/// Time to end by itself, unless somebody says otherwise.
pub const GRACE: Duration = Duration::from_secs(5);
/// The same for one that is asked by mail: it finishes its turn, and its model answers.
const GRACE_BY_MAIL: Duration = Duration::from_secs(20);
/// Time between TERM and KILL for one that was asked by mail before.
pub(super) const TERM_GRACE: Duration = Duration::from_secs(2);
/// How much longer than the grace its end counts as what it was asked for: the steps after it take so long.
const EXPECTED_LONGER: Duration = Duration::from_secs(10);
/// How often its end and its answer are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It takes no mail, or no time was given.
    NotAsked,
    /// It has ended.
    Ended,
    /// It does not want to end, and says why.
    Refused(String),
    /// It has said nothing.
    Silent,
}

/// The grace for a team's members where nobody names one.
pub fn default_grace(store: &TeamStore) -> Duration {
    let takes = |m: &super::MemberView| m.life.is_alive() && m.record.as_ref().is_some_and(takes_mail);
    if observe_all(store).iter().any(takes) { GRACE_BY_MAIL } else { GRACE }
}

/// Asks it, and waits for `within` at most. Half-way a turn that goes on is interrupted, so that it reads its mail.
///
/// # Errors
/// Its file cannot be read. A request that cannot be written is an answer: silence.
pub(super) fn request(store: &TeamStore, agent: &AgentName, within: Duration) -> Result<Answer> {
    let record = store.member_record(agent)?;
    let Some(record) = record.filter(takes_mail).filter(|_| !within.is_zero()) else {
        return Ok(Answer::NotAsked);
    };
    let tend = Process::from(record.tend);
    if !tend.is_alive() {
        return Ok(Answer::NotAsked);
    }
    let begun = Instant::now();
    tend.signal(Signal::SIGCONT);
    // It is not started again when it ends, whatever its policy.
    if control::expect_end(store, agent, within + EXPECTED_LONGER).is_err() {
        return Ok(Answer::NotAsked);
    }
    let now = SystemTime::now();
    let id = format!("shutdown-{}@{agent}", timestamp::millis(now));
    let request = ShutdownRequest {
        request_id: id.clone(),
        from: names::LEAD.to_owned(),
        reason: Some("The team ends you: your work is over.".to_owned()),
        timestamp: timestamp::format(now),
    };
    if let Err(e) = store.mailbox(agent).ask_to_end(request) {
        tracing::warn!(member = %agent, error = %e, "not asked to end");
        return Ok(Answer::Silent);
    }
    store.note("shutdown_requested", &serde_json::json!({"agent": agent, "request_id": id}));
    let mut is_nudged = false;
    while begun.elapsed() < within {
        if tend.wait_gone(LOOK_EVERY.min(within)) {
            return Ok(Answer::Ended);
        }
        if let Some(why) = refusal(store, agent, &id) {
            return Ok(Answer::Refused(why));
        }
        if !is_nudged && begun.elapsed() >= within / 2 {
            is_nudged = true;
            nudge(store, agent);
        }
    }
    Ok(Answer::Silent)
}

/// Presses Esc in a turn that goes on.
fn nudge(store: &TeamStore, agent: &AgentName) {
    let works = |r: &MemberRecord| r.sight.as_ref().is_some_and(|s| s.doing == Doing::Working);
    if store.member_record(agent).ok().flatten().as_ref().is_some_and(works) {
        store.note("member_interrupted", &serde_json::json!({"agent": agent}));
        if let Err(e) = control::press(store, agent, "\u{1b}") {
            tracing::warn!(member = %agent, error = %e, "not interrupted");
        }
    }
}

/// Why it does not want to end, if it says so. What cannot be read says nothing: the end comes all the same.
fn refusal(store: &TeamStore, agent: &AgentName, id: &str) -> Option<String> {
    let mail = store.mailbox(&AgentName::lead()).entries().ok()?.entries;
    mail.iter().filter(|e| e.from == agent.as_str()).find_map(|e| match Body::parse(&e.text) {
        Body::ShutdownRejected(no) if no.request_id == id => Some(no.reason),
        _ => None,
    })
}
