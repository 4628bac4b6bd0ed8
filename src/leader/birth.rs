//! Making a team: its files, its tasks, our record of it. What an earlier team of the name left is put aside, never lost.

use super::stamp;
use crate::backend::Backend;
use crate::config::plan::{LeaderDeath, Plan, Word};
use crate::launch;
use crate::protocol::{AgentName, Team, TeamName, timestamp};
use crate::store::{self, KeepTasks, LeaderMode, LimitsRecord, Manifest, NewTask, TeamStore};
use crate::sys::flock::Flock;
use crate::sys::{self, atomic_file, fault};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for members of a dead leader that end by themselves.
const ENDING_TAKES_MAX: Duration = Duration::from_secs(5);

/// Why a team cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BirthError {
    /// A team of this name lives.
    #[error(
        "team '{team}' is alive: {who}; see 'throng status --team {team}', end it with 'throng down {team}'"
    )]
    Alive {
        /// The team.
        team: TeamName,
        /// Its leader or its members.
        who: String,
    },
    /// A team of this name was made by another program.
    #[error("team '{team}' belongs to another program: it is in {path} and throng did not make it")]
    Foreign {
        /// The team.
        team: TeamName,
        /// Its folder.
        path: String,
    },
    /// Files.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The operating system.
    #[error(transparent)]
    Sys(#[from] sys::Error),
}

/// Where a team lives.
pub struct Home<'a> {
    /// Its members' places.
    pub backend: &'a dyn Backend,
    /// Where its products go, if not among our state.
    pub out: Option<PathBuf>,
    /// Our program, for the members' `PATH`.
    pub program: &'a Path,
}

/// Makes the team of a plan. Answers the leader's lock, which is ours from here on, and the record.
///
/// # Errors
/// [`BirthError`]; nothing of the new team is left then.
pub fn create(
    store: &TeamStore,
    plan: &Plan,
    mode: LeaderMode,
    home: Home<'_>,
) -> Result<(Flock, Manifest), BirthError> {
    // Of two at once, one makes the team and the other finds it alive.
    let _birth = store.hold_birth()?;
    make(store, plan, mode, home)
}

/// The team that is there, or a new one that nobody leads: of several that want a team of this name at once, one makes it
/// and the others find it. Answers whether it is new.
///
/// # Errors
/// [`BirthError`]; nothing of the new team is left then.
pub fn find_or_create(
    store: &TeamStore,
    plan: &Plan,
    home: Home<'_>,
) -> Result<(Manifest, IsNew), BirthError> {
    let _birth = store.hold_birth()?;
    if store.exists()
        && let Some(manifest) = store.manifest()?.filter(|m| m.ended.is_none() && m.ending_grace_ms.is_none())
    {
        return Ok((manifest, IsNew::No));
    }
    let (_lock, manifest) = make(store, plan, LeaderMode::Spawn, home)?;
    Ok((manifest, IsNew::Yes))
}

/// Whether a team was made just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsNew {
    /// By us.
    Yes,
    /// It was there.
    No,
}

/// Makes a team; the births of its name are held off.
fn make(
    store: &TeamStore,
    plan: &Plan,
    mode: LeaderMode,
    home: Home<'_>,
) -> Result<(Flock, Manifest), BirthError> {
    make_room(store)?;
    let alive = |who: String| BirthError::Alive { team: store.name().clone(), who };
    let Some(lock) = store.lead()? else { return Err(alive("another process leads it".to_owned())) };
    let now = SystemTime::now();
    let manifest = Manifest {
        version: 1,
        config_dir: store.layout().config_dir.clone(),
        mode,
        started: timestamp::format(now),
        ended: None,
        ending_grace_ms: None,
        runtime_dir: store.layout().runtime_dir.clone(),
        dir: plan.dir.clone(),
        out: home.out.unwrap_or_else(|| store.state().out()),
        planned: plan.members.iter().map(|m| m.name.clone()).collect(),
        ends_with_leader: mode == LeaderMode::Run
            || (mode == LeaderMode::Up && plan.on_leader_death == LeaderDeath::Stop),
        limits: LimitsRecord {
            agents: plan.limits.agents,
            depth: plan.limits.depth,
            memory_free_mb: plan.limits.memory_free_mb,
        },
        approvals: plan.approvals.clone(),
        drivers: plan.drivers.clone(),
        home: home.backend.home(),
        placement: plan.placement.word().to_owned(),
    };
    let session = uuid::Uuid::new_v4().to_string();
    let team = Team::new(store.name(), &session, timestamp::millis(now), &plan.cwd.to_string_lossy());
    let had_tasks = store.layout().tasks(store.name()).exists();
    let made = fill(store, plan, &manifest, &team).and_then(|()| Ok(link_program(store, home.program)?));
    if let Err(BirthError::Store(store::Error::TeamExists(_))) = made {
        // Another program was faster: what it made is its own.
        let _ = std::fs::remove_dir_all(store.state().dir());
        return Err(BirthError::Foreign {
            path: store.layout().team(store.name()).display().to_string(),
            team: store.name().clone(),
        });
    }
    if let Err(e) = made {
        unmake(store, if had_tasks { KeepTasks::Yes } else { KeepTasks::No });
        return Err(e);
    }
    Ok((lock, manifest))
}

