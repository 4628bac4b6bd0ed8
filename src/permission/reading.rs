//! Commands that only read, told by their words: they are allowed without a rule where all that they read lies in the
//! working directories. Told by a list of what is known, never by a list of what is bad alone: an option that could write
//! or run something takes a command off.

use super::git;
use super::shell::Word;

/// What the words of a command are that are no options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operands {
    /// Text, which may be expanded.
    Text,
    /// Files.
    Files,
    /// A pattern, then files.
    PatternThenFiles,
}

/// One command of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) name: &'static str,
    pub(super) operands: Operands,
    /// Options with which it does more than read; of short ones the letter is enough.
    refused: &'static [&'static str],
    /// Files at most; more would be written.
    files_max: usize,
}

const fn text(name: &'static str) -> Reader {
    Reader { name, operands: Operands::Text, refused: &[], files_max: usize::MAX }
}

const fn files(name: &'static str) -> Reader {
    Reader { name, operands: Operands::Files, refused: &[], files_max: usize::MAX }
}

const fn files_but(name: &'static str, refused: &'static [&'static str], files_max: usize) -> Reader {
    Reader { name, operands: Operands::Files, refused, files_max }
}

const fn search(name: &'static str, refused: &'static [&'static str]) -> Reader {
    Reader { name, operands: Operands::PatternThenFiles, refused, files_max: usize::MAX }
}

/// The table. Besides it: `cd` to a known directory, `find`, `sed -n` with line numbers, `date`, `set` with plain options,
/// `git` in the forms of `git.rs`, `command -v`, `[[ ]]`, and `PROGRAM --version` of [`VERSIONS`].
/// Not in it, by the public cases C097 and C101: `true`, `id`, `pwd` and the like, which read nothing in the working
/// directories, and `cat` that only passes on what another command prints (`command.rs`).
pub(super) const READERS: [Reader; 49] = [
    text("basename"),
    text("break"),
    text("continue"),
    text("dirname"),
    text("echo"),
    text("exit"),
    text("expr"),
    text("printf"),
    text("return"),
    text("seq"),
    text("sleep"),
    text("tr"),
    text("type"),
    text("which"),
    files("b2sum"),
    files("cat"),
    files("cksum"),
    files("cmp"),
    files("column"),
    files("comm"),
    files("cut"),
    files("df"),
    files("diff"),
    files("du"),
    files_but("file", &["C", "f", "m", "--compile", "--files-from", "--magic-file"], usize::MAX),
    files("fmt"),
    files("fold"),
    files("head"),
    files("hexdump"),
    files("join"),
    files("ls"),
    files("md5sum"),
    files("nl"),
    files("od"),
    files("paste"),
    files("readlink"),
    files("realpath"),
    files("rev"),
    files("sha1sum"),
    files("sha256sum"),
    files_but(
        "sort",
        &["o", "T", "S", "--output", "--compress-program", "--files0-from", "--temporary-directory"],
        usize::MAX,
    ),
    files("stat"),
    files("strings"),
    files("tac"),
    files("tail"),
    files_but("uniq", &[], 1),
    files("wc"),
    search("grep", &[]),
    search("rg", &["z", "--pre", "--pre-glob", "--search-zip", "--hostname-bin"]),
];

/// Programs of which `--version` alone only prints.
const VERSIONS: [&str; 14] = [
    "bun", "cargo", "clang", "deno", "gcc", "git", "go", "java", "node", "npm", "pip", "python", "python3",
    "rustc",
];

/// Of those that take an unquoted pattern all options read; a file's name could be an option of the others.
const NO_GLOBS: [&str; 5] = ["find", "git", "rg", "sort", "uniq"];

/// What a command would read.
#[derive(Debug, PartialEq)]
pub(super) struct Reads<'a> {
    /// Words that are files.
    pub(super) files: Vec<&'a Word>,
    /// It reads the current directory if no file is named.
    pub(super) is_recursive: bool,
    /// It shows what is in files.
    pub(super) shows_content: bool,
}

/// What a command reads, if it is known to do nothing else; else why not.
pub(super) fn reads(words: &[Word]) -> Result<Reads<'_>, String> {
    let Some((first, rest)) = words.split_first() else { return Err("it is no command".to_owned()) };
    let name = first.text.as_str();
    let nothing = Reads { files: Vec::new(), is_recursive: false, shows_content: false };
    if NO_GLOBS.contains(&name) && rest.iter().any(|word| word.is_glob) {
        return Err(format!("a file's name could be an option of {name}"));
    }
    match name {
        "git" => git::reads(rest).map(|files| Reads { files, is_recursive: false, shows_content: true }),
        "find" => find(rest),
        "sed" => sed(rest),
        "date" => date(rest).map(|()| nothing),
        "set" => set(rest).map(|()| nothing),
        "cd" => cd(rest),
        "[" | "test" => test(rest).map(|()| nothing),
        "[[" => condition(rest).map(|files| Reads { files, ..nothing }),
        "command" if rest.first().is_some_and(|word| word.text == "-v" || word.text == "-V") => Ok(nothing),
        name if VERSIONS.contains(&name) && rest.len() == 1 && rest[0].raw == "--version" => Ok(nothing),
        name => match READERS.iter().find(|reader| reader.name == name) {
            Some(reader) => by_table(*reader, rest),
            None => Err("it is not known to only read".to_owned()),
        },
    }
}

