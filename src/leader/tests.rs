//! The leader's state, step by step.

use super::approvals::Person;
use super::outcome::Of;
use super::stall::stall;
use super::state::{Action, Event, GRACE, NO_HURRY, State, View};
use crate::config::approvals::Policy;
use crate::config::plan::{BackendChoice, LeaderDeath, Limits, MemberPlan, Placement, Plan, Restart};
use crate::launch::{Life, MemberView, Retired};
use crate::protocol::{AgentName, Entry, Status, Task, TeamName};
use crate::store::{Exit, LeaderMode};
use crate::sys::process::Process;
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const READY: Life = Life::Ready(Process { pid: 7, start: 7 });
const WELL: Life = Life::Exited(Exit::Code(0));
const BADLY: Life = Life::Exited(Exit::Code(3));

fn name(word: &str) -> AgentName {
    AgentName::new(word).unwrap()
}

fn plan(members: &[(&str, Restart)]) -> Plan {
    let member = |(word, restart): &(&str, Restart)| MemberPlan {
        name: name(word),
        entry: None,
        driver: "command".into(),
        command: vec!["true".into()],
        agent: Default::default(),
        cwd: PathBuf::new(),
        env: Default::default(),
        inherit: Vec::new(),
        tty: true,
        restart: *restart,
        prompt: None,
    };
    Plan {
        name: TeamName::new("t").unwrap(),
        backend: BackendChoice::Process,
        placement: Placement::Pane,
        dir: PathBuf::from("/"),
        cwd: PathBuf::from("/"),
        on_leader_death: LeaderDeath::Keep,
        limits: Limits::default(),
        approvals: Policy::default(),
        drivers: Default::default(),
        members: members.iter().map(member).collect(),
        tasks: Vec::new(),
    }
}

fn view(members: &[(&str, Life)], tasks: &[Task]) -> View {
    let member =
        |(word, life): &(&str, Life)| MemberView { name: name(word), row: None, record: None, life: *life };
    View {
        members: members.iter().map(member).collect(),
        tasks: tasks.to_vec(),
        at_rest: Default::default(),
        mail: Vec::new(),
        asked: Vec::new(),
        is_there: true,
    }
}

fn task(id: u64, owner: Option<&str>, blocked_by: &[&str]) -> Task {
    let mut task = Task::new(id, "work");
    task.owner = owner.map(str::to_owned);
    task.blocked_by = blocked_by.iter().map(|b| (*b).to_owned()).collect();
    task
}

/// A run whose members have all been spawned.
fn running(members: &[(&str, Restart)], now: Instant) -> State {
    let plan = plan(members);
    let mut state = State::starting(&plan, LeaderMode::Run, Some(Duration::from_secs(60)), now);
    let spawns = state.on(Event::Seen(View::default()), now);
    assert_eq!(spawns.len(), members.len());
    for i in 0..members.len() {
        assert_eq!(state.on(Event::Spawned(i, Ok(())), now), []);
    }
    state
}

fn ends(actions: &[Action]) -> bool {
    actions.iter().any(|a| matches!(a, Action::RetireAll(_)))
}

fn outcome(state: &mut State, now: Instant) -> super::Outcome {
    assert_eq!(state.on(Event::Ended(Vec::new()), now), [Action::Look], "a last look at the mail");
    match state.on(Event::Seen(View::default()), now).as_slice() {
        [Action::Done(outcome)] => outcome.clone(),
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn a_run_ends_when_all_members_and_tasks_have() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never)], now);
    let mut work = task(1, Some("a"), &[]);
    assert!(!ends(&state.on(Event::Seen(view(&[("a", READY)], &[work.clone()])), now)));
    work.complete(None);
    assert!(
        !ends(&state.on(Event::Seen(view(&[("a", READY)], &[work.clone()])), now)),
        "the member still runs"
    );
    assert!(ends(&state.on(Event::Seen(view(&[("a", WELL)], &[work])), now)));
    assert!(outcome(&mut state, now).is_success());
}

#[test]
fn a_member_that_always_restarts_is_not_waited_for() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Always)], now);
    let mut work = task(1, None, &[]);
    work.complete(None);
    assert!(ends(&state.on(Event::Seen(view(&[("a", READY)], &[work])), now)));
    assert!(outcome(&mut state, now).is_success());
}

