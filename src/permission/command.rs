//! Judging one command of a line, and its redirections.

use super::changing;
use super::forms::{Fit, may_run};
use super::judge::Judge;
use super::line::{Core, Line, Named, core, values};
use super::mode::Mode;
use super::paths::{is_inside, plain, protected_part};
use super::pattern;
use super::reading::{self, Reads};
use super::rule::Rule;
use super::rules::Act;
use super::shell::{RedirectKind, Simple, Word};
use super::verdict::{Decision, Part};
use std::path::PathBuf;

/// The tool whose rules speak of commands.
pub(super) const BASH: &str = "Bash";
/// Commands that run what is behind them in another way: a rule with a star does not allow them.
const EXACT_ONLY: [&str; 16] = [
    "chroot",
    "doas",
    "flock",
    "ionice",
    "nsenter",
    "parallel",
    "pkexec",
    "runuser",
    "setpriv",
    "setsid",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "unshare",
    "watch",
];
/// What makes `find` do more than find.
const FIND_ACTIONS: [&str; 9] =
    ["-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"];
/// Variables that do not change which program runs and what it obeys.
const HARMLESS: [&str; 30] = [
    "CI",
    "CARGO_TERM_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "GIT_PAGER_IN_USE",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "TERM",
    "TZ",
    "VERBOSE",
];
/// Variables in small letters that programs obey.
const OBEYED: [&str; 10] = [
    "all_proxy",
    "ftp_proxy",
    "histchars",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "auto_resume",
    "cdpath",
    "path",
    "fpath",
];

/// Why a command is allowed.
enum Yes<'a> {
    /// A rule says so.
    Rule(&'a Rule),
    /// It only reads, or does nothing by itself.
    Harmless(String),
    /// The mode allows such changes.
    Mode(String),
}

/// A command as it stands in the text.
fn shown(command: &Simple) -> String {
    let assignments = command.assignments.iter().map(|one| one.raw.as_str());
    let all: Vec<&str> = assignments.chain(command.words.iter().map(|word| word.raw.as_str())).collect();
    all.join(" ")
}

impl<'a> Judge<'a> {
    /// The parts of one command.
    pub(super) fn command(&self, line: &Line, command: &Simple) -> Vec<Part> {
        let mut parts = Vec::new();
        if !command.words.is_empty() || !command.assignments.is_empty() {
            parts.push(self.words(line, command));
        }
        let core = core(&command.words);
        if changing::is_tee(core.words) {
            let files = core.words[1..].iter().filter(|word| !word.text.starts_with('-'));
            parts.extend(files.map(|word| self.target(line, Act::Edit, word)));
        }
        for redirect in &command.redirects {
            match redirect.kind {
                RedirectKind::Read => parts.push(self.target(line, Act::Read, &redirect.target)),
                RedirectKind::Write => parts.push(self.target(line, Act::Edit, &redirect.target)),
                RedirectKind::Copy | RedirectKind::HereDocument | RedirectKind::HereString => {}
            }
        }
        parts
    }

