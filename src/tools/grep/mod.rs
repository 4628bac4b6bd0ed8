//! `Grep`: files by what is in them.

mod found;

use super::search::{self, Cut};
use super::target::Access;
use super::{About, Beside, Cancel, Outcome, Ran, View, input};
use found::{Found, Mode};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use nix::fcntl::OFlag;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Lines of context on one side.
const CONTEXT_MAX: usize = 100;
/// Results that are told if nothing is said.
const RESULTS: usize = 250;
/// Bytes of one file that are held at once: its longest line, or all of it for a pattern over lines.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 10 << 20;

pub(super) const ABOUT: About = About {
    name: "Grep",
    beside: Beside::Others,
    target: Some(("path", Access::Read)),
    description: "Searches in files for a regular expression (Rust's syntax, as ripgrep has it; escape braces that are \
        meant as such). It tells the files that have a match, or the lines with `output_mode: content`, or how many lines \
        match in each file with `count`. What .gitignore names, binary files and the folder .git are left out; links are \
        not followed.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The regular expression.
    pattern: String,
    /// The file or folder to search in. Your directory if left out.
    path: Option<String>,
    /// Search only in files whose path fits this pattern: `*.rs`, `src/**/*.{ts,tsx}`, `!*.md`.
    glob: Option<String>,
    /// Search only in files of this type: rust, py, js, ...
    r#type: Option<String>,
    /// What to tell. files_with_matches if left out.
    output_mode: Option<Mode>,
    /// Lines to show after each match, with content.
    #[serde(rename = "-A")]
    after: Option<usize>,
    /// Lines to show before each match, with content.
    #[serde(rename = "-B")]
    before: Option<usize>,
    /// Lines to show on both sides of each match, with content.
    #[serde(rename = "-C")]
    context: Option<usize>,
    /// Whether lines are numbered, with content. True if left out.
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    /// True: capital and small letters are the same.
    #[serde(rename = "-i")]
    any_case: Option<bool>,
    /// How many lines or files are told. 250 if left out.
    #[schemars(range(min = 1))]
    head_limit: Option<usize>,
    /// True: a match may go over several lines, and `.` matches their ends too.
    multiline: Option<bool>,
}

pub(super) fn run(value: Value, view: &View, cancel: &Cancel) -> Ran {
    let input: Input = input::read(value)?;
    if input.head_limit == Some(0) {
        return Err("Wrong input in field 'head_limit': a number from 1 is expected.".to_owned());
    }
    let root = search::root(input.path.as_deref(), view)?;
    let (matcher, mut searcher) = (matcher(&input)?, searcher(&input));
    let walk = walk(&root, &input)?;
    let mut found =
        Found::new(input.output_mode.unwrap_or(Mode::FilesWithMatches), input.head_limit.unwrap_or(RESULTS));
    found.is_numbered = input.numbers != Some(false);
    let mut unread = Vec::new();
    let walked = search::each_file(&walk, (cancel, view), |entry| {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
        let file = File::options().read(true).custom_flags(flags.bits()).open(entry.path());
        let shown = search::shown(entry.path(), &view.directory);
        let searched = file.and_then(|file| {
            found.begin(shown.clone());
            searcher.search_reader(&matcher, Cancelled { file, cancel }, &mut found)
        });
        match searched {
            _ if cancel.is_set() => return Err(Cut::Cancelled),
            Ok(()) => {}
            Err(e) => unread.push(format!("{shown}: {e}")),
        }
        if found.end() { Err(Cut::Enough) } else { Ok(()) }
    });
    let mut told = found.told();
    if told.is_empty() && walked.is_ok() {
        told = format!("No match. (What .gitignore names is left out; searched in {}.)\n", root.display());
    }
    if let Err(cut) = walked {
        told.push_str(
            &cut.note("There may be more. Narrow the search, or raise head_limit if that was reached."),
        );
    }
    if let [first, rest @ ..] = unread.as_slice() {
        let more = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
        told.push_str(&format!("[Could not be searched: {first}{more}]"));
    }
    Ok(Outcome::said(told.trim_end_matches('\n')))
}

fn matcher(input: &Input) -> Result<RegexMatcher, String> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.any_case == Some(true))
        .multi_line(true)
        .dot_matches_new_line(input.multiline == Some(true))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX);
    if input.multiline != Some(true) {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(|e| {
        format!("Wrong input in field 'pattern': {e}. For a match over several lines set multiline.")
    })
}

fn searcher(input: &Input) -> Searcher {
    let around = |lines: Option<usize>| match input.output_mode {
        Some(Mode::Content) => lines.or(input.context).unwrap_or_default().min(CONTEXT_MAX),
        _ => 0,
    };
    SearcherBuilder::new()
        .line_number(true)
        .before_context(around(input.before))
        .after_context(around(input.after))
        .multi_line(input.multiline == Some(true))
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HELD_BYTES_MAX))
        .build()
}

fn walk(root: &Path, input: &Input) -> Result<WalkBuilder, String> {
    let mut walk = search::walk(root);
    if let Some(glob) = &input.glob {
        let base = if root.is_dir() { root } else { root.parent().unwrap_or(root) };
        let mut only = OverrideBuilder::new(base);
        let only = only.add(glob).and_then(|only| only.build());
        walk.overrides(only.map_err(|e| format!("Wrong input in field 'glob': {e}."))?);
    }
    if let Some(kind) = &input.r#type {
        let mut types = TypesBuilder::new();
        types.add_defaults().select(kind);
        let types = types.build().map_err(|_| {
            format!("Wrong input in field 'type': '{kind}' is no type; rust, py, js, ts, go, c, java, md are some. Or use glob.")
        })?;
        walk.types(types);
    }
    Ok(walk)
}

/// A file that ends early when the call is cancelled.
struct Cancelled<'a> {
    file: File,
    cancel: &'a Cancel,
}

impl Read for Cancelled<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_set() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(into)
    }
}
