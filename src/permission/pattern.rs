//! Patterns of rules: stars in texts, and paths as in a `.gitignore`.

use std::path::Path;

/// Whether a pattern fits the whole text; `*` is any text, all else is itself.
pub(super) fn stars(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    backtracking(&pattern, &text, |p| *p == '*', |p, t| p == t)
}

/// Whether a command's text fits the specifier of a Bash rule. `prefix:*` and `prefix *` fit the prefix alone and with more
/// words behind it; other stars are any text; without a star it is the whole text.
pub(super) fn command(specifier: &str, text: &str) -> bool {
    let specifier = specifier.trim();
    let prefix = specifier.strip_suffix(":*").or_else(|| specifier.strip_suffix(" *"));
    match prefix {
        // The bare command counts only where this star is the only one.
        Some(prefix) if !prefix.contains('*') => {
            let rest = text.strip_prefix(prefix.trim_end());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        }
        Some(prefix) => stars(&format!("{prefix} *"), text),
        None => stars(specifier, text),
    }
}

/// Whether a specifier fits more than one text.
pub(super) fn is_open(specifier: &str) -> bool {
    specifier.contains('*')
}

/// Whether a pattern with stars fits the whole text. Only the last star is ever tried again, which is enough.
pub(super) fn backtracking<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(piece) if is_star(piece) => {
                star = Some((p, t));
                p += 1;
            }
            Some(piece) if fits(piece, &text[t]) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, reached)) = star else { return false };
                star = Some((at, reached + 1));
                p = at + 1;
                t = reached + 1;
            }
        }
    }
    pattern[p..].iter().all(is_star)
}

/// How far a pattern reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// As it is written: for a yes.
    Narrow,
    /// A single folder at any depth: for a no.
    Wide,
}

/// Whether a pattern fits a path below the directory that it begins at; one that fits a folder fits all that is in it.
/// A pattern without a slash inside fits at any depth, and so does `folder/**` if it reaches wide.
pub(super) fn path_below(pattern: &str, below: &Path, reach: Reach) -> bool {
    let trimmed = pattern.strip_suffix('/').unwrap_or(pattern);
    let (trimmed, is_anchored) = match trimmed.strip_prefix('/') {
        Some(rest) => (rest, true),
        None => (trimmed, trimmed.contains('/')),
    };
    let mut parts: Vec<&str> = trimmed.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    // What ends in `**` is a folder and all in it.
    while parts.len() > 1 && parts.last() == Some(&"**") {
        parts.pop();
    }
    let is_single = parts.len() == 1 && parts[0] != "**";
    if !is_anchored || (reach == Reach::Wide && is_single && !pattern.starts_with('/')) {
        parts.insert(0, "**");
    }
    parts.push("**");
    let names: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    backtracking(&parts, &names, |part| *part == "**", |part, name| segment(part, name))
}

/// Whether a part of a pattern fits a name: `*`, `?`, `[a-z]`, `[!a-z]`, a backslash takes the next character as it is.
pub(super) fn segment(pattern: &str, name: &str) -> bool {
    let pieces = pieces(pattern);
    let name: Vec<char> = name.chars().collect();
    let is_star = |piece: &Piece| matches!(piece, Piece::Star);
    backtracking(&pieces, &name, is_star, |piece, c| match piece {
        Piece::Star | Piece::One => true,
        Piece::Char(own) => own == c,
        Piece::Class { ranges, is_negated } => {
            ranges.iter().any(|(low, high)| (*low..=*high).contains(c)) != *is_negated
        }
    })
}

enum Piece {
    Star,
    One,
    Char(char),
    Class { ranges: Vec<(char, char)>, is_negated: bool },
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let (piece, length) = match chars[at] {
            '*' => (Piece::Star, 1),
            '?' => (Piece::One, 1),
            '\\' if at + 1 < chars.len() => (Piece::Char(chars[at + 1]), 2),
            '[' => class(&chars[at..]).unwrap_or((Piece::Char('['), 1)),
            c => (Piece::Char(c), 1),
        };
        pieces.push(piece);
        at += length;
    }
    pieces
}

