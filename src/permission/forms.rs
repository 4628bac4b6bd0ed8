//! The forms in which a denied command may hide, for a no: with its path, behind wrappers, in quotes, in a line that
//! another shell is given. It rather finds one command too many than one too few.

use super::shell::{self, Script, Simple, Word};

/// Words that run the command behind them, or one in their arguments.
const WRAPPERS: [&str; 47] = [
    "!",
    "ash",
    "bash",
    "builtin",
    "busybox",
    "case",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "dash",
    "do",
    "doas",
    "elif",
    "else",
    "env",
    "eval",
    "exec",
    "fd",
    "find",
    "flock",
    "if",
    "ionice",
    "ksh",
    "nice",
    "nohup",
    "npx",
    "parallel",
    "pkexec",
    "runuser",
    "setsid",
    "sh",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "then",
    "time",
    "timeout",
    "until",
    "watch",
    "while",
    "xargs",
    "zsh",
];
/// How deep lines within lines are looked into.
const DEPTH_MAX: usize = 4;
/// Behind a wrapper so many words are looked at.
const WORDS_MAX: usize = 400;

/// Whether a command is one that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    /// Its name is not known before it is run.
    Perhaps,
    Yes,
}

/// Whether a command line may run what the pattern is for.
pub(super) fn line_may_run(line: &str, fits: &dyn Fn(&str) -> bool) -> Fit {
    script_may_run(&shell::parse(line), fits, 0)
}

fn script_may_run(script: &Script, fits: &dyn Fn(&str) -> bool, depth: usize) -> Fit {
    let worst = script.commands.iter().map(|command| may_run_at(command, fits, depth)).max();
    worst.unwrap_or(Fit::No).max(if script.is_open { Fit::Perhaps } else { Fit::No })
}

/// Whether a simple command may be what the pattern is for, or run it.
pub(super) fn may_run(command: &Simple, fits: &dyn Fn(&str) -> bool) -> Fit {
    may_run_at(command, fits, 0)
}

fn may_run_at(command: &Simple, fits: &dyn Fn(&str) -> bool, depth: usize) -> Fit {
    let words = command.words.as_slice();
    let mut worst = Fit::No;
    // Behind a wrapper any word may be where a command begins: which are its options is its own matter.
    let mut is_wrapped = false;
    let mut is_first = true;
    for at in 0..words.len() {
        if at > WORDS_MAX {
            return worst.max(Fit::Perhaps);
        }
        let rest = &words[at..];
        let is_wrapper = WRAPPERS.contains(&name(&rest[0]));
        worst = worst.max(may_be(rest, fits));
        let is_unknown_line = is_wrapped && is_line_of_shell(words, at);
        if (is_first || is_unknown_line) && !is_plain(&rest[0]) {
            worst = worst.max(Fit::Perhaps);
        }
        if is_wrapped && is_line(&rest[0]) && depth < DEPTH_MAX {
            worst = worst.max(script_may_run(&shell::parse(&rest[0].text), fits, depth + 1));
        }
        is_first = is_wrapper || (is_first && is_assignment(&rest[0]));
        is_wrapped |= is_wrapper;
        if worst == Fit::Yes || !(is_wrapped || is_first) {
            break;
        }
    }
    worst
}

/// Whether the word at this place is a line for a shell: behind `-c`, or of `eval`.
fn is_line_of_shell(words: &[Word], at: usize) -> bool {
    let before = words[..at].last().map_or("", |word| word.text.as_str());
    let is_option = before.starts_with('-') && !before.starts_with("--") && before.ends_with('c');
    is_option || words[..at].iter().any(|word| name(word) == "eval")
}

fn name(word: &Word) -> &str {
    word.text.rsplit('/').next().unwrap_or_default()
}

fn is_plain(word: &Word) -> bool {
    !word.expands && !word.is_glob
}

fn is_assignment(word: &Word) -> bool {
    word.text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.trim_end_matches('+').chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Whether it may be a command line of several words.
fn is_line(word: &Word) -> bool {
    word.is_quoted && word.text.contains([' ', '\t', '\n', '\'', '"', '\\', ';'])
}

fn may_be(words: &[Word], fits: &dyn Fn(&str) -> bool) -> Fit {
    let texts = |words: &[Word]| words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let text = texts(words);
    let by_name = format!("{}{}", name(&words[0]), &text[words[0].text.len()..]);
    let raw = words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
    let mut forms = vec![raw, text, by_name];
    if name(&words[0]) == "git" {
        forms.push(format!("git {}", texts(without_git_options(&words[1..]))).trim_end().to_owned());
    }
    if forms.iter().any(|form| fits(form)) { Fit::Yes } else { Fit::No }
}

/// The subcommand of git and what follows.
fn without_git_options(words: &[Word]) -> &[Word] {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        let takes_one = matches!(
            word.text.as_str(),
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env"
        );
        at += if takes_one { 2 } else { 1 };
    }
    words.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::pattern;

    #[test]
    fn a_command_in_disguise_is_seen() {
        let fit = |line: &str| line_may_run(line, &|text| pattern::command("rm *", text));
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
            "$'r\\x6d' x",
            "X=1 rm x",
            "sudo -u root rm x",
            "env A=b rm x",
            "sh -c 'rm x'",
            "bash -c \"r''m x\"",
            "bash -c 'bash -c \"rm x\"'",
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
            "a; 'rm' x",
            "cat <<E\n$(rm x)\nE",
            "f() { rm x; }",
            "case x in x) rm y;; esac",
            "echo 'unclosed; rm x",
            "echo ) ; rm x",
            "rm",
            "eval 'rm x'",
        ] {
            assert_eq!(fit(line), Fit::Yes, "{line}");
        }
        for line in
            ["$CMD x", "\"$CMD\" x", "r? x", "{rm,x}", "sudo $X y", "A=b $C", "sh -ec \"$X\"", "eval ls $X"]
        {
            assert_eq!(fit(line), Fit::Perhaps, "{line}");
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
            "sudo ls $X",
        ] {
            assert_eq!(fit(line), Fit::No, "{line}");
        }
        let push = |line: &str| line_may_run(line, &|text| pattern::command("git push *", text));
        for line in
            ["git push", "git -C . push origin", "git -c a=b 'push' x", "/usr/bin/git --no-pager push"]
        {
            assert_eq!(push(line), Fit::Yes, "{line}");
        }
        assert_eq!(push("git log push"), Fit::No);
    }

    #[test]
    fn many_wrappers_take_no_longer_than_their_square() {
        let line = |count: usize| "sudo ".repeat(count) + "ls";
        assert_eq!(line_may_run(&line(300), &|text| text == "rm"), Fit::No);
        assert_eq!(line_may_run(&line(19_000), &|text| text == "rm"), Fit::Perhaps);
    }
}
