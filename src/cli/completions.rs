//! `throng completions`: for the shells.

use super::error::Result;
use clap_complete::Shell;
use std::io::{self, Write};

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng completions bash > ~/.local/share/bash-completion/completions/throng")]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

/// Prints them.
pub fn completions(verb: &Completions) -> Result {
    let mut text = Vec::new();
    clap_complete::generate(verb.shell, &mut super::command(), "throng", &mut text);
    Ok(io::stdout().write_all(&text)?)
}
