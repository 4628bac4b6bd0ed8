//! Lists, pipelines and simple commands.

use super::{Assignment, DEPTH_MAX, Redirect, RedirectKind, Script, Simple, Word};

/// Where parsing ended, and why.
#[derive(Debug)]
pub(super) struct Stop {
    /// Where what was wrong began.
    pub(super) at: usize,
    pub(super) why: String,
}

pub(super) type Parsed<T = ()> = Result<T, Stop>;

/// What ends a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    /// The text's end.
    Text,
    /// `)`
    Paren,
    /// One of these reserved words.
    Words(&'static [&'static str]),
    /// `;;`, `;&`, `;;&` or `esac`.
    Clause,
}

/// A here-document whose text is still to come.
#[derive(Debug)]
pub(super) struct Pending {
    delimiter: String,
    is_quoted: bool,
    /// `<<-`
    strips_tabs: bool,
}

/// Words that bash takes as its own where a command could begin.
pub(super) const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "select", "then", "time", "until", "while", "{", "}", "in",
];

/// So many characters an index may have to be seen as one.
const INDEX_MAX: usize = 200;

pub(super) struct Parser<'a> {
    pub(super) script: &'a mut Script,
    pub(super) chars: &'a [char],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// Loops and functions around.
    pub(super) repeats: usize,
    pub(super) pending: Vec<Pending>,
    /// Places of `((` that turned out to be no arithmetic: each is tried once, or nesting would double the work.
    pub(super) no_arithmetic: Vec<usize>,
}

/// Whether a character ends a word.
pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

