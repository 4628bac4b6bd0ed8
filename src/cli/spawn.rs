//! `throng spawn`: one more teammate.

use super::context::Context;
use super::error::{Failure, Result};
use super::send::body;
use super::trust::{Trust, config_dir, settle};
use crate::backend::{self, Backend};
use crate::config::approvals::Policy;
use crate::config::plan::{
    AgentOptions, BackendChoice, COMMAND, LeaderDeath, Limits, MemberPlan, PermissionMode, Placement,
    Restart, Word,
};
use crate::config::{Drivers, Plan};
use crate::driver;
use crate::launch;
use crate::leader::{self, IsNew};
use crate::protocol::{AgentName, TeamName};
use crate::store::{KeepTasks, Manifest, PlaceRecord, TeamStore};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Add a teammate to a team, which is made if need be
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng spawn bob --team demo -- sh -c 'throng inbox take --wait'
  throng spawn ann --driver claude --model sonnet --prompt 'Look for dead code in src'")]
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
    /// What its program is: command, claude, or one that 'throng drivers' lists
    #[arg(long, value_name = "DRIVER", default_value = COMMAND)]
    driver: String,
    #[command(flatten)]
    agent: Agent,
    #[command(flatten)]
    trust: Trust,
    /// Its program and arguments; with a driver, further arguments of that driver's program
    #[arg(last = true, required_if_eq("driver", COMMAND), value_name = "CMD")]
    command: Vec<String>,
}

/// What an agent program is told.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With a driver")]
struct Agent {
    /// Type of the agent
    #[arg(long, value_name = "TYPE")]
    agent: Option<String>,
    /// Its model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What it may do without asking: default, acceptEdits, plan, bypassPermissions, auto, dontAsk
    #[arg(long, value_name = "MODE", value_parser = PermissionMode::parse)]
    permission_mode: Option<PermissionMode>,
    /// Its plan has to be approved before it changes anything
    #[arg(long)]
    plan_required: bool,
    /// How hard its model thinks
    #[arg(long, value_name = "LEVEL")]
    effort: Option<String>,
}

impl Spawn {
    /// The member that is asked for.
    fn member(&self, name: &AgentName, drivers: &Drivers) -> Result<MemberPlan> {
        let agent = &self.agent;
        let is_command = self.driver == COMMAND;
        let entry = drivers.find(&self.driver);
        if entry.is_none() && !drivers.words().contains(&self.driver.as_str()) {
            return Err(Failure::usage(drivers.unknown(&self.driver)));
        }
        let told = agent.agent.is_some() || agent.model.is_some() || agent.effort.is_some();
        if is_command && (told || agent.permission_mode.is_some() || agent.plan_required) {
            let what = "--agent, --model, --effort, --permission-mode and --plan-required";
            return Err(Failure::usage(format!("{what} are for agent programs: add --driver claude")));
        }
        if !is_command && self.no_tty {
            return Err(Failure::usage("an agent program takes part only on a terminal: leave --no-tty out"));
        }
        let (command, args) =
            if is_command { (self.command.clone(), Vec::new()) } else { (Vec::new(), self.command.clone()) };
        let agent = AgentOptions {
            agent: agent.agent.clone(),
            model: agent.model.clone(),
            permission_mode: agent.permission_mode.unwrap_or_default(),
            plan_required: agent.plan_required,
            effort: agent.effort.clone(),
            args,
        };
        if let Some(Err(option)) = entry.as_ref().map(|entry| entry.check_options(&agent)) {
            let flag = option.replace('_', "-");
            return Err(Failure::usage(format!("the driver '{}' has no place for --{flag}", self.driver)));
        }
        Ok(MemberPlan {
            name: name.clone(),
            driver: self.driver.clone(),
            entry,
            command,
            agent,
            cwd: self.cwd.clone().unwrap_or_default(),
            env: self.env.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect(),
            inherit: self
                .env
                .iter()
                .filter(|(_, value)| value.is_none())
                .map(|(key, _)| key.clone())
                .collect(),
            tty: !self.no_tty,
            restart: self.restart,
            prompt: self.prompt.as_deref().map(body).transpose()?,
        })
    }
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
    let member = verb.member(&name, &drivers(context)?)?;
    settle(std::slice::from_ref(&member), &here, (&verb.trust, context))?;
    let (store, manifest, is_new) = home(verb, &member, context)?;
    let (backend, reason) = match verb.backend {
        Some(choice) => {
            choose(&store, choice, Placement::parse(&manifest.placement).unwrap_or_default(), context)?
        }
        None => (backend_of(&store, &manifest, context), "the team's".to_owned()),
    };
    // Whoever spawned it, it ends with the leader if the others do.
    let leader = store.leader().flatten().filter(|_| manifest.ends_with_leader);
    let ends_with = leader.map(|leader| leader.process);
    let spawned = launch::spawn(&launch::Spawn {
        store: &store,
        manifest: &manifest,
        config: &context.config,
        backend: backend.as_ref(),
        plan: &member,
        cwd: &here,
        ends_with,
    });
    if spawned.is_err() && is_new == IsNew::Yes && launch::observe(&store)?.is_empty() {
        // It was made for this member alone.
        leader::end_team(&store, Duration::ZERO, KeepTasks::No, &context.config.environment)?;
    }
    let place = spawned?;
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

/// The drivers that a member of the team may have: its team file's, too.
fn drivers(context: &Context) -> Result<Drivers> {
    let all = Drivers::read(&context.config.environment)?;
    // A team that is not there yet has none of its own.
    let Ok(store) = team(context) else { return Ok(all) };
    let manifest = store.manifest()?.filter(|manifest| manifest.ended.is_none());
    Ok(manifest.map_or(all.clone(), |manifest| all.with(&manifest.drivers, &store.state().manifest())))
}

/// The team that is meant, whether or not it is there.
fn team(context: &Context) -> Result<TeamStore> {
    match &context.config.team {
        Some(name) => Ok(context.store.team(name).at_home()),
        None => context.team(),
    }
}

/// The team to spawn into. A team that is named and not there is made.
fn home(verb: &Spawn, member: &MemberPlan, context: &Context) -> Result<(TeamStore, Manifest, IsNew)> {
    let not_ours = |team: &TeamName| Failure::usage(format!("team '{team}' was not made by throng"));
    let store = team(context)?;
    if store.exists() {
        let manifest = store.manifest()?.ok_or_else(|| not_ours(store.name()))?;
        return Ok((store, manifest, IsNew::No));
    }
    // A team is not made for a member that cannot be.
    let environment = &context.config.environment;
    let given = BTreeMap::from([config_dir(context)]);
    driver::prepare(&driver::Wanted { plan: member, cwd: &environment.cwd, environment, given: &given })
        .map_err(|e| {
            Failure::not_started(format!("{} was not started: find its program: {e}", member.name))
        })?;
    let plan = empty_plan(&store, context);
    let choice = verb.backend.unwrap_or_default();
    let (backend, _) = choose(&store, choice, plan.placement, context)?;
    let home =
        leader::Home { backend: backend.as_ref(), out: None, program: &context.config.environment.program };
    let (manifest, is_new) = leader::find_or_create(&store, &plan, home)?;
    Ok((store, manifest, is_new))
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
        approvals: Policy::default(),
        drivers: BTreeMap::new(),
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
