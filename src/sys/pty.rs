//! Pseudo-terminals and the settings of real ones.

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{self, SetArg, Termios};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

mod ioctl {
    #![allow(missing_docs)]
    nix::ioctl_read_bad!(get_size, nix::libc::TIOCGWINSZ, nix::pty::Winsize);
    nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, nix::pty::Winsize);
}

/// Size of a terminal in character cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Size {
    /// Of a terminal nobody looks at.
    pub const DEFAULT: Size = Size { rows: 40, cols: 120 };

    fn winsize(self) -> Winsize {
        Winsize { ws_row: self.rows, ws_col: self.cols, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// A pseudo-terminal: our side, and the side for the program.
#[derive(Debug)]
pub struct Pty {
    /// Our side: what is written here the program reads.
    pub ours: File,
    /// The program's side; to be dropped once the program runs, so that its end is seen.
    pub theirs: OwnedFd,
}

impl Pty {
    /// Opens one of the given size.
    ///
    /// # Errors
    /// The system call's.
    pub fn open(size: Size) -> io::Result<Pty> {
        let pair = openpty(Some(&size.winsize()), None)?;
        for fd in [pair.master.as_fd(), pair.slave.as_fd()] {
            nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
        }
        Ok(Pty { ours: File::from(pair.master), theirs: pair.slave })
    }

    /// Makes `command` run in a session of its own with this as its terminal on 0, 1 and 2.
    ///
    /// # Errors
    /// The system call's.
    #[allow(unsafe_code)]
    pub fn give_to(&self, command: &mut Command) -> io::Result<()> {
        command
            .stdin(self.theirs.try_clone()?)
            .stdout(self.theirs.try_clone()?)
            .stderr(self.theirs.try_clone()?);
        // SAFETY: setsid and ioctl are async-signal-safe; descriptor 0 is the terminal by then.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                if nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Ok(())
    }
}

/// Tells a terminal its size; a change is signalled to its foreground program.
#[allow(unsafe_code)]
pub fn resize(terminal: &impl AsFd, size: Size) {
    // SAFETY: the pointer is to a live Winsize. Failure means: no terminal, nothing to tell.
    let _ = unsafe { ioctl::set_size(terminal.as_fd().as_raw_fd(), &size.winsize()) };
}

/// A terminal's size, or `None` if it is none or does not know.
#[allow(unsafe_code)]
pub fn size_of(terminal: &impl AsFd) -> Option<Size> {
    let mut size = Size { rows: 0, cols: 0 }.winsize();
    // SAFETY: as above.
    unsafe { ioctl::get_size(terminal.as_fd().as_raw_fd(), &mut size) }.ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Size { rows: size.ws_row, cols: size.ws_col })
}

/// A terminal in raw mode, put back as it was on drop.
#[derive(Debug)]
pub struct Raw {
    terminal: OwnedFd,
    before: Termios,
}

impl Raw {
    /// Every byte passes unchanged, in both directions.
    ///
    /// # Errors
    /// Not a terminal.
    pub fn enter(terminal: &impl AsFd) -> io::Result<Raw> {
        let before = termios::tcgetattr(terminal)?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(terminal, SetArg::TCSANOW, &raw)?;
        Ok(Raw { terminal: terminal.as_fd().try_clone_to_owned()?, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.terminal, SetArg::TCSANOW, &self.before);
    }
}
