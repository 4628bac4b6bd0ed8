//! Starting a member again (B11): by its `tend` in the same place while that lives, else from its launch file in a new one.

use super::spawn::{error, failed, last_lines, reserve};
use super::start::{Start, start};
use super::{SpawnError, control};
use crate::backend::{Backend, Launch};
use crate::config::Config;
use crate::protocol::{AgentName, names};
use crate::store::{LaunchFile, TeamStore};
use crate::sys::process::Process;
use std::time::Duration;

/// Lines of an agent's output that are shown with a failure.
const LAST_LINES: usize = 10;

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
    let fail = |failure| error(store, agent, failure, last_lines(store, agent, LAST_LINES));
    let record = store.member_record(agent).map_err(failed("look at it")).map_err(fail)?;
    if record.is_some_and(|r| Process::from(r.tend).is_alive()) {
        control::respawn(store, agent, grace).map_err(failed("ask its tend")).map_err(fail)?;
        return Ok(Respawned::InPlace);
    }
    let steps = || {
        let path = store.state().launch(agent);
        if !path.exists() {
            let why = "it was retired, and its launch file with it: spawn it anew".to_owned();
            return Err(("find its launch file", why, false));
        }
        let mut file = LaunchFile::read(&path).map_err(failed("read its launch file"))?;
        let _spawning = reserve(store, agent)?;
        file.launch = uuid::Uuid::new_v4().to_string();
        file.env.insert("THRONG_LAUNCH".to_owned(), file.launch.clone());
        // A run's leader may be another by now.
        if file.ends_with.is_some() {
            file.ends_with = store.leader().flatten().map(|leader| leader.process);
        }
        store.write_launch(&file).map_err(failed("write its launch file"))?;
        let team = store.read_team().map_err(failed("read the team file"))?;
        let row = team.member(agent.as_str()).and_then(|row| row.color.clone());
        let color = row.as_deref().unwrap_or(names::color(0));
        let program = &config.environment.program;
        let launch = Launch { program, file: &path, agent, color, token: &file.launch };
        start(&Start { store, backend, launch: &launch }, |_| {})
    };
    steps().map(|_| Respawned::Anew).map_err(fail)
}
