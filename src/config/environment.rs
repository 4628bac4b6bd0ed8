//! The process environment, read once.

use super::Error;
use crate::protocol::Layout;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Variables that would make git in a member work on the repository of whoever started us (case C056).
const GIT_LOCAL: [&str; 15] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
];
/// What describes the place of whoever started us, not the member's.
const PLACE: [&str; 11] = [
    "TMUX",
    "TMUX_PANE",
    "STY",
    "ITERM_SESSION_ID",
    "TERM",
    "COLUMNS",
    "LINES",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
];

/// Environment, program and directory of this process.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    vars: BTreeMap<OsString, OsString>,
    /// The program that runs.
    pub program: PathBuf,
    /// The current directory.
    pub cwd: PathBuf,
    /// The arguments, the program's name first.
    pub args: Vec<OsString>,
}

impl Environment {
    /// Of this process.
    ///
    /// # Errors
    /// The current directory or our own program is gone.
    #[allow(clippy::disallowed_methods)]
    pub fn of_this_process() -> Result<Environment, Error> {
        let lost = |what: &str| format!("{what} cannot be found");
        Ok(Environment {
            vars: std::env::vars_os().collect(),
            args: std::env::args_os().collect(),
            program: std::env::current_exe()
                .map_err(|e| Error::Setting(format!("{}: {e}", lost("our own program"))))?,
            cwd: std::env::current_dir()
                .map_err(|e| Error::Setting(format!("{}: {e}", lost("the current directory"))))?,
        })
    }

    /// A variable that is set, not empty, and text.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.vars.get(&OsString::from(key)).and_then(|v| v.to_str()).filter(|v| !v.is_empty())
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.vars.get(&OsString::from(key)).filter(|v| !v.is_empty()).map(|v| self.cwd.join(v))
    }

    /// Where files lie.
    ///
    /// # Errors
    /// Neither a home directory nor the variables that replace it.
    pub(super) fn layout(&self) -> Result<Layout, Error> {
        let home = |below: &str| {
            self.path("HOME").map(|home| home.join(below)).ok_or_else(|| {
                Error::Setting(
                    "HOME is not set: set it, or CLAUDE_CONFIG_DIR and THRONG_STATE_DIR".to_owned(),
                )
            })
        };
        let config_dir = self.path("CLAUDE_CONFIG_DIR").map_or_else(|| home(".claude"), Ok)?;
        let state_dir = self
            .path("THRONG_STATE_DIR")
            .or_else(|| self.path("XDG_STATE_HOME").map(|dir| dir.join("throng")))
            .map_or_else(|| home(".local/state/throng"), Ok)?;
        let runtime_dir = match self.path("XDG_RUNTIME_DIR") {
            Some(dir) => dir.join("throng"),
            None => self
                .path("TMPDIR")
                .unwrap_or_else(|| PathBuf::from("/tmp"))
                .join(format!("throng-{}", nix::unistd::getuid())),
        };
        Ok(Layout { config_dir, state_dir, runtime_dir })
    }

    /// Whether colour is wanted on a terminal.
    pub fn wants_color(&self) -> bool {
        self.get("NO_COLOR").is_none() && self.get("TERM") != Some("dumb")
    }

    /// What a member inherits: our environment without what describes our own place or repository. Entries that are
    /// not text are left out.
    pub fn for_member(&self) -> BTreeMap<String, String> {
        self.vars
            .iter()
            .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .filter(|(key, _)| {
                let key = key.as_str();
                !GIT_LOCAL.contains(&key) && !PLACE.contains(&key) && !key.starts_with("THRONG_LOG")
            })
            .collect()
    }

    /// `PATH`, or the system's usual one.
    pub fn search_path(&self) -> &str {
        self.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin")
    }
}

#[cfg(test)]
impl Environment {
    /// An environment for tests.
    pub fn fake(vars: &[(&str, &str)]) -> Environment {
        Environment {
            vars: vars.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect(),
            program: PathBuf::from("/bin/throng"),
            cwd: PathBuf::from("/w"),
            args: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_are_obeyed() {
        let plain = Environment::fake(&[("HOME", "/h")]).layout().unwrap();
        assert_eq!(plain.config_dir, PathBuf::from("/h/.claude"));
        assert_eq!(plain.state_dir, PathBuf::from("/h/.local/state/throng"));
        let set = Environment::fake(&[
            ("CLAUDE_CONFIG_DIR", "c"),
            ("THRONG_STATE_DIR", "/s"),
            ("XDG_RUNTIME_DIR", "/r"),
        ]);
        let set = set.layout().unwrap();
        assert_eq!(set.config_dir, PathBuf::from("/w/c"));
        assert_eq!(set.state_dir, PathBuf::from("/s"));
        assert_eq!(set.runtime_dir, PathBuf::from("/r/throng"));
        assert!(Environment::fake(&[]).layout().is_err());
    }

    #[test]
    fn case_c056_a_member_does_not_inherit_our_repository_or_pane() {
        let env = Environment::fake(&[("GIT_DIR", "x"), ("TMUX_PANE", "%1"), ("KEEP", "1"), ("PATH", "/p")]);
        let keys: Vec<String> = env.for_member().into_keys().collect();
        assert_eq!(keys, ["KEEP", "PATH"]);
    }
}
