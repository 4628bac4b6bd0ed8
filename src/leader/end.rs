//! The end of a team: its members ended and verified, its shared files put away, its record closed.

use crate::backend::{self, Wanted};
use crate::config::Environment;
use crate::config::plan::{BackendChoice, Placement};
use crate::launch::{self, Retired};
use crate::protocol::{AgentName, timestamp};
use crate::store::{self, KeepTasks, LeaderMode, TeamStore};
use crate::sys::process::Process;
use crate::sys::{self, fault};
use nix::sys::signal::Signal;
use std::time::{Duration, SystemTime};

/// How often members that come up meanwhile are ended too.
const ROUNDS_MAX: u32 = 5;
/// How much longer than the members' grace a leader may take to end its own team.
const LEADER_TAKES_MAX: Duration = Duration::from_secs(10);

/// Ends every member at once, and those that come up meanwhile.
pub(super) fn retire_all(store: &TeamStore, grace: Duration, environment: &Environment) -> Vec<Retired> {
    let mut all: Vec<Retired> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let is_done =
            |m: &launch::MemberView| all.iter().any(|r| r.name == m.name) && !m.life.may_have_process();
        let names: Vec<AgentName> = launch::observe_all(store)
            .into_iter()
            // A row of another program is not ours to end.
            .filter(|m| m.life != launch::Life::Unknown && !is_done(m))
            .map(|m| m.name)
            .collect();
        if names.is_empty() {
            break;
        }
        all.retain(|r| !names.contains(&r.name));
        all.extend(retire_these(store, &names, grace, environment));
    }
    all
}

/// Ends these members at once.
pub fn retire_these(
    store: &TeamStore,
    names: &[AgentName],
    grace: Duration,
    environment: &Environment,
) -> Vec<Retired> {
    std::thread::scope(|scope| {
        let end = |name| scope.spawn(move || launch::retire(store, name, grace, environment));
        let ends: Vec<_> = names.iter().map(|name| (name, end(name))).collect();
        let outcome = |(name, end): (&AgentName, std::thread::ScopedJoinHandle<'_, _>)| match end.join() {
            Ok(Ok(retired)) => retired,
            Ok(Err(e)) => Some(not_ended(name, &e)),
            Err(_) => None,
        };
        let retired: Vec<Retired> = ends.into_iter().filter_map(outcome).collect();
        // Their rows go in one write.
        let gone: Vec<AgentName> =
            retired.iter().filter(|r| r.left.is_empty()).map(|r| r.name.clone()).collect();
        if let Err(e) = launch::forget(store, &gone) {
            tracing::error!(error = %e, "rows not removed");
        }
        retired
    })
}

fn not_ended(name: &AgentName, error: &store::Error) -> Retired {
    let left = vec![format!("{name}: {error}")];
    Retired { name: name.clone(), how: "not at all", exit: None, refusal: None, left }
}

/// What ending a team came to.
#[derive(Debug, Default)]
pub struct Down {
    /// The members, with what ended them.
    pub retired: Vec<Retired>,
    /// Whether a leader was ended too.
    pub leader: Option<i32>,
}

/// Ends a team from any process: its leader if it lives, its members, its shared files. Files are put away only after the
/// last process is gone.
///
/// # Errors
/// The files'. What could not be ended is in the answer, and then the files stay.
pub fn end_team(
    store: &TeamStore,
    grace: Duration,
    keep_tasks: KeepTasks,
    environment: &Environment,
) -> store::Result<Down> {
    let mut down = Down::default();
    store.begin_end(grace)?;
    let leader = store.leader().flatten();
    if let Some(leader) = leader.as_ref().filter(|l| l.mode == LeaderMode::Run) {
        // It ends its members itself, with this grace, and tells its caller the truth.
        down.leader = Some(leader.process.pid);
        end_leader(leader.process.into(), grace + LEADER_TAKES_MAX);
    }
    down.retired = retire_all(store, grace, environment);
    let is_ended = down.retired.iter().all(|r| r.left.is_empty())
        && !launch::observe_all(store).iter().any(|m| m.life.may_have_process());
    if is_ended {
        close(store, keep_tasks, environment)?;
    } else if down.retired.iter().all(|r| r.left.is_empty()) {
        let left = vec!["members that came up meanwhile: say it again".to_owned()];
        down.retired.push(Retired {
            name: AgentName::lead(),
            how: "not at all",
            exit: None,
            refusal: None,
            left,
        });
    }
    if let Some(leader) = leader.filter(|l| l.mode != LeaderMode::Run) {
        down.leader = Some(leader.process.pid);
        store.poke(&AgentName::lead());
        end_leader(leader.process.into(), LEADER_TAKES_MAX);
    }
    Ok(down)
}

fn end_leader(leader: Process, within: Duration) {
    leader.signal(Signal::SIGTERM);
    // A stopped one takes TERM only once it goes on.
    leader.signal(Signal::SIGCONT);
    if !leader.wait_gone(within) {
        leader.signal(Signal::SIGKILL);
        leader.wait_gone(Duration::from_secs(1));
    }
}

/// Puts the shared files away and closes the record.
///
/// # Errors
/// The file system's.
pub fn close(store: &TeamStore, keep_tasks: KeepTasks, environment: &Environment) -> store::Result<()> {
    let wanted = Wanted {
        choice: BackendChoice::Auto,
        placement: Placement::default(),
        team: store.name(),
        layout: store.layout(),
    };
    backend::leave(&wanted, environment);
    fault::point("end:members");
    if store.exists() {
        store.put_away(keep_tasks)?;
    }
    fault::point("end:files");
    if let Some(mut manifest) = store.manifest()?
        && manifest.ended.is_none()
    {
        manifest.ended = Some(timestamp::format(SystemTime::now()));
        store.write_manifest(&manifest)?;
    }
    // A killed process leaves its socket.
    for name in store.member_records().into_iter().map(|r| r.name).chain([AgentName::lead()]) {
        for kind in ["ctl", "spawn", "wake"] {
            sys::socket::remove_dead(&store.layout().socket(store.name(), &name, kind))?;
        }
        sys::socket::remove_dead(&store.layout().waiters(store.name(), &name))?;
    }
    store.note("team_ended", &serde_json::json!({}));
    Ok(())
}
