//! The task list (protocol II.7): one file a task. Every change of ours is made under the list's lock, then the task's, so
//! that it excludes other programs' changes of either kind.

mod journal;
mod news;
mod survey;

pub use survey::Survey;

use super::{Error, Result, TeamStore};
use crate::protocol::task::{cycle, open_blockers};
use crate::protocol::{AgentName, Status, Task};
use crate::sys::atomic_file;
use journal::TaskJournal;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A team's task list.
#[derive(Debug)]
pub struct TaskBoard<'a> {
    store: &'a TeamStore,
    dir: PathBuf,
    /// Who acts, so that others are told; `None` tells nobody.
    by: Option<AgentName>,
}

/// A task to add.
#[derive(Debug, Clone, Default)]
pub struct NewTask {
    /// One line.
    pub subject: String,
    /// All there is to know.
    pub description: String,
    /// Name of its owner.
    pub owner: Option<AgentName>,
    /// Ids or keys of the tasks it waits for.
    pub blocked_by: Vec<String>,
    /// A word to call it by.
    pub key: Option<String>,
}

impl<'a> TaskBoard<'a> {
    pub(super) fn new(store: &'a TeamStore) -> TaskBoard<'a> {
        TaskBoard { store, dir: store.tasks_dir(), by: None }
    }

    /// The list in the hands of `agent`: members are mailed what it does to their tasks.
    #[must_use]
    pub fn by(mut self, agent: &AgentName) -> TaskBoard<'a> {
        self.by = Some(agent.clone());
        self
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All tasks by number. A file that is no task is passed over; it is told of once, in the event log.
    pub fn list(&self) -> Vec<Task> {
        self.read_all().tasks
    }

    /// The task that `word` (an id or a key) names.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn find(&self, word: &str) -> Result<Task> {
        let none = || Error::NoTask { team: self.store.name.clone(), word: word.to_owned() };
        self.list().into_iter().find(|t| t.is_called(word)).ok_or_else(none)
    }

    /// Adds a task. Its id is above every id there ever was: the highest file, high-water mark or id in our journal, plus
    /// one.
    ///
    /// # Errors
    /// An unknown blocker; a key that is in use.
    pub fn add(&self, new: &NewTask) -> Result<Task> {
        let task = self.under_list_lock(|| {
            let all = self.list();
            let mut task = Task::new(self.highest_id()? + 1, &new.subject);
            if let Some(key) = &new.key {
                if let Some(twin) = all.iter().find(|t| t.is_called(key)) {
                    return Err(Error::TaskRefused {
                        id: twin.id.clone(),
                        why: format!("is called '{key}' already"),
                    });
                }
                task.set_key(key);
            }
            task.description.clone_from(&new.description);
            if let Some(owner) = &new.owner {
                task.assign(owner);
            }
            for word in &new.blocked_by {
                task.blocked_by.push(self.called(&all, word)?.id.clone());
            }
            // Under its own lock too, so that whoever comes next removes what a killed writer leaves.
            self.store.change(&self.file(&task.id), |_| Ok((Some(render(&task)), ())))?;
            self.keep(&task.id, Some(&task));
            for id in &task.blocked_by {
                self.change_one(id, |blocker| {
                    blocker.blocks.push(task.id.clone());
                    Ok(())
                })?;
            }
            Ok(task)
        })?;
        self.note("task_added", &task);
        self.tell_owner(&task);
        Ok(task)
    }

    /// Changes the task that `word` names. `change` sees all tasks as they are under the lock.
    ///
    /// # Errors
    /// [`Error::NoTask`] (a deleted task stays deleted), and what `change` answers.
    pub fn change(&self, word: &str, change: impl Fn(&mut Task, &[Task]) -> Result<()>) -> Result<Task> {
        let (before, task, all) = self.under_list_lock(|| {
            let mut all = self.list();
            let before = self.called(&all, word)?.clone();
            let task = self.change_one(&before.id, |task| change(task, &all))?;
            all.iter_mut().filter(|t| t.id == task.id).for_each(|t| t.clone_from(&task));
            Ok((before, task, all))
        })?;
        self.tell(&before, &task, &all);
        Ok(task)
    }