fn by_table(reader: Reader, rest: &[Word]) -> Result<Reads<'_>, String> {
    let name = reader.name;
    if reader.operands == Operands::Text {
        // Of printf: with -v it assigns.
        let first = rest.first();
        if name == "printf" && first.is_some_and(|word| word.text.starts_with('-') || word.expands) {
            return Err("its first word is no plain format".to_owned());
        }
        // A pattern shows the names that are there.
        let files = rest.iter().filter(|word| word.is_glob).collect();
        return Ok(Reads { files, is_recursive: false, shows_content: false });
    }
    if let Some(unknown) = rest.iter().find(|word| word.expands) {
        return Err(format!("{} is not known before it runs", unknown.raw));
    }
    let options = |word: &&Word| word.text.len() > 1 && word.text.starts_with('-');
    if let Some(bad) = rest.iter().filter(options).find(|word| is_refused(&word.text, reader.refused)) {
        return Err(format!("with {} it may do more than read", bad.raw));
    }
    let skipped = match reader.operands {
        Operands::PatternThenFiles => pattern_at(rest),
        _ => None,
    };
    let files: Vec<&Word> =
        rest.iter().enumerate().filter(|(at, _)| Some(*at) != skipped).map(|(_, word)| word).collect();
    let named = files.iter().filter(|word| !options(word)).count();
    if named > reader.files_max {
        return Err("its last file would be written".to_owned());
    }
    let has_letter = |letters: &[char]| {
        rest.iter().any(|word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letters)
        })
    };
    let is_deep = rest.iter().any(|word| word.text.ends_with("recursive"));
    let is_recursive = name == "rg" || (name == "grep" && (has_letter(&['r', 'R']) || is_deep));
    let shows_content = !matches!(name, "ls" | "stat" | "du" | "df" | "readlink" | "realpath");
    Ok(Reads { files, is_recursive, shows_content })
}

/// Whether an option is one of these, also shortened or among other letters.
fn is_refused(option: &str, refused: &[&str]) -> bool {
    let name = option.split('=').next().unwrap_or_default();
    refused.iter().any(|bad| match (name.starts_with("--"), bad.starts_with("--")) {
        (true, true) => name.len() > 2 && bad.starts_with(name),
        (false, false) => name[1..].contains(bad),
        _ => false,
    })
}

/// Where the pattern of a search stands, if that is certain.
fn pattern_at(rest: &[Word]) -> Option<usize> {
    let at = rest.iter().position(|word| !word.text.starts_with('-'))?;
    let is_flag = |word: &Word| {
        let text = word.text.as_str();
        let takes_no_word =
            text.contains('=') || matches!(text, "--color" | "--recursive" | "--ignore-case" | "--count");
        match text.strip_prefix("--") {
            Some("") => true,
            Some(_) => takes_no_word && !text.starts_with("--regexp") && !text.starts_with("--file"),
            None => text[1..].chars().all(|c| "EFGPivwxcLlnorRhHsqTUaZ0123456789".contains(c)),
        }
    };
    rest[..at].iter().all(is_flag).then_some(at)
}

