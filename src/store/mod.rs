//! Reads and changes protocol files under lock, and keeps throng's own records. No copy stays in memory across calls:
//! the disk is the truth. Nobody else opens these files.

mod approvals;
mod delivery;
mod event_log;
mod guard;
mod keys;
mod launch_file;
mod mail_watch;
mod mailbox;
mod member_file;
pub mod notice;
mod progress;
mod queue;
mod records;
mod spool;
mod task_board;
mod team_file;

pub use approvals::{Answer, Answered, Approval, By, Given};
pub use delivery::Deliveries;
pub use event_log::EventLog;
pub use launch_file::{LaunchFile, SessionRecord};
pub use mail_watch::{MailWatch, Seen};
pub use mailbox::{Mailbox, Unread};
pub use member_file::{Doing, Exit, MailWay, MemberRecord, MemberState, PlaceRecord, ProcessRecord, Sight};
pub use progress::ProgressRecord;
pub use records::{HomeRecord, Leader, LeaderMode, LimitsRecord, Manifest};
pub use task_board::{NewTask, Survey, TaskBoard};
pub use team_file::KeepTasks;

use crate::protocol::layout::TeamState;
use crate::protocol::{AgentName, Layout, TeamName};
use crate::sys;
use crate::sys::flock::Flock;
use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong with the team's files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system's part.
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// A file that cannot be read as what it should be. It is left as it is.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such team.
    #[error("there is no team '{0}': it was never started here, or it has ended")]
    NoTeam(TeamName),
    /// There is one already.
    #[error("team '{0}' is there already")]
    TeamExists(TeamName),
    /// A member of that name is there already.
    #[error("team '{team}' has a member '{name}' already")]
    NameTaken {
        /// The team.
        team: TeamName,
        /// The member, as it is written there.
        name: String,
    },
    /// A word of the leader's that is obeyed, sent as a message.
    #[error(
        "a {kind} reaches {to} only by the verb for it: 'throng approvals' answers, 'throng stop {to}' asks to end"
    )]
    LeadersWord {
        /// For whom it was.
        to: AgentName,
        /// What kind of message it was.
        kind: &'static str,
    },
    /// The key for a member that was given the public half is gone: it would take what comes unsigned for forged.
    #[error(
        "the key with which messages to {agent} are signed is gone ({}): its program would take them for forged, and nothing \
         was sent; answer it at its terminal ('throng attach {agent}'), or end it ('throng stop {agent}') and spawn it anew",
        path.display()
    )]
    KeyLost {
        /// For whom it was.
        agent: AgentName,
        /// Where it was.
        path: PathBuf,
    },
    /// Requests of a team that throng does not lead.
    #[error(
        "team '{0}' was not made by throng, or throng's record of it is gone: its leader answers what its members ask, and \
         throng only shows it"
    )]
    NotOurs(TeamName),
    /// There is no such task.
    #[error("team '{team}' has no task '{word}'")]
    NoTask {
        /// The team.
        team: TeamName,
        /// What was asked for: an id or a key.
        word: String,
    },
    /// The task list's rules forbid it.
    #[error("task {id} {why}")]
    TaskRefused {
        /// The task's id.
        id: String,
        /// The rule, as the end of a sentence.
        why: String,
    },
}

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// All teams of a configuration directory.
#[derive(Debug, Clone)]
pub struct Store {
    layout: Layout,
    lock_budget: Duration,
}

/// The files of one team.
#[derive(Debug, Clone)]
pub struct TeamStore {
    layout: Layout,
    name: TeamName,
    lock_budget: Duration,
}

impl Store {
    /// The store at `layout`; a shared file's lock is waited for at most `lock_budget`.
    pub fn new(layout: Layout, lock_budget: Duration) -> Store {
        Store { layout, lock_budget }
    }

    /// Where it lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// One team's files, whether or not they are there.
    pub fn team(&self, name: &TeamName) -> TeamStore {
        TeamStore { layout: self.layout.clone(), name: name.clone(), lock_budget: self.lock_budget }
    }

    /// Every team that has shared files or state of ours, sorted by name.
    pub fn teams(&self) -> Vec<TeamStore> {
        let mut names: Vec<TeamName> = [self.layout.teams(), self.layout.states()]
            .iter()
            .filter_map(|dir| std::fs::read_dir(dir).ok())
            .flatten()
            .filter_map(|entry| TeamName::new(entry.ok()?.file_name().to_str()?).ok())
            .collect();
        names.sort();
        names.dedup();
        names.iter().map(|name| self.team(name)).collect()
    }

    /// Removes the locks of the names that no team has, unless one is just being made.
    ///
    /// # Errors
    /// The file system's.
    pub fn forget_births(&self) -> Result<()> {
        let births = self.layout.births();
        for path in std::fs::read_dir(&births).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())) {
            let Some(name) = path.file_stem().and_then(|name| TeamName::new(name.to_str()?).ok()) else {
                continue;
            };
            let Some(lock) = Flock::try_acquire(&path)? else { continue };
            let team = self.team(&name);
            if lock.is_of(&path) && !team.exists() && !team.state().dir().exists() {
                sys::atomic_file::remove_optional(&path)?;
            }
        }
        Ok(())
    }
}

impl TeamStore {
    /// The same files with the sockets where the team was started with them, if it is ours: another login may have
    /// another runtime directory.
    #[must_use]
    pub fn at_home(mut self) -> TeamStore {
        if let Ok(Some(manifest)) = self.manifest() {
            self.layout.runtime_dir = manifest.runtime_dir;
        }
        self
    }

    /// The team's name.
    pub fn name(&self) -> &TeamName {
        &self.name
    }

    /// Where everything lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Our own state of this team.
    pub fn state(&self) -> TeamState {
        self.layout.state(&self.name)
    }

    /// Where the tasks are: of a team that has ended, among what was put away.
    pub(crate) fn tasks_dir(&self) -> PathBuf {
        let (shared, kept) = (self.layout.tasks(&self.name), self.state().last_files().join("tasks"));
        if !shared.exists() && kept.exists() { kept } else { shared }
    }

    /// One agent's inbox.
    pub fn mailbox(&self, agent: &AgentName) -> Mailbox<'_> {
        Mailbox::new(self, agent)
    }

    /// The task list.
    pub fn tasks(&self) -> TaskBoard<'_> {
        TaskBoard::new(self)
    }

    /// The event log.
    pub fn events(&self) -> EventLog {
        EventLog::new(self.state().events())
    }

    /// Notes in the event log what happened, and wakes the leader. A log that cannot be written stops nobody.
    pub fn note(&self, kind: &str, fields: &serde_json::Value) {
        if self.state().dir().is_dir()
            && let Err(e) = self.events().append(kind, fields, std::time::SystemTime::now())
        {
            tracing::warn!(error = %e, kind, "event not noted");
        }
        self.poke(&AgentName::lead());
    }

    /// Wakes whoever waits for mail of `agent` in a loop of ours: the one that owns its wake socket, and all that wait
    /// beside it.
    pub fn poke(&self, agent: &AgentName) {
        sys::socket::poke(&self.layout.socket(&self.name, agent, "wake"));
        sys::socket::poke_all(&self.layout.waiters(&self.name, agent));
    }
}
