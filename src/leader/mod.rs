//! One team's life: its birth from a team file, its members and tasks watched, its end. One loop, one closed event enum, one
//! pure step ([`State::on`]); everything that waits runs beside the loop.

mod approvals;
mod birth;
mod end;
mod files;
mod hook;
mod outcome;
mod stall;
mod state;
#[cfg(test)]
mod tests;

pub use approvals::{Answering, Asked, IsOurs, Person, Standing, about, asked};
pub use birth::{BirthError, Home, IsNew, create, find_or_create};
pub use end::{Down, close, end_team, retire_these};
pub use outcome::{Failed, Of, Outcome};
pub use state::{Action, Event, GRACE, NO_HURRY, State, View};

use crate::backend::Backend;
use crate::config::Config;
use crate::config::plan::Plan;
use crate::launch::{self, Spawn};
use crate::protocol::delivery::StateChanges;
use crate::protocol::{AgentName, Entry, approval, timestamp};
use crate::store::{Answer, LeaderMode, Manifest, Seen, TeamStore};
use crate::sys::fault;
use crate::sys::process::Process;
use crate::sys::signals::HeldBack;
use crate::sys::socket::Waker;
use nix::sys::signal::Signal;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Longest time between two looks at the files and the process table.
const POLL: Duration = Duration::from_secs(1);

/// How many times the duration of a look is waited after it: a team that starts changes all the time, and needs the processors.
const LOOK_PAUSES: u32 = 4;

/// How long a zombie must have been there to be an orphan. A thread of ours that has just started a program may not get to
/// its wait for a while on a busy machine.
const ORPHAN_FOR: Duration = Duration::from_secs(5);

/// A team that is led by this process.
pub struct Led {
    /// Its files.
    pub store: TeamStore,
    /// How it was started.
    pub manifest: Manifest,
    /// What is to be spawned and done.
    pub plan: Plan,
    /// Our own circumstances.
    pub config: Config,
    /// Where members live.
    pub backend: Box<dyn Backend>,
}

/// Leads until the team needs no leader any more: a `run` has ended, an `up` is ready, or a led team is gone. `show` gets
/// each new line of the event log; `held_back` are the signals that this thread holds back until they can be dealt with.
///
/// # Errors
/// The wake socket or signals cannot be had.
pub async fn lead(
    led: Arc<Led>,
    mut state: State,
    held_back: HeldBack,
    show: &mut dyn FnMut(&str),
) -> io::Result<Outcome> {
    let socket = led.store.layout().socket(led.store.name(), &AgentName::lead(), "wake");
    let waker = Waker::bind(&socket).map_err(io::Error::other)?;
    let wake = tokio::net::UnixDatagram::from_std(waker.socket()?)?;
    crate::sys::process::become_subreaper();
    let mut signals = Signals::new()?;
    // What came while the team was being made is an event like any other.
    drop(held_back);
    let mut tail = Tail::of(&led.store, state.shows_from());
    let (sender, mut events) = mpsc::unbounded_channel();
    files::wake_on_changes(&led.store, &sender);
    let mut actions = vec![Action::Look];
    let mut looks = Looks::default();
    let mut orphans = Orphans::default();
    let mut changes = StateChanges::default();
    // A hook that is still asked must not hold up the end.
    let is_over = Over::default();
    loop {
        orphans.reap();
        for action in actions {
            match action {
                Action::Done(outcome) => {
                    tail.show(show);
                    return Ok(outcome);
                }
                Action::Look => looks.begin(&led, &sender),
                // A line in a file, in the order of the actions.
                Action::Note(kind, fields) => led.store.note(kind, &fields),
                Action::Deliver(entries) => {
                    fault::point("lead:mail");
                    // What is asked is told with its number.
                    let is_request = |e: &Entry| !approval::requests(std::slice::from_ref(e)).is_empty();
                    for entry in entries.iter().filter(|e| changes.is_news(e) && !is_request(e)) {
                        let about = serde_json::json!({"from": entry.from, "summary": entry.summary, "text": entry.text});
                        led.store.note("lead_mail", &about);
                    }
                    perform(&led, Action::Deliver(entries), &sender);
                }
                Action::AskHook(asked) => ask_hook(&led, *asked, &sender, &is_over),
                Action::RetireAll(grace) => {
                    is_over.set();
                    perform(&led, Action::RetireAll(grace), &sender);
                }
                action => perform(&led, action, &sender),
            }
        }
        let event = tokio::select! {
            Some(event) = events.recv() => event,
            signal = signals.next() => Event::Signal(signal),
            _ = wake.readable() => {
                // Answering "would block" is what makes the next wait wait.
                while wake.try_recv(&mut [0; 16]).is_ok() {}
                Event::Woken
            }
            () = tokio::time::sleep(looks.pause()), if looks.is_put_off() => Event::Woken,
            () = tokio::time::sleep(state.next_look(Instant::now()).min(POLL)) => {
                tracing::debug!("nothing was heard: it looks all the same");
                Event::Woken
            }
        };
        if matches!(event, Event::Seen(_)) {
            looks.ended().await;
        }
        actions = state.on(event, Instant::now());
        if looks.is_due() && !actions.contains(&Action::Look) {
            actions.push(Action::Look);
        }
        tail.show(show);
    }
}

