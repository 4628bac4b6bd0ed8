//! Spawning a member: proven, or undone step by step (B8).

use super::start::{Start, start};
use super::{Life, MemberView, control, observe, strays, watch};
use crate::backend::{self, Backend};
use crate::config::Config;
use crate::config::plan::{MemberPlan, Word};
use crate::driver::{self, Prepared};
use crate::protocol::{AgentName, Entry, Member, names, timestamp};
use crate::store::{self, LaunchFile, Manifest, MemberState, PlaceRecord, ProcessRecord, TeamStore};
use crate::sys::fault;
use crate::sys::flock::Flock;
use crate::sys::process::{self, Process};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Names of the steps that prove that its program runs.
pub(super) const START_STEP: &str = "start it";
pub(super) const READY_STEP: &str = "wait until it is ready";
/// Lines of an agent's output that are shown with a failure.
const LAST_LINES: usize = 10;

/// How long a `tend` may take to end a launch that failed.
const TEND_TAKES_MAX: Duration = Duration::from_secs(7);
/// Longest wait for other spawns that are just counting.
const COUNTING_TAKES_MAX: Duration = Duration::from_secs(10);
/// Longest wait for those who only look whether the name is reserved.
const RESERVE_WITHIN: Duration = Duration::from_millis(200);

/// This process's threads wait here for each other, which costs nothing, and only one of them polls for the lock.
static COUNTING: Mutex<()> = Mutex::new(());

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
    /// With the ids of the messages that we put into it.
    Inbox(Vec<String>),
    Place(PlaceRecord),
}

/// A step that failed: its name, why, and whether the name is in use.
pub(super) type Failure = (&'static str, String, bool);

/// Names the step of a failure.
pub(super) fn failed<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Failure {
    move |e| (step, e.to_string(), false)
}

/// Spawns a member and returns once it is ready.
///
/// # Errors
/// Names the failed step; nothing of the member is left then.
pub fn spawn(spawn: &Spawn<'_>) -> Result<PlaceRecord, SpawnError> {
    let launch = uuid::Uuid::new_v4().to_string();
    let mut done = Vec::new();
    let result = steps(spawn, &launch, &mut done);
    result.map_err(|failure| {
        let last_lines = last_words(spawn.store, &spawn.plan.name, failure.0);
        undo(spawn, &launch, done);
        error(spawn.store, &spawn.plan.name, failure, last_lines)
    })
}

/// Notes a failed spawn and makes its error.
pub(super) fn error(
    store: &TeamStore,
    agent: &AgentName,
    failure: Failure,
    last_lines: String,
) -> SpawnError {
    let (step, cause, is_name_taken) = failure;
    store.note("spawn_failed", &serde_json::json!({"agent": agent, "step": step, "why": cause}));
    SpawnError { member: agent.clone(), step, cause, last_lines, is_name_taken }
}

fn steps(spawn: &Spawn<'_>, launch: &str, done: &mut Vec<Done>) -> Result<PlaceRecord, Failure> {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    let wanted = driver::Wanted {
        plan: spawn.plan,
        cwd: spawn.cwd,
        environment: &spawn.config.environment,
        given: &given(spawn, launch),
    };
    let prepared = driver::prepare(&wanted).map_err(failed("find its program"))?;
    // Counted and reserved in one step, so that several spawns at once keep the limits too.
    let in_turn = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let counting = Flock::acquire_within(&store.state().counting_lock(), COUNTING_TAKES_MAX)
        .map_err(failed("keep the limits"))?;
    let rows = watch::rows(store).map_err(failed("look at the team"))?;
    let members = match watch::others_at_most(store, &rows, agent) < spawn.manifest.limits.agents {
        // However they are, there is room.
        true => Vec::new(),
        false => observe(store).map_err(failed("look at the team"))?,
    };
    check_caps(store, agent, (spawn.manifest, spawn.config), &members)?;
    let _spawning = reserve(store, agent)?;
    check_open(store)?;
    drop((counting, in_turn));
    let cwd = prepared.cwd.to_string_lossy().into_owned();
    let mut file = launch_file(spawn, launch, prepared);
    done.push(Done::LaunchFile);
    let path = store.write_launch(&file).map_err(failed("write its launch file"))?;
    // The name is reserved, so a row of it that is not of our making is another program's.
    let mine = rows.iter().any(|(name, row)| name == agent && row.joined_at.is_some());
    fault::point("spawn:launch");
    let color = add_row(spawn, &cwd, if mine { Namesake::Ours } else { Namesake::Foreign })?;
    done.push(Done::Row);
    introduce(spawn, &mut file, color)?;
    fault::point("spawn:row");
    first_mail(spawn, done)?;
    fault::point("spawn:inbox");
    let program = &spawn.config.environment.program;
    let open = backend::Launch { program, file: &path, agent, color, token: launch };
    let driver = &spawn.plan.driver;
    start(&Start { store, backend: spawn.backend, launch: &open, driver }, |place| {
        done.push(Done::Place(place.clone()));
    })
}

