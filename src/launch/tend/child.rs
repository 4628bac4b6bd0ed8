//! The agent's process: started with exact argv, environment and directory, in a session or group of its own.

use crate::driver;
use crate::store::{Exit, LaunchFile};
use crate::sys::outlet::Outlet;
use crate::sys::process::{self, Process};
use crate::sys::pty::{Pty, Size};
use crate::sys::{outlet, run, signals};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A running agent.
pub(super) struct Child {
    pub(super) process: Process,
    /// What it prints can be read here; with a terminal, it reads what is written here.
    pub(super) output: File,
    /// What is typed to it, where it has a terminal.
    pub(super) input: Option<Outlet>,
    /// Nobody will print any more, though the agent may still run.
    pub(super) has_closed_output: bool,
}

impl Child {
    /// Starts it; `term` is the kind of terminal it gets, if any.
    pub(super) fn start(launch: &LaunchFile, size: Size, term: &str) -> io::Result<Child> {
        let mut command = Command::new(&launch.program);
        command.current_dir(&launch.cwd);
        let term = if launch.tty { term } else { "dumb" };
        let output = if launch.tty {
            let pty = Pty::open(size)?;
            pty.give_to(&mut command)?;
            pty.ours
        } else {
            command.process_group(0);
            let (ours, theirs) = io::pipe()?;
            command.stdin(Stdio::null()).stdout(theirs.try_clone()?).stderr(theirs);
            File::from(OwnedFd::from(ours))
        };
        outlet::set_nonblocking(&output)?;
        signals::let_all_through_in(&mut command);
        let mut env = launch.env.clone();
        // A shell trusts PWD only if it names the directory it is in.
        env.insert("PWD".to_owned(), launch.cwd.to_string_lossy().into_owned());
        env.entry("TERM".to_owned()).or_insert_with(|| term.to_owned());
        run::execute_exactly(&mut command, &launch.program, &driver::argv(launch), &env)?;
        let child = command.spawn()?;
        // The std handle is dropped: we reap every child by pid, escaped ones too.
        let pid = child.id().cast_signed();
        let process = Process::of(pid).unwrap_or(Process { pid, start: 0 });
        // Its children inherit this; leader and tend stay.
        process::give_up_first(pid);
        let input = if launch.tty { Some(Outlet::new(output.try_clone()?)?) } else { None };
        Ok(Child { process, output, input, has_closed_output: false })
    }
}

/// Reaps every child that has ended, escaped ones too. Answers how `agent` ended, if it did.
pub(super) fn reap(agent: Option<Process>) -> Option<Exit> {
    let mut exit = None;
    loop {
        let (pid, how) = match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, Exit::Code(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, Exit::Signal(signal as i32)),
            Err(nix::errno::Errno::EINTR) => continue,
            _ => return exit,
        };
        if agent.is_some_and(|a| a.pid == pid.as_raw()) {
            exit = Some(how);
        }
    }
}
