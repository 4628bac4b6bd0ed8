//! Any program at all (B12). It is ready once it runs, and done once it has ended.

use super::{Error, Prepared, Wanted, find, surroundings};

pub(super) fn prepare(wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    let (cwd, env) = surroundings(wanted)?;
    let word = wanted.plan.command.first().map_or("", String::as_str);
    let program = find(word, &cwd, &env["PATH"])?;
    Ok(Prepared { program, argv: wanted.plan.command.clone(), env, cwd, session: None })
}
