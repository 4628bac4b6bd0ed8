//! `throng respawn`: starts a teammate again.

use super::context::{Context, span};
use super::error::{Failure, Result};
use super::logs::known_member;
use super::spawn::backend_of;
use crate::launch::{self, Respawned};
use serde_json::json;
use std::time::Duration;

/// Start a teammate again
#[derive(Debug, clap::Args)]
#[command(
    after_help = "One that runs is ended and started in the same place; one that has ended gets a new place.
Its inbox and log stay; tasks that a leader has freed meanwhile are to be claimed again.

Example:
  throng respawn bob"
)]
pub struct Respawn {
    /// Whom
    name: String,
    /// Time to end by itself, if it runs
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "5s")]
    grace: Duration,
}

/// Respawns one teammate.
pub fn respawn(verb: &Respawn, context: &mut Context) -> Result {
    let store = context.team()?;
    let name = known_member(&verb.name, &store)?;
    let manifest = store.manifest()?.filter(|m| m.ended.is_none());
    let manifest = manifest.ok_or_else(|| Failure::missing(format!("team '{}' has ended", store.name())))?;
    let backend = backend_of(&store, &manifest, context);
    let done = launch::respawn(&store, &name, verb.grace, (backend.as_ref(), &context.config))?;
    let word = match done {
        Respawned::InPlace => "was started again in its place",
        Respawned::Anew => "was started anew",
    };
    match context.out.json {
        true => context.out.json(&json!({"name": name, "in_place": done == Respawned::InPlace})),
        false => context.out.line(format!("{name} {word}")),
    }
}
