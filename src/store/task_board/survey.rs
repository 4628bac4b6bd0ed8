//! Looking at the whole list: what its files hold, which are damaged, and whether somebody emptied it behind our back
//! (probe I09).

use super::journal::Known;
use super::{TaskBoard, render};
use crate::protocol::Task;
use crate::protocol::layout::Fnv;
use crate::store::{Error, Result};
use crate::sys::atomic_file;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a torn read is repeated, for all files of a list together: the original creates task files in place.
const TORN_READ: Duration = Duration::from_millis(200);

/// A task list as its files have it.
#[derive(Debug, Default)]
pub struct Survey {
    /// All tasks by number.
    pub tasks: Vec<Task>,
    /// Files that are no tasks, with what is wrong with them. They are left as they are.
    pub damaged: Vec<(PathBuf, String)>,
    /// Tasks that were there and that nobody deleted by the rules, as we knew them last.
    pub lost: Vec<Task>,
}

impl TaskBoard<'_> {
    /// Looks at the whole list.
    pub fn survey(&self) -> Survey {
        let mut survey = self.read_all();
        survey.lost = self.lost().unwrap_or_else(|e| {
            tracing::warn!(error = %e, "task journal not read");
            Vec::new()
        });
        survey
    }

    /// Brings the lost tasks back as we knew them last. Answers them.
    ///
    /// # Errors
    /// The lock was not had in time; the file system's.
    pub fn restore(&self) -> Result<Vec<Task>> {
        self.under_list_lock(|| {
            let lost = self.lost()?;
            for task in &lost {
                // Whoever made a file of that name meanwhile is right.
                atomic_file::create_new(&self.file(&task.id), &render(task), atomic_file::SHARED)?;
                self.note("task_restored", task);
            }
            Ok(lost)
        })
    }

    /// Writes down what other programs did to the list, and tells owners of tasks that they unblocked.
    ///
    /// # Errors
    /// The lock was not had in time; the file system's.
    pub fn take_notice(&self) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let is_new =
            |known: &BTreeMap<String, Known>, t: &Task| known.get(&t.id).and_then(Known::task) != Some(t);
        let known = journal.known()?;
        if !self.list().iter().any(|t| is_new(&known, t)) {
            return Ok(());
        }
        let (ended, all) = self.under_list_lock(|| {
            let (known, all) = (journal.known()?, self.list());
            let mut ended = Vec::new();
            for task in all.iter().filter(|t| is_new(&known, t)) {
                journal.add(&task.id, Some(task))?;
                let was_open = known.get(&task.id).and_then(Known::task).is_some_and(|t| !t.is_completed());
                if was_open && task.is_completed() {
                    ended.push(task.clone());
                }
            }
            Ok((ended, all))
        })?;
        for task in &ended {
            self.note("task_completed", task);
            self.tell_waiting(&task.id, &all);
        }
        Ok(())
    }

    /// Every file of the list, read once.
    pub(super) fn read_all(&self) -> Survey {
        let mut survey = Survey::default();
        let until = Instant::now() + TORN_READ;
        for path in self.files() {
            match read(&path, until) {
                Ok(Some(task)) => survey.tasks.push(task),
                Ok(None) => {}
                Err(e) => {
                    let why = match e {
                        Error::Damaged { why, .. } => why,
                        e => e.to_string(),
                    };
                    self.report(&path, &why);
                    survey.damaged.push((path, why));
                }
            }
        }
        survey.tasks.sort_by(|a, b| (a.number(), &a.id).cmp(&(b.number(), &b.id)));
        survey.damaged.sort();
        survey
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return Vec::new() };
        let paths = entries.filter_map(|e| Some(e.ok()?.path()));
        paths.filter(|p| p.extension().is_some_and(|e| e == "json") && !p.is_dir()).collect()
    }

    /// The highest id that was ever given, as far as files, high-water mark and journal tell.
    pub(super) fn highest_id(&self) -> Result<u64> {
        let number = |text: &str| text.parse::<u64>().ok();
        let files = self.files();
        let of_files = files.iter().filter_map(|p| number(p.file_stem()?.to_str()?)).max();
        let of_journal = self.journal().map(|journal| journal.highest_id()).transpose()?.flatten();
        Ok(of_files.max(of_journal).unwrap_or(0).max(self.high_water_mark()))
    }

    /// What the mark says; one that is missing, empty or no number says nothing.
    pub(super) fn high_water_mark(&self) -> u64 {
        let text = std::fs::read_to_string(self.dir.join(".highwatermark")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Tasks whose file is gone though nobody deleted them. Another program that deletes one raises the high-water mark
    /// to its id; that counts as deleted, unless the whole list is empty.
    fn lost(&self) -> Result<Vec<Task>> {
        let Some(journal) = self.journal().filter(|_| self.store.exists()) else { return Ok(Vec::new()) };
        let (files, mark) = (self.files(), self.high_water_mark());
        let known = journal.known()?;
        let is_gone =
            |t: &&Task| !files.contains(&self.file(&t.id)) && (files.is_empty() || t.number() > mark);
        let mut lost: Vec<Task> = known.values().filter_map(Known::task).filter(is_gone).cloned().collect();
        lost.sort_by_key(Task::number);
        Ok(lost)
    }

    /// Says once, in the event log, that a file is damaged, and keeps a copy of it.
    fn report(&self, path: &Path, why: &str) {
        let bytes = std::fs::read(path).unwrap_or_default();
        let mut hash = Fnv::new();
        hash.add(path.as_os_str().as_encoded_bytes());
        hash.add(&bytes);
        let dir = self.store.state().quarantine();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let copy = dir.join(format!("task-{name}-{:016x}.json", hash.0));
        if self.journal().is_none() || copy.exists() {
            return;
        }
        let kept = atomic_file::make_private_dir(&dir)
            .and_then(|()| atomic_file::create_new(&copy, &bytes, atomic_file::PRIVATE));
        match kept {
            Ok(true) => {
                tracing::warn!(path = %path.display(), why, "damaged task file left as it is");
                self.store.note("task_damaged", &json!({"path": path, "why": why, "copy": copy}));
            }
            Ok(false) => {}
            Err(e) => tracing::warn!(error = %e, "damaged task file not kept"),
        }
    }
}

fn read(path: &Path, until: Instant) -> Result<Option<Task>> {
    loop {
        let Some(bytes) = atomic_file::read_optional(path)? else { return Ok(None) };
        match serde_json::from_slice::<Task>(&bytes) {
            Ok(task) => return Ok(Some(task)),
            Err(e) if Instant::now() >= until => {
                return Err(Error::Damaged { path: path.to_owned(), why: e.to_string() });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
