//! What a search has found, in the three ways of telling it.

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io;

/// Bytes of one line that are told.
const LINE_BYTES_MAX: usize = 500;
/// Bytes that are told in all.
const TOLD_BYTES_MAX: usize = 30_000;

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// The lines.
    Content,
    /// The files.
    FilesWithMatches,
    /// How many lines match in each file.
    Count,
}

/// What was found so far.
pub(super) struct Found {
    mode: Mode,
    left: usize,
    pub(super) is_numbered: bool,
    /// The file that is searched, and the lines that match in it.
    path: String,
    matches: u64,
    told: String,
    is_full: bool,
    is_apart: bool,
}

impl Found {
    pub(super) fn new(mode: Mode, limit: usize) -> Found {
        Found {
            mode,
            left: limit,
            is_numbered: true,
            path: String::new(),
            matches: 0,
            told: String::new(),
            is_full: false,
            is_apart: false,
        }
    }

    /// A file's search begins.
    pub(super) fn begin(&mut self, path: String) {
        self.path = path;
        self.matches = 0;
        self.is_apart = !self.told.is_empty();
    }

    /// A file's search ends. Answers whether no more is wanted.
    pub(super) fn end(&mut self) -> bool {
        if self.matches > 0 {
            match self.mode {
                Mode::Content => {}
                Mode::FilesWithMatches => self.tell(&self.path.clone()),
                Mode::Count => self.tell(&format!("{}:{}", self.path, self.matches)),
            }
        }
        self.is_full
    }

    pub(super) fn told(&self) -> String {
        self.told.clone()
    }

    fn tell(&mut self, line: &str) {
        if self.left == 0 || self.told.len() + line.len() > TOLD_BYTES_MAX {
            self.is_full = true;
            return;
        }
        self.left -= 1;
        self.told.push_str(line);
        self.told.push('\n');
    }

    fn tell_lines(&mut self, bytes: &[u8], first: Option<u64>, sign: char) {
        let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|b| *b == b'\n');
        for (i, line) in (0..).zip(lines) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let more = line.len().saturating_sub(LINE_BYTES_MAX);
            let mut text = String::from_utf8_lossy(&line[..line.len() - more]).into_owned();
            if more > 0 {
                text.push_str(&format!(" [... {more} more bytes]"));
            }
            let number = match first.filter(|_| self.is_numbered) {
                Some(first) => format!("{}{sign}", first + i),
                None => String::new(),
            };
            let line = format!("{}{sign}{number}{text}", self.path);
            self.tell(&line);
        }
    }
}

impl Sink for &mut Found {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += found.lines().count() as u64;
        match self.mode {
            Mode::FilesWithMatches => return Ok(false),
            Mode::Count => {}
            Mode::Content => {
                if std::mem::take(&mut self.is_apart)
                    && (searcher.before_context() + searcher.after_context() > 0)
                {
                    self.told.push_str("--\n");
                }
                self.tell_lines(found.bytes(), found.line_number(), ':');
            }
        }
        Ok(!self.is_full)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if std::mem::take(&mut self.is_apart) {
            self.told.push_str("--\n");
        }
        self.tell_lines(line.bytes(), line.line_number(), '-');
        Ok(!self.is_full)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.told.push_str("--\n");
        Ok(true)
    }
}
