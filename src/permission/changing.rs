//! Commands that change files, told by their words: which files, and which of these commands the mode `acceptEdits` allows.

use super::shell::Word;
use std::path::Path;

/// Commands that change the files that they name.
const CHANGERS: [&str; 17] = [
    "chgrp", "chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mkfifo", "mv", "rm", "rmdir", "sed",
    "tee", "touch", "truncate", "unlink",
];
/// Those that `acceptEdits` allows inside the working directories.
const ACCEPTED: [&str; 7] = ["cp", "mkdir", "mv", "rm", "rmdir", "sed", "touch"];
/// Commands that show or copy what is in the files that they name, besides those that only read.
const SHOWERS: [&str; 22] = [
    ".", "awk", "base64", "bat", "bzip2", "cp", "dd", "emacs", "gzip", "less", "more", "mv", "nano", "rsync",
    "scp", "sed", "source", "tar", "vi", "vim", "xxd", "zip",
];

/// Whether a command changes the files that it names.
pub(super) fn changes(words: &[Word]) -> bool {
    let name = name(words);
    // Without -i it only prints.
    let is_sed =
        name == "sed" && words.iter().any(|w| w.text.starts_with("-i") || w.text.starts_with("--in-place"));
    if name == "sed" { is_sed } else { CHANGERS.contains(&name) }
}

/// Whether a command shows or copies what is in the files that it names.
pub(super) fn shows(words: &[Word]) -> bool {
    SHOWERS.contains(&name(words))
}

/// Whether it writes what it reads into files: these are judged each by itself, as an edit.
pub(super) fn is_tee(words: &[Word]) -> bool {
    name(words) == "tee"
        && words
            .iter()
            .all(|word| !word.text.starts_with('-') || matches!(word.raw.as_str(), "-a" | "--append"))
}

fn name(words: &[Word]) -> &str {
    words.first().map_or("", |word| word.text.rsplit('/').next().unwrap_or_default())
}

/// The words that are files which it would change.
pub(super) fn targets(words: &[Word]) -> Vec<&Word> {
    let rest = words.get(1..).unwrap_or_default();
    match name(words) {
        // The last is where to; those before only if they are moved away. An option may name it instead.
        "cp" | "install" | "ln" => {
            let last = rest.iter().rev().find(|word| !word.text.starts_with('-'));
            let named = |word: &&Word| word.text.starts_with("-t") || word.text.starts_with("--t");
            match rest.iter().position(|word| named(&word)) {
                Some(_) => rest.iter().collect(),
                None => last.into_iter().collect(),
            }
        }
        _ => rest.iter().collect(),
    }
}

/// Why a command that changes files is none that `acceptEdits` allows; its files are judged besides.
pub(super) fn why_not_accepted(words: &[Word]) -> Option<String> {
    let name = words.first().map_or("", |word| word.text.as_str());
    if !ACCEPTED.contains(&name) {
        return Some("no rule allows it".to_owned());
    }
    let rest = &words[1..];
    if let Some(unknown) = rest.iter().find(|word| word.expands) {
        return Some(format!("{} is not known before it runs", unknown.raw));
    }
    if let Some(pattern) = rest.iter().find(|word| word.is_glob && word.text.starts_with(['*', '?', '['])) {
        return Some(format!("a file of {} could be an option: write ./{}", pattern.raw, pattern.raw));
    }
    (name == "sed" && !is_plain_sed(rest))
        .then(|| "its script is not plain: write s/a/b/g or 5,7d".to_owned())
}

/// `sed -i 's/a/b/g' files`: a script that neither writes other files nor runs anything.
fn is_plain_sed(rest: &[Word]) -> bool {
    let options = rest.iter().take_while(|word| word.text.starts_with('-')).count();
    let is_known =
        |word: &Word| matches!(word.text.as_str(), "-i" | "-E" | "-r" | "-n" | "-e") || is_backup(&word.text);
    let Some(script) = rest.get(options) else { return false };
    let later = rest[options + 1..].iter().any(|word| word.text.starts_with('-'));
    rest[..options].iter().all(is_known) && !later && is_plain_script(&script.text)
}

