//! The lock directories of the shared files (protocol I.4): `mkdir FILE.lock`, hold, `rmdir`.
//!
//! The same protocol as npm `proper-lockfile`, so both exclude each other. A lock is stale when its directory's mtime
//! is more than [`STALE`] old. A holder's identity is inode **and** mtime, since a new directory can reuse the inode.
//! Exclusion beside a party that removes and makes the directory unchecked, or one suspended for longer than
//! [`STALE`], cannot be promised by anyone; [`LockDir::verify`] detects it.

use super::signals::{self, HeldBack};
use super::{Error, Result, failed};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Age of the directory's mtime from which a lock counts as abandoned.
pub const STALE: Duration = Duration::from_secs(10);
/// The original's waits between its eleven tries, in milliseconds.
pub const FIRST_WAITS_MS: [u64; 10] = [5, 10, 20, 40, 80, 100, 100, 100, 100, 100];
/// How long we go on after the original would have given up: longer than a stale lock lives.
pub const DEFAULT_BUDGET: Duration = Duration::from_secs(15);

/// Inode and mtime of a lock directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    inode: u64,
    mtime: (i64, i64),
}

impl Identity {
    fn of(meta: &fs::Metadata) -> Identity {
        Identity { inode: meta.ino(), mtime: (meta.mtime(), meta.mtime_nsec()) }
    }

    /// Age by the wall clock: negative when the mtime lies in the future.
    fn age_s(&self) -> f64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        #[allow(clippy::cast_precision_loss)]
        let mtime = self.mtime.0 as f64 + self.mtime.1 as f64 / 1e9;
        now.as_secs_f64() - mtime
    }
}

/// A held lock directory. Signals that end us wait until it is dropped.
#[derive(Debug)]
pub struct LockDir {
    path: PathBuf,
    identity: Identity,
    _signals: HeldBack,
}

/// Locks the file `target` by its directory `target.lock`: the original's ten retries, then on with jitter until
/// `budget` is spent.
///
/// # Errors
/// [`Error::LockBusy`] after the budget; [`Error::LockForeign`] for a thing that is no lock directory; at once,
/// naming the path, whatever is not contention (no permission, read-only, no space, a file among the parents).
pub fn acquire(target: &Path, budget: Duration) -> Result<LockDir> {
    let mut path = target.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let start = Instant::now();
    let mut waits = FIRST_WAITS_MS.iter();
    let mut seen = Seen { identity: None, since: start };
    loop {
        let signals = signals::hold_back();
        match fs::create_dir(&path) {
            Ok(()) => return claim(path, signals),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed("make lock directory", &path)(e)),
        }
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let stale = seen.is_stale(Identity::of(&meta));
        if stale && !meta.is_dir() {
            return Err(Error::LockForeign { path, found: "a file of another program" });
        }
        if stale && take_away(&path, Identity::of(&meta))? {
            continue;
        }
        drop(signals);
        if start.elapsed() >= budget {
            let age = Duration::try_from_secs_f64(Identity::of(&meta).age_s()).ok();
            return Err(Error::LockBusy { path, waited: start.elapsed(), holder_age: age });
        }
        let wait_ms = waits.next().copied().unwrap_or_else(|| fastrand::u64(50..=150));
        std::thread::sleep(Duration::from_millis(wait_ms).min(budget.saturating_sub(start.elapsed())));
    }
}

/// What we have seen at the lock path, and since when unchanged.
struct Seen {
    identity: Option<Identity>,
    since: Instant,
}

impl Seen {
    /// Old enough; or so far in the future that no live holder set it, and unchanged for a stale period (case C004).
    fn is_stale(&mut self, identity: Identity) -> bool {
        if self.identity != Some(identity) {
            *self = Seen { identity: Some(identity), since: Instant::now() };
        }
        let age = identity.age_s();
        age > STALE.as_secs_f64() || (age < -STALE.as_secs_f64() && self.since.elapsed() > STALE)
    }
}

/// Sets an mtime of our own on the fresh directory and reads it back: file systems round.
fn claim(path: PathBuf, signals: HeldBack) -> Result<LockDir> {
    let set = (|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = TimeSpec::from_duration(now);
        utimensat(nix::fcntl::AT_FDCWD, &path, &now, &now, UtimensatFlags::NoFollowSymlink)?;
        fs::symlink_metadata(&path)
    })();
    match set {
        Ok(meta) => Ok(LockDir { path, identity: Identity::of(&meta), _signals: signals }),
        Err(e) => {
            let _ = fs::remove_dir(&path);
            Err(failed("mark lock directory", &path)(e))
        }
    }
}

/// Takes a stale lock away: renamed first, since two waiters may both have judged it stale, then looked at again, and
/// put back if it was not what we judged. Answers whether the path may be free now.
fn take_away(path: &Path, judged: Identity) -> Result<bool> {
    let caught = path.with_file_name(format!(".throng-stale-{:016x}", fastrand::u64(..)));
    match fs::rename(path, &caught) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(failed("take over stale lock", path)(e)),
    }
    let same = fs::symlink_metadata(&caught).is_ok_and(|meta| Identity::of(&meta) == judged);
    if same {
        match fs::remove_dir(&caught) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {
                put_back(&caught, path);
                return Err(Error::LockForeign { path: path.to_owned(), found: "a folder with files in it" });
            }
            Err(_) => {}
        }
    }
    put_back(&caught, path);
    Ok(false)
}

