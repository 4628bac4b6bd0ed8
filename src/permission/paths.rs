//! Paths as text: where they lead to, how they read without `.` and `..`, and what lies in what.

use crate::config::settings::Dir;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Where paths lead to once their links are followed: by the path as it was given. The caller fills it, since this room
/// looks at no files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    real: BTreeMap<PathBuf, PathBuf>,
}

impl Paths {
    /// Follows the links of each path by `follow` (`sys::links::followed`).
    pub fn follow(given: impl IntoIterator<Item = PathBuf>, follow: impl Fn(&Path) -> PathBuf) -> Paths {
        let pair = |path: PathBuf| {
            let real = follow(&path);
            (path, real)
        };
        Paths { real: given.into_iter().map(pair).collect() }
    }

    /// Where a path leads to, if that is known.
    pub(super) fn real(&self, given: &Path) -> Option<&Path> {
        self.real.get(given).map(PathBuf::as_path)
    }
}

/// An absolute path without empty parts, `.` and `..`, as it reads: links are not followed.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
    }
    plain
}

/// Whether a path, as given and as it is, lies in one of the directories.
pub(super) fn is_inside(directories: &[Dir], given: &Path, real: &Path) -> bool {
    let holds = |path: &Path| directories.iter().any(|dir| path.starts_with(&dir.real));
    (holds(given) || directories.iter().any(|dir| given.starts_with(&dir.given))) && holds(real)
}

/// Folders in which nothing is changed without a question: what is in them is run or obeyed by programs.
const PROTECTED_FOLDERS: [&str; 9] =
    [".git", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn", ".mvn", ".claude"];
/// Files of that kind.
const PROTECTED_FILES: [&str; 42] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".bash_logout",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".profile",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".bazelrc",
    ".bazelversion",
    ".bazeliskrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    ".lefthook.yml",
    ".lefthook.yaml",
    "gradle-wrapper.properties",
    "maven-wrapper.properties",
    ".devcontainer.json",
    ".ripgreprc",
    "pyrightconfig.json",
    ".mcp.json",
    ".claude.json",
    // Ours: they start programs.
    "team.toml",
    "drivers.toml",
    // Others that a shell or a login obeys.
    ".inputrc",
    ".pam_environment",
    "authorized_keys",
];
/// Below these folders it is ours and the agents' to write.
const FREE_BELOW: [&str; 3] = [".claude/worktrees", ".claude/agent-memory", ".claude/agent-memory-local"];

/// The part of a path for which it is protected. Case is not looked at: some file systems do not either.
pub(super) fn protected_part(path: &Path) -> Option<String> {
    let names: Vec<String> =
        path.components().map(|p| p.as_os_str().to_string_lossy().to_lowercase()).collect();
    // What lies in a worktree is judged by its path in there.
    let free = FREE_BELOW.iter().filter_map(|free| {
        let free: Vec<&str> = free.split('/').collect();
        names.windows(free.len()).rposition(|part| part == free.as_slice()).map(|at| at + free.len())
    });
    let names = &names[free.max().unwrap_or(0).min(names.len())..];
    let is_folder = |name: &&String| PROTECTED_FOLDERS.contains(&name.as_str());
    let is_git_config = names.windows(2).any(|pair| pair == [".config", "git"]);
    let file = names.last().filter(|name| PROTECTED_FILES.contains(&name.as_str()));
    let found = names.iter().find(is_folder).or(file).cloned();
    found.or_else(|| is_git_config.then(|| ".config/git".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_plainly() {
        for (path, expected) in
            [("/a/./b//c", "/a/b/c"), ("/a/../b", "/b"), ("/../..", "/"), ("/a/b/..", "/a")]
        {
            assert_eq!(plain(Path::new(path)), Path::new(expected));
        }
    }

    #[test]
    fn what_a_link_leads_out_of_is_not_inside() {
        let dirs = [Dir { given: "/w".into(), real: "/real/w".into() }];
        let inside = |given: &str, real: &str| is_inside(&dirs, Path::new(given), Path::new(real));
        assert!(inside("/w/x", "/real/w/x") && inside("/real/w/x", "/real/w/x") && inside("/w", "/real/w"));
        assert!(
            !inside("/w/link", "/etc/passwd")
                && !inside("/etc/link", "/real/w/x")
                && !inside("/wx", "/real/wx")
        );
    }

    #[test]
    fn protected_paths_are_known() {
        let protected = |path: &str| protected_part(Path::new(path));
        for path in [
            "/w/.git/hooks/pre-commit",
            "/w/.git",
            "/w/.GIT/config",
            "/h/.bashrc",
            "/w/sub/.mcp.json",
            "/h/.config/git/config",
            "/w/.claude/settings.json",
            "/w/.claude/worktrees/a/.git",
            "/w/team.toml",
        ] {
            assert!(protected(path).is_some(), "{path}");
        }
        for path in [
            "/w/src/main.rs",
            "/w/.gitignore",
            "/w/.claude/worktrees/a/src/x",
            "/w/.claude/agent-memory/x/y.md",
            "/w/.bashrc.d/x",
            "/",
        ] {
            assert_eq!(protected(path), None, "{path}");
        }
    }
}
