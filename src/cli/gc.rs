//! `throng gc`: removes what ended teams left.

use super::context::Context;
use super::error::{Failure, Result};
use super::out::age;
use crate::launch;
use crate::leader;
use crate::store::{KeepTasks, Store, TeamStore};
use crate::sys::{failed, socket};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Remove what ended teams left
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A team whose leader and members are all dead is ended first: strays, panes, shared files.
What its members made in the results directory goes with it. --team NAME removes only that team's.

Example:
  throng gc --dry-run"
)]
pub struct Gc {
    /// Only list it
    #[arg(long)]
    dry_run: bool,
}

/// Longest life of a launcher of the iTerm2 backend; its start is over long before.
const LAUNCHER_LIVES: Duration = Duration::from_secs(600);

/// Something that can go, and what it is.
type Leftover = (PathBuf, String);

/// Removes leftovers.
pub fn gc(verb: &Gc, context: &mut Context) -> Result {
    let only = context.config.team_flag.clone();
    let mut leftovers = Vec::new();
    for store in context.store.teams() {
        if only.as_ref().is_none_or(|name| name == store.name()) {
            leftovers.extend(of_team(&store, verb, context)?);
        }
    }
    if only.is_none() {
        leftovers.extend(put_aside(&context.store));
        leftovers.extend(dead_sockets(&context.store));
    }
    for (path, what) in &leftovers {
        let remove = if path.is_dir() { std::fs::remove_dir_all } else { std::fs::remove_file };
        if !verb.dry_run {
            remove(path).map_err(failed("remove", path))?;
        }
        if !context.out.json {
            let word = if verb.dry_run { "would remove" } else { "removed" };
            context.out.line(format!("{word} {what}: {}", path.display()))?;
        }
    }
    if only.is_none() && !verb.dry_run {
        context.store.forget_births()?;
    }
    if context.out.json {
        let list: Vec<_> = leftovers.iter().map(|(path, what)| json!({"path": path, "what": what})).collect();
        return context.out.json(&json!({"dry_run": verb.dry_run, "removed": list}));
    }
    if leftovers.is_empty() { context.out.line("nothing to remove") } else { Ok(()) }
}

/// The state of a team that has ended. One that died is ended first.
fn of_team(store: &TeamStore, verb: &Gc, context: &Context) -> Result<Option<Leftover>> {
    let Some(manifest) = store.manifest().ok().flatten() else { return Ok(None) };
    let (what, since) = match &manifest.ended {
        Some(ended) => ("ended", ended),
        None if is_dead(store) => ("crashed", &manifest.started),
        None => return Ok(None),
    };
    if manifest.ended.is_none() && !verb.dry_run {
        let environment = &context.config.environment;
        let down = leader::end_team(store, leader::GRACE, KeepTasks::No, environment)?;
        let left: Vec<String> = down.retired.into_iter().flat_map(|r| r.left).collect();
        if !left.is_empty() {
            return Err(Failure::failed(format!("team {}: still there: {}", store.name(), left.join(", "))));
        }
    }
    let what = format!("team {}, {what}, {} ago", store.name(), age(since));
    Ok(Some((store.state().dir().to_owned(), what)))
}

/// Nobody leads it and none of its members has a process.
fn is_dead(store: &TeamStore) -> bool {
    store.leader().is_none()
        && launch::observe(store).is_ok_and(|members| !members.iter().any(|m| m.life.may_have_process()))
}

/// State of earlier teams whose name was used again.
fn put_aside(store: &Store) -> Vec<Leftover> {
    let Ok(entries) = std::fs::read_dir(store.layout().ended()) else { return Vec::new() };
    let mut dirs: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    dirs.sort();
    let name = |dir: &PathBuf| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    dirs.into_iter().map(|dir| (dir.clone(), format!("earlier team {}", name(&dir)))).collect()
}

/// What a killed process left among our sockets: nobody listens there any more.
fn dead_sockets(store: &Store) -> Vec<Leftover> {
    let Ok(entries) = std::fs::read_dir(&store.layout().runtime_dir) else { return Vec::new() };
    // A launcher is there for the moment of a start only.
    let is_old = |p: &PathBuf| {
        let changed = p.metadata().and_then(|m| m.modified());
        changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LAUNCHER_LIVES))
    };
    let is_dead_launcher = |p: &PathBuf| p.extension().is_some_and(|e| e == "line") && is_old(p);
    let is_dead = |p: &PathBuf| match p.extension().and_then(|e| e.to_str()) {
        Some("ctl" | "wake" | "spawn" | "tmux") => !socket::has_listener(p),
        Some("waiters") => std::fs::read_dir(p)
            .is_ok_and(|mut all| all.all(|e| e.is_ok_and(|e| !socket::has_listener(&e.path())))),
        _ => is_dead_launcher(p),
    };
    let mut sockets: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(is_dead).collect();
    sockets.sort();
    let what = |p: &PathBuf| if is_dead_launcher(p) { "launcher never used" } else { "dead socket" };
    sockets.into_iter().map(|path| (path.clone(), what(&path).to_owned())).collect()
}
