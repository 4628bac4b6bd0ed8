//! Our own queue for one shared file: throng's processes line up on a flock, so that one of them at a time contends with
//! other programs for the lock directory, and writes for the others what they have spooled (`store/spool.rs`).
//!
//! Whoever has the turn keeps a record of what it is about: the identity of its lock directory and its temporary file, and,
//! right before the rename, whose entries are in it. Whoever has the turn next and finds a record knows that its
//! writer died: the lock directory goes at once, and whether the entries were written is told by the temporary file.

use super::{Result, TeamStore};
use crate::protocol::layout::Fnv;
use crate::sys::flock::Flock;
use crate::sys::lock_dir::Identity;
use crate::sys::process::Process;
use crate::sys::{self, atomic_file, fault};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Pause between two looks at first: a write of the file takes about a millisecond.
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// How many such pauses there are before they grow.
const SHORT_PAUSES: u32 = 6;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// The queue for one shared file.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    target: PathBuf,
    flock: PathBuf,
    budget: Duration,
}

/// Being the one process of ours that may change the file.
#[derive(Debug)]
pub(super) struct Turn {
    queue: Queue,
    /// Lock directory of a writer that died.
    abandoned: Option<Identity>,
    record: Record,
    // Released last, after `drop` has removed the record.
    _flock: Flock,
}

/// What the process that has the turn is about.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Record {
    pid: i32,
    start: u64,
    /// Inode, seconds and nanoseconds of its lock directory.
    #[serde(default)]
    lock: Option<(u64, i64, i64)>,
    /// File name of the new content.
    #[serde(default)]
    temporary: Option<String>,
    /// Set right before it is renamed: whose entries are in it.
    #[serde(default)]
    renames: Option<Vec<String>>,
}

impl Record {
    /// Whether the entry is in what is being written.
    pub(super) fn names(&self, name: &str) -> bool {
        self.renames.iter().flatten().any(|n| n == name)
    }
}

impl TeamStore {
    /// The queue for `target`. A team of another program has no state of ours, hence no queue.
    pub(super) fn queue(&self, target: &Path) -> Result<Option<Queue>> {
        let dir = self.state().queues();
        if !self.state().dir().is_dir() {
            return Ok(None);
        }
        atomic_file::make_private_dir(&dir)?;
        let mut hash = Fnv::new();
        hash.add(target.as_os_str().as_encoded_bytes());
        let flock = dir.join(format!("{:016x}", hash.0));
        Ok(Some(Queue { target: target.to_owned(), flock, budget: self.lock_budget }))
    }
}

impl Queue {
    /// Longest wait.
    pub(super) fn budget(&self) -> Duration {
        self.budget
    }

    /// Folder of what waits to be written.
    pub(super) fn spool(&self) -> PathBuf {
        self.flock.with_extension("spool")
    }

    fn record_path(&self) -> PathBuf {
        self.flock.with_extension("json")
    }

    /// The record of whoever has the turn, or died having it.
    pub(super) fn record(&self) -> Result<Option<Record>> {
        let bytes = atomic_file::read_optional(&self.record_path())?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// The turn, if nobody has it.
    pub(super) fn try_turn(&self) -> Result<Option<Turn>> {
        Ok(self.try_turn_on(Flock::file_of(&self.flock)?)?.ok())
    }

    /// The turn, if nobody has it, by a file of [`Queue::file`]; else the file for the next try.
    pub(super) fn try_turn_on(&self, file: File) -> Result<std::result::Result<Turn, File>> {
        let flock = match Flock::try_on(file, &self.flock)? {
            Ok(flock) => flock,
            Err(file) => return Ok(Err(file)),
        };
        let me = Process::current();
        let left = self.record()?.map(|left| Process { pid: left.pid, start: left.start });
        if left.is_some_and(|holder| holder != me && holder.is_alive()) {
            // Either it is just ending, or flock excludes nobody on this file system (probe Q122): then the record does,
            // and the lock directory.
            drop(flock);
            return Ok(Err(self.file()?));
        }
        let record = Record { pid: me.pid, start: me.start, ..Record::default() };
        let mut turn = Turn { queue: self.clone(), abandoned: None, record, _flock: flock };
        turn.recover()?;
        Ok(Ok(turn))
    }

    /// What the turn is taken on.
    pub(super) fn file(&self) -> Result<File> {
        Ok(Flock::file_of(&self.flock)?)
    }

    /// Waits for the turn.
    pub(super) fn turn(&self) -> Result<Turn> {
        let start = Instant::now();
        let mut pauses = Pauses::new();
        loop {
            if let Some(turn) = self.try_turn()? {
                return Ok(turn);
            }
            if start.elapsed() >= self.budget {
                return Err(self.busy(start.elapsed()).into());
            }
            pauses.wait();
        }
    }

    /// Another process of ours has the turn for too long.
    pub(super) fn busy(&self, waited: Duration) -> sys::Error {
        let since = std::fs::metadata(self.record_path()).and_then(|meta| meta.modified());
        let holder_age = since.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        sys::Error::LockBusy { path: self.flock.clone(), waited, holder_age }
    }
}

impl Turn {
    /// Finishes what a writer that died left undone.
    fn recover(&mut self) -> Result<()> {
        let Some(mut left) = self.queue.record()? else { return Ok(()) };
        self.abandoned = left.lock.map(|(inode, s, ns)| Identity { inode, mtime: (s, ns) });
        let Some(temporary) = left.temporary.clone() else { return Ok(()) };
        let temporary = self.queue.target.with_file_name(temporary);
        let is_gone =
            || temporary.parent().is_some_and(Path::exists) && std::fs::symlink_metadata(&temporary).is_err();
        let renamed = left.renames.take().filter(|_| is_gone());
        if let Some(names) = &renamed {
            self.queue.acknowledge(names);
        }
        // First forget what is being renamed, then remove it: its absence means that it was. Its name is kept, for whoever
        // comes after us if we die between the two.
        if self.write(&left).is_err() {
            self.retract()?;
        }
        fault::point("recovering");
        let was_renamed = renamed.is_some();
        tracing::info!(pid = left.pid, was_renamed, target = %self.queue.target.display(), "a writer died");
        Ok(atomic_file::remove_optional(&temporary)?)
    }

