//! `throng turns`: the hidden role of a member whose program runs one turn for each message.

use super::context::Context;
use super::error::{Failure, Result};
use crate::driver;
use crate::launch;
use crate::store::LaunchFile;

/// Run the turns of one member
#[derive(Debug, clap::Args)]
pub struct Turns {}

/// Runs them until the leader asks for the end.
pub fn turns(_: &Turns, context: &mut Context) -> Result {
    let store = context.team()?;
    let launch = LaunchFile::read(&store.state().launch(&context.config.me))?;
    let Some(entry) = &launch.entry else {
        return Err(Failure::usage("this member has no row in a table of drivers"));
    };
    let environment = &context.config.environment;
    let program = driver::locate(&entry.program, &environment.cwd, environment)
        .map_err(|e| Failure::not_started(e.to_string()))?;
    launch::turns::turns(&store, &launch, (entry, &program), &mut std::io::stdout())?;
    Ok(())
}
