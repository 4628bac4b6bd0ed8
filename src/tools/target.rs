//! The files that a call names: as they were given, and where they are once every link is resolved.

use super::{Tool, View};
use crate::sys::links;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is looked at.
    Read,
    /// It is made or changed.
    Write,
}

/// A file or folder that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path as it was given, made absolute.
    pub as_given: PathBuf,
    /// The path with every link resolved.
    pub resolved: PathBuf,
    /// What is done to it.
    pub access: Access,
}

/// The files that a call names, for whoever decides whether it may run. What a shell command touches is not among them.
pub fn targets(tool: Tool, input: &Value, view: &View) -> Vec<Target> {
    let Some((field, access)) = tool.about().target else { return Vec::new() };
    let given = match input.get(field).and_then(Value::as_str) {
        Some(given) => given,
        // Searches begin in the directory if they are told nothing.
        None if access == Access::Read => ".",
        None => return Vec::new(),
    };
    let as_given = absolute(view, given);
    // A path that cannot be resolved cannot be opened either.
    let resolved = links::resolve(&as_given).unwrap_or_else(|_| as_given.clone());
    vec![Target { as_given, resolved, access }]
}

fn absolute(view: &View, given: &str) -> PathBuf {
    // Collected anew, so that `./a` and `a//b` are one with `a` and `a/b`.
    view.directory.join(given).components().collect()
}

/// Where a path that a call gives leads: where it led when the call was judged, if it was.
pub(super) fn find(view: &View, given: &str) -> Result<PathBuf, String> {
    let as_given = absolute(view, given);
    if given.is_empty() || given.contains('\0') {
        return Err("Wrong input: a path is expected, not empty, no NUL.".to_owned());
    }
    if let Some(judged) = view.judged.iter().find(|target| target.as_given == as_given) {
        return Ok(judged.resolved.clone());
    }
    links::resolve(&as_given).map_err(|e| cannot("use", &as_given)(e))
}

/// Words for a failed deed on a file.
pub(super) fn cannot(deed: &'static str, path: &Path) -> impl Fn(std::io::Error) -> String + use<> {
    let path = path.to_owned();
    move |e| match e.kind() {
        std::io::ErrorKind::NotFound => format!("Cannot {deed} {}: there is no such file.", path.display()),
        std::io::ErrorKind::NotADirectory => format!(
            "Cannot {deed} {}: a folder in its path is a file, or became a link after the path was looked at.",
            path.display()
        ),
        _ => format!("Cannot {deed} {}: {e}.", path.display()),
    }
}