/// Best effort: where a newer lock stands already, the one we caught is void and its holder will see it is lost.
fn put_back(caught: &Path, path: &Path) {
    if rename_to_free_name(caught, path).is_err() {
        let _ = fs::remove_dir(caught);
    }
}

#[cfg(target_os = "linux")]
fn rename_to_free_name(from: &Path, to: &Path) -> nix::Result<()> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE)
}

#[cfg(not(target_os = "linux"))]
fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    // A directory cannot replace a non-empty one; an empty lock there is a race that only Linux can exclude.
    if to.exists() { Err(io::ErrorKind::AlreadyExists.into()) } else { fs::rename(from, to) }
}

impl LockDir {
    /// Checks that the lock is still ours; to be called right before the data's rename.
    ///
    /// # Errors
    /// [`Error::LockLost`].
    pub fn verify(&self) -> Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(meta) if Identity::of(&meta) == self.identity => Ok(()),
            _ => Err(Error::LockLost { path: self.path.clone() }),
        }
    }
}

impl Drop for LockDir {
    /// Releases only what is still ours (case C006).
    fn drop(&mut self) {
        if self.verify().is_ok() {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;

    fn set_mtime(path: &Path, mtime: SystemTime) {
        fs::File::open(path).unwrap().set_times(FileTimes::new().set_modified(mtime)).unwrap();
    }

    fn world() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("bob.json");
        let lock = dir.path().join("bob.json.lock");
        (dir, target, lock)
    }

    /// The original makes eleven tries with ten waits and then gives up after 0.655 s; we make the same tries first.
    #[test]
    fn the_originals_ten_retries_come_first() {
        assert_eq!(FIRST_WAITS_MS.iter().sum::<u64>(), 655);
        assert_eq!(FIRST_WAITS_MS[..6], [5, 10, 20, 40, 80, 100]);
        let (_dir, target, lock) = world();
        fs::create_dir(&lock).unwrap();
        let start = Instant::now();
        let busy = acquire(&target, Duration::from_millis(655)).unwrap_err();
        assert!(start.elapsed() >= Duration::from_millis(655));
        assert!(matches!(busy, Error::LockBusy { holder_age: Some(_), .. }), "{busy}");
        assert!(lock.is_dir(), "a held lock stays");
    }

    #[test]
    fn case_c002_an_old_lock_is_taken_over_and_a_fresh_one_respected() {
        let (_dir, target, lock) = world();
        fs::create_dir(&lock).unwrap();
        set_mtime(&lock, SystemTime::now() - Duration::from_secs(11));
        let start = Instant::now();
        drop(acquire(&target, DEFAULT_BUDGET).unwrap());
        assert!(start.elapsed() < Duration::from_secs(1));
        assert!(!lock.exists());
        fs::create_dir(&lock).unwrap();
        set_mtime(&lock, SystemTime::now() - Duration::from_secs(8));
        let start = Instant::now();
        drop(acquire(&target, DEFAULT_BUDGET).unwrap());
        assert!(start.elapsed() > Duration::from_millis(1500), "{:?}", start.elapsed());
    }

    #[test]
    fn case_c004_a_lock_of_the_far_future_is_stale_only_after_a_stale_period_unchanged() {
        let (_dir, target, lock) = world();
        fs::create_dir(&lock).unwrap();
        set_mtime(&lock, SystemTime::now() + Duration::from_secs(3600));
        assert!(acquire(&target, Duration::from_secs(1)).is_err());
        let start = Instant::now();
        drop(acquire(&target, DEFAULT_BUDGET).unwrap());
        assert!(start.elapsed() >= STALE);
    }

    #[test]
    fn case_c006_a_lock_that_became_anothers_is_reported_and_left_alone() {
        let (_dir, target, lock) = world();
        let held = acquire(&target, DEFAULT_BUDGET).unwrap();
        held.verify().unwrap();
        fs::remove_dir(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        assert!(matches!(held.verify(), Err(Error::LockLost { .. })));
        drop(held);
        assert!(lock.is_dir());
    }

    #[test]
    fn case_c009_what_is_no_lock_directory_is_named_and_kept() {
        let (_dir, target, lock) = world();
        fs::write(&lock, "x").unwrap();
        set_mtime(&lock, SystemTime::now() - Duration::from_secs(60));
        assert!(matches!(acquire(&target, DEFAULT_BUDGET), Err(Error::LockForeign { .. })));
        assert_eq!(fs::read(&lock).unwrap(), b"x");
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        fs::write(lock.join("inside"), "y").unwrap();
        set_mtime(&lock, SystemTime::now() - Duration::from_secs(60));
        let error = acquire(&target, DEFAULT_BUDGET).unwrap_err();
        assert!(error.to_string().contains("bob.json.lock"), "{error}");
        assert_eq!(fs::read(lock.join("inside")).unwrap(), b"y");
    }

    #[test]
    fn threads_exclude_each_other() {
        let (_dir, target, _lock) = world();
        let counter = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let held = acquire(&target, DEFAULT_BUDGET).unwrap();
                        let inside = counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(inside, 0);
                        counter.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        held.verify().unwrap();
                    }
                });
            }
        });
    }
}
