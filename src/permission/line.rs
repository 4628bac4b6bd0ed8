//! A whole command line made ready for judging: lines for inner shells are laid open, and the directories in which its
//! commands may run are known.

use super::shell::{self, RedirectKind, Script, Simple, Word};
use super::unwrap::{Inner, inner};
use std::path::{Path, PathBuf};

/// Lines within lines that are laid open at most.
const DEPTH_MAX: usize = 4;
/// Directories that are kept at most.
const DIRECTORIES_MAX: usize = 16;
/// Paths that the caller has to follow at most.
const PATHS_MAX: usize = 2000;

/// A command line.
#[derive(Debug)]
pub(super) struct Line {
    /// Its commands, those of inner lines too.
    pub(super) script: Script,
    /// Where its commands may run.
    pub(super) directories: Vec<PathBuf>,
    /// It may go to directories that are not known.
    pub(super) wanders: bool,
}

/// A command without its wrappers.
#[derive(Debug)]
pub(super) struct Core<'a> {
    /// Its words.
    pub(super) words: &'a [Word],
    /// Variables that wrappers set for it.
    pub(super) variables: Vec<&'a str>,
    /// It gets words besides those that are written.
    pub(super) has_more: bool,
    /// Its words are a line of which the commands are laid open.
    pub(super) is_line: bool,
    /// The words of each wrapper around it, the outermost first, and its own.
    pub(super) layers: Vec<&'a [Word]>,
}

/// Takes the wrappers off.
pub(super) fn core(words: &[Word]) -> Core<'_> {
    let mut core =
        Core { words, variables: Vec::new(), has_more: false, is_line: false, layers: vec![words] };
    loop {
        match inner(core.words) {
            Inner::Command { words, variables, has_more } => {
                core.words = words;
                core.variables.extend(variables);
                core.has_more |= has_more;
                core.layers.push(words);
            }
            // What xargs adds would be words of that line.
            Inner::Line(_) if !core.has_more => {
                core.is_line = true;
                return core;
            }
            _ => return core,
        }
    }
}

/// The file that a word is, as far as it is known before it runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Named {
    /// These, by the directories in which it may be.
    Files(Vec<PathBuf>),
    /// Some in these folders.
    Some(Vec<PathBuf>),
    /// Nobody knows.
    Unknown,
}

impl Line {
    /// Parses a command line that runs in `cwd`.
    pub(super) fn new(text: &str, cwd: &Path, home: &Path) -> Line {
        let mut script = shell::parse(text);
        lay_open(&mut script);
        let mut line = Line { script, directories: vec![cwd.to_owned()], wanders: false };
        for at in 0..line.script.commands.len() {
            let command = line.script.commands[at].clone();
            line.go(&command, home);
        }
        line
    }

    /// Notes where a command may lead the shell.
    fn go(&mut self, command: &Simple, home: &Path) {
        let words = core(&command.words).words;
        let name = words.first().map_or("", |word| word.text.as_str());
        if matches!(name, "pushd" | "popd") {
            self.wanders = true;
        }
        if name != "cd" {
            return;
        }
        let target = match words {
            [_, target] if !command.repeats && target.is_literal() | target.is_home => target,
            _ => {
                self.wanders = true;
                return;
            }
        };
        match self.named(target, home) {
            Named::Files(files)
                if self.directories.len() + files.len() <= DIRECTORIES_MAX && target.text != "-" =>
            {
                for file in files {
                    if !self.directories.contains(&file) {
                        self.directories.push(file);
                    }
                }
            }
            _ => self.wanders = true,
        }
    }

    /// Whether it goes anywhere.
    pub(super) fn moves(&self) -> bool {
        self.wanders || self.directories.len() > 1
    }

    /// The file that a word names.
    pub(super) fn named(&self, word: &Word, home: &Path) -> Named {
        self.named_text(&word.text, word, home)
    }

    /// The file that a part of a word names.
    pub(super) fn named_text(&self, text: &str, word: &Word, home: &Path) -> Named {
        if word.expands || text.is_empty() || text.contains('\0') {
            return Named::Unknown;
        }
        let text = match text.strip_prefix('~').filter(|_| word.is_home) {
            Some("") => home.to_string_lossy().into_owned(),
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", home.to_string_lossy()),
            Some(_) => return Named::Unknown,
            None => text.to_owned(),
        };
        if self.wanders && !text.starts_with('/') {
            return Named::Unknown;
        }
        let all = |text: &str| self.directories.iter().map(|dir| dir.join(text)).collect();
        let Some(star) = text.find(['*', '?', '[']).filter(|_| word.is_glob) else {
            return Named::Files(all(&text));
        };
        // Behind a pattern `..` may lead out of anything.
        if text[star..].split('/').any(|part| part == "..") {
            return Named::Unknown;
        }
        let folder = text[..star].rfind('/').map_or("", |slash| &text[..=slash]);
        Named::Some(all(folder))
    }

