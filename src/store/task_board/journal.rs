//! `tasks.jsonl`: each state of each task that a process of ours wrote or saw. From it an emptied list is noticed and
//! brought back (probe I09). Written under the list's lock alone.

use super::super::Result;
use crate::protocol::{Task, timestamp};
use crate::sys::atomic_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// Size in bytes from which on only the last state of each task is kept.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A task list's journal.
pub(super) struct TaskJournal {
    path: PathBuf,
}

/// What is known of a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Known {
    /// Its last state.
    Is(Box<Task>),
    /// We deleted it.
    Deleted,
}

impl Known {
    /// The task, unless it was deleted.
    pub(super) fn task(&self) -> Option<&Task> {
        match self {
            Known::Is(task) => Some(task),
            Known::Deleted => None,
        }
    }
}

/// One line. Without a task: it was deleted.
#[derive(Serialize, Deserialize)]
struct Line {
    time: String,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Box<Task>>,
}

impl Line {
    fn new(id: &str, task: Option<&Task>) -> Line {
        let time = timestamp::format(SystemTime::now());
        Line { time, id: id.to_owned(), task: task.cloned().map(Box::new) }
    }

    fn text(&self) -> String {
        // Plain data is always written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl TaskJournal {
    pub(super) fn new(path: PathBuf) -> TaskJournal {
        TaskJournal { path }
    }

    /// The last state of every task, by id. A line that was cut by a crash is passed over.
    pub(super) fn known(&self) -> Result<BTreeMap<String, Known>> {
        let bytes = atomic_file::read_optional(&self.path)?.unwrap_or_default();
        let lines = bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        Ok(lines.map(|line| (line.id, line.task.map_or(Known::Deleted, Known::Is))).collect())
    }

    /// The highest id in it.
    pub(super) fn highest_id(&self) -> Result<Option<u64>> {
        /// A line without its task, which is passed over unread.
        #[derive(Deserialize)]
        struct Id {
            id: String,
        }
        let bytes = atomic_file::read_optional(&self.path)?.unwrap_or_default();
        let lines = bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Id>(line).ok());
        Ok(lines.filter_map(|line| line.id.parse().ok()).max())
    }

    /// Adds the present state of a task; `None`: it was deleted.
    pub(super) fn add(&self, id: &str, task: Option<&Task>) -> Result<()> {
        atomic_file::append_line(&self.path, &Line::new(id, task).text())?;
        if std::fs::metadata(&self.path).is_ok_and(|m| m.len() > BYTES_MAX) {
            self.shorten()?;
        }
        Ok(())
    }

    fn shorten(&self) -> Result<()> {
        let mut text = String::new();
        for (id, known) in self.known()? {
            text.push_str(&Line::new(&id, known.task()).text());
            text.push('\n');
        }
        Ok(atomic_file::write(&self.path, text.as_bytes(), atomic_file::PRIVATE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_state_counts_and_a_cut_line_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let journal = TaskJournal::new(dir.path().join("tasks.jsonl"));
        assert!(journal.known().unwrap().is_empty());
        let mut task = Task::new(1, "one");
        journal.add("1", Some(&task)).unwrap();
        task.complete(Some("why"));
        journal.add("1", Some(&task)).unwrap();
        journal.add("2", Some(&Task::new(2, "two"))).unwrap();
        journal.add("2", None).unwrap();
        let before = journal.known().unwrap();
        assert_eq!(journal.highest_id().unwrap(), Some(2));
        assert_eq!(before["1"].task(), Some(&task));
        assert_eq!(before["2"], Known::Deleted);
        journal.shorten().unwrap();
        assert_eq!(std::fs::read_to_string(&journal.path).unwrap().lines().count(), 2);
        let mut cut = std::fs::read(&journal.path).unwrap();
        cut.extend(br#"{"time":"t","id":"1","ta"#);
        std::fs::write(&journal.path, cut).unwrap();
        assert_eq!(journal.known().unwrap(), before);
    }
}