/// A class of characters and its length; none where it does not end.
fn class(chars: &[char]) -> Option<(Piece, usize)> {
    let is_negated = matches!(chars.get(1), Some('!' | '^'));
    let first = if is_negated { 2 } else { 1 };
    // A bracket in the first place is one of the characters.
    let end = (first + 1..chars.len()).find(|at| chars[*at] == ']')?;
    let mut ranges = Vec::new();
    let mut at = first;
    while at < end {
        if at + 2 < end && chars[at + 1] == '-' {
            ranges.push((chars[at], chars[at + 2]));
            at += 3;
        } else {
            ranges.push((chars[at], chars[at]));
            at += 1;
        }
    }
    Some((Piece::Class { ranges, is_negated }, end + 1))
}

/// A path in which no character is one of a pattern, for rules that are made of paths.
pub(super) fn escaped(path: &str) -> String {
    let mut out = String::new();
    for c in path.chars() {
        if "*?[]\\!#".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_c101_a_prefix_ends_at_a_word() {
        for (specifier, text) in [
            ("ls:*", "ls"),
            ("ls:*", "ls -la"),
            ("ls *", "ls"),
            ("ls *", "ls -la"),
            ("ls*", "lsof"),
            ("npm run test:*", "npm run test -- x"),
            ("npm run build", "npm run build"),
            ("git log * main", "git log -5 main"),
            ("* --version", "node --version"),
            ("* --help *", "npm --help x"),
            ("*", "x y"),
            ("echo :*", "echo : x"),
        ] {
            assert!(command(specifier, text), "{specifier} {text}");
        }
        for (specifier, text) in [
            ("ls:*", "lsof"),
            ("ls *", "lsof"),
            ("ls:*", "LS"),
            ("npm run test:*", "npm run test-evil"),
            ("npm run test:*", "npm run test:unit"),
            ("npm run build", "npm run build --watch"),
            ("git log * main", "git log main"),
            ("* --help *", "npm --help"),
            ("git:* push", "git push"),
            ("pwd", "pwd -P"),
            ("a?c", "abc"),
        ] {
            assert!(!command(specifier, text), "{specifier} {text}");
        }
    }

    #[test]
    fn stars_are_tried_in_bounded_time() {
        assert!(stars("", "") && stars("*", "") && stars("**", "") && stars("a*", "a") && !stars("a", ""));
        assert!(!stars(&"*a".repeat(60), &"b".repeat(20_000)));
    }

    #[test]
    fn paths_fit_as_in_a_gitignore() {
        let fits = |pattern: &str, path: &str| path_below(pattern, Path::new(path), Reach::Narrow);
        for (pattern, path) in [
            (".env", ".env"),
            (".env", "a/b/.env"),
            ("**/.env", ".env"),
            ("*.rs", "a/x.rs"),
            ("/src/**", "src/a/b"),
            ("src/**", "src"),
            ("src/**/*.ts", "src/x.ts"),
            ("src/**/*.ts", "src/a/b/x.ts"),
            ("secrets", "a/secrets/x"),
            ("secrets/", "secrets/x"),
            ("/a/*/c", "a/b/c/d"),
            ("**", "x/y"),
            ("**", ""),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            (r"\*x", "*x"),
            ("./src/x", "src/x"),
        ] {
            assert!(fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/src/**", "vendor/src/x"),
            ("src/**", "vendor/src/x"),
            ("src/**/*.ts", "src/x.js"),
            ("/a/*/c", "a/b/b/c"),
            ("*.rs", "x.rst"),
            ("src/a", "src/ab"),
            ("[!a-c]x", "bx"),
            (r"\*x", "yx"),
            ("a*c", "a/c"),
            ("x", ""),
        ] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
        assert!(
            path_below("src/**", Path::new("vendor/src/x"), Reach::Wide),
            "for a no, a folder at any depth"
        );
        assert!(!path_below("/src/**", Path::new("vendor/src/x"), Reach::Wide));
        assert!(fits(&escaped("a[1]*!"), "a[1]*!"));
    }
}
