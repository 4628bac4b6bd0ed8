//! The table of agent programs that know nothing of the shared files (B12): how each starts, how mail reaches it, how its
//! state is seen. Built in, extended by the user's `drivers.toml` and by a team file; key by key the last one counts.

use super::plan::{AgentOptions, CLAUDE, COMMAND, PermissionMode, THRONG};
use super::source::Source;
use super::{Environment, Error};
use crate::protocol::names::near;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// The table that comes with throng.
const BUILT_IN: &str = include_str!("../driver/table.toml");
/// Its name in messages.
const BUILT_IN_NAME: &str = "built-in";
/// The user's table, below `$XDG_CONFIG_HOME` or `~/.config`.
const USER_FILE: &str = "throng/drivers.toml";

const KEYS: [&str; 24] = [
    "about",
    "program",
    "args",
    "env",
    "inherit_env",
    "version",
    "mail",
    "resume",
    "stdin",
    "session",
    "lines",
    "idle",
    "working",
    "failed",
    "dialogs",
    "quiet_ms",
    "settle_ms",
    "submit",
    "clear",
    "paste_marker",
    "text_bytes_max",
    "end",
    "needs",
    "tried",
];
const DIALOG_KEYS: [&str; 3] = ["text", "name", "answer"];
/// Keys whose texts are regular expressions.
const PATTERNS: [&str; 5] = ["idle", "working", "failed", "paste_marker", "session"];
/// What arguments may hold in braces.
const PLACES: [&str; 7] =
    ["{prompt}", "{model}", "{agent}", "{effort}", "{permission_mode}", "{session}", "{args}"];

/// How mail reaches a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailForm {
    /// Typed into its terminal.
    #[default]
    Type,
    /// On standard input, or as a file: the program runs one turn for each message.
    Resume,
}

/// One argument, or several that go together: these are left out when a value in them is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Argument {
    /// Its words.
    pub fn words(&self) -> &[String] {
        match self {
            Argument::One(word) => std::slice::from_ref(word),
            Argument::Several(words) => words,
        }
    }
}

/// Something on the screen that only an answer at the terminal removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    /// A regular expression for it, on the lowest lines.
    pub text: String,
    /// What it is, for people.
    pub name: String,
    /// Keys that answer it, if it is to be answered without a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// One agent program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverEntry {
    /// What it is, in a few words.
    #[serde(default)]
    pub about: String,
    /// The program: a name on `PATH`, or a path.
    #[serde(default)]
    pub program: String,
    /// Its arguments; the first turn's with [`MailForm::Resume`].
    #[serde(default)]
    pub args: Vec<Argument>,
    /// Variables for it; those of a member come on top.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables that it inherits besides the allow-list.
    #[serde(default)]
    pub inherit_env: Vec<String>,
    /// Arguments with which it tells its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// How mail reaches it.
    #[serde(default)]
    pub mail: MailForm,
    /// Arguments of every later turn.
    #[serde(default)]
    pub resume: Vec<Argument>,
    /// With [`MailForm::Resume`], a turn's message comes on standard input; else a file's name as an argument.
    #[serde(default)]
    pub stdin: bool,
    /// Where a turn's output names the conversation: a regular expression with one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// So many lowest lines of the screen, empty ones not counted, tell its state.
    #[serde(default = "lines")]
    pub lines: usize,
    /// It waits for input.
    #[serde(default)]
    pub idle: Vec<String>,
    /// Its turn goes on; this counts more than `idle`.
    #[serde(default)]
    pub working: Vec<String>,
    /// Its turn failed.
    #[serde(default)]
    pub failed: Vec<String>,
    /// What only a person can answer; this counts more than all others.
    #[serde(default)]
    pub dialogs: Vec<Dialog>,
    /// The last resort: a screen that nothing else tells of is idle after so many milliseconds without output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<u64>,
    /// How long it must look idle before that is believed, in milliseconds.
    #[serde(default = "settle_ms")]
    pub settle_ms: u64,
    /// Keys that send what was typed.
    #[serde(default = "submit")]
    pub submit: String,
    /// Keys that empty its input.
    #[serde(default = "clear")]
    pub clear: String,
    /// What it shows instead of a long paste: a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paste_marker: Option<String>,
    /// Longer messages are put into a file, and the file's name is typed.
    #[serde(default = "text_bytes_max")]
    pub text_bytes_max: usize,
    /// A line that ends it; without one it gets TERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// What has to be there before it can take part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// With which version it took part, or what was seen instead; nobody tried it without this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<String>,
}

