//! Spawning a member: proven, or undone step by step (B8).

use super::{Life, control, observe};
use crate::backend::{self, Backend};
use crate::config::Config;
use crate::config::plan::{MemberPlan, Restart, Word};
use crate::driver;
use crate::protocol::{AgentName, Entry, Member, names, timestamp};
use crate::store::{self, LaunchFile, Manifest, MemberState, PlaceRecord, ProcessRecord, TeamStore};
use crate::sys::socket::Waker;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for a member to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Lines of an agent's output that are shown with a failure.
const LAST_LINES: usize = 10;

/// A member that is to be spawned.
pub struct Spawn<'a> {
    /// The team.
    pub store: &'a TeamStore,
    /// How it was started.
    pub manifest: &'a Manifest,
    /// Our own circumstances.
    pub config: &'a Config,
    /// Where it is to live.
    pub backend: &'a dyn Backend,
    /// What it is.
    pub plan: &'a MemberPlan,
    /// Working directory of the team.
    pub cwd: &'a Path,
    /// Leader whose death ends it.
    pub ends_with: Option<ProcessRecord>,
}

/// A spawn that failed and was undone.
#[derive(Debug, thiserror::Error)]
#[error("{member} was not started: {step}: {cause}{last_lines}")]
pub struct SpawnError {
    /// The member.
    pub member: AgentName,
    /// The step that failed.
    pub step: &'static str,
    /// Why.
    pub cause: String,
    /// The agent's last lines, if it printed any, behind a line break.
    pub last_lines: String,
    /// Whether the name is in use.
    pub is_name_taken: bool,
}

/// What has been done so far, to be undone in reverse.
enum Done {
    LaunchFile,
    Row,
    Inbox,
    Place(PlaceRecord),
}

/// Spawns a member and returns once it is ready.
///
/// # Errors
/// Names the failed step; nothing of the member is left then.
pub fn spawn(spawn: &Spawn<'_>) -> Result<PlaceRecord, SpawnError> {
    let launch = uuid::Uuid::new_v4().to_string();
    let mut done = Vec::new();
    let result = steps(spawn, &launch, &mut done);
    result.map_err(|(step, cause, is_name_taken)| {
        let last_lines = last_lines(spawn.store, &spawn.plan.name, LAST_LINES);
        undo(spawn, &launch, done);
        let why = serde_json::json!({"agent": spawn.plan.name, "step": step, "why": cause});
        spawn.store.note("spawn_failed", &why);
        SpawnError { member: spawn.plan.name.clone(), step, cause, last_lines, is_name_taken }
    })
}

