//! Words: quotes, escapes, braces, patterns.

use super::Word;
use super::parser::{Parsed, Parser, ends_word};

impl Parser<'_> {
    /// A word; one must stand here.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        let mut word = Word::default();
        let mut braces = Braces::default();
        let start = self.at;
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.ahead(1) == Some('(') => self.process_substitution(&mut word)?,
                c if ends_word(c) => break,
                '\\' => self.escape(&mut word)?,
                '\'' => self.single_quotes(&mut word)?,
                '"' => self.double_quotes(&mut word)?,
                '$' => self.dollar(&mut word, Within::Nothing)?,
                '`' => self.backticks(&mut word, Within::Nothing)?,
                c => {
                    let before = word.raw.chars().last();
                    word.is_glob |= matches!(c, '*' | '?') || braces.is_class(c);
                    word.is_home |= c == '~' && before.is_none();
                    // As in an assignment.
                    word.expands |=
                        (c == '~' && matches!(before, Some('=' | ':'))) || braces.expand(c, before);
                    word.raw.push(c);
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        // What begins so is a comment.
        if self.at == start || word.raw.starts_with('#') {
            return self.expected("a word");
        }
        Ok(word)
    }

    fn escape(&mut self, word: &mut Word) -> Parsed {
        match self.ahead(1) {
            None => return self.stop("it ends in a backslash"),
            Some('\n') => {}
            Some(c) => {
                word.raw.extend(['\\', c]);
                word.text.push(c);
                word.is_quoted = true;
            }
        }
        self.at += 2;
        Ok(())
    }

    fn single_quotes(&mut self, word: &mut Word) -> Parsed {
        let start = self.at;
        let rest = &self.chars[start + 1..];
        let Some(length) = rest.iter().position(|c| *c == '\'') else {
            return self.stop("a quote ' is not closed");
        };
        let text: String = rest[..length].iter().collect();
        self.at += length + 2;
        word.raw.push_str(&self.slice(start, self.at));
        word.text.push_str(&text);
        word.is_quoted = true;
        Ok(())
    }

    /// Double quotes with what is expanded in them.
    pub(super) fn double_quotes(&mut self, word: &mut Word) -> Parsed {
        let start = self.at;
        word.is_quoted = true;
        word.raw.push('"');
        self.at += 1;
        loop {
            match self.peek() {
                None => {
                    self.at = start;
                    return self.stop("a quote \" is not closed");
                }
                Some('"') => break,
                Some('$') => self.dollar(word, Within::Quotes)?,
                Some('`') => self.backticks(word, Within::Quotes)?,
                Some('\\') => {
                    match self.ahead(1) {
                        Some('\n') => {}
                        Some(c) if "$`\"\\".contains(c) => {
                            word.raw.extend(['\\', c]);
                            word.text.push(c);
                        }
                        Some(c) => {
                            word.raw.extend(['\\', c]);
                            word.text.extend(['\\', c]);
                        }
                        None => word.raw.push('\\'),
                    }
                    self.at += 2;
                }
                Some(c) => {
                    word.raw.push(c);
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        word.raw.push('"');
        self.at += 1;
        Ok(())
    }

    /// `$'...'`, its escapes as the characters that they mean.
    pub(super) fn escaped_quotes(&mut self, word: &mut Word) -> Parsed {
        let start = self.at;
        word.is_quoted = true;
        self.at += 2;
        loop {
            match self.peek() {
                None => {
                    self.at = start;
                    return self.stop("a quote $' is not closed");
                }
                Some('\'') => break,
                Some('\\') => {
                    self.at += 1;
                    match self.escaped_char() {
                        Some(c) => word.text.push(c),
                        None => word.expands = true,
                    }
                }
                Some(c) => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        word.raw.push_str(&self.slice(start, self.at));
        Ok(())
    }

    /// The character that an escape in `$'...'` means; none where that is not known.
    fn escaped_char(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        let plain = match c {
            'a' => '\x07',
            'b' => '\x08',
            'e' | 'E' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '\\' | '\'' | '"' | '?' => c,
            'x' => return self.code(16, 2, None),
            'u' => return self.code(16, 4, None),
            'U' => return self.code(16, 8, None),
            '0'..='7' => return self.code(8, 2, c.to_digit(8)),
            _ => return None,
        };
        Some(plain)
    }

    /// An ASCII character but NUL, by its number.
    fn code(&mut self, radix: u32, digits: usize, first: Option<u32>) -> Option<char> {
        let mut value = first;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            value = Some(value.unwrap_or(0).checked_mul(radix)? + digit);
            self.at += 1;
        }
        let code = value.filter(|code| (1..128).contains(code))?;
        char::from_u32(code)
    }
}

/// What surrounds an expansion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Within {
    Nothing,
    /// Double quotes, or a here-document.
    Quotes,
}

/// Whether braces expand to several words, and brackets are a class of characters.
#[derive(Default)]
struct Braces {
    is_open: bool,
    has_choice: bool,
    has_bracket: bool,
}

impl Braces {
    fn is_class(&mut self, c: char) -> bool {
        self.has_bracket |= c == '[';
        self.has_bracket && c == ']'
    }

    fn expand(&mut self, c: char, before: Option<char>) -> bool {
        match c {
            '{' => self.is_open = true,
            ',' => self.has_choice |= self.is_open,
            '.' => self.has_choice |= self.is_open && before == Some('.'),
            '}' => return self.is_open && self.has_choice,
            _ => {}
        }
        false
    }
}
