//! `tend`: stands between a place and its agent. It gives the agent a terminal of its own and relays, keeps log and
//! screen, takes in what escapes the agent's group, writes down how the agent ended, starts it again by policy, and ends
//! the whole tree when it is told to, when its place is gone, or when the leader of a `run` has died.
//!
//! One loop over descriptors, which never waits for anything but them; what may have to wait for a lock has a thread of its own.

mod answers;
mod child;
mod desk;
mod ending;
mod feed;
mod feeding;
mod place;
mod post;
mod screen;
mod seen;
mod typed;

use crate::backend;
use crate::protocol::timestamp;
use crate::store::{Exit, LaunchFile, MemberRecord, MemberState, PlaceRecord, Store, TeamStore};
use crate::sys::flock::Flock;
use crate::sys::lock_dir;
use crate::sys::outlet::Outlet;
use crate::sys::process::{self, Process};
use crate::sys::pty::{self, Size};
use child::Child;
use desk::{Desk, Request};
use feeding::Feeding;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use place::Terminal;
use screen::Screen;
use seen::Seeing;
use serde_json::json;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use typed::Typed;

/// Grace of an agent whose place or leader is gone: nobody waits for it.
const GRACE_ALONE: Duration = Duration::from_secs(1);
/// Exit of a program that cannot be executed, as shells have it.
const CANNOT_EXECUTE: Exit = Exit::Code(126);
/// How often a terminal that nobody had open is looked at again: somebody may open it anew.
const REOPENED_EVERY: Duration = Duration::from_millis(200);
/// How often what an ended agent left behind is looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(10);
/// Longest wait for an earlier `tend` of this name to let go of its lock.
const LOCK_WITHIN: Duration = Duration::from_secs(2);

/// How far the agent's life is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// It runs.
    Running,
    /// It was asked to end and is killed then.
    Stopping { kill_at: Instant },
    /// It has ended; what it left behind is killed at the first time and given up at the second.
    Sweeping { kill_at: Instant, give_up_at: Instant },
    /// It is started again then.
    Pausing { until: Instant },
    /// There is nothing left to do.
    Over,
}

struct Tend {
    launch: LaunchFile,
    store: TeamStore,
    record: MemberRecord,
    screen: Screen,
    seeing: Seeing,
    /// What is done for a program of the table of drivers.
    feeding: Option<Feeding>,
    terminal: Option<Terminal>,
    typed: Typed,
    desk: Desk,
    child: Option<Child>,
    phase: Phase,
    /// Why the agent is being ended, once it is.
    ending: Option<&'static str>,
    exit: Exit,
    started: Instant,
    restarts_in_a_row: u32,
    /// The watched leader's end.
    leader: Option<OwnedFd>,
    /// When to look who leads now, the watched one having died.
    look_for_leader_at: Option<Instant>,
    /// Since when nobody leads, as far as was seen.
    leaderless_since: Option<Instant>,
    /// It was told to end, by somebody and not by an event.
    is_asked: bool,
    /// It was asked to end by itself by then.
    expected_until: Option<Instant>,
    /// The thread that writes to it that it was started again.
    telling: Option<JoinHandle<()>>,
    /// It is being ended to be started again.
    is_respawning: bool,
    size: Size,
    term: String,
}

