//! Rules, modes and allowed paths in; allow, ask or deny out, with the reason. Pure: it asks nobody and touches no files.
//!
//! A caller reads the settings files (`config::Settings`), makes [`Rules`] of them, and for each tool call follows the
//! links of [`paths`] and then asks [`judge`]:
//! ```no_run
//! # use throng::{permission::{self, Paths, Request, Rules, Mode}, sys::links};
//! # fn judged(rules: &Rules, tool: &str, input: &serde_json::Value, cwd: &std::path::Path) -> permission::Verdict {
//! let paths = Paths::follow(permission::paths(rules, (tool, input), cwd), links::followed);
//! permission::judge(rules, Mode::Default, &Request { tool, input, cwd, paths: &paths })
//! # }
//! ```

pub mod approvals;
mod changing;
mod command;
mod files;
mod fit;
mod forms;
mod git;
mod judge;
mod line;
mod mode;
mod paths;
mod pattern;
mod reading;
mod rule;
mod rules;
pub mod shell;
mod unwrap;
mod verdict;
mod web;

pub use mode::Mode;
pub use paths::Paths;
pub use rule::{Rule, RuleError, Source};
pub use rules::{Place, Rules};
pub use verdict::{Decision, Part, Verdict};

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A call of a tool that is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The tool's name, as rules have it: `Bash`, `Edit`, `mcp__server__tool`.
    pub tool: &'a str,
    /// Its input as the model wrote it.
    pub input: &'a Value,
    /// Directory in which it would run, absolute.
    pub cwd: &'a Path,
    /// Where the paths of [`paths`] lead to.
    pub paths: &'a Paths,
}

/// The paths of which [`judge`] will want to know where they lead to, absolute, each as it was given: the caller follows
/// their links and puts them into [`Paths`]. What is missing there counts as unsure.
pub fn paths(rules: &Rules, call: (&str, &Value), cwd: &Path) -> Vec<PathBuf> {
    judge::paths(rules, call, cwd)
}

/// Judges a call: deny before ask before allow, whatever file a rule is from; then the mode; where it is unsure, ask.
pub fn judge(rules: &Rules, mode: Mode, request: &Request<'_>) -> Verdict {
    judge::Judge { rules, mode: rules.effective(mode), request, whole: None }.verdict()
}
