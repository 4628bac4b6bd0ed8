//! The settings files of Claude Code, as far as throng obeys them: managed, local, project and user. They are read
//! leniently, since other programs own them too: what we do not know is left alone. But a field that we do know and that
//! is of a wrong type is an error that names file and field, so that no rule is lost in silence.

use super::{Environment, Error};
use crate::protocol::Layout;
use crate::protocol::inbox::{Damage, text};
use crate::sys::links;
use serde_json::{Map, Value};
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Where an administrator's settings lie on Linux.
const MANAGED: &str = "/etc/claude-code/managed-settings.json";

/// Whose settings they are; the first outranks the others where only one value can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The administrator's.
    Managed,
    /// Of this session alone: flags, answers of people.
    Session,
    /// The team's: allowed paths, a scratchpad.
    Team,
    /// The user's for one project, `.claude/settings.local.json`.
    Local,
    /// The project's, `.claude/settings.json`.
    Project,
    /// The user's, `settings.json` in the configuration directory.
    User,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Managed => "managed",
            Layer::Session => "session",
            Layer::Team => "team",
            Layer::Local => "local",
            Layer::Project => "project",
            Layer::User => "user",
        })
    }
}

/// A directory as it was given and where it leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dir {
    /// As it was given, absolute.
    pub given: PathBuf,
    /// With all links followed.
    pub real: PathBuf,
}

impl Dir {
    /// Follows the links of an absolute path.
    pub fn of(given: &Path) -> Dir {
        let real = links::followed(given);
        let climbs = given.components().any(|part| part == Component::ParentDir);
        // What `..` leads to depends on links.
        Dir { given: if climbs { real.clone() } else { given.components().collect() }, real }
    }
}

/// One file.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    /// Whose.
    pub layer: Layer,
    /// Where.
    pub path: PathBuf,
    /// The directory that a path rule with one leading slash begins at.
    pub anchor: Dir,
    /// What is said of permissions.
    pub permissions: Permissions,
    /// The whole of it, for other rooms.
    pub values: Map<String, Value>,
}

/// The key `permissions` of a file, and what belongs to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Permissions {
    /// Rules that allow.
    pub allow: Vec<String>,
    /// Rules that ask.
    pub ask: Vec<String>,
    /// Rules that deny.
    pub deny: Vec<String>,
    /// The mode in which sessions begin.
    pub default_mode: Option<String>,
    /// Working directories besides the one of the start.
    pub additional_directories: Vec<Dir>,
    /// `bypassPermissions` is not to be had.
    pub disables_bypass: bool,
    /// No rule of others may allow anything. Counts in managed settings alone.
    pub allows_managed_rules_only: bool,
}

/// All files for one working directory, the highest rank first.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Those that are there.
    pub files: Vec<SettingsFile>,
    /// The working directory in which the session starts.
    pub start: Dir,
    /// The user's home.
    pub home: Dir,
}

impl Settings {
    /// Reads the files that count for a session that starts in `start`.
    ///
    /// # Errors
    /// A file that is there cannot be read or is no JSON object; a field of a wrong type.
    pub fn read(environment: &Environment, layout: &Layout, start: &Path) -> Result<Settings, Error> {
        let start = Dir::of(&environment.cwd.join(start));
        let home = Dir::of(Path::new(environment.get("HOME").unwrap_or("/")));
        let mut settings = Settings { files: Vec::new(), start, home };
        for path in managed_files(environment)? {
            let anchor = Dir::of(path.parent().unwrap_or(Path::new("/")));
            settings.add(Layer::Managed, &path, anchor)?;
        }
        let start = settings.start.clone();
        let mut local: Vec<PathBuf> = vec![start.given.join(".claude/settings.local.json")];
        // Kept out of git, so a worktree has none of its own: the main checkout's counts there too.
        local
            .extend(repositories(&start.real).into_iter().map(|dir| dir.join(".claude/settings.local.json")));
        for path in local {
            if !settings.files.iter().any(|file| links::followed(&file.path) == links::followed(&path)) {
                settings.add(Layer::Local, &path, start.clone())?;
            }
        }
        let project = start.given.join(".claude/settings.json");
        let user = layout.config_dir.join("settings.json");
        // In one's home directory they may be the same file.
        if links::followed(&project) != links::followed(&user) {
            settings.add(Layer::Project, &project, start)?;
        }
        settings.add(Layer::User, &user, Dir::of(&layout.config_dir))?;
        Ok(settings)
    }

