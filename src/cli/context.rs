//! What every verb has at hand.

use super::error::{Failure, Result};
use super::out::Out;
use crate::config::{Config, duration};
use crate::protocol::{AgentName, TeamName, names};
use crate::store::{Store, TeamStore};
use std::time::Duration;

/// Configuration, files and output.
#[derive(Debug)]
pub struct Context {
    /// Our circumstances.
    pub config: Config,
    /// All teams.
    pub store: Store,
    /// Standard output.
    pub out: Out,
}

impl Context {
    /// For one verb.
    pub fn new(config: Config) -> Context {
        let store = Store::new(config.layout.clone(), config.lock_budget);
        let out = Out::new(&config);
        Context { config, store, out }
    }

    /// The team that is meant: the one that was named, else the only one that has not ended.
    ///
    /// # Errors
    /// There is no such team, or several.
    pub fn team(&self) -> Result<TeamStore> {
        match &self.config.team {
            Some(name) => self.named(name),
            None => self.only_team(),
        }
    }

    /// A team by name.
    ///
    /// # Errors
    /// There is no such team: near names are shown.
    pub fn named(&self, name: &TeamName) -> Result<TeamStore> {
        let team = self.store.team(name);
        if team.exists() || team.state().dir().is_dir() {
            return Ok(team.at_home());
        }
        let teams = self.store.teams();
        let near = names::near(name.as_str(), teams.iter().map(|t| t.name().as_str()));
        Err(Failure::missing(format!("there is no team '{name}'{}", did_you_mean(&near))))
    }

    fn only_team(&self) -> Result<TeamStore> {
        let mut open: Vec<TeamStore> = self.store.teams();
        open.retain(|t| t.exists() && t.manifest().ok().flatten().is_some_and(|m| m.ended.is_none()));
        match open.len() {
            0 => Err(Failure::missing(
                "no team runs here: start one with 'throng up FILE', or say --team NAME",
            )),
            1 => Ok(open.remove(0).at_home()),
            _ => {
                let names: Vec<String> = open.iter().map(|t| t.name().to_string()).collect();
                Err(Failure::usage(format!("several teams run: say --team NAME ({})", names.join(", "))))
            }
        }
    }
}

/// `: did you mean a or b?`, or nothing.
pub fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) }
}

/// An agent as a user writes it: `lead` is the leader, an id of this team is its name.
///
/// # Errors
/// It is no name.
pub fn agent(word: &str, team: &TeamStore) -> Result<AgentName> {
    let word = word.strip_suffix(&format!("@{}", team.name())).unwrap_or(word);
    if word.eq_ignore_ascii_case("lead") {
        return Ok(AgentName::lead());
    }
    Ok(AgentName::new(word)?)
}

/// A span of time, for clap.
///
/// # Errors
/// Says which forms there are.
pub fn span(text: &str) -> std::result::Result<Duration, String> {
    duration(text)
}
