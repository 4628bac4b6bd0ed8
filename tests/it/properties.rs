//! Sequences of operations by real processes, some at once, some killed, against a simple model.

use crate::support::{Call, Outcome, Running, World};
use nix::sys::signal::Signal;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const AGENTS: [&str; 3] = ["alice", "bob", "eve"];
/// Steps of a write before it can be seen, and after.
const BEFORE: [&str; 3] = ["signed", "prepared", "intended"];
const AFTER: [&str; 2] = ["renamed", "acknowledged"];

fn check<T: std::fmt::Debug>(what: impl Strategy<Value = T>, mut holds: impl FnMut(T)) {
    // Each case is many processes.
    let config = Config { cases: 24, max_shrink_iters: 40, failure_persistence: None, ..Config::default() };
    let holds = std::cell::RefCell::new(&mut holds);
    let checked = TestRunner::new(config).run(&what, |value| {
        (*holds.borrow_mut())(value);
        Ok(())
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
}

fn world() -> World {
    let world = World::new();
    let team = world.plant_team("demo", &AGENTS);
    fs::create_dir_all(team.state_dir()).unwrap();
    world
}

fn throng(world: &World, me: usize, args: &[&str]) -> Call {
    world.throng(args).args(["--team", "demo"]).by(AGENTS[me])
}

fn at_once(calls: impl IntoIterator<Item = Call>) -> Vec<Outcome> {
    let running: Vec<Running> = calls.into_iter().map(Call::start).collect();
    running.into_iter().map(Running::wait).collect()
}

/// What is done to bob's inbox.
#[derive(Debug, Clone)]
enum Deed {
    Send(usize, String),
    /// At once, by as many processes.
    SendAll(Vec<(usize, String)>),
    SendKilled(String, &'static str),
    /// Another program, which knows no msg_id, writes fields of its own.
    Foreign(String),
    Take,
    TakeAll,
    TakeFrom(usize),
    TakeKilled(&'static str),
    /// Senders while the owner takes.
    TakeBeside(Vec<(usize, String)>),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    // A text may be anything that an argument may be, but blank.
    let text = || "[^\0]{0,12}x[^\0]{0,6}".prop_map(|text| text.replace(['\n', '\r'], " "));
    let letter = move || (0..AGENTS.len(), text());
    let step = || prop::sample::select([&BEFORE[..], &AFTER[..]].concat());
    let deed = prop_oneof![
        4 => letter().prop_map(|(from, text)| Deed::Send(from, text)),
        2 => prop::collection::vec(letter(), 2..5).prop_map(Deed::SendAll),
        2 => (text(), step()).prop_map(|(text, step)| Deed::SendKilled(text, step)),
        2 => text().prop_map(Deed::Foreign),
        3 => Just(Deed::Take),
        1 => Just(Deed::TakeAll),
        1 => (0..AGENTS.len()).prop_map(Deed::TakeFrom),
        2 => step().prop_map(Deed::TakeKilled),
        1 => Just(Deed::TakeKilled("printed")),
        1 => prop::collection::vec(letter(), 1..4).prop_map(Deed::TakeBeside),
    ];
    prop::collection::vec(deed, 1..14)
}

/// A message in the model: sender and text. What was taken is gone from it.
type Letter = (String, String);

fn sends(world: &World, letters: &[(usize, String)]) -> Vec<Call> {
    // A text that begins with @ names a file, unless the @ is doubled.
    letters.iter().map(|(me, text)| throng(world, *me, &["send", "bob", &written(text)])).collect()
}

fn written(text: &str) -> String {
    if text.starts_with('@') { format!("@{text}") } else { text.to_owned() }
}

/// The letters as the model has them, in this order.
fn letters(all: &[(usize, String)]) -> Vec<Letter> {
    all.iter().map(|(me, text)| (AGENTS[*me].to_owned(), text.clone())).collect()
}

/// What a list or a take printed.
fn shown(messages: &[Value]) -> Vec<Letter> {
    let part = |m: &Value, key: &str| m[key].as_str().unwrap().to_owned();
    messages.iter().map(|m| (part(m, "from"), part(m, "text"))).collect()
}

fn take(world: &World, more: &[&str], fault: &str) -> Outcome {
    throng(world, 1, &["inbox", "take", "--json"]).args(more).env("THRONG_FAULT", fault).run()
}

#[test]
fn any_sequence_of_sends_and_takes_is_that_of_a_queue() {
    check(deeds(), |deeds| {
        let world = world();
        let team = world.team("demo");
        let mut foreign = Vec::new();
        let mut model: Vec<Letter> = Vec::new();
        for deed in &deeds {
            let unread = || {
                let list = throng(&world, 1, &["inbox", "list", "bob", "--json"]).run().ok().json();
                shown(list["messages"].as_array().unwrap())
            };
            match deed {
                Deed::Send(me, text) => {
                    sends(&world, &[(*me, text.clone())]).remove(0).run().code(0);
                    model.push((AGENTS[*me].to_owned(), text.clone()));
                }
                Deed::SendAll(all) => {
                    at_once(sends(&world, all)).iter().for_each(|sent| assert_eq!(sent.code, Some(0)));
                    settle(&mut model, &letters(all), unread());
                }
                Deed::SendKilled(text, step) => {
                    let call = throng(&world, 0, &["send", "bob", &written(text)]);
                    call.env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
                    if AFTER.contains(step) {
                        model.push((AGENTS[0].to_owned(), text.clone()));
                    }
                }
                Deed::Foreign(text) => {
                    let at = format!("2030-01-02T03:04:05.{:03}Z", foreign.len());
                    let entry =
                        json!({"text": text, "odd": {"n": 1e300}, "from": "stranger", "timestamp": at});
                    let path = team.inbox_path("bob");
                    let bytes = fs::read_to_string(&path).unwrap_or("[]".to_owned());
                    let mut all: Vec<Value> = serde_json::from_str(&bytes).unwrap();
                    all.push(entry);
                    team.plant_inbox("bob", serde_json::to_string(&all).unwrap());
                    foreign.push(text.clone());
                    model.push(("stranger".to_owned(), text.clone()));
                }
                Deed::Take if model.is_empty() => {
                    take(&world, &[], "").code(3);
                }
                Deed::Take => assert_eq!(shown(&take(&world, &[], "").ok().json_lines()), [model.remove(0)]),
                Deed::TakeAll => {
                    let taken = take(&world, &["--all"], "");
                    taken.code(if model.is_empty() { 3 } else { 0 });
                    assert_eq!(shown(&taken.json_lines()), std::mem::take(&mut model));
                }
                Deed::TakeFrom(from) => {
                    let taken = take(&world, &["--from", AGENTS[*from]], "");
                    match model.iter().position(|(name, _)| name == AGENTS[*from]) {
                        Some(at) => assert_eq!(shown(&taken.ok().json_lines()), [model.remove(at)]),
                        None => {
                            taken.code(3);
                        }
                    }
                }
                Deed::TakeKilled(step) => {
                    let taken = take(&world, &[], step);
                    let Some(first) = model.first().cloned() else {
                        taken.code(3);
                        continue;
                    };
                    // It has it; and if it was not marked, it is given again.
                    assert_eq!(shown(&taken.signalled(Signal::SIGKILL).json_lines()), [first]);
                    if AFTER.contains(step) {
                        model.remove(0);
                    }
                }
                Deed::TakeBeside(all) => {
                    let mut calls = sends(&world, all);
                    calls.push(throng(&world, 1, &["inbox", "take", "--json", "--all"]));
                    let mut ended = at_once(calls);
                    let taken = shown(&ended.pop().unwrap().json_lines());
                    ended.iter().for_each(|sent| assert_eq!(sent.code, Some(0)));
                    let given = [taken.clone(), unread()].concat();
                    settle(&mut model, &letters(all), given);
                    assert_eq!(taken, model.drain(..taken.len()).collect::<Vec<_>>());
                }
            }
            assert_eq!(unread(), model, "after {deed:?}");
        }
        // Nothing that a stranger wrote is changed.
        let odd = |e: &&Value| e["odd"] == json!({"n": 1e300});
        let kept = if team.inbox_path("bob").exists() { team.inbox("bob") } else { Vec::new() };
        assert_eq!(kept.iter().filter(odd).count(), foreign.len());
        throng(&world, 0, &["send", "bob", "last"]).run().code(0);
        world.assert_nothing_left();
    });
}

/// Several were sent at once: they stand behind what was there, in whatever order.
fn settle(model: &mut Vec<Letter>, sent: &[Letter], now: Vec<Letter>) {
    let (mut new, mut sent) = (now[model.len()..].to_vec(), sent.to_vec());
    new.sort();
    sent.sort();
    assert_eq!((&now[..model.len()], new), (&model[..], sent));
    *model = now;
}

/// What is done to the task list. Tasks are named by an index into those that there ever were.
#[derive(Debug, Clone)]
enum Step {
    Add(Vec<usize>),
    AddAll(usize),
    AddKilled(&'static str),
    Claim(usize, usize),
    /// All at once.
    ClaimAll(usize),
    ClaimKilled(usize, usize, &'static str),
    Done(usize),
    Free(usize),
    Delete(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (task, me) = (|| 0..8usize, || 0..AGENTS.len());
    let at = || prop::sample::select([&BEFORE[1..], &AFTER[..1]].concat());
    let step = prop_oneof![
        4 => prop::collection::vec(task(), 0..3).prop_map(Step::Add),
        1 => (2..5usize).prop_map(Step::AddAll),
        1 => at().prop_map(Step::AddKilled),
        3 => (task(), me()).prop_map(|(task, me)| Step::Claim(task, me)),
        2 => task().prop_map(Step::ClaimAll),
        2 => (task(), me(), at()).prop_map(|(task, me, at)| Step::ClaimKilled(task, me, at)),
        3 => task().prop_map(Step::Done),
        1 => task().prop_map(Step::Free),
        1 => task().prop_map(Step::Delete),
    ];
    prop::collection::vec(step, 1..16)
}

#[derive(Debug, Clone, PartialEq)]
struct Task {
    status: &'static str,
    owner: Option<usize>,
    blocked_by: Vec<u64>,
}

/// All tasks, and how many ids were given.
#[derive(Debug, Default)]
struct Board {
    tasks: BTreeMap<u64, Task>,
    given: u64,
}

impl Board {
    fn add(&mut self, blocked_by: Vec<u64>) -> u64 {
        self.given += 1;
        self.tasks.insert(self.given, Task { status: "pending", owner: None, blocked_by });
        self.given
    }

    fn is_blocked(&self, task: u64) -> bool {
        let is_open = |id: &u64| self.tasks.get(id).is_some_and(|t| t.status != "completed");
        self.tasks[&task].blocked_by.iter().any(is_open)
    }

    /// The exit code of a claim, and its effect.
    fn claim(&mut self, task: u64, me: usize) -> i32 {
        let Some(now) = self.tasks.get(&task).cloned() else { return 3 };
        if now.status == "completed" || now.owner.is_some_and(|o| o != me) || self.is_blocked(task) {
            return 1;
        }
        self.tasks.insert(task, Task { status: "in_progress", owner: Some(me), ..now });
        0
    }

    /// As `task list --json` should have it.
    fn list(&self) -> Vec<Value> {
        let row = |(id, t): (&u64, &Task)| {
            let ids: Vec<String> = t.blocked_by.iter().map(u64::to_string).collect();
            json!([id.to_string(), t.status, t.owner.map(|o| AGENTS[o]), ids])
        };
        self.tasks.iter().map(row).collect()
    }
}

#[test]
fn any_sequence_of_task_changes_is_that_of_one_list() {
    check(steps(), |steps| {
        let world = world();
        let task = |me: usize, args: &[&str]| throng(&world, me, &[&["task"], args].concat());
        let mut board = Board::default();
        for step in &steps {
            apply(&mut board, step, &task);
            let list = task(0, &["list", "--json"]).run().ok().json();
            let row = |t: &Value| json!([t["id"], t["status"], t["owner"], t["blockedBy"]]);
            let rows: Vec<Value> = list["tasks"].as_array().unwrap().iter().map(row).collect();
            assert_eq!(rows, board.list(), "after {step:?}");
            assert_eq!((&list["lost"], &list["damaged"]), (&json!([]), &json!([])), "after {step:?}");
        }
        task(0, &["add", "last"]).run().code(0);
        world.assert_nothing_left();
    });
}

fn apply(board: &mut Board, step: &Step, task: &dyn Fn(usize, &[&str]) -> Call) {
    // Indices go round, one beyond what there is, so that some are missing.
    let of = |index: usize, board: &Board| index as u64 % (board.given + 1) + 1;
    match step {
        Step::Add(blockers) => {
            let mut ids: Vec<u64> = blockers.iter().map(|i| of(*i, board)).collect();
            ids.sort_unstable();
            ids.dedup();
            let words: Vec<String> = ids.iter().map(|id| format!("--blocked-by={id}")).collect();
            let is_known = ids.iter().all(|id| board.tasks.contains_key(id));
            let added = task(0, &["add", "subject", "--json"]).args(words).run();
            match is_known {
                true => assert_eq!(added.ok().json()["id"], board.add(ids).to_string()),
                false => {
                    added.code(3);
                }
            }
        }
        Step::AddAll(count) => {
            let added = at_once((0..*count).map(|_| task(0, &["add", "subject", "--json"])));
            let number = |o: &Outcome| o.ok().json()["id"].as_str().unwrap().parse().unwrap();
            let mut ids: Vec<u64> = added.iter().map(number).collect();
            ids.sort_unstable();
            let expected: Vec<u64> = (0..*count).map(|_| board.add(Vec::new())).collect();
            assert_eq!(ids, expected, "each has an id of its own");
        }
        Step::AddKilled(at) => {
            task(0, &["add", "subject"]).env("THRONG_FAULT", at).run().signalled(Signal::SIGKILL);
            if AFTER.contains(at) {
                board.add(Vec::new());
            }
        }
        Step::Claim(index, me) => {
            let id = of(*index, board);
            task(*me, &["claim", &id.to_string()]).run().code(board.claim(id, *me));
        }
        Step::ClaimAll(index) => {
            let id = of(*index, board);
            let calls = (0..AGENTS.len()).map(|me| task(me, &["claim", &id.to_string()]));
            let codes: Vec<Option<i32>> = at_once(calls).iter().map(|o| o.code).collect();
            // Whoever won was the first; the model then says what the others were told.
            let first = codes.iter().position(|code| *code == Some(0)).unwrap_or(0);
            let mut expected = vec![None; AGENTS.len()];
            expected[first] = Some(board.claim(id, first));
            for me in (0..AGENTS.len()).filter(|me| *me != first) {
                expected[me] = Some(board.claim(id, me));
            }
            assert_eq!(codes, expected, "one winner");
        }
        Step::ClaimKilled(index, me, at) => {
            let id = of(*index, board);
            let claimed = task(*me, &["claim", &id.to_string()]).env("THRONG_FAULT", at).run();
            let before = board.tasks.get(&id).cloned();
            match board.claim(id, *me) {
                // Nothing to write, so it does not come to that step.
                0 if before.as_ref() == board.tasks.get(&id) => {
                    claimed.code(0);
                }
                0 => {
                    claimed.signalled(Signal::SIGKILL);
                    if !AFTER.contains(at) {
                        board.tasks.insert(id, before.unwrap());
                    }
                }
                code => {
                    claimed.code(code);
                }
            }
        }
        Step::Done(index) => {
            let id = of(*index, board);
            let expected = match board.tasks.get(&id) {
                None => 3,
                Some(_) if board.is_blocked(id) => 1,
                Some(_) => 0,
            };
            task(0, &["done", &id.to_string()]).run().code(expected);
            if let Some(now) = board.tasks.get_mut(&id).filter(|_| expected == 0) {
                now.status = "completed";
            }
        }
        Step::Free(index) => {
            let id = of(*index, board);
            let now = board.tasks.get_mut(&id);
            let freed = task(0, &["update", &id.to_string(), "--owner", "", "--status", "pending"]).run();
            freed.code(if now.is_some() { 0 } else { 3 });
            if let Some(now) = now {
                (now.owner, now.status) = (None, "pending");
            }
        }
        Step::Delete(index) => {
            let id = of(*index, board);
            let was_there = board.tasks.remove(&id).is_some();
            task(0, &["delete", &id.to_string()]).run().code(if was_there { 0 } else { 3 });
            board.tasks.values_mut().for_each(|t| t.blocked_by.retain(|other| *other != id));
        }
    }
}
