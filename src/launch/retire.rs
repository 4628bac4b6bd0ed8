//! Ending a member for certain (B10): asked, then TERM to its group, then KILL; verified by pid and start time; its place
//! closed; its unfinished tasks freed. Only what carries this launch's mark is ended.

use super::request::{self, Answer};
use super::start::READY_FOR_MAIL_WITHIN;
use super::{control, observe_all, strays};
use crate::config::Environment;
use crate::protocol::AgentName;
use crate::store::{self, Exit, TeamStore};
use crate::sys::flock::Flock;
use crate::sys::process::Process;
use crate::{backend, sys};
use nix::sys::signal::Signal;
use std::time::Duration;

/// How much longer than the grace `tend` may take to end its tree.
const TEND_TAKES_MAX: Duration = Duration::from_secs(7);

/// Longest wait for a spawn that is under way: longer than that waits for readiness.
const SPAWN_TAKES_MAX: Duration = READY_FOR_MAIL_WITHIN.saturating_add(Duration::from_secs(5));
/// Words for how a member was ended.
const ASKED_BY_MAIL: &str = "by itself when asked by mail";
const TERMINATED: &str = "by TERM";
/// How programs that catch TERM tell that it has ended them.
const EXIT_OF_TERM: Exit = Exit::Code(143);
const ASKED: &str = "by itself when asked";
const KILLED: &str = "by KILL";
const KILLED_WITH_TEND: &str = "by KILL, its tend too";

/// How a member was ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Retired {
    /// The member.
    pub name: AgentName,
    /// What ended it: `ended before`, `by itself when asked`, `by KILL`, ...
    pub how: &'static str,
    /// Its exit, if it is known.
    pub exit: Option<Exit>,
    /// Why it did not want to end, if it said so.
    pub refusal: Option<String>,
    /// What is still there and should not be.
    pub left: Vec<String>,
}

/// Ends a member; bounded by `grace` and a few seconds. Its row stays until it is forgotten ([`forget`]).
///
/// # Errors
/// The files cannot be read. What could not be ended is in the answer.
pub fn retire(
    store: &TeamStore,
    agent: &AgentName,
    grace: Duration,
    environment: &Environment,
) -> store::Result<Option<Retired>> {
    let mut retired =
        Retired { name: agent.clone(), how: "ended before", exit: None, refusal: None, left: Vec::new() };
    let (grace, by_mail) = match request::request(store, agent, grace)? {
        Answer::NotAsked => (grace, Answer::NotAsked),
        answer => (request::TERM_GRACE, answer),
    };
    // Asked before anything is waited for: asked a second time, it is killed at once.
    let asked = if by_mail == Answer::Ended { None } else { ask(store, agent, grace)? };
    // A spawn that is under way is waited for, and none begins meanwhile.
    let spawning = match Flock::acquire_within(&store.state().spawn_lock(agent), SPAWN_TAKES_MAX) {
        Err(sys::Error::LockBusy { .. }) => None,
        lock => Some(lock?),
    };
    let Some(view) = observe_all(store).into_iter().find(|m| m.name == *agent) else { return Ok(None) };
    if spawning.is_none() {
        retired.how = "not at all";
        retired.left.push(format!("{agent}, which another process is starting"));
        return Ok(Some(retired));
    }
    if let Some(record) = &view.record {
        let tend = Process::from(record.tend);
        if tend.is_alive() || asked == Some(tend) {
            if asked != Some(tend) {
                ask(store, agent, grace)?;
            }
            retired.how = wait_for_tend(tend, grace);
        }
        // `tend` has swept its tree, if it lived.
        if by_mail == Answer::Ended {
            retired.how = ASKED_BY_MAIL;
        } else if (asked.is_none() && by_mail == Answer::NotAsked) || retired.how == KILLED_WITH_TEND {
            let record = store.member_record(agent)?.unwrap_or_else(|| record.clone());
            let (any, left) = strays::end(&record);
            if any && asked.is_none() {
                retired.how = "by KILL, its tend being gone";
            }
            retired.left.extend(left.iter().map(|p| format!("{agent}'s process {}", p.pid)));
        }
        retired.exit = match store.member_record(agent)?.map(|r| r.state) {
            Some(store::MemberState::Exited { exit }) => Some(exit),
            _ => None,
        };
        if is_ended_by_term(&retired, &by_mail) {
            retired.how = TERMINATED;
        }
        if matches!(retired.how, ASKED | TERMINATED)
            && retired.exit == Some(Exit::Signal(Signal::SIGKILL as i32))
        {
            retired.how = KILLED;
        }
        if let Answer::Refused(why) = by_mail {
            retired.refusal = Some(why);
        }
        tend.reap();
        if tend.is_alive() {
            retired.left.push(format!("tend, process {}", tend.pid));
        }
        if let Err(e) = backend::close(&record.place, &record.launch, environment) {
            retired.left.push(e.to_string());
        }
    }
    // Sweeps the sockets of its processes that waited for mail.
    store.poke(agent);
    store.tasks().free_tasks_of(agent)?;
    sys::atomic_file::remove_optional(&store.state().launch(agent))?;
    store.forget_lead_key(agent)?;
    store.note(
        "member_retired",
        &serde_json::json!({"agent": agent, "how": retired.how, "refusal": retired.refusal, "left": retired.left}),
    );
    Ok(Some(retired))
}

/// Whether it was TERM that ended it, and not a decision of its own.
fn is_ended_by_term(retired: &Retired, by_mail: &Answer) -> bool {
    let by_term = [Some(Exit::Signal(Signal::SIGTERM as i32)), Some(EXIT_OF_TERM)].contains(&retired.exit);
    matches!(retired.how, ASKED | ASKED_BY_MAIL) && by_term
        || retired.how == ASKED && *by_mail != Answer::NotAsked
}

/// Removes the rows of members that were retired. Their inboxes, files and logs stay.
///
/// # Errors
/// The lock was not had in time.
pub fn forget(store: &TeamStore, agents: &[AgentName]) -> store::Result<()> {
    let is_gone = |name: &str| agents.iter().any(|agent| agent.as_str() == name);
    let gone = store.change_team(|team| {
        team.members.retain(|m| !is_gone(&m.name));
        Ok(())
    });
    match gone {
        // Nothing of them stands in a file that is not there or cannot be read.
        Err(store::Error::NoTeam(_) | store::Error::Damaged { .. }) => Ok(()),
        other => other,
    }
}

/// Has a living `tend` end its tree. Answers which was asked.
fn ask(store: &TeamStore, agent: &AgentName, grace: Duration) -> store::Result<Option<Process>> {
    let record = store.member_record(agent)?;
    let Some(tend) = record.map(|r| Process::from(r.tend)).filter(Process::is_alive) else { return Ok(None) };
    // A stopped one would neither answer nor end.
    tend.signal(Signal::SIGCONT);
    if control::stop(store, agent, grace).is_err() {
        tend.signal(Signal::SIGTERM);
    }
    Ok(Some(tend))
}

/// Waits until `tend` has ended its tree; one that does not is killed.
fn wait_for_tend(tend: Process, grace: Duration) -> &'static str {
    if tend.wait_gone(grace) {
        return ASKED;
    }
    if tend.wait_gone(TEND_TAKES_MAX) {
        return KILLED;
    }
    tend.signal(Signal::SIGKILL);
    tend.wait_gone(Duration::from_secs(1));
    KILLED_WITH_TEND
}