/// Makes its inbox, with its prompt, and, for one that waits for mail, its tasks that can begin.
fn first_mail(spawn: &Spawn<'_>, done: &mut Vec<Done>) -> Result<(), Failure> {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    let id = uuid::Uuid::new_v4().to_string();
    done.push(Done::Inbox(vec![id.clone()]));
    let mailbox = store.mailbox(agent);
    mailbox.create().map_err(failed("make its inbox"))?;
    if let Some(prompt) = &spawn.plan.prompt {
        let entry = Entry::new(names::LEAD, prompt, &timestamp::format(SystemTime::now()), &id);
        mailbox.append(&entry).map_err(failed("write its prompt"))?;
    }
    if driver::mail_way(&spawn.plan.driver).is_awaited() {
        let told = store.tasks().by(&AgentName::lead()).tell_all_of(agent);
        done.push(Done::Inbox(std::iter::once(id).chain(told).collect()));
    }
    Ok(())
}

/// Takes the name for the time of the spawn, if no member of it lives and nobody else is spawning it. What an earlier
/// member of the name left is put aside.
pub(super) fn reserve(store: &TeamStore, agent: &AgentName) -> Result<Flock, Failure> {
    let taken = |why: &str| ("take its name", format!("a member '{agent}' {why}"), true);
    let lock = match Flock::acquire_within(&store.state().spawn_lock(agent), RESERVE_WITHIN) {
        Err(crate::sys::Error::LockBusy { .. }) => return Err(taken("is being started by another process")),
        lock => lock.map_err(failed("take its name"))?,
    };
    let record = store.member_record(agent).map_err(failed("take its name"))?;
    let lives = record.is_some_and(|r| {
        let orphan = match r.state {
            MemberState::Ready { process } => Process::from(process).is_alive(),
            _ => false,
        };
        orphan || Process::from(r.tend).is_alive()
    });
    if lives || store.is_tended(agent) {
        return Err(taken("runs already"));
    }
    crate::sys::atomic_file::remove_optional(&store.state().member(agent))
        .map_err(failed("take its name"))?;
    crate::sys::atomic_file::remove_optional(&store.state().screen(agent))
        .map_err(failed("take its name"))?;
    Ok(lock)
}

/// A team that is being ended takes nobody in. Looked at after the name is reserved: who ends the team waits for those.
pub(super) fn check_open(store: &TeamStore) -> Result<(), Failure> {
    let manifest = store.manifest().map_err(failed("look at the team"))?;
    match manifest {
        Some(m) if m.ended.is_none() && m.ending_grace_ms.is_none() => Ok(()),
        _ => Err(("look at the team", format!("team '{}' is being ended", store.name()), false)),
    }
}

