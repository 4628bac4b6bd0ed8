//! An agent of our own as a teammate (B12): our program in another role. It reads its inbox itself, and tells its `tend` what
//! it is doing.

use super::{Error, Prepared, Wanted, surroundings};
use crate::config::plan::{PermissionMode, Word};

pub(super) fn prepare(wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    let (cwd, env) = surroundings(wanted)?;
    let options = &wanted.plan.agent;
    let mut argv: Vec<String> = ["throng", "agent", "run", "--member"].map(str::to_owned).to_vec();
    let mut say = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
    if let Some(model) = &options.model {
        say("--model", model);
    }
    if options.permission_mode != PermissionMode::Default {
        say("--permission-mode", options.permission_mode.word());
    }
    argv.extend(options.args.iter().cloned());
    Ok(Prepared { program: wanted.environment.program.clone(), argv, env, cwd, session: None })
}
