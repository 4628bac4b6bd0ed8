//! The operating system as throng uses it: programs, processes, locks, atomic files, terminals, sockets, file events.
//!
//! Nothing here knows a team or an agent. Every error names the deed and the path.

pub mod atomic_file;
pub mod fault;
pub mod flock;
pub mod folder;
pub mod group;
#[cfg(target_os = "linux")]
mod keeper;
pub mod links;
pub mod lock_dir;
pub mod outlet;
pub mod process;
pub mod pty;
pub mod random;
pub mod run;
pub mod signals;
pub mod socket;
pub mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What can go wrong between throng and the operating system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("failed to {deed} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb phrase: `read inbox`.
        deed: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another party held the lock for the whole waiting budget.
    #[error("lock {} was not free within {:.1} s{}", path.display(), waited.as_secs_f64(), held(*holder_age))]
    LockBusy {
        /// The lock directory or lock file.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
        /// Age of the holder's last sign of life, if it could be read.
        holder_age: Option<Duration>,
    },
    /// Something that is no lock directory of the protocol sits at the lock path.
    #[error("{} is {found}, not a lock directory: look at it and remove it by hand", path.display())]
    LockForeign {
        /// The lock path.
        path: PathBuf,
        /// What was found there, with its article.
        found: &'static str,
    },
    /// The lock was taken from us while we held it; nothing was written.
    #[error("lock {} was taken over by another program while we held it", path.display())]
    LockLost {
        /// The lock directory.
        path: PathBuf,
    },
    /// A helper program could not be run or did not end in time.
    #[error("{program}: {detail}")]
    Program {
        /// The program's name.
        program: String,
        /// What happened.
        detail: String,
    },
}

fn held(age: Option<Duration>) -> String {
    age.map_or(String::new(), |age| {
        format!(" (its holder's last sign of life is {:.1} s old)", age.as_secs_f64())
    })
}

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// Names deed and path for a failed system call.
pub(crate) fn failed(deed: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { deed, path, source }
}
