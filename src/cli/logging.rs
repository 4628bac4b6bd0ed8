//! Structured logs (I8): one file of JSON lines per process. Each line is one write, so nothing waits to be flushed.

use super::error::{Failure, Result};
use crate::config::Config;
use crate::store::TeamStore;
use crate::sys::{atomic_file, failed};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;

/// Logs of verbs that were asked to log, together.
const VERBS: &str = "cli.log.jsonl";

fn open(path: &Path) -> Result<File> {
    if let Some(dir) = path.parent() {
        atomic_file::make_private_dir(dir)?;
    }
    Ok(OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("open log", path))?)
}

fn filter(level: &str) -> Result<EnvFilter> {
    let wrong =
        |e| Failure::usage(format!("--log-level {level}: {e}: say error, warn, info, debug or trace"));
    EnvFilter::try_new(level).map_err(wrong)
}

/// Checks the wanted level before anything is made.
///
/// # Errors
/// The level is none.
pub fn check(config: &Config) -> Result {
    config.log_level.as_deref().map_or(Ok(()), |level| filter(level).map(drop))
}

/// Logs to `path` from here on, at `level` or by a filter.
///
/// # Errors
/// The file cannot be opened; the level is none.
pub fn to_file(path: &Path, level: &str) -> Result {
    let filter = filter(level)?;
    let log = tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(Mutex::new(open(path)?));
    // A second logger in one process is a mistake of ours that shows in tests.
    let _ = log.try_init();
    Ok(())
}

/// Logs a leader, always.
///
/// # Errors
/// As [`to_file`].
pub fn for_leader(config: &Config, team: &TeamStore) -> Result {
    to_file(&team.state().logs().join("leader.log"), config.log_level.as_deref().unwrap_or("info"))
}

/// Logs this verb, if it was asked for.
///
/// # Errors
/// As [`to_file`].
pub fn for_verb(config: &Config) -> Result {
    match &config.log_level {
        Some(level) => to_file(&config.layout.state_dir.join(VERBS), level),
        None => Ok(()),
    }
}
