//! `throng gc`: removes what ended teams left.

use super::context::Context;
use super::error::Result;
use super::out::age;
use super::stop::GRACE_DEFAULT;
use crate::leader;
use crate::store::{KeepTasks, Store, TeamStore};
use crate::sys::failed;
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
            leader::end_team(&store, GRACE_DEFAULT, KeepTasks::No)?;
        }
    }
    removed.extend(put_aside(&context.store).into_iter().map(|dir| {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (dir, format!("earlier team {name}"))
    }));
    for (dir, what) in &removed {
        if !verb.dry_run {
            std::fs::remove_dir_all(dir).map_err(failed("remove", dir))?;
        }
        if !context.out.json {
            let word = if verb.dry_run { "would remove" } else { "removed" };
            context.out.line(format!("{word} {what}: {}", dir.display()))?;
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
