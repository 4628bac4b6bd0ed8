//! Groups, loops, conditions and functions.

use super::parser::{End, Parsed, Parser, RESERVED, ends_word, is_name};
use super::{Assignment, Simple, Word};

/// Operators of `[[ ]]` between two words.
const BINARY: [&str; 14] =
    ["=", "==", "!=", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "<"];

impl Parser<'_> {
    /// A compound command with its redirections.
    pub(super) fn compound(&mut self) -> Parsed {
        match self.reserved() {
            None if self.peek() == Some('(') => self.parens()?,
            Some("{") => {
                self.at += 1;
                self.list(End::Words(&["}"]))?;
                self.at += 1;
            }
            Some("if") => self.if_command()?,
            Some("while" | "until") => {
                self.at += 5;
                self.repeated(|parser| {
                    parser.list(End::Words(&["do"]))?;
                    parser.do_done()
                })?;
            }
            Some(word @ ("for" | "select")) => {
                self.at += word.len();
                self.repeated(Self::for_command)?;
            }
            Some("case") => self.case_command()?,
            Some("[[") => self.test_command()?,
            Some("function") => return self.function(),
            Some("coproc") => return self.stop("'coproc' is not looked into"),
            Some(word) => return self.stop(format!("'{word}' stands where no such word can")),
            None => return self.expected("a command"),
        }
        let redirects = self.redirects()?;
        if !redirects.is_empty() {
            let repeats = self.repeats > 0;
            self.script.commands.push(Simple { redirects, repeats, ..Simple::default() });
        }
        Ok(())
    }

    fn repeated(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.repeats += 1;
        let result = parse(self);
        self.repeats -= 1;
        result
    }

    /// A reserved word that must stand here.
    fn keyword(&mut self, word: &'static str) -> Parsed {
        self.newlines()?;
        if self.reserved() != Some(word) {
            return self.expected(&format!("'{word}'"));
        }
        self.at += word.len();
        Ok(())
    }

    fn parens(&mut self) -> Parsed {
        if self.ahead(1) == Some('(') {
            // Where it is none bash takes it as two groups, but not always.
            return if self.arithmetic()? { Ok(()) } else { self.stop("'((' that is no arithmetic") };
        }
        self.at += 1;
        self.list(End::Paren)?;
        if self.peek() != Some(')') {
            return self.expected("')'");
        }
        self.at += 1;
        Ok(())
    }

    fn if_command(&mut self) -> Parsed {
        self.at += 2;
        loop {
            self.list(End::Words(&["then"]))?;
            self.keyword("then")?;
            self.list(End::Words(&["elif", "else", "fi"]))?;
            match self.reserved() {
                Some("elif") => self.at += 4,
                Some("else") => {
                    self.at += 4;
                    self.list(End::Words(&["fi"]))?;
                    return self.keyword("fi");
                }
                _ => return self.keyword("fi"),
            }
        }
    }

    fn do_done(&mut self) -> Parsed {
        self.keyword("do")?;
        self.list(End::Words(&["done"]))?;
        self.keyword("done")
    }

    fn for_command(&mut self) -> Parsed {
        self.blanks();
        if self.sees("((") {
            if !self.arithmetic()? {
                return self.expected("'))'");
            }
            self.script.note("a loop by arithmetic");
            self.blanks();
            self.at += usize::from(self.peek() == Some(';'));
            return self.do_done();
        }
        let name = self.word()?;
        if !is_name(&name.raw) {
            return self.stop("a loop without a variable's name");
        }
        let assignment = Assignment { raw: format!("{}=", name.raw), name: name.raw };
        self.script.commands.push(Simple {
            assignments: vec![assignment],
            repeats: true,
            ..Simple::default()
        });
        self.newlines()?;
        if self.sees("in") && self.ahead(2).is_none_or(ends_word) {
            self.at += 2;
            loop {
                self.blanks();
                match self.peek() {
                    Some('<' | '>') if self.ahead(1) == Some('(') => drop(self.word()?),
                    Some(c) if !ends_word(c) => drop(self.word()?),
                    Some('\n' | ';') => break,
                    _ => return self.expected("';'"),
                }
            }
        }
        self.blanks();
        self.at += usize::from(self.peek() == Some(';') && self.ahead(1) != Some(';'));
        self.do_done()
    }

    fn case_command(&mut self) -> Parsed {
        self.at += 4;
        self.blanks();
        drop(self.word()?);
        self.newlines()?;
        if !self.sees("in") || !self.ahead(2).is_none_or(ends_word) {
            return self.expected("'in'");
        }
        self.at += 2;
        loop {
            self.newlines()?;
            if self.reserved() == Some("esac") {
                self.at += 4;
                return Ok(());
            }
            self.patterns()?;
            self.list(End::Clause)?;
            match self.peek() {
                Some(';') => {
                    self.at += 2;
                    self.at += usize::from(self.peek() == Some('&') && self.chars[self.at - 1] == ';');
                }
                _ => {
                    self.newlines()?;
                    return self.keyword("esac");
                }
            }
        }
    }

    /// `(a|b)` of a case.
    fn patterns(&mut self) -> Parsed {
        self.at += usize::from(self.peek() == Some('('));
        loop {
            self.blanks();
            drop(self.word()?);
            self.blanks();
            match self.peek() {
                Some('|') => self.at += 1,
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.expected("')'"),
            }
        }
    }

    /// `[[ ... ]]`, kept as a command of that name.
    fn test_command(&mut self) -> Parsed {
        let mut words = vec![Word { raw: "[[".to_owned(), text: "[[".to_owned(), ..Word::default() }];
        self.at += 2;
        self.condition(&mut words)?;
        self.newlines()?;
        if !self.is_condition_end() {
            return self.expected("']]'");
        }
        self.at += 2;
        let repeats = self.repeats > 0;
        self.script.commands.push(Simple { words, repeats, ..Simple::default() });
        Ok(())
    }

    fn is_condition_end(&self) -> bool {
        self.sees("]]") && self.ahead(2).is_none_or(ends_word)
    }

    fn condition(&mut self, words: &mut Vec<Word>) -> Parsed {
        loop {
            self.nested(|parser| parser.one_condition(words))?;
            self.newlines()?;
            if !self.sees("&&") && !self.sees("||") {
                return Ok(());
            }
            self.at += 2;
        }
    }

    fn one_condition(&mut self, words: &mut Vec<Word>) -> Parsed {
        self.newlines()?;
        if self.peek() == Some('!') && self.ahead(1).is_some_and(char::is_whitespace) {
            self.at += 1;
            return self.nested(|parser| parser.one_condition(words));
        }
        if self.peek() == Some('(') {
            self.at += 1;
            self.condition(words)?;
            self.newlines()?;
            if self.peek() != Some(')') {
                return self.expected("')'");
            }
            self.at += 1;
            return Ok(());
        }
        if self.is_condition_end() {
            return self.expected("a condition");
        }
        let first = self.word()?;
        let letters: Vec<char> = first.raw.chars().collect();
        let is_unary = letters.len() == 2 && letters[0] == '-' && letters[1].is_ascii_alphabetic();
        words.push(first);
        self.blanks();
        if is_unary {
            if self.is_condition_end() || self.peek().is_none_or(ends_word) {
                return self.stop("a condition that is not plain");
            }
            words.push(self.word()?);
            return Ok(());
        }
        if let Some(sign @ ('<' | '>')) = self.peek().filter(|_| self.ahead(1).is_some_and(|c| c == ' ')) {
            self.at += 1;
            words.push(Word { raw: sign.to_string(), text: sign.to_string(), ..Word::default() });
        } else if self.peek().is_some_and(|c| !ends_word(c)) && !self.is_condition_end() {
            let operator = self.word()?;
            if !BINARY.contains(&operator.raw.as_str()) {
                return self.stop("a condition that is not plain");
            }
            words.push(operator);
        } else {
            return Ok(());
        }
        self.blanks();
        if self.is_condition_end() {
            return self.expected("a word");
        }
        words.push(self.word()?);
        Ok(())
    }

    /// `function name [()] { ...; }`
    fn function(&mut self) -> Parsed {
        self.at += "function".len();
        self.blanks();
        let name = self.word()?;
        self.blanks();
        if self.sees("()") {
            self.at += 2;
        }
        self.body(&name)
    }

    /// `() { ...; }` behind the name that is the only word so far; answers that it is a function.
    pub(super) fn function_body(&mut self, simple: &Simple) -> Parsed<bool> {
        let [name] = simple.words.as_slice() else { return self.expected("the end of a command") };
        if !simple.assignments.is_empty() || !simple.redirects.is_empty() {
            return self.expected("the end of a command");
        }
        self.at += 1;
        self.blanks();
        if self.peek() != Some(')') {
            return self.expected("')'");
        }
        self.at += 1;
        self.body(name)?;
        Ok(true)
    }

    fn body(&mut self, name: &Word) -> Parsed {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        if !name.is_literal()
            || name.is_quoted
            || !name.text.chars().all(is_plain)
            || RESERVED.contains(&name.text.as_str())
        {
            return self.stop("a function whose name is not plain");
        }
        self.newlines()?;
        let is_compound = self.peek() == Some('(')
            || matches!(
                self.reserved(),
                Some("{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[")
            );
        if !is_compound {
            return self.expected("a function's body");
        }
        self.script.functions.push(name.text.clone());
        self.repeated(Self::compound)
    }
}
