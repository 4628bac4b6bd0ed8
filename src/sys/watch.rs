//! File events of a directory, for writers that do not poke us. Where none are to be had, only time passes.

use super::socket::{Waker, poll_readable};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// Longest wait between two looks at the truth when events are to be had.
const POLL: Duration = Duration::from_secs(1);
/// The same when none are.
const POLL_DEAF: Duration = Duration::from_millis(100);

/// Watches directories for files that were renamed into place or closed after writing.
#[derive(Debug)]
pub struct DirWatch {
    #[cfg(target_os = "linux")]
    events: Option<nix::sys::inotify::Inotify>,
}

impl DirWatch {
    /// Watches `dirs`; those that cannot be watched are polled.
    pub fn new(dirs: &[&Path]) -> DirWatch {
        #[cfg(target_os = "linux")]
        {
            use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
            let flags = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_DELETE;
            let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
            let all = events.filter(|e| dirs.iter().all(|dir| e.add_watch(*dir, flags).is_ok()));
            DirWatch { events: all }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = dirs;
            DirWatch {}
        }
    }

    /// Waits for a change or a poke, at most `limit` and at most the poll interval: the caller looks at the truth after
    /// each.
    pub fn wait_or_poke(&self, waker: Option<&Waker>, limit: Duration) {
        let events = self.descriptor();
        let fds: Vec<_> = events.into_iter().chain(waker.map(AsFd::as_fd)).collect();
        let poll = if events.is_some() { POLL } else { POLL_DEAF };
        poll_readable(&fds, limit.min(poll));
        waker.map(Waker::drain);
        self.drain();
    }

    /// Waits for the next change of the file `name`, as long as it takes. Answers whether there was one: where no events are
    /// to be had, at once that there was none.
    pub fn wait_for_change(&self, name: &OsStr) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(events) = &self.events {
            // An event without a name says that some were dropped.
            let is_meant =
                |event: &nix::sys::inotify::InotifyEvent| event.name.as_ref().is_none_or(|n| n == name);
            loop {
                poll_readable(&[events.as_fd()], Duration::MAX);
                while let Ok(read) = events.read_events() {
                    if read.iter().any(is_meant) {
                        self.drain();
                        return true;
                    }
                    if read.is_empty() {
                        break;
                    }
                }
            }
        }
        false
    }

    /// Forgets the changes so far.
    fn drain(&self) {
        #[cfg(target_os = "linux")]
        if let Some(events) = &self.events {
            while events.read_events().is_ok_and(|read| !read.is_empty()) {}
        }
    }

    /// Waits for a change, as [`DirWatch::wait_or_poke`] without pokes.
    pub fn wait(&self, limit: Duration) {
        self.wait_or_poke(None, limit);
    }

    /// Whether there are no events to be had: then looks are frequent instead.
    pub fn is_deaf(&self) -> bool {
        self.descriptor().is_none()
    }

    /// The descriptor that becomes readable on a change, where there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        #[cfg(target_os = "linux")]
        return self.events.as_ref().map(AsFd::as_fd);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_rename_wakes_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let watch = DirWatch::new(&[dir.path()]);
        crate::sys::atomic_file::write(&dir.path().join("x"), b"1", 0o600).unwrap();
        let start = Instant::now();
        watch.wait(Duration::from_secs(1));
        assert!(start.elapsed() < Duration::from_millis(900));
    }

    #[test]
    fn a_poke_wakes_a_deaf_one_too() {
        let dir = tempfile::tempdir().unwrap();
        let watch = DirWatch::new(&[&dir.path().join("missing")]);
        assert!(watch.is_deaf());
        let waker = Waker::join(&dir.path().join("w")).unwrap();
        crate::sys::socket::poke(waker.path());
        let start = Instant::now();
        watch.wait_or_poke(Some(&waker), Duration::from_secs(5));
        assert!(start.elapsed() < POLL_DEAF, "{:?}", start.elapsed());
        watch.wait_or_poke(Some(&waker), Duration::from_secs(5));
        assert!(start.elapsed() >= POLL_DEAF, "drained, it waits for the next look");
    }
}
