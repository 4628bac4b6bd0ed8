//! One change of one shared file: our own queue, the original's lock directory, read, change, rename.

use super::queue::Turn;
use super::{Error, Result, TeamStore};
use crate::sys::atomic_file::{self, Pending, Stamp};
use crate::sys::lock_dir::{self, LockDir};
use crate::sys::{self, fault};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How often a change is begun anew because another program broke the lock or wrote without one.
pub(super) const TRIES_MAX: u32 = 5;

/// A locked file of a team: first our own queue, so that only one process of ours contends with other programs.
#[derive(Debug)]
pub(super) struct Locked {
    // Released in this order: the shared lock, then our queue.
    lock: LockDir,
    turn: Option<Turn>,
    /// Where the new content will be until it is renamed.
    temporary: PathBuf,
}

/// How a replacement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaced {
    /// The file has the new content, and the lock was ours all along.
    Done,
    /// Nothing was written: another program broke in, or an entry was withdrawn.
    Not,
    /// Nothing was written: the record that others' entries need cannot be written. One's own needs none.
    NotTogether,
    /// It was written, but the lock was lost meanwhile: another program may have overwritten it.
    Doubtful,
}

impl TeamStore {
    /// Locks `target`, whose folder must be there.
    pub(super) fn lock(&self, target: &Path) -> Result<Locked> {
        let turn = self.queue(target)?.map(|queue| queue.turn()).transpose()?;
        self.lock_in(target, turn)
    }

    /// Locks `target`, having the turn in its queue, if it has one.
    pub(super) fn lock_in(&self, target: &Path, mut turn: Option<Turn>) -> Result<Locked> {
        let start = Instant::now();
        if let Some(dead) = turn.as_ref().and_then(Turn::abandoned)
            && lock_dir::remove_abandoned(target, dead)?
        {
            tracing::info!(target = %target.display(), "lock of a dead process of ours removed");
        }
        let lock = lock_dir::acquire(target, self.lock_budget.saturating_sub(start.elapsed()))?;
        fault::point("locked");
        let temporary = atomic_file::beside(target);
        if let Some(turn) = &mut turn {
            turn.sign(lock.identity()?, &temporary)?;
        }
        fault::point("signed");
        Ok(Locked { lock, turn, temporary })
    }

    /// Removes what a writer of `target` left that died: its temporary file and its lock directory; the stale lock directory
    /// of whatever is not there any more goes too. Waits for nobody.
    pub(super) fn clear_after_dead(&self, target: &Path) -> Result<()> {
        let turn = self.queue(target)?.map(|queue| queue.try_turn()).transpose()?.flatten();
        if let Some((turn, dead)) = turn.as_ref().and_then(|turn| Some((turn, turn.abandoned()?))) {
            lock_dir::remove_abandoned(target, dead)?;
            turn.retract()?;
        }
        if !target.exists() {
            lock_dir::remove_stale(target)?;
        }
        Ok(())
    }

    /// Changes `target` under its lock. `change` gets the present bytes and answers the new ones (`None`: leave it) and
    /// a result. It may be called again, if another program wrote meanwhile without the lock.
    pub(super) fn change<T>(
        &self,
        target: &Path,
        mut change: impl FnMut(Option<&[u8]>) -> Result<(Option<Vec<u8>>, T)>,
    ) -> Result<T> {
        let mut locked = self.lock(target)?;
        for _ in 0..TRIES_MAX {
            let before = Stamp::of(target);
            let bytes = atomic_file::read_optional(target)?;
            let (new, result) = change(bytes.as_deref())?;
            let Some(new) = new else { return Ok(result) };
            if locked.replace(&Replacement { target, bytes: &new, before, spooled: &[] })? != Replaced::Not {
                return Ok(result);
            }
            let turn = locked.into_turn();
            locked = self.lock_in(target, turn)?;
        }
        Err(lost(target))
    }
}

/// The lock was lost too often.
pub(super) fn lost(target: &Path) -> Error {
    sys::Error::LockLost { path: target.to_owned() }.into()
}

/// New content for a locked file.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    /// The file.
    pub target: &'a Path,
    /// Its new content.
    pub bytes: &'a [u8],
    /// What it was like when it was read.
    pub before: Option<Stamp>,
    /// The names of others' entries in the new content.
    pub spooled: &'a [String],
}

impl Locked {
    /// Makes the bytes the content of the file, if the lock is still ours and nobody wrote without it (case C014).
    pub(super) fn replace(&mut self, new: &Replacement<'_>) -> Result<Replaced> {
        let mut pending =
            atomic_file::prepare_at(&self.temporary, new.target, new.bytes, atomic_file::SHARED)?;
        fault::point("prepared");
        let result = self.rename(&mut pending, new);
        if !matches!(result, Ok(Replaced::Done | Replaced::Doubtful))
            && let Some(turn) = &mut self.turn
        {
            // Before the temporary file goes: its absence would mean that it was renamed.
            turn.disclaim()?;
        }
        result
    }

    fn rename(&mut self, pending: &mut Pending, new: &Replacement<'_>) -> Result<Replaced> {
        match self.turn.as_mut().map_or(Ok(true), |turn| turn.intend(new.spooled)) {
            Ok(true) => {}
            Ok(false) => return Ok(Replaced::Not),
            Err(e) => {
                tracing::warn!(error = %e, "others' entries are left to them");
                return Ok(Replaced::NotTogether);
            }
        }
        if self.lock.verify().is_err() || Stamp::of(new.target) != new.before {
            return Ok(Replaced::Not);
        }
        pending.commit()?;
        fault::point("renamed");
        Ok(if self.lock.verify().is_ok() { Replaced::Done } else { Replaced::Doubtful })
    }

    /// The turn in our queue, if there is one.
    pub(super) fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    /// Tells the writers of these entries that they are in the file.
    pub(super) fn acknowledge(&self, names: &[String]) {
        if let Some(turn) = &self.turn {
            turn.queue().acknowledge(names);
        }
    }

    /// Gives the lock up and keeps the turn.
    pub(super) fn into_turn(self) -> Option<Turn> {
        drop(self.lock);
        self.turn
    }
}
