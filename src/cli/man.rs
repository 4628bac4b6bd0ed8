//! `throng man`: the manual page, of the whole program or of one verb.

use super::error::{Failure, Result};
use std::io::{self, Write};

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng man > throng.1; throng man run | man -l -")]
pub struct Man {
    /// Of this verb
    verb: Option<String>,
}

/// Prints it.
pub fn man(verb: &Man) -> Result {
    let mut all = super::command();
    all.build();
    let command = match &verb.verb {
        None => all,
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            found.ok_or_else(|| Failure::missing(format!("there is no verb '{name}'")))?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(io::stdout().write_all(&text)?)
}
