//! `throng run`: a team from its file, in the foreground, to its end (I3).

use super::context::{Context, span};
use super::error::{Failure, Result, verdict};
use super::logging;
use super::out::Paint;
use super::shown::Shown;
use super::trust::{Trust, settle};
use crate::backend;
use crate::config::plan::{BackendChoice, Word};
use crate::config::{Drivers, Plan};
use crate::driver;
use crate::leader::{self, Led, Outcome, Person, State};
use crate::protocol::timestamp;
use crate::store::{KeepTasks, LeaderMode};
use crate::sys::flock::Flock;
use crate::sys::signals::{HeldBack, hold_back};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What starts a team.
#[derive(Debug, Clone, clap::Args)]
pub struct Start {
    /// The team file, or a directory with a team.toml
    file: PathBuf,
    /// Working directory of the team, instead of the file's
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Where teammates live, instead of the file's: auto, tmux, process
    #[arg(long, value_name = "BACKEND", value_parser = BackendChoice::parse)]
    backend: Option<BackendChoice>,
    /// Directory for what the team makes (default: in throng's state)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
}

/// Start a team from its file, wait for its work, end everything
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It ends when every task is completed and every teammate has ended, at the timeout (124),
or at once when nobody alive can go on (1).

Example:
  throng run teams-example/checks --timeout 5m"
)]
pub struct Run {
    #[command(flatten)]
    start: Start,
    /// Longest duration, instead of the file's: 90s, 10m, 1h30m
    #[arg(long, value_name = "TIME", value_parser = span)]
    timeout: Option<Duration>,
    /// Nobody is there to answer what teammates ask, as if there were no terminal: what no rule and no hook of the team
    /// file answers is denied (7)
    #[arg(long)]
    no_approver: bool,
}

/// A team that was made, with the leader's lock.
pub struct Born {
    /// The team.
    pub led: Arc<Led>,
    /// Held as long as we lead.
    pub lock: Flock,
}

/// Reads the team file, and settles what its members' programs would ask.
pub fn plan(start: &Start, context: &Context) -> Result<Plan> {
    let mut plan = Plan::read(&start.file, &Drivers::read(&context.config.environment)?)?;
    if let Some(name) = &context.config.team_flag {
        plan.name = name.clone();
    }
    if let Some(cwd) = &start.cwd {
        plan.cwd = context.config.environment.cwd.join(cwd);
    }
    if !plan.cwd.is_dir() {
        return Err(Failure::usage(format!(
            "the team's working directory {} is not there",
            plan.cwd.display()
        )));
    }
    check_hook(&plan, context)?;
    settle(&plan.members, &plan.cwd, (&start.trust, context))?;
    Ok(plan)
}

/// A hook that is not there would deny everything, once it is asked.
fn check_hook(plan: &Plan, context: &Context) -> Result {
    let Some(hook) = &plan.approvals.hook else { return Ok(()) };
    let program = hook.command.first().map_or("", String::as_str);
    // Ours is on its PATH, wherever it lies.
    if program != "throng"
        && let Err(e) = driver::locate(program, &hook.cwd, &context.config.environment)
    {
        return Err(hook.error(&e.to_string()).into());
    }
    Ok(())
}

/// Makes the team of a file.
pub fn bear(start: &Start, (plan, mode): (Plan, LeaderMode), context: &Context) -> Result<Born> {
    let here = &context.config.environment.cwd;
    let store = context.store.team(&plan.name);
    let wanted = backend::Wanted {
        choice: start.backend.unwrap_or(plan.backend),
        placement: plan.placement,
        team: &plan.name,
        layout: &context.config.layout,
    };
    let (backend, reason) = backend::choose(&wanted, &context.config.environment)?;
    let out = start.out.as_ref().map(|dir| here.join(dir));
    let (lock, manifest) = leader::create(
        &store,
        &plan,
        mode,
        leader::Home { backend: backend.as_ref(), out, program: &context.config.environment.program },
    )?;
    let about = json!({"team": plan.name, "backend": backend.name(), "reason": reason, "mode": mode});
    store.note("team_started", &about);
    let led = Led { store, manifest, plan, config: context.config.clone(), backend };
    Ok(Born { led: Arc::new(led), lock })
}

/// Runs a team to its end.
pub fn run(verb: &Run, context: &mut Context) -> Result {
    let begun = Instant::now();
    logging::check(&context.config)?;
    let plan = plan(&verb.start, context)?;
    // A signal must not end us with half a team.
    let held = hold_back();
    let Born { led, lock } = bear(&verb.start, (plan, LeaderMode::Run), context)?;
    logging::for_leader(&context.config, &led.store)?;
    let (store, out_dir) = (led.store.clone(), led.manifest.out.clone());
    let timeout = verb.timeout.or(led.plan.limits.run_timeout);
    let at_terminal = context.out.is_terminal && std::io::stdin().is_terminal();
    let person = if at_terminal && !verb.no_approver { Person::Asked } else { Person::Absent };
    let state = State::starting(&led.plan, LeaderMode::Run, timeout, begun).approving(
        led.store.name(),
        &led.manifest.approvals,
        person,
    );
    let mut shown = Shown::new(&context.config, Some((led.plan.members.len(), led.plan.tasks.len())));
    let outcome = lead(led, state, held, &mut |line| shown.show(line))?;
    if outcome.left.is_empty() {
        leader::close(&store, KeepTasks::No, &context.config.environment)?;
    }
    drop(lock);
    let tasks = shown.tasks();
    let verdict = verdict(&outcome, &store);
    let failed: Vec<Value> =
        outcome.failed.iter().map(|f| json!({"member": f.member, "what": f.what})).collect();
    let logs = store.state().logs();
    let end = json!({
        "time": timestamp::format(SystemTime::now()), "event": "run_ended", "success": outcome.is_success(), "seconds": begun.elapsed().as_secs_f64(),
        "exit_code": verdict.as_ref().err().map_or(0, Failure::code), "not_started": outcome.not_started,
        "timed_out": outcome.timed_out.is_some(), "unanswered": outcome.unanswered, "failed": failed, "stalled": outcome.stalled,
        "left": outcome.left, "out": out_dir, "logs": logs,
    });
    let word = match outcome.is_success() {
        true => context.out.paint(Paint::Green, "done"),
        false => context.out.paint(Paint::Red, "failed"),
    };
    let text = format!(
        "{word} in {:.1} s{tasks}\nresults: {}\nlogs:    {}",
        begun.elapsed().as_secs_f64(),
        out_dir.display(),
        logs.display()
    );
    if outcome.signal.is_some() {
        for what in outcome.left.iter().map(|left| format!("still there: {left}")) {
            let _ = writeln!(std::io::stderr(), "throng: {what}");
        }
    }
    // What became of the work is said by the exit code, whoever still listens.
    let text = if context.out.json { end.to_string() } else { text };
    verdict.and(shown.end(Some(text)).map_or(Ok(()), Err))
}

/// Leads a team on an event loop of its own.
pub fn lead(led: Arc<Led>, state: State, held: HeldBack, show: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::failed(format!("no event loop: {e}")))?;
    runtime
        .block_on(leader::lead(led, state, held, show))
        .map_err(|e| Failure::failed(format!("cannot lead: {e}")))
}
