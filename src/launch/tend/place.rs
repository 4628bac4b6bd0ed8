//! `tend`'s own terminal, where its place gave it one: raw, relayed in both directions.

use crate::sys::outlet::{Outlet, Reader};
use crate::sys::pty::{self, Raw, Size};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// The terminal of a pane.
pub(super) struct Terminal {
    input: File,
    pub(super) output: Outlet,
    _raw: Raw,
}

impl Terminal {
    /// Our own terminal, or `None` where there is none.
    pub(super) fn of_this_process() -> Option<Terminal> {
        let (input, output) = (io::stdin(), io::stdout());
        if !input.is_terminal() || !output.is_terminal() {
            return None;
        }
        let raw = Raw::enter(&input).ok()?;
        let input = File::from(input.as_fd().try_clone_to_owned().ok()?);
        let output = Outlet::new(File::from(output.as_fd().try_clone_to_owned().ok()?)).ok()?;
        Some(Terminal { input, output, _raw: raw })
    }

    pub(super) fn size(&self) -> Size {
        pty::size_of(&self.input).unwrap_or(Size::DEFAULT)
    }

    /// What was typed, or `None` when the terminal is gone.
    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 4096];
        match self.input.read(&mut bytes) {
            Ok(0) => None,
            Ok(n) => {
                bytes.truncate(n);
                Some(bytes)
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Some(Vec::new())
            }
            Err(_) => None,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Reader {
        self.output.push(bytes)
    }

    pub(super) fn flush(&mut self) {
        self.output.flush();
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}
