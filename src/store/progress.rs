//! What an agent of ours has done so far, written by itself alone, for whoever looks (D8).

use super::{Result, TeamStore};
use crate::protocol::AgentName;
use crate::sys::atomic_file;
use serde::{Deserialize, Serialize};

/// A progress file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressRecord {
    /// Its model's full name.
    pub model: String,
    /// Answers of the model.
    pub turns: u64,
    /// Calls of tools.
    pub tool_uses: u64,
    /// Size of the conversation at the last answer, in tokens.
    pub context_tokens: u64,
    /// Tokens that were read, from the cache or not.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
    /// US dollars; none: the model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The last calls, the newest last, in words.
    #[serde(default)]
    pub activities: Vec<String>,
}

impl TeamStore {
    /// Writes a member's progress. For showing only: it does not wait for the disk.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_progress(&self, agent: &AgentName, progress: &ProgressRecord) -> Result<()> {
        let bytes = serde_json::to_vec(progress).unwrap_or_default();
        Ok(atomic_file::write_unsynced(&self.state().progress(agent), &bytes, atomic_file::PRIVATE)?)
    }

    /// A member's progress, if it is an agent of ours that has done something.
    pub fn progress(&self, agent: &AgentName) -> Option<ProgressRecord> {
        let bytes = atomic_file::read_optional(&self.state().progress(agent)).ok()??;
        serde_json::from_slice(&bytes).ok()
    }
}