/// Does what may wait, beside the loop, and reports it as an event.
fn perform(led: &Arc<Led>, action: Action, events: &mpsc::UnboundedSender<Event>) {
    let (led, events) = (Arc::clone(led), events.clone());
    tokio::task::spawn_blocking(move || {
        let event = match action {
            Action::Spawn(index) => Some(Event::Spawned(index, spawn(&led, index))),
            Action::FreeTasksOf(agent) => {
                // It may have been started again since that look.
                let lives =
                    launch::observe_one(&led.store, &agent).ok().flatten().is_some_and(|m| m.life.is_alive());
                if !lives && let Err(e) = led.store.tasks().free_tasks_of(&agent) {
                    tracing::error!(%agent, error = %e, "tasks not freed");
                }
                Some(Event::Freed(agent))
            }
            Action::Remind(agent) => {
                led.store.tasks().by(&AgentName::lead()).tell_all_of(&agent);
                led.store.note("member_reminded", &serde_json::json!({"agent": agent}));
                None
            }
            Action::TakeNotice => {
                if let Err(e) = led.store.tasks().by(&AgentName::lead()).take_notice() {
                    tracing::error!(error = %e, "changes of tasks not noticed");
                }
                None
            }
            Action::Deliver(entries) => {
                fault::point("lead:shown");
                let ids: Vec<String> = entries.iter().map(Entry::identity).collect();
                if let Err(e) = led.store.mailbox(&AgentName::lead()).mark_read(&ids) {
                    tracing::error!(error = %e, "mail not marked");
                }
                None
            }
            Action::Answer(answering) => {
                let sent = match led.store.answer(&answering.key, &answering.given) {
                    Ok(Answer::Sent(_)) => Ok(IsOurs::Yes),
                    Ok(Answer::Already(_) | Answer::Forgotten | Answer::Gone) => Ok(IsOurs::No),
                    Err(e) => {
                        tracing::error!(key = answering.key, error = %e, "not answered");
                        Err(())
                    }
                };
                Some(Event::Answered(answering.key, sent))
            }
            Action::RetireAll(grace) => Some(Event::Ended(retire_all(&led, grace))),
            Action::Look | Action::AskHook(_) | Action::Note(..) | Action::Done(_) => None,
        };
        // The loop may be over.
        if let Some(event) = event {
            let _ = events.send(event);
        }
    });
}

/// Set when the team is being ended, or leading is over, whatever way.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Over {
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.set();
    }
}

/// Asks the hook beside the loop, as long as somebody leads.
fn ask_hook(led: &Arc<Led>, asked: Asked, events: &mpsc::UnboundedSender<Event>, over: &Over) {
    let (led, events, over) = (Arc::clone(led), events.clone(), Arc::clone(&over.0));
    tokio::task::spawn_blocking(move || {
        let said = hook::ask_hook(&led, &asked, &|| !over.load(Ordering::SeqCst));
        // The loop may be over.
        let _ = events.send(Event::HookSaid(asked.approval.key, said));
    });
}

/// Ends all members: with this grace, unless who wants the team ended has said another.
fn retire_all(led: &Led, grace: Duration) -> Vec<launch::Retired> {
    let said = led.store.manifest().ok().flatten().and_then(|m| m.ending_grace_ms).map(Duration::from_millis);
    let grace = if grace == NO_HURRY { launch::default_grace(&led.store) } else { grace };
    if said.is_none()
        && let Err(e) = led.store.begin_end(grace)
    {
        tracing::error!(error = %e, "new members are not held off");
    }
    let grace = if grace.is_zero() { grace } else { said.unwrap_or(grace) };
    end::retire_all(&led.store, grace, &led.config.environment)
}

/// Looks beside the loop: one at a time, and not too often; what changes meanwhile may have been missed by one that runs.
#[derive(Default)]
struct Looks {
    running: Option<JoinHandle<(Seen, Duration)>>,
    /// Another is wanted.
    again: bool,
    /// When it may be, at the earliest.
    next: Option<Instant>,
    /// What the leader's inbox was like.
    mail_seen: Seen,
}

impl Looks {
    /// Begins one, or puts it off. It is reported as an event.
    fn begin(&mut self, led: &Arc<Led>, events: &mpsc::UnboundedSender<Event>) {
        self.again = self.running.is_some() || !self.pause().is_zero();
        if self.again {
            return;
        }
        let (led, events, mut mail_seen) =
            (Arc::clone(led), events.clone(), std::mem::take(&mut self.mail_seen));
        self.running = Some(tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let _ = events.send(Event::Seen(look(&led, &mut mail_seen)));
            (mail_seen, begun.elapsed())
        }));
    }

    /// Its event has come.
    async fn ended(&mut self) {
        if let Some(running) = self.running.take() {
            let took;
            (self.mail_seen, took) = running.await.unwrap_or_default();
            self.next = Instant::now().checked_add((took * LOOK_PAUSES).min(POLL));
        }
    }

    /// Time until the next may be.
    fn pause(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether one waits for its time.
    fn is_put_off(&self) -> bool {
        self.again && self.running.is_none()
    }

    /// Whether one has waited and its time has come.
    fn is_due(&self) -> bool {
        self.is_put_off() && self.pause().is_zero()
    }
}

