//! Forms of git that only read.

use super::shell::Word;

/// Subcommands that only read, whatever plain options they have.
const READING: [&str; 22] = [
    "blame",
    "cat-file",
    "check-ignore",
    "count-objects",
    "describe",
    "diff",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "status",
    "whatchanged",
];
/// Options that write or run something, also shortened.
const REFUSED: [&str; 8] = [
    "--output",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager",
    "--exec",
    "--upload-pack",
    "--filters",
    "--paginate",
];
/// Options with which these list and change nothing.
const LISTING: [(&str, &[&str]); 2] = [
    (
        "branch",
        &[
            "-a",
            "-r",
            "-v",
            "-vv",
            "-av",
            "-l",
            "--all",
            "--remotes",
            "--list",
            "--show-current",
            "--no-color",
            "--verbose",
        ],
    ),
    ("tag", &["-l", "--list", "-n"]),
];

/// The words of a `git` that may be files, if it only reads; else why not. `words` is what follows the name.
pub(super) fn reads(words: &[Word]) -> Result<Vec<&Word>, String> {
    let words = match words.first() {
        Some(word) if word.raw == "--no-pager" => &words[1..],
        _ => words,
    };
    let Some((sub, rest)) = words.split_first() else { return Ok(Vec::new()) };
    if let Some(unknown) = words.iter().find(|word| word.expands) {
        return Err(format!("{} is not known before it runs", unknown.raw));
    }
    if !sub.is_literal() || sub.text.starts_with('-') {
        return Err(format!("git with {} may run what that names", sub.raw));
    }
    if let Some(bad) = rest.iter().find(|word| is_refused(&word.text)) {
        return Err(format!("with {} git may do more than read", bad.raw));
    }
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let is_reading = match sub.text.as_str() {
        // -O opens what it finds in a pager, also among other letters.
        "grep" => {
            !texts.iter().any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains('O'))
        }
        name if READING.contains(&name) => true,
        name @ ("branch" | "tag") => is_listing(name, &texts),
        "remote" => matches!(texts.as_slice(), [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => matches!(texts.first(), Some(&("list" | "show"))),
        "worktree" => matches!(texts.first(), Some(&"list")),
        "reflog" => matches!(texts.first(), None | Some(&"show")),
        "config" => match texts.as_slice() {
            ["--list" | "-l" | "list"] => true,
            ["--get" | "--get-all" | "--get-regexp" | "get", name] => !name.starts_with('-'),
            _ => false,
        },
        _ => false,
    };
    if is_reading {
        Ok(rest.iter().collect())
    } else {
        Err(format!("git {} is not known to only read", sub.text))
    }
}

fn is_refused(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default();
    name.len() > 2
        && name.starts_with("--")
        && REFUSED.iter().any(|bad| bad.starts_with(name) || name.starts_with(bad))
}

fn is_listing(name: &str, words: &[&str]) -> bool {
    let known = LISTING.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, options)| options);
    let lists = words.iter().any(|word| matches!(*word, "-l" | "--list"));
    words.iter().all(|word| {
        let is_plain = known.contains(word)
            || ["--sort=", "--format=", "--contains=", "--merged=", "--points-at="]
                .iter()
                .any(|o| word.starts_with(o));
        // A name without a wish for a list would be made.
        is_plain || (lists && !word.starts_with('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell;

    #[test]
    fn only_reading_forms_are_known() {
        let is_reading = |line: &str| reads(&shell::parse(line).commands[0].words[1..]).is_ok();
        for line in [
            "git",
            "git status --short",
            "git --no-pager log --oneline -5 main..dev",
            "git diff HEAD~1 -- src",
            "git show HEAD:src/x",
            "git branch",
            "git branch -a",
            "git branch --list 'x*'",
            "git tag",
            "git tag -l v1",
            "git remote -v",
            "git remote get-url origin",
            "git stash list",
            "git worktree list",
            "git reflog",
            "git config --get user.name",
            "git grep -n foo",
            "git log --format='%H %s'",
            "git log --oneline --only-x",
        ] {
            assert!(is_reading(line), "{line}");
        }
        for line in [
            "git push",
            "git commit -m x",
            "git branch x",
            "git branch -D x",
            "git branch -m a b",
            "git tag v1",
            "git tag -d v1",
            "git remote add x y",
            "git remote update",
            "git stash",
            "git stash pop",
            "git worktree add x",
            "git reflog expire",
            "git config user.name x",
            "git config --global --get x",
            "git -C .. status",
            "git -c core.fsmonitor=x status",
            "git --git-dir=x log",
            "git log --output=x",
            "git log --outp=x",
            "git diff --ext-diff",
            "git grep -Ovi x",
            "git grep -nOvi x",
            "git grep --open x",
            "git log $X",
            "git $X",
            "git -p log",
            "git 'st*'us x",
        ] {
            assert!(!is_reading(line), "{line}");
        }
    }
}
