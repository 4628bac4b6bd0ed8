//! `Glob`: files by the pattern of their path.

use super::search::{self, Cut};
use super::target::Access;
use super::{About, Beside, Cancel, Outcome, Ran, View, input};
use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Files that are told of.
const FILES_MAX: usize = 200;

pub(super) const ABOUT: About = About {
    name: "Glob",
    beside: Beside::Others,
    target: Some(("path", Access::Read)),
    description: "Finds files by a pattern of their path, in the order of the paths: `*.rs` in the folder itself, \
        `**/*.rs` at any depth, `src/{a,b}/**`. What .gitignore names and the folder .git are left out; links are not \
        followed. At most 200 files are told. To search in files, use Grep.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The pattern, relative to path.
    pattern: String,
    /// The folder to search in. Your directory if left out.
    path: Option<String>,
}

pub(super) fn run(value: Value, view: &View, cancel: &Cancel) -> Ran {
    let input: Input = input::read(value)?;
    let pattern = input.pattern.strip_prefix("./").unwrap_or(&input.pattern);
    if pattern.is_empty() || pattern.starts_with('/') || pattern.split('/').any(|piece| piece == "..") {
        return Err("Wrong input in field 'pattern': a pattern relative to path is expected, such as **/*.rs. Give the \
                    folder in field 'path'."
            .to_owned());
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|e| format!("Wrong input in field 'pattern': {e}."))?.compile_matcher();
    let root = search::root(input.path.as_deref(), view)?;
    if !root.is_dir() {
        return Err(format!("{} is no folder.", root.display()));
    }
    let mut found = Vec::new();
    let walked = search::each_file(&search::walk(&root), (cancel, view), |entry| {
        if glob.is_match(entry.path().strip_prefix(&root).unwrap_or(entry.path())) {
            if found.len() == FILES_MAX {
                return Err(Cut::Enough);
            }
            found.push(search::shown(entry.path(), &view.directory));
        }
        Ok(())
    });
    if let Err(cut) = walked {
        found.push(cut.note("There are more files. Give a narrower pattern or path."));
    } else if found.is_empty() {
        found.push(format!(
            "No file matches. (What .gitignore names is left out; searched in {}.)",
            root.display()
        ));
    }
    Ok(Outcome::said(found.join("\n")))
}