/// What the files and the process table say now; of the leader's mail, what may have come since it was seen last.
fn look(led: &Led, mail_seen: &mut Seen) -> View {
    let seen = launch::observe(&led.store).map_err(|e| tracing::error!(error = %e, "members not seen"));
    let mailbox = led.store.mailbox(&AgentName::lead());
    let mail = match led.manifest.mode {
        LeaderMode::Run if !mail_seen.has_changed(mailbox.path()) => Vec::new(),
        LeaderMode::Run => mailbox.unread().map(|u| u.entries).unwrap_or_else(|e| {
            tracing::error!(error = %e, "mail not read");
            *mail_seen = Seen::default();
            Vec::new()
        }),
        // The leader's mail is for the person, who takes it.
        LeaderMode::Up | LeaderMode::Spawn => Vec::new(),
    };
    // Who asks is not known where no member was seen.
    let asks = |members: &Vec<_>| {
        asked(&led.store, members).map_err(|e| tracing::error!(error = %e, "requests not seen"))
    };
    let asked = seen.as_ref().map_or(Ok(Vec::new()), asks).unwrap_or_default();
    let members = seen.unwrap_or_default();
    // Who waits for an answer of ours does not rest.
    let asks = |m: &launch::MemberView| asked.iter().any(|a| a.is_open() && a.approval.from == m.name);
    let rests = |m: &&launch::MemberView| launch::is_at_rest(&led.store, m) && !asks(m);
    let at_rest = members.iter().filter(rests).map(|m| m.name.clone()).collect();
    View { members, at_rest, tasks: led.store.tasks().list(), mail, asked, is_there: led.store.exists() }
}

fn spawn(led: &Led, index: usize) -> Result<(), launch::SpawnError> {
    let Some(plan) = led.plan.members.get(index) else { return Ok(()) };
    let ends_with = led.manifest.ends_with_leader.then(|| Process::current().into());
    launch::spawn(&Spawn {
        store: &led.store,
        manifest: &led.manifest,
        config: &led.config,
        backend: led.backend.as_ref(),
        plan,
        cwd: &led.plan.cwd,
        ends_with,
    })
    .map(drop)
}

/// What was left to this process as the nearest subreaper: not every init reaps.
#[derive(Default)]
struct Orphans {
    seen: Vec<(Process, Instant)>,
    looked: Option<Instant>,
}

impl Orphans {
    /// Reaps the zombies that have been there for long: a call of a program waits for its own sooner.
    fn reap(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < POLL) {
            return;
        }
        self.looked = Some(Instant::now());
        let now = Instant::now();
        let since =
            |zombie: &Process| self.seen.iter().find(|(seen, _)| seen == zombie).map_or(now, |(_, at)| *at);
        self.seen = Process::zombies_of_ours().into_iter().map(|zombie| (zombie, since(&zombie))).collect();
        let old = self.seen.iter().filter(|(_, since)| now.duration_since(*since) >= ORPHAN_FOR);
        old.for_each(|(zombie, _)| zombie.reap());
    }
}

/// The signals that end a leader.
struct Signals {
    int: tokio::signal::unix::Signal,
    term: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.int.recv() => Signal::SIGINT,
            _ = self.term.recv() => Signal::SIGTERM,
            _ = self.hup.recv() => Signal::SIGHUP,
        }
    }
}

/// The new lines of the event log, whoever wrote them.
struct Tail {
    path: std::path::PathBuf,
    offset: u64,
    rest: Vec<u8>,
}

impl Tail {
    /// From the log's beginning, if this process made the team; else from its present end.
    fn of(store: &TeamStore, from: ShowFrom) -> Tail {
        let path = store.events().path().to_owned();
        let offset = match from {
            ShowFrom::Beginning => 0,
            ShowFrom::Now => std::fs::metadata(&path).map_or(0, |m| m.len()),
        };
        Tail { path, offset, rest: Vec::new() }
    }

    fn show(&mut self, show: &mut dyn FnMut(&str)) {
        let mut read = || {
            let mut file = std::fs::File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_end(&mut self.rest)
        };
        self.offset += read().unwrap_or(0) as u64;
        let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        for line in self.rest[..whole].split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            show(&String::from_utf8_lossy(line));
        }
        self.rest.drain(..whole);
    }
}

/// From where the event log is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowFrom {
    /// All of it: this process made the team.
    Beginning,
    /// What comes from here on.
    Now,
}

/// Stamp for names of what is put aside.
fn stamp() -> String {
    timestamp::millis(SystemTime::now()).to_string()
}
