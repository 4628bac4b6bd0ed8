//! `throng help`: on a verb, or on what a teammate must do.

use super::error::{Failure, Result};
use std::io::{self, Write};

/// What a program must do to be a teammate; also what an agent can be told.
const PROTOCOL: &str = include_str!("protocol.txt");

/// Help on a verb, or on the protocol for teammates
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng help protocol")]
pub struct Help {
    /// A verb, or protocol
    topic: Vec<String>,
}

/// Prints help.
pub fn help(verb: &Help) -> Result {
    let mut stdout = io::stdout();
    if verb.topic.first().is_some_and(|t| t == "protocol") {
        return Ok(stdout.write_all(PROTOCOL.as_bytes())?);
    }
    let mut all = super::command();
    all.build();
    let mut command = &mut all;
    for word in &verb.topic {
        let missing = || {
            Failure::missing(format!(
                "there is no help on '{word}': try 'throng help', 'throng help protocol'"
            ))
        };
        command = command.find_subcommand_mut(word).ok_or_else(missing)?;
    }
    Ok(write!(stdout, "{}", command.render_long_help())?)
}
