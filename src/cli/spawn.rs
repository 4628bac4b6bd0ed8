//! `throng spawn`: one more teammate.

use super::context::Context;
use super::error::{Failure, Result};
use super::send::body;
use crate::backend::{self, Backend};
use crate::config::Plan;
use crate::config::plan::{BackendChoice, LeaderDeath, Limits, MemberPlan, Placement, Restart, Word};
use crate::driver;
use crate::launch;
use crate::leader;
use crate::protocol::{AgentName, TeamName};
use crate::store::{LeaderMode, Manifest, PlaceRecord, TeamStore};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Add a teammate to a team, which is made if need be
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng spawn bob --team demo -- sh -c 'throng inbox take --wait'")]
pub struct Spawn {
    /// Its name
    name: String,
    /// Its working directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A variable for it, or the name of one of yours that it inherits (FOO, MY_*); can be given several times
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = variable)]
    env: Vec<(String, Option<String>)>,
    /// Give it no terminal
    #[arg(long)]
    no_tty: bool,
    /// When to start it again: never, on-failure, always
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = Restart::parse)]
    restart: Restart,
    /// Where a new team lives: auto, tmux, process
    #[arg(long, value_name = "BACKEND", value_parser = BackendChoice::parse)]
    backend: Option<BackendChoice>,
    /// First message in its inbox: text, - for standard input, @FILE
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Its program and arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

fn variable(text: &str) -> std::result::Result<(String, Option<String>), String> {
    let (key, value) =
        text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value.to_owned())));
    if key.is_empty() {
        Err(format!("'{text}' is not KEY=VALUE or KEY"))
    } else {
        Ok((key.to_owned(), value))
    }
}

/// Spawns one teammate.
pub fn spawn(verb: &Spawn, context: &mut Context) -> Result {
    let name = AgentName::for_member(&verb.name)?;
    let here = context.config.environment.cwd.clone();
    let member = MemberPlan {
        name: name.clone(),
        command: verb.command.clone(),
        cwd: verb.cwd.clone().unwrap_or_default(),
        env: verb.env.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect(),
        inherit: verb.env.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key.clone()).collect(),
        tty: !verb.no_tty,
        restart: verb.restart,
        prompt: verb.prompt.as_deref().map(body).transpose()?,
    };
    let (store, manifest) = home(verb, &member, context)?;
    let (backend, reason) = match verb.backend {
        Some(choice) => {
            choose(&store, choice, Placement::parse(&manifest.placement).unwrap_or_default(), context)?
        }
        None => (backend_of(&store, &manifest, context), "the team's".to_owned()),
    };
    // Whoever spawned it, it ends with the leader if the others do.
    let leader = store.leader().flatten().filter(|_| manifest.ends_with_leader);
    let ends_with = leader.map(|leader| leader.process);
    let place = launch::spawn(&launch::Spawn {
        store: &store,
        manifest: &manifest,
        config: &context.config,
        backend: backend.as_ref(),
        plan: &member,
        cwd: &here,
        ends_with,
    })?;
    let view = launch::observe_one(&store, &name)?;
    let pid = view.and_then(|v| match v.life {
        launch::Life::Ready(process) => Some(process.pid),
        _ => None,
    });
    if context.out.json {
        let about = json!({"team": store.name(), "name": name, "pid": pid, "place": place, "backend": backend.name(), "reason": reason});
        return context.out.json(&about);
    }
    let at = match &place {
        PlaceRecord::Process => String::new(),
        PlaceRecord::Tmux { pane, .. } => format!(", pane {pane}"),
        PlaceRecord::Iterm2 { session } => format!(", iTerm2 session {session}"),
    };
    let pid = pid.map_or("ended already".to_owned(), |pid| format!("process {pid}"));
    context.out.line(format!("{name} is ready in team {}: {pid}{at}", store.name()))
}

/// The team to spawn into. A team that is named and not there is made.
fn home(verb: &Spawn, member: &MemberPlan, context: &Context) -> Result<(TeamStore, Manifest)> {
    let not_ours = |team: &TeamName| Failure::usage(format!("team '{team}' was not made by throng"));
    let store = match &context.config.team {
        Some(name) => context.store.team(name).at_home(),
        None => context.team()?,
    };
    if store.exists() {
        let manifest = store.manifest()?.ok_or_else(|| not_ours(store.name()))?;
        return Ok((store, manifest));
    }
    // A team is not made for a member that cannot be.
    driver::prepare(member, &context.config.environment.cwd, &context.config.environment, &BTreeMap::new())
        .map_err(|e| Failure::not_started(format!("{} was not started: find its program: {e}", member.name)))?;
    let plan = empty_plan(&store, context);
    let choice = verb.backend.unwrap_or_default();
    let (backend, _) = choose(&store, choice, plan.placement, context)?;
    let home =
        leader::Home { backend: backend.as_ref(), out: None, program: &context.config.environment.program };
    let (_lock, manifest) = leader::create(&store, &plan, LeaderMode::Spawn, home)?;
    Ok((store, manifest))
}

/// The plan of a team that no file describes.
pub fn empty_plan(store: &TeamStore, context: &Context) -> Plan {
    let here = context.config.environment.cwd.clone();
    Plan {
        name: store.name().clone(),
        backend: BackendChoice::Auto,
        placement: Placement::default(),
        dir: here.clone(),
        cwd: here,
        on_leader_death: LeaderDeath::Keep,
        limits: Limits::default(),
        members: Vec::new(),
        tasks: Vec::new(),
    }
}

/// The backend that a team was started with.
pub fn backend_of(store: &TeamStore, manifest: &Manifest, context: &Context) -> Box<dyn Backend> {
    let wanted = backend::Wanted {
        choice: BackendChoice::Auto,
        placement: Placement::parse(&manifest.placement).unwrap_or_default(),
        team: store.name(),
        layout: store.layout(),
    };
    backend::again(&wanted, &manifest.home, &context.config.environment)
}

fn choose(
    store: &TeamStore,
    choice: BackendChoice,
    placement: Placement,
    context: &Context,
) -> Result<(Box<dyn Backend>, String)> {
    let wanted = backend::Wanted { choice, placement, team: store.name(), layout: store.layout() };
    Ok(backend::choose(&wanted, &context.config.environment)?)
}
