//! A launch file: all that a member's `tend` needs to start it, and to start it again. It may hold secrets, so it is
//! 0600 and lives until the member is retired.

use super::{Error, MailWay, ProcessRecord, Result, TeamStore};
use crate::config::drivers::DriverEntry;
use crate::protocol::{AgentName, Layout, TeamName};
use crate::sys::atomic_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is to be started, and for whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchFile {
    /// Version of this file: 1.
    pub version: u32,
    /// The team.
    pub team: TeamName,
    /// The member.
    pub agent: AgentName,
    /// Mark of this launch, a UUID.
    pub launch: String,
    /// What kind of program it is; see `driver`.
    #[serde(default = "super::member_file::command")]
    pub driver: String,
    /// What the table of drivers says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<DriverEntry>,
    /// The program, absolute.
    pub program: PathBuf,
    /// Its name and arguments, exactly.
    pub argv: Vec<String>,
    /// How mail reaches it.
    #[serde(default)]
    pub mail: MailWay,
    /// Its conversation, with the arguments that go with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionRecord>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// Its first message, for a restart before it has a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Whether it gets a terminal.
    pub tty: bool,
    /// `never`, `on-failure` or `always`.
    pub restart: String,
    /// The member ends when this leader has died and nobody else leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_with: Option<ProcessRecord>,
    /// See [`Layout`].
    pub config_dir: PathBuf,
    /// See [`Layout`].
    pub state_dir: PathBuf,
    /// See [`Layout`].
    pub runtime_dir: PathBuf,
}

/// A conversation that an agent program keeps, so that it can be gone on with after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id, a UUID.
    pub id: String,
    /// Folder in whose folders transcripts lie.
    pub projects: PathBuf,
    /// What the program is told besides.
    pub arguments: Vec<String>,
}

impl SessionRecord {
    /// Its transcript, once there is one.
    pub fn transcript(&self) -> Option<PathBuf> {
        let folders = std::fs::read_dir(&self.projects).ok()?;
        let name = format!("{}.jsonl", self.id);
        folders.filter_map(|folder| Some(folder.ok()?.path().join(&name))).find(|path| path.is_file())
    }
}

impl LaunchFile {
    /// Reads one.
    ///
    /// # Errors
    /// [`Error::Damaged`]; the file system's.
    pub fn read(path: &Path) -> Result<LaunchFile> {
        let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
        let bytes = atomic_file::read_optional(path)?.ok_or_else(|| damaged("it is not there".to_owned()))?;
        serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))
    }

    /// Where files lie for this member.
    pub fn layout(&self) -> Layout {
        Layout {
            config_dir: self.config_dir.clone(),
            state_dir: self.state_dir.clone(),
            runtime_dir: self.runtime_dir.clone(),
        }
    }
}

impl TeamStore {
    /// Writes a member's launch file and answers its path.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_launch(&self, launch: &LaunchFile) -> Result<PathBuf> {
        let path = self.state().launch(&launch.agent);
        let bytes = serde_json::to_vec_pretty(launch).unwrap_or_default();
        atomic_file::write_unsynced(&path, &bytes, atomic_file::PRIVATE)?;
        Ok(path)
    }
}
