//! The lock directories of the shared files (protocol I.4): `mkdir FILE.lock`, hold, `rmdir`.
//!
//! The same protocol as npm `proper-lockfile`, so both exclude each other. A lock is stale when its directory's mtime
//! is more than [`STALE`] old. A holder's identity is inode **and** mtime, since a new directory can reuse the inode.
//! Exclusion beside a party that removes and makes the directory unchecked, or one suspended for longer than
//! [`STALE`], cannot be promised by anyone; [`LockDir::verify`] detects it.

use super::signals::{self, HeldBack};
use super::{Error, Result, failed};
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

/// Age of the directory's mtime from which a lock counts as abandoned.
pub const STALE: Duration = Duration::from_secs(10);
/// The original's waits between its eleven tries, in milliseconds.
pub const FIRST_WAITS_MS: [u64; 10] = [5, 10, 20, 40, 80, 100, 100, 100, 100, 100];
/// How long we go on after the original would have given up: longer than a stale lock lives.
pub const DEFAULT_BUDGET: Duration = Duration::from_secs(15);

/// How often a holder renews the mtime, as the library does it: at half of [`STALE`] at the latest.
const RENEW_EVERY: Duration = Duration::from_secs(4);
/// Name of a stale lock that is being looked at.
const CAUGHT: &str = ".throng-stale-";

/// Inode and mtime of a lock directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Inode number.
    pub inode: u64,
    /// Seconds and nanoseconds since 1970, as the file system gave them back.
    pub mtime: (i64, i64),
}

impl Identity {
    fn of(meta: &fs::Metadata) -> Identity {
        Identity { inode: meta.ino(), mtime: (meta.mtime(), meta.mtime_nsec()) }
    }

    /// Age by the wall clock: negative when the mtime lies in the future.
    fn age_s(&self) -> f64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        #[allow(clippy::cast_precision_loss, reason = "an f64 holds seconds of this age to a microsecond")]
        let mtime = self.mtime.0 as f64 + self.mtime.1 as f64 / 1e9;
        now.as_secs_f64() - mtime
    }
}

/// A held lock directory. A thread renews its mtime as long as it is held; signals that end us wait until it is dropped.
#[derive(Debug)]
pub struct LockDir {
    own: Arc<Own>,
    _signals: HeldBack,
}

/// The directory that we made. That it is open keeps its inode number from being given to another.
#[derive(Debug)]
struct Own {
    path: PathBuf,
    dir: File,
    /// None once it was released.
    identity: Mutex<Option<Identity>>,
}

fn path_of(target: &Path) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(".lock");
    PathBuf::from(path)
}

/// Locks the file `target` by its directory `target.lock`: the original's ten retries, then on with jitter until
/// `budget` is spent.
///
/// # Errors
/// [`Error::LockBusy`] after the budget; [`Error::LockForeign`] for a thing that is no lock directory; at once,
/// naming the path, whatever is not contention (no permission, read-only, no space, a file among the parents).
pub fn acquire(target: &Path, budget: Duration) -> Result<LockDir> {
    let path = path_of(target);
    let start = Instant::now();
    let mut waits = FIRST_WAITS_MS.iter();
    let mut seen = Seen { identity: None, since: start };
    loop {
        let signals = signals::hold_back();
        match fs::create_dir(&path) {
            Ok(()) => return claim(&path, signals),
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

/// Sets an mtime of our own on the fresh directory and starts to keep it.
fn claim(path: &Path, signals: HeldBack) -> Result<LockDir> {
    let own = File::open(path).and_then(|dir| {
        let identity = Mutex::new(Some(renewed(&dir)?));
        Ok(Arc::new(Own { path: path.to_owned(), dir, identity }))
    });
    match own {
        Ok(own) => {
            keep(&own);
            Ok(LockDir { own, _signals: signals })
        }
        Err(e) => {
            let _ = fs::remove_dir(path);
            Err(failed("mark lock directory", path)(e))
        }
    }
}

/// Sets the mtime to now and reads it back, since file systems round (case C007).
fn renewed(dir: &File) -> io::Result<Identity> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = TimeSpec::from_duration(now);
    futimens(dir, &now, &now)?;
    Ok(Identity::of(&dir.metadata()?))
}

/// The thread that renews what this process holds, and sleeps as long as it holds nothing.
#[derive(Debug)]
struct Keeper {
    held: Mutex<Vec<Weak<Own>>>,
    thread: OnceLock<Thread>,
}

static KEEPER: Keeper = Keeper { held: Mutex::new(Vec::new()), thread: OnceLock::new() };
/// How often the keeper looks at what is held.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So many locks that were released since its last look are kept in its list.
const RELEASED_MAX: usize = 16;

/// Has the lock renewed as long as it is held. Where no thread is to be had, a hold must end within [`STALE`].
fn keep(own: &Arc<Own>) {
    let mut held = KEEPER.held.lock().unwrap_or_else(PoisonError::into_inner);
    let was_idle = held.is_empty();
    if held.len() >= RELEASED_MAX {
        held.retain(|own| own.strong_count() > 0);
    }
    held.push(Arc::downgrade(own));
    drop(held);
    match KEEPER.thread.get() {
        Some(thread) if was_idle => thread.unpark(),
        Some(_) => {}
        None => {
            // Started while signals are held back, it never takes one.
            if let Ok(started) = std::thread::Builder::new().stack_size(64 * 1024).spawn(renew_all) {
                // Two threads that lock first at once start two: the list is one.
                let _ = KEEPER.thread.set(started.thread().clone());
            }
        }
    }
}

fn renew_all() {
    loop {
        let mut held = KEEPER.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|own| own.upgrade().is_some_and(|own| own.renew().is_ok()));
        let is_idle = held.is_empty();
        drop(held);
        // Whoever puts the first one into the list wakes us, even if that was just now.
        if is_idle { std::thread::park() } else { std::thread::sleep(LOOK_EVERY) }
    }
}

/// Removes the lock of a holder that is known to be dead, if it is still the one with this identity. Answers whether it was.
///
/// # Errors
/// The file system's.
pub fn remove_abandoned(target: &Path, identity: Identity) -> Result<bool> {
    let path = path_of(target);
    match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_dir() && Identity::of(&meta) == identity => take_away(&path, identity),
        _ => Ok(false),
    }
}

