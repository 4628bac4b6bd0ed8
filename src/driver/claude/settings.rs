//! What Claude Code asks a person before it does anything, and where it keeps the answers: `.claude.json` in its
//! configuration directory (beside the directory, if that is the default one). Observed (II.0): an unanswered question
//! blocks a teammate before its first poll.

use crate::driver::Error;
use crate::sys::{self, atomic_file, lock_dir};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So many last characters of an API key stand for it.
const KEY_CHARS: usize = 20;
/// Longest wait for Claude Code's own writing of the file.
const LOCK_WITHIN: Duration = Duration::from_secs(15);

/// The file with the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    path: PathBuf,
    config_dir: PathBuf,
}

/// An answer that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The first-run wizard is done with.
    Onboarding,
    /// This directory is trusted.
    Trust(PathBuf),
    /// The API key of the environment may be used.
    Key {
        /// Its last characters: so it is known in the file.
        end: String,
        /// The user has said no to it.
        was_rejected: bool,
    },
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::Onboarding => write!(f, "its first-run wizard was not gone through"),
            Want::Trust(dir) => write!(f, "the directory {} is not trusted", dir.display()),
            Want::Key { end, was_rejected } => {
                let what = if *was_rejected { "was rejected by you before" } else { "is not approved" };
                write!(f, "the ANTHROPIC_API_KEY that ends in ...{} {what}", last(end, 4))
            }
        }
    }
}

/// Claude Code would ask a person first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// Where the answers belong.
    pub settings: Settings,
    /// Those that are missing.
    pub wants: Vec<Want>,
}

impl std::error::Error for Unsettled {}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wants: Vec<String> = self.wants.iter().map(Want::to_string).collect();
        write!(
            f,
            "Claude Code would ask a person first: {}. Start 'claude' there once and answer it, or give --trust, which \
             writes the answers into {}",
            wants.join("; "),
            self.settings.path.display()
        )
    }
}

impl Settings {
    /// Of a program with this environment.
    ///
    /// # Errors
    /// There is neither a home directory nor a configuration directory.
    pub(super) fn of(env: &BTreeMap<String, String>) -> Result<Settings, Error> {
        let dir = |key: &str| env.get(key).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        match (dir("CLAUDE_CONFIG_DIR"), dir("HOME")) {
            (Some(config_dir), _) => Ok(Settings { path: config_dir.join(".claude.json"), config_dir }),
            (None, Some(home)) => {
                Ok(Settings { path: home.join(".claude.json"), config_dir: home.join(".claude") })
            }
            (None, None) => {
                Err(Error::Unfit("Claude Code has neither HOME nor CLAUDE_CONFIG_DIR".to_owned()))
            }
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where transcripts lie, one folder a directory.
    pub(super) fn projects_dir(&self) -> PathBuf {
        self.config_dir.join("projects")
    }

    /// Whether a program in `cwd` with this environment would ask nothing.
    ///
    /// # Errors
    /// [`Error::Unsettled`]; the file cannot be read.
    pub(super) fn check(&self, cwd: &Path, env: &BTreeMap<String, String>) -> Result<(), Error> {
        let known = self.read().map_err(Error::Unfit)?;
        let mut wants = Vec::new();
        if known["hasCompletedOnboarding"] != json!(true) {
            wants.push(Want::Onboarding);
        }
        // It asks the system where it is.
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let is_trusted =
            |dir: &Path| known["projects"][&*dir.to_string_lossy()]["hasTrustDialogAccepted"] == json!(true);
        if !cwd.ancestors().any(is_trusted) {
            wants.push(Want::Trust(cwd));
        }
        if let Some(key) = env.get("ANTHROPIC_API_KEY").filter(|key| !key.is_empty()) {
            let end = last(key, KEY_CHARS);
            let approved = known["customApiKeyResponses"]["approved"].as_array();
            if !approved.is_some_and(|all| all.iter().any(|known| known == &end)) {
                let rejected = known["customApiKeyResponses"]["rejected"].as_array();
                let was_rejected = rejected.is_some_and(|all| all.iter().any(|known| known == &end));
                wants.push(Want::Key { end, was_rejected });
            }
        }
        if wants.is_empty() { Ok(()) } else { Err(Unsettled { settings: self.clone(), wants }.into()) }
    }

    /// Writes these answers, and leaves everything else in the file as it is.
    ///
    /// # Errors
    /// The file is damaged, or cannot be locked or written: it is as it was.
    pub fn settle(&self, wants: &[Want]) -> Result<(), Error> {
        let failed = |e: sys::Error| Error::Unfit(e.to_string());
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir).map_err(sys::failed("create directory", dir)).map_err(failed)?;
        }
        // A link to the file stays a link.
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let lock = lock_dir::acquire(&path, LOCK_WITHIN).map_err(failed)?;
        let mut known = self.read().map_err(Error::Unfit)?;
        for want in wants {
            match want {
                Want::Onboarding => known["hasCompletedOnboarding"] = json!(true),
                Want::Trust(dir) => {
                    let project = object(object(&mut known, "projects"), &dir.to_string_lossy());
                    project["hasTrustDialogAccepted"] = json!(true);
                }
                Want::Key { end, .. } => {
                    let answers = object(&mut known, "customApiKeyResponses");
                    if !answers["approved"].is_array() {
                        answers["approved"] = json!([]);
                    }
                    if let Some(rejected) = answers.get_mut("rejected").and_then(Value::as_array_mut) {
                        rejected.retain(|key| key != end);
                    }
                    if let Some(approved) = answers["approved"].as_array_mut() {
                        approved.push(json!(end));
                    }
                }
            }
        }
        let bytes = serde_json::to_vec_pretty(&known).map_err(|e| Error::Unfit(e.to_string()))?;
        lock.verify().map_err(failed)?;
        atomic_file::write(&path, &bytes, atomic_file::PRIVATE).map_err(failed)
    }

