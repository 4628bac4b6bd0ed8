//! Calls of the `tmux` program: typed commands, an explicit socket, bounded in time. Only `%N`, `@N` and `$N` ids and exact
//! names are ever addressed.

use super::super::{Error, Result};
use crate::config::Environment;
use crate::sys::{run, socket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tmux_interface::{Tmux, TmuxCommand, TmuxCommands};

/// Longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Oldest version that can do what we ask for.
const VERSION_MIN: (u32, u32) = (3, 1);
/// What a server that we start, and its clients, inherit from us: nothing that is secret.
const INHERITED: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// A tmux server, whether or not it runs.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) socket: PathBuf,
    env: Vec<(String, String)>,
}

impl Server {
    pub(super) fn at(socket: &Path, environment: &Environment) -> Server {
        let inherited = |key: &&str| Some(((*key).to_owned(), environment.get(key)?.to_owned()));
        Server { socket: socket.to_owned(), env: INHERITED.iter().filter_map(inherited).collect() }
    }

    /// The same circumstances with another socket.
    pub(super) fn with_socket(&self, socket: &Path) -> Server {
        Server { socket: socket.to_owned(), env: self.env.clone() }
    }

    /// The program's version, if it is new enough.
    pub(super) fn check_version(&self) -> Result<String> {
        let mut command = Command::new("tmux");
        command.arg("-V").env_clear().envs(self.env.iter().cloned());
        let answer =
            run::answer_within(command, ANSWER_WITHIN).map_err(|e| Error::Unusable(format!("no {e}")))?;
        let word = answer.stdout.trim().trim_start_matches("tmux").trim().to_owned();
        match version(&word) {
            Some(version) if version >= VERSION_MIN => Ok(word),
            Some(_) => {
                let (major, minor) = VERSION_MIN;
                Err(Error::Unusable(format!("tmux {word} is too old: {major}.{minor} is needed")))
            }
            None => Err(Error::Unusable(format!("tmux tells no version: '{}'", answer.stdout.trim()))),
        }
    }

    /// Runs commands in one call and answers what they printed.
    pub(super) fn call<'a>(&self, commands: impl IntoIterator<Item = TmuxCommand<'a>>) -> Result<String> {
        let answer = self.try_call(commands)?;
        if answer.status.success() {
            return Ok(answer.stdout);
        }
        Err(Error::Refused { deed: "tmux refused".to_owned(), answer: answer.stderr })
    }

    /// Runs commands in one call; their failure is in the answer.
    pub(super) fn try_call<'a>(
        &self,
        commands: impl IntoIterator<Item = TmuxCommand<'a>>,
    ) -> Result<run::Answer> {
        let socket = self.socket.to_str().ok_or_else(|| {
            Error::Unusable(format!("the path of the tmux socket is not UTF-8: {}", self.socket.display()))
        })?;
        let mut list = TmuxCommands::new();
        for mut command in commands {
            command.not_use_alias().not_combine_short_flags();
            escape_last_semicolons(&mut command);
            list.push(command);
        }
        let mut command: Command = Tmux::new().force_utf8().socket_path(socket).commands(list).into_command();
        command.env_clear().envs(self.env.iter().cloned());
        Ok(run::answer_within(command, ANSWER_WITHIN)?)
    }

    /// Whether a server answers there.
    pub(super) fn is_running(&self) -> bool {
        // One that is too busy to answer is there all the same.
        self.socket.exists() && socket::has_listener(&self.socket)
    }
}

/// A `;` at the end of a word separates commands, whatever stands around it (case C023).
fn escape_last_semicolons(command: &mut TmuxCommand<'_>) {
    for word in command.args.iter_mut().flatten() {
        if let Some(body) = word.strip_suffix(';') {
            *word = format!("{body}\\;").into();
        }
    }
}

/// Major and minor of a version word: `3.3a`, `next-3.4`, `3.4-rc2`. Builds without a number count as the newest.
fn version(word: &str) -> Option<(u32, u32)> {
    if word.starts_with("master") || word.starts_with("openbsd-") {
        return Some((u32::MAX, 0));
    }
    let (major, rest) = word.trim_start_matches("next-").split_once('.')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_c037_odd_versions() {
        let words = ["2.9a", "3.0a", "3.3a", "next-3.4", "3.4-rc2"].map(version);
        assert_eq!(words, [Some((2, 9)), Some((3, 0)), Some((3, 3)), Some((3, 4)), Some((3, 4))]);
        assert!(version("openbsd-7.4") > Some((3, 4)) && version("master") > Some((3, 4)));
        assert_eq!((version(""), version("x")), (None, None));
    }
}
