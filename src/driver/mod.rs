//! Which program an agent is, and how it starts. One file per kind of program.

mod command;

use crate::config::{Environment, plan::MemberPlan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A program that cannot be started as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such program.
    #[error("there is no program '{program}'{hint}")]
    NoProgram {
        /// As it was written.
        program: String,
        /// Where it was looked for.
        hint: String,
    },
    /// No such working directory.
    #[error("the working directory {} is not there", .0.display())]
    NoDirectory(PathBuf),
}

/// What `tend` is to execute.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The program, absolute.
    pub program: PathBuf,
    /// Its name and arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
}

/// Finds the program and settles directory and environment. `given` are the variables that throng sets; `cwd` is the
/// team's working directory.
///
/// # Errors
/// The program or the directory is not there.
pub fn prepare(
    plan: &MemberPlan,
    cwd: &Path,
    environment: &Environment,
    given: &BTreeMap<String, String>,
) -> Result<Prepared, Error> {
    command::prepare(plan, cwd, environment, given)
}
