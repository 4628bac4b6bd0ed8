//! Starting a member again (B11): by its `tend` in the same place while that lives, else from its launch file in a new one.

use super::spawn::{
    Failure, READY_STEP, START_STEP, check_caps, check_open, close, error, failed, last_words, reserve,
};
use super::start::{Start, is_starting, ready_within, start};
use super::{SpawnError, control, observe};
use crate::backend::{Backend, Launch};
use crate::config::Config;
use crate::protocol::{AgentName, names};
use crate::store::{LaunchFile, MemberRecord, MemberState, TeamStore};
use crate::sys::process::Process;
use std::time::{Duration, Instant};

/// How long a `tend` that has written its end may take to be gone.
const TEND_LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// What a respawn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Respawned {
    /// Its `tend` ended it and started it again.
    InPlace,
    /// It had ended: it was started anew.
    Anew,
}

/// Starts a member again and returns once it is ready. `grace` is its time to end by itself, if it runs.
///
/// # Errors
/// It was retired, so that its launch file is gone; or it does not start.
pub fn respawn(
    store: &TeamStore,
    agent: &AgentName,
    grace: Duration,
    (backend, config): (&dyn Backend, &Config),
) -> Result<Respawned, SpawnError> {
    let fail = |failure: Failure| {
        let last = last_words(store, agent, failure.0);
        error(store, agent, failure, last)
    };
    let record = store.member_record(agent).map_err(failed("look at it")).map_err(fail)?;
    if let Some(record) = record.filter(|r| Process::from(r.tend).is_alive()) {
        // One that has written its end is about to be gone.
        let is_over = matches!(record.state, MemberState::Exited { .. } | MemberState::Failed);
        if !is_over || !Process::from(record.tend).wait_gone(TEND_LEAVES_WITHIN) {
            return in_place(store, agent, grace, &record).map_err(fail);
        }
    }
    anew(store, agent, (backend, config)).map_err(fail)
}

/// Has its `tend` do it, and waits until it is ready again.
fn in_place(
    store: &TeamStore,
    agent: &AgentName,
    grace: Duration,
    before: &MemberRecord,
) -> Result<Respawned, Failure> {
    control::respawn(store, agent, grace).map_err(failed("ask its tend"))?;
    let begun = Instant::now();
    while begun.elapsed() < grace + ready_within(&before.driver) {
        let record = store.member_record(agent).map_err(failed("look at it"))?;
        if let Some(record) = record.filter(|r| r.restarts > before.restarts) {
            match record.state {
                MemberState::Ready { .. } if is_starting(&record)? => {}
                MemberState::Ready { .. } | MemberState::Exited { .. } => return Ok(Respawned::InPlace),
                MemberState::Failed | MemberState::Restarting { .. } => {
                    return Err((START_STEP, record.note.unwrap_or_default(), false));
                }
                MemberState::Starting => {}
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err((READY_STEP, "nothing came in time".to_owned(), false))
}

/// Starts it from its launch file. A start that fails is undone; row, inbox and launch file stay as they were.
fn anew(
    store: &TeamStore,
    agent: &AgentName,
    (backend, config): (&dyn Backend, &Config),
) -> Result<Respawned, Failure> {
    let manifest = store.manifest().map_err(failed("look at the team"))?;
    let manifest = manifest.ok_or(("look at the team", "its record is gone".to_owned(), false))?;
    let members = observe(store).map_err(failed("look at the team"))?;
    check_caps(store, agent, (&manifest, config), &members)?;
    // Before anything of its last life is put aside.
    let path = store.state().launch(agent);
    if !path.exists() {
        let why = "it was retired, and its launch file with it: spawn it anew".to_owned();
        return Err(("find its launch file", why, false));
    }
    let _spawning = reserve(store, agent)?;
    check_open(store)?;
    let mut file = LaunchFile::read(&path).map_err(failed("read its launch file"))?;
    file.launch = uuid::Uuid::new_v4().to_string();
    file.env.insert("THRONG_LAUNCH".to_owned(), file.launch.clone());
    // The leader may be another by now.
    if file.ends_with.is_some() {
        file.ends_with = store.leader().flatten().map(|leader| leader.process);
    }
    store.write_launch(&file).map_err(failed("write its launch file"))?;
    let team = store.read_team().map_err(failed("read the team file"))?;
    let row = team.member(agent.as_str()).and_then(|row| row.color.clone());
    let color = row.as_deref().unwrap_or(names::color(0));
    let program = &config.environment.program;
    let launch = Launch { program, file: &path, agent, color, token: &file.launch };
    let mut opened = None;
    let started = start(&Start { store, backend, launch: &launch, driver: &file.driver }, |place| {
        opened = Some(place.clone());
    });
    if started.is_err()
        && let Some(place) = opened
        && let Err(e) = close(store, (backend, config), (agent, &file.launch), &place)
    {
        tracing::error!(member = %agent, error = %e, "a failed respawn was not undone");
    }
    started.map(|_| Respawned::Anew)
}