    /// Deletes a task: its file goes, other tasks no longer name it, and its id is never given again.
    ///
    /// # Errors
    /// [`Error::NoTask`]; the lock was not had in time.
    pub fn delete(&self, word: &str) -> Result<Task> {
        let (task, all) = self.under_list_lock(|| {
            let mut all = self.list();
            let task = self.called(&all, word)?.clone();
            // Before the file goes, so that no crash can give its id again.
            let mark = self.highest_id()?.to_string();
            self.store
                .change(&self.dir.join(".highwatermark"), |_| Ok((Some(mark.clone().into_bytes()), ())))?;
            {
                let path = self.file(&task.id);
                let _lock = self.store.lock(&path)?;
                atomic_file::remove_optional(&path)?;
            }
            self.keep(&task.id, None);
            all.retain(|t| t.id != task.id);
            for other in all.iter().filter(|t| t.blocks.contains(&task.id) || t.blocked_by.contains(&task.id))
            {
                self.change_one(&other.id, |other| {
                    other.blocks.retain(|id| *id != task.id);
                    other.blocked_by.retain(|id| *id != task.id);
                    Ok(())
                })?;
            }
            Ok((task, all))
        })?;
        self.note("task_deleted", &task);
        self.tell_waiting(&task.id, &all);
        Ok(task)
    }

    fn note(&self, kind: &str, task: &Task) {
        let about = json!({
            "id": task.id, "key": task.key(), "subject": task.subject, "status": task.status, "owner": task.owner,
            "failure": task.failure(),
        });
        self.store.note(kind, &about);
    }

    /// Takes a task for `owner`, who works on it from now on. One of several at once wins.
    ///
    /// # Errors
    /// [`Error::TaskRefused`] when it is another's, is completed, or waits for tasks that are open.
    pub fn claim(&self, word: &str, owner: &AgentName) -> Result<Task> {
        self.change(word, |task, all| {
            let refuse = |why: String| Err(Error::TaskRefused { id: task.id.clone(), why });
            if task.is_completed() {
                return refuse("is completed already".to_owned());
            }
            if let Some(other) = task.owner_name().filter(|o| *o != owner.as_str()) {
                return refuse(format!("belongs to {other}"));
            }
            let open = open_blockers(task, all);
            if !open.is_empty() {
                return refuse(format!("waits for task {}", open.join(", ")));
            }
            task.assign(owner);
            task.status = Status::InProgress;
            Ok(())
        })
    }

    /// Completes a task; `failure` says why it failed. A failed task may still be blocked, a good one may not.
    ///
    /// # Errors
    /// [`Error::TaskRefused`].
    pub fn complete(&self, word: &str, failure: Option<&str>) -> Result<Task> {
        self.change(word, |task, all| {
            let open = open_blockers(task, all);
            if failure.is_none() && !open.is_empty() {
                let why = format!("waits for task {}; say --failed WHY to give it up", open.join(", "));
                return Err(Error::TaskRefused { id: task.id.clone(), why });
            }
            task.complete(failure);
            Ok(())
        })
    }