    /// What the file says; an empty object if there is none.
    fn read(&self) -> Result<Value, String> {
        let bytes = atomic_file::read_optional(&self.path).map_err(|e| e.to_string())?;
        let Some(bytes) = bytes.filter(|bytes| !bytes.trim_ascii().is_empty()) else {
            return Ok(Value::Object(Map::new()));
        };
        match serde_json::from_slice(&bytes) {
            Ok(known @ Value::Object(_)) => Ok(known),
            Ok(_) => Err(format!(
                "{} holds no JSON object: Claude Code's settings are damaged",
                self.path.display()
            )),
            Err(e) => Err(format!("{} is damaged: {e}", self.path.display())),
        }
    }
}

/// The object under a key, made if need be.
fn object<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    if !parent[key].is_object() {
        parent[key] = Value::Object(Map::new());
    }
    &mut parent[key]
}

fn last(text: &str, count: usize) -> String {
    let skip = text.chars().count().saturating_sub(count);
    text.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(dir: &Path, text: &str) -> Settings {
        let settings = Settings { path: dir.join(".claude.json"), config_dir: dir.to_owned() };
        std::fs::write(&settings.path, text).unwrap();
        settings
    }

    fn wants(settings: &Settings, cwd: &str, env: &BTreeMap<String, String>) -> Vec<Want> {
        match settings.check(Path::new(cwd), env) {
            Ok(()) => Vec::new(),
            Err(Error::Unsettled(unsettled)) => unsettled.wants,
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn what_is_missing_is_told_and_only_that_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"zeta":1.50,"big":12345678901234567890,"projects":{"/p":{"allowedTools":["x"]}},"customApiKeyResponses":{"rejected":["-0123456789abcdefghi"]},"alpha":null}"#;
        let settings = settings(dir.path(), text);
        let env = BTreeMap::from([("ANTHROPIC_API_KEY".to_owned(), "sk-k-0123456789abcdefghi".to_owned())]);
        let key = "0123456789abcdefghi".to_owned();
        let all = wants(&settings, "/p/sub", &env);
        assert_eq!(
            all,
            [
                Want::Onboarding,
                Want::Trust("/p/sub".into()),
                Want::Key { end: format!("-{key}"), was_rejected: true }
            ]
        );
        settings.settle(&[Want::Onboarding, Want::Trust("/p".into()), all[2].clone()]).unwrap();
        assert_eq!(wants(&settings, "/p/sub", &env), [], "a parent's trust counts");
        assert_eq!(wants(&settings, "/q", &env), [Want::Trust("/q".into())]);
        let after: Value = serde_json::from_slice(&std::fs::read(&settings.path).unwrap()).unwrap();
        assert_eq!(after["projects"]["/p"]["allowedTools"], json!(["x"]));
        assert_eq!(after["big"], json!(12_345_678_901_234_567_890_u64));
        assert_eq!(after.as_object().unwrap().keys().take(2).collect::<Vec<_>>(), ["zeta", "big"]);
    }

    #[test]
    fn a_damaged_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "{\"a\":");
        assert!(settings.settle(&[Want::Onboarding]).unwrap_err().to_string().contains("is damaged"));
        assert_eq!(std::fs::read_to_string(&settings.path).unwrap(), "{\"a\":");
    }
}
