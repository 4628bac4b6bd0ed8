//! A process between us and a program: it leads the program's group, ends as the program ended, and kills the whole group
//! when our process is gone. It is a copy of ours that makes system calls only, since it never executed anything.

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, pthread_sigmask, sigaction,
};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

/// What the kernel sends the keeper when the thread that started it has ended. Others may send it too.
const PARENT_GONE: Signal = Signal::SIGTERM;

/// To be called between fork and exec, in a process that leads its group. Returns in a child of it, which is to be the
/// program; the process itself keeps that one and never returns.
///
/// # Errors
/// A system call's; there is no second process then.
#[allow(unsafe_code)]
pub(super) fn stand_between(parent: Pid) -> nix::Result<()> {
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGCHLD);
    awaited.add(PARENT_GONE);
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&awaited), None)?;
    // Ignored, as it may be since our own start, it would not come.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours, and the child goes on to its exec as it would have without us.
    let forked = unsafe {
        sigaction(Signal::SIGCHLD, &default)?;
        fork()?
    };
    match forked {
        ForkResult::Child => {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        }
        ForkResult::Parent { child } => keep(child, parent, &awaited),
    }
}

#[allow(unsafe_code)]
fn keep(child: Pid, parent: Pid, awaited: &SigSet) -> ! {
    // SAFETY: no end of a pipe is ours, nor of that on which std reports a failed exec; nothing here uses a descriptor.
    unsafe {
        nix::libc::close_range(0, u32::MAX, 0);
    }
    // Neither call can fail with these arguments. What we are a copy of is nobody's to dump.
    let _ = prctl::set_dumpable(false);
    let _ = prctl::set_pdeathsig(PARENT_GONE);
    loop {
        // It may have gone before the kernel was asked to tell.
        if getppid() != parent {
            // Ourselves among them.
            let _ = kill(Pid::from_raw(0), Signal::SIGKILL);
        }
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => end(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                super::signals::die_of(signal);
                end(128 + signal as i32)
            }
            Err(Errno::ECHILD) => end(1),
            _ => {
                let _ = awaited.wait();
            }
        }
    }
}

#[allow(unsafe_code)]
fn end(code: i32) -> ! {
    // SAFETY: ends the process without running what belongs to the one that it is a copy of.
    unsafe { nix::libc::_exit(code) }
}