    /// Makes the task `word` wait for the task `blocker`.
    ///
    /// # Errors
    /// [`Error::TaskRefused`] with the chain, when they would wait for each other.
    pub fn block(&self, word: &str, blocker: &str) -> Result<()> {
        let (id, blocker) = (self.find(word)?.id, self.find(blocker)?.id);
        self.change(&id, |task, all| {
            if let Some(chain) = cycle(&task.id, &blocker, all) {
                let why = format!("would wait for itself: {} -> {}", task.id, chain.join(" -> "));
                return Err(Error::TaskRefused { id: task.id.clone(), why });
            }
            if !task.blocked_by.contains(&blocker) {
                task.blocked_by.push(blocker.clone());
            }
            Ok(())
        })?;
        self.change(&blocker, |task, _| {
            if !task.blocks.contains(&id) {
                task.blocks.push(id.clone());
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Frees the unfinished tasks of a member that is gone for good. Answers them.
    ///
    /// # Errors
    /// The lock was not had in time.
    pub fn free_tasks_of(&self, owner: &AgentName) -> Result<Vec<Task>> {
        let is_theirs = |t: &Task| t.owner_name() == Some(owner.as_str()) && !t.is_completed();
        if !self.list().iter().any(is_theirs) {
            return Ok(Vec::new());
        }
        self.under_list_lock(|| {
            let theirs = self.list().into_iter().filter(|t| is_theirs(t));
            theirs
                .map(|t| {
                    let task = self.change_one(&t.id, |task| {
                        task.free();
                        Ok(())
                    })?;
                    self.note("task_freed", &task);
                    Ok(task)
                })
                .collect()
        })
    }

    fn called<'t>(&self, all: &'t [Task], word: &str) -> Result<&'t Task> {
        let none = || Error::NoTask { team: self.store.name.clone(), word: word.to_owned() };
        all.iter().find(|t| t.is_called(word)).ok_or_else(none)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Our journal; a team of another program has no state of ours, hence none.
    fn journal(&self) -> Option<TaskJournal> {
        let state = self.store.state();
        state.dir().is_dir().then(|| TaskJournal::new(state.tasks()))
    }

    /// Writes down a task's new state; the list's lock is held by the caller. The file is the truth: a journal that
    /// cannot be written stops nobody.
    fn keep(&self, id: &str, task: Option<&Task>) {
        if let Some(journal) = self.journal()
            && let Err(e) = journal.add(id, task)
        {
            tracing::warn!(error = %e, id, "task not journaled");
        }
    }

    fn under_list_lock<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.store.exists() {
            return Err(Error::NoTeam(self.store.name.clone()));
        }
        atomic_file::make_dir(&self.dir)?;
        let list = self.dir.join(".lock");
        atomic_file::create_new(&list, b"", atomic_file::SHARED)?;
        let lock = self.store.lock(&list)?;
        if !self.store.exists() {
            // The team was put away meanwhile: leave no new folder behind.
            drop(lock);
            let _ = std::fs::remove_file(&list);
            let _ = std::fs::remove_dir(&self.dir);
            return Err(Error::NoTeam(self.store.name.clone()));
        }
        self.sweep();
        act()
    }

    /// Removes what killed changes of single tasks left; the list's lock is held by the caller, and nobody of ours changes
    /// a task without it.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.filter_map(|e| e.ok()?.file_name().into_string().ok()) {
            let target = entry.strip_suffix(".lock").filter(|name| *name != ".lock" && !name.is_empty());
            if let Some(target) = target
                && let Err(e) = self.store.clear_after_dead(&self.dir.join(target))
            {
                tracing::warn!(error = %e, target, "what a killed change left stays");
            }
        }
    }

    /// Changes one task under its own lock; the list's is held by the caller.
    fn change_one(&self, id: &str, change: impl Fn(&mut Task) -> Result<()>) -> Result<Task> {
        let path = self.file(id);
        let none = || Error::NoTask { team: self.store.name.clone(), word: id.to_owned() };
        let (is_changed, task) = self.store.change(&path, |bytes| {
            let bytes = bytes.ok_or_else(none)?;
            let damaged = |e: serde_json::Error| Error::Damaged { path: path.clone(), why: e.to_string() };
            let mut task: Task = serde_json::from_slice(bytes).map_err(damaged)?;
            let before = task.clone();
            change(&mut task)?;
            let is_changed = task != before;
            Ok((is_changed.then(|| render(&task)), (is_changed, task)))
        })?;
        if is_changed {
            self.keep(id, Some(&task));
        }
        Ok(task)
    }
}

fn render(task: &Task) -> Vec<u8> {
    serde_json::to_vec_pretty(task).unwrap_or_default()
}
