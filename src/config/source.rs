//! A TOML source with the line of every byte, for errors that a user can act on.

use super::{Error, duration};
use crate::protocol::names::near;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// A file's text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Result<Source, Error> {
        let bytes =
            std::fs::read(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        match crate::protocol::inbox::text(&bytes) {
            Ok(text) => Ok(Source { path: path.to_owned(), text: text.to_owned() }),
            Err(damage) => {
                Err(Error::TeamFile { path: path.to_owned(), line: 1, problem: damage.to_string() })
            }
        }
    }

    /// An error at a place of the text.
    pub(crate) fn error(&self, span: Option<&Range<usize>>, problem: impl Into<String>) -> Error {
        let line = self.line(span.map_or(0, |s| s.start));
        Error::TeamFile { path: self.path.clone(), line, problem: problem.into() }
    }

    /// The line of a byte, from 1.
    pub(crate) fn line(&self, byte: usize) -> usize {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        before.iter().filter(|b| **b == b'\n').count() + 1
    }

    /// A span of time; a bare number is seconds, with quotes or without.
    pub(crate) fn duration(&self, value: &Spanned<toml::Value>) -> Result<Duration, Error> {
        let text = match value.get_ref() {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(seconds) => seconds.to_string(),
            other => format!("{other:?}"),
        };
        duration(&text).map_err(|e| self.error(Some(&value.span()), e))
    }

    /// A word that is none of the known ones, with the nearest of them.
    pub(crate) fn unknown(&self, (span, what): (&Range<usize>, &str), word: &str, known: &[&str]) -> Error {
        let nearest = match near(word, known.iter().copied()).first() {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("known: {}", known.join(", ")),
        };
        self.error(Some(span), format!("unknown {what} '{word}': {nearest}"))
    }
}