/// Removes the lock of `target`, whosesoever, if it is stale now.
///
/// # Errors
/// The file system's.
pub fn remove_stale(target: &Path) -> Result<()> {
    let path = path_of(target);
    match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_dir() && Identity::of(&meta).age_s() > STALE.as_secs_f64() => {
            take_away(&path, Identity::of(&meta)).map(drop)
        }
        _ => Ok(()),
    }
}

/// Takes a stale lock away: renamed first, since two waiters may both have judged it stale, then looked at again, and
/// put back if it was not what we judged. Answers whether the path may be free now.
fn take_away(path: &Path, judged: Identity) -> Result<bool> {
    sweep(path);
    let caught = path.with_file_name(format!("{CAUGHT}{:016x}", fastrand::u64(..)));
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

/// Removes what takers left that were killed between their two steps. A fresh one may have to be put back by its taker.
fn sweep(lock: &Path) {
    let Some(Ok(entries)) = lock.parent().map(fs::read_dir) else { return };
    for entry in entries.filter_map(io::Result::ok) {
        if entry.file_name().as_encoded_bytes().starts_with(CAUGHT.as_bytes())
            && entry.metadata().is_ok_and(|meta| Identity::of(&meta).age_s() > STALE.as_secs_f64())
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
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

impl Own {
    fn identity(&self) -> MutexGuard<'_, Option<Identity>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verify(&self, identity: Option<Identity>) -> Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(meta) if Some(Identity::of(&meta)) == identity => Ok(()),
            _ => Err(Error::LockLost { path: self.path.clone() }),
        }
    }

    /// Sets the mtime anew when that is due.
    fn renew(&self) -> Result<()> {
        let mut identity = self.identity();
        if identity.is_some_and(|i| i.age_s() < RENEW_EVERY.as_secs_f64()) {
            return Ok(());
        }
        self.verify(*identity)?;
        *identity = Some(renewed(&self.dir).map_err(failed("renew lock", &self.path))?);
        Ok(())
    }
}

impl LockDir {
    /// Checks that the lock is still ours; to be called right before the data's rename.
    ///
    /// # Errors
    /// [`Error::LockLost`].
    pub fn verify(&self) -> Result<()> {
        let identity = self.own.identity();
        self.own.verify(*identity)
    }

    /// What tells this lock from every other one. It changes with each renewal.
    ///
    /// # Errors
    /// [`Error::LockLost`]: it is none any more.
    pub fn identity(&self) -> Result<Identity> {
        self.own.identity().ok_or_else(|| Error::LockLost { path: self.own.path.clone() })
    }
}

impl Drop for LockDir {
    /// Releases only what is still ours (case C006).
    fn drop(&mut self) {
        let mut identity = self.own.identity();
        if self.own.verify(*identity).is_ok() {
            let _ = fs::remove_dir(&self.own.path);
        }
        *identity = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;

    fn set_mtime(path: &Path, mtime: SystemTime) {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(mtime)).unwrap();
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
    fn case_c007_a_held_lock_is_renewed_and_stays_ours() {
        let (_dir, target, lock) = world();
        let held = acquire(&target, DEFAULT_BUDGET).unwrap();
        let first = held.identity().unwrap();
        let start = Instant::now();
        while held.identity().unwrap() == first {
            assert!(start.elapsed() < 3 * RENEW_EVERY, "never renewed");
            std::thread::sleep(Duration::from_millis(20));
            held.verify().unwrap();
        }
        assert!(!remove_abandoned(&target, first).unwrap(), "that was another one");
        held.verify().unwrap();
        drop(held);
        assert!(!lock.exists());
    }

    #[test]
    fn a_dead_holders_lock_goes_at_once_with_what_dead_takers_left() {
        let (dir, target, lock) = world();
        fs::create_dir(&lock).unwrap();
        let left = dir.path().join(format!("{CAUGHT}0"));
        fs::create_dir(&left).unwrap();
        set_mtime(&left, SystemTime::now() - Duration::from_secs(11));
        let identity = Identity::of(&fs::metadata(&lock).unwrap());
        let other = Identity { inode: identity.inode + 1, ..identity };
        assert!(!remove_abandoned(&target, other).unwrap());
        assert!(lock.is_dir());
        assert!(remove_abandoned(&target, identity).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn case_c010_what_is_no_contention_fails_at_once_and_names_the_path() {
        let (dir, _, _) = world();
        fs::write(dir.path().join("file"), "x").unwrap();
        for target in [dir.path().join("file/bob.json"), dir.path().join("missing/bob.json")] {
            let start = Instant::now();
            let error = acquire(&target, DEFAULT_BUDGET).unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(5));
            assert!(error.to_string().contains(&*path_of(&target).to_string_lossy()), "{error}");
        }
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