#[test]
fn failures_of_members_and_tasks_are_told() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never)], now);
    let mut work = task(1, None, &[]);
    work.complete(Some("broken"));
    assert!(ends(&state.on(Event::Seen(view(&[("a", BADLY)], &[work])), now)));
    let failed: Vec<String> = outcome(&mut state, now).failed.into_iter().map(|f| f.what).collect();
    assert_eq!(failed, ["a exited 3", "task 1 'work' failed: broken"]);
}

#[test]
fn a_dead_owners_tasks_are_freed_once_and_then_the_stall_is_seen() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never), ("b", Restart::Never)], now);
    let members = [("a", BADLY), ("b", READY)];
    let mut work = task(1, Some("a"), &[]);
    let actions = state.on(Event::Seen(view(&members, &[work.clone()])), now);
    assert_eq!(actions, [Action::TakeNotice, Action::FreeTasksOf(name("a"))]);
    assert_eq!(state.on(Event::Seen(view(&members, &[work.clone()])), now), [], "it is under way");
    state.on(Event::Freed(name("a")), now);
    work.free();
    let seen = view(&members, &[work.clone(), task(2, None, &["1"])]);
    assert_eq!(
        state.on(Event::Seen(seen.clone()), now),
        [Action::TakeNotice],
        "b may be about to give its task up"
    );
    let later = now + Duration::from_secs(3);
    assert!(ends(&state.on(Event::Seen(seen), later)));
    let outcome = outcome(&mut state, later);
    let why = outcome.stalled.unwrap();
    assert_eq!(why, "task 1 'work' was a's, which exited 3; task 2 'work' waits for task 1");
}

#[test]
fn nobody_alive_is_a_stall_at_once() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never)], now);
    let actions = state.on(Event::Seen(view(&[("a", WELL)], &[task(1, None, &[])])), now);
    assert!(ends(&actions));
    assert!(outcome(&mut state, now).stalled.unwrap().contains("no owner and nobody is alive"));
}

#[test]
fn who_can_take_what() {
    let alive = [("a", READY)];
    assert_eq!(stall(&view(&alive, &[task(1, Some("a"), &[])])), None);
    assert_eq!(stall(&view(&alive, &[task(1, None, &[])])), None);
    assert_eq!(stall(&view(&alive, &[task(1, Some("a-person"), &[])])), None, "not ours to judge");
    assert_eq!(stall(&view(&alive, &[])), None);
    let mut freed = task(1, Some("b"), &[]);
    freed.free();
    assert!(stall(&view(&alive, &[freed.clone()])).is_some());
    freed.assign(&name("a"));
    assert_eq!(stall(&view(&alive, &[freed])), None, "somebody claimed it");
    let mut running = task(1, Some("a"), &[]);
    running.status = Status::InProgress;
    assert_eq!(stall(&view(&alive, &[running, task(2, Some("gone"), &["1"])])), None);
}

#[test]
fn the_timeout_is_told_with_what_had_failed_by_then() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never), ("b", Restart::Never)], now);
    let seen = view(&[("a", READY), ("b", BADLY)], &[]);
    assert_eq!(state.on(Event::Seen(seen.clone()), now), []);
    assert!(state.next_look(now) <= Duration::from_secs(60));
    let late = now + Duration::from_secs(61);
    // Who set a time limit does not wait for the grace of an end that is in no hurry.
    assert!(state.on(Event::Seen(seen), late).contains(&Action::RetireAll(GRACE)));
    let outcome = outcome(&mut state, late);
    assert_eq!(outcome.timed_out, Some(Duration::from_secs(60)));
    assert_eq!(outcome.failed[0].what, "b exited 3");
}

#[test]
fn the_first_signal_is_polite_and_the_second_is_not() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never)], now);
    assert!(state.on(Event::Signal(Signal::SIGTERM), now).contains(&Action::RetireAll(GRACE)));
    assert_eq!(state.on(Event::Signal(Signal::SIGINT), now), [Action::RetireAll(Duration::ZERO)]);
    assert_eq!(outcome(&mut state, now).signal, Some(Signal::SIGTERM));
}

#[test]
fn a_start_rate_spaces_the_spawns() {
    let now = Instant::now();
    let mut plan = plan(&[("a", Restart::Never), ("b", Restart::Never)]);
    plan.limits.start_rate_per_s = Some(4.0);
    let mut state = State::starting(&plan, LeaderMode::Run, None, now);
    assert_eq!(state.on(Event::Seen(View::default()), now), [Action::Spawn(0)]);
    assert_eq!(state.on(Event::Seen(View::default()), now + Duration::from_millis(249)), []);
    assert_eq!(state.on(Event::Seen(View::default()), now + Duration::from_millis(250)), [Action::Spawn(1)]);
}