    /// The queue it is of.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Lock directory of a writer that died. Nobody of ours holds one, since we have the turn.
    pub(super) fn abandoned(&self) -> Option<Identity> {
        self.abandoned
    }

    /// Writes down which lock directory is ours, and where the new content will be.
    ///
    /// A full disk stops nobody: without a record, a lock of ours has to grow stale if we die.
    pub(super) fn sign(&mut self, lock: Identity, temporary: &Path) -> Result<()> {
        self.abandoned = None;
        self.record.lock = Some((lock.inode, lock.mtime.0, lock.mtime.1));
        let name = temporary.file_name().unwrap_or_default().to_string_lossy();
        self.record.temporary = Some(name.into_owned());
        self.record.renames = None;
        self.write(&self.record).or_else(|e| {
            tracing::warn!(error = %e, "no record of the lock");
            self.retract()
        })
    }

    /// Writes down, right before the rename, whose entries are in the new content. Answers whether they all still stand:
    /// a writer may have given up meanwhile.
    pub(super) fn intend(&mut self, spooled: &[String]) -> Result<bool> {
        // Without others' entries nobody asks whether it was renamed.
        if !spooled.is_empty() {
            self.record.renames = Some(spooled.to_vec());
            self.write(&self.record)?;
        }
        fault::point("intended");
        // A writer that gives up renames its entry and then reads the record: one of us sees the other.
        let dir = self.queue.spool();
        Ok(spooled.iter().all(|name| dir.join(name).exists()))
    }

    /// Takes the intention back: whether the temporary file is there says nothing any more. It is still ours to remove.
    pub(super) fn disclaim(&mut self) -> Result<()> {
        self.record.renames = None;
        self.write(&self.record).or_else(|_| self.retract())?;
        fault::point("disclaimed");
        Ok(())
    }

    /// Takes all of it back.
    pub(super) fn retract(&self) -> Result<()> {
        Ok(atomic_file::remove_optional(&self.queue.record_path())?)
    }

    /// In one step, so that a writer that gives up never reads half of it.
    fn write(&self, record: &Record) -> Result<()> {
        let path = self.queue.record_path();
        let new = path.with_extension("new");
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        let written = std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|e| {
            let _ = std::fs::remove_file(&new);
            sys::failed("write", &path)(e).into()
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // What is still abandoned is for the next one to remove.
        if self.abandoned.is_none() {
            let _ = std::fs::remove_file(self.queue.record_path());
        }
    }
}

/// Growing pauses with jitter.
#[derive(Debug)]
pub(super) struct Pauses {
    /// How many there were.
    pub count: u32,
    next: Duration,
}

impl Pauses {
    pub(super) fn new() -> Pauses {
        Pauses { count: 0, next: PAUSE_MIN }
    }

    pub(super) fn wait(&mut self) {
        std::thread::sleep(self.next.mul_f64(0.5 + fastrand::f64()));
        self.count += 1;
        if self.count > SHORT_PAUSES {
            self.next = (self.next * 2).min(PAUSE_MAX);
        }
    }
}
