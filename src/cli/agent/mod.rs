//! `throng agent`: an agent of our own, without a team.

mod member;
mod rights;
mod run;
mod show;
mod tape;

pub use rights::mode;

use crate::cli::context::Context;
use crate::cli::error::Result;

/// Run an agent of throng's own
#[derive(Debug, clap::Args)]
pub struct Agent {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Give an agent a prompt, and show what it does until it is done
    Run(run::Run),
}

/// Does what the sub-verb says.
pub fn agent(verb: &Agent, context: &mut Context) -> Result {
    match &verb.verb {
        Verb::Run(verb) => run::run(verb, context),
    }
}
