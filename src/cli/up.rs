//! `throng up`: a team from its file, left running.

use super::context::Context;
use super::error::{Failure, Result, verdict};
use super::run::{Born, Start, bear, lead, plan};
use super::shown::Shown;
use crate::leader::{self, Person, State};
use crate::protocol::timestamp;
use crate::store::{KeepTasks, LeaderMode, TeamStore};
use crate::sys::flock::Flock;
use crate::sys::process::Process;
use crate::sys::run::{keep_across_exec, start_detached};
use crate::sys::signals::hold_back;
use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for the detached leader to sign.
const SIGNS_WITHIN: Duration = Duration::from_secs(10);

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
    let plan = plan(&verb.start, context)?;
    let held = hold_back();
    let Born { led, lock } = bear(&verb.start, (plan, LeaderMode::Up), context)?;
    let store = led.store.clone();
    let (attach, names) = (led.manifest.home.attach.clone(), led.manifest.planned.clone());
    let state = State::starting(&led.plan, LeaderMode::Up, None, Instant::now());
    let mut shown = Shown::new(&context.config, None);
    let outcome = lead(Arc::clone(&led), state, held, &mut |line| {
        if !context.out.json {
            shown.show(line);
        }
    })?;
    // What comes next is printed after it.
    shown.end(None);
    if !outcome.is_success() {
        if outcome.left.is_empty() {
            leader::close(&store, KeepTasks::No, &context.config.environment)?;
        }
        return verdict(&outcome, &store);
    }
    let about = json!({"team": store.name(), "members": names, "attach": attach});
    if verb.foreground {
        // It leads on, whoever listens.
        let _ = report(context, &about);
        let mut shown = Shown::new(&context.config, None);
        let state = State::watching(Instant::now()).approving(
            led.store.name(),
            &led.manifest.approvals,
            Person::Asked,
        );
        let outcome = lead(led, state, hold_back(), &mut |line| {
            shown.show(line);
        })?;
        drop(lock);
        shown.end(None);
        if outcome.signal.is_some() {
            let team = store.name();
            let _ = writeln!(
                std::io::stderr(),
                "throng: team {team} goes on without a leader: 'throng adopt --team {team}' gives it one, 'throng down {team}' ends it"
            );
        }
        return verdict(&outcome, &store);
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
pub fn hand_over(store: &TeamStore, lock: &Flock, context: &Context) -> Result {
    let number =
        keep_across_exec(lock.file()).map_err(|e| Failure::failed(format!("lock not handed on: {e}")))?;
    let mut command = Command::new(&context.config.environment.program);
    command.args(["lead", "--team", store.name().as_str(), "--lock", &number.to_string()]);
    command
        .env_remove("THRONG_LAUNCH")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    start_detached(command, Some(number))?;
    let is_signed =
        || store.leader().flatten().is_some_and(|leader| leader.process != Process::current().into());
    let begun = Instant::now();
    while !is_signed() {
        if begun.elapsed() > SIGNS_WITHIN {
            return Err(Failure::not_started("the detached leader did not start: see logs/leader.log"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Signs as leader.
pub fn sign(store: &TeamStore) -> Result {
    Ok(store.write_leader(LeaderMode::Up, &timestamp::format(SystemTime::now()))?)
}
