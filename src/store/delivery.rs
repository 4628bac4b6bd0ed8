//! `journal.jsonl`: which messages were put into an inbox, and which their owner has (A6). It may lag and may be gone:
//! what waits is in the inbox files alone.

use super::{Result, TeamStore};
use crate::protocol::delivery::{Line, Sent};
use crate::protocol::{AgentName, Entry, Inbox, timestamp};
use crate::sys::atomic_file;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Size in bytes from which on a new journal is begun. The one before stays.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What tells the fate of messages (`protocol::delivery::records`).
#[derive(Debug, Default)]
pub struct Deliveries {
    /// The journal, read before the inboxes.
    pub journal: Vec<Line>,
    /// Every inbox with its messages.
    pub inboxes: Vec<(AgentName, Vec<Entry>)>,
    /// Those that cannot be read, and why: nothing is known of what waits in them.
    pub unreadable: Vec<(AgentName, String)>,
}

impl TeamStore {
    /// Journals that a message is in the inbox of `to`.
    pub(super) fn journal_queued(&self, to: &AgentName, entry: &Entry) {
        self.journal(&Line::Queued(Sent::of(entry, to)));
    }

    /// Journals that the owner of an inbox has these messages.
    pub(super) fn journal_delivered(&self, by: &AgentName, ids: &[String]) {
        let time = timestamp::format(SystemTime::now());
        for id in ids {
            self.journal(&Line::Delivered { id: id.clone(), by: by.to_string(), time: time.clone() });
        }
    }

    /// Journals that a message was taken back.
    pub(super) fn journal_withdrawn(&self, from: &AgentName, id: &str) {
        let time = timestamp::format(SystemTime::now());
        self.journal(&Line::Withdrawn { id: id.to_owned(), by: from.to_string(), time });
    }

    /// Whether the journal says that a message of this id was put into the inbox of `to`.
    pub(super) fn is_journaled(&self, id: &str, to: &AgentName) -> Result<bool> {
        let is_it =
            |line: &Line| matches!(line, Line::Queued(sent) if sent.id == id && sent.to == to.as_str());
        let old = lines(&self.state().old_journal())?.iter().any(is_it);
        Ok(old || lines(&self.state().journal())?.iter().any(is_it))
    }

    /// A journal that cannot be written stops nobody.
    fn journal(&self, line: &Line) {
        if !self.state().dir().is_dir() {
            return;
        }
        let path = self.state().journal();
        // Plain data is always written.
        let text = serde_json::to_string(line).unwrap_or_default();
        if let Err(e) = atomic_file::append_line(&path, &text) {
            tracing::warn!(error = %e, "message not journaled");
        }
        if std::fs::metadata(&path).is_ok_and(|m| m.len() > BYTES_MAX)
            && let Err(e) = std::fs::rename(&path, self.state().old_journal())
        {
            tracing::warn!(error = %e, "journal not put aside");
        }
    }

    /// The journal and all inboxes as they are. Of a team that has ended, the inboxes as they were at its end.
    ///
    /// # Errors
    /// The file system's for the journal. A damaged inbox has no messages here; its owner is told when reading it.
    pub fn deliveries(&self) -> Result<Deliveries> {
        let mut journal = lines(&self.state().old_journal())?;
        journal.extend(lines(&self.state().journal())?);
        let (there, dir) = match self.exists() {
            true => (true, self.layout.inboxes(&self.name)),
            false => (false, self.state().last_files().join("team/inboxes")),
        };
        let (mut inboxes, mut unreadable) = (Vec::new(), Vec::new());
        for (agent, path) in inbox_files(&dir) {
            let read =
                if there { self.mailbox(&agent).entries().map(|all| all.entries) } else { entries(&path) };
            match read {
                Ok(entries) => inboxes.push((agent, entries)),
                Err(e) => unreadable.push((agent, e.to_string())),
            }
        }
        Ok(Deliveries { journal, inboxes, unreadable })
    }

    /// Whether a process of ours reads this inbox: it marks what it has read, and does not remove it.
    pub fn is_read_by_ours(&self, agent: &AgentName) -> bool {
        let state = self.state();
        if agent.is_lead() {
            return state.manifest().exists();
        }
        // While it is being started, only its launch file says what it is.
        let launch = || super::LaunchFile::read(&state.launch(agent)).ok().map(|launch| launch.mail);
        let record = self.member_record(agent).ok().flatten().map(|record| record.mail);
        record.or_else(launch).is_some_and(|mail| mail != super::MailWay::Removed)
    }
}

/// A line that was cut by a crash is passed over.
fn lines(path: &Path) -> Result<Vec<Line>> {
    let bytes = atomic_file::read_optional(path)?.unwrap_or_default();
    Ok(bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

fn inbox_files(dir: &Path) -> Vec<(AgentName, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "json"));
    let mut files: Vec<(AgentName, PathBuf)> =
        paths.filter_map(|p| Some((AgentName::new(p.file_stem()?.to_str()?).ok()?, p))).collect();
    files.sort();
    files
}

fn entries(path: &Path) -> Result<Vec<Entry>> {
    let bytes = atomic_file::read_optional(path)?.unwrap_or_default();
    Ok(Inbox::parse(&bytes).map_or(Vec::new(), |inbox| inbox.entries().map(|(_, entry)| entry).collect()))
}
