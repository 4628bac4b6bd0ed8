//! What is expanded: parameters, command and process substitutions, arithmetic.

use super::parser::{End, Parsed, Parser, is_name};
use super::word::Within;
use super::{Assignment, Simple, Word, parse_into};

/// Parameters of one character.
const SPECIAL: &str = "@*#?-$!0123456789";
/// All that arithmetic without names has.
const ARITHMETIC: &str = "0123456789 \t\n+-*/%<>=!&|^~?:,";

impl Parser<'_> {
    /// What stands behind a `$`, which is here.
    pub(super) fn dollar(&mut self, word: &mut Word, within: Within) -> Parsed {
        let start = self.at;
        match self.ahead(1) {
            Some('\'') if within == Within::Nothing => return self.escaped_quotes(word),
            Some('"') if within == Within::Nothing => {
                // It may be translated.
                word.expands = true;
                word.raw.push('$');
                self.at += 1;
                return self.double_quotes(word);
            }
            Some('(') => self.substitution_or_arithmetic()?,
            Some('{') => self.nested(|parser| parser.parameter(within))?,
            Some('[') => {
                self.script.note("old arithmetic '$[' is not looked into");
                self.at += 1;
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.at += 1;
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
            }
            Some(c) if SPECIAL.contains(c) => self.at += 2,
            next => {
                if next == Some('\\') && self.ahead(2) == Some('\n') {
                    self.script.note("a line end stands within what is expanded");
                }
                word.raw.push('$');
                word.text.push('$');
                self.at += 1;
                return Ok(());
            }
        }
        self.expanded(word, start);
        Ok(())
    }

    /// Takes what was read since `start` as something that is expanded.
    fn expanded(&mut self, word: &mut Word, start: usize) {
        let raw = self.slice(start, self.at);
        word.raw.push_str(&raw);
        word.text.push_str(&raw);
        word.expands = true;
    }

    /// `<(...)` and `>(...)`.
    pub(super) fn process_substitution(&mut self, word: &mut Word) -> Parsed {
        let start = self.at;
        self.at += 1;
        self.substitution()?;
        self.expanded(word, start);
        Ok(())
    }

    /// `(...)` with commands.
    pub(super) fn substitution(&mut self) -> Parsed {
        self.at += 1;
        let outer = std::mem::take(&mut self.pending);
        let result = self.nested(Self::substituted);
        self.no_pending();
        self.pending = outer;
        result
    }

    fn substituted(&mut self) -> Parsed {
        self.newlines()?;
        if self.peek() != Some(')') {
            self.list(End::Paren)?;
        }
        if self.peek() != Some(')') {
            return self.expected("')'");
        }
        self.at += 1;
        Ok(())
    }

    fn substitution_or_arithmetic(&mut self) -> Parsed {
        self.at += 1;
        if self.ahead(1) == Some('(') && self.arithmetic()? {
            return Ok(());
        }
        self.substitution()
    }

    /// `((...))`; answers whether it was arithmetic, and stays where it is if not.
    pub(super) fn arithmetic(&mut self) -> Parsed<bool> {
        if self.no_arithmetic.contains(&self.at) {
            return Ok(false);
        }
        let start = self.at;
        let (commands, functions) = (self.script.commands.len(), self.script.functions.len());
        let (unsure, is_open) = (self.script.unsure.clone(), self.script.is_open);
        self.at += 2;
        if let Ok(true) = self.nested(Self::arithmetic_text) {
            return Ok(true);
        }
        self.at = start;
        self.script.commands.truncate(commands);
        self.script.functions.truncate(functions);
        (self.script.unsure, self.script.is_open) = (unsure, is_open);
        self.no_arithmetic.push(start);
        Ok(false)
    }

    fn arithmetic_text(&mut self) -> Parsed<bool> {
        let mut parens = 0_usize;
        let mut scratch = Word::default();
        loop {
            match self.peek() {
                None => return Ok(false),
                Some('(') => parens += 1,
                Some(')') if parens > 0 => parens -= 1,
                Some(')') if self.ahead(1) == Some(')') => {
                    self.at += 2;
                    return Ok(true);
                }
                Some(')') => return Ok(false),
                Some('$') => {
                    // A value is arithmetic again, and an index in it may run commands.
                    self.script.note("arithmetic with what is expanded");
                    self.dollar(&mut scratch, Within::Quotes)?;
                    continue;
                }
                Some('`') => {
                    self.script.note("arithmetic with what is expanded");
                    self.backticks(&mut scratch, Within::Quotes)?;
                    continue;
                }
                Some(c) if ARITHMETIC.contains(c) => {}
                Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                    self.script.note("arithmetic with names, whose values may run commands");
                }
                Some(_) => self.script.note("arithmetic that is not plain"),
            }
            self.at += 1;
        }
    }

    /// `` `...` ``
    pub(super) fn backticks(&mut self, word: &mut Word, within: Within) -> Parsed {
        let start = self.at;
        let mut inner = Vec::new();
        self.at += 1;
        loop {
            match (self.peek(), self.ahead(1)) {
                (None, _) => {
                    self.at = start;
                    return self.stop("a quote ` is not closed");
                }
                (Some('`'), _) => break,
                (Some('\\'), Some(c)) if "`\\$".contains(c) || (c == '"' && within == Within::Quotes) => {
                    inner.push(c);
                    self.at += 2;
                }
                (Some(c), _) => {
                    inner.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        let depth = self.depth + 1;
        let first = self.script.commands.len();
        self.nested(|parser| {
            parse_into(parser.script, &inner, depth);
            Ok(())
        })?;
        if self.repeats > 0 {
            self.script.commands[first..].iter_mut().for_each(|command| command.repeats = true);
        }
        self.expanded(word, start);
        Ok(())
    }

    /// `${...}`
    fn parameter(&mut self, within: Within) -> Parsed {
        let start = self.at;
        self.at += 2;
        if self.peek() == Some('!') && self.ahead(1) != Some('}') {
            self.script.note("a parameter is named by another one, whose value may run commands");
            self.at += 1;
        } else if self.peek() == Some('#') && self.ahead(1) != Some('}') {
            self.at += 1;
        }
        let name = self.parameter_name();
        if name.is_empty() {
            return self.stop("a substitution ${ has no name");
        }
        if self.peek() == Some('[') {
            self.index();
        }
        if self.peek() != Some('}') {
            self.operator(&name)?;
        }
        self.rest_of_parameter(start, within)
    }

    fn parameter_name(&mut self) -> String {
        let rest = &self.chars[self.at.min(self.chars.len())..];
        let word: String = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        let name = match rest.first() {
            _ if is_name(&word) || is_number => word,
            Some(c) if SPECIAL.contains(*c) && !c.is_ascii_digit() => c.to_string(),
            _ => String::new(),
        };
        self.at += name.len();
        name
    }

    fn index(&mut self) {
        let rest = &self.chars[self.at + 1..];
        let index: String = rest.iter().take_while(|c| **c != ']').collect();
        let is_plain = matches!(index.as_str(), "@" | "*") || index.chars().all(|c| c.is_ascii_digit());
        if !is_plain || rest.len() == index.chars().count() {
            self.script.note("an index may run commands");
            return;
        }
        self.at += index.len() + 2;
    }

    fn operator(&mut self, name: &str) -> Parsed {
        let assigns = match (self.peek(), self.ahead(1)) {
            (Some(':'), Some('=')) | (Some('='), _) => true,
            (Some(':'), Some('-' | '?' | '+')) | (Some('-' | '?' | '+' | '#' | '%' | '/' | '^' | ','), _) => {
                false
            }
            (Some(':'), _) => {
                let is_number = |c: &&char| c.is_ascii_digit() || " :-".contains(**c);
                let length = self.chars[self.at..].iter().take_while(is_number).count();
                if self.ahead(length) != Some('}') {
                    self.script.note("a place in a text may run commands");
                }
                false
            }
            (Some('@'), _) => {
                self.script.note("a value is expanded once more");
                false
            }
            // What is noted already.
            (Some('['), _) => false,
            _ => return self.expected("an operator of a substitution"),
        };
        if assigns {
            let assignment = Assignment { name: name.to_owned(), raw: format!("{name}=") };
            let repeats = self.repeats > 0;
            self.script.commands.push(Simple { assignments: vec![assignment], repeats, ..Simple::default() });
        }
        Ok(())
    }

    /// Up to the `}`.
    fn rest_of_parameter(&mut self, start: usize, within: Within) -> Parsed {
        let mut scratch = Word::default();
        loop {
            match self.peek() {
                None => {
                    self.at = start;
                    return self.stop("a substitution ${ is not closed");
                }
                Some('}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => self.at += 2,
                Some('\'') if within == Within::Quotes => {
                    self.script.note("a quote ' stands in a substitution within quotes");
                    self.at += 1;
                }
                Some('\'') => {
                    let length = self.chars[self.at + 1..].iter().position(|c| *c == '\'');
                    let Some(length) = length else { return self.stop("a quote ' is not closed") };
                    self.at += length + 2;
                }
                Some('"') => self.double_quotes(&mut scratch)?,
                Some('$') => self.dollar(&mut scratch, within)?,
                Some('`') => self.backticks(&mut scratch, within)?,
                Some('<' | '>') if self.ahead(1) == Some('(') => self.process_substitution(&mut scratch)?,
                Some(_) => self.at += 1,
            }
        }
    }

    /// All that is expanded in a here-document's text.
    pub(super) fn expansions_of_text(&mut self) -> Parsed {
        let mut scratch = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '\\' => self.at += 2,
                '$' => self.dollar(&mut scratch, Within::Quotes)?,
                '`' => self.backticks(&mut scratch, Within::Quotes)?,
                _ => self.at += 1,
            }
        }
        Ok(())
    }
}
