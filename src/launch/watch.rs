//! How each member is, derived each time from the process table and the files (B9): neither is believed alone.

use crate::protocol::task::open_blockers;
use crate::protocol::{AgentName, Member, Status, Task};
use crate::store::{Doing, Exit, MailWay, MemberRecord, MemberState, TeamStore};
use crate::sys::process::{Process, is_stopped};

/// What a member is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is to be spawned and has not been yet.
    Planned,
    /// It is being started.
    Starting,
    /// Its process runs.
    Ready(Process),
    /// It ended and will be started again.
    Restarting(Exit),
    /// It has ended for good.
    Exited(Exit),
    /// It could not be started.
    Failed,
    /// Its `tend` is gone without having said how it ended. The process, if it is there, still runs.
    Lost(Option<Process>),
    /// A row of another program: we know nothing of its process.
    Unknown,
}

impl Life {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Life::Planned => "planned",
            Life::Starting => "starting",
            Life::Ready(_) => "ready",
            Life::Restarting(_) => "restarting",
            Life::Exited(_) => "exited",
            Life::Failed => "failed",
            Life::Lost(_) => "lost",
            Life::Unknown => "unknown",
        }
    }

    /// Whether it may still do something.
    pub fn is_alive(&self) -> bool {
        matches!(self, Life::Planned | Life::Starting | Life::Ready(_) | Life::Restarting(_) | Life::Unknown)
    }

    /// Whether a process of it runs or may be about to.
    pub fn may_have_process(&self) -> bool {
        matches!(self, Life::Starting | Life::Ready(_) | Life::Restarting(_) | Life::Lost(Some(_)))
    }

    /// Whether it ended in a way that is no success.
    pub fn has_failed(&self) -> bool {
        matches!(self, Life::Failed | Life::Lost(_))
            || matches!(self, Life::Exited(exit) if !exit.is_success())
    }
}

/// What a running member is busy with, from the process table and the task list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It runs and takes no mail yet.
    Starting,
    /// Only a person at its terminal can help.
    NeedsHuman,
    /// A signal has stopped it.
    Paused,
    /// It has a task in progress.
    Working,
    /// All its open tasks wait for others.
    Blocked,
    /// Its turn waits for the leader's answer.
    AwaitsApproval,
    /// It waits for mail.
    Idle,
    /// Nothing that we can see.
    Quiet,
}

/// What a member is busy with; `None` unless it runs.
pub fn activity(member: &MemberView, tasks: &[Task]) -> Option<Activity> {
    let Life::Ready(process) = member.life else { return None };
    let doing = member.record.as_ref().and_then(|r| r.sight.as_ref()).map(|sight| sight.doing);
    let own = || tasks.iter().filter(|t| !t.is_completed() && t.owner_name() == Some(member.name.as_str()));
    Some(if is_stopped(process.pid) {
        Activity::Paused
    } else if let Some(seen) = doing.and_then(Activity::of) {
        seen
    } else if doing.is_none() && own().any(|t| t.status == Status::InProgress) {
        Activity::Working
    } else if own().next().is_some() && own().all(|t| !open_blockers(t, tasks).is_empty()) {
        Activity::Blocked
    } else if doing.is_some() {
        Activity::Idle
    } else {
        Activity::Quiet
    })
}

impl Activity {
    /// Of what was seen of its program; `None` for one that is idle, for which its tasks say why.
    fn of(doing: Doing) -> Option<Activity> {
        match doing {
            Doing::Starting => Some(Activity::Starting),
            Doing::Working => Some(Activity::Working),
            Doing::AwaitsApproval => Some(Activity::AwaitsApproval),
            Doing::NeedsHuman => Some(Activity::NeedsHuman),
            Doing::Idle => None,
        }
    }

    /// The word for it; a quiet member is simply ready.
    pub fn word(self) -> &'static str {
        match self {
            Activity::Paused => "paused",
            Activity::Working => "working",
            Activity::Blocked => "blocked",
            Activity::Starting => "starting",
            Activity::NeedsHuman => "needs-human",
            Activity::AwaitsApproval => "awaits-approval",
            Activity::Idle => "idle",
            Activity::Quiet => "ready",
        }
    }
}

/// Whether a member that waits for mail has none and does nothing: it stays so until somebody writes to it. Its screen and
/// its row have to agree that no turn goes on, but for a row that says nothing: an interrupted turn leaves it as it was.
pub fn is_at_rest(store: &TeamStore, member: &MemberView) -> bool {
    let Some(record) = member.record.as_ref().filter(|r| r.mail.is_awaited()) else { return false };
    let Some(sight) = &record.sight else { return false };
    let has_ended_its_turn =
        || member.row.as_ref().and_then(|row| row.extra.get("isActive")).is_some_and(|is| is == false);
    let is_idle = match sight.doing {
        Doing::Idle => true,
        Doing::Working => has_ended_its_turn(),
        Doing::Starting | Doing::AwaitsApproval | Doing::NeedsHuman => false,
    };
    is_idle && store.mailbox(&member.name).unread().is_ok_and(|unread| unread.entries.is_empty())
}