fn launch_file(spawn: &Spawn<'_>, launch: &str, prepared: Prepared) -> LaunchFile {
    let layout = spawn.store.layout();
    LaunchFile {
        version: 1,
        team: spawn.store.name().clone(),
        agent: spawn.plan.name.clone(),
        launch: launch.to_owned(),
        driver: spawn.plan.driver.clone(),
        mail: driver::mail_way(&spawn.plan.driver),
        prompt: spawn.plan.prompt.clone().filter(|_| driver::sees(&spawn.plan.driver)),
        entry: driver::table::row_of(spawn.plan),
        session: prepared.session,
        program: prepared.program,
        argv: prepared.argv,
        env: prepared.env,
        cwd: prepared.cwd,
        tty: spawn.plan.tty,
        restart: spawn.plan.restart.word().to_owned(),
        ends_with: spawn.ends_with,
        config_dir: layout.config_dir.clone(),
        state_dir: layout.state_dir.clone(),
        runtime_dir: layout.runtime_dir.clone(),
    }
}

/// Tells its program who it is, where the program wants to know.
fn introduce(spawn: &Spawn<'_>, file: &mut LaunchFile, color: &str) -> Result<(), Failure> {
    let Some(session) = &mut file.session else { return Ok(()) };
    let (store, agent) = (spawn.store, &spawn.plan.name);
    let key = store.make_lead_key(agent).map_err(failed("make its key"))?;
    let team = store.read_team().map_err(failed("read the team file"))?;
    let who = driver::Introduction {
        team: store.name(),
        agent,
        color,
        lead_session: team.lead_session_id.as_deref().unwrap_or_default(),
        key: &key.flag(),
        options: &spawn.plan.agent,
    };
    driver::introduce(session, &who);
    store.write_launch(file).map(drop).map_err(failed("write its launch file"))
}

/// Caps are checked here, since no leader may be running (I7).
pub(super) fn check_caps(
    store: &TeamStore,
    agent: &AgentName,
    (manifest, config): (&Manifest, &Config),
    members: &[MemberView],
) -> Result<(), Failure> {
    let limits = &manifest.limits;
    let refuse = |why: String| Err(("keep the limits", why, false));
    let is_led = store.leader().is_some();
    let counts =
        |life: &Life| life.may_have_process() || *life == Life::Unknown || (*life == Life::Planned && is_led);
    let count = members.iter().filter(|m| m.name != *agent && counts(&m.life)).count();
    if count >= limits.agents {
        return refuse(format!("the team has {count} members and limits.agents is {}", limits.agents));
    }
    let depth = depth(config);
    if depth > limits.depth {
        return refuse(format!("it would be {depth} deep and limits.depth is {}", limits.depth));
    }
    match process::available_memory_mb() {
        Some(free) if free < limits.memory_free_mb => refuse(format!(
            "{free} MB of memory are free and limits.memory_free_mb is {}",
            limits.memory_free_mb
        )),
        _ => Ok(()),
    }
}

/// Depth of a member that this process spawns: 1 for the leader's and a person's.
fn depth(config: &Config) -> u32 {
    config
        .environment
        .get("THRONG_DEPTH")
        .and_then(|depth| depth.parse::<u32>().ok())
        .unwrap_or(0)
        .saturating_add(1)
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
        ("THRONG_DEPTH".to_owned(), depth(spawn.config).to_string()),
        ("THRONG_LAUNCH".to_owned(), launch.to_owned()),
        ("THRONG_STATE_DIR".to_owned(), text(&store.layout().state_dir)),
        ("CLAUDE_CONFIG_DIR".to_owned(), text(&store.layout().config_dir)),
        // The driver puts this in front of the member's own.
        ("PATH".to_owned(), text(&store.state().bin())),
    ])
}

/// Whose a row with the member's name would be.
#[derive(Clone, Copy, PartialEq)]
enum Namesake {
    /// That of a dead member of ours: it is replaced.
    Ours,
    /// Another program's: it is left alone.
    Foreign,
}

