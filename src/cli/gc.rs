//! `throng gc`: removes what ended teams left.

use super::context::Context;
use super::error::Result;
use super::out::age;
use super::stop::GRACE_DEFAULT;
use crate::leader;
use crate::store::{KeepTasks, Store, TeamStore};
use crate::sys::{failed, socket};
use serde_json::json;
use std::path::PathBuf;

/// Remove what ended teams left
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A team whose leader and members are all dead is ended first: strays, panes, shared files.

Example:
  throng gc --dry-run"
)]
pub struct Gc {
    /// Only list it
    #[arg(long)]
    dry_run: bool,
}

/// Removes leftovers.
pub fn gc(verb: &Gc, context: &mut Context) -> Result {
    let mut removed = Vec::new();
    for store in context.store.teams() {
        let Some(manifest) = store.manifest().ok().flatten() else { continue };
        let is_dead = manifest.ended.is_none() && is_dead(&store);
        if !is_dead && manifest.ended.is_none() {
            continue;
        }
        let since = manifest.ended.as_deref().unwrap_or(&manifest.started);
        let what = if is_dead { "crashed" } else { "ended" };
        removed.push((
            store.state().dir().to_owned(),
            format!("team {}, {what}, {} ago", store.name(), age(since)),
        ));
        if is_dead && !verb.dry_run {
            leader::end_team(&store, GRACE_DEFAULT, KeepTasks::No, &context.config.environment)?;
        }
    }
    removed.extend(put_aside(&context.store).into_iter().map(|dir| {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (dir, format!("earlier team {name}"))
    }));
    removed.extend(dead_sockets(&context.store));
    for (path, what) in &removed {
        let remove = if path.is_dir() { std::fs::remove_dir_all } else { std::fs::remove_file };
        if !verb.dry_run {
            remove(path).map_err(failed("remove", path))?;
        }
        if !context.out.json {
            let word = if verb.dry_run { "would remove" } else { "removed" };
            context.out.line(format!("{word} {what}: {}", path.display()))?;
        }
    }
    if context.out.json {
        let list: Vec<_> = removed.iter().map(|(dir, what)| json!({"path": dir, "what": what})).collect();
        return context.out.json(&json!({"dry_run": verb.dry_run, "removed": list}));
    }
    if removed.is_empty() { context.out.line("nothing to remove") } else { Ok(()) }
}

/// Nobody leads it and none of its members lives.
fn is_dead(store: &TeamStore) -> bool {
    store.leader().is_none()
        && crate::launch::observe(store)
            .is_ok_and(|members| !members.iter().any(|m| m.record.is_some() && m.life.is_alive()))
}

fn put_aside(store: &Store) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(store.layout().ended()) else { return Vec::new() };
    let mut dirs: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    dirs.sort();
    dirs
}

/// Sockets of ours that a killed process left: nobody listens there any more.
fn dead_sockets(store: &Store) -> Vec<(PathBuf, String)> {
    let Ok(entries) = std::fs::read_dir(&store.layout().runtime_dir) else { return Vec::new() };
    let mut sockets: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "ctl" || e == "wake" || e == "spawn" || e == "tmux"))
        .filter(|p| !socket::has_listener(p))
        .collect();
    sockets.sort();
    sockets.into_iter().map(|path| (path, "dead socket".to_owned())).collect()
}