    /// A file that a redirection or `tee` opens.
    fn target(&self, line: &Line, act: Act, word: &Word) -> Part {
        let sign = if act == Act::Edit { ">" } else { "<" };
        let what = format!("{sign} {}", word.raw);
        let is_device = matches!(word.text.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr");
        if is_device && word.is_literal() {
            return Part::allow(what, "it is no file");
        }
        let tool = if act == Act::Edit { "Write" } else { "Read" };
        let unknown = |why: &str| {
            let is_free = self.mode == Mode::BypassPermissions && !self.may_be_evaded();
            match act {
                _ if is_free => Part::allow(what.clone(), "mode bypassPermissions"),
                Act::Edit if self.mode == Mode::Plan => {
                    Part::deny(what.clone(), "mode plan: nothing is written")
                }
                _ => Part::ask(what.clone(), why),
            }
        };
        match line.named(word, &self.rules.place.home.given) {
            Named::Unknown => unknown("which file it is is not known before it runs"),
            Named::Some(_) => unknown("it is a pattern of files"),
            Named::Files(files) => {
                let parts: Vec<Part> = files.iter().map(|file| self.file(act, tool, file)).collect();
                let worst = super::verdict::strictest(&parts).cloned();
                worst.map_or_else(
                    || unknown("it is too deep to say which file it is"),
                    |part| Part { what: what.clone(), ..part },
                )
            }
        }
    }

    /// The words of a command with its assignments.
    fn words(&self, line: &Line, command: &Simple) -> Part {
        let what = shown(command);
        let core = core(&command.words);
        if let Some((decision, rule)) = self.no(line, command, &core) {
            return Part::by_rule(what, decision, rule);
        }
        if let Some(rule) = self.perhaps_no(command) {
            return Part::ask(
                what,
                format!("which command it is is not known before it runs, and there is the {rule}"),
            );
        }
        let home = &self.rules.place.home.given;
        let is_critical = |word: &Word| match line.named(word, home) {
            Named::Files(files) | Named::Some(files) => files.iter().any(|file| self.is_critical(file, word)),
            Named::Unknown => false,
        };
        if let Some(why) = changing::removes_too_much(core.words, &is_critical) {
            return Part::ask(what, why);
        }
        if let Some(part) = self.protected(line, &core).filter(|_| self.mode != Mode::BypassPermissions) {
            return Part::ask(what, format!("{part} is protected: programs obey what is in it"));
        }
        match self.why_allowed(line, command, &core) {
            Ok(Yes::Rule(rule)) if self.mode != Mode::Plan => Part::by_rule(what, Decision::Allow, rule),
            Ok(Yes::Rule(_)) if reading::reads(core.words).is_ok() => Part::allow(what, "it only reads"),
            Ok(Yes::Rule(rule)) => {
                Part::ask(what, format!("mode plan: it is not known to only read, whatever the {rule} says"))
            }
            Ok(Yes::Harmless(why) | Yes::Mode(why)) => Part::allow(what, why),
            Err(_) if self.mode == Mode::BypassPermissions => Part::allow(what, "mode bypassPermissions"),
            Err(_) if self.mode == Mode::Plan && changing::changes(core.words) => {
                Part::deny(what, "mode plan: nothing is changed before the plan is approved")
            }
            Err(why) => Part::ask(what, why),
        }
    }

    /// The rule that denies or asks for a command or for a file that it works on.
    fn no(&self, line: &Line, command: &Simple, core: &Core<'_>) -> Option<(Decision, &'a Rule)> {
        let rules = self.rules;
        let of_command = |decision| {
            let mut found = rules.of(decision).filter(|rule| rule.is_of_tool(BASH));
            found.find(|rule| {
                let specifier = rule.specifier.as_deref();
                specifier.is_some_and(|s| may_run(command, &|text| pattern::command(s, text)) == Fit::Yes)
            })
        };
        let mut files = Vec::new();
        if let Ok(reads) = reading::reads(core.words) {
            files.extend(reads.files.iter().map(|word| (Act::Read, *word)));
        }
        if changing::shows(core.words) {
            files.extend(core.words[1..].iter().map(|word| (Act::Read, word)));
        }
        if changing::changes(core.words) {
            files.extend(changing::targets(core.words).into_iter().map(|word| (Act::Edit, word)));
        }
        let of_files: Vec<(Decision, &Rule)> = files
            .iter()
            .flat_map(|(act, word)| self.files(line, word).into_iter().map(move |file| (*act, file)))
            .filter_map(|(act, file)| self.no_of_file(act, &file))
            .collect();
        [Decision::Deny, Decision::Ask].into_iter().find_map(|decision| {
            let of_files = || of_files.iter().find(|(one, _)| *one == decision).map(|(_, rule)| *rule);
            of_command(decision).or_else(of_files).map(|rule| (decision, rule))
        })
    }

    fn no_of_file(&self, act: Act, file: &std::path::Path) -> Option<(Decision, &'a Rule)> {
        let (read, real) = (plain(file), self.request.paths.real(file));
        let tool = if act == Act::Edit { "Write" } else { "Read" };
        [Decision::Deny, Decision::Ask].into_iter().find_map(|decision| {
            let of = |path: &std::path::Path| self.rules.of_path(decision, (act, tool), path);
            of(&read).or_else(|| real.and_then(of)).map(|rule| (decision, rule))
        })
    }

    /// Files that a word names, or its value.
    fn files(&self, line: &Line, word: &Word) -> Vec<PathBuf> {
        let home = &self.rules.place.home.given;
        let whole = line.named(word, home);
        let more = values(word).into_iter().map(|text| line.named_text(text, word, home));
        let named = std::iter::once(whole).chain(more);
        named.flat_map(|named| if let Named::Files(files) = named { files } else { Vec::new() }).collect()
    }

    /// A rule that denies or asks for commands, where nobody knows which command it is.
    fn perhaps_no(&self, command: &Simple) -> Option<&'a Rule> {
        let rules = self.rules;
        let mut no =
            rules.of(Decision::Deny).chain(rules.of(Decision::Ask)).filter(|rule| rule.is_of_tool(BASH));
        no.find(|rule| {
            let specifier = rule.specifier.as_deref();
            specifier.is_some_and(|s| may_run(command, &|text| pattern::command(s, text)) == Fit::Perhaps)
        })
    }

