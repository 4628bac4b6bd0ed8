//! Where a member's process lives: gives it a place and takes the place away. What only one terminal can do stays in its
//! file. Nothing here reads team files.

mod process;

pub use process::Plain;

use crate::config::Environment;
use crate::config::plan::{BackendChoice, Placement};
use crate::protocol::{AgentName, Layout, TeamName};
use crate::store::PlaceRecord;
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

    /// The command line with which a person sees the team's places, if there is one.
    fn attach(&self) -> Option<String> {
        None
    }
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
    let _ = environment;
    match wanted.choice {
        BackendChoice::Process => Ok((Box::new(Plain), "asked for".to_owned())),
        BackendChoice::Auto => Ok((Box::new(Plain), "auto: not inside tmux".to_owned())),
        BackendChoice::Tmux => Err(Error::Unusable("tmux".to_owned())),
    }
}

/// Closes a place of any backend.
///
/// # Errors
/// As [`Backend::close`].
pub fn close(place: &PlaceRecord, token: &str) -> Result<()> {
    match place {
        PlaceRecord::Process => Plain.close(place, token),
        PlaceRecord::Tmux { .. } => Err(Error::Unusable("tmux".to_owned())),
    }
}