/// `find` without what changes, runs or writes.
fn find(rest: &[Word]) -> Result<Reads<'_>, String> {
    const TESTS: [&str; 52] = [
        "!",
        "(",
        ")",
        ",",
        "-H",
        "-L",
        "-P",
        "-a",
        "-amin",
        "-and",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-ctime",
        "-daystart",
        "-depth",
        "-empty",
        "-executable",
        "-follow",
        "-group",
        "-gid",
        "-ilname",
        "-iname",
        "-inum",
        "-ipath",
        "-iregex",
        "-links",
        "-lname",
        "-ls",
        "-maxdepth",
        "-mindepth",
        "-mmin",
        "-mount",
        "-mtime",
        "-name",
        "-newer",
        "-not",
        "-o",
        "-or",
        "-path",
        "-perm",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-quit",
        "-readable",
        "-regex",
        "-size",
        "-type",
        "-xdev",
    ];
    if let Some(unknown) = rest.iter().find(|word| word.expands) {
        return Err(format!("{} is not known before it runs", unknown.raw));
    }
    let is_test =
        |word: &&Word| word.text.starts_with('-') || matches!(word.text.as_str(), "!" | "(" | ")" | ",");
    let is_number = |text: &str| text.len() > 1 && text[1..].chars().all(|c| c.is_ascii_digit());
    let known = |word: &Word| TESTS.contains(&word.text.as_str()) || is_number(&word.text);
    if let Some(bad) = rest.iter().filter(is_test).find(|word| !known(word)) {
        return Err(format!("find with {} is not known to only read", bad.raw));
    }
    Ok(Reads { files: rest.iter().collect(), is_recursive: true, shows_content: false })
}

/// `sed -n 5,10p file`.
fn sed(rest: &[Word]) -> Result<Reads<'_>, String> {
    let [option, script, files @ ..] = rest else { return Err("it is not known to only read".to_owned()) };
    let lines = script.text.strip_suffix('p').unwrap_or_default();
    let is_line = |line: &str| line == "$" || (!line.is_empty() && line.chars().all(|c| c.is_ascii_digit()));
    let is_plain = !lines.is_empty() && lines.split(',').all(is_line) && lines.split(',').count() <= 2;
    let has_option = files.iter().any(|word| word.text.starts_with('-') || word.expands || word.is_glob);
    if option.raw != "-n" || !is_plain || script.expands || has_option {
        return Err("sed is known to only read as 'sed -n FROM,TOp FILE'".to_owned());
    }
    Ok(Reads { files: files.iter().collect(), is_recursive: false, shows_content: true })
}

fn date(rest: &[Word]) -> Result<(), String> {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-d" | "--date" => drop(words.next()),
            text if text.starts_with('+') => {}
            "-u" | "-R" | "--utc" | "--rfc-email" => {}
            text if ["-I", "--iso-8601", "--rfc-3339=", "--date="]
                .iter()
                .any(|known| text.starts_with(known)) => {}
            _ => return Err("it may set the clock".to_owned()),
        }
    }
    Ok(())
}

fn set(rest: &[Word]) -> Result<(), String> {
    let is_plain = |word: &Word| {
        let letters = word.text.strip_prefix(['-', '+']);
        let is_letters = letters.is_some_and(|letters| letters.chars().all(|c| "euxo".contains(c)));
        is_literal_option(word) && (is_letters || word.text == "pipefail")
    };
    let is_all_plain = !rest.is_empty() && rest.iter().all(is_plain);
    if is_all_plain { Ok(()) } else { Err("it may change what words mean".to_owned()) }
}

fn is_literal_option(word: &Word) -> bool {
    word.is_literal() && !word.is_quoted
}

