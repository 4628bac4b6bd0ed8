//! Sockets between processes of one user on one machine: datagrams that wake, streams that ask.

use super::{Error, Result, atomic_file, failed};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Makes sure of a directory for sockets that is ours alone: mode 0700, our user's, no link.
///
/// # Errors
/// A path that belongs to somebody else or is no directory is refused.
pub fn private_dir(path: &Path) -> Result<()> {
    atomic_file::make_private_dir(path)?;
    let meta = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if !meta.is_dir() || meta.uid() != nix::unistd::geteuid().as_raw() {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "not a directory of this user");
        return Err(Error::Io { deed: "use for sockets", path: path.to_owned(), source });
    }
    if meta.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed("restrict", path))?;
    }
    Ok(())
}

/// How often joining a folder that others are just leaving is tried.
const JOIN_TRIES_MAX: u32 = 100;

/// The receiving end of pokes: a datagram socket that is removed on drop.
#[derive(Debug)]
pub struct Waker {
    socket: UnixDatagram,
    path: PathBuf,
    /// Its folder, if it is one of several: goes with the last of them.
    folder: Option<PathBuf>,
}

impl Waker {
    /// Listens at `path`, replacing what a dead process left there.
    ///
    /// # Errors
    /// The system call's.
    pub fn bind(path: &Path) -> Result<Waker> {
        atomic_file::remove_optional(path)?;
        let socket = UnixDatagram::bind(path).map_err(failed("listen on", path))?;
        socket.set_nonblocking(true).map_err(failed("listen on", path))?;
        Ok(Waker { socket, path: path.to_owned(), folder: None })
    }

    /// Listens with a socket of its own among those in `folder`, which [`poke_all`] wakes.
    ///
    /// # Errors
    /// The system call's.
    pub fn join(folder: &Path) -> Result<Waker> {
        let mut tries = 0;
        loop {
            tries += 1;
            private_dir(folder)?;
            let path = folder.join(format!("{}-{:04x}", std::process::id(), fastrand::u16(..)));
            match UnixDatagram::bind(&path) {
                Ok(socket) => {
                    socket.set_nonblocking(true).map_err(failed("listen on", &path))?;
                    return Ok(Waker { socket, path, folder: Some(folder.to_owned()) });
                }
                // The last of the others has just left and taken the folder along, or the name is taken.
                Err(e)
                    if tries < JOIN_TRIES_MAX
                        && matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::AddrInUse) => {}
                Err(e) => return Err(failed("listen on", &path)(e)),
            }
        }
    }

    /// Takes all pokes that have come. Answers whether there were any.
    pub fn drain(&self) -> bool {
        let mut any = false;
        while self.socket.recv(&mut [0; 16]).is_ok() {
            any = true;
        }
        any
    }

    /// Waits for a poke, at most `limit`. Answers whether one came.
    pub fn wait(&self, limit: Duration) -> bool {
        poll_readable(&[self.as_fd()], limit).first().copied().unwrap_or(false) && self.drain()
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket itself, for a loop that waits for more than this.
    ///
    /// # Errors
    /// The system call's.
    pub fn socket(&self) -> io::Result<UnixDatagram> {
        self.socket.try_clone()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Wakes whoever listens at `path`. A poke is a hint: nobody there is fine, the receiver's poll is the truth.
pub fn poke(path: &Path) {
    let _ = send_poke(path);
}

fn send_poke(path: &Path) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(b"p", path).map(drop)
}

/// Wakes all that listen in `folder`, and removes the sockets of those that were killed.
pub fn poke_all(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|e| Some(e.ok()?.path())) {
        if send_poke(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Whether a process listens at the socket, of either kind. When in doubt: yes.
pub fn has_listener(path: &Path) -> bool {
    let is_refused =
        |e: io::Error| matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound);
    // The kind that does not fit answers with a type error, the one that fits decides.
    let stream = std::os::unix::net::UnixStream::connect(path).map(drop);
    let datagram = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    !(stream.is_err_and(is_refused) || datagram.is_err_and(is_refused))
}

/// Removes a socket that a killed process left, or those in a folder, and the folder if nothing else is in it.
///
/// # Errors
/// The file system's.
pub fn remove_dead(path: &Path) -> Result<()> {
    if !path.is_dir() {
        let is_dead = path.exists() && !has_listener(path);
        return if is_dead { atomic_file::remove_optional(path) } else { Ok(()) };
    }
    for entry in fs::read_dir(path).map_err(failed("read directory", path))?.flatten() {
        remove_dead(&entry.path())?;
    }
    // Somebody may be waiting in it again.
    let _ = fs::remove_dir(path);
    Ok(())
}

/// Waits until one of the descriptors can be read or has hung up; `Duration::MAX` waits for ever.
pub fn poll_readable(fds: &[BorrowedFd<'_>], limit: Duration) -> Vec<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    // Rounded up, so that a wait never spins through its last millisecond.
    let limit = limit.checked_add(Duration::from_micros(999)).unwrap_or(limit);
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::NONE);
    let _ = poll(&mut polled, timeout);
    polled.iter().map(|fd| fd.any().unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_in_a_folder_are_woken_and_the_dead_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("w");
        let (one, two) = (Waker::join(&folder).unwrap(), Waker::join(&folder).unwrap());
        // A killed one leaves its socket.
        drop(UnixDatagram::bind(folder.join("dead")).unwrap());
        poke_all(&folder);
        assert!(one.wait(Duration::from_secs(5)) && two.wait(Duration::from_secs(5)));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        drop((one, two));
        assert!(!folder.exists());
        poke_all(&folder);
    }
}
