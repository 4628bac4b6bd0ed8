//! Commands that run the command behind them and change nothing about what it does, for a yes: what is judged is the inner
//! one. What is not known exactly is not unwrapped.

use super::shell::Word;

/// What is inside of a command.
#[derive(Debug, PartialEq)]
pub(super) enum Inner<'a> {
    /// Another command.
    Command {
        words: &'a [Word],
        /// Variables that are set for it.
        variables: Vec<&'a str>,
        /// It gets words besides those that are written.
        has_more: bool,
    },
    /// A line for a shell.
    Line(String),
    /// Nothing that is known.
    Nothing,
}

/// Looks into a command.
pub(super) fn inner(words: &[Word]) -> Inner<'_> {
    let Some((first, rest)) = words.split_first().filter(|(first, _)| first.is_literal()) else {
        return Inner::Nothing;
    };
    match first.text.as_str() {
        "nohup" | "builtin" | "exec" | "time" | "command" => plain(rest),
        "nice" => behind_options(rest, &["-n", "--adjustment"], 0),
        "stdbuf" => behind_options(rest, &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
        "timeout" => behind_options(rest, &["-k", "-s", "--kill-after", "--signal"], 1),
        "xargs" => match plain(rest) {
            Inner::Command { words, variables, .. } => Inner::Command { words, variables, has_more: true },
            other => other,
        },
        "env" => env(rest),
        "bash" | "sh" | "dash" | "ksh" | "zsh" => shell_line(rest),
        "eval" if !rest.is_empty() && rest.iter().all(Word::is_literal) => {
            Inner::Line(rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "))
        }
        _ => Inner::Nothing,
    }
}

fn command(words: &[Word]) -> Inner<'_> {
    if words.is_empty() {
        return Inner::Nothing;
    }
    Inner::Command { words, variables: Vec::new(), has_more: false }
}

/// Of those that take no options that we know.
fn plain(rest: &[Word]) -> Inner<'_> {
    match rest.first() {
        Some(word) if word.is_literal() && !word.text.starts_with('-') => command(rest),
        _ => Inner::Nothing,
    }
}

/// Behind options, of which these take a word, and so many words more.
fn behind_options<'a>(mut rest: &'a [Word], takes_word: &[&str], more: usize) -> Inner<'a> {
    while let Some(word) = rest.first().filter(|word| word.text.starts_with('-')) {
        let skipped = if takes_word.contains(&word.text.as_str()) { 2 } else { 1 };
        let Some((options, behind)) = rest.split_at_checked(skipped) else { return Inner::Nothing };
        if !options.iter().all(Word::is_literal) {
            return Inner::Nothing;
        }
        rest = behind;
    }
    match rest.split_at_checked(more) {
        Some((values, behind)) if values.iter().all(Word::is_literal) => command(behind),
        _ => Inner::Nothing,
    }
}

/// `env A=b command`: without options, some of which change what a word is.
fn env(rest: &[Word]) -> Inner<'_> {
    let is_assignment =
        |word: &&Word| !word.text.starts_with('=') && word.text.contains('=') && !word.expands;
    let count = rest.iter().take_while(is_assignment).count();
    let variables = rest[..count].iter().filter_map(|word| Some(word.text.split_once('=')?.0)).collect();
    match plain(&rest[count..]) {
        Inner::Command { words, .. } => Inner::Command { words, variables, has_more: false },
        other => other,
    }
}

/// `bash -c 'line'`, also with harmless options.
fn shell_line(rest: &[Word]) -> Inner<'_> {
    for (at, word) in rest.iter().enumerate() {
        let Some(letters) = word.text.strip_prefix('-').filter(|_| word.is_literal()) else { break };
        if letters.is_empty() || !letters.chars().all(|c| "eucx".contains(c)) {
            break;
        }
        if letters.contains('c') {
            return match rest.get(at + 1) {
                Some(line) if line.is_literal() && !line.text.starts_with('-') => {
                    Inner::Line(line.text.clone())
                }
                _ => Inner::Nothing,
            };
        }
    }
    Inner::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell;

    fn shown(line: &str) -> String {
        let script = shell::parse(line);
        match inner(&script.commands[0].words) {
            Inner::Command { words, variables, has_more } => {
                let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
                format!("{}{}{}", words.join(" "), if has_more { " ..." } else { "" }, variables.join(","))
            }
            Inner::Line(line) => format!("[{line}]"),
            Inner::Nothing => "-".to_owned(),
        }
    }

    #[test]
    fn only_what_is_known_is_unwrapped() {
        for (line, expected) in [
            ("timeout 30 npm test", "npm test"),
            ("timeout -k 5 --foreground 30s npm test", "npm test"),
            ("nice npm test", "npm test"),
            ("nice -n 10 npm test", "npm test"),
            ("nice -10 npm test", "npm test"),
            ("nohup x y", "x y"),
            ("stdbuf -oL x", "x"),
            ("command ls", "ls"),
            ("exec ls", "ls"),
            ("xargs grep x", "grep x ..."),
            ("env A=b C=d ls", "lsA,C"),
            ("bash -c 'ls; rm x'", "[ls; rm x]"),
            ("bash -euxc 'ls' a", "[ls]"),
            ("bash -e -c ls", "[ls]"),
            ("eval ls 'a b'", "[ls a b]"),
            ("command -v ls", "-"),
            ("xargs -n1 grep x", "-"),
            ("env -i ls", "-"),
            ("env -S 'ls'", "-"),
            ("env A=$X ls", "-"),
            ("env", "-"),
            ("timeout 30", "-"),
            ("timeout $X ls", "-"),
            ("bash x.sh", "-"),
            ("bash -c \"$X\"", "-"),
            ("bash -ic ls", "-"),
            ("bash -c -- ls", "-"),
            ("eval $X", "-"),
            ("sudo ls", "-"),
            ("ls", "-"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
