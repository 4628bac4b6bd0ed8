//! `Write`: a whole file.

use super::change::Change;
use super::target::Access;
use super::{About, Beside, Outcome, Ran, View, input};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub(super) const ABOUT: About = About {
    name: "Write",
    beside: Beside::Nothing,
    target: Some(("file_path", Access::Write)),
    description: "Makes a file, or replaces all that is in it. Folders that are missing are made. A file that is there \
        must have been read with Read and not have changed since. To change a part of a file, use Edit.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file. A relative one starts at your directory.
    file_path: String,
    /// All that the file shall hold.
    content: String,
}

pub(super) fn run(value: Value, view: &View) -> Ran {
    let input: Input = input::read(value)?;
    let change = Change::of(&input.file_path, view)?;
    change.was_seen(view)?;
    let did = if change.before.is_some() { "Replaced the content of" } else { "Made" };
    let said = format!("{did} {} ({} bytes).", change.path.display(), input.content.len());
    let effect = change.write(input.content.as_bytes())?;
    Ok(Outcome::said(said).with([effect]))
}
