//! Bare `throng`: what runs, and the next step.

use super::context::Context;
use super::error::Result;
use super::out::age;
use crate::launch;
use crate::store::LeaderMode;
use serde_json::json;

/// Shows all teams.
pub fn overview(context: &mut Context) -> Result {
    let mut rows = Vec::new();
    let mut list = Vec::new();
    for store in context.store.teams() {
        let manifest = store.manifest().ok().flatten();
        let members = launch::observe(&store).unwrap_or_default();
        let alive = members.iter().filter(|m| m.life.may_have_process()).count();
        let state = match &manifest {
            None => "of another program",
            Some(m) if m.ended.is_some() => "ended",
            Some(_) if store.leader().is_some() => "led",
            Some(m) if alive > 0 && m.mode == LeaderMode::Spawn => "running",
            Some(_) if alive > 0 => "without a leader",
            Some(_) => "nobody alive",
        };
        let started = manifest.as_ref().map(|m| m.started.clone());
        let ended = manifest.as_ref().and_then(|m| m.ended.clone());
        let since = ended.as_ref().or(started.as_ref()).map_or(String::new(), |s| age(s));
        rows.push(vec![store.name().to_string(), state.to_owned(), since, format!("{alive} alive")]);
        list.push(json!({"team": store.name(), "state": state, "started": started, "ended": ended, "alive": alive, "members": members.len()}));
    }
    if context.out.json {
        return context.out.json(&json!({"teams": list}));
    }
    if rows.is_empty() {
        context.out.line("no teams yet")?;
        return context.out.line(
            "next: 'throng run FILE' starts one from a team.toml, 'throng spawn NAME --team TEAM -- CMD' without one; \
             'throng doctor' tries this machine out",
        );
    }
    context.out.table(&rows)?;
    context.out.line(
        "next: 'throng status --team NAME'; 'throng down NAME' ends one; 'throng gc' removes ended ones with their results",
    )
}
