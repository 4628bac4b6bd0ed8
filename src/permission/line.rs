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

/// Adds the commands of inner lines.
fn lay_open(script: &mut Script) {
    let mut from = 0;
    for _ in 0..DEPTH_MAX {
        let to = script.commands.len();
        for at in from..to {
            let (repeats, line) = match innermost(&script.commands[at].words) {
                Some(line) => (script.commands[at].repeats, line),
                None => continue,
            };
            let mut found = shell::parse(&line);
            found.commands.iter_mut().for_each(|command| command.repeats |= repeats);
            script.commands.append(&mut found.commands);
            script.functions.append(&mut found.functions);
            script.is_open |= found.is_open;
            script.unsure = script.unsure.take().or(found.unsure);
        }
        from = to;
    }
    if script.commands[from..].iter().any(|command| innermost(&command.words).is_some()) {
        script.unsure.get_or_insert_with(|| "it has lines within lines within lines".to_owned());
    }
}

fn innermost(words: &[Word]) -> Option<String> {
    let core = core(words);
    match inner(core.words) {
        Inner::Line(line) if core.is_line => Some(line),
        _ => None,
    }
}
