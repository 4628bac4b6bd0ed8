//! Our own records of a team: how it was started, and who leads it.

use super::{Error, ProcessRecord, Result, TeamStore};
use crate::config::approvals::Policy;
use crate::config::drivers::Rows;
use crate::protocol::AgentName;
use crate::sys::flock::{self, Flock};
use crate::sys::process::Process;
use crate::sys::{atomic_file, socket};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for another process that is just making or adopting a team of the name.
const BIRTH_TAKES_MAX: Duration = Duration::from_secs(10);
/// Longest wait for those who only look who leads.
const LEAD_WITHIN: Duration = Duration::from_millis(200);

/// How a team is led.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaderMode {
    /// `throng run`: the team ends with its leader.
    Run,
    /// `throng up`: the team goes on without its leader.
    Up,
    /// `throng spawn` made it: no leader.
    Spawn,
}

/// Caps that hold for later spawns too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsRecord {
    /// Most members at once.
    pub agents: usize,
    /// Deepest chain of members that spawn members.
    pub depth: u32,
    /// Least free memory before a spawn, in megabytes.
    pub memory_free_mb: u64,
}

/// How a team was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this file: 1.
    pub version: u32,
    /// The configuration directory with its shared files.
    pub config_dir: PathBuf,
    /// How it is led.
    pub mode: LeaderMode,
    /// When, RFC 3339.
    pub started: String,
    /// When it was ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Set once somebody ends it: with this grace in milliseconds. Nobody is spawned from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending_grace_ms: Option<u64>,
    /// Where its sockets lie.
    pub runtime_dir: PathBuf,
    /// Directory of the team file.
    pub dir: PathBuf,
    /// Where its members' products go.
    pub out: PathBuf,
    /// Whether members end when the leader has died and nobody else leads.
    pub ends_with_leader: bool,
    /// Names of members that are to be spawned; some may not be yet.
    pub planned: Vec<AgentName>,
    /// Caps.
    pub limits: LimitsRecord,
    /// Who answers what its members ask.
    #[serde(default)]
    pub approvals: Policy,
    /// The drivers of its team file, for members that are added.
    #[serde(default, skip_serializing_if = "Rows::is_empty")]
    pub drivers: Rows,
    /// Where its members live.
    pub home: HomeRecord,
    /// `pane`, `window` or `session`.
    pub placement: String,
}

/// Where a team's members live, so that another process finds their places.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HomeRecord {
    /// `tmux`, `iterm2` or `process`.
    pub backend: String,
    /// Socket of the tmux server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// The leader's tmux pane, `%N`, or iTerm2 session, if members' places go beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Command line that shows the team's panes, if they have a session of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach: Option<String>,
}

/// Who leads, for showing. The held lock is what counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leader {
    /// The process.
    pub process: ProcessRecord,
    /// How it leads.
    pub mode: LeaderMode,
    /// Since when, RFC 3339.
    pub since: String,
}

fn read<T: for<'de> Deserialize<'de>>(path: PathBuf) -> Result<Option<T>> {
    let Some(bytes) = atomic_file::read_optional(&path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| Error::Damaged { path, why: e.to_string() })
}

fn write(path: &std::path::Path, record: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
    Ok(atomic_file::write(path, &bytes, atomic_file::PRIVATE)?)
}

impl TeamStore {
    /// Makes the folders of our own state, and the one for sockets.
    ///
    /// # Errors
    /// The file system's.
    pub fn create_state(&self) -> Result<()> {
        let state = self.state();
        for dir in [state.members(), state.launches(), state.logs(), state.queues()] {
            atomic_file::make_private_dir(&dir)?;
        }
        Ok(socket::private_dir(&self.layout.runtime_dir)?)
    }

    /// How the team was started; `None` for a team that is not ours.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        read(self.state().manifest())
    }

    /// Writes the manifest. Only the team's leader, or who makes or ends the team, may.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        write(&self.state().manifest(), manifest)
    }

    /// Writes into the manifest that the team is being ended: nobody is spawned from then on.
    ///
    /// # Errors
    /// [`Error::Damaged`]; the file system's.
    pub fn begin_end(&self, grace: Duration) -> Result<()> {
        let Some(mut manifest) = self.manifest()? else { return Ok(()) };
        manifest.ending_grace_ms = Some(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        self.write_manifest(&manifest)
    }

    /// Holds off everybody else who would make or adopt this team.
    ///
    /// # Errors
    /// [`crate::sys::Error::LockBusy`] when another was at it all the time.
    pub fn hold_birth(&self) -> Result<Flock> {
        // Outside the folder that is put aside when a name is used again.
        let births = self.layout.births();
        let path = births.join(format!("{}.lock", self.name));
        loop {
            atomic_file::make_private_dir(&births)?;
            let lock = Flock::acquire_within(&path, BIRTH_TAKES_MAX)?;
            // It may have been removed between our opening and locking it.
            if lock.is_of(&path) {
                return Ok(lock);
            }
        }
    }

    /// Becomes the team's leader, if it has none.
    ///
    /// # Errors
    /// The file system's; `None` when another leads.
    pub fn lead(&self) -> Result<Option<Flock>> {
        atomic_file::make_private_dir(self.state().dir())?;
        // Those who only look whether it is held hold it for a moment.
        match Flock::acquire_within(&self.state().leader_lock(), LEAD_WITHIN) {
            Err(crate::sys::Error::LockBusy { .. }) => Ok(None),
            lock => Ok(Some(lock?)),
        }
    }

    /// Writes down who leads. The writer must hold the leader's lock.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_leader(&self, mode: LeaderMode, since: &str) -> Result<()> {
        let leader = Leader { process: Process::current().into(), mode, since: since.to_owned() };
        write(&self.state().leader_record(), &leader)
    }

    /// The leader that lives: the lock is held. `Some(None)` for the moment before it has signed.
    pub fn leader(&self) -> Option<Option<Leader>> {
        flock::is_held(&self.state().leader_lock()).then(|| read(self.state().leader_record()).ok().flatten())
    }
}
