//! What a member's program is, how it starts, how mail reaches it, and how its state is seen. One file per kind of
//! program.

pub mod claude;
mod command;
pub mod letter;
pub mod table;
mod throng;

use crate::config::Environment;
use crate::config::plan::{AgentOptions, CLAUDE, COMMAND, MemberPlan, THRONG};
use crate::protocol::{AgentName, TeamName};
use crate::store::{LaunchFile, MailWay, SessionRecord, Sight};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that cannot be started as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such program.
    #[error("there is no program '{program}'{hint}")]
    NoProgram {
        /// As it was written.
        program: String,
        /// Where it was looked for.
        hint: String,
    },
    /// No such working directory.
    #[error("the working directory {} is not there", .0.display())]
    NoDirectory(PathBuf),
    /// It is there, but not what we need.
    #[error("{0}")]
    Unfit(String),
    /// It would ask a person before it does anything.
    #[error(transparent)]
    Unsettled(#[from] claude::Unsettled),
}

/// A member whose program is to be prepared.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What it is.
    pub plan: &'a MemberPlan,
    /// The team's working directory.
    pub cwd: &'a Path,
    /// Our environment.
    pub environment: &'a Environment,
    /// The variables that throng sets.
    pub given: &'a BTreeMap<String, String>,
}

/// What `tend` is to execute.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The program, absolute.
    pub program: PathBuf,
    /// Its name and arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// Its conversation, where its program keeps one.
    pub session: Option<SessionRecord>,
}

/// A member as its program is told of it, once it has its row.
#[derive(Debug, Clone, Copy)]
pub struct Introduction<'a> {
    /// Its team.
    pub team: &'a TeamName,
    /// Its name.
    pub agent: &'a AgentName,
    /// Its colour.
    pub color: &'a str,
    /// Session id of the team's leader.
    pub lead_session: &'a str,
    /// Value of `--lead-verify-key`.
    pub key: &'a str,
    /// What it is told besides.
    pub options: &'a AgentOptions,
}

/// Finds the program and settles directory and environment.
///
/// # Errors
/// The program or the directory is not there, or the program would ask a person first.
pub fn prepare(wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    match wanted.plan.driver.as_str() {
        CLAUDE => claude::prepare(wanted),
        THRONG => throng::prepare(wanted),
        _ if wanted.plan.entry.is_some() => table::prepare(wanted),
        _ => command::prepare(wanted),
    }
}

/// How mail reaches a driver's program. Claude Code reads its inbox itself and removes what it has read (protocol II.3).
pub fn mail_way(driver: &str) -> MailWay {
    match driver {
        COMMAND => MailWay::Taken,
        CLAUDE => MailWay::Removed,
        THRONG => MailWay::Read,
        _ => MailWay::Typed,
    }
}

/// Whether a driver can see what its program is doing.
pub fn sees(driver: &str) -> bool {
    driver != COMMAND
}

/// Whether a driver's program tells `tend` itself what it is doing.
pub fn tells(driver: &str) -> bool {
    driver == THRONG
}

/// Completes the arguments of a program that is told who it is.
pub fn introduce(session: &mut SessionRecord, who: &Introduction<'_>) {
    claude::introduce(session, who);
}

/// What `tend` executes now: an agent that has a conversation goes on with it.
pub fn argv(launch: &LaunchFile) -> Vec<String> {
    match &launch.session {
        Some(session) => claude::argv(launch, session),
        None => launch.argv.clone(),
    }
}

/// What a driver's program is doing, as its screen tells; `None` for a screen that says nothing.
pub fn sight(driver: &str, screen: &str) -> Option<Sight> {
    if driver == CLAUDE { claude::sight(screen) } else { None }
}

/// Directory and environment of any program.
fn surroundings(wanted: &Wanted<'_>) -> Result<(PathBuf, BTreeMap<String, String>), Error> {
    let cwd = wanted.cwd.join(&wanted.plan.cwd);
    let cwd: PathBuf = std::path::absolute(&cwd).unwrap_or(cwd).components().collect();
    if !cwd.is_dir() {
        return Err(Error::NoDirectory(cwd));
    }
    // Through links as the user wrote them, unless only the system can say where `..` leads.
    let has_parent = cwd.components().any(|c| c == std::path::Component::ParentDir);
    let cwd = if has_parent { cwd.canonicalize().unwrap_or(cwd) } else { cwd };
    let mut env = wanted.environment.for_member(&wanted.plan.inherit);
    env.extend(wanted.plan.env.clone());
    env.extend(wanted.given.clone());
    // Named, even the usual directory is another to Claude Code: it looks for its settings in it, not beside it.
    if !wanted.environment.names_config_dir() && !wanted.plan.env.contains_key("HOME") {
        env.remove("CLAUDE_CONFIG_DIR");
    }
    let bin = wanted.given.get("PATH").cloned();
    let path = wanted.plan.env.get("PATH").map_or(wanted.environment.search_path(), String::as_str);
    env.insert("PATH".to_owned(), bin.map_or(path.to_owned(), |bin| format!("{bin}:{path}")));
    Ok((cwd, env))
}

/// Where a program that we start ourselves in `cwd` would be found.
///
/// # Errors
/// Nowhere.
pub fn locate(word: &str, cwd: &Path, environment: &Environment) -> Result<PathBuf, Error> {
    find(word, cwd, environment.search_path())
}

/// Finds a program as a shell would.
fn find(word: &str, cwd: &Path, path: &str) -> Result<PathBuf, Error> {
    let missing = |hint: String| Error::NoProgram { program: word.to_owned(), hint };
    if word.contains('/') {
        let program = cwd.join(word);
        return match program.metadata() {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(program),
            Ok(_) => Err(missing(": it is there, but cannot be executed".to_owned())),
            Err(_) => Err(missing(format!(" in {}", cwd.display()))),
        };
    }
    let is_program =
        |p: &PathBuf| p.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let found = std::env::split_paths(path).map(|dir| cwd.join(dir).join(word)).find(is_program);
    found.ok_or_else(|| missing(format!(" on PATH ({path})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_q027_a_missing_program_is_told_before_anything_starts() {
        assert!(find("sh", Path::new("/"), "/usr/bin:/bin").unwrap().is_absolute());
        let error = find("no-such-program", Path::new("/"), "/usr/bin:/bin").unwrap_err().to_string();
        assert_eq!(error, "there is no program 'no-such-program' on PATH (/usr/bin:/bin)");
        assert!(find("./x", Path::new("/"), "/bin").unwrap_err().to_string().contains("in /"));
        assert!(
            find("/etc/passwd", Path::new("/"), "/bin")
                .unwrap_err()
                .to_string()
                .contains("cannot be executed")
        );
    }
}
