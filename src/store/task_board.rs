//! The task list (protocol II.7): one file a task. Every change of ours is made under the list's lock, then the task's, so
//! that it excludes other programs' changes of either kind.

use super::{Error, Result, TeamStore};
use crate::protocol::task::{cycle, open_blockers};
use crate::protocol::{AgentName, Status, Task};
use crate::sys::atomic_file;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a torn read is repeated: the original creates task files in place.
const TORN_READ: Duration = Duration::from_millis(200);

/// A team's task list.
#[derive(Debug)]
pub struct TaskBoard<'a> {
    store: &'a TeamStore,
    dir: PathBuf,
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
        TaskBoard { store, dir: store.layout.tasks(&store.name) }
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All tasks by number. A file that is no task is passed over with a warning in the log.
    pub fn list(&self) -> Vec<Task> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return Vec::new() };
        let paths = entries.filter_map(|e| Some(e.ok()?.path()));
        let mut tasks: Vec<Task> = paths
            .filter(|p| p.extension().is_some_and(|e| e == "json") && !p.is_dir())
            .filter_map(|p| match read(&p) {
                Ok(task) => task,
                Err(e) => {
                    tracing::warn!(error = %e, "task passed over");
                    None
                }
            })
            .collect();
        tasks.sort_by(|a, b| (a.number(), &a.id).cmp(&(b.number(), &b.id)));
        tasks
    }

    /// The task that `word` (an id or a key) names.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub fn find(&self, word: &str) -> Result<Task> {
        let none = || Error::NoTask { team: self.store.name.clone(), word: word.to_owned() };
        self.list().into_iter().find(|t| t.is_called(word)).ok_or_else(none)
    }

    /// Adds a task. Its id is above every id there ever was: the highest file or high-water mark, plus one.
    ///
    /// # Errors
    /// An unknown blocker; a key that is in use.
    pub fn add(&self, new: &NewTask) -> Result<Task> {
        self.under_list_lock(|| {
            let all = self.list();
            let highest = all.iter().filter_map(|t| t.id.parse().ok()).max().unwrap_or(0);
            let mut task = Task::new(highest.max(self.high_water_mark()) + 1, &new.subject);
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
            atomic_file::write(&self.file(&task.id), &render(&task), atomic_file::SHARED)?;
            for id in &task.blocked_by {
                self.change_one(id, |blocker| {
                    blocker.blocks.push(task.id.clone());
                    Ok(())
                })?;
            }
            self.note("task_added", &task);
            Ok(task)
        })
    }

    /// Changes the task that `word` names. `change` sees all tasks as they are under the lock.
    ///
    /// # Errors
    /// [`Error::NoTask`] (a deleted task stays deleted), and what `change` answers.
    pub fn change(&self, word: &str, change: impl Fn(&mut Task, &[Task]) -> Result<()>) -> Result<Task> {
        let task = self.under_list_lock(|| {
            let all = self.list();
            let id = self.called(&all, word)?.id.clone();
            self.change_one(&id, |task| change(task, &all))
        })?;
        self.note(if task.is_completed() { "task_completed" } else { "task_changed" }, &task);
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
            if let Some(other) = task.owner.as_deref().filter(|o| *o != owner.as_str()) {
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
        let is_theirs = |t: &Task| t.owner.as_deref() == Some(owner.as_str()) && !t.is_completed();
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

    fn high_water_mark(&self) -> u64 {
        let text = std::fs::read_to_string(self.dir.join(".highwatermark")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    fn under_list_lock<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.store.exists() {
            return Err(Error::NoTeam(self.store.name.clone()));
        }
        atomic_file::make_dir(&self.dir)?;
        let list = self.dir.join(".lock");
        atomic_file::create_new(&list, b"", atomic_file::SHARED)?;
        let _lock = self.store.lock(&list)?;
        act()
    }

    /// Changes one task under its own lock; the list's is held by the caller.
    fn change_one(&self, id: &str, change: impl Fn(&mut Task) -> Result<()>) -> Result<Task> {
        let path = self.file(id);
        let none = || Error::NoTask { team: self.store.name.clone(), word: id.to_owned() };
        self.store.change(&path, |bytes| {
            let bytes = bytes.ok_or_else(none)?;
            let damaged = |e: serde_json::Error| Error::Damaged { path: path.clone(), why: e.to_string() };
            let mut task: Task = serde_json::from_slice(bytes).map_err(damaged)?;
            let before = task.clone();
            change(&mut task)?;
            Ok(((task != before).then(|| render(&task)), task))
        })
    }
}

fn read(path: &Path) -> Result<Option<Task>> {
    let start = Instant::now();
    loop {
        let Some(bytes) = atomic_file::read_optional(path)? else { return Ok(None) };
        match serde_json::from_slice::<Task>(&bytes) {
            Ok(task) => return Ok(Some(task)),
            Err(e) if start.elapsed() >= TORN_READ => {
                return Err(Error::Damaged { path: path.to_owned(), why: e.to_string() });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn render(task: &Task) -> Vec<u8> {
    serde_json::to_vec_pretty(task).unwrap_or_default()
}
