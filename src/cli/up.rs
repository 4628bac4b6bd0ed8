//! `throng up`: a team from its file, left running.

use super::context::Context;
use super::error::{Failure, Result, verdict};
use super::run::{Born, Shown, Start, bear, lead};
use crate::leader::{self, State};
use crate::protocol::timestamp;
use crate::store::{KeepTasks, LeaderMode, TeamStore};
use crate::sys::flock::Flock;
use crate::sys::run::{keep_across_exec, start_detached};
use serde_json::json;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Start a team from its file and leave it running
#[derive(Debug, clap::Args)]
#[command(after_help = "It returns when every teammate is ready and leaves one detached leader process.

Example:
  throng up teams-example/checks && throng status --watch")]
pub struct Up {
    #[command(flatten)]
    start: Start,
    /// Lead in this process instead of a detached one
    #[arg(long)]
    foreground: bool,
}

/// Starts a team and leaves it running.
pub fn up(verb: &Up, context: &mut Context) -> Result {
    let Born { led, lock } = bear(&verb.start, LeaderMode::Up, context)?;
    let store = led.store.clone();
    let (attach, names) = (led.manifest.home.attach.clone(), led.manifest.planned.clone());
    let state = State::starting(&led.plan, LeaderMode::Up, None, Instant::now());
    let mut shown = Shown::default();
    let outcome = lead(Arc::clone(&led), state, &mut |line| {
        if !context.out.json {
            shown.show(&mut context.out, line);
        }
    })?;
    if !outcome.is_success() {
        leader::close(&store, KeepTasks::No, &context.config.environment)?;
        return verdict(&outcome);
    }
    let about = json!({"team": store.name(), "members": names, "attach": attach});
    if verb.foreground {
        report(context, &about)?;
        let outcome =
            lead(led, State::watching(Instant::now()), &mut |line| shown.show(&mut context.out, line))?;
        drop(lock);
        return verdict(&outcome);
    }
    hand_over(&store, &lock, context)?;
    report(context, &about)
}

fn report(context: &mut Context, about: &serde_json::Value) -> Result {
    if context.out.json {
        return context.out.json(about);
    }
    let team = about["team"].as_str().unwrap_or_default();
    context.out.line(format!("team {team} is up"))?;
    if let Some(attach) = about["attach"].as_str() {
        context.out.line(format!("  see it:  {attach}"))?;
    }
    context.out.line(format!("  watch:   throng status --team {team} --watch\n  end it:  throng down {team}"))
}

/// Starts the detached leader with our lock, so that the team is never without one.
fn hand_over(store: &TeamStore, lock: &Flock, context: &Context) -> Result {
    let number =
        keep_across_exec(lock.file()).map_err(|e| Failure::failed(format!("lock not handed on: {e}")))?;
    let mut command = Command::new(&context.config.environment.program);
    command.args(["lead", "--team", store.name().as_str(), "--lock", &number.to_string()]);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(start_detached(command)?)
}

/// Signs as leader.
pub fn sign(store: &TeamStore) -> Result {
    Ok(store.write_leader(LeaderMode::Up, &timestamp::format(SystemTime::now()))?)
}