/// Runs the member of `launch` to its end. `place` is where this process lives, `term` the kind of its terminal.
///
/// # Errors
/// The member is tended already; its files cannot be written. That the agent cannot be started is no error here: it is
/// written into the member's file.
pub fn tend(launch: LaunchFile, place: PlaceRecord, term: &str) -> io::Result<()> {
    let store = Store::new(launch.layout(), lock_dir::DEFAULT_BUDGET).team(&launch.team);
    let _lock = Flock::acquire_within(&store.state().member_lock(&launch.agent), LOCK_WITHIN)
        .map_err(io::Error::other)?;
    let signals = signals_to_read()?;
    process::become_subreaper();
    let terminal = Terminal::of_this_process();
    let size = terminal.as_ref().map_or(Size::DEFAULT, Terminal::size);
    let now = timestamp::format(SystemTime::now());
    let leader = launch.ends_with.and_then(|leader| process::end_descriptor(leader.into()));
    let typed = Typed::new(backend::typed_line(&place, store.layout(), &launch.launch));
    let mut tend = Tend {
        typed,
        record: MemberRecord {
            name: launch.agent.clone(),
            launch: launch.launch.clone(),
            tend: Process::current().into(),
            state: MemberState::Starting,
            since: now.clone(),
            started: now,
            restarts: 0,
            place,
            driver: launch.driver.clone(),
            mail: launch.mail,
            sight: None,
            tty: launch.tty,
            restart: launch.restart.clone(),
            command: launch.argv.clone(),
            cwd: launch.cwd.clone(),
            note: None,
        },
        screen: Screen::new(&store.state().log(&launch.agent), size),
        desk: Desk::open(&store.layout().socket(store.name(), &launch.agent, "ctl"))
            .map_err(io::Error::other)?,
        term: if terminal.is_some() { term.to_owned() } else { "xterm-256color".to_owned() },
        terminal,
        seeing: Seeing::default(),
        feeding: Feeding::of(&launch, &store),
        child: None,
        phase: Phase::Running,
        ending: None,
        exit: Exit::Code(0),
        started: Instant::now(),
        restarts_in_a_row: 0,
        leader,
        look_for_leader_at: None,
        leaderless_since: None,
        is_asked: false,
        expected_until: None,
        telling: None,
        is_respawning: false,
        size,
        store,
        launch,
    };
    if tend.launch.ends_with.is_some_and(|leader| !Process::from(leader).is_alive())
        && tend.store.leader().is_none()
    {
        tend.ending = Some("its leader died");
    } else if tend.launch.ends_with.is_some() && tend.leader.is_none() {
        tend.leader_died();
    }
    match tend.ending {
        None => tend.start(),
        Some(why) => tend.give_up(why.to_owned()),
    }
    tend.live(&signals)
}

/// The signals that the loop reads, held back from taking effect.
fn signals_to_read() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    let wanted =
        [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGWINCH];
    wanted.into_iter().for_each(|s| set.add(s));
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

impl Tend {
    /// Starts the agent.
    fn start(&mut self) {
        self.write(MemberState::Starting);
        self.started = Instant::now();
        match Child::start(&self.launch, self.size, &self.term) {
            Ok(child) => {
                let process = child.process.into();
                self.child = Some(child);
                self.phase = Phase::Running;
                self.record.sight = None;
                self.set_state(MemberState::Ready { process });
                self.begin_to_see();
                self.begin_to_feed();
                if self.record.sight.is_none() {
                    self.save();
                    self.note_ready();
                }
            }
            Err(e) => {
                let why = format!("cannot start {}: {e}", self.launch.program.display());
                // Its program may be away for a moment: a restart that fails is a life that failed.
                if self.record.restarts > 0 {
                    self.record.note = Some(why);
                    self.exit = CANNOT_EXECUTE;
                    return self.settle();
                }
                self.give_up(why);
            }
        }
    }

    /// The agent was never started.
    fn give_up(&mut self, why: String) {
        self.record.note = Some(why);
        self.phase = Phase::Over;
        self.write(MemberState::Failed);
        self.store.note("member_failed", &json!({"agent": self.launch.agent, "why": self.record.note}));
    }

    fn note_ready(&self) {
        let pid = self.child.as_ref().map(|child| child.process.pid);
        let about = json!({"agent": self.launch.agent, "pid": pid, "restarts": self.record.restarts});
        self.store.note("member_ready", &about);
    }

    fn set_state(&mut self, state: MemberState) {
        self.record.state = state;
        self.record.since = timestamp::format(SystemTime::now());
    }

    fn write(&mut self, state: MemberState) {
        self.set_state(state);
        self.save();
    }

    /// Writes the member's file and wakes who waits for it.
    fn save(&mut self) {
        if let Err(e) = self.store.write_member_record(&self.record) {
            tracing::error!(error = %e, "state not written");
        }
        crate::sys::socket::poke(&self.store.layout().socket(self.store.name(), &self.launch.agent, "spawn"));
        self.store.poke(&crate::protocol::AgentName::lead());
    }

    /// The member's life.
    fn live(&mut self, signals: &SignalFd) -> io::Result<()> {
        while self.phase != Phase::Over {
            self.turn(signals)?;
        }
        // It must not be cut off in the middle of its write.
        if let Some(Err(_)) = self.telling.take().map(JoinHandle::join) {
            tracing::error!("the thread that tells of a restart has panicked");
        }
        Ok(())
    }