fn fill(store: &TeamStore, plan: &Plan, manifest: &Manifest, team: &Team) -> Result<(), BirthError> {
    store.create_state()?;
    atomic_file::make_private_dir(&manifest.out)?;
    fault::point("birth:state");
    store.write_manifest(manifest)?;
    fault::point("birth:manifest");
    store.write_leader(manifest.mode, &manifest.started)?;
    store.create_team(team)?;
    fault::point("birth:team");
    store.mailbox(&AgentName::lead()).create()?;
    // Tasks that were kept are taken as they are.
    let kept = store.tasks().list();
    let is_kept = |key: &str| kept.iter().any(|t| t.is_called(key));
    for task in plan.tasks.iter().filter(|t| !is_kept(&t.key)) {
        store.tasks().add(&NewTask {
            subject: task.subject.clone(),
            description: task.description.clone(),
            owner: task.owner.clone(),
            blocked_by: Vec::new(),
            key: Some(task.key.clone()),
        })?;
    }
    // Blockers may stand further down in the file.
    for task in plan.tasks.iter().filter(|t| !is_kept(&t.key)) {
        for blocker in &task.blocked_by {
            store.tasks().block(&task.key, blocker)?;
        }
    }
    Ok(())
}

/// Links our program into the folder that members have on their `PATH`.
fn link_program(store: &TeamStore, program: &Path) -> sys::Result<()> {
    let bin = store.state().bin();
    atomic_file::make_private_dir(&bin)?;
    let link = bin.join("throng");
    atomic_file::remove_optional(&link)?;
    std::os::unix::fs::symlink(program, &link).map_err(sys::failed("link", &link))
}

/// Removes the files of a team that could not be made whole.
fn unmake(store: &TeamStore, keep_tasks: KeepTasks) {
    let tasks = (keep_tasks == KeepTasks::No).then(|| store.layout().tasks(store.name()));
    for dir in [store.layout().team(store.name()), store.state().dir().to_owned()].into_iter().chain(tasks) {
        if let Err(e) = std::fs::remove_dir_all(&dir)
            && e.kind() != std::io::ErrorKind::NotFound
        {
            tracing::error!(dir = %dir.display(), error = %e, "not removed");
        }
    }
}

/// Makes sure that nobody lives under the name, and puts the files of a dead team aside.
fn make_room(store: &TeamStore) -> Result<(), BirthError> {
    let team = store.name().clone();
    if let Some(leader) = store.leader() {
        let who = leader.map_or("its leader is starting".to_owned(), |l| {
            format!("led by process {} since {}", l.process.pid, l.since)
        });
        return Err(BirthError::Alive { team, who });
    }
    let manifest = match store.manifest() {
        // An ended team's record that we cannot read is put aside with the rest.
        Err(store::Error::Damaged { path, why }) if !store.exists() => {
            tracing::warn!(path = %path.display(), why, "record of an earlier team");
            None
        }
        manifest => manifest?,
    };
    // A folder without a team file is somebody's too: mail may wait in it.
    if manifest.is_none() && store.layout().team(&team).exists() {
        return Err(BirthError::Foreign { path: store.layout().team(&team).display().to_string(), team });
    }
    if let Some(manifest) = &manifest
        && manifest.config_dir != store.layout().config_dir
        && manifest.ended.is_none()
    {
        return Err(BirthError::Foreign { path: manifest.config_dir.display().to_string(), team });
    }
    // Members that end with their leader may be just about it.
    let ends_by_itself = manifest.is_some_and(|m| m.ends_with_leader);
    let begun = Instant::now();
    loop {
        let members = launch::observe_all(store);
        let living: Vec<&str> =
            members.iter().filter(|m| m.life.may_have_process()).map(|m| m.name.as_str()).collect();
        if living.is_empty() {
            break;
        }
        if !ends_by_itself || begun.elapsed() > ENDING_TAKES_MAX {
            let who = format!("{} still running, without a leader", living.join(", "));
            return Err(BirthError::Alive { team, who });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if store.exists() {
        tracing::info!(%team, "the files of an earlier team of this name are put aside");
        store.put_away(KeepTasks::No)?;
    }
    Ok(store.put_state_aside(&stamp())?)
}
