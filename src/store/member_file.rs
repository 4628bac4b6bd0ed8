//! One running member, as its `tend` wrote it down. Nobody else writes this file.

use super::{Error, Result, TeamStore};
use crate::protocol::AgentName;
use crate::sys::process::Process;
use crate::sys::{atomic_file, flock};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// A process as it is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

impl From<Process> for ProcessRecord {
    fn from(p: Process) -> ProcessRecord {
        ProcessRecord { pid: p.pid, start: p.start }
    }
}

impl From<ProcessRecord> for Process {
    fn from(p: ProcessRecord) -> Process {
        Process { pid: p.pid, start: p.start }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Whether it ended well.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited {code}"),
            Exit::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// What a member is doing, as its `tend` knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum MemberState {
    /// Its process is being started.
    Starting,
    /// Its process runs.
    Ready {
        /// The agent's own process; its group has the same number.
        process: ProcessRecord,
    },
    /// It will be started again.
    Restarting {
        /// How it ended.
        exit: Exit,
    },
    /// It has ended for good.
    Exited {
        /// How.
        exit: Exit,
    },
    /// It could not be started.
    Failed,
}

/// How mail reaches an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailWay {
    /// Its program takes it, if it likes, with our verbs.
    #[default]
    Taken,
    /// Its program reads its inbox itself, all the time, and removes what it has read.
    Removed,
    /// Its program is ours: it reads its inbox itself, all the time, and marks what it has read.
    Read,
    /// We give it to its program: typed into its terminal, or as an argument of its next turn.
    Typed,
}

impl MailWay {
    /// Whether the program waits for mail, so that it does not end by itself when there is nothing to do.
    pub fn is_awaited(self) -> bool {
        self != MailWay::Taken
    }
}

/// What an agent program is busy with, as its driver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It runs and takes no mail yet.
    Starting,
    /// It waits for mail.
    Idle,
    /// Its turn goes on.
    Working,
    /// Its turn waits for the leader's answer.
    AwaitsApproval,
    /// Only a person at its terminal can help.
    NeedsHuman,
}

/// What was seen of an agent program, in addition to its process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// What it is doing.
    pub doing: Doing,
    /// What it needs a person for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Since when, RFC 3339; empty for one that was not written down.
    #[serde(default)]
    pub since: String,
}

impl Sight {
    /// Seen now.
    pub fn new(doing: Doing) -> Sight {
        Sight { doing, what: None, since: String::new() }
    }

    /// It needs a person for this.
    pub fn of_a_person(what: String) -> Sight {
        Sight { what: Some(what), ..Sight::new(Doing::NeedsHuman) }
    }
}

/// Where a member lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "backend", rename_all = "snake_case")]
pub enum PlaceRecord {
    /// A plain process.
    Process,
    /// A pane of a tmux server.
    Tmux {
        /// Socket of the server.
        socket: String,
        /// `%N`.
        pane: String,
    },
    /// A session of iTerm2.
    Iterm2 {
        /// Its UUID.
        session: String,
    },
}

/// A member file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its name.
    pub name: AgentName,
    /// Mark of this launch; every process of it carries it in its environment as `THRONG_LAUNCH`.
    pub launch: String,
    /// The `tend` that keeps it.
    pub tend: ProcessRecord,
    /// What it is doing.
    pub state: MemberState,
    /// Since when, RFC 3339.
    pub since: String,
    /// When it was first started, RFC 3339.
    pub started: String,
    /// How often it was started again.
    pub restarts: u32,
    /// Where it lives.
    pub place: PlaceRecord,
    /// What kind of program it is; see `driver`.
    #[serde(default = "command")]
    pub driver: String,
    /// How mail reaches it.
    #[serde(default)]
    pub mail: MailWay,
    /// What its driver sees of it while it runs, if it can see anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sight: Option<Sight>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// `never`, `on-failure` or `always`.
    pub restart: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Why it could not be started, or other things worth saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The driver of records that name none.
pub(super) fn command() -> String {
    crate::config::plan::COMMAND.to_owned()
}

impl TeamStore {
    /// One member's file, if it ever got as far as having one.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn member_record(&self, agent: &AgentName) -> Result<Option<MemberRecord>> {
        let path = self.state().member(agent);
        let Some(bytes) = atomic_file::read_optional(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| Error::Damaged { path, why: e.to_string() })
    }

    /// Every member file, by name. Damaged ones are passed over.
    pub fn member_records(&self) -> Vec<MemberRecord> {
        let Ok(entries) = std::fs::read_dir(self.state().members()) else { return Vec::new() };
        let mut records: Vec<MemberRecord> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let agent = AgentName::new(name.strip_suffix(".json")?).ok()?;
                self.member_record(&agent).ok()?
            })
            .collect();
        records.sort_by(|a, b| (&a.started, &a.name).cmp(&(&b.started, &b.name)));
        records
    }

    /// Writes a member's file. Only its `tend` may.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_member_record(&self, record: &MemberRecord) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
        Ok(atomic_file::write_unsynced(&self.state().member(&record.name), &bytes, atomic_file::PRIVATE)?)
    }

    /// Members that have a launch file, or are just being spawned.
    pub fn launching(&self) -> Vec<AgentName> {
        let spawning = names(&self.state().members(), ".spawn").filter(|name| self.is_being_spawned(name));
        names(&self.state().launches(), ".json").chain(spawning).collect()
    }

    /// Everybody who has a file among our state, or had one.
    pub fn names_with_files(&self) -> Vec<AgentName> {
        let (members, launches) = (self.state().members(), self.state().launches());
        let records = names(&members, ".json").chain(names(&members, ".spawn"));
        records.chain(names(&launches, ".json")).collect()
    }

    /// Whether some process is just spawning this member.
    pub fn is_being_spawned(&self, agent: &AgentName) -> bool {
        flock::is_held(&self.state().spawn_lock(agent))
    }

    /// Whether a `tend` of this member lives: it holds the member's lock.
    pub fn is_tended(&self, agent: &AgentName) -> bool {
        flock::is_held(&self.state().member_lock(agent))
    }
}

/// The names of the files in `dir` that end so, without it.
fn names(dir: &Path, ending: &'static str) -> impl Iterator<Item = AgentName> + use<> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(move |e| AgentName::new(e.ok()?.file_name().to_str()?.strip_suffix(ending)?).ok())
}