    /// Reads a file, if it is there.
    fn add(&mut self, layer: Layer, path: &Path, anchor: Dir) -> Result<(), Error> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
            {
                return Ok(());
            }
            Err(source) => return Err(Error::Unreadable { path: path.to_owned(), source }),
        };
        let values = object(path, &bytes)?;
        let permissions =
            Reader { path, start: &self.start.given, home: &self.home.given }.permissions(&values)?;
        self.files.push(SettingsFile { layer, path: path.to_owned(), anchor, permissions, values });
        Ok(())
    }
}

/// The managed file, and those of the folder beside it in the order of their names.
fn managed_files(environment: &Environment) -> Result<Vec<PathBuf>, Error> {
    // For tests alone: nobody may shake off an administrator's settings by a variable.
    let instead = environment.get("THRONG_MANAGED_SETTINGS").filter(|_| cfg!(debug_assertions));
    let first = PathBuf::from(instead.unwrap_or(MANAGED));
    let folder = first.with_file_name("managed-settings.d");
    let mut more = Vec::new();
    match std::fs::read_dir(&folder) {
        Ok(entries) => {
            for entry in entries {
                let unreadable = |source| Error::Unreadable { path: folder.clone(), source };
                let path = entry.map_err(unreadable)?.path();
                let is_hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
                more.extend(path.extension().is_some_and(|e| e == "json" && !is_hidden).then_some(path));
            }
        }
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {}
        Err(source) => return Err(Error::Unreadable { path: folder, source }),
    }
    more.sort();
    // What comes later outranks what comes before.
    more.reverse();
    more.push(first);
    Ok(more)
}

/// Tops of the git checkouts around a directory: its own, and the main one that a worktree belongs to.
fn repositories(dir: &Path) -> Vec<PathBuf> {
    let Some(top) = dir.ancestors().find(|dir| dir.join(".git").exists()) else { return Vec::new() };
    let mut all = vec![top.to_owned()];
    // `gitdir: /main/.git/worktrees/name`
    if let Ok(text) = std::fs::read_to_string(top.join(".git"))
        && let Some(git_dir) = text.trim().strip_prefix("gitdir: ")
        && let Some((main, _)) = git_dir.split_once("/.git/worktrees/")
    {
        all.push(top.join(main));
    }
    all
}