fn is_backup(option: &str) -> bool {
    option.strip_prefix("-i").is_some_and(|end| end.starts_with('.') && !end.contains(['/', '*']))
}

fn is_plain_script(script: &str) -> bool {
    let chars: Vec<char> = script.chars().collect();
    let is_address = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '$');
    if let Some(lines) = script.strip_suffix(['d', 'p']) {
        return is_address(lines);
    }
    let begin = chars.iter().take_while(|c| c.is_ascii_digit() || **c == ',' || **c == '$').count();
    if chars.get(begin) != Some(&'s') {
        return false;
    }
    let Some(sign) = chars.get(begin + 1).filter(|c| c.is_ascii_punctuation() && **c != '\\') else {
        return false;
    };
    let mut at = begin + 2;
    let mut signs = 1;
    while signs < 3 {
        match chars.get(at) {
            Some('\\') => at += 1,
            Some('\n') | None => return false,
            Some(c) if c == sign => signs += 1,
            Some(_) => {}
        }
        at += 1;
    }
    chars[at.min(chars.len())..].iter().all(|c| "gIip0123456789".contains(*c))
}

/// Whether a removal would take away what nobody can want to lose: the root, a folder of the system, the home, the working
/// directory or one above. Told without looking; a name that is not known counts.
pub(super) fn removes_too_much(words: &[Word], is_critical: &dyn Fn(&Word) -> bool) -> Option<String> {
    if !matches!(name(words), "rm" | "rmdir") {
        return None;
    }
    let rest = words.get(1..).unwrap_or_default();
    let is_deep = rest.iter().any(|word| {
        let letters = word.text.strip_prefix('-').unwrap_or_default();
        word.text.starts_with("--r") || (!letters.starts_with('-') && letters.contains(['r', 'R']))
    });
    let is_open = |word: &Word| word.expands && (word.text.starts_with('$') || word.text.starts_with('`'));
    let found = rest.iter().find(|word| is_critical(word) || (is_deep && is_open(word)));
    found.map(|word| format!("it may remove {}, which no mode and no rule allows", word.raw))
}

/// Whether a path is one that must not be removed.
pub(super) fn is_critical(path: &Path, start: &Path, home: &Path) -> bool {
    path.components().count() <= 2 || start.starts_with(path) || home.starts_with(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell;

    fn words(line: &str) -> Vec<Word> {
        shell::parse(line).commands.remove(0).words
    }

    #[test]
    fn plain_changes_are_known() {
        for line in [
            "mkdir -p a/b",
            "rm -rf target",
            "mv a b",
            "cp -r a b",
            "touch x",
            "sed -i 's/a/b/g' x",
            "sed -i.bak -E 's|a\\|b|c|2' x y",
            "sed -i 5,7d x",
            "rm ./*.o",
        ] {
            assert_eq!(why_not_accepted(&words(line)), None, "{line}");
        }
        for line in [
            "chmod 777 x",
            "rm $X",
            "rm *.o",
            "sed -i 's/a/b/w y' x",
            "sed -i 's/a/b/e' x",
            "sed -i '1e id' x",
            "sed -i -f s x",
            "sed -i 's/a/b/;w y' x",
            "sed -i 's/a/b/' x -f y",
            "sed -i 's/a' x",
            "/bin/rm x",
        ] {
            assert!(why_not_accepted(&words(line)).is_some(), "{line}");
        }
    }

    #[test]
    fn targets_are_what_changes() {
        let shown = |line: &str| {
            let words = words(line);
            targets(&words).iter().map(|word| word.text.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("cp a b c"), "c");
        assert_eq!(shown("cp -t c a b"), "-t c a b");
        assert_eq!(shown("mv a b"), "a b");
        assert!(
            changes(&words("sed -i 5d x")) && !changes(&words("sed 5d x")) && changes(&words("/bin/rm x"))
        );
    }
}