    /// Every path whose links the caller is to follow.
    pub(super) fn paths(&self, home: &Path) -> Vec<PathBuf> {
        let mut all = self.directories.clone();
        let mut add = |named: Named| {
            if let Named::Files(files) | Named::Some(files) = named {
                all.extend(files);
            }
        };
        for command in &self.script.commands {
            let targets = command
                .redirects
                .iter()
                .filter(|redirect| matches!(redirect.kind, RedirectKind::Read | RedirectKind::Write));
            for word in command.words.iter().chain(targets.map(|redirect| &redirect.target)) {
                add(self.named(word, home));
                for text in values(word) {
                    add(self.named_text(text, word, home));
                }
            }
        }
        all.sort();
        all.dedup();
        // Of more nobody knows where they lead, so they are asked for.
        all.truncate(PATHS_MAX);
        all
    }
}

/// What may be a file in a word: behind `=` or `:`, behind the letter of an option.
pub(super) fn values(word: &Word) -> Vec<&str> {
    let behind_sign = word.text.split_once('=').map(|(_, value)| value);
    let is_short = word.text.starts_with('-') && !word.text.starts_with("--");
    let short = word.text.as_str();
    let behind_letter = short.char_indices().nth(2).map(|(at, _)| &short[at..]);
    // Among several letters a file begins at the latest here.
    let from_sign = ['/', '.'].into_iter().filter_map(|sign| short.find(sign)).map(|at| &short[at..]);
    let of_short = behind_letter.into_iter().chain(from_sign).filter(|_| is_short);
    // As git names a file of a commit.
    let behind_colon = word.text.split_once(':').map(|(_, value)| value).filter(|_| !is_short);
    behind_sign.into_iter().chain(behind_colon).chain(of_short).filter(|value| !value.is_empty()).collect()
}

/// Puts the commands of inner lines behind the command that runs them: where a `cd` stands matters.
fn lay_open(script: &mut Script) {
    let mut depths = vec![0; script.commands.len()];
    let mut at = 0;
    while at < script.commands.len() {
        if let Some(line) = innermost(&script.commands[at].words) {
            if depths[at] == DEPTH_MAX {
                script.unsure.get_or_insert_with(|| "it has lines within lines within lines".to_owned());
                return;
            }
            let mut found = shell::parse(&line);
            let repeats = script.commands[at].repeats;
            found.commands.iter_mut().for_each(|command| command.repeats |= repeats);
            let inner = std::iter::repeat_n(depths[at] + 1, found.commands.len());
            depths.splice(at + 1..at + 1, inner);
            script.commands.splice(at + 1..at + 1, found.commands);
            script.functions.append(&mut found.functions);
            script.is_open |= found.is_open;
            script.unsure = script.unsure.take().or(found.unsure);
        }
        at += 1;
    }
}

fn innermost(words: &[Word]) -> Option<String> {
    let core = core(words);
    match inner(core.words) {
        Inner::Line(line) if core.is_line => Some(line),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::new(text, Path::new("/p"), Path::new("/h"))
    }

    #[test]
    fn where_a_line_may_run_is_known_or_said_to_be_unknown() {
        let dirs = |text: &str| {
            let line = line(text);
            assert!(!line.wanders, "{text}");
            line.directories.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(dirs("ls"), "/p");
        assert_eq!(dirs("cd a && cd b; ls"), "/p /p/a /p/b /p/a/b");
        assert_eq!(dirs("eval 'cd a'; cd b"), "/p /p/a /p/b /p/a/b");
        assert_eq!(dirs("(cd ~/x)"), "/p /h/x");
        for text in
            ["cd", "cd -", "cd $X", "cd a*", "pushd a", "while x; do cd a; done", "f() { cd a; }; f", "cd ~u"]
        {
            assert!(line(text).wanders, "{text}");
        }
        let many = (0..20).map(|n| format!("cd {n}")).collect::<Vec<_>>().join("; ");
        assert!(line(&many).wanders);
    }

    #[test]
    fn inner_lines_are_laid_open_as_deep_as_is_looked() {
        let names = |text: &str| {
            let line = line(text);
            let names = line.script.commands.iter().map(|command| command.words[0].text.clone());
            (names.collect::<Vec<_>>().join(" "), line.script.unsure.is_some())
        };
        assert_eq!(names("bash -c 'a; eval b'; c"), ("bash a eval b c".into(), false));
        assert_eq!(names("timeout 5 sh -c 'a'"), ("timeout a".into(), false));
        let deep =
            (0..8).fold("a".to_owned(), |inner, _| format!("eval {}", shlex::try_quote(&inner).unwrap()));
        assert!(names(&deep).1);
    }

    #[test]
    fn values_of_options_are_seen() {
        let values_of = |text: &str| {
            let script = shell::parse(&format!("x {text}"));
            values(&script.commands[0].words[1]).join(" ")
        };
        assert_eq!(values_of("--file=/etc/x"), "/etc/x");
        assert_eq!(values_of("-f/etc/x"), "/etc/x /etc/x");
        assert_eq!(values_of("-nf../x"), "f../x /x ../x");
        assert_eq!(values_of("HEAD:a"), "a");
        assert_eq!(values_of("plain"), "");
    }
}