/// Whether a text can be a variable's name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl<'a> Parser<'a> {
    pub(super) fn new(script: &'a mut Script, chars: &'a [char], at: usize, depth: usize) -> Parser<'a> {
        Parser { script, chars, at, depth, repeats: 0, pending: Vec::new(), no_arithmetic: Vec::new() }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// The character `n` behind the present one.
    pub(super) fn ahead(&self, n: usize) -> Option<char> {
        self.chars.get(self.at + n).copied()
    }

    pub(super) fn sees(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(n, c)| self.ahead(n) == Some(c))
    }

    pub(super) fn stop<T>(&self, why: impl Into<String>) -> Parsed<T> {
        Err(Stop { at: self.at, why: why.into() })
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = self.peek().map_or("the end".to_owned(), |c| format!("'{}'", c.escape_debug()));
        self.stop(format!("{what} is missing before {found}"))
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> String {
        self.chars[from.min(to)..to.min(self.chars.len())].iter().collect()
    }

    /// Goes one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return self.stop(format!("it is nested deeper than {DEPTH_MAX} levels"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// The text to its end.
    pub(super) fn whole(&mut self) -> Parsed {
        self.list(End::Text)?;
        self.no_pending();
        Ok(())
    }

    /// Notes here-documents that never came.
    pub(super) fn no_pending(&mut self) {
        if let Some(pending) = self.pending.first() {
            let why = format!("the here-document up to '{}' is missing", pending.delimiter);
            self.script.note(why);
            self.pending.clear();
        }
    }

    /// Blanks and escaped line ends.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.ahead(1) == Some('\n') => self.at += 2,
                _ => return,
            }
        }
    }

    /// Blanks, line ends, comments.
    pub(super) fn newlines(&mut self) -> Parsed {
        loop {
            self.blanks();
            match self.peek() {
                Some('\n') => self.newline()?,
                Some('#') => self.comment(),
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    /// A line end, and the here-documents that begin behind it.
    fn newline(&mut self) -> Parsed {
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            self.here_document(&pending)?;
        }
        Ok(())
    }

    fn here_document(&mut self, pending: &Pending) -> Parsed {
        let start = self.at;
        loop {
            if self.at >= self.chars.len() {
                self.script.note(format!("the here-document up to '{}' does not end", pending.delimiter));
                return self.here_text(start, self.chars.len(), pending);
            }
            let line_start = self.at;
            self.comment();
            let line = self.slice(line_start, self.at);
            let plain = if pending.strips_tabs { line.trim_start_matches('\t') } else { &line };
            let is_end = plain == pending.delimiter;
            self.at = (self.at + 1).min(self.chars.len());
            if is_end {
                return self.here_text(start, line_start, pending);
            }
        }
    }

    /// What is substituted in a here-document.
    fn here_text(&mut self, from: usize, to: usize, pending: &Pending) -> Parsed {
        if pending.is_quoted {
            return Ok(());
        }
        self.nested(|parser| {
            let chars = &parser.chars[from..to];
            let mut inner = Parser::new(parser.script, chars, 0, parser.depth);
            inner.repeats = parser.repeats;
            // Bash looks at it only when it runs.
            if let Err(stop) = inner.expansions_of_text() {
                parser.script.note(stop.why);
            }
            Ok(())
        })
    }

    /// The reserved word that stands here.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        RESERVED.iter().copied().find(|word| {
            self.sees(word) && self.ahead(word.len()).is_none_or(ends_word) && *word != "in" && *word != "]]"
        })
    }

    fn is_at(&self, end: End) -> bool {
        match end {
            End::Text => self.peek().is_none(),
            End::Paren => self.peek() == Some(')'),
            End::Words(words) => self.reserved().is_some_and(|word| words.contains(&word)),
            End::Clause => self.sees(";;") || self.sees(";&") || self.reserved() == Some("esac"),
        }
    }

    /// Commands up to what ends them, which is left.
    pub(super) fn list(&mut self, end: End) -> Parsed {
        let mut is_empty = !matches!(end, End::Text | End::Clause);
        loop {
            self.newlines()?;
            if self.is_at(end) && !is_empty {
                return Ok(());
            }
            self.pipelines()?;
            is_empty = false;
            self.blanks();
            match self.peek() {
                _ if self.is_at(end) => return Ok(()),
                Some(';') if !matches!(self.ahead(1), Some(';' | '&')) => self.at += 1,
                Some('&') if self.ahead(1) != Some('&') => self.at += 1,
                Some('\n') => self.newline()?,
                _ => return self.expected("the end of a command"),
            }
        }
    }

    /// Pipelines joined by `&&` and `||`.
    fn pipelines(&mut self) -> Parsed {
        loop {
            self.pipeline()?;
            self.blanks();
            if !self.sees("&&") && !self.sees("||") {
                return Ok(());
            }
            self.at += 2;
            self.newlines()?;
        }
    }

    fn pipeline(&mut self) -> Parsed {
        loop {
            self.blanks();
            match self.reserved() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.at += 4;
                    self.blanks();
                    for option in ["-p", "--"] {
                        if self.sees(option) && self.ahead(2).is_none_or(ends_word) {
                            self.at += 2;
                            self.blanks();
                        }
                    }
                }
                _ => break,
            }
        }
        loop {
            self.nested(Self::command)?;
            self.blanks();
            if self.peek() != Some('|') || self.ahead(1) == Some('|') {
                return Ok(());
            }
            self.at += if self.ahead(1) == Some('&') { 2 } else { 1 };
            self.newlines()?;
        }
    }

    fn command(&mut self) -> Parsed {
        self.blanks();
        if self.peek() == Some('(') || self.reserved().is_some() {
            return self.compound();
        }
        let mut simple = Simple { repeats: self.repeats > 0, ..Simple::default() };
        let result = self.simple(&mut simple);
        let is_function = matches!(result, Ok(true));
        // What was read before something went wrong counts too.
        if !simple.is_empty() && !is_function {
            self.script.commands.push(simple);
        } else if result.is_ok() && !is_function {
            return self.expected("a command");
        }
        result.map(drop)
    }

    /// Reads a simple command; answers whether it was a function instead.
    fn simple(&mut self, simple: &mut Simple) -> Parsed<bool> {
        loop {
            self.blanks();
            let Some(c) = self.peek() else { return Ok(false) };
            match c {
                '(' => return self.function_body(simple),
                '#' => self.comment(),
                '<' | '>' if self.ahead(1) == Some('(') => simple.words.push(self.word()?),
                '<' | '>' => simple.redirects.extend(self.redirect()?),
                '&' if self.ahead(1) == Some('>') => simple.redirects.extend(self.redirect()?),
                c if ends_word(c) => return Ok(false),
                c if c.is_ascii_digit() && self.is_descriptor() => {
                    simple.redirects.extend(self.redirect()?);
                }
                _ => match self.assignment(simple)? {
                    Some(assignment) => simple.assignments.push(assignment),
                    None => {
                        let word = self.word()?;
                        self.check_word(&word, simple)?;
                        simple.words.push(word);
                    }
                },
            }
        }
    }

    fn check_word(&mut self, word: &Word, simple: &Simple) -> Parsed {
        if simple.words.is_empty() && RESERVED.contains(&word.text.as_str()) && !word.is_quoted {
            return self.stop(format!("'{}' stands where no such word can", word.text));
        }
        // An assignment with a line end in its name, which bash takes away.
        if simple.words.is_empty()
            && word.raw.split_once('=').is_some_and(|(name, _)| is_name(name.trim_end_matches('+')))
        {
            self.script.note("a line end stands within an assignment");
        }
        if simple.words.is_empty() && word.raw.split_once('[').is_some_and(|(name, _)| is_name(name)) {
            self.script.note("it begins like an element of an array");
        }
        if matches!(self.peek(), Some('<' | '>')) && word.raw.starts_with('{') && word.raw.ends_with('}') {
            self.script.note("a descriptor is kept in a variable");
        }
        Ok(())
    }

    /// Whether digits with a redirection behind them stand here.
    fn is_descriptor(&self) -> bool {
        let digits = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit()).count();
        matches!(self.ahead(digits), Some('<' | '>'))
    }

    /// An assignment, if one stands here and no word was before it.
    fn assignment(&mut self, simple: &Simple) -> Parsed<Option<Assignment>> {
        let rest = &self.chars[self.at..];
        let length = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
        let name: String = rest[..length].iter().collect();
        let is_one = match (rest.get(length), rest.get(length + 1)) {
            (Some('='), _) | (Some('+'), Some('=')) => true,
            (Some('['), _) if simple.words.is_empty() && is_name(&name) => {
                // Bash reads up to the bracket's end, whatever is in there.
                self.script.note("an element of an array is assigned: its index may run commands");
                let mut line =
                    rest.iter().skip(length).take(INDEX_MAX).take_while(|c| **c != '\n').collect::<Vec<_>>();
                line.dedup_by(|next, before| **before == ']' && **next == '+');
                line.windows(2).any(|pair| *pair[0] == ']' && *pair[1] == '=')
            }
            _ => false,
        };
        if !is_one || !is_name(&name) || !simple.words.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        self.at += length + rest[length..].iter().position(|c| *c == '=').unwrap_or(0) + 1;
        match self.peek() {
            // Behind a redirection bash takes no list.
            Some('(') if simple.redirects.is_empty() => self.array()?,
            Some(c) if !ends_word(c) || (matches!(c, '<' | '>') && self.ahead(1) == Some('(')) => {
                drop(self.word()?);
            }
            _ => {}
        }
        Ok(Some(Assignment { name, raw: self.slice(start, self.at) }))
    }

    /// `(a b c)` behind `name=`.
    fn array(&mut self) -> Parsed {
        self.at += 1;
        loop {
            self.newlines()?;
            match self.peek() {
                Some(')') => {
                    self.at += 1;
                    let is_end = self.peek().is_none_or(ends_word);
                    return if is_end { Ok(()) } else { self.expected("the end of a list") };
                }
                Some('[') => {
                    self.script.note("an element of an array is assigned: its index may run commands");
                    drop(self.word()?);
                }
                Some(c) if !ends_word(c) || (matches!(c, '<' | '>') && self.ahead(1) == Some('(')) => {
                    drop(self.word()?);
                }
                _ => return self.expected("')'"),
            }
        }
    }

    /// Redirections, if some stand here.
    pub(super) fn redirects(&mut self) -> Parsed<Vec<Redirect>> {
        let mut all = Vec::new();
        loop {
            self.blanks();
            let is_one = match self.peek() {
                Some('<' | '>') => self.ahead(1) != Some('('),
                Some('&') => self.ahead(1) == Some('>'),
                Some(c) => c.is_ascii_digit() && self.is_descriptor(),
                None => false,
            };
            if !is_one {
                return Ok(all);
            }
            all.extend(self.redirect()?);
        }
    }

    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        // The longest first.
        const SIGNS: [(&str, RedirectKind); 12] = [
            ("&>>", RedirectKind::Write),
            ("<<<", RedirectKind::HereString),
            ("<<-", RedirectKind::HereDocument),
            ("&>", RedirectKind::Write),
            (">>", RedirectKind::Write),
            (">|", RedirectKind::Write),
            (">&", RedirectKind::Copy),
            ("<&", RedirectKind::Copy),
            ("<<", RedirectKind::HereDocument),
            ("<>", RedirectKind::Write),
            (">", RedirectKind::Write),
            ("<", RedirectKind::Read),
        ];
        let Some((sign, kind)) = SIGNS.into_iter().find(|(sign, _)| self.sees(sign)) else {
            return self.expected("a redirection");
        };
        self.at += sign.len();
        self.blanks();
        let is_word = match self.peek() {
            Some('<' | '>') => self.ahead(1) == Some('('),
            // Digits before a sign are its descriptor.
            Some(c) => !(ends_word(c) || (c.is_ascii_digit() && self.is_descriptor())),
            None => false,
        };
        if !is_word {
            return self.expected("the file of a redirection");
        }
        let target = self.word()?;
        let kind = match kind {
            RedirectKind::Copy if is_copy(&target) => RedirectKind::Copy,
            // A descriptor, or a file of whatever name.
            RedirectKind::Copy if sign == "<&" => {
                self.script.note("what is read from is not known");
                RedirectKind::Read
            }
            RedirectKind::Copy => RedirectKind::Write,
            kind => kind,
        };
        if kind == RedirectKind::HereDocument {
            if target.expands {
                self.script.note("the end of a here-document is not known");
            }
            let (delimiter, is_quoted) = (target.text.clone(), target.is_quoted);
            self.pending.push(Pending { delimiter, is_quoted, strips_tabs: sign == "<<-" });
        }
        Ok(Some(Redirect { kind, target }))
    }
}

/// Whether it is a descriptor, or `-`.
fn is_copy(word: &Word) -> bool {
    let digits = word.raw.trim_end_matches('-');
    word.raw == "-"
        || (!digits.is_empty()
            && digits.chars().all(|c| c.is_ascii_digit())
            && word.raw.len() <= digits.len() + 1)
}
