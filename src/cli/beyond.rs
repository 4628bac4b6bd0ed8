//! Ending a team from inside one of its members: the verb would be ended with the member before it is through, so it goes
//! on in a process of its own that does not carry the member's mark.

use super::context::Context;
use super::error::Result;
use crate::protocol::AgentName;
use crate::store::TeamStore;
use crate::sys::run::start_detached;
use std::process::{Command, Stdio};

/// Goes on detached with the same arguments if this process belongs to one of `names` (`None`: to any member) of the
/// team. Answers whether it did.
pub fn go_on_detached(context: &mut Context, store: &TeamStore, names: Option<&[AgentName]>) -> Result<bool> {
    let environment = &context.config.environment;
    let is_member = environment.get("THRONG_LAUNCH").is_some()
        && environment.get("THRONG_TEAM") == Some(store.name().as_str())
        && names.is_none_or(|names| names.contains(&context.config.me));
    if !is_member {
        return Ok(false);
    }
    let mut command = Command::new(&environment.program);
    command.args(environment.args.iter().skip(1)).env_remove("THRONG_LAUNCH");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    start_detached(command, None)?;
    match context.out.json {
        true => context.out.json(&serde_json::json!({"goes_on_detached": true}))?,
        false => {
            context
                .out
                .line("this process is part of what is to be ended: it is being ended from outside")?;
        }
    }
    Ok(true)
}
