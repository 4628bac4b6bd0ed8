//! Our own locks: an advisory `flock` on a file that is removed by its holder alone, if at all; then who takes it has to ask
//! [`Flock::is_of`].
//!
//! The lock goes with the open file: it ends with the process, whatever way that ends.

use super::{Error, Result, failed};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A held lock; dropping it releases.
#[derive(Debug)]
pub struct Flock(File);

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed("open lock", path))
}

impl Flock {
    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// The file system's; being held by another is `None`.
    pub fn try_acquire(path: &Path) -> Result<Option<Flock>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Flock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(failed("lock", path)(e)),
        }
    }

    /// Takes the lock on a file that the caller keeps open for more tries, if nobody has it.
    ///
    /// # Errors
    /// The file system's; being held by another gives the file back.
    pub fn try_on(file: File, path: &Path) -> Result<std::result::Result<Flock, File>> {
        match file.try_lock() {
            Ok(()) => Ok(Ok(Flock(file))),
            Err(TryLockError::WouldBlock) => Ok(Err(file)),
            Err(TryLockError::Error(e)) => Err(failed("lock", path)(e)),
        }
    }

    /// The file of a lock, to be tried by [`Flock::try_on`].
    ///
    /// # Errors
    /// The file system's.
    pub fn file_of(path: &Path) -> Result<File> {
        open(path)
    }

    /// Takes the lock, trying for at most `budget`.
    ///
    /// # Errors
    /// [`Error::LockBusy`] when the budget is spent.
    pub fn acquire_within(path: &Path, budget: Duration) -> Result<Flock> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(lock) = Flock::try_acquire(path)? {
                return Ok(lock);
            }
            if start.elapsed() >= budget {
                return Err(Error::LockBusy {
                    path: path.to_owned(),
                    waited: start.elapsed(),
                    holder_age: None,
                });
            }
            std::thread::sleep(pause.mul_f64(0.5 + fastrand::f64()));
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// Whether the file at `path` is the locked one.
    pub fn is_of(&self, path: &Path) -> bool {
        let ours = self.0.metadata().map(|meta| (meta.dev(), meta.ino()));
        let there = path.metadata().map(|meta| (meta.dev(), meta.ino()));
        matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
    }

    /// The locked file, to hand the lock on to a child that inherits the descriptor.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Takes over a lock whose open file this process inherited.
    pub fn from_inherited(file: File) -> Flock {
        Flock(file)
    }
}

/// Whether some process holds the lock right now. No file: nobody does.
pub fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_and_release_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        assert!(!is_held(&path));
        let lock = Flock::try_acquire(&path).unwrap().unwrap();
        assert!(is_held(&path));
        assert!(Flock::try_acquire(&path).unwrap().is_none());
        let busy = Flock::acquire_within(&path, Duration::from_millis(10)).unwrap_err();
        assert!(matches!(busy, Error::LockBusy { .. }), "{busy}");
        drop(lock);
        assert!(Flock::try_acquire(&path).unwrap().is_some());
    }
}
