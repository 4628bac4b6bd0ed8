//! What a shell would run of a command line: each simple command by itself, wherever it stands (lists, pipes, groups,
//! substitutions, loops, here-documents), with its words, assignments and redirections. Nothing is expanded.
//!
//! The parser is at least as strict as `bash -n` (bash 5.2): what it does not know for certain makes the script
//! [`unsure`](Script::unsure). Even then the commands that it could make out are there, for rules that deny.

mod compound;
mod expansion;
mod parser;
mod word;

use parser::{Parser, Stop};

/// Longest text in characters that is called sure.
const LENGTH_MAX: usize = 10_000;
/// Longest text that is looked at; what is behind that is not known.
const LOOK_MAX: usize = 100_000;
/// How often a text that cannot be parsed is tried again behind the place that was wrong.
const RESTARTS_MAX: usize = 64;
/// How deep commands may be nested.
const DEPTH_MAX: usize = 40;

/// All that a command line would run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// Every simple command, in the order in which they end.
    pub commands: Vec<Simple>,
    /// Names of the functions that it defines.
    pub functions: Vec<String>,
    /// Why the commands are not known for certain.
    pub unsure: Option<String>,
    /// There may be commands that were not found.
    pub is_open: bool,
}

/// A simple command. One without words only assigns or redirects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simple {
    /// Assignments in front.
    pub assignments: Vec<Assignment>,
    /// Its words, the command's name first.
    pub words: Vec<Word>,
    /// Its redirections.
    pub redirects: Vec<Redirect>,
    /// Whether it may run more than once: in a loop or a function.
    pub repeats: bool,
}

/// A word.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Word {
    /// As it stands in the text.
    pub raw: String,
    /// Without quotes; what is expanded stands as it was written.
    pub text: String,
    /// Something in it is expanded: parameters, substitutions, braces.
    pub expands: bool,
    /// It has characters of a file pattern outside quotes.
    pub is_glob: bool,
    /// Some of it is quoted.
    pub is_quoted: bool,
    /// It begins with a tilde that stands for a home directory.
    pub is_home: bool,
}

/// `name=value`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// As it stands in the text.
    pub raw: String,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq)]
pub struct Redirect {
    /// What it does.
    pub kind: RedirectKind,
    /// The file; for `HereDocument` the delimiter, for `Copy` the descriptor.
    pub target: Word,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// `<`
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `<>`, `>&FILE`
    Write,
    /// `>&1`, `<&3`, `2>&-`
    Copy,
    /// `<<`, `<<-`
    HereDocument,
    /// `<<<`
    HereString,
}

impl Word {
    /// Whether the shell takes it as the one word that `text` is.
    pub fn is_literal(&self) -> bool {
        !self.expands && !self.is_glob && !self.is_home
    }
}

impl Simple {
    /// Its words as they stand in the text, one blank between two.
    pub fn raw(&self) -> String {
        joined(self.words.iter().map(|word| word.raw.as_str()))
    }

    /// Its words without quotes, one blank between two.
    pub fn text(&self) -> String {
        joined(self.words.iter().map(|word| word.text.as_str()))
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty() && self.redirects.is_empty()
    }
}

fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Parses a command line as bash would read it with `-c`.
pub fn parse(text: &str) -> Script {
    let chars: Vec<char> = text.chars().take(LOOK_MAX + 1).collect();
    let mut script = Script { is_open: chars.len() > LOOK_MAX, ..Script::default() };
    if chars.len() > LENGTH_MAX {
        script.note(format!("it is longer than {LENGTH_MAX} characters"));
    }
    if let Some(odd) = chars.iter().find(|c| is_odd(**c)) {
        script.note(format!(
            "it holds the character U+{:04X}, which shows otherwise than it is read",
            u32::from(*odd)
        ));
    }
    parse_into(&mut script, &chars, 0);
    script
}

/// Parses a piece of text; what is wrong is noted, and the rest tried.
fn parse_into(script: &mut Script, chars: &[char], depth: usize) {
    let mut from = 0;
    for _ in 0..RESTARTS_MAX {
        let mut parser = Parser::new(script, chars, from, depth);
        let Err(Stop { at, why }) = parser.whole() else { return };
        script.note(why);
        from = at.max(from) + 1;
        if from >= chars.len() {
            return;
        }
    }
    script.is_open = true;
}

/// Control characters, and what is invisible or reorders text.
fn is_odd(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || (c.is_whitespace() && !matches!(c, ' ' | '\n' | '\t'))
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

impl Script {
    /// Notes why it is unsure; the first reason stays.
    fn note(&mut self, why: impl Into<String>) {
        self.unsure.get_or_insert_with(|| why.into());
    }
}

#[cfg(test)]
mod tests;