    fn is_critical(&self, file: &std::path::Path, word: &Word) -> bool {
        let place = &self.rules.place;
        let read = plain(file);
        // Of a folder's contents: the folder is critical, or it is all of it.
        let is_all = word.is_glob && (word.text.ends_with("/*") || word.text == "*");
        let below = if word.is_glob && !is_all { return false } else { read };
        let paths = [Some(below.as_path()), self.request.paths.real(file)];
        paths.into_iter().flatten().any(|path| {
            changing::is_critical(path, &place.start.given, &place.home.given)
                || changing::is_critical(path, &place.start.real, &place.home.real)
        })
    }

    /// What is protected of the files that a command changes.
    fn protected(&self, line: &Line, core: &Core<'_>) -> Option<String> {
        if !changing::changes(core.words) {
            return None;
        }
        let targets = changing::targets(core.words);
        targets.into_iter().flat_map(|word| self.files(line, word)).find_map(|file| {
            protected_part(&plain(&file)).or_else(|| self.request.paths.real(&file).and_then(protected_part))
        })
    }

    fn why_allowed(&self, line: &Line, command: &Simple, core: &Core<'_>) -> Result<Yes<'a>, String> {
        if let Some(rule) = self.whole {
            return Ok(Yes::Rule(rule));
        }
        if let Some(rule) = self.allowing(core, &shown(command)) {
            return Ok(Yes::Rule(rule));
        }
        let assigned = command.assignments.iter().map(|one| one.name.as_str());
        if command.words.is_empty() {
            let bad = assigned.into_iter().find(|name| !is_harmless_alone(name));
            return bad.map_or(Ok(Yes::Harmless("it only assigns".to_owned())), |name| Err(obeyed(name)));
        }
        if let Some(name) =
            assigned.chain(core.variables.iter().copied()).find(|name| !HARMLESS.contains(name))
        {
            return Err(obeyed(name));
        }
        let Some(first) = core.words.first().filter(|word| word.is_literal()) else {
            return Err("which command it is is not known before it runs".to_owned());
        };
        let layers = core.layers.iter().map(|words| raw(words));
        if let Some(rule) = layers.into_iter().find_map(|text| self.allowing(core, &text)) {
            return Ok(Yes::Rule(rule));
        }
        if core.is_line {
            return Ok(Yes::Harmless("the commands of its line are judged by themselves".to_owned()));
        }
        if changing::is_tee(core.words) && !core.has_more {
            return Ok(Yes::Harmless("the files that it writes are judged by themselves".to_owned()));
        }
        if line.script.functions.contains(&first.text) {
            return Ok(Yes::Harmless("the commands of this function are judged by themselves".to_owned()));
        }
        match reading::reads(core.words) {
            Ok(reads)
                if first.text == "cat" && reads.files.is_empty() && !core.has_more && !has_input(command) =>
            {
                Err("no rule allows it, and it reads no file but what another command prints".to_owned())
            }
            Ok(reads) => {
                self.is_reading_inside(line, core, &reads).map(|()| Yes::Harmless("it only reads".to_owned()))
            }
            Err(why) if changing::changes(core.words) && self.mode == Mode::AcceptEdits => {
                self.is_accepted(line, core).map_err(|other| if other.is_empty() { why } else { other })
            }
            Err(why) if why == "it is not known to only read" => Err("no rule allows it".to_owned()),
            Err(why) => Err(format!("no rule allows it, and {why}")),
        }
    }

    /// The rule that allows a command by its text.
    fn allowing(&self, core: &Core<'_>, text: &str) -> Option<&'a Rule> {
        let name = core.words.first().map_or("", |word| word.text.rsplit('/').next().unwrap_or_default());
        let has_action = || core.words.iter().any(|word| FIND_ACTIONS.contains(&word.text.as_str()));
        let is_exact_only = EXACT_ONLY.contains(&name) || (name == "find" && has_action());
        self.rules.of(Decision::Allow).filter(|rule| rule.is_of_tool(BASH)).find(|rule| {
            let Some(specifier) = rule.specifier.as_deref() else { return true };
            let is_open = pattern::is_open(specifier);
            // A star must not stand for which command it is, unless it stands for all.
            let is_known = !specifier.starts_with('*') || core.words.first().is_some_and(Word::is_literal);
            is_known
                && !(is_open && is_exact_only)
                && (is_open || !core.has_more)
                && pattern::command(specifier, text)
        })
    }

    /// Whether all that is read lies inside.
    fn is_reading_inside(&self, line: &Line, core: &Core<'_>, reads: &Reads<'_>) -> Result<(), String> {
        let name = core.words[0].text.as_str();
        if core.has_more && (reads.shows_content || !matches!(name, "echo" | "printf")) {
            return Err("which files it gets is not known before it runs".to_owned());
        }
        if name == "git" && line.moves() {
            return Err("git after cd may run what the other directory says".to_owned());
        }
        let directories = self.rules.directories();
        let inside = |file: &PathBuf| {
            let real = self.request.paths.real(file);
            real.is_some_and(|real| is_inside(&directories, &plain(file), real))
        };
        let is_device = |word: &Word| word.raw == "/dev/null";
        let home = &self.rules.place.home.given;
        for word in reads.files.iter().filter(|word| !is_device(word)) {
            let more = values(word).into_iter().map(|text| line.named_text(text, word, home));
            for named in std::iter::once(line.named(word, home)).chain(more) {
                match named {
                    Named::Files(files) | Named::Some(files) if files.iter().all(inside) => {}
                    Named::Unknown => {
                        return Err(format!("which file {} is is not known before it runs", word.raw));
                    }
                    _ => return Err(format!("{} lies outside of the working directories", word.raw)),
                }
            }
        }
        if !matches!(name, "echo" | "printf" | "true" | "false" | ":")
            && (line.wanders || !line.directories.iter().all(inside))
        {
            return Err("it runs outside of the working directories".to_owned());
        }
        self.shows_no_secret(line, reads)
    }

    /// Whether files that a rule denies could be among those that nobody names.
    fn shows_no_secret(&self, line: &Line, reads: &Reads<'_>) -> Result<(), String> {
        if !reads.shows_content {
            return Ok(());
        }
        let home = &self.rules.place.home.given;
        let folders = |word: &Word| match line.named(word, home) {
            Named::Files(files) | Named::Some(files) => files,
            Named::Unknown => Vec::new(),
        };
        let mut unnamed: Vec<(PathBuf, Option<&str>)> = Vec::new();
        for word in &reads.files {
            if word.is_glob {
                unnamed.extend(folders(word).into_iter().map(|folder| (folder, Some(word.text.as_str()))));
            } else if reads.is_recursive {
                unnamed.extend(folders(word).into_iter().map(|folder| (folder, None)));
            }
        }
        if reads.is_recursive {
            unnamed.extend(line.directories.iter().map(|folder| (folder.clone(), None)));
        }
        let mut no = self.rules.of(Decision::Deny).chain(self.rules.of(Decision::Ask));
        let rule = no.find(|rule| {
            let is_of_files = super::rule::READERS.contains(&rule.tool.as_str()) && rule.specifier.is_some();
            is_of_files && unnamed.iter().any(|(folder, pattern)| self.may_meet(folder, *pattern, rule))
        });
        rule.map_or(Ok(()), |rule| Err(format!("it may show what the {rule} is for")))
    }

    /// Whether a file that a rule is for could lie in a folder and have a name that a pattern of the shell fits.
    fn may_meet(&self, folder: &std::path::Path, shell_pattern: Option<&str>, rule: &Rule) -> bool {
        let specifier = rule.specifier.as_deref().unwrap_or_default();
        let (bases, pattern) = rule.bases(specifier, &self.rules.place);
        let is_literal = |part: &&str| !part.contains(['*', '?', '[', '\\']);
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let last = parts.iter().rposition(|part| *part != "**");
        // What an anchored pattern begins with is where its files lie.
        let known = if pattern.starts_with('/') { last.unwrap_or(0) } else { 0 };
        let begin: PathBuf = parts.iter().take(known).take_while(|part| is_literal(part)).collect();
        let folders = [Some(plain(folder)), self.request.paths.real(folder).map(std::path::Path::to_owned)];
        let is_near = bases.iter().any(|base| {
            let home = base.join(&begin);
            folders.iter().flatten().any(|folder| home.starts_with(folder) || folder.starts_with(&home))
        });
        let may_fit = match (shell_pattern, last.map(|at| parts[at])) {
            (Some(shell), Some(name)) if is_literal(&name) => shell.split('/').any(|piece| {
                // A pattern does not fit a dot at the beginning unless it says so.
                (!name.starts_with('.') || piece.starts_with(['.', '['])) && pattern::segment(piece, name)
            }),
            _ => true,
        };
        is_near && may_fit
    }

    /// Whether the mode `acceptEdits` allows a change.
    fn is_accepted(&self, line: &Line, core: &Core<'_>) -> Result<Yes<'a>, String> {
        if let Some(why) = changing::why_not_accepted(core.words) {
            return Err(why);
        }
        if core.has_more {
            return Err("which files it gets is not known before it runs".to_owned());
        }
        let directories = self.rules.directories();
        let home = &self.rules.place.home.given;
        for word in &core.words[1..] {
            let more = values(word).into_iter().map(|text| line.named_text(text, word, home));
            for named in std::iter::once(line.named(word, home)).chain(more) {
                let (Named::Files(files) | Named::Some(files)) = named else {
                    return Err(format!("which file {} is is not known before it runs", word.raw));
                };
                let inside = |file: &PathBuf| {
                    let real = self.request.paths.real(file);
                    real.is_some_and(|real| is_inside(&directories, &plain(file), real))
                };
                if !files.iter().all(inside) {
                    return Err(format!("{} lies outside of the working directories", word.raw));
                }
            }
        }
        Ok(Yes::Mode("mode acceptEdits, and its files lie in the working directories".to_owned()))
    }

    /// Whether there are rules that a command of which not all is known could evade.
    pub(super) fn may_be_evaded(&self) -> bool {
        let mut no = self.rules.of(Decision::Deny).chain(self.rules.of(Decision::Ask));
        no.any(|rule| {
            rule.specifier.is_some()
                && (rule.is_of_tool(BASH)
                    || super::rule::READERS.contains(&rule.tool.as_str())
                    || super::rule::EDITORS.contains(&rule.tool.as_str()))
        })
    }
}

/// Whether a redirection gives a command something to read.
fn has_input(command: &Simple) -> bool {
    command
        .redirects
        .iter()
        .any(|redirect| !matches!(redirect.kind, RedirectKind::Write | RedirectKind::Copy))
}

fn raw(words: &[Word]) -> String {
    words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ")
}

fn obeyed(name: &str) -> String {
    format!("it sets {name}, which may change what a program does")
}

/// Whether an assignment that stands alone can be left out of account: programs obey variables in capitals.
fn is_harmless_alone(name: &str) -> bool {
    let is_small = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    HARMLESS.contains(&name)
        || (is_small && !OBEYED.contains(&name) && !name.starts_with("npm_") && name != "_")
}
