//! `Read`: a file's lines with their numbers, an image, or a notebook's cells.

use super::target::{Access, cannot};
use super::text::{self, Line};
use super::{About, Beside, Effect, Outcome, Ran, Stamp, View, image, input, notebook, target};
use crate::provider::Content;
use crate::sys::folder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Lines that are shown if nothing is said.
const LINES: usize = 2000;
/// Bytes of one line that are shown.
const LINE_BYTES_MAX: usize = 2000;
/// Bytes that are shown in all.
const SHOWN_BYTES_MAX: usize = 100_000;
/// Files up to this size are read whole, so that they may be edited afterwards.
pub(super) const WHOLE_BYTES_MAX: u64 = 32 << 20;
/// Bytes of a larger file that one call looks through.
const LOOKED_BYTES_MAX: u64 = 256 << 20;
/// A file that has a NUL byte among its first so many is no text.
const PROBE_BYTES: usize = 8192;

pub(super) const ABOUT: About = About {
    name: "Read",
    beside: Beside::Others,
    target: Some(("file_path", Access::Read)),
    description: "Shows a file. Text comes with line numbers, each before a tab; they are not part of the file. Without \
        offset and limit you get the first 2000 lines; very long lines are cut, and you are told so. PNG, JPEG, GIF and \
        WebP files are shown as images, Jupyter notebooks as cells. Folders and other binary files are refused. A file \
        must be read before Edit or Write may change it.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file. A relative one starts at your directory.
    file_path: String,
    /// Number of the first line to show, from 1.
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// How many lines to show.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

pub(super) fn run(value: Value, view: &View) -> Ran {
    let input: Input = input::read(value)?;
    if input.limit == Some(0) {
        return Err("Wrong input in field 'limit': 0 is not a number of lines, from 1.".to_owned());
    }
    let path = target::find(view, &input.file_path)?;
    let fail = cannot("read", &path);
    let file = folder::open(&path).map_err(&fail)?;
    let meta = file.metadata().map_err(&fail)?;
    if meta.is_dir() {
        return Err(format!(
            "{} is a folder. Use Glob, or ls in Bash, to see what is in it.",
            path.display()
        ));
    }
    if meta.len() > WHOLE_BYTES_MAX {
        return big(file, &path, &input);
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(WHOLE_BYTES_MAX).read_to_end(&mut bytes).map_err(&fail)?;
    let stamp = Stamp { modified: meta.modified().ok(), digest: Sha256::digest(&bytes).into() };
    let content = shown(&bytes, &path, &input)?;
    let outcome = Outcome { content, ..Outcome::said("") };
    Ok(outcome.with([Effect::Saw(path, stamp)]))
}

fn shown(bytes: &[u8], path: &Path, input: &Input) -> Result<Content, String> {
    if let Some(kind) = image::kind(bytes) {
        return image::content(kind, bytes, path);
    }
    text_only(&bytes[..bytes.len().min(PROBE_BYTES)], path)?;
    if path.extension().is_some_and(|e| e == "ipynb")
        && let Some(cells) = notebook::shown(bytes)
    {
        return Ok(Content::Text(text::cut(&cells, SHOWN_BYTES_MAX)));
    }
    if bytes.is_empty() {
        return Ok(Content::Text("[The file is empty.]".to_owned()));
    }
    let mut page = page(bytes, input, &cannot("read", path))?;
    if page.next.is_some() || page.is_beyond {
        let total = text::count_lines(bytes);
        if page.is_beyond {
            return Err(format!("{} has {total} lines, so there is no line {}.", path.display(), page.first));
        }
        page.notes.push(format!("The file has {total} lines."));
    }
    if std::str::from_utf8(bytes).is_err() {
        page.notes
            .push("It is not valid UTF-8; what is not is shown as \u{fffd}. Edit refuses it.".to_owned());
    }
    Ok(Content::Text(page.told()))
}

/// A file that is too big to be read whole: as far as is needed, and without a stamp.
fn big(file: File, path: &Path, input: &Input) -> Ran {
    let fail = cannot("read", path);
    let mut reader = BufReader::with_capacity(1 << 16, file.take(LOOKED_BYTES_MAX));
    let probe = reader.fill_buf().map_err(&fail)?;
    if image::kind(probe).is_some() {
        return Err(format!("{} is an image of more than {} bytes.", path.display(), image::BYTES_MAX));
    }
    text_only(&probe[..probe.len().min(PROBE_BYTES)], path)?;
    let mut page = page(&mut reader, input, &fail)?;
    if page.is_beyond {
        let line = page.first;
        return Err(format!(
            "{}: line {line} is not among the first {LOOKED_BYTES_MAX} bytes, which is as far as this tool looks. Use \
             sed -n '{line}p' in Bash.",
            path.display()
        ));
    }
    if reader.get_ref().limit() == 0 {
        page.notes.push(format!("This tool looks no further than {LOOKED_BYTES_MAX} bytes."));
    }
    page.notes.push(format!("The file is larger than {WHOLE_BYTES_MAX} bytes: Edit and Write refuse it."));
    Ok(Outcome::said(page.told()))
}

fn text_only(probe: &[u8], path: &Path) -> Result<(), String> {
    let path = path.display();
    match probe {
        [b'%', b'P', b'D', b'F', ..] => Err(format!("{path} is a PDF. Try pdftotext in Bash.")),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(format!("{path} is UTF-16. Try iconv in Bash.")),
        _ if probe.contains(&0) => Err(format!("{path} is a binary file. Try file, xxd or strings in Bash.")),
        _ => Ok(()),
    }
}

/// Some lines of a file.
struct Page {
    first: usize,
    shown: String,
    /// The line after the last one that is shown, if there is one.
    next: Option<usize>,
    /// Whether the file ends before its first line.
    is_beyond: bool,
    notes: Vec<String>,
}

fn page(
    mut from: impl BufRead,
    input: &Input,
    fail: &dyn Fn(std::io::Error) -> String,
) -> Result<Page, String> {
    let first = input.offset.unwrap_or(1).max(1);
    let last = first.saturating_add(input.limit.unwrap_or(LINES));
    let mut page = Page { first, shown: String::new(), next: None, is_beyond: false, notes: Vec::new() };
    let mut cut = 0;
    let mut number = 1;
    loop {
        if number == last || page.shown.len() >= SHOWN_BYTES_MAX {
            page.next = (!from.fill_buf().map_err(fail)?.is_empty()).then_some(number);
            break;
        }
        let keep = if number < first { 0 } else { LINE_BYTES_MAX };
        let Some(line) = Line::next(&mut from, keep).map_err(fail)? else {
            page.is_beyond = number <= first && first > 1;
            break;
        };
        if number >= first {
            cut += usize::from(line.is_cut());
            page.shown.push_str(&format!("{number:>6}\t{}\n", line.shown(number)));
        }
        number += 1;
    }
    if let Some(next) = page.next {
        page.notes.push(format!("Shown are lines {first} to {}; go on with offset {next}.", next - 1));
    }
    if cut > 0 {
        page.notes.push(format!("{cut} long lines are cut after {LINE_BYTES_MAX} bytes."));
    }
    Ok(page)
}

impl Page {
    fn told(mut self) -> String {
        if !self.notes.is_empty() {
            self.shown.push_str(&format!("[{}]", self.notes.join(" ")));
        }
        self.shown
    }
}
