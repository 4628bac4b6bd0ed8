//! `throng lead`: the hidden, detached leader of a team that is up.

use super::context::Context;
use super::error::{Failure, Result, verdict};
use super::run::lead as lead_on;
use super::up::sign;
use super::{logging, spawn};
use crate::leader::{Led, Person, State};
use crate::sys::flock::Flock;
use crate::sys::run::take_inherited;
use crate::sys::signals::hold_back;
use std::sync::Arc;
use std::time::Instant;

/// Lead a team that is there
#[derive(Debug, clap::Args)]
pub struct Lead {
    /// Descriptor of the leader's lock, inherited
    #[arg(long)]
    lock: i32,
}

/// Leads until the team is gone.
pub fn lead(verb: &Lead, context: &mut Context) -> Result {
    let store = context.team()?;
    logging::for_leader(&context.config, &store)?;
    let lock = take_inherited(verb.lock).map(Flock::from_inherited);
    let lock = lock.ok_or_else(|| Failure::usage("throng lead is started by throng up alone"))?;
    sign(&store)?;
    let manifest = store.manifest()?.ok_or_else(|| Failure::missing("the team's record is gone"))?;
    let plan = spawn::empty_plan(&store, context);
    let backend = spawn::backend_of(&store, &manifest, context);
    let led = Led { store: store.clone(), manifest, plan, config: context.config.clone(), backend };
    let state =
        State::watching(Instant::now()).approving(led.store.name(), &led.manifest.approvals, Person::Asked);
    let outcome = lead_on(Arc::new(led), state, hold_back(), &mut |_| {})?;
    drop(lock);
    verdict(&outcome, &store)
}
