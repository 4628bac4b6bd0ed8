//! `throng wait`: until teammates have ended.

use super::context::{Context, span};
use super::error::{Failure, Result};
use super::logs::known_member;
use crate::launch::{self, Life, MemberView};
use crate::protocol::AgentName;
use crate::sys::watch::DirWatch;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Wait until teammates have ended
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0 when all ended well, 1 when one failed, 124 at the timeout.

Example:
  throng wait fmt lint tests --timeout 10m")]
pub struct Wait {
    /// Whom to wait for (default: all teammates but oneself)
    names: Vec<String>,
    /// Say that all are meant
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Longest wait
    #[arg(long, value_name = "TIME", value_parser = span)]
    timeout: Option<Duration>,
}

/// Waits.
pub fn wait(verb: &Wait, context: &mut Context) -> Result {
    let store = context.team()?;
    let deadline = verb.timeout.and_then(|t| Instant::now().checked_add(t));
    let names: Vec<AgentName> = verb.names.iter().map(|n| known_member(n, &store)).collect::<Result<_>>()?;
    let is_member = !context.config.me.is_lead();
    if is_member && names.contains(&context.config.me) {
        return Err(Failure::usage("nobody can wait for their own end"));
    }
    let watch = DirWatch::new(&[&store.state().members()]);
    loop {
        let mut members = launch::observe(&store)?;
        members.retain(|m| match names.is_empty() {
            true => m.name != context.config.me,
            false => names.contains(&m.name),
        });
        let alive: Vec<&str> =
            members.iter().filter(|m| m.life.is_alive()).map(|m| m.name.as_str()).collect();
        if alive.is_empty() {
            return report(context, &members);
        }
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(Failure::timed_out(format!("still running: {}", alive.join(", "))));
        }
        watch.wait(left);
    }
}

fn report(context: &mut Context, members: &[MemberView]) -> Result {
    let how = |m: &MemberView| match m.life {
        Life::Exited(exit) => exit.to_string(),
        life => life.word().to_owned(),
    };
    if context.out.json {
        let members: Vec<Value> = members
            .iter()
            .map(|m| json!({"name": m.name, "how": how(m), "failed": m.life.has_failed()}))
            .collect();
        context.out.json(&json!({"ended": members}))?;
    }
    let failed: Vec<String> =
        members.iter().filter(|m| m.life.has_failed()).map(|m| format!("{} {}", m.name, how(m))).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::failed(failed.join(", "))) }
}
