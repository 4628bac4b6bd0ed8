//! The leader's state and its one pure step.

use super::ShowFrom;
use super::approvals::{Answering, Approver, Asked, IsOurs, Person};
use super::outcome::{Failed, MODEL_FAILED, Of, Outcome, failed_member, is_ours};
use super::stall::stall;
use crate::config::approvals::Policy;
use crate::config::plan::{Plan, Restart};
use crate::hooks::Said;
use crate::launch::{self, Life, MemberView, Retired, SpawnError};
use crate::protocol::task::open_blockers;
use crate::protocol::{AgentName, Body, Entry, Task, TeamName};
use crate::store::{Doing, LeaderMode};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a team that cannot get anywhere, but has members alive, must have been still to count as stalled: a member
/// may be about to give its task up.
const STILL_FOR: Duration = Duration::from_secs(2);
/// The same if members are at rest: their programs take their mail some time before they show that they work on it.
const REST_FOR: Duration = Duration::from_secs(4);
/// Grace of members when a run ends.
pub const GRACE: Duration = launch::GRACE;
/// The grace of an end that nobody waits for: the usual one of each team's members.
pub const NO_HURRY: Duration = Duration::MAX;

/// What the files and the process table say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Members as they are.
    pub members: Vec<MemberView>,
    /// All tasks.
    pub tasks: Vec<Task>,
    /// Those of them that wait for mail, have none, and do nothing.
    pub at_rest: HashSet<AgentName>,
    /// Unread mail of the leader.
    pub mail: Vec<Entry>,
    /// What members ask.
    pub asked: Vec<Asked>,
    /// Whether the team's files are there.
    pub is_there: bool,
}

/// What can happen to a leader.
#[derive(Debug)]
pub enum Event {
    /// Something may have changed, or time has passed.
    Woken,
    /// A look at the files and the process table.
    Seen(View),
    /// The spawn of the n-th planned member is over.
    Spawned(usize, Result<(), SpawnError>),
    /// A signal came.
    Signal(Signal),
    /// The tasks of a dead member have been freed, or could not be.
    Freed(AgentName),
    /// What the hook did that was asked about a request.
    HookSaid(String, Said),
    /// A request's answer was sent, or could not be.
    Answered(String, Result<IsOurs, ()>),
    /// All members have been retired.
    Ended(Vec<Retired>),
}

/// What a leader wants done.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Look at the files and the process table.
    Look,
    /// Spawn the n-th planned member.
    Spawn(usize),
    /// Another program may have changed tasks: write it down, tell whom it concerns.
    TakeNotice,
    /// Remind a member at rest of its tasks.
    Remind(AgentName),
    /// Free the tasks of a member that is gone for good.
    FreeTasksOf(AgentName),
    /// The leader's mail has been seen: show it, then mark it read.
    Deliver(Vec<Entry>),
    /// Ask the hook about a request.
    AskHook(Box<Asked>),
    /// Answer a request.
    Answer(Box<Answering>),
    /// Note an event.
    Note(&'static str, Value),
    /// End every member, with this grace.
    RetireAll(Duration),
    /// Leading is over.
    Done(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Members are started and work.
    Working,
    /// Members are being ended.
    Ending,
    /// They have ended: one last look at their mail.
    Last,
}

/// What a leader is there for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    /// Starts a team and ends it when its work is over.
    Run,
    /// Starts a team, until all are ready.
    Start,
    /// Watches a team, until it is gone.
    Watch,
}

/// A leader's state.
#[derive(Debug)]
pub struct State {
    role: Role,
    restarts: Vec<(AgentName, Restart)>,
    /// Planned members that were not begun, in order.
    to_spawn: VecDeque<usize>,
    spawning: HashSet<usize>,
    pause: Duration,
    next_spawn: Instant,
    timeout: Option<(Duration, Instant)>,
    phase: Phase,
    /// Who answers what members ask; `None`: not this leader.
    approver: Option<Approver>,
    /// Dead members whose tasks are being freed.
    freeing: HashSet<AgentName>,
    /// Members that were reminded of their tasks, with these.
    reminded: HashSet<(AgentName, Vec<String>)>,
    /// Members whose last turn failed, and why.
    failed_turns: BTreeMap<String, String>,
    /// Identities of the leader's mail that was shown.
    shown: HashSet<String>,
    last: View,
    /// Tasks differ from those of the look before.
    changed_tasks: bool,
    still_since: Instant,
    outcome: Outcome,
    signals: u32,
}

