//! Names that are safe as file name, tmux target, branch and mail subject, checked once on construction (protocol I.1).

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The leader's name in every team of the protocol.
pub const LEAD: &str = "team-lead";
/// Names that no member may bear, in any spelling.
const RESERVED: [&str; 4] = [LEAD, "main", "user", "system"];
/// Longest name in bytes, for teams 63 and for agents 64, as the protocol has it.
const TEAM_BYTES_MAX: usize = 63;
const AGENT_BYTES_MAX: usize = 64;

/// A name that was refused, and the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a team name.
    #[error("'{}' is no team name: a to z, 0 to 9 and '-', beginning with a letter or digit, at most 63", .0.escape_debug())]
    Team(String),
    /// Not an agent name.
    #[error("'{}' is no agent name: letters, digits, '_' and '-', beginning with a letter or digit, at most 64", .0.escape_debug())]
    Agent(String),
    /// An agent name that stands for somebody else.
    #[error("'{0}' is a reserved name: choose another for a teammate")]
    Reserved(String),
}

/// Name of a team: `[a-z0-9][a-z0-9-]{0,62}`, so that both of the original's name rules give the same folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TeamName(String);

/// Name of an agent: `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`; unique in its team without regard to case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct AgentName(String);

fn fits(name: &str, bytes_max: usize, also: impl Fn(u8) -> bool) -> bool {
    let bytes = name.as_bytes();
    bytes.len() <= bytes_max
        && bytes.first().is_some_and(|b| *b != b'-' && *b != b'_' && also(*b))
        && bytes.iter().all(|b| also(*b))
}

impl TeamName {
    /// Checks a team name.
    ///
    /// # Errors
    /// [`NameError::Team`].
    pub fn new(name: &str) -> Result<TeamName, NameError> {
        let good = fits(name, TEAM_BYTES_MAX, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if good { Ok(TeamName(name.to_owned())) } else { Err(NameError::Team(name.to_owned())) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AgentName {
    /// Checks an agent name; the leader's is one.
    ///
    /// # Errors
    /// [`NameError::Agent`].
    pub fn new(name: &str) -> Result<AgentName, NameError> {
        let good = fits(name, AGENT_BYTES_MAX, |b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if good { Ok(AgentName(name.to_owned())) } else { Err(NameError::Agent(name.to_owned())) }
    }

    /// Checks the name of a new teammate: reserved names are refused in any spelling.
    ///
    /// # Errors
    /// [`NameError::Agent`], [`NameError::Reserved`].
    pub fn for_member(name: &str) -> Result<AgentName, NameError> {
        if RESERVED.iter().any(|r| r.eq_ignore_ascii_case(name)) || name.eq_ignore_ascii_case("lead") {
            return Err(NameError::Reserved(name.to_owned()));
        }
        AgentName::new(name)
    }

    /// The leader.
    pub fn lead() -> AgentName {
        AgentName(LEAD.to_owned())
    }

    /// Whether this is the leader.
    pub fn is_lead(&self) -> bool {
        self.0 == LEAD
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `{name}@{team}`, the agent's id (A5).
    pub fn id(&self, team: &TeamName) -> String {
        format!("{self}@{team}")
    }
}

impl fmt::Display for TeamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::str::FromStr for TeamName {
    type Err = NameError;
    fn from_str(name: &str) -> Result<TeamName, NameError> {
        TeamName::new(name)
    }
}

impl std::str::FromStr for AgentName {
    type Err = NameError;
    fn from_str(name: &str) -> Result<AgentName, NameError> {
        AgentName::new(name)
    }
}

impl<'de> Deserialize<'de> for TeamName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TeamName, D::Error> {
        TeamName::new(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for AgentName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AgentName, D::Error> {
        AgentName::new(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The colours of teammates in the order they join (protocol II.2).
const COLORS: [&str; 7] = ["blue", "green", "yellow", "purple", "orange", "pink", "cyan"];

/// Colour of the n-th teammate, counted from 0.
pub fn color(n: usize) -> &'static str {
    COLORS[n % COLORS.len()]
}

/// Names of `all` that are near `name`, the nearest first: what a mistyped word may have meant.
pub fn near<'a>(name: &str, all: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(usize, &str)> = all
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= 1.max(known.len().max(name.len()) / 3))
        .collect();
    scored.sort_unstable();
    scored.into_iter().map(|(_, known)| known).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixture's choices: ASCII only, no '@', no '.', no blank.
    #[test]
    fn case_c095_names_that_could_leave_their_folder_are_refused() {
        let long = "x".repeat(300);
        for name in [
            "../../x",
            "/abs",
            "a/b",
            "a\\b",
            "a\0b",
            "a\nb",
            "-x",
            "",
            "a b",
            "a@b",
            "demo.json",
            "demo.lock",
            "~",
            "$HOME",
        ]
        .into_iter()
        .chain([long.as_str(), "проект", "%2e%2e", ".", "..", "_x"])
        {
            assert!(AgentName::new(name).is_err(), "{name:?}");
            assert!(TeamName::new(name).is_err(), "{name:?}");
        }
        assert!(AgentName::new("Demo-1_x").is_ok());
        assert!(TeamName::new("Demo").is_err());
        assert!(TeamName::new("demo").is_ok());
        assert!(AgentName::new(&"x".repeat(64)).is_ok() && AgentName::new(&"x".repeat(65)).is_err());
    }

    #[test]
    fn probe_d12_reserved_names_are_refused_in_any_spelling() {
        for name in ["team-lead", "Team-Lead", "lead", "MAIN", "user", "system"] {
            assert!(matches!(AgentName::for_member(name), Err(NameError::Reserved(_))), "{name}");
        }
        assert!(AgentName::lead().is_lead());
    }

    #[test]
    fn near_names() {
        assert_eq!(near("enginer", ["engineer", "lead", "tester"]), ["engineer"]);
        assert!(near("zzz", ["engineer"]).is_empty());
    }
}