fn cd(rest: &[Word]) -> Result<Reads<'_>, String> {
    match rest {
        [target] if target.text != "-" && !target.text.starts_with('-') => {
            Ok(Reads { files: vec![target], is_recursive: false, shows_content: false })
        }
        _ => Err("where it goes is not known".to_owned()),
    }
}

/// `[ ]`: it only looks whether something is so, but with `-v` it evaluates an index. What is expanded must not be able to
/// become that operator.
fn test(rest: &[Word]) -> Result<(), String> {
    let is_whole = |word: &Word| word.raw.len() > 1 && word.raw.starts_with('"') && word.raw.ends_with('"');
    let bad = rest.iter().find(|word| {
        matches!(word.text.as_str(), "-v" | "-R") || word.is_glob || (word.expands && !is_whole(word))
    });
    if let Some(word) = bad {
        return Err(format!("with {} an index of a variable may run commands", word.raw));
    }
    let may_be_operator =
        rest.windows(2).find(|pair| pair[0].expands && (pair[1].expands || pair[1].text.contains('[')));
    match may_be_operator {
        Some(pair) => Err(format!("{} may become an operator that runs what is in an index", pair[0].raw)),
        None => Ok(()),
    }
}

/// `[[ ]]` without what evaluates words as arithmetic.
fn condition(rest: &[Word]) -> Result<Vec<&Word>, String> {
    const EVALUATED: [&str; 8] = ["-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let is_one = |word: &&Word| EVALUATED.contains(&word.text.as_str());
    match rest.iter().find(is_one) {
        Some(operator) => Err(format!("{} evaluates its words, which may run commands", operator.text)),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell;

    fn is_reading(line: &str) -> bool {
        let script = shell::parse(line);
        assert!(script.commands.len() == 1, "{line}");
        reads(&script.commands[0].words).is_ok()
    }

    #[test]
    fn only_known_readers_read() {
        for line in [
            "ls -la src",
            "cat a b",
            "echo $HOME *",
            "printf '%s\\n' $X",
            "head -n 5 x",
            "grep -rn foo src",
            "grep '/api' src",
            "rg -n foo",
            "find . -name '*.rs' -type f -not -path x",
            "find . -maxdepth 2 -size +1k -mtime -7",
            "sort -u x",
            "uniq x",
            "sed -n 5,10p x",
            "sed -n '5,$p' x",
            "date +%s",
            "date -u -d yesterday +%F",
            "set -euo pipefail",
            "command -v ls",
            "node --version",
            "[ -f x ]",
            "[ -n \"$x\" ]",
            "[ \"$a\" = \"$b\" ]",
            "test ! -d \"$x\"",
            "[[ -f $x && a == b ]]",
            "cd src",
            "wc -l *.rs",
            "git status",
        ] {
            assert!(is_reading(line), "{line}");
        }
    }

    #[test]
    fn what_could_do_more_is_not_reading() {
        for line in [
            "rm x",
            "cat $X",
            "LS",
            "/bin/ls",
            "printf -v x y",
            "printf $X",
            "find . -delete",
            "find . -exec rm {} +",
            "find . -fprint x",
            "find . $X",
            "find *",
            "sort -o x y",
            "sort -uo x y",
            "sort --out=x y",
            "sort --compress-program=sh x",
            "sort *",
            "uniq a b",
            "rg --pre sh x",
            "rg --pr sh x",
            "file -m x y",
            "sed 5p x",
            "sed -n 's/a/b/w x' y",
            "sed -n 5p -i x",
            "sed -i 5d x",
            "date -s x",
            "date 010203",
            "set x",
            "set -f",
            "command ls",
            "node -v x",
            "awk 1 x",
            "env",
            "[ $x ]",
            "[ \"$x\" \"$y\" ]",
            "[ \"$x\" 'a[0]' ]",
            "[[ $x -eq 1 ]]",
            "cd",
            "cd -",
            "tee x",
        ] {
            assert!(!is_reading(line), "{line}");
        }
    }

    #[test]
    fn the_table_is_in_order_and_says_what_the_readme_says() {
        let names: Vec<&str> = READERS.iter().map(|reader| reader.name).collect();
        let unique: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
