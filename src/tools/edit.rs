//! `Edit`: a text in a file is replaced by another.

use super::change::Change;
use super::target::Access;
use super::{About, Beside, Outcome, Ran, View, input, text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Places that are named when a text is not unique.
const NAMED_MAX: usize = 10;
/// Lines that are shown before and after a change.
const AROUND: usize = 3;
/// Bytes that are shown of a change.
const SHOWN_BYTES_MAX: usize = 4000;
/// The mark that some files of UTF-8 begin with.
const BYTE_ORDER_MARK: char = '\u{feff}';

pub(super) const ABOUT: About = About {
    name: "Edit",
    beside: Beside::Nothing,
    target: Some(("file_path", Access::Write)),
    description: "Replaces old_string by new_string in a file that you have read with Read and that has not changed since. \
        old_string must be in the file exactly, with its white space and without the line numbers of Read, and only once, \
        unless replace_all is set. With an empty old_string a new file is made. Line ends and a byte order mark stay as \
        they are.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file. A relative one starts at your directory.
    file_path: String,
    /// The text to replace; empty for a new file.
    old_string: String,
    /// What to put there; not the same as old_string.
    new_string: String,
    /// True: every place is changed. Otherwise there must be one only.
    #[serde(default)]
    replace_all: Option<bool>,
}

pub(super) fn run(value: Value, view: &View) -> Ran {
    let input: Input = input::read(value)?;
    if input.old_string == input.new_string {
        return Err(
            "Wrong input: old_string and new_string are the same, so nothing would change.".to_owned()
        );
    }
    let change = Change::of(&input.file_path, view)?;
    let path = change.path.display().to_string();
    let before = match &change.before {
        None if input.old_string.is_empty() => return make(change, &input),
        Some(before) if before.is_empty() && input.old_string.is_empty() => {
            change.was_seen(view)?;
            return make(change, &input);
        }
        None => return Err(format!("There is no file {path}. With an empty old_string it would be made.")),
        Some(_) if input.old_string.is_empty() => {
            return Err(format!("{path} is there and not empty, so old_string must not be empty."));
        }
        Some(before) => before,
    };
    change.was_seen(view)?;
    let (after, said) = replaced(before, &input, &path)?;
    let effect = change.write(after.as_bytes())?;
    Ok(Outcome::said(said).with([effect]))
}

/// The whole file after the change, and what is said of it.
fn replaced(before: &[u8], input: &Input, path: &str) -> Result<(String, String), String> {
    let whole = std::str::from_utf8(before).map_err(|_| format!("{path} is not valid UTF-8."))?;
    let (mark, text) = match whole.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (&whole[..BYTE_ORDER_MARK.len_utf8()], text),
        None => ("", whole),
    };
    let (old, new) = in_line_ends_of(text, input);
    let places: Vec<usize> = text.match_indices(old.as_str()).map(|(at, _)| at).collect();
    let [first, ..] = places.as_slice() else { return Err(not_found(text, &old, path)) };
    if places.len() > 1 && input.replace_all != Some(true) {
        let lines: Vec<String> =
            places.iter().take(NAMED_MAX).map(|at| line_of(text, *at).to_string()).collect();
        return Err(format!(
            "old_string is in {path} {} times, at lines {}{}. Give more of the text around it, or set replace_all.",
            places.len(),
            lines.join(", "),
            if places.len() > NAMED_MAX { ", ..." } else { "" },
        ));
    }
    let grown = text.len() + new.len().saturating_sub(old.len()).saturating_mul(places.len());
    if grown as u64 > super::read::WHOLE_BYTES_MAX {
        return Err(format!("{path} would be too large ({grown} bytes)."));
    }
    let after = text.replace(old.as_str(), &new);
    let said = format!(
        "Changed {} in {path}:\n{}",
        if places.len() == 1 { "one place".to_owned() } else { format!("{} places", places.len()) },
        around(&after, *first, new.len()),
    );
    Ok((format!("{mark}{after}"), said))
}

fn make(change: Change, input: &Input) -> Ran {
    let said = format!("Made {} ({} bytes).", change.path.display(), input.new_string.len());
    let effect = change.write(input.new_string.as_bytes())?;
    Ok(Outcome::said(said).with([effect]))
}

/// Both texts with the line ends of a file that has CR LF: a model sees lines, not their ends.
fn in_line_ends_of(text: &str, input: &Input) -> (String, String) {
    let with_cr = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let ends = text.matches('\n').count();
    let is_all_cr = ends > 0 && text.matches("\r\n").count() == ends;
    let old = &input.old_string;
    if is_all_cr || (!text.contains(old.as_str()) && text.contains(&with_cr(old))) {
        return (with_cr(old), with_cr(&input.new_string));
    }
    (old.clone(), input.new_string.clone())
}

fn not_found(text: &str, old: &str, path: &str) -> String {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = squeezed(old.lines().find(|line| !line.trim().is_empty()).unwrap_or(old));
    let near = text.lines().position(|line| !first.is_empty() && squeezed(line).contains(&first));
    let hint = near.map_or(String::new(), |i| {
        format!(" Its first line is like line {}; compare the white space and the lines after it.", i + 1)
    });
    format!("old_string is not in {path}.{hint}")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The lines of a change with some around them.
fn around(text: &str, at: usize, bytes: usize) -> String {
    let first = line_of(text, at).saturating_sub(AROUND).max(1);
    let last = line_of(text, at + bytes) + AROUND;
    let lines = text.lines().enumerate().skip(first - 1).take(last + 1 - first);
    let shown: String = lines.map(|(i, line)| format!("{:>6}\t{line}\n", i + 1)).collect();
    text::cut(&shown, SHOWN_BYTES_MAX)
}
