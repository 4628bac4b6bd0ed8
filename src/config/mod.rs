//! Flags, environment and team file become one [`Config`], once. The environment is read nowhere else.

pub mod approvals;
pub mod drivers;
mod environment;
mod member;
pub mod model;
pub mod plan;
pub mod settings;
mod source;
mod word;

pub use drivers::Drivers;
pub use environment::{Environment, redacted};
pub use plan::Plan;
pub use settings::Settings;
pub(crate) use source::Source;

use crate::protocol::{AgentName, Layout, NameError, TeamName};
use std::path::PathBuf;
use std::time::Duration;

/// What cannot be made sense of before anything starts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A team file that is not right.
    #[error("{}:{line}: {problem}", path.display())]
    TeamFile {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong and the way out.
        problem: String,
    },
    /// A file that cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A settings file that is not right.
    #[error("{}: {}{problem}", path.display(), if field.is_empty() { String::new() } else { format!("{field}: ") })]
    Settings {
        /// The file.
        path: PathBuf,
        /// The field, with dots; empty: the whole file.
        field: String,
        /// What is wrong and the way out.
        problem: String,
    },
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A setting that is wrong.
    #[error("{0}")]
    Setting(String),
}

/// What the user asked for on the command line that concerns every verb. The clap types stay in `cli`.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--team`.
    pub team: Option<String>,
    /// `--json`.
    pub json: bool,
    /// `--log-level`.
    pub log_level: Option<String>,
}

/// Everything that is decided before a verb starts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where files lie.
    pub layout: Layout,
    /// `--team`, else `THRONG_TEAM`.
    pub team: Option<TeamName>,
    /// `--team` alone: the environment's team is not the name of a new one.
    pub team_flag: Option<TeamName>,
    /// Who we are: `THRONG_AGENT`, else the leader.
    pub me: AgentName,
    /// Whether output is JSON.
    pub json: bool,
    /// `--log-level`, else `THRONG_LOG`: a level or a filter.
    pub log_level: Option<String>,
    /// How long a shared file's lock may be waited for.
    pub lock_budget: Duration,
    /// The environment as it was.
    pub environment: Environment,
}

impl Config {
    /// Settles everything.
    ///
    /// # Errors
    /// Bad names; no home directory.
    pub fn resolve(flags: &Flags, environment: Environment) -> Result<Config, Error> {
        let team = match flags.team.as_deref().or(environment.get("THRONG_TEAM")) {
            Some(name) => Some(TeamName::new(name)?),
            None => None,
        };
        let me = match environment.get("THRONG_AGENT") {
            Some(name) => AgentName::new(name)?,
            None => AgentName::lead(),
        };
        let lock_budget = match environment.get("THRONG_LOCK_BUDGET") {
            Some(text) => duration(text).map_err(|e| Error::Setting(format!("THRONG_LOCK_BUDGET: {e}")))?,
            None => crate::sys::lock_dir::DEFAULT_BUDGET,
        };
        Ok(Config {
            layout: environment.layout()?,
            team_flag: flags.team.as_ref().and(team.clone()),
            team,
            me,
            json: flags.json,
            log_level: flags.log_level.clone().or_else(|| environment.get("THRONG_LOG").map(str::to_owned)),
            lock_budget,
            environment,
        })
    }
}

/// Reads a span of time: `500ms`, `60` (seconds), `90s`, `10m`, `1h 30m`.
///
/// # Errors
/// Says which forms there are.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = match text.trim().parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => text.trim().parse::<jiff::SignedDuration>().ok().and_then(|d| d.try_into().ok()),
    };
    parsed.ok_or_else(|| format!("'{text}' is no span of time: write for example 500ms, 90s, 10m or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        assert_eq!(duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("soon").is_err() && duration("-5s").is_err() && duration("").is_err());
    }
}
