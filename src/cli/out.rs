//! Standard output: data only, as text or JSON. A reader that goes away ends a verb quietly.

use super::error::Result;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Where a verb prints.
#[derive(Debug)]
pub struct Out {
    /// Whether JSON is wanted.
    pub json: bool,
    /// Whether a person looks at a terminal.
    pub is_terminal: bool,
    color: bool,
    stdout: io::BufWriter<io::Stdout>,
}

/// A colour of a few words.
#[derive(Debug, Clone, Copy)]
pub enum Paint {
    /// Good.
    Green,
    /// Bad.
    Red,
    /// On the way.
    Yellow,
    /// By the way.
    Dim,
}

impl Out {
    /// Output in the wanted form.
    pub fn new(config: &crate::config::Config) -> Out {
        let is_terminal = io::stdout().is_terminal();
        let color = is_terminal && config.environment.wants_color();
        Out { json: config.json, is_terminal, color, stdout: io::BufWriter::new(io::stdout()) }
    }

    /// One line of text, flushed.
    ///
    /// # Errors
    /// The reader has gone; the output cannot be written.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result {
        let text = text.as_ref();
        match self.is_terminal {
            true => writeln!(self.stdout, "{}", harmless(text))?,
            false => writeln!(self.stdout, "{text}")?,
        }
        Ok(self.stdout.flush()?)
    }

    /// One line of JSON, flushed.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn json(&mut self, value: &Value) -> Result {
        self.line(value.to_string())
    }

    /// Bytes as they are, flushed.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result {
        self.stdout.write_all(bytes)?;
        Ok(self.stdout.flush()?)
    }

    /// The text in colour, where colour is wanted.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Green => "32",
            Paint::Red => "31",
            Paint::Yellow => "33",
            Paint::Dim => "2",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Rows in columns, the last column as long as it is. Widths are those of the plain text.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn table(&mut self, rows: &[Vec<String>]) -> Result {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| plain_width(cell)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width + 2 - plain_width(cell)));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// Text from wherever, without what would drive the reader's terminal; colours stay.
fn harmless(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let color = rest.strip_prefix("\x1b[").and_then(|r| {
            let digits = r.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
            r[digits..].starts_with('m').then_some(digits + 3)
        });
        let len = color.unwrap_or(c.len_utf8());
        if color.is_some() || !c.is_control() || matches!(c, '\n' | '\t') {
            kept.push_str(&rest[..len]);
        }
        rest = &rest[len..];
    }
    kept
}

/// Width without the colour's escape sequences.
fn plain_width(cell: &str) -> usize {
    let mut in_escape = false;
    let visible = |c: &char| {
        let was = in_escape || *c == '\x1b';
        in_escape = was && *c != 'm';
        !was
    };
    cell.chars().filter(visible).count()
}

/// A span of time for people: `3 s`, `5 min`, `2 h`, `4 d`.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s @ 7200..=172_799 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

/// Time since an RFC 3339 moment, for people.
pub fn age(since: &str) -> String {
    let then = crate::protocol::timestamp::parse(since);
    then.and_then(|t| std::time::SystemTime::now().duration_since(t).ok()).map_or("-".to_owned(), span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_has_no_width() {
        assert_eq!(plain_width("\x1b[31mred\x1b[0m!"), 4);
        assert_eq!(
            harmless("\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2Jé\tx\n"),
            "\x1b[31mred\x1b[0m]0;title[2Jé\tx\n"
        );
        assert_eq!(span(Duration::from_secs(119)), "119 s");
        assert_eq!(span(Duration::from_secs(7200)), "2 h");
    }
}
