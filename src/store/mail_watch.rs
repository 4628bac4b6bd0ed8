//! Waiting for an inbox to change. The file itself is the truth, and a poll of an unchanged one is one `stat`; pokes of our
//! own writers and file events of others only make the next poll come at once.

use super::TeamStore;
use crate::protocol::AgentName;
use crate::sys::atomic_file::Stamp;
use crate::sys::socket::{self, Waker};
use crate::sys::watch::DirWatch;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Age from which a file's time tells its versions apart: file systems count in ticks of up to 10 ms, and some in whole
/// seconds. A younger file is read again.
const SETTLED: Duration = Duration::from_secs(2);

/// What a file was like when it was read last.
#[derive(Debug, Clone, Default)]
pub struct Seen(Option<Last>);

#[derive(Debug, Clone)]
struct Last {
    stamp: Option<Stamp>,
    is_settled: bool,
}

impl Seen {
    /// Whether the file may differ from what was read last. To be asked before each reading, and to be followed by one
    /// if so.
    pub fn has_changed(&mut self, path: &Path) -> bool {
        let stamp = Stamp::of(path);
        if self.0.as_ref().is_some_and(|last| last.is_settled && last.stamp == stamp) {
            return false;
        }
        let is_settled = stamp.is_none_or(|stamp| stamp.is_older_than(SETTLED));
        self.0 = Some(Last { stamp, is_settled });
        true
    }
}

/// Waits for one inbox, until dropped.
#[derive(Debug)]
pub struct MailWatch {
    path: PathBuf,
    seen: Seen,
    waker: Option<Waker>,
    events: DirWatch,
}

impl TeamStore {
    /// Watches an agent's inbox. Many may do so at once.
    pub fn watch_mail(&self, agent: &AgentName) -> MailWatch {
        let runtime = socket::private_dir(&self.layout.runtime_dir);
        let waker = runtime.and_then(|()| Waker::join(&self.layout.waiters(&self.name, agent)));
        let events = DirWatch::new(&[&self.layout.inboxes(&self.name)]);
        if let Err(e) = &waker {
            tracing::warn!(error = %e, "no socket for pokes: file events and polling only");
        }
        if events.is_deaf() {
            tracing::info!(inbox = %agent, "no file events to be had: messages of other programs are polled for");
        }
        let path = self.layout.inbox(&self.name, agent);
        MailWatch { path, seen: Seen::default(), waker: waker.ok(), events }
    }
}

impl MailWatch {
    /// Whether the inbox is to be read; see [`Seen::has_changed`].
    pub fn has_changed(&mut self) -> bool {
        self.seen.has_changed(&self.path)
    }

    /// It could not be read: it is to be read again, changed or not.
    pub fn forget(&mut self) {
        self.seen = Seen::default();
    }

    /// Waits for the next poll, which is due at once when something happens to the inbox. At most `limit`.
    pub fn wait(&self, limit: Duration) {
        self.events.wait_or_poke(self.waker.as_ref(), limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, FileTimes};
    use std::time::SystemTime;

    #[test]
    fn goal_p6_an_unchanged_file_is_read_once_and_no_change_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bob.json");
        let mut seen = Seen::default();
        assert!(seen.has_changed(&path), "the first look reads");
        assert!(!seen.has_changed(&path), "still not there");
        fs::write(&path, "[1]").unwrap();
        assert!(seen.has_changed(&path));
        // Within one tick of the clock, two versions of one size may look the same.
        fs::write(&path, "[2]").unwrap();
        assert!(seen.has_changed(&path));
        let age = |age| {
            let times = FileTimes::new().set_modified(SystemTime::now() - age);
            File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
        };
        age(SETTLED + Duration::from_secs(1));
        assert!(seen.has_changed(&path), "its time has changed");
        assert!(!seen.has_changed(&path), "now it is known");
        fs::write(&path, "[3]").unwrap();
        assert!(seen.has_changed(&path));
        fs::remove_file(&path).unwrap();
        assert!(seen.has_changed(&path));
    }
}
