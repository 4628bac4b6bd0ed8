//! A script as its file has it: turns, what begins them, their steps (D10). `docs/replay.md` describes it for users.

use super::super::Usage;
use crate::config::{Error, Source};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 1] = ["turn"];
const TURN_KEYS: [&str; 6] = ["on", "from", "contains", "matches", "repeat", "step"];
const STEP_KEYS: [&str; 4] = ["expect", "say", "calls", "usage"];
const USAGE_KEYS: [&str; 4] =
    ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
const CALL_KEYS: [&str; 2] = ["tool", "input"];
const EXPECT_KEYS: [&str; 5] = ["call", "contains", "not_contains", "is_error", "matches"];

/// A script.
#[derive(Debug)]
pub(super) struct File {
    /// Where it lies.
    pub path: PathBuf,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// Names that its patterns give to what they find.
    pub captures: BTreeSet<String>,
}

/// What the agent does when something is said to it.
#[derive(Debug)]
pub(super) struct Turn {
    /// Line in the file, from 1.
    pub line: usize,
    /// What kind of words begin it.
    pub on: On,
    /// Whose.
    pub from: Option<String>,
    /// What they must contain.
    pub contains: Vec<String>,
    /// What they must match.
    pub matches: Option<Regex>,
    /// Whether it may come any number of times, also never.
    pub repeats: Repeats,
    /// What is done.
    pub steps: Vec<Step>,
}

/// What begins a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// Words of the user; of the leader, if the agent is a member.
    Prompt,
    /// A message of another agent.
    Mail,
    /// A task that is given to the agent.
    Task,
}

/// How often a turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    /// Exactly once.
    Once,
    /// As often as its words do.
    Always,
}

/// One answer.
#[derive(Debug)]
pub(super) struct Step {
    /// What must be true before.
    pub expect: Vec<Expect>,
    /// What is said.
    pub say: Option<String>,
    /// What is called.
    pub calls: Vec<Call>,
    /// What the answer takes, so that limits can be tried.
    pub usage: Usage,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Value,
}

/// What is expected of the results of the step before, or, in the first step, of the words that began the turn.
#[derive(Debug)]
pub(super) struct Expect {
    /// Line in the file, from 1.
    pub line: usize,
    /// Of which call, from 1; none: of all of them.
    pub call: Option<usize>,
    /// What it must contain.
    pub contains: Vec<String>,
    /// What it must not contain.
    pub not_contains: Vec<String>,
    /// Whether it must tell of a failure.
    pub is_error: Option<bool>,
    /// What it must match.
    pub matches: Option<Regex>,
}

#[derive(Deserialize)]
struct RawFile {
    #[serde(default)]
    turn: Vec<RawTurn>,
}

#[derive(Deserialize)]
struct RawTurn {
    on: Spanned<String>,
    from: Option<String>,
    contains: Option<Texts>,
    matches: Option<Spanned<String>>,
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    step: Vec<RawStep>,
}

#[derive(Deserialize)]
struct RawStep {
    expect: Option<Spanned<toml::Value>>,
    say: Option<String>,
    #[serde(default)]
    calls: Vec<RawCall>,
    #[serde(default)]
    usage: Usage,
}

#[derive(Deserialize)]
struct RawCall {
    tool: String,
    #[serde(default)]
    input: toml::Table,
}

#[derive(Deserialize)]
struct RawExpect {
    call: Option<usize>,
    contains: Option<Texts>,
    not_contains: Option<Texts>,
    is_error: Option<bool>,
    matches: Option<String>,
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn all(texts: Option<Texts>) -> Vec<String> {
        match texts {
            None => Vec::new(),
            Some(Texts::One(text)) => vec![text],
            Some(Texts::Many(texts)) => texts,
        }
    }
}

impl On {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            On::Prompt => "prompt",
            On::Mail => "mail",
            On::Task => "task",
        }
    }
}

impl File {
    /// Reads one.
    ///
    /// # Errors
    /// It cannot be read, or is no script: with its line.
    pub fn read(path: &Path) -> Result<File, Error> {
        let source = Source::read(path)?;
        check_keys(&source)?;
        let raw: RawFile = toml::from_str(&source.text).map_err(|e| {
            let problem = e
                .message()
                .trim()
                .replace("missing field `on`", "a turn needs on = \"prompt\", \"mail\" or \"task\"");
            source.error(e.span().as_ref(), problem)
        })?;
        if raw.turn.is_empty() {
            return Err(source.error(None, "a script needs at least one [[turn]]"));
        }
        let turns =
            raw.turn.into_iter().map(|turn| self::turn(&source, turn)).collect::<Result<Vec<_>, _>>()?;
        let expected = turns.iter().flat_map(|turn| &turn.steps).flat_map(|step| &step.expect);
        let patterns = expected
            .filter_map(|e| e.matches.as_ref())
            .chain(turns.iter().filter_map(|t| t.matches.as_ref()));
        let captures = patterns.flat_map(|p| p.capture_names().flatten().map(str::to_owned)).collect();
        Ok(File { path: path.to_owned(), turns, captures })
    }
}

