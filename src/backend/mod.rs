//! Where a member's process lives: gives it a place and takes the place away. What only one terminal can do stays in its
//! file. Nothing here reads team files.

mod iterm;
mod process;
mod tmux;

pub use process::Plain;

use crate::config::Environment;
use crate::config::plan::{BackendChoice, Placement};
use crate::protocol::{AgentName, Layout, TeamName};
use crate::store::{HomeRecord, PlaceRecord};
use crate::sys;
use std::path::Path;

/// What can go wrong with places.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system's part.
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// The wanted backend cannot be used here.
    #[error("{0}")]
    Unusable(String),
    /// The terminal multiplexer refused.
    #[error("{deed}: {answer}")]
    Refused {
        /// What was asked of it.
        deed: String,
        /// Its answer.
        answer: String,
    },
}

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// What is to live in a place: always `PROGRAM tend LAUNCH_FILE`.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Our own program.
    pub program: &'a Path,
    /// The launch file.
    pub file: &'a Path,
    /// The member, for titles.
    pub agent: &'a AgentName,
    /// Its colour.
    pub color: &'a str,
    /// Mark of this launch: a place is ours only as long as it carries it.
    pub token: &'a str,
}

/// A kind of place.
pub trait Backend: Send + Sync {
    /// Its name in files and messages.
    fn name(&self) -> &'static str;

    /// Opens a place and starts `tend` in it.
    ///
    /// # Errors
    /// Nothing is left open then.
    fn open(&self, launch: &Launch<'_>) -> Result<PlaceRecord>;

    /// Closes a place, if it is still there and still ours.
    ///
    /// # Errors
    /// It is still there.
    fn close(&self, place: &PlaceRecord, token: &str) -> Result<()>;

    /// Opens and closes a place for nothing, and says what was done (`doctor`).
    ///
    /// # Errors
    /// The step that failed.
    fn try_out(&self) -> Result<String> {
        Ok("nothing to try".to_owned())
    }

    /// Helps a start of which nothing was heard for a while.
    ///
    /// # Errors
    /// The place is gone: nothing will be heard any more.
    fn nudge(&self, _place: &PlaceRecord, _launch: &Launch<'_>) -> Result<()> {
        Ok(())
    }

    /// Title, colour and token of a place: what need not be there before the agent runs.
    ///
    /// # Errors
    /// The token could not be set, so that the place could not be told from a stranger's.
    fn dress(&self, _place: &PlaceRecord, _launch: &Launch<'_>) -> Result<()> {
        Ok(())
    }

    /// What must be known to find the team's places again.
    fn home(&self) -> HomeRecord;
}

/// What backend is wanted, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The user's choice.
    pub choice: BackendChoice,
    /// Where in tmux.
    pub placement: Placement,
    /// The team.
    pub team: &'a TeamName,
    /// Where sockets lie.
    pub layout: &'a Layout,
}

/// Chooses a backend and says why (B7). An explicit choice is never changed.
///
/// # Errors
/// The chosen one cannot be used here.
pub fn choose(wanted: &Wanted<'_>, environment: &Environment) -> Result<(Box<dyn Backend>, String)> {
    let choice = match wanted.choice {
        BackendChoice::Process => return Ok((Box::new(Plain), "asked for".to_owned())),
        BackendChoice::Iterm2 => {
            let (sessions, reason) = iterm::ItermSessions::new(wanted, environment)?;
            return Ok((Box::new(sessions), format!("asked for: {reason}")));
        }
        BackendChoice::Tmux => "asked for",
        BackendChoice::Auto => match tmux::inside(environment) {
            tmux::Inside::No(why) => return Ok(without_tmux(wanted, environment, why)),
            tmux::Inside::Pane { .. } => "auto",
        },
    };
    let (panes, reason) = tmux::TmuxPanes::new(wanted, environment)?;
    Ok((Box::new(panes), format!("{choice}: {reason}")))
}

/// The choice of `auto` outside tmux: iTerm2 if we are inside and it can be used, else plain processes.
fn without_tmux(wanted: &Wanted<'_>, environment: &Environment, why: &str) -> (Box<dyn Backend>, String) {
    if iterm::inside(environment).is_none() {
        return (Box::new(Plain), format!("auto: {why}"));
    }
    match iterm::ItermSessions::new(wanted, environment) {
        Ok((sessions, reason)) => (Box::new(sessions), format!("auto: {why}; {reason}")),
        Err(e) => {
            // The environment of iTerm2 is inherited by what runs far from it (probe B13).
            let fault = e.to_string();
            let fault = fault.lines().next().unwrap_or_default();
            (Box::new(Plain), format!("auto: {why}; iTerm2's variables are set, but {fault}"))
        }
    }
}

/// The backend of a team that is there.
pub fn again(wanted: &Wanted<'_>, home: &HomeRecord, environment: &Environment) -> Box<dyn Backend> {
    match home.backend.as_str() {
        "tmux" => Box::new(tmux::TmuxPanes::again(wanted, home, environment)),
        "iterm2" => Box::new(iterm::ItermSessions::again(wanted, home, environment)),
        _ => Box::new(Plain),
    }
}

/// Closes a place of any backend, if it is still there and still ours.
///
/// # Errors
/// As [`Backend::close`].
pub fn close(place: &PlaceRecord, token: &str, environment: &Environment) -> Result<()> {
    match place {
        PlaceRecord::Process => Ok(()),
        PlaceRecord::Tmux { .. } => tmux::close(place, token, environment),
        PlaceRecord::Iterm2 { .. } => iterm::close(place, environment),
    }
}

/// The line that a backend typed into a place to start the launch `token`, if it types: it may come once more, after
/// `tend` has started, and is not for the agent.
pub fn typed_line(place: &PlaceRecord, layout: &Layout, token: &str) -> Option<String> {
    match place {
        PlaceRecord::Iterm2 { .. } => iterm::typed_line(layout, token),
        PlaceRecord::Process | PlaceRecord::Tmux { .. } => None,
    }
}

/// Removes what a team's backend leaves once all its places are closed.
pub fn leave(wanted: &Wanted<'_>, environment: &Environment) {
    tmux::leave(wanted, environment);
}
