//! `throng stop`: ends teammates for certain.

use super::beyond::go_on_detached;
use super::context::{Context, span};
use super::error::{Failure, Result};
use super::logs::known_member;
use crate::launch::{self, Life, Retired};
use crate::leader;
use crate::store::TeamStore;
use serde_json::{Value, json};
use std::time::Duration;

/// End teammates
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each is asked with TERM, and killed after the grace. Claude Code is asked by mail instead, interrupted
half-way, and gets TERM after the grace. Inbox, log and last screen stay.

Example:
  throng stop bob --grace 2s"
)]
pub struct Stop {
    /// Whom
    #[arg(required = true)]
    names: Vec<String>,
    /// Time to end by itself (default: 5s, or 20s with members that are asked by mail)
    #[arg(long, visible_alias = "timeout", value_name = "TIME", value_parser = span)]
    grace: Option<Duration>,
    /// Do not ask: kill at once
    #[arg(long)]
    force: bool,
}

/// The grace that was named, within reason, else the usual one.
pub fn grace(named: Option<Duration>, store: &TeamStore) -> Duration {
    named.map_or_else(|| launch::default_grace(store), |grace| grace.min(Duration::from_secs(3600)))
}

/// Ends teammates.
pub fn stop(verb: &Stop, context: &mut Context) -> Result {
    let store = context.team()?;
    let names: Vec<_> = verb.names.iter().map(|n| known_member(n, &store)).collect::<Result<_>>()?;
    let grace = if verb.force { Duration::ZERO } else { grace(verb.grace, &store) };
    if go_on_detached(context, &store, Some(&names))? {
        return Ok(());
    }
    for name in &names {
        match launch::observe_one(&store, name)?.map(|m| m.life) {
            Some(Life::Unknown) => {
                return Err(Failure::usage(format!("{name} is another program's: nobody was ended")));
            }
            Some(Life::Planned) => {
                return Err(Failure::usage(format!("{name} has not been started yet: nobody was ended")));
            }
            _ => {}
        }
    }
    let retired = leader::retire_these(&store, &names, grace, &context.config.environment);
    report(context, &retired)
}

/// Says what ended whom; fails if something is still there.
pub fn report(context: &mut Context, retired: &[Retired]) -> Result {
    if context.out.json {
        let members: Vec<Value> = retired
            .iter()
            .map(|r| json!({"name": r.name, "how": r.how, "exit": r.exit, "refusal": r.refusal, "left": r.left}))
            .collect();
        context.out.json(&json!({"ended": members}))?;
    } else {
        let exit = |r: &Retired| {
            let refusal = r.refusal.as_ref().map_or(String::new(), |why| format!(" after it refused: {why}"));
            format!("{refusal}{}", r.exit.map_or(String::new(), |exit| format!(", {exit}")))
        };
        let rows: Vec<Vec<String>> =
            retired.iter().map(|r| vec![r.name.to_string(), format!("{}{}", r.how, exit(r))]).collect();
        context.out.table(&rows)?;
    }
    let left: Vec<String> = retired.iter().flat_map(|r| r.left.clone()).collect();
    if left.is_empty() { Ok(()) } else { Err(Failure::failed(format!("still there: {}", left.join(", ")))) }
}
