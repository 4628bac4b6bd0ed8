//! What Claude Code would ask a person before it does anything: settled before a team is made, never without the user's
//! word.

use super::context::Context;
use super::error::{Failure, Result};
use crate::config::plan::{CLAUDE, MemberPlan};
use crate::driver::{self, claude};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// The user's word.
#[derive(Debug, Clone, clap::Args)]
pub struct Trust {
    /// Answer for Claude Code, in its settings, that it may work there: trust of the directory, the first-run wizard, the
    /// API key of the environment
    #[arg(long)]
    trust: bool,
}

/// The configuration directory, as members are told of it.
pub fn config_dir(context: &Context) -> (String, String) {
    let dir = context.config.layout.config_dir.to_string_lossy().into_owned();
    ("CLAUDE_CONFIG_DIR".to_owned(), dir)
}

/// Settles what these members' programs would ask, in teams that work in `cwd`.
///
/// # Errors
/// Nobody could be asked, or the answer was no; a program or directory is missing.
pub fn settle(members: &[MemberPlan], cwd: &Path, (trust, context): (&Trust, &Context)) -> Result {
    let given = BTreeMap::from([config_dir(context)]);
    for plan in members.iter().filter(|m| m.driver == CLAUDE) {
        let wanted = driver::Wanted { plan, cwd, environment: &context.config.environment, given: &given };
        let not_started = |e: driver::Error| Failure::not_started(format!("{}: {e}", plan.name));
        let Some((settings, wants)) = claude::missing(&wanted).map_err(not_started)? else { continue };
        let unsettled = claude::Unsettled { settings: settings.clone(), wants: wants.clone() };
        if !trust.trust && !ask(&settings, &wants)? {
            return Err(Failure::unanswered(format!("{}: {unsettled}", plan.name)));
        }
        settings.settle(&wants).map_err(not_started)?;
    }
    Ok(())
}

/// Asks a person, if there is one.
fn ask(settings: &claude::Settings, wants: &[claude::Want]) -> Result<bool> {
    let mut error = std::io::stderr();
    if !std::io::stdin().is_terminal() || !error.is_terminal() {
        return Ok(false);
    }
    let failed = |e: std::io::Error| Failure::failed(format!("cannot ask: {e}"));
    writeln!(error, "Claude Code would ask first:").map_err(failed)?;
    for want in wants {
        writeln!(error, "  {want}").map_err(failed)?;
    }
    write!(error, "Write the answers into {}? [y/N] ", settings.path().display()).map_err(failed)?;
    error.flush().map_err(failed)?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