#[test]
fn mail_that_was_shown_and_is_not_marked_yet_is_not_shown_again() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never)], now);
    let mut seen = view(&[("a", READY)], &[]);
    seen.mail = vec![Entry::new("a", "hello", "t", "id")];
    assert!(
        matches!(state.on(Event::Seen(seen.clone()), now).as_slice(), [Action::Deliver(mail)] if mail.len() == 1)
    );
    assert_eq!(state.on(Event::Seen(seen), now), []);
}

#[test]
fn an_up_is_done_once_all_are_ready_and_a_watch_once_the_team_is_gone() {
    let now = Instant::now();
    let mut state = State::starting(&plan(&[("a", Restart::Never)]), LeaderMode::Up, None, now);
    assert_eq!(state.on(Event::Seen(View::default()), now), [Action::Spawn(0)]);
    assert!(matches!(state.on(Event::Spawned(0, Ok(())), now).as_slice(), [Action::Done(_)]));
    let mut watch = State::watching(now);
    assert_eq!(watch.on(Event::Seen(view(&[("a", READY)], &[])), now), []);
    assert!(matches!(watch.on(Event::Seen(View::default()), now).as_slice(), [Action::Done(_)]));
}

#[test]
fn a_leader_that_waits_for_something_does_not_spin() {
    let now = Instant::now();
    let late = now + Duration::from_secs(100);
    // Up: a task that nobody can take is not its affair.
    let mut watch = State::watching(now);
    let mut dropped = task(1, Some("b"), &[]);
    dropped.free();
    watch.on(Event::Seen(view(&[("a", READY)], &[dropped])), now);
    assert_eq!(watch.next_look(late), Duration::MAX);
    // A run that is being ended waits for that.
    let mut state = running(&[("a", Restart::Never)], now);
    assert!(ends(&state.on(Event::Seen(view(&[("a", READY)], &[])), late)));
    assert_eq!(state.next_look(late), Duration::MAX);
    // So does one whose time is up while a member is being started.
    let plan = plan(&[("a", Restart::Never)]);
    let mut state = State::starting(&plan, LeaderMode::Run, Some(Duration::from_secs(1)), now);
    assert_eq!(state.on(Event::Seen(View::default()), now), [Action::Spawn(0)]);
    assert_eq!(state.on(Event::Seen(View::default()), late), []);
    assert_eq!(state.next_look(late), Duration::MAX);
    assert!(ends(&state.on(Event::Spawned(0, Ok(())), late)));
}

#[test]
fn an_up_without_members_is_ready_at_once() {
    let now = Instant::now();
    let mut state = State::starting(&plan(&[]), LeaderMode::Up, None, now);
    assert!(matches!(state.on(Event::Seen(View::default()), now).as_slice(), [Action::Done(_)]));
}

#[test]
fn last_words_are_shown() {
    let now = Instant::now();
    let mut state = running(&[("a", Restart::Never)], now);
    assert!(ends(&state.on(Event::Seen(view(&[("a", WELL)], &[])), now)));
    assert_eq!(state.on(Event::Ended(Vec::new()), now), [Action::Look]);
    let mut seen = view(&[("a", WELL)], &[]);
    seen.mail = vec![Entry::new("a", "bye", "t", "id")];
    assert!(matches!(state.on(Event::Seen(seen), now).as_slice(), [Action::Deliver(_), Action::Done(_)]));
}