fn turn(source: &Source, raw: RawTurn) -> Result<Turn, Error> {
    let at = raw.on.span();
    let all = [On::Prompt, On::Mail, On::Task];
    let on = all.into_iter().find(|on| on.word() == raw.on.get_ref());
    let words = all.map(On::word);
    let on = on.ok_or_else(|| source.unknown((&at, "kind of turn"), raw.on.get_ref(), &words))?;
    if on == On::Prompt && raw.from.is_some() {
        return Err(source.error(Some(&at), "a prompt has no 'from': write on = \"mail\", or leave it out"));
    }
    if raw.step.is_empty() {
        return Err(source.error(Some(&at), "the turn has no [[turn.step]]: say what the agent answers"));
    }
    let last = raw.step.len() - 1;
    let mut steps = Vec::new();
    for (index, step) in raw.step.into_iter().enumerate() {
        let step = self::step(source, step)?;
        if step.calls.is_empty() && index < last {
            let problem = format!(
                "step {} of this turn calls nothing: the agent's turn ends with it, so no step can follow. Write the next ones as \
                 a turn of their own",
                index + 1
            );
            return Err(source.error(Some(&at), problem));
        }
        steps.push(step);
    }
    let matches = raw.matches.map(|text| pattern(source, &text.span(), text.get_ref())).transpose()?;
    let repeats = if raw.repeat { Repeats::Always } else { Repeats::Once };
    let (from, contains) = (raw.from, Texts::all(raw.contains));
    Ok(Turn { line: source.line(at.start), on, from, contains, matches, repeats, steps })
}

fn step(source: &Source, raw: RawStep) -> Result<Step, Error> {
    let mut expect = Vec::new();
    if let Some(value) = raw.expect {
        let span = value.span();
        let each = match value.into_inner() {
            toml::Value::Array(each) => each,
            one => vec![one],
        };
        for value in each {
            let raw: RawExpect = value
                .try_into()
                .map_err(|e: toml::de::Error| source.error(Some(&span), e.message().trim()))?;
            let matches = raw.matches.as_deref().map(|text| pattern(source, &span, text)).transpose()?;
            expect.push(Expect {
                line: source.line(span.start),
                call: raw.call,
                contains: Texts::all(raw.contains),
                not_contains: Texts::all(raw.not_contains),
                is_error: raw.is_error,
                matches,
            });
        }
    }
    let call = |raw: RawCall| Call { tool: raw.tool, input: json(toml::Value::Table(raw.input)) };
    Ok(Step { expect, say: raw.say, calls: raw.calls.into_iter().map(call).collect(), usage: raw.usage })
}

fn pattern(source: &Source, span: &Range<usize>, text: &str) -> Result<Regex, Error> {
    Regex::new(text).map_err(|e| source.error(Some(span), format!("matches is no pattern: {e}")))
}

fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(is_so) => is_so.into(),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => items.into_iter().map(json).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, json(value))).collect::<Map<_, _>>())
        }
    }
}

/// Refuses keys that nobody reads.
fn check_keys(source: &Source) -> Result<(), Error> {
    let root = DeTable::parse(&source.text);
    let root = root.map_err(|e| source.error(e.span().as_ref(), e.message().trim().to_owned()))?;
    known(source, root.get_ref(), ("key of a script", &KEYS))?;
    for turn in tables(root.get_ref(), "turn") {
        known(source, turn, ("key of [[turn]]", &TURN_KEYS))?;
        for step in tables(turn, "step") {
            known(source, step, ("key of [[turn.step]]", &STEP_KEYS))?;
            for call in tables(step, "calls") {
                known(source, call, ("key of a call", &CALL_KEYS))?;
            }
            for usage in tables(step, "usage") {
                known(source, usage, ("key of usage", &USAGE_KEYS))?;
            }
            for expect in tables(step, "expect") {
                known(source, expect, ("key of expect", &EXPECT_KEYS))?;
            }
        }
    }
    Ok(())
}

fn known(source: &Source, table: &DeTable<'_>, (what, keys): (&str, &[&str])) -> Result<(), Error> {
    match table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
        Some(key) => Err(source.unknown((&key.span(), what), key.get_ref(), keys)),
        None => Ok(()),
    }
}

/// The table, or the tables, of a key.
fn tables<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Vec<&'t DeTable<'i>> {
    match table.get(key).map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => vec![table],
        Some(DeValue::Array(rows)) => {
            let table = |row: &'t Spanned<DeValue<'i>>| match row.get_ref() {
                DeValue::Table(table) => Some(table),
                _ => None,
            };
            rows.iter().filter_map(table).collect()
        }
        _ => Vec::new(),
    }
}
