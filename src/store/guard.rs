//! One change of one shared file: our own queue, the original's lock directory, read, change, rename.

use super::{Error, Result, TeamStore};
use crate::protocol::layout::Fnv;
use crate::sys::flock::Flock;
use crate::sys::lock_dir::{self, LockDir};
use crate::sys::{self, atomic_file};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// How often a change is begun anew because another program broke the lock or wrote without one.
const TRIES_MAX: u32 = 5;

/// A locked file of a team: first our own queue, so that only one process of ours contends with other programs.
#[derive(Debug)]
pub(super) struct Locked {
    // Released in this order: the shared lock, then our queue.
    lock: LockDir,
    _queue: Option<Flock>,
}

impl TeamStore {
    /// Locks `target`, whose folder must be there.
    pub(super) fn lock(&self, target: &Path) -> Result<Locked> {
        let start = Instant::now();
        let queue = self.enqueue(target)?;
        let left = self.lock_budget.saturating_sub(start.elapsed());
        Ok(Locked { lock: lock_dir::acquire(target, left)?, _queue: queue })
    }

    /// A place in our queue for `target`. A team of another program has no state of ours, hence no queue.
    fn enqueue(&self, target: &Path) -> Result<Option<Flock>> {
        let dir = self.state().queues();
        if !self.state().dir().is_dir() {
            return Ok(None);
        }
        atomic_file::make_private_dir(&dir)?;
        let mut hash = Fnv::new();
        hash.add(target.as_os_str().as_encoded_bytes());
        Ok(Some(Flock::acquire_within(&dir.join(format!("{:016x}", hash.0)), self.lock_budget)?))
    }

    /// Changes `target` under its lock. `change` gets the present bytes and answers the new ones (`None`: leave it) and
    /// a result. It may be called again, if another program wrote meanwhile without the lock.
    pub(super) fn change<T>(
        &self,
        target: &Path,
        mut change: impl FnMut(Option<&[u8]>) -> Result<(Option<Vec<u8>>, T)>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            let locked = self.lock(target)?;
            let before = stamp(target);
            let bytes = atomic_file::read_optional(target)?;
            let (new, result) = change(bytes.as_deref())?;
            let Some(new) = new else { return Ok(result) };
            match locked.replace(target, &new, before) {
                Err(Error::Sys(sys::Error::LockLost { .. })) if tries < TRIES_MAX => {}
                Err(e) => return Err(e),
                Ok(()) => return Ok(result),
            }
        }
    }
}

impl Locked {
    /// Makes `bytes` the content of `target`, if the lock is still ours and nobody wrote without it (case C014).
    fn replace(&self, target: &Path, bytes: &[u8], before: Option<Stamp>) -> Result<()> {
        let pending = atomic_file::prepare(target, bytes, atomic_file::SHARED)?;
        self.lock.verify()?;
        if stamp(target) != before {
            return Err(sys::Error::LockLost { path: target.to_owned() }.into());
        }
        Ok(pending.commit()?)
    }
}

/// Inode, size and mtime: what a writer without a lock changes.
type Stamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|m| (m.ino(), m.size(), m.mtime(), m.mtime_nsec()))
}