fn object(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let wrong = |problem: String| Error::Settings { path: path.to_owned(), field: String::new(), problem };
    let text = match text(bytes) {
        Ok(text) => text,
        Err(Damage::Blank) => return Ok(Map::new()),
        Err(damage) => return Err(wrong(damage.to_string())),
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(other) => Err(wrong(format!("it is {}, not an object", kind(&other)))),
        Err(e) => Err(wrong(format!("it is no JSON: {e}"))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads fields; knows what paths in them are relative to.
struct Reader<'a> {
    path: &'a Path,
    start: &'a Path,
    home: &'a Path,
}

impl Reader<'_> {
    fn wrong(&self, field: &str, problem: String) -> Error {
        Error::Settings { path: self.path.to_owned(), field: field.to_owned(), problem }
    }

    fn permissions(&self, values: &Map<String, Value>) -> Result<Permissions, Error> {
        let only = match values.get("allowManagedPermissionRulesOnly") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(only)) => *only,
            Some(other) => {
                let problem = format!("it is {}, not true or false", kind(other));
                return Err(self.wrong("allowManagedPermissionRulesOnly", problem));
            }
        };
        let found = match values.get("permissions") {
            None | Some(Value::Null) => &Map::new(),
            Some(Value::Object(found)) => found,
            Some(other) => {
                return Err(self.wrong("permissions", format!("it is {}, not an object", kind(other))));
            }
        };
        let directories = self.texts(found, "additionalDirectories")?;
        let disables_bypass = match self.text(found, "disableBypassPermissionsMode")?.as_deref() {
            None => false,
            Some("disable") => true,
            Some(other) => {
                let problem = format!("'{other}' is unknown: write \"disable\"");
                return Err(self.wrong("permissions.disableBypassPermissionsMode", problem));
            }
        };
        Ok(Permissions {
            allow: self.texts(found, "allow")?,
            ask: self.texts(found, "ask")?,
            deny: self.texts(found, "deny")?,
            default_mode: self.text(found, "defaultMode")?,
            additional_directories: directories.iter().map(|dir| self.directory(dir)).collect(),
            disables_bypass,
            allows_managed_rules_only: only,
        })
    }

    fn directory(&self, text: &str) -> Dir {
        let below_home = text.strip_prefix("~/").or((text == "~").then_some(""));
        Dir::of(&below_home.map_or_else(|| self.start.join(text), |rest| self.home.join(rest)))
    }

    fn text(&self, found: &Map<String, Value>, key: &str) -> Result<Option<String>, Error> {
        match found.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => {
                Err(self.wrong(&format!("permissions.{key}"), format!("it is {}, not a text", kind(other))))
            }
        }
    }

    fn texts(&self, found: &Map<String, Value>, key: &str) -> Result<Vec<String>, Error> {
        let field = format!("permissions.{key}");
        let items = match found.get(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => {
                return Err(self.wrong(&field, format!("it is {}, not a list of texts", kind(other))));
            }
        };
        let text = |(at, item): (usize, &Value)| match item {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(&format!("{field}[{at}]"), format!("it is {}, not a text", kind(other)))),
        };
        items.iter().enumerate().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Permissions, String> {
        let path = Path::new("/p/settings.json");
        let reader = Reader { path, start: Path::new("/w"), home: Path::new("/h") };
        let values = object(path, text.as_bytes()).map_err(|e| e.to_string())?;
        reader.permissions(&values).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_unknown_is_left_alone() {
        assert_eq!(read(""), Ok(Permissions::default()));
        assert_eq!(
            read("\u{feff}{\"hooks\": 1, \"permissions\": {\"new\": []}}"),
            Ok(Permissions::default())
        );
        let all = read(
            &json!({"permissions": {"allow": ["A"], "ask": ["B"], "deny": ["C"], "defaultMode": "plan",
                "additionalDirectories": ["../x", "~/y", "/z"], "disableBypassPermissionsMode": "disable"}})
            .to_string(),
        )
        .unwrap();
        assert_eq!((all.allow, all.ask, all.deny), (vec!["A".into()], vec!["B".into()], vec!["C".into()]));
        assert_eq!(all.default_mode.as_deref(), Some("plan"));
        let directories: Vec<_> = all.additional_directories.into_iter().map(|dir| dir.real).collect();
        assert_eq!(directories, [Path::new("/x"), Path::new("/h/y"), Path::new("/z")]);
        assert!(all.disables_bypass);
    }

    #[test]
    fn a_wrong_type_names_file_and_field() {
        for (text, expected) in [
            ("[]", "/p/settings.json: it is a list, not an object"),
            ("{", "/p/settings.json: it is no JSON: "),
            (r#"{"permissions": []}"#, "/p/settings.json: permissions: it is a list, not an object"),
            (
                r#"{"permissions": {"deny": "Bash"}}"#,
                "/p/settings.json: permissions.deny: it is a text, not a list of texts",
            ),
            (
                r#"{"permissions": {"deny": ["Bash", 1]}}"#,
                "/p/settings.json: permissions.deny[1]: it is a number, not a text",
            ),
            (
                r#"{"permissions": {"defaultMode": {}}}"#,
                "/p/settings.json: permissions.defaultMode: it is an object",
            ),
            (
                r#"{"permissions": {"disableBypassPermissionsMode": "yes"}}"#,
                "/p/settings.json: permissions.disableBypassPermissionsMode: 'yes' is unknown: write \"disable\"",
            ),
            (
                r#"{"allowManagedPermissionRulesOnly": "yes"}"#,
                "/p/settings.json: allowManagedPermissionRulesOnly: ",
            ),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
    }
}
