//! The process environment, read once.

use super::Error;
use crate::protocol::Layout;
use crate::sys::fault;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// What a member inherits from whoever starts it, besides what its plan names; `*` stands for any ending. Left out on
/// purpose: what describes our own place (terminal, directory, multiplexer) or repository (case C056), and what nobody
/// has named and might be a secret.
const INHERITED: [&str; 57] = [
    // Who and where the user is.
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "TMPDIR",
    "XDG_*",
    "HOSTNAME",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    // How things are shown and said.
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "COLORTERM",
    "NO_COLOR",
    "CLICOLOR*",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "LESS",
    "CI",
    // How the network is reached.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_*",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    // Tools that agents work with.
    "CARGO_*",
    "RUST*",
    "NODE_*",
    "NPM_*",
    "npm_config_*",
    "PYTHON*",
    "VIRTUAL_ENV",
    "PYENV_*",
    "GO*",
    "JAVA_HOME",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_SSH*",
    "PKG_CONFIG_PATH",
    // Model services and agent programs.
    "ANTHROPIC_*",
    "CLAUDE_*",
    "OPENAI_*",
    "GEMINI_*",
    "GOOGLE_*",
    "AWS_*",
    // Ours.
    "THRONG_*",
];
/// Of those, what is this process's own affair, or that of a Claude Code session above us: its identity, its task list,
/// whom it is paid by (protocol II.5.1).
const NOT_INHERITED: [&str; 19] = [
    "THRONG_LOG",
    "THRONG_FAULT",
    "THRONG_LAUNCH",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_CONFIG_DIR",
    "CLAUDE_CODE_ATTRIBUTION_PROJECT",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS",
    "CLAUDE_CODE_SESSION_*",
    "CLAUDE_CODE_SPEND_PROJECT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_TASK_LIST_ID",
    "CLAUDE_CODE_TEAMMATE_COMMAND",
    "CLAUDE_CODE_USER_DELEGATED_*",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_*",
    "CLAUDE_SESSION_*",
];

/// Secrets with which the model service is asked: a command that the model chose has no business with them.
const MODEL_SECRETS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "THRONG_API_KEY_COMMAND"];

/// Whether a variable's name fits a word of an allow-list.
fn fits(word: &str, key: &str) -> bool {
    word.strip_suffix('*').map_or(word == key, |start| key.starts_with(start))
}

/// Words in a variable's name that say that its value is a secret.
const SECRET_WORDS: [&str; 15] = [
    "PASS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "PAT",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "HEADERS",
    "DSN",
    "PIN",
    "JWT",
];

/// Whether a variable's name says that its value is a secret.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_uppercase();
    let is_known = matches!(key.as_str(), "SSH_AUTH_SOCK" | "PWD" | "OLDPWD");
    let has_part = ["KEY", "TOKEN", "SECRET"].iter().any(|part| key.contains(part));
    !is_known && (has_part || key.split('_').any(|word| SECRET_WORDS.contains(&word)))
}

/// A variable's value as it may be shown: not at all where its name says that it is a secret, and without the password
/// of an address.
pub fn redacted(key: &str, value: &str) -> String {
    if is_secret(key) {
        return "(secret)".to_owned();
    }
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) if rest[..at].contains(':') => format!("{scheme}://(secret){}", &rest[at..]),
        _ => value.to_owned(),
    }
}

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
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn of_this_process() -> Result<Environment, Error> {
        let environment = Environment {
            vars: std::env::vars_os().collect(),
            args: std::env::args_os().collect(),
            program: std::env::current_exe()
                .map_err(|e| Error::Setting(format!("our own program cannot be found: {e}")))?,
            // Most verbs need none: one that is gone shows when something is looked for in it.
            cwd: std::env::current_dir()
                .unwrap_or_else(|_| std::env::var_os("PWD").map_or(PathBuf::from("/"), PathBuf::from)),
        };
        if let Some(step) = environment.get("THRONG_FAULT") {
            fault::arm(step);
        }
        Ok(environment)
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

    /// The user's folder for configuration: `$XDG_CONFIG_HOME`, else `~/.config`.
    pub(super) fn config_home(&self) -> Option<PathBuf> {
        self.path("XDG_CONFIG_HOME").or_else(|| self.path("HOME").map(|home| home.join(".config")))
    }

    /// The kind of machine: `linux x86_64`.
    pub fn system() -> String {
        format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
    }

    /// The home directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// What the commands of an agent of ours inherit: all but what is a secret of the model service.
    pub fn for_commands(&self) -> Vec<(OsString, OsString)> {
        let is_ours = |key: &OsString| {
            key.to_str().is_some_and(|key| MODEL_SECRETS.contains(&key) || key == "THRONG_FAULT")
        };
        self.vars.iter().filter(|(key, _)| !is_ours(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// Whether colour is wanted on a terminal.
    pub fn wants_color(&self) -> bool {
        self.get("NO_COLOR").is_none() && self.get("TERM") != Some("dumb")
    }

    /// What a member inherits: what is on the allow-list, and what `also` names (`*` at the end stands for any ending).
    /// Entries that are not text are left out.
    pub fn for_member(&self, also: &[String]) -> BTreeMap<String, String> {
        let allowed = |key: &str| {
            INHERITED.iter().any(|word| fits(word, key)) && !NOT_INHERITED.iter().any(|word| fits(word, key))
        };
        self.vars
            .iter()
            .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .filter(|(key, _)| allowed(key) || also.iter().any(|word| fits(word, key)))
            .collect()
    }

    /// Whether the user has said where Claude Code's configuration lies.
    pub fn names_config_dir(&self) -> bool {
        self.path("CLAUDE_CONFIG_DIR").is_some()
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
    fn case_c056_a_member_inherits_the_allow_list_and_what_was_named() {
        let env = Environment::fake(&[
            ("GIT_DIR", "x"),
            ("TMUX_PANE", "%1"),
            ("MY_A", "1"),
            ("MY_B", "2"),
            ("PATH", "/p"),
            ("LC_ALL", "C"),
            ("THRONG_LOG", "debug"),
            ("THRONG_TEAM", "t"),
        ]);
        let keys = |also: &[&str]| {
            let also: Vec<String> = also.iter().map(|w| (*w).to_owned()).collect();
            env.for_member(&also).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(keys(&[]), ["LC_ALL", "PATH", "THRONG_TEAM"]);
        assert_eq!(keys(&["MY_*"]), ["LC_ALL", "MY_A", "MY_B", "PATH", "THRONG_TEAM"]);
        assert_eq!(keys(&["MY_B", "ABSENT"]), ["LC_ALL", "MY_B", "PATH", "THRONG_TEAM"]);
    }

    #[test]
    fn probe_k06_secrets_are_known_by_their_names() {
        let secrets = [
            "ANTHROPIC_API_KEY",
            "gh_token",
            "DB_PASSWORD",
            "DB_PASS",
            "GITHUB_PAT",
            "ANTHROPIC_CUSTOM_HEADERS",
        ];
        assert!(secrets.into_iter().all(is_secret));
        assert!(!["PATH", "PWD", "SSH_AUTH_SOCK", "HOME", "GIT_AUTHOR_NAME"].into_iter().any(is_secret));
        assert_eq!(redacted("HTTPS_PROXY", "http://me:pw@host:1/x"), "http://(secret)@host:1/x");
        assert_eq!(redacted("URL", "http://host/a@b:c"), "http://host/a@b:c");
    }
}
