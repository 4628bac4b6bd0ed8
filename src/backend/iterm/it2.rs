//! Calls of `it2` (PyPI), the command line over iTerm2's scripting API. Each starts an interpreter and connects anew:
//! about 0.3 s, and several seconds on a busy Mac. What it prints on standard error is no failure; its exit status is.

use super::super::{Error, Result};
use super::spot::Spot;
use crate::config::Environment;
use crate::sys::run;
use serde_json::Value;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Longest wait for an answer. A question that iTerm2 asks the user makes `it2` wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Its exit status for a session that is not there.
const NOT_FOUND: i32 = 3;
/// What it needs of our environment: to be found, to find iTerm2's socket, and to be let in.
const INHERITED: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "ITERM2_COOKIE",
    "ITERM2_KEY",
    "IT2_APP_PATH",
    "IT2_SUITE",
    "IT2_CONFIG_PATH",
];
/// What to do where it does not work.
const WAY_OUT: &str = "install it2 ('pipx install it2') and turn on iTerm2 > Settings > General > Magic > Enable Python API, \
                       or choose another backend";

/// One session as `it2 session list` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// Its UUID.
    pub(super) id: String,
    /// Columns of characters.
    pub(super) cols: usize,
    /// Rows of characters.
    pub(super) rows: usize,
}

/// One row of the list; one without an id is no session.
fn session(row: &Value) -> Option<Session> {
    let cells = |key: &str| row[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    Some(Session { id: row["id"].as_str()?.to_owned(), cols: cells("cols"), rows: cells("rows") })
}

/// Why a call did not do what it should.
#[derive(Debug)]
pub(super) enum Fault {
    /// The session is not there.
    Gone,
    /// Anything else.
    Other(Error),
}

/// The program.
#[derive(Debug, Clone)]
pub(super) struct It2 {
    env: Vec<(String, String)>,
}

impl It2 {
    pub(super) fn of(environment: &Environment) -> It2 {
        let inherited = |key: &&str| Some(((*key).to_owned(), environment.get(key)?.to_owned()));
        It2 { env: INHERITED.iter().filter_map(inherited).collect() }
    }

    /// Whether it works, and the sessions that are there. Slow, so asked once for the life of this process (probe B03).
    pub(super) fn check(&self) -> Result<&'static [Session]> {
        static VERDICT: OnceLock<std::result::Result<Vec<Session>, String>> = OnceLock::new();
        let ask = || self.sessions().map_err(|e| format!("{e}; {WAY_OUT}"));
        VERDICT.get_or_init(ask).as_deref().map_err(|why| Error::Unusable(why.clone()))
    }

    /// All sessions of all windows.
    pub(super) fn sessions(&self) -> Result<Vec<Session>> {
        let answer = self.ask(&["session", "list", "--json"])?;
        let failed =
            |answer: String| Error::Refused { deed: "it2 does not list sessions".to_owned(), answer };
        // A warning may stand in front.
        let list = answer.find("[\n").or_else(|| answer.find("[]")).map_or("", |at| &answer[at..]);
        let list: Vec<Value> =
            serde_json::from_str(list.trim()).map_err(|e| failed(format!("{e}: {}", answer.trim())))?;
        Ok(list.iter().filter_map(session).collect())
    }

    /// Whether a session is there.
    pub(super) fn has(&self, session: &str) -> Result<bool> {
        Ok(self.sessions()?.iter().any(|s| s.id == session))
    }

    /// Takes a spot and answers the new one's id.
    pub(super) fn split(&self, spot: &Spot) -> std::result::Result<String, Fault> {
        let mut words = vec!["session", "split", "-s", &spot.session];
        if spot.is_beside {
            words.push("-v");
        }
        let answer = self.call(&words)?;
        let id = answer.lines().find_map(|line| line.trim().strip_prefix("Created new pane: "));
        let named = |id: &&str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        id.map(str::trim).filter(named).map(str::to_owned).ok_or_else(|| {
            Fault::Other(Error::Refused { deed: "it2 named no new session".to_owned(), answer })
        })
    }

    /// Types a line into a session, and Return.
    pub(super) fn type_line(&self, session: &str, line: &str) -> std::result::Result<(), Fault> {
        self.call(&["session", "run", "-s", session, line]).map(drop)
    }

    /// Closes a session. `-f` answers the question of `it2`, not one of iTerm2: nothing may run there any more.
    pub(super) fn close(&self, session: &str) -> std::result::Result<(), Fault> {
        self.call(&["session", "close", "-f", "-s", session]).map(drop)
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        self.call(words).map_err(|fault| match fault {
            Fault::Other(e) => e,
            Fault::Gone => Error::Refused { deed: "it2 refused".to_owned(), answer: "not found".to_owned() },
        })
    }

    fn call(&self, words: &[&str]) -> std::result::Result<String, Fault> {
        let mut command = Command::new("it2");
        command.args(words).env_clear().envs(self.env.iter().cloned());
        let answer = run::answer_within(command, ANSWER_WITHIN).map_err(|e| Fault::Other(e.into()))?;
        if answer.status.success() {
            if !answer.stderr.is_empty() {
                tracing::info!(words = words.join(" "), stderr = answer.stderr, "it2 warned");
            }
            return Ok(answer.stdout);
        }
        if answer.status.code() == Some(NOT_FOUND) {
            return Err(Fault::Gone);
        }
        let deed = format!("it2 {} failed ({})", words[..2.min(words.len())].join(" "), answer.status);
        Err(Fault::Other(Error::Refused { deed, answer: answer.stderr }))
    }
}