/// Whether a member takes part by mail, so that it can be asked to end by mail.
pub(super) fn takes_mail(record: &MemberRecord) -> bool {
    let takes = |s: &crate::store::Sight| !matches!(s.doing, Doing::Starting | Doing::NeedsHuman);
    matches!(record.mail, MailWay::Removed | MailWay::Read)
        && matches!(record.state, MemberState::Ready { .. })
        && record.sight.as_ref().is_some_and(takes)
}

/// One member as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberView {
    /// Its name.
    pub name: AgentName,
    /// Its row in the team file, if it has one.
    pub row: Option<Member>,
    /// Its file, if its `tend` wrote one.
    pub record: Option<MemberRecord>,
    /// What it is doing.
    pub life: Life,
}

/// Every member of the team: those of the team file, those that have a file of ours, those planned.
///
/// # Errors
/// The team file's. A team that was put away has no rows, but its members' files are still there.
pub fn observe(store: &TeamStore) -> crate::store::Result<Vec<MemberView>> {
    Ok(with_rows(store, &rows(store)?))
}

/// The rows of the team file; none of a team that was put away.
///
/// # Errors
/// The team file's.
pub(super) fn rows(store: &TeamStore) -> crate::store::Result<Vec<(AgentName, Member)>> {
    match store.read_team() {
        Ok(team) => Ok(team.teammates().map(|(name, row)| (name, row.clone())).collect()),
        Err(crate::store::Error::NoTeam(_)) if store.state().dir().is_dir() => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// How many members but `agent` there are at most, the dead among them: by names alone, which is far cheaper to tell than
/// how each is.
pub(super) fn others_at_most(store: &TeamStore, rows: &[(AgentName, Member)], agent: &AgentName) -> usize {
    let planned = store.manifest().ok().flatten().map_or(Vec::new(), |m| m.planned);
    let names = planned.into_iter().chain(rows.iter().map(|(name, _)| name.clone()));
    let mut names: std::collections::HashSet<AgentName> = names.chain(store.names_with_files()).collect();
    names.remove(agent);
    names.len()
}

/// The same for those who end members: a team file that cannot be read hides nobody.
pub fn observe_all(store: &TeamStore) -> Vec<MemberView> {
    let rows = match store.read_team() {
        Ok(team) => team.teammates().map(|(name, row)| (name, row.clone())).collect(),
        Err(_) => Vec::new(),
    };
    with_rows(store, &rows)
}

fn with_rows(store: &TeamStore, rows: &[(AgentName, Member)]) -> Vec<MemberView> {
    let records = store.member_records();
    let planned =
        store.manifest().ok().flatten().filter(|m| m.ended.is_none()).map_or(Vec::new(), |m| m.planned);
    let is_led = !planned.is_empty() && store.leader().is_some();
    let mut names: Vec<AgentName> = planned.clone();
    names.extend(rows.iter().map(|(name, _)| name.clone()));
    names.extend(records.iter().map(|record| record.name.clone()));
    names.extend(store.launching());
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let view = |name: AgentName| {
        let row = rows.iter().find(|(n, _)| *n == name).map(|(_, row)| row.clone());
        let record = records.iter().find(|r| r.name == name).cloned();
        let life = match &record {
            Some(record) => recorded(store, record),
            // The spawner holds its lock until `tend`, which takes its own, has written this file.
            None if store.is_tended(&name) || store.is_being_spawned(&name) => Life::Starting,
            // Its spawner died on the way.
            None if store.state().launch(&name).exists() => Life::Lost(None),
            None if planned.contains(&name) && is_led => Life::Planned,
            // Its leader died before it came to it.
            None if planned.contains(&name) => Life::Lost(None),
            None => Life::Unknown,
        };
        MemberView { name, row, record, life }
    };
    names.into_iter().map(view).collect()
}

/// One member, or `None` if there is no such.
///
/// # Errors
/// As [`observe`].
pub fn observe_one(store: &TeamStore, agent: &AgentName) -> crate::store::Result<Option<MemberView>> {
    Ok(observe(store)?.into_iter().find(|m| m.name == *agent))
}

/// What the member's file says, held against the process table.
fn recorded(store: &TeamStore, record: &MemberRecord) -> Life {
    let is_tended = |record: &MemberRecord| Process::from(record.tend).is_alive();
    let life = |record: &MemberRecord, is_tended: bool| match record.state {
        MemberState::Exited { exit } => Life::Exited(exit),
        MemberState::Failed => Life::Failed,
        MemberState::Ready { process } if is_tended => Life::Ready(process.into()),
        MemberState::Ready { process } => {
            let process = Process::from(process);
            Life::Lost(process.is_alive().then_some(process))
        }
        MemberState::Starting if is_tended => Life::Starting,
        MemberState::Restarting { exit } if is_tended => Life::Restarting(exit),
        MemberState::Starting | MemberState::Restarting { .. } => Life::Lost(None),
    };
    if is_tended(record) {
        return life(record, true);
    }
    // It is gone: what it wrote last counts, which may be newer than what we have.
    match store.member_record(&record.name) {
        Ok(Some(last)) => life(&last, is_tended(&last)),
        _ => life(record, false),
    }
}
