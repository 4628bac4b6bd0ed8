//! `throng stop`: ends teammates for certain.

use super::beyond::go_on_detached;
use super::context::{Context, span};
use super::error::{Failure, Result};
use super::logs::known_member;
use crate::launch::{self, Retired};
use crate::leader::GRACE;
use serde_json::{Value, json};
use std::time::Duration;

/// End teammates
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each is asked with TERM, and killed after the grace. Its inbox, log and last screen stay.

Example:
  throng stop bob --grace 2s"
)]
pub struct Stop {
    /// Whom
    #[arg(required = true)]
    names: Vec<String>,
    /// Time to end by itself
    #[arg(long, visible_alias = "timeout", value_name = "TIME", value_parser = span, default_value = "5s")]
    grace: Duration,
    /// Do not ask: kill at once
    #[arg(long)]
    force: bool,
}

/// Ends teammates.
pub fn stop(verb: &Stop, context: &mut Context) -> Result {
    let store = context.team()?;
    let names: Vec<_> = verb.names.iter().map(|n| known_member(n, &store)).collect::<Result<_>>()?;
    let grace = if verb.force { Duration::ZERO } else { verb.grace.min(Duration::from_secs(3600)) };
    if go_on_detached(context, &store, Some(&names))? {
        return Ok(());
    }
    let mut retired = Vec::new();
    for name in names {
        retired.extend(launch::retire(&store, &name, grace, &context.config.environment)?);
    }
    let gone: Vec<_> = retired.iter().filter(|r| r.left.is_empty()).map(|r| r.name.clone()).collect();
    launch::forget(&store, &gone)?;
    report(context, &retired)
}

/// Says what ended whom; fails if something is still there.
pub fn report(context: &mut Context, retired: &[Retired]) -> Result {
    if context.out.json {
        let members: Vec<Value> = retired
            .iter()
            .map(|r| json!({"name": r.name, "how": r.how, "exit": r.exit, "left": r.left}))
            .collect();
        context.out.json(&json!({"ended": members}))?;
    } else {
        let exit = |r: &Retired| r.exit.map_or(String::new(), |exit| format!(", {exit}"));
        let rows: Vec<Vec<String>> =
            retired.iter().map(|r| vec![r.name.to_string(), format!("{}{}", r.how, exit(r))]).collect();
        context.out.table(&rows)?;
    }
    let left: Vec<String> = retired.iter().flat_map(|r| r.left.clone()).collect();
    if left.is_empty() { Ok(()) } else { Err(Failure::failed(format!("still there: {}", left.join(", ")))) }
}

/// The usual grace, for other verbs.
pub const GRACE_DEFAULT: Duration = GRACE;