fn lines() -> usize {
    8
}

fn settle_ms() -> u64 {
    1000
}

fn submit() -> String {
    "\r".to_owned()
}

fn clear() -> String {
    "\u{15}".to_owned()
}

fn text_bytes_max() -> usize {
    8192
}

impl DriverEntry {
    fn has_place(&self, place: &str) -> bool {
        self.args.iter().chain(&self.resume).flat_map(Argument::words).any(|word| word.contains(place))
    }

    /// Whether its arguments have a place for what a member is told; else the option that has none.
    ///
    /// # Errors
    /// The option, as a team file writes it.
    pub fn check_options(&self, options: &AgentOptions) -> Result<(), &'static str> {
        let mode = options.permission_mode != PermissionMode::Default;
        [
            ("model", options.model.is_some(), "{model}"),
            ("agent", options.agent.is_some(), "{agent}"),
            ("effort", options.effort.is_some(), "{effort}"),
            ("permission_mode", mode, "{permission_mode}"),
            ("plan_required", options.plan_required, "{plan_required}"),
        ]
        .iter()
        .find(|(_, is_given, place)| *is_given && !self.has_place(place))
        .map_or(Ok(()), |(option, ..)| Err(option))
    }

    /// What is missing for it to work at all.
    fn check(&self) -> Result<(), String> {
        if self.program.is_empty() {
            return Err("has no program: add program = \"...\"".to_owned());
        }
        let of_turns =
            |args: &[Argument]| args.iter().flat_map(Argument::words).any(|w| w.contains("{prompt}"));
        match self.mail {
            MailForm::Type if of_turns(&self.args) => {
                Err("has {prompt} among its args, but with mail = \"type\" the prompt is typed like all mail".to_owned())
            }
            MailForm::Type if self.stdin => {
                Err("has stdin = true, which is for mail = \"resume\" alone".to_owned())
            }
            MailForm::Resume if self.stdin && (of_turns(&self.args) || of_turns(&self.resume)) => {
                Err("has {prompt} among its arguments, but with stdin = true the prompt comes on standard input".to_owned())
            }
            MailForm::Type if self.idle.is_empty() && self.quiet_ms.is_none() => {
                Err("does not say when it is idle: add idle = [\"...\"] or quiet_ms".to_owned())
            }
            MailForm::Resume if !self.stdin && (!of_turns(&self.args) || !of_turns(&self.resume)) => {
                Err("needs {prompt} in args and in resume, since mail = \"resume\", or stdin = true".to_owned())
            }
            MailForm::Resume
                if self.session.is_none() && self.resume.iter().flat_map(Argument::words).any(|w| w.contains("{session}")) =>
            {
                Err("uses {session}, but does not say where its output names it: add session = \"...(...)...\"".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Where a row comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It came with throng.
    BuiltIn,
    /// A file, alone or on top of another row.
    File(PathBuf),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str(BUILT_IN_NAME),
            Origin::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Rows, by name, as files have them: for keeping, and for adding again.
pub type Rows = BTreeMap<String, Table>;

/// All that is known.
#[derive(Debug, Clone, Default)]
pub struct Drivers {
    rows: BTreeMap<String, (Table, Origin)>,
}

impl Drivers {
    /// The built-in table and the user's.
    ///
    /// # Errors
    /// File, line and the nearest known word.
    pub fn read(environment: &Environment) -> Result<Drivers, Error> {
        let mut drivers = Drivers::built_in()?;
        if let Some(path) =
            environment.config_home().map(|dir| dir.join(USER_FILE)).filter(|path| path.exists())
        {
            drivers.add_file(&Source::read(&path)?)?;
        }
        Ok(drivers)
    }

    /// The rows that a file has a part in.
    pub(super) fn rows_of(&self, path: &Path) -> Rows {
        let is_its = |origin: &Origin| *origin == Origin::File(path.to_owned());
        let own = self.rows.iter().filter(|(_, (_, origin))| is_its(origin));
        own.map(|(name, (table, _))| (name.clone(), table.clone())).collect()
    }

    /// With the rows of a team, which go before all others.
    #[must_use]
    pub fn with(mut self, team: &Rows, origin: &Path) -> Drivers {
        let origin = Origin::File(origin.to_owned());
        self.rows.extend(team.iter().map(|(name, table)| (name.clone(), (table.clone(), origin.clone()))));
        self
    }

    /// The built-in table alone.
    ///
    /// # Errors
    /// None that tests would not have found.
    pub fn built_in() -> Result<Drivers, Error> {
        let mut drivers = Drivers::default();
        let source = Source { path: PathBuf::from(BUILT_IN_NAME), text: BUILT_IN.to_owned() };
        drivers.add(&source, &Origin::BuiltIn)?;
        Ok(drivers)
    }

    /// Adds what the `[driver.NAME]` tables of a file say.
    pub(super) fn add_file(&mut self, source: &Source) -> Result<(), Error> {
        self.add(source, &Origin::File(source.path.clone()))
    }

    fn add(&mut self, source: &Source, origin: &Origin) -> Result<(), Error> {
        let root = DeTable::parse(&source.text)
            .map_err(|e| source.error(e.span().as_ref(), e.message().trim().to_owned()))?;
        let is_team = root.get_ref().contains_key("team");
        if let Some(key) = root.get_ref().keys().find(|key| !is_team && key.get_ref() != "driver") {
            return Err(source.unknown((&key.span(), "key"), key.get_ref(), &["driver"]));
        }
        let Some((key, tables)) = root.get_ref().get_key_value("driver") else { return Ok(()) };
        let DeValue::Table(tables) = tables.get_ref() else {
            return Err(source.error(Some(&key.span()), "drivers are written [driver.NAME]"));
        };
        for (name, row) in tables {
            let at = name.span();
            let word = name.get_ref().as_ref();
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if word.is_empty() || !word.chars().all(is_name) || [COMMAND, THRONG, CLAUDE].contains(&word) {
                let problem = format!(
                    "'{word}' is no name for a driver: a to z, 0 to 9 and '-', and not {COMMAND} or {CLAUDE}, which are throng's own"
                );
                return Err(source.error(Some(&at), problem));
            }
            let DeValue::Table(row) = row.get_ref() else {
                return Err(source.error(Some(&at), "drivers are written [driver.NAME]"));
            };
            check_row(source, row)?;
            let table = values(source, word)?;
            let mut merged = self.rows.get(word).map(|(table, _)| table.clone()).unwrap_or_default();
            merged.extend(table);
            let entry: DriverEntry =
                Value::Table(merged.clone()).try_into().map_err(|e: toml::de::Error| {
                    source.error(Some(&at), format!("driver '{word}': {}", e.message().trim()))
                })?;
            entry.check().map_err(|why| source.error(Some(&at), format!("driver '{word}' {why}")))?;
            self.rows.insert(word.to_owned(), (merged, origin.clone()));
        }
        Ok(())
    }

    /// A row, whole.
    pub fn find(&self, name: &str) -> Option<DriverEntry> {
        let (table, _) = self.rows.get(name)?;
        Value::Table(table.clone()).try_into().ok()
    }

    /// Every row with its name and origin, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Origin, DriverEntry)> {
        self.rows.iter().filter_map(|(name, (_, origin))| Some((name.as_str(), origin, self.find(name)?)))
    }

    /// A row as a file would have it, and where it comes from.
    pub fn text(&self, name: &str) -> Option<(String, &Origin)> {
        let (table, origin) = self.rows.get(name)?;
        let mut text = format!("[driver.{name}]\n");
        for key in KEYS {
            if let Some(value) = table.get(key) {
                text.push_str(&format!("{key} = {}\n", written(value)));
            }
        }
        Some((text, origin))
    }

    /// Every word for a driver: throng's own, then the table's.
    pub fn words(&self) -> Vec<&str> {
        [COMMAND, THRONG, CLAUDE].into_iter().chain(self.rows.keys().map(String::as_str)).collect()
    }

    /// Says that there is no such driver, with the nearest one.
    pub fn unknown(&self, word: &str) -> String {
        match near(word, self.words()).first() {
            Some(near) => format!("unknown driver '{word}': did you mean '{near}'?"),
            None => format!("unknown driver '{word}': known: {}", self.words().join(", ")),
        }
    }
}

/// A value as TOML has it. JSON's texts are TOML's too.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => serde_json::Value::from(text.as_str()).to_string(),
        Value::Array(rows) => format!("[{}]", rows.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let pair = |(key, value): (&String, &Value)| format!("{key} = {}", written(value));
            format!("{{ {} }}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Integer(n) => n.to_string(),
        Value::Boolean(is_so) => is_so.to_string(),
        other => format!("{other:?}"),
    }
}

/// The row of one driver as the file has it.
fn values(source: &Source, name: &str) -> Result<Table, Error> {
    let all: Table = toml::from_str(&source.text)
        .map_err(|e| source.error(e.span().as_ref(), e.message().trim().to_owned()))?;
    let row = all.get("driver").and_then(|drivers| drivers.get(name)).and_then(Value::as_table);
    Ok(row.cloned().unwrap_or_default())
}

/// Refuses keys that nobody reads, regular expressions that are none, and braces that stand for nothing.
fn check_row(source: &Source, row: &DeTable<'_>) -> Result<(), Error> {
    for (key, value) in row {
        let word = key.get_ref().as_ref();
        if !KEYS.contains(&word) {
            return Err(source.unknown((&key.span(), "key of a driver"), word, &KEYS));
        }
        let texts = texts(value.get_ref());
        if PATTERNS.contains(&word) {
            for text in &texts {
                regex::Regex::new(text)
                    .map_err(|e| source.error(Some(&value.span()), format!("{word}: {e}")))?;
            }
        }
        if word == "args" || word == "resume" {
            for text in &texts {
                if text.starts_with('{') && text.ends_with('}') && !PLACES.contains(text) {
                    return Err(source.unknown((&value.span(), "place in the arguments"), text, &PLACES));
                }
            }
        }
        let DeValue::Array(rows) = value.get_ref() else { continue };
        for row in rows.iter().filter(|_| word == "dialogs") {
            let DeValue::Table(dialog) = row.get_ref() else { continue };
            if let Some(key) = dialog.keys().find(|key| !DIALOG_KEYS.contains(&key.get_ref().as_ref())) {
                return Err(source.unknown((&key.span(), "key of a dialog"), key.get_ref(), &DIALOG_KEYS));
            }
            if let Some(DeValue::String(text)) = dialog.get("text").map(toml::Spanned::get_ref) {
                regex::Regex::new(text)
                    .map_err(|e| source.error(Some(&row.span()), format!("dialogs: {e}")))?;
            }
        }
    }
    Ok(())
}

/// All texts of a value, from lists in it too.
fn texts<'a>(value: &'a DeValue<'_>) -> Vec<&'a str> {
    match value {
        DeValue::String(text) => vec![text.as_ref()],
        DeValue::Array(rows) => rows.iter().flat_map(|row| texts(row.get_ref())).collect(),
        _ => Vec::new(),
    }
}

/// Where the user's table is looked for.
pub fn user_file(environment: &Environment) -> Option<PathBuf> {
    environment.config_home().map(|dir| Path::new(&dir).join(USER_FILE))
}
