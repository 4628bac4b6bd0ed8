//! `throng screen`: a teammate's present screen as text; the last one, if it has ended.

use super::context::Context;
use super::error::{Failure, Result};
use super::logs::known_member;
use crate::launch::control;
use serde_json::json;

/// Show a teammate's present screen as text
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng screen bob")]
pub struct Screen {
    /// Whose
    name: String,
}

/// Shows a screen.
pub fn screen(verb: &Screen, context: &mut Context) -> Result {
    let store = context.team()?;
    let name = known_member(&verb.name, &store)?;
    let text = match control::screen(&store, &name) {
        Ok(text) => text,
        Err(e) => std::fs::read_to_string(store.state().screen(&name))
            .map_err(|_| Failure::missing(format!("{name} has no screen: {e}")))?,
    };
    if context.out.json {
        return context.out.json(&json!({"name": name, "screen": text}));
    }
    context.out.bytes(text.as_bytes())
}
