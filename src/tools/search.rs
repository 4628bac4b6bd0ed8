//! What `Glob` and `Grep` share: the walk through a folder, in the order of the paths, so that two runs give the same.

use super::target::{self, cannot};
use super::{Cancel, View};
use ignore::{DirEntry, WalkBuilder};
use std::path::{Path, PathBuf};

/// Entries that one search looks at.
pub(super) const ENTRIES_MAX: usize = 500_000;

/// Where a search begins: the folder or file that was given, or the agent's directory.
pub(super) fn root(path: Option<&str>, view: &View) -> Result<PathBuf, String> {
    let root = target::find(view, path.unwrap_or("."))?;
    let meta = std::fs::symlink_metadata(&root).map_err(cannot("search", &root))?;
    if meta.is_dir() || meta.is_file() {
        Ok(root)
    } else {
        Err(format!("Cannot search {}: it is no file and no folder.", root.display()))
    }
}

/// A walk that obeys `.gitignore` and its kin, follows no links, and leaves `.git` out.
pub(super) fn walk(root: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    walk
}

/// Why a search did not go through everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Enough was found.
    Enough,
    /// It was cancelled.
    Cancelled,
    /// Too many entries.
    TooMany,
}

/// Shows every plain file of a walk to `look`, until that says that it is enough. Unreadable folders, and
/// files that the agent may not read, are passed over.
pub(super) fn each_file(
    walk: &WalkBuilder,
    (cancel, view): (&Cancel, &View),
    mut look: impl FnMut(&DirEntry) -> Result<(), Cut>,
) -> Result<(), Cut> {
    for (i, entry) in walk.build().enumerate() {
        if cancel.is_set() {
            return Err(Cut::Cancelled);
        }
        if i >= ENTRIES_MAX {
            return Err(Cut::TooMany);
        }
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_some_and(|kind| kind.is_file()) && !view.hidden.hides(entry.path()) {
            look(&entry)?;
        }
    }
    Ok(())
}

/// A path as it is shown: from `directory` on, if it is below it.
pub(super) fn shown(path: &Path, directory: &Path) -> String {
    let path = path.strip_prefix(directory).unwrap_or(path);
    path.to_string_lossy().replace(['\n', '\r'], "\u{fffd}")
}

impl Cut {
    /// What is said of it, after what was found.
    pub(super) fn note(self, enough: &str) -> String {
        match self {
            Cut::Enough => format!("[{enough}]"),
            Cut::Cancelled => "[The search was cancelled: this is not all.]".to_owned(),
            Cut::TooMany => {
                format!(
                    "[The search ended after {ENTRIES_MAX} entries: this is not all. Give a narrower path.]"
                )
            }
        }
    }
}
