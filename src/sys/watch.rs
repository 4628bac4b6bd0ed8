//! File events of a directory, for writers that do not poke us. Where none are to be had, only time passes.

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

    /// Waits for a change, at most `limit` and at most the poll interval: the caller looks at the truth after each.
    pub fn wait(&self, limit: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(events) = &self.events {
            use std::os::fd::AsFd;
            super::socket::poll_readable(&[events.as_fd()], limit.min(POLL));
            while events.read_events().is_ok_and(|read| !read.is_empty()) {}
            return;
        }
        std::thread::sleep(limit.min(POLL_DEAF));
    }

    /// The descriptor that becomes readable on a change, where there is one.
    #[cfg(target_os = "linux")]
    pub fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.events.as_ref().map(AsFd::as_fd)
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
}
