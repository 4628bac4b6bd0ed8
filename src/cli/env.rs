//! `throng env`: what a teammate's process finds in its environment.

use super::context::Context;
use super::error::{Failure, Result};
use super::logs::known_member;
use crate::config::redacted;
use crate::store::LaunchFile;
use serde_json::{Map, Value, json};

/// Show a teammate's environment, without its secrets
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It is what the launch file holds: an allow-list of yours, the team file's, and throng's own; TERM and PWD come on top.
Values whose names say that they are secrets, and passwords in addresses, are not shown.

Example:
  throng env bob --json | jq .env.PATH"
)]
pub struct Env {
    /// Whose
    name: String,
}

/// Shows an environment.
pub fn env(verb: &Env, context: &mut Context) -> Result {
    let store = context.team()?;
    let name = known_member(&verb.name, &store)?;
    let path = store.state().launch(&name);
    if !path.exists() {
        return Err(Failure::missing(format!("{name} was retired: its launch file is gone")));
    }
    let launch = LaunchFile::read(&path)?;
    let shown = |(key, value): (&String, &String)| (key.clone(), redacted(key, value));
    let env: Vec<(String, String)> = launch.env.iter().map(shown).collect();
    if context.out.json {
        let env: Map<String, Value> = env.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
        return context
            .out
            .json(&json!({"name": name, "cwd": launch.cwd, "command": launch.argv, "env": env}));
    }
    for (key, value) in env {
        context.out.line(format!("{key}={value}"))?;
    }
    Ok(())
}