#[test]
fn members_at_rest_end_a_run_after_a_while_and_are_reminded_before_it_counts_as_stalled() {
    let now = Instant::now();
    let after = |seconds| now + Duration::from_secs(seconds);
    let resting = |tasks: &[Task]| View { at_rest: [name("a")].into(), ..view(&[("a", READY)], tasks) };
    let ends = |actions: &[Action]| actions.iter().any(|a| matches!(a, Action::RetireAll(_)));

    let mut state = running(&[("a", Restart::Never)], now);
    assert_eq!(state.on(Event::Seen(view(&[("a", READY)], &[])), now), [], "it works");
    assert_eq!(state.on(Event::Seen(resting(&[])), now), []);
    assert!(state.next_look(now) <= Duration::from_secs(4));
    assert!(!ends(&state.on(Event::Seen(resting(&[])), after(3))));
    assert!(state.on(Event::Seen(resting(&[])), after(5)).contains(&Action::RetireAll(NO_HURRY)));

    let mut state = running(&[("a", Restart::Never)], now);
    let open = [task(1, Some("a"), &[])];
    state.on(Event::Seen(resting(&open)), now);
    let actions = state.on(Event::Seen(resting(&open)), after(5));
    assert_eq!(actions, [Action::Remind(name("a"))]);
    state.on(Event::Seen(view(&[("a", READY)], &open)), after(6));
    state.on(Event::Seen(resting(&open)), after(7));
    assert!(!ends(&state.on(Event::Seen(resting(&open)), after(9))));
    assert!(ends(&state.on(Event::Seen(resting(&open)), after(12))), "reminded once, and still nothing");
}

#[test]
fn whom_only_a_person_can_help_ends_a_run_where_there_is_none() {
    let now = Instant::now();
    let record = |what: &str| {
        let text = format!(
            r#"{{"name":"a","launch":"l","tend":{{"pid":7,"start":7}},"state":{{"is":"ready","process":{{"pid":7,"start":7}}}},"since":"","started":"","restarts":0,
            "place":{{"backend":"process"}},"tty":true,"restart":"never","command":[],"cwd":"/","sight":{{"doing":"needs_human","what":"{what}"}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    let mut seen = view(&[("a", READY)], &[]);
    seen.members[0].record = Some(record("a dialog"));
    for (person, ends) in [(Person::Absent, true), (Person::Asked, false)] {
        let state = running(&[("a", Restart::Never)], now);
        let mut state = state.approving(&TeamName::new("t").unwrap(), &Policy::default(), person);
        assert_eq!(state.on(Event::Seen(seen.clone()), now), []);
        let actions = state.on(Event::Seen(seen.clone()), now + Duration::from_secs(5));
        assert_eq!(actions.iter().any(|a| matches!(a, Action::RetireAll(_))), ends);
        if ends {
            state.on(Event::Ended(Vec::new()), now);
            let last = state.on(Event::Seen(view(&[], &[])), now);
            let Some(Action::Done(outcome)) = last.last() else { panic!("{last:?}") };
            assert_eq!(outcome.unanswered, ["a needs a person for a dialog, and nobody is there"]);
        }
    }
}

#[test]
fn d10_a_member_whose_model_failed_is_told_from_one_that_failed() {
    let seen = |driver: &str, life: Life| {
        let record = serde_json::json!({
            "name": "a", "launch": "l", "tend": {"pid": 1, "start": 1}, "state": {"is": "failed"}, "since": "", "started": "",
            "restarts": 0, "place": {"backend": "process"}, "driver": driver, "tty": true, "restart": "never", "command": [],
            "cwd": "/",
        });
        let mut seen = view(&[("a", life)], &[]);
        seen.members[0].record = Some(serde_json::from_value(record).unwrap());
        seen
    };
    for (driver, code, of) in [("throng", 6, Of::Model), ("throng", 1, Of::Work), ("command", 6, Of::Work)] {
        let now = Instant::now();
        let mut state = running(&[("a", Restart::Never)], now);
        assert!(ends(&state.on(Event::Seen(seen(driver, Life::Exited(Exit::Code(code)))), now)));
        let failed = outcome(&mut state, now).failed;
        assert_eq!(
            (failed[0].of, failed[0].what.as_str()),
            (of, format!("a exited {code}").as_str()),
            "{driver}"
        );
    }
    // It says so when it is asked to end.
    for (driver, fails) in [("throng", 1), ("command", 0)] {
        let now = Instant::now();
        let mut state = running(&[("a", Restart::Always)], now);
        assert!(ends(&state.on(Event::Seen(seen(driver, READY)), now)));
        let exit = Some(Exit::Code(6));
        let retired =
            Retired { name: name("a"), how: "by itself when asked", exit, refusal: None, left: Vec::new() };
        assert_eq!(state.on(Event::Ended(vec![retired]), now), [Action::Look]);
        let actions = state.on(Event::Seen(View::default()), now);
        let [Action::Done(outcome)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!(outcome.failed.iter().filter(|f| f.of == Of::Model).count(), fails, "{driver}");
    }
}
