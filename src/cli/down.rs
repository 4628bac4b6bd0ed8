//! `throng down`: ends a team.

use super::beyond::go_on_detached;
use super::context::{Context, span};
use super::error::{Failure, Result};
use super::stop::{grace, report};
use crate::leader;
use crate::protocol::TeamName;
use crate::store::KeepTasks;
use crate::sys::signals::hold_back;
use std::io::Write;
use std::time::Duration;

/// End a team
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Its shared files are put away among throng's state, with what was not delivered; 'throng gc'
removes them.

Example:
  throng down checks"
)]
pub struct Down {
    /// Which (default: as with --team)
    name: Option<TeamName>,
    /// Time for its members to end by themselves (default: 5s, or 20s with members that are asked by mail)
    #[arg(long, visible_alias = "timeout", value_name = "TIME", value_parser = span)]
    grace: Option<Duration>,
    /// Do not ask: kill at once
    #[arg(long)]
    force: bool,
    /// Leave the task list where it is
    #[arg(long)]
    keep_tasks: bool,
}

/// Ends a team.
pub fn down(verb: &Down, context: &mut Context) -> Result {
    let store = match &verb.name {
        Some(name) => context.named(name)?,
        None => context.team()?,
    };
    let manifest = store.manifest()?;
    let Some(manifest) = manifest else {
        return Err(Failure::usage(format!(
            "team '{}' was not made by throng: nothing was ended",
            store.name()
        )));
    };
    if manifest.ended.is_some() && !store.exists() {
        return Err(Failure::missing(format!("team '{}' has ended already", store.name())));
    }
    if go_on_detached(context, &store, None)? {
        return Ok(());
    }
    let grace = if verb.force { Duration::ZERO } else { grace(verb.grace, &store) };
    let keep = if verb.keep_tasks { KeepTasks::Yes } else { KeepTasks::No };
    // Half an end would be worse than a late one: what comes meanwhile takes effect afterwards.
    let _held = hold_back();
    if context.out.is_terminal && !grace.is_zero() {
        let _ =
            writeln!(std::io::stderr(), "ending team {}, within {} s or so", store.name(), grace.as_secs());
    }
    let down = leader::end_team(&store, grace, keep, &context.config.environment)?;
    report(context, &down.retired)?;
    if context.out.json {
        return Ok(());
    }
    if let Some(pid) = down.leader {
        context.out.line(format!("its leader, process {pid}, was ended"))?;
    }
    context.out.line(format!("team {} is down", store.name()))
}