    /// Waits for something to happen and deals with it.
    fn turn(&mut self, signals: &SignalFd) -> io::Result<()> {
        let ready = self.wait(signals)?;
        for signal in std::iter::from_fn(|| signals.read_signal().ok().flatten()) {
            match Signal::try_from(signal.ssi_signo.cast_signed()) {
                Ok(Signal::SIGCHLD) => self.reap(),
                Ok(Signal::SIGWINCH) => self.fit_terminal(),
                Ok(Signal::SIGHUP) => self.place_closed(),
                _ => self.asked_to_end(GRACE_ALONE, "tend was told to end"),
            }
        }
        if ready.leader {
            self.leader_died();
        }
        self.relay_output();
        if ready.typed {
            self.relay_input();
        }
        if ready.desk {
            self.desk.welcome();
        }
        self.serve();
        self.see();
        self.feed();
        self.pass_time();
        Ok(())
    }

    fn wait(&self, signals: &SignalFd) -> io::Result<ReadyFor> {
        let mut fds = vec![
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.desk.as_fd(), PollFlags::POLLIN),
        ];
        let leader = self.leader.as_ref().map(|leader| {
            fds.push(PollFd::new(leader.as_fd(), PollFlags::POLLIN));
            fds.len() - 1
        });
        let typed = self.terminal.as_ref().map(|terminal| {
            // Its output shares the descriptor's device, so waiting to write is waited for here too.
            fds.push(PollFd::new(terminal.as_fd(), in_and_out(&terminal.output)));
            fds.len() - 1
        });
        fds.extend(self.desk.clients.iter().map(|c| PollFd::new(c.as_fd(), in_and_out(&c.output))));
        let printing = self.child.iter().filter(|c| !c.has_closed_output);
        let flags = |c: &Child| c.input.as_ref().map_or(PollFlags::POLLIN, in_and_out);
        fds.extend(printing.map(|c| PollFd::new(c.output.as_fd(), flags(c))));
        // Its bytes are read with the mail.
        fds.extend(
            self.feeding
                .iter()
                .filter_map(Feeding::post)
                .map(|post| PollFd::new(post.as_fd(), PollFlags::POLLIN)),
        );
        let timeout = match self.deadline() {
            Some(at) => at.saturating_duration_since(Instant::now()) + Duration::from_millis(1),
            None => Duration::MAX,
        };
        match poll(&mut fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::NONE)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let is_ready = |i: usize| fds[i].any().unwrap_or(false);
        let readable = |i: usize| fds[i].revents().is_some_and(|r| r.intersects(!PollFlags::POLLOUT));
        Ok(ReadyFor {
            desk: is_ready(1),
            leader: leader.is_some_and(is_ready),
            typed: typed.is_some_and(readable),
        })
    }

    /// When time alone changes something.
    fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Running | Phase::Over => None,
            Phase::Stopping { kill_at } => Some(kill_at),
            Phase::Sweeping { .. } => Some(Instant::now() + SWEEP_EVERY),
            Phase::Pausing { until } => Some(until),
        };
        let reopened = self.child.as_ref().filter(|c| c.has_closed_output && self.launch.tty);
        let reopened = reopened.map(|_| Instant::now() + REOPENED_EVERY);
        let seeing = self.child.as_ref().and_then(|_| self.seeing.due());
        let feeding = self.feeding.as_ref().and_then(|feeding| match (&self.child, self.ending) {
            (Some(_), None) => feeding.due(),
            _ => feeding.end_due(),
        });
        phase.into_iter().chain(self.look_for_leader_at).chain(reopened).chain(seeing).chain(feeding).min()
    }

    /// Takes what the agent printed to log, screen and whoever looks.
    fn relay_output(&mut self) -> Output {
        let Some(child) = &mut self.child else { return Output::Ended };
        let mut bytes = [0; 16 * 1024];
        match child.output.read(&mut bytes) {
            Ok(0) => {
                child.has_closed_output = true;
                Output::Ended
            }
            Ok(n) => {
                child.has_closed_output = false;
                self.desk.show(&bytes[..n]);
                // The agent's own terminal would have put the line ends right.
                let shown = if self.launch.tty { bytes[..n].to_vec() } else { with_line_ends(&bytes[..n]) };
                self.screen.feed(&bytes[..n], &shown);
                if let Some(terminal) = &mut self.terminal {
                    terminal.push(&shown);
                }
                let answers = self.screen.answers();
                // A real terminal answers by itself.
                if self.terminal.is_none() && !self.desk.is_watched() {
                    self.type_in(answers.as_bytes());
                }
                self.has_printed();
                self.is_to_be_fed();
                Output::Some
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Output::None
            }
            // A terminal whose last program has gone answers EIO.
            Err(_) => {
                child.has_closed_output = true;
                Output::Ended
            }
        }
    }

    fn relay_input(&mut self) {
        let Some(terminal) = &mut self.terminal else { return };
        match terminal.read() {
            Some(bytes) => {
                let bytes = self.typed.pass(bytes);
                self.person_typed(&bytes);
                self.type_in(&bytes);
            }
            None => {
                self.terminal = None;
                self.place_closed();
            }
        }
    }

    /// Types into the agent's terminal, which takes it as fast as the agent reads.
    fn type_in(&mut self, bytes: &[u8]) {
        if let Some(input) = self.child.as_mut().and_then(|child| child.input.as_mut()) {
            input.push(bytes);
        }
    }

    fn fit_terminal(&mut self) {
        if let Some(size) = self.terminal.as_ref().map(Terminal::size) {
            self.resize(size);
        }
    }

    fn resize(&mut self, size: Size) {
        self.size = size;
        self.screen.resize(size);
        if let Some(child) = &self.child {
            pty::resize(&child.output, size);
        }
    }

    /// Answers at the control socket.
    fn serve(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.flush();
        }
        if let Some(input) = self.child.as_mut().and_then(|child| child.input.as_mut()) {
            input.flush();
        }
        let mut clients = std::mem::take(&mut self.desk.clients);
        for client in &mut clients {
            client.flush();
            for request in client.requests() {
                match request {
                    Request::Screen => client.answer(&json!({"text": self.screen.text()})),
                    Request::Stop { grace } => {
                        self.asked_to_end(grace, "it was stopped");
                        client.answer(&json!({"stopping": true}));
                    }
                    Request::ExpectEnd { within } => {
                        self.expect_end(within);
                        client.answer(&json!({"expected": true}));
                    }
                    Request::Doing(doing) => client.answer(&self.agent_tells(doing)),
                    Request::Press(_) if !self.launch.tty => client.refuse("this agent has no terminal"),
                    Request::Press(keys) => {
                        self.type_in(&keys);
                        client.answer(&json!({"pressed": true}));
                    }
                    Request::Respawn { .. } if self.ending.is_some() => client.refuse("it is being ended"),
                    Request::Respawn { grace } => {
                        self.respawn(grace);
                        client.answer(&json!({"respawning": true}));
                    }
                    Request::Attach { .. } if !self.launch.tty => {
                        client.is_attached = false;
                        client.refuse("this agent has no terminal");
                    }
                    Request::Attach { size } => {
                        if self.terminal.is_none() {
                            self.resize(size);
                        }
                        client.answer(&json!({"attached": true}));
                        client.push(&self.screen.drawing());
                    }
                    Request::Input(bytes) => {
                        self.person_typed(&bytes);
                        self.type_in(&bytes);
                    }
                    Request::Resize(size) if self.terminal.is_none() => self.resize(size),
                    Request::Resize(_) => {}
                    Request::Unknown => client.refuse("unknown request"),
                }
            }
        }
        self.desk.clients = clients;
        self.desk.sweep();
    }
}

/// Which descriptors have something.
struct ReadyFor {
    desk: bool,
    leader: bool,
    typed: bool,
}

/// What reading the agent's output gave.
#[derive(Debug, PartialEq)]
enum Output {
    Some,
    None,
    Ended,
}

/// What to wait for at a descriptor that is read and, if `outlet` has something left, written.
fn in_and_out(outlet: &Outlet) -> PollFlags {
    if outlet.is_waiting() { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN }
}

/// Line feeds as a raw terminal needs them.
fn with_line_ends(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len() + 16);
    for byte in bytes {
        if *byte == b'\n' {
            all.push(b'\r');
        }
        all.push(*byte);
    }
    all
}
