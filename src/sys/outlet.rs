//! Writing without ever waiting: what a slow reader does not take is kept up to a limit, then the oldest is dropped.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Most bytes kept for a reader that does not read.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A non-blocking writer with a bounded buffer.
#[derive(Debug)]
pub struct Outlet {
    file: File,
    waiting: VecDeque<u8>,
}

/// Whether the reader is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// It may read on.
    There,
    /// It has gone.
    Gone,
}

/// Makes reads and writes of a descriptor answer at once.
///
/// # Errors
/// The system call's.
pub fn set_nonblocking(fd: &impl AsFd) -> std::io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

impl Outlet {
    /// Writes to `file`, which is made non-blocking.
    ///
    /// # Errors
    /// The system call's.
    pub fn new(file: File) -> std::io::Result<Outlet> {
        set_nonblocking(&file)?;
        Ok(Outlet { file, waiting: VecDeque::new() })
    }

    /// Adds bytes and writes what can be written now.
    pub fn push(&mut self, bytes: &[u8]) -> Reader {
        self.waiting.extend(bytes);
        let reader = self.flush();
        let excess = self.waiting.len().saturating_sub(KEPT_BYTES_MAX);
        self.waiting.drain(..excess);
        reader
    }

    /// Writes what can be written now.
    pub fn flush(&mut self) -> Reader {
        while !self.waiting.is_empty() {
            match self.file.write(self.waiting.as_slices().0) {
                Ok(0) => return Reader::Gone,
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Reader::Gone,
            }
        }
        Reader::There
    }

    /// Whether something waits to be written.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
