//! A program with all that it starts: one process group, one pipe for what they say, one end.

use super::{Error, Result, process, run, signals};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program that runs in a process group of its own, and whatever it leaves in it.
///
/// The program's entry in the process table is kept until [`Group::reap`], so that the group's number cannot become
/// somebody else's while it may still be signalled.
#[derive(Debug)]
pub struct Group {
    child: Child,
    output: io::PipeReader,
    /// Becomes readable when the program ends, where the system has such a thing.
    end: Option<OwnedFd>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with a code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// What was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// Nobody can say anything any more.
    End,
}

impl Group {
    /// Starts a program with no input, in its own process group. Both its outputs are one. It is killed when the calling
    /// thread ends, so that thread should be the one that tends it.
    ///
    /// # Errors
    /// [`Error::Program`] when it cannot be run.
    pub fn start(mut command: Command) -> Result<Group> {
        let program = command.get_program().to_string_lossy().into_owned();
        let fail =
            |e: io::Error| Error::Program { program: program.clone(), detail: format!("cannot run: {e}") };
        let (output, said) = io::pipe().map_err(fail)?;
        super::outlet::set_nonblocking(&output).map_err(fail)?;
        command.stdin(Stdio::null()).stdout(said.try_clone().map_err(fail)?).stderr(said).process_group(0);
        signals::let_all_through_in(&mut command);
        run::close_others(&mut command, None);
        run::keep_in_group(&mut command);
        let child = command.spawn().map_err(fail)?;
        let end = process::Process::of(child.id().cast_signed()).and_then(process::end_descriptor);
        Ok(Group { child, output, end })
    }

    /// The group's number, which is the program's pid.
    pub fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Hears what is said, waiting at most `wait`, or until the program ends.
    ///
    /// # Errors
    /// The system call's.
    pub fn hear(&mut self, into: &mut [u8], wait: Duration) -> io::Result<Heard> {
        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        let mut fds = vec![PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.end.as_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, wait) {
            Err(e) if e != Errno::EINTR => return Err(e.into()),
            _ => {}
        }
        match self.output.read(into) {
            Ok(0) => Ok(Heard::End),
            Ok(n) => Ok(Heard::Bytes(n)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Heard::Nothing)
            }
            Err(e) => Err(e),
        }
    }

    /// How the program has ended, if it has. What it started may run on.
    pub fn exit(&mut self) -> Option<Exit> {
        let pid = rustix::process::Pid::from_raw(self.id())?;
        // Looked at only: reaping would give its number away.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let exit = match waitid(WaitId::Pid(pid), options) {
            Ok(None) => return None,
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, signal) => Exit::Signal(signal.unwrap_or_default()),
            },
            // Reaped by somebody else: how it ended is not known.
            Err(_) => Exit::Signal(0),
        };
        // It would be readable for ever.
        self.end = None;
        Some(exit)
    }

    /// Whether anything of the group runs.
    pub fn is_alive(&self) -> bool {
        process::group_is_alive(self.id())
    }

    /// Signals the whole group.
    pub fn signal(&self, signal: Signal) {
        process::signal_group(self.id(), signal);
    }

    /// Takes the ended program out of the process table. Waits for its end.
    pub fn reap(mut self) {
        // Fails only if somebody else has reaped it.
        let _ = self.child.wait();
    }
}
