//! `throng tend LAUNCH-FILE`: the hidden role between a place and its agent.

use super::error::{Failure, Result};
use super::logging;
use crate::config::Environment;
use crate::launch;
use crate::store::{LaunchFile, PlaceRecord};
use std::path::PathBuf;

/// Keep one agent
#[derive(Debug, clap::Args)]
pub struct Tend {
    /// Stands here for others to find this process by
    #[arg(long)]
    mark: Option<String>,
    /// The iTerm2 session that this process lives in
    #[arg(long)]
    session: Option<String>,
    /// Its launch file
    file: PathBuf,
}

/// Runs the member to its end.
pub fn tend(verb: &Tend, environment: &Environment) -> Result {
    let launch = LaunchFile::read(&verb.file)?;
    let log = launch.layout().state(&launch.team).logs().join(format!("{}.tend.jsonl", launch.agent));
    logging::to_file(&log, "info")?;
    let place = match (&verb.session, environment.get("TMUX"), environment.get("TMUX_PANE")) {
        // A shell in iTerm2 may itself have been started from tmux.
        (Some(session), ..) => PlaceRecord::Iterm2 { session: session.clone() },
        (None, Some(tmux), Some(pane)) => PlaceRecord::Tmux {
            socket: tmux.rsplitn(3, ',').last().unwrap_or(tmux).to_owned(),
            pane: pane.to_owned(),
        },
        _ => PlaceRecord::Process,
    };
    let term = environment.get("TERM").unwrap_or("xterm-256color").to_owned();
    launch::tend::tend(launch, place, &term).map_err(|e| {
        tracing::error!(error = %e, "tend ended");
        Failure::failed(e.to_string())
    })
}