type Failure = (&'static str, String, bool);

fn failed<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Failure {
    move |e| (step, e.to_string(), false)
}

fn steps(spawn: &Spawn<'_>, launch: &str, done: &mut Vec<Done>) -> Result<PlaceRecord, Failure> {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    check_caps(spawn)?;
    let prepared = driver::prepare(spawn.plan, spawn.cwd, &spawn.config.environment, &given(spawn, launch))
        .map_err(failed("find its program"))?;
    if store.is_tended(agent) {
        return Err(("take its name", format!("a member '{agent}' runs already"), true));
    }
    let waker =
        Waker::bind(&store.layout().socket(store.name(), agent, "spawn")).map_err(failed("listen for it"))?;
    let cwd = prepared.cwd.to_string_lossy().into_owned();
    let color = add_row(spawn, &cwd, done)?;
    let file = LaunchFile {
        version: 1,
        team: store.name().clone(),
        agent: agent.clone(),
        launch: launch.to_owned(),
        program: prepared.program,
        argv: prepared.argv,
        env: prepared.env,
        cwd: prepared.cwd,
        tty: spawn.plan.tty,
        restart: restart_word(spawn.plan.restart).to_owned(),
        ends_with: spawn.ends_with,
        config_dir: store.layout().config_dir.clone(),
        state_dir: store.layout().state_dir.clone(),
        runtime_dir: store.layout().runtime_dir.clone(),
    };
    forget_earlier(store, agent).map_err(failed("put its earlier run aside"))?;
    let path = store.write_launch(&file).map_err(failed("write its launch file"))?;
    done.push(Done::LaunchFile);
    let mailbox = store.mailbox(agent);
    done.push(Done::Inbox);
    mailbox.create().map_err(failed("make its inbox"))?;
    if let Some(prompt) = &spawn.plan.prompt {
        let id = uuid::Uuid::new_v4().to_string();
        let entry = Entry::new(names::LEAD, prompt, &timestamp::format(SystemTime::now()), &id);
        mailbox.append(&entry).map_err(failed("write its prompt"))?;
    }
    let program = &spawn.config.environment.program;
    let open = backend::Launch { program, file: &path, agent, color, token: launch };
    let place = spawn.backend.open(&open).map_err(failed("open its place"))?;
    done.push(Done::Place(place.clone()));
    if let PlaceRecord::Tmux { pane, .. } = &place {
        set_pane(store, agent, pane).map_err(failed("write its pane down"))?;
    }
    wait_ready(store, agent, launch, &waker)?;
    spawn.backend.dress(&place, &open).map_err(failed("mark its place"))?;
    Ok(place)
}

/// Caps are checked here, since no leader may be running (I7).
fn check_caps(spawn: &Spawn<'_>) -> Result<(), Failure> {
    let members = observe(spawn.store).map_err(failed("look at the team"))?;
    let running =
        |life: &Life| matches!(life, Life::Starting | Life::Ready(_) | Life::Restarting(_) | Life::Unknown);
    let count = members.iter().filter(|m| m.name != spawn.plan.name && running(&m.life)).count();
    let limit = spawn.manifest.limits.agents;
    if count >= limit {
        return Err((
            "keep the limit",
            format!("the team has {count} members and limits.agents is {limit}"),
            false,
        ));
    }
    Ok(())
}

/// What throng tells a member about itself.
fn given(spawn: &Spawn<'_>, launch: &str) -> BTreeMap<String, String> {
    let store = spawn.store;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    BTreeMap::from([
        ("THRONG_TEAM".to_owned(), store.name().to_string()),
        ("THRONG_AGENT".to_owned(), spawn.plan.name.to_string()),
        ("THRONG_DIR".to_owned(), text(&spawn.manifest.dir)),
        ("THRONG_OUT".to_owned(), text(&spawn.manifest.out)),
        ("THRONG_LAUNCH".to_owned(), launch.to_owned()),
        ("THRONG_STATE_DIR".to_owned(), text(&store.layout().state_dir)),
        ("CLAUDE_CONFIG_DIR".to_owned(), text(&store.layout().config_dir)),
        // The driver puts this in front of the member's own.
        ("PATH".to_owned(), text(&store.state().bin())),
    ])
}

/// Reserves the name: the row is the proof. Answers the colour.
fn add_row(spawn: &Spawn<'_>, cwd: &str, done: &mut Vec<Done>) -> Result<&'static str, Failure> {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    let dead = observe(store)
        .map_err(failed("look at the team"))?
        .into_iter()
        .any(|m| m.name == *agent && matches!(m.life, Life::Exited(_) | Life::Failed | Life::Lost(None)));
    let added = store.change_team(|team| {
        if let Some(row) = team.member(agent.as_str())
            && !(dead && row.name == agent.as_str())
        {
            return Err(store::Error::NameTaken { team: store.name().clone(), name: row.name.clone() });
        }
        team.members.retain(|m| m.name != agent.as_str());
        let color = names::color(team.members.len().saturating_sub(1));
        team.members.push(Member {
            agent_id: agent.id(store.name()),
            name: agent.to_string(),
            color: Some(color.to_owned()),
            joined_at: Some(timestamp::millis(SystemTime::now())),
            cwd: Some(cwd.to_owned()),
            backend_type: (spawn.backend.name() == "tmux").then(|| "tmux".to_owned()),
            ..Member::default()
        });
        Ok(color)
    });
    let color = added.map_err(|e| {
        let taken = matches!(e, store::Error::NameTaken { .. });
        ("take its name", e.to_string(), taken)
    })?;
    done.push(Done::Row);
    Ok(color)
}

fn set_pane(store: &TeamStore, agent: &AgentName, pane: &str) -> store::Result<()> {
    store.change_team(|team| {
        if let Some(row) = team.members.iter_mut().find(|m| m.name == agent.as_str()) {
            row.tmux_pane_id = Some(pane.to_owned());
        }
        Ok(())
    })
}

/// An earlier run of this name leaves no file that could be taken for the new one's.
fn forget_earlier(store: &TeamStore, agent: &AgentName) -> crate::sys::Result<()> {
    crate::sys::atomic_file::remove_optional(&store.state().member(agent))?;
    crate::sys::atomic_file::remove_optional(&store.state().screen(agent))
}

/// Waits until `tend` has written that this launch runs.
fn wait_ready(store: &TeamStore, agent: &AgentName, launch: &str, waker: &Waker) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < READY_WITHIN {
        let record = store.member_record(agent).map_err(failed("start it"))?;
        if let Some(record) = record.filter(|r| r.launch == launch) {
            match record.state {
                MemberState::Ready { .. } | MemberState::Exited { .. } | MemberState::Restarting { .. } => {
                    return Ok(());
                }
                MemberState::Failed => return Err(("start it", record.note.unwrap_or_default(), false)),
                MemberState::Starting => {}
            }
        }
        waker.wait(Duration::from_millis(50));
    }
    Err(("wait until it is ready", format!("nothing came within {} s", READY_WITHIN.as_secs()), false))
}

/// Undoes what was done, the last first. What cannot be undone is logged.
fn undo(spawn: &Spawn<'_>, launch: &str, done: Vec<Done>) {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    for step in done.into_iter().rev() {
        let undone = match step {
            Done::Place(place) => {
                // Nobody listens when it is gone already.
                let _ = control::stop(store, agent, Duration::ZERO);
                if let Ok(Some(record)) = store.member_record(agent) {
                    crate::sys::process::Process::from(record.tend).wait_gone(Duration::from_secs(2));
                }
                // A place that was not dressed yet carries no token to be closed by.
                let file = store.state().launch(agent);
                let program = &spawn.config.environment.program;
                let open = backend::Launch { program, file: &file, agent, color: "", token: launch };
                let _ = spawn.backend.dress(&place, &open);
                let closed = spawn.backend.close(&place, launch).map_err(|e| e.to_string());
                closed.and(forget_earlier(store, agent).map_err(|e| e.to_string()))
            }
            Done::Inbox => store.mailbox(agent).remove_if_empty().map_err(|e| e.to_string()),
            Done::Row => store
                .change_team(|team| {
                    team.members.retain(|m| m.name != agent.as_str());
                    Ok(())
                })
                .map_err(|e| e.to_string()),
            Done::LaunchFile => crate::sys::atomic_file::remove_optional(&store.state().launch(agent))
                .map_err(|e| e.to_string()),
        };
        if let Err(e) = undone {
            tracing::error!(member = %agent, error = %e, "a failed spawn was not undone");
        }
    }
}

/// The end of what an agent printed, as text behind a line break; empty if it printed nothing.
fn last_lines(store: &TeamStore, agent: &AgentName, count: usize) -> String {
    let text = std::fs::read(store.state().log(agent)).unwrap_or_default();
    let text = strip_ansi_escapes::strip_str(String::from_utf8_lossy(&text));
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    if last.is_empty() { String::new() } else { format!("\n  {}", last.join("\n  ")) }
}

/// The word of a restart policy.
fn restart_word(restart: Restart) -> &'static str {
    Restart::WORDS.iter().find(|(_, value)| *value == restart).map_or("never", |(word, _)| word)
}
