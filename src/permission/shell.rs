//! The commands that a shell may make of a command line, for a no: quotes taken away, blanks squeezed, each command by
//! itself. It rather finds one command too many than one too few.

use super::fit::glob;

/// Words that run the command behind them, or one in their arguments.
const WRAPPERS: [&str; 40] = [
    "!", "ash", "bash", "builtin", "busybox", "case", "chroot", "command", "coproc", "dash", "do", "doas",
    "elif", "else", "env", "eval", "exec", "find", "flock", "if", "ionice", "ksh", "nice", "nohup",
    "parallel", "setsid", "sh", "ssh", "stdbuf", "sudo", "su", "then", "time", "timeout", "trap", "until",
    "watch", "while", "xargs", "zsh",
];

/// Whether the glob fits one of the commands, or one whose name is not known before it is run.
pub(super) fn may_run(pattern: &str, line: &str) -> bool {
    commands(line).iter().any(|words| may_be(pattern, words))
}

fn may_be(pattern: &str, words: &[Word]) -> bool {
    let Some(first) = words.first() else { return false };
    let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let name = first.text.rsplit('/').next().unwrap_or_default();
    let by_name = format!("{name}{}", &text[first.text.len()..]);
    if first.is_unsure() || glob(pattern, &text) || glob(pattern, &by_name) {
        return true;
    }
    let is_assignment = first.text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.trim_end_matches('+').chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    match (is_assignment, WRAPPERS.contains(&name)) {
        (true, _) => may_be(pattern, &words[1..]),
        // Which of its words are options is its own matter.
        (false, true) => (1..words.len()).any(|at| {
            let rest = &words[at..];
            // Where no command need stand, only what is known counts.
            let is_plain = !rest[0].is_unsure();
            let fits = (is_plain || at == 1) && may_be(pattern, rest);
            // A quoted word may be a line of its own, and is shorter than its quotes.
            fits || (rest[0].is_line() && may_run(pattern, &rest[0].text))
        }),
        (false, false) => false,
    }
}

/// A word without its quotes.
#[derive(Default)]
struct Word {
    text: String,
    /// Something in it is expanded.
    expands: bool,
    /// Some of it was quoted, so an empty text is a word too.
    is_quoted: bool,
}

impl Word {
    /// Whether it may be a command line of several words.
    fn is_line(&self) -> bool {
        self.is_quoted && self.text.contains([' ', '\t', '\'', '"', '\\'])
    }

    /// Whether the shell may make another word of it.
    fn is_unsure(&self) -> bool {
        let has = |c: char| self.text.contains(c);
        self.expands
            || (!self.is_quoted
                && (has('*') || has('?') || (has('[') && has(']')) || (has('{') && (has(',') || has('.')))))
    }
}

#[derive(Default)]
struct Lexer {
    commands: Vec<Vec<Word>>,
    words: Vec<Word>,
    word: Word,
    quote: Option<char>,
    /// Quotes around the substitutions that are open.
    outer: Vec<Option<char>>,
}

fn commands(line: &str) -> Vec<Vec<Word>> {
    let mut lexer = Lexer::default();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        lexer.take(c, &mut chars);
    }
    lexer.end_command();
    lexer.commands
}

impl Lexer {
    fn take(&mut self, c: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
        match (self.quote, c) {
            (Some(open), c) if c == open => self.quote = None,
            (Some('\''), c) => self.word.text.push(c),
            (None, '\'' | '"') => {
                self.quote = Some(c);
                self.word.is_quoted = true;
            }
            // What is substituted is a command of its own.
            (_, '`') => self.end_command(),
            (_, '$') => {
                self.word.expands = true;
                match rest.peek() {
                    Some('(') => {
                        rest.next();
                        self.end_command();
                        self.outer.push(self.quote.take());
                    }
                    // A quote with escapes of its own.
                    Some('\'' | '"') if self.quote.is_none() => {}
                    _ => self.word.text.push('$'),
                }
            }
            (None, '\\') => match rest.next() {
                Some('\n') | None => {}
                Some(next) => self.word.text.push(next),
            },
            (Some(_), '\\') if rest.peek().is_some_and(|next| "$`\"\\\n".contains(*next)) => {
                self.word.text.extend(rest.next().filter(|next| *next != '\n'));
            }
            (None, ' ' | '\t') => self.end_word(),
            (None, '(') => {
                self.end_command();
                self.outer.push(None);
            }
            (None, ')') => {
                self.end_command();
                self.quote = self.outer.pop().flatten();
            }
            (None, ';' | '&' | '|' | '<' | '>' | '\n' | '\r' | '\0') => self.end_command(),
            (_, c) => self.word.text.push(c),
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        match word.text.as_str() {
            "" if !word.is_quoted && !word.expands => {}
            "{" | "}" => self.end_command(),
            _ => self.words.push(word),
        }
    }

    fn end_command(&mut self) {
        let word = std::mem::take(&mut self.word);
        if !word.text.is_empty() || word.is_quoted {
            self.words.push(word);
        }
        self.commands.push(std::mem::take(&mut self.words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_disguise_is_seen() {
        for line in [
            "rm -rf x",
            "\"rm\" -rf x",
            "r\"m\" x",
            "'rm' x",
            r"\rm x",
            r"r\m x",
            "rm\tx",
            "  rm   x",
            "r\\\nm x",
            "/bin/rm x",
            "$'rm' x",
            "X=1 rm x",
            "sudo -u root rm x",
            "env A=b rm x",
            "sh -c 'rm x'",
            "bash -c \"r''m x\"",
            "find . -exec rm {} +",
            "ls | xargs rm -f",
            "if true; then rm x; fi",
            "! rm x",
            "{ rm x; }",
            "(rm x)",
            "echo \"$(rm x)\"",
            "echo \"$(\"rm\" x)\"",
            "echo \"$(ls)\"; \"rm\" y",
            "echo \"$( (ls); \"rm\" x)\"",
            "echo `rm x`",
            "$CMD x",
            "\"$CMD\" x",
            "r? x",
            "{rm,x}",
            "a; 'rm' x",
        ] {
            assert!(may_run("rm *", line), "{line}");
        }
        for line in [
            "ls",
            "cargo rm x",
            "git rm x",
            "echo 'rm x'",
            "echo $HOME",
            "[ -e x ] && ls *",
            "grep -r '*' .",
            "if [ -n \"$x\" ]; then ls; fi",
            "",
            "'",
        ] {
            assert!(!may_run("rm *", line), "{line}");
        }
    }
}