/// Adds the member's row. Answers its colour.
fn add_row(spawn: &Spawn<'_>, cwd: &str, namesake: Namesake) -> Result<&'static str, Failure> {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    let added = store.change_team(|team| {
        if let Some(row) = team.member(agent.as_str())
            && !(namesake == Namesake::Ours && row.name == agent.as_str())
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
            backend_type: Some(spawn.backend.name()).filter(|name| *name != "process").map(str::to_owned),
            ..Member::default()
        });
        Ok(color)
    });
    added.map_err(|e| ("take its name", e.to_string(), matches!(e, store::Error::NameTaken { .. })))
}

/// Undoes what was done, the last first. What cannot be undone is logged.
fn undo(spawn: &Spawn<'_>, launch: &str, done: Vec<Done>) {
    let (store, agent) = (spawn.store, &spawn.plan.name);
    // Whatever the place said: if `tend` runs, it goes first.
    end_launch(store, agent, launch);
    for step in done.into_iter().rev() {
        let undone = match step {
            Done::Place(place) => close(store, (spawn.backend, spawn.config), (agent, launch), &place),
            Done::Inbox(own) => store.mailbox(agent).take_back(&own).map_err(|e| e.to_string()),
            Done::Row => store
                .change_team(|team| {
                    team.members.retain(|m| m.name != agent.as_str());
                    Ok(())
                })
                .and_then(|()| store.forget_lead_key(agent))
                .map_err(|e| e.to_string()),
            Done::LaunchFile => crate::sys::atomic_file::remove_optional(&store.state().launch(agent))
                .map_err(|e| e.to_string()),
        };
        if let Err(e) = undone {
            tracing::error!(member = %agent, error = %e, "a failed spawn was not undone");
        }
    }
}

/// Ends what runs of a failed launch.
fn end_launch(store: &TeamStore, agent: &AgentName, launch: &str) {
    let record = store.member_record(agent).ok().flatten();
    if let Some(record) = record.filter(|r| r.launch == launch) {
        // Nobody listens when it is gone already.
        let _ = control::stop(store, agent, Duration::ZERO);
        if !Process::from(record.tend).wait_gone(TEND_TAKES_MAX) {
            strays::end(&record);
        }
    }
}

/// Closes the place of a failed launch, after having ended what runs in it.
pub(super) fn close(
    store: &TeamStore,
    (backend, config): (&dyn Backend, &Config),
    (agent, launch): (&AgentName, &str),
    place: &PlaceRecord,
) -> Result<(), String> {
    end_launch(store, agent, launch);
    // A place that was not dressed yet carries no token to be closed by.
    let file = store.state().launch(agent);
    let open = backend::Launch {
        program: &config.environment.program,
        file: &file,
        agent,
        color: "",
        token: launch,
    };
    let _ = backend.dress(place, &open);
    backend.close(place, launch).map_err(|e| e.to_string())?;
    crate::sys::atomic_file::remove_optional(&store.state().member(agent)).map_err(|e| e.to_string())
}

/// What a program that did not start shows or has printed last, as text behind a line break. Another step's failure says
/// all there is to say.
pub(super) fn last_words(store: &TeamStore, agent: &AgentName, step: &str) -> String {
    if !matches!(step, START_STEP | READY_STEP) {
        return String::new();
    }
    // A log of a program that paints is no text; its screen is.
    match control::screen(store, agent) {
        Ok(screen) => last_of(&screen, LAST_LINES),
        Err(_) => last_lines(store, agent, LAST_LINES),
    }
}

/// The end of what an agent printed, as text behind a line break; empty if it printed nothing.
pub fn last_lines(store: &TeamStore, agent: &AgentName, count: usize) -> String {
    let text = std::fs::read(store.state().log(agent)).unwrap_or_default();
    let text = strip_ansi_escapes::strip_str(String::from_utf8_lossy(&text));
    last_of(&text, count)
}

fn last_of(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    if last.is_empty() { String::new() } else { format!("\n  {}", last.join("\n  ")) }
}
