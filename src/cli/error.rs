//! What went wrong, as an exit code and one message. The one place that knows the codes.

use crate::leader::{BirthError, Failed, Of, Outcome};
use crate::protocol::AgentName;
use crate::session::transcript;
use crate::store::TeamStore;
use crate::{backend, config, launch, provider, store, sys};
use nix::sys::signal::Signal;
use std::io;

/// Exit codes, for `--help`, the man page and the README.
pub const EXIT_CODES: &str = "Exit codes:
  0  done
  1  an agent, task or command failed, or the team stalled
  2  usage, or a bad file
  3  no such team, member, task or message; or the recipient is dead (the message is kept)
  4  a lock was not had in time
  5  no backend, or a spawn failed
  6  the model refused or could not be reached, or a replay differs
  7  a person's answer was needed and nobody was there
  124  timed out
  129, 130, 143  ended by HUP, INT, TERM";

/// Lines of a failed member's output that are shown.
const LAST_LINES: usize = 5;

/// A verb that did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// An exit code and what to say on standard error; empty: nothing.
    Code(u8, String),
    /// Ended by a signal, to be died of.
    Signal(Signal),
    /// The reader of our output has gone.
    ReaderGone,
}

/// Result of a verb.
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// 1: an agent, task or command failed.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::Code(1, message.into())
    }
    /// 2: usage, or a bad file.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::Code(2, message.into())
    }
    /// 3: there is no such thing.
    pub fn missing(message: impl Into<String>) -> Failure {
        Failure::Code(3, message.into())
    }
    /// 5: no backend, or a spawn failed.
    pub fn not_started(message: impl Into<String>) -> Failure {
        Failure::Code(5, message.into())
    }
    /// 6: the model refused or could not be reached, or a replay differs.
    pub fn of_model(message: impl Into<String>) -> Failure {
        Failure::Code(6, message.into())
    }
    /// 7: a person's answer was needed and nobody was there.
    pub fn unanswered(message: impl Into<String>) -> Failure {
        Failure::Code(7, message.into())
    }
    /// 124: timed out.
    pub fn timed_out(message: impl Into<String>) -> Failure {
        Failure::Code(124, message.into())
    }
}

impl From<sys::Error> for Failure {
    fn from(e: sys::Error) -> Failure {
        let code = match e {
            sys::Error::LockBusy { .. } | sys::Error::LockForeign { .. } | sys::Error::LockLost { .. } => 4,
            sys::Error::Program { .. } => 5,
            sys::Error::Io { .. } => 2,
        };
        Failure::Code(code, e.to_string())
    }
}

impl From<store::Error> for Failure {
    fn from(e: store::Error) -> Failure {
        let code = match e {
            store::Error::Sys(e) => return e.into(),
            store::Error::Damaged { .. }
            | store::Error::TeamExists(_)
            | store::Error::NameTaken { .. }
            | store::Error::LeadersWord { .. }
            | store::Error::KeyLost { .. }
            | store::Error::NotOurs(_) => 2,
            store::Error::NoTeam(_) | store::Error::NoTask { .. } => 3,
            store::Error::TaskRefused { .. } => 1,
        };
        Failure::Code(code, e.to_string())
    }
}

impl From<transcript::Error> for Failure {
    fn from(e: transcript::Error) -> Failure {
        match e {
            transcript::Error::Sys(e) => e.into(),
            transcript::Error::Missing(_) => Failure::missing(e.to_string()),
            transcript::Error::InUse(_) | transcript::Error::Damaged { .. } => Failure::usage(e.to_string()),
        }
    }
}

impl From<provider::Error> for Failure {
    fn from(e: provider::Error) -> Failure {
        match e {
            provider::Error::Settings(_) => Failure::usage(e.to_string()),
            e => Failure::of_model(e.to_string()),
        }
    }
}

impl From<config::Error> for Failure {
    fn from(e: config::Error) -> Failure {
        Failure::usage(e.to_string())
    }
}

impl From<crate::protocol::NameError> for Failure {
    fn from(e: crate::protocol::NameError) -> Failure {
        Failure::usage(e.to_string())
    }
}

impl From<backend::Error> for Failure {
    fn from(e: backend::Error) -> Failure {
        Failure::not_started(e.to_string())
    }
}

impl From<launch::SpawnError> for Failure {
    fn from(e: launch::SpawnError) -> Failure {
        Failure::Code(if e.is_name_taken { 2 } else { 5 }, e.to_string())
    }
}

impl From<BirthError> for Failure {
    fn from(e: BirthError) -> Failure {
        match e {
            BirthError::Store(e) => e.into(),
            BirthError::Sys(e) => e.into(),
            BirthError::Alive { .. } | BirthError::Foreign { .. } => Failure::usage(e.to_string()),
        }
    }
}

/// Writing to standard output.
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::failed(format!("failed to write output: {e}")),
        }
    }
}

impl Failure {
    /// The exit code it ends with.
    pub fn code(&self) -> i32 {
        match self {
            Failure::Code(code, _) => i32::from(*code),
            Failure::Signal(signal) => 128 + *signal as i32,
            Failure::ReaderGone => 0,
        }
    }

    /// What its exit code means, in a word.
    pub fn kind(&self) -> &'static str {
        match self.code() {
            2 => "usage",
            3 => "missing",
            4 => "locked",
            5 => "not_started",
            7 => "unanswered",
            124 => "timed_out",
            _ => "failed",
        }
    }
}

/// The verdict over a run. Several at once: signal, did not start, timed out, model, nobody to answer, failed or stalled;
/// the first that applies.
/// A failed member is shown with what it printed last.
pub fn verdict(outcome: &Outcome, store: &TeamStore) -> Result {
    if let Some(signal) = outcome.signal {
        return Err(Failure::Signal(signal));
    }
    if let Some(why) = &outcome.not_started {
        return Err(Failure::not_started(why));
    }
    let last_lines = |member: &AgentName| launch::last_lines(store, member, LAST_LINES);
    let tell = |f: &Failed| format!("{}{}", f.what, f.member.as_ref().map(last_lines).unwrap_or_default());
    let mut reasons: Vec<String> = outcome.unanswered.clone();
    reasons.extend(outcome.failed.iter().map(tell));
    reasons.extend(outcome.stalled.iter().map(|why| format!("stalled: {why}")));
    reasons.extend(outcome.left.iter().map(|what| format!("still there: {what}")));
    if let Some(limit) = outcome.timed_out {
        reasons.insert(0, format!("the run did not end within {} s", limit.as_secs_f64()));
        return Err(Failure::timed_out(reasons.join("\n  ")));
    }
    let text = reasons.join("\n  ");
    match reasons.is_empty() {
        true => Ok(()),
        false if outcome.failed.iter().any(|failed| failed.of == Of::Model) => Err(Failure::of_model(text)),
        false if outcome.unanswered.is_empty() => Err(Failure::failed(text)),
        false => Err(Failure::unanswered(text)),
    }
}
