//! `throng adopt`: a leader for a team whose own has died (B11).

use super::context::Context;
use super::error::{Failure, Result, verdict};
use super::shown::Shown;
use super::up::{hand_over, sign};
use super::{run, spawn};
use crate::leader::{Led, Person, State};
use crate::store::LeaderMode;
use crate::sys::process::Process;
use crate::sys::signals::hold_back;
use nix::sys::signal::Signal;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a killed leader may take to be gone.
const KILL_TAKES_MAX: Duration = Duration::from_secs(2);

/// Lead a team whose leader has died
#[derive(Debug, clap::Args)]
#[command(after_help = "Of two at once, one wins. A frozen leader still leads; --force kills it first.

Example:
  throng adopt --team checks")]
pub struct Adopt {
    /// Kill the present leader first
    #[arg(long)]
    force: bool,
    /// Lead in this process instead of a detached one
    #[arg(long)]
    foreground: bool,
}

/// Adopts a team.
pub fn adopt(verb: &Adopt, context: &mut Context) -> Result {
    let store = context.team()?;
    let manifest = store.manifest()?.filter(|m| m.ended.is_none());
    let gone = || Failure::missing(format!("team '{}' has ended: nobody can lead it", store.name()));
    let mut manifest = manifest.filter(|_| store.exists()).ok_or_else(gone)?;
    let birth = store.hold_birth()?;
    if let Some(leader) = store.leader().flatten().filter(|_| verb.force) {
        let process = Process::from(leader.process);
        process.signal(Signal::SIGKILL);
        process.wait_gone(KILL_TAKES_MAX);
    }
    let Some(lock) = store.lead()? else {
        let who = store
            .leader()
            .flatten()
            .map_or("another process".to_owned(), |l| format!("process {}", l.process.pid));
        let hint = if verb.force { "" } else { "; --force kills it first" };
        return Err(Failure::usage(format!("team '{}' is led by {who}{hint}", store.name())));
    };
    // Whatever it was, it goes on from here like a team that is up.
    manifest.mode = LeaderMode::Up;
    manifest.ending_grace_ms = None;
    store.write_manifest(&manifest)?;
    sign(&store)?;
    store.note("team_adopted", &json!({"by": std::process::id()}));
    drop(birth);
    if !verb.foreground {
        hand_over(&store, &lock, context)?;
    }
    let about = json!({"team": store.name(), "adopted": true, "detached": !verb.foreground});
    let told = match context.out.json {
        true => context.out.json(&about),
        false => context.out.line(format!("team {} has a leader again", store.name())),
    };
    if !verb.foreground {
        return told;
    }
    let backend = spawn::backend_of(&store, &manifest, context);
    let plan = spawn::empty_plan(&store, context);
    let led = Led { store: store.clone(), manifest, plan, config: context.config.clone(), backend };
    let mut shown = Shown::new(&context.config, None);
    let state =
        State::watching(Instant::now()).approving(led.store.name(), &led.manifest.approvals, Person::Asked);
    let outcome = run::lead(Arc::new(led), state, hold_back(), &mut |line| {
        shown.show(line);
    })?;
    drop(lock);
    shown.end(None);
    verdict(&outcome, &store)
}
