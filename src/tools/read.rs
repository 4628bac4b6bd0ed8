//! `Read`: a file's lines with their numbers.

use super::{About, Beside, Effect, Outcome, Ran, Stamp, View, input};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;

pub(super) const ABOUT: About = About {
    name: "Read",
    beside: Beside::Others,
    description: "Shows a file: text with line numbers.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file. A relative one starts at your directory.
    file_path: String,
    /// Number of the first line to show, from 1.
    offset: Option<usize>,
    /// How many lines to show.
    limit: Option<usize>,
}

pub(super) fn run(value: Value, view: &View) -> Ran {
    let input: Input = input::read(value)?;
    let path = view.directory.join(&input.file_path);
    let fail = |e: std::io::Error| format!("Cannot read {}: {e}", path.display());
    let path = fs::canonicalize(&path).map_err(fail)?;
    let meta = fs::metadata(&path).map_err(fail)?;
    if !meta.is_file() {
        return Err(format!("{} is no file.", path.display()));
    }
    let bytes = fs::read(&path).map_err(fail)?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is no text.", path.display()))?;
    let first = input.offset.unwrap_or(1).max(1);
    let lines = text.lines().enumerate().skip(first - 1).take(input.limit.unwrap_or(2000));
    let shown: Vec<String> = lines.map(|(i, line)| format!("{:>6}\t{line}", i + 1)).collect();
    let stamp = Stamp { modified: meta.modified().ok(), digest: Sha256::digest(text.as_bytes()).into() };
    Ok(Outcome::said(shown.join("\n")).with([Effect::Saw(path, stamp)]))
}