impl State {
    /// A leader that is to start a team; `timeout` ends a `run`.
    pub fn starting(plan: &Plan, mode: LeaderMode, timeout: Option<Duration>, now: Instant) -> State {
        let rate = plan.limits.start_rate_per_s;
        State {
            role: if mode == LeaderMode::Run { Role::Run } else { Role::Start },
            restarts: plan.members.iter().map(|m| (m.name.clone(), m.restart)).collect(),
            to_spawn: (0..plan.members.len()).collect(),
            pause: rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate)),
            timeout: timeout.and_then(|t| Some((t, now.checked_add(t)?))),
            ..State::watching(now)
        }
    }

    /// A leader of a team that is there: it watches.
    pub fn watching(now: Instant) -> State {
        State {
            role: Role::Watch,
            restarts: Vec::new(),
            to_spawn: VecDeque::new(),
            spawning: HashSet::new(),
            pause: Duration::ZERO,
            next_spawn: now,
            timeout: None,
            phase: Phase::Working,
            approver: None,
            freeing: HashSet::new(),
            reminded: HashSet::new(),
            failed_turns: BTreeMap::new(),
            shown: HashSet::new(),
            last: View::default(),
            changed_tasks: false,
            still_since: now,
            outcome: Outcome::default(),
            signals: 0,
        }
    }

    /// This leader answers what members ask, by this policy.
    #[must_use]
    pub fn approving(self, team: &TeamName, policy: &Policy, person: Person) -> State {
        State { approver: Some(Approver::new(team.clone(), policy.clone(), person)), ..self }
    }

    /// From where on the event log is this leader's to show.
    pub(super) fn shows_from(&self) -> ShowFrom {
        if self.role == Role::Watch { ShowFrom::Now } else { ShowFrom::Beginning }
    }

    /// Takes an event and answers what is to be done.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Signal(signal) => return self.on_signal(signal),
            Event::Ended(retired) => {
                self.judge_ends(&retired);
                self.outcome.left.extend(retired.iter().flat_map(|r| r.left.clone()));
                // Their last words may wait in the leader's inbox.
                self.phase = Phase::Last;
                return vec![Action::Look];
            }
            Event::Freed(agent) => {
                self.freeing.remove(&agent);
                return Vec::new();
            }
            Event::HookSaid(key, said) if self.is_answering() => {
                return self.approver.as_mut().map_or(Vec::new(), |approver| approver.on_hook(&key, said));
            }
            Event::HookSaid(..) => return Vec::new(),
            Event::Answered(key, sent) => {
                if let Some(approver) = &mut self.approver {
                    approver.on_answered(&key, sent, now);
                }
                return Vec::new();
            }
            Event::Woken if self.phase != Phase::Working => return Vec::new(),
            Event::Woken => return vec![Action::Look],
            Event::Spawned(index, result) => {
                self.spawning.remove(&index);
                if let Err(e) = result {
                    self.outcome.not_started.get_or_insert(e.to_string());
                }
            }
            Event::Seen(mut view) => {
                // What was shown and is not marked yet comes again.
                view.mail.retain(|entry| self.shown.insert(entry.identity()));
                view.mail.iter().for_each(|entry| self.hear_of_turn(entry));
                // Whom only a person can help stays as it is where there is none.
                view.at_rest.extend(self.helpless(&view.members).map(|(m, _)| m.name.clone()));
                if view.members != self.last.members
                    || view.tasks != self.last.tasks
                    || view.at_rest != self.last.at_rest
                    || !view.mail.is_empty()
                {
                    self.still_since = now;
                }
                self.changed_tasks |= view.tasks != self.last.tasks;
                let asked = std::mem::take(&mut view.asked);
                self.last = view;
                if self.is_answering()
                    && let Some(approver) = &mut self.approver
                {
                    actions = approver.on_seen(asked, now);
                }
            }
        }
        match self.phase {
            Phase::Working => actions.extend(self.go_on(now)),
            Phase::Ending => {}
            Phase::Last => {
                let mail = std::mem::take(&mut self.last.mail);
                actions.extend((!mail.is_empty()).then_some(Action::Deliver(mail)));
                let approver = self.approver.iter().flat_map(Approver::unanswered);
                let new: Vec<String> =
                    approver.filter(|what| !self.outcome.unanswered.contains(what)).collect();
                self.outcome.unanswered.extend(new);
                actions.push(Action::Done(self.outcome.clone()));
            }
        }
        actions
    }

    /// Whether requests are answered still: not by a leader that ends its team.
    fn is_answering(&self) -> bool {
        self.phase == Phase::Working && self.signals == 0
    }

    /// Longest time until something may become due without an event.
    pub fn next_look(&self, now: Instant) -> Duration {
        // What is due already was dealt with; only what will become due counts.
        if self.phase != Phase::Working || self.signals > 0 {
            return Duration::MAX;
        }
        let is_starting = !self.to_spawn.is_empty() || !self.spawning.is_empty();
        let spawn = (!self.to_spawn.is_empty()).then_some(self.next_spawn);
        let is_still = self.role == Role::Run && !is_starting && stall(&self.last).is_some();
        let still = is_still.then_some(self.still_since + STILL_FOR);
        let is_resting = self.role == Role::Run && !is_starting && !self.last.at_rest.is_empty();
        let rest = is_resting.then_some(self.still_since + REST_FOR).filter(|at| *at > now);
        let timeout = self.timeout.map(|(_, at)| at).filter(|_| self.spawning.is_empty());
        let next = [spawn, still, rest, timeout].into_iter().flatten().min();
        next.map_or(Duration::MAX, |at| at.saturating_duration_since(now)).max(Duration::from_millis(1))
    }

    fn on_signal(&mut self, signal: Signal) -> Vec<Action> {
        self.signals += 1;
        self.outcome.signal.get_or_insert(signal);
        match (self.role, self.phase) {
            // A team that is up goes on without its leader.
            (Role::Watch, Phase::Working) => vec![Action::Done(self.outcome.clone())],
            (_, Phase::Working) => {
                self.to_spawn.clear();
                self.end_by_signal()
            }
            // The second signal skips the grace: `tend` takes a second request so.
            (_, Phase::Ending) => vec![Action::RetireAll(Duration::ZERO)],
            (_, Phase::Last) => Vec::new(),
        }
    }

    /// Spawns that run are waited for, so that nothing of them is missed when all is ended.
    fn end_by_signal(&mut self) -> Vec<Action> {
        if !self.spawning.is_empty() {
            return Vec::new();
        }
        let name = self.outcome.signal.map_or("a signal", Signal::as_str);
        self.end(
            &format!("{name} came; a second one skips the grace"),
            if self.signals > 1 { Duration::ZERO } else { GRACE },
        )
    }

    fn end(&mut self, why: &str, grace: Duration) -> Vec<Action> {
        self.phase = Phase::Ending;
        vec![Action::Note("team_ending", json!({"why": why})), Action::RetireAll(grace)]
    }

    fn go_on(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if std::mem::take(&mut self.changed_tasks) {
            actions.push(Action::TakeNotice);
        }
        if !self.last.mail.is_empty() {
            actions.push(Action::Deliver(std::mem::take(&mut self.last.mail)));
        }
        // Spawns that run are waited for, so that nothing of them is missed when all is ended.
        if self.signals > 0 {
            actions.extend(self.end_by_signal());
            return actions;
        }
        if let Some(why) = self.outcome.not_started.clone() {
            self.to_spawn.clear();
            if self.spawning.is_empty() {
                actions.extend(self.end(&why, Duration::ZERO));
            }
            return actions;
        }
        if let Some((limit, at)) = self.timeout
            && now >= at
        {
            self.to_spawn.clear();
            if self.spawning.is_empty() {
                self.outcome.timed_out = Some(limit);
                self.judge();
                actions.extend(self.end(&format!("it did not end within {} s", limit.as_secs_f64()), GRACE));
            }
            return actions;
        }
        while now >= self.next_spawn
            && let Some(index) = self.to_spawn.pop_front()
        {
            self.next_spawn = now + self.pause;
            self.spawning.insert(index);
            actions.push(Action::Spawn(index));
        }
        if self.to_spawn.is_empty() && self.spawning.is_empty() {
            actions.extend(self.settled(now));
        }
        actions
    }

    /// What follows once all members have been started.
    fn settled(&mut self, now: Instant) -> Vec<Action> {
        let gone = |m: &&MemberView| matches!(m.life, Life::Exited(_) | Life::Failed | Life::Lost(None));
        let owns = |m: &MemberView, t: &Task| !t.is_completed() && t.owner_name() == Some(m.name.as_str());
        let members = self.last.members.iter().filter(gone);
        let dead: Vec<AgentName> =
            members.filter(|m| self.last.tasks.iter().any(|t| owns(m, t))).map(|m| m.name.clone()).collect();
        if !dead.is_empty() {
            return dead
                .into_iter()
                .filter(|name| self.freeing.insert(name.clone()))
                .map(Action::FreeTasksOf)
                .collect();
        }
        match self.role {
            Role::Run => self.run(now),
            // Everybody is ready: another process leads on.
            Role::Start => vec![Action::Done(self.outcome.clone())],
            Role::Watch if !self.last.is_there => vec![Action::Done(self.outcome.clone())],
            Role::Watch => Vec::new(),
        }
    }

    /// Whether a run is over.
    fn run(&mut self, now: Instant) -> Vec<Action> {
        // A look that is older than the last spawn does not show its members.
        if self.last.members.len() < self.restarts.len() {
            return Vec::new();
        }
        let runs_always = |name: &AgentName| {
            self.restarts.iter().any(|(n, restart)| n == name && *restart == Restart::Always)
        };
        let rests = |m: &MemberView| self.last.at_rest.contains(&m.name);
        let is_busy = |m: &MemberView| m.life.is_alive() && !runs_always(&m.name) && !rests(m);
        let is_done = self.last.tasks.iter().all(Task::is_completed);
        let have_rested = self.last.at_rest.is_empty() || now >= self.still_since + REST_FOR;
        if !self.last.members.iter().any(is_busy) && !have_rested {
            return Vec::new();
        }
        if is_done && !self.last.members.iter().any(is_busy) {
            self.judge();
            let why = if self.outcome.is_success() { "all is done" } else { "all has ended" };
            return self.end(why, NO_HURRY);
        }
        // Not at once: the mail that tells of a task comes a moment after the task.
        let reminders = if have_rested { self.remind() } else { Vec::new() };
        if !reminders.is_empty() {
            return reminders;
        }
        if let Some(why) = stall(&self.last)
            && have_rested
            && (now >= self.still_since + STILL_FOR || !self.last.members.iter().any(|m| m.life.is_alive()))
        {
            self.judge();
            self.outcome.stalled = Some(why.clone());
            let mut actions = vec![Action::Note("stalled", json!({"why": why}))];
            actions.extend(self.end(&format!("stalled: {why}"), NO_HURRY));
            return actions;
        }
        Vec::new()
    }

    /// A member that rests though a task of its own could go on is reminded once, before the team counts as stalled.
    fn remind(&mut self) -> Vec<Action> {
        if stall(&self.last).is_none() {
            return Vec::new();
        }
        let tasks = &self.last.tasks;
        let own = |name: &AgentName| -> Vec<String> {
            let own = tasks.iter().filter(|t| !t.is_completed() && t.owner_name() == Some(name.as_str()));
            own.filter(|t| open_blockers(t, tasks).is_empty()).map(|t| t.id.clone()).collect()
        };
        let is_helpless = |name: &AgentName| self.helpless(&self.last.members).any(|(m, _)| m.name == *name);
        let resting = self.last.at_rest.iter().filter(|name| !is_helpless(name));
        let resting: Vec<(AgentName, Vec<String>)> = resting.map(|name| (name.clone(), own(name))).collect();
        let new = resting.into_iter().filter(|(_, ids)| !ids.is_empty());
        new.filter(|reminder| self.reminded.insert(reminder.clone()))
            .map(|(name, _)| Action::Remind(name))
            .collect()
    }

    /// An idle notice says how its sender's turn ended.
    fn hear_of_turn(&mut self, entry: &Entry) {
        let Body::Idle(idle) = Body::parse(&entry.text) else { return };
        if idle.idle_reason == "failed" {
            let why = idle.failure_reason.unwrap_or_else(|| "it does not say why".to_owned());
            self.failed_turns.insert(entry.from.clone(), why);
        } else {
            self.failed_turns.remove(&entry.from);
        }
    }

    /// Members that only a person could help, and with what, in a run where there is none.
    fn helpless<'m>(&self, members: &'m [MemberView]) -> impl Iterator<Item = (&'m MemberView, &'m str)> {
        let is_alone = self.approver.as_ref().is_some_and(Approver::is_alone);
        let needs = |m: &'m MemberView| {
            let sight = m.record.as_ref()?.sight.as_ref().filter(|s| s.doing == Doing::NeedsHuman)?;
            matches!(m.life, Life::Ready(_)).then(|| (m, sight.what.as_deref().unwrap_or("something")))
        };
        members.iter().filter(move |_| is_alone).filter_map(needs)
    }

    /// What nobody was there for, as sentences.
    fn unanswered(&self) -> Vec<String> {
        let helpless = self.helpless(&self.last.members);
        let helpless =
            helpless.map(|(m, what)| format!("{} needs a person for {what}, and nobody is there", m.name));
        self.approver.iter().flat_map(Approver::unanswered).chain(helpless).collect()
    }

    /// Agents of ours that say at their end that not all was replayed. Where something else has failed it follows from that.
    fn judge_ends(&mut self, retired: &[Retired]) {
        if !self.outcome.is_success() {
            return;
        }
        for ended in retired.iter().filter(|r| r.exit == Some(MODEL_FAILED)) {
            let member = self.last.members.iter().find(|m| m.name == ended.name && is_ours(m));
            let ended = member.map(|m| MemberView { life: Life::Exited(MODEL_FAILED), ..m.clone() });
            self.outcome.failed.extend(ended.as_ref().map(failed_member));
        }
    }

    /// Writes down who and what failed, before we end anybody ourselves.
    fn judge(&mut self) {
        self.outcome.unanswered = self.unanswered();
        let members = self.last.members.iter().filter(|m| m.life.has_failed());
        self.outcome.failed.extend(members.map(failed_member));
        // One that waits for mail has not ended, but what it was to do it has not done.
        let rests = |name: &str| self.last.at_rest.iter().any(|m| m.as_str() == name);
        let turns = self.failed_turns.iter().filter(|(name, _)| rests(name));
        let of = |name: &str| match self.last.members.iter().find(|m| m.name.as_str() == name) {
            Some(member) if is_ours(member) => Of::Model,
            _ => Of::Work,
        };
        let failed = |(name, why): (&String, &String)| Failed {
            member: None,
            what: format!("{name}'s last turn failed: {why}"),
            of: of(name),
        };
        self.outcome.failed.extend(turns.map(failed));
        let tasks = self.last.tasks.iter().filter_map(|t| Some((t, t.failure()?)));
        let failed = |(t, why): (&Task, &str)| Failed {
            member: None,
            what: format!("task {} '{}' failed: {why}", t.id, t.subject),
            of: Of::Work,
        };
        self.outcome.failed.extend(tasks.map(failed));
    }
}
