//! The project's instructions for agents: `CLAUDE.md` and `AGENTS.md` of the user, of the agent's directory and of those above
//! it, what they import (`@path`), and those of folders that the agent comes to work in.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of instruction files in a folder. Of one folder all are read, in this order; of equal ones the first.
const NAMES: [&str; 4] = ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md", "CLAUDE.local.md"];
/// How deep imports may be nested.
const IMPORTS_DEEP_MAX: usize = 5;
/// Longest file in bytes; the rest is left out, and said to be.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// All files together.
const BYTES_MAX: usize = 256 * 1024;

/// Instructions that were found.
#[derive(Debug, Default)]
pub struct Instructions {
    /// Their text, each file under its name.
    pub text: String,
    /// Files that were read: they are not read again.
    read: HashSet<PathBuf>,
    /// Folders that were looked into.
    folders: HashSet<PathBuf>,
    home: Option<PathBuf>,
}

impl Instructions {
    /// Those of the user (`user`: the configuration directory) and of `directory` and the folders above it, the outermost
    /// first: what is nearer stands later. `home` is what `~/` in an import stands for.
    pub fn find(directory: &Path, user: &Path, home: Option<PathBuf>) -> Instructions {
        let mut found = Instructions { home, ..Instructions::default() };
        found.read_one(&user.join(NAMES[0]), 0);
        let mut folders: Vec<&Path> = directory.ancestors().collect();
        folders.reverse();
        folders.into_iter().for_each(|folder| found.look_into(folder));
        found
    }

    /// Those of the folders between `directory` and a file that the agent has seen there, if they are new.
    pub fn nested(&mut self, directory: &Path, file: &Path) -> Option<String> {
        let below = file.parent()?.strip_prefix(directory).ok()?;
        let before = self.text.len();
        let mut folder = directory.to_owned();
        for part in below.components() {
            folder.push(part);
            self.look_into(&folder.clone());
        }
        Some(self.text[before..].trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn look_into(&mut self, folder: &Path) {
        if self.folders.insert(folder.to_owned()) {
            NAMES.iter().for_each(|name| self.read_one(&folder.join(name), 0));
        }
    }

    fn read_one(&mut self, path: &Path, depth: usize) {
        let Ok(real) = path.canonicalize() else { return };
        // A FIFO or a device would be waited for.
        if self.text.len() >= BYTES_MAX || !real.is_file() || !self.read.insert(real) {
            return;
        }
        let Ok(bytes) = fs::read(path) else { return };
        let text = String::from_utf8_lossy(&bytes);
        let mut end = text.len().min(FILE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.trim_start_matches('\u{feff}').get(..end).unwrap_or(&text).trim();
        if text.is_empty() {
            return;
        }
        let _ = write!(self.text, "Contents of {}:\n\n{text}\n", path.display());
        if end < bytes.len() {
            let _ = writeln!(self.text, "[{} more bytes left out]", bytes.len() - end);
        }
        self.text.push('\n');
        if depth < IMPORTS_DEEP_MAX {
            let folder = path.parent().unwrap_or(path).to_owned();
            for import in imports(text) {
                self.read_one(&self.resolve(&folder, &import), depth + 1);
            }
        }
    }

    fn resolve(&self, folder: &Path, import: &str) -> PathBuf {
        match (import.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => folder.join(import),
        }
    }
}

/// Words `@path` outside of code: at the beginning of a line or after white space.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        // Every second piece stands between backquotes.
        for piece in line.split('`').step_by(2) {
            let words = piece.split_whitespace().filter_map(|word| word.strip_prefix('@'));
            let words = words.map(|word| word.trim_end_matches([',', '.', ';', ':', ')']));
            found.extend(words.filter(|word| word.contains(['/', '.'])).map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_instructions_are_found_upwards_imported_once_and_nested() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("user/CLAUDE.md", "of the user");
        write(
            "CLAUDE.md",
            "outer, see @docs/a.md and `@docs/code.md` and mail me@host.org\n```\n@docs/code.md\n```",
        );
        write("docs/a.md", "imported @../CLAUDE.md @a.md");
        write("docs/code.md", "never");
        write("w/AGENTS.md", "inner");
        write("w/src/deep/CLAUDE.md", "nested");
        let mut found = Instructions::find(&root.join("w"), &root.join("user"), None);
        let at = |word: &str| found.text.find(word).unwrap_or_else(|| panic!("no {word} in {}", found.text));
        assert!(
            at("of the user") < at("outer") && at("outer") < at("imported") && at("imported") < at("inner")
        );
        assert_eq!(found.text.matches("imported").count(), 1);
        assert!(!found.text.contains("never") && !found.text.contains("nested"));
        let nested = found.nested(&root.join("w"), &root.join("w/src/deep/x.rs")).unwrap();
        assert!(nested.starts_with("Contents of ") && nested.ends_with("nested"), "{nested}");
        assert_eq!(found.nested(&root.join("w"), &root.join("w/src/deep/y.rs")), None);
        assert_eq!(found.nested(&root.join("w"), &root.join("docs/a.md")), None);
    }

    #[test]
    fn a_long_file_is_cut_at_a_character_and_a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("CLAUDE.md"), "é".repeat(FILE_BYTES_MAX)).unwrap();
        nix::unistd::mkfifo(&dir.path().join("AGENTS.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = Instructions::find(dir.path(), Path::new("/nowhere"), None);
        assert!(
            found.text.contains(&format!("[{FILE_BYTES_MAX} more bytes left out]")),
            "{}",
            found.text.len()
        );
    }
}
