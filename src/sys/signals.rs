//! What a process of ours does on a signal, in one table:
//!
//! | signal | `run`/leader | `tend` | agent |
//! |---|---|---|---|
//! | INT, TERM, HUP, first | ends the team politely, then dies of that signal | ends its agent politely (HUP: its place is gone) | its own affair |
//! | the same, second | skips the grace: KILL | skips the grace: KILL | - |
//! | WINCH | redraws | passes the new size on | gets it from its terminal |
//! | TSTP, CONT | the default | never sees it: its terminal is raw | stopped and continued by its terminal |
//! | any, while a lock directory is held | waits until it is released | the same | - |

use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The signals that end us, politely first.
pub const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Holds the ending signals back in this thread until dropped.
#[derive(Debug)]
pub struct HeldBack(SigSet);

/// Blocks the ending signals in this thread; one that arrives meanwhile takes effect when the guard is dropped.
pub fn hold_back() -> HeldBack {
    let mut set = SigSet::empty();
    for signal in ENDING {
        set.add(signal);
    }
    let mut old = SigSet::empty();
    // Fails only for a wrong `how`, which this is not.
    let _ = signal::pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&set), Some(&mut old));
    HeldBack(old)
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        let _ = signal::pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.0), None);
    }
}

/// Lets every signal through in a child, which would inherit what we hold back.
#[allow(unsafe_code)]
pub fn let_all_through_in(command: &mut Command) {
    // SAFETY: setting the signal mask is async-signal-safe.
    unsafe {
        command
            .pre_exec(|| Ok(signal::pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?));
    }
}

/// Ends this process by `signal`, so that the parent's shell sees what really happened.
#[allow(unsafe_code)]
pub fn die_of(signal: Signal) {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours in the handler.
    let _ = unsafe { signal::sigaction(signal, &default) };
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = signal::pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&set), None);
    let _ = signal::raise(signal);
}
