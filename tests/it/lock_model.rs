//! A small explicit-state model of the lock directories (protocol I.4): every interleaving of two or three parties' steps,
//! with crashes and suspensions at every step. It proves that throng's own processes exclude each other, and shows by the
//! shortest trace how a party that takes a stale lock unchecked breaks it.
//!
//! The file is a counter of versions. A party reads one version and renames the next one into place; if the version has
//! changed in between, a message is lost, which is the violation. Time is left out: a lock directory is fresh or stale. It
//! may grow stale at any moment if its holder has crashed, and, where suspensions are modelled, under a live holder too.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// So many directories are made in no run that ends soon: the search is cut off there.
const DIRECTORIES_MAX: usize = 6;
/// A search that goes on beyond that is one whose model is wrong.
const STATES_MAX: usize = 500_000;

/// How a party takes a lock that it found stale.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Takes {
    /// As throng: renames it away, looks at what it caught, puts back what is not what it judged.
    Looking,
    /// As npm `proper-lockfile`: rmdir, then mkdir, unchecked.
    Unchecked,
}

/// How a party behaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Kind {
    name: &'static str,
    /// Whether it queues on the flock first.
    queues: bool,
    takes: Takes,
    /// Whether it checks that the lock is still its own, before the rename and before the release.
    verifies: bool,
}

const THRONG: Kind = Kind { name: "throng", queues: true, takes: Takes::Looking, verifies: true };
/// Throng where no queue is to be had: the team of another program.
const UNQUEUED: Kind = Kind { name: "throng without queue", queues: false, ..THRONG };
/// What throng would be with the naive takeover.
const NAIVE: Kind = Kind { name: "naive", takes: Takes::Unchecked, ..UNQUEUED };
const NPM: Kind = Kind { name: "npm", queues: false, takes: Takes::Unchecked, verifies: false };

/// What a party does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Queue,
    Make,
    Look,
    /// Rename the stale lock away.
    Catch,
    /// Look at what was caught.
    Judge,
    PutBack,
    /// rmdir of a stale lock, unchecked.
    Remove,
    Read,
    Verify,
    Rename,
    Release,
    Unqueue,
    Done,
    Crashed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Party {
    step: Step,
    /// The directory it made.
    own: u8,
    /// The one it judged stale.
    judged: u8,
    /// The one it has renamed away.
    caught: u8,
    /// The version it has read.
    read: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    parties: Vec<Party>,
    /// The directory at the lock path; 0 is none.
    lock: u8,
    /// Directories that look stale, as bits.
    stale: u32,
    /// Who made the directory, by its number. 0 stands for a holder that crashed before it all began.
    makers: Vec<u8>,
    flock: Option<u8>,
    version: u8,
    crashes_left: u8,
    violated: bool,
}

/// What is modelled.
struct Model {
    kinds: Vec<Kind>,
    crashes: u8,
    /// Whether a live holder may be suspended for so long that its lock grows stale.
    suspends: bool,
    /// Whether a lock of a crashed holder lies there from the start.
    begins_stale: bool,
}

/// What a search found.
struct Found {
    states: usize,
    steps: usize,
    /// The shortest way to a lost message.
    trace: Option<Vec<String>>,
    /// States from which the living cannot all end.
    stuck: usize,
}

impl Model {
    fn start(&self) -> State {
        let first = |kind: &Kind| if kind.queues { Step::Queue } else { Step::Make };
        let party = |kind| Party { step: first(kind), own: 0, judged: 0, caught: 0, read: 0 };
        State {
            parties: self.kinds.iter().map(party).collect(),
            lock: u8::from(self.begins_stale),
            stale: u32::from(self.begins_stale) << 1,
            makers: if self.begins_stale { vec![u8::MAX, u8::MAX] } else { vec![u8::MAX] },
            flock: None,
            version: 0,
            crashes_left: self.crashes,
            violated: false,
        }
    }

    /// Every state that may follow, with what happened.
    fn next(&self, state: &State) -> Vec<(String, State)> {
        let mut all = Vec::new();
        for i in 0..self.kinds.len() {
            if let Some((what, next)) = self.step(state, i) {
                all.push((format!("{} {}: {what}", self.kinds[i].name, i + 1), next));
            }
            let party = &state.parties[i];
            if state.crashes_left > 0 && !matches!(party.step, Step::Done | Step::Crashed) {
                let mut next = state.clone();
                next.parties[i].step = Step::Crashed;
                next.crashes_left -= 1;
                // The kernel releases the flock.
                if next.flock == Some(i as u8) {
                    next.flock = None;
                }
                all.push((format!("{} {}: is killed", self.kinds[i].name, i + 1), next));
            }
        }
        if let Some((what, next)) = self.age(state) {
            all.push((what, next));
        }
        all
    }

    /// The lock at the path grows stale.
    fn age(&self, state: &State) -> Option<(String, State)> {
        if state.lock == 0 || state.stale & (1 << state.lock) != 0 {
            return None;
        }
        let maker = state.makers[state.lock as usize];
        // One that was put back when its maker had given it up is nobody's.
        let holds = |p: &Party| matches!(p.step, Step::Read | Step::Verify | Step::Rename | Step::Release);
        let is_nobodys = |p: &Party| !holds(p) || p.own != state.lock;
        let is_dead = state.parties.get(maker as usize).is_none_or(is_nobodys);
        if !is_dead && !self.suspends {
            return None;
        }
        let mut next = state.clone();
        next.stale |= 1 << state.lock;
        Some((format!("10 s pass; the lock of {} is stale", maker.wrapping_add(1)), next))
    }

    fn step(&self, state: &State, i: usize) -> Option<(String, State)> {
        let kind = self.kinds[i];
        let mut next = state.clone();
        let me = i as u8;
        let again = Step::Make;
        let party = state.parties[i].clone();
        let set = |next: &mut State, step| next.parties[i].step = step;
        let what = match party.step {
            Step::Done | Step::Crashed => return None,
            Step::Queue => {
                if state.flock.is_some() {
                    return None;
                }
                next.flock = Some(me);
                set(&mut next, Step::Make);
                "has the turn".to_owned()
            }
            Step::Make if state.lock == 0 => {
                if state.makers.len() > DIRECTORIES_MAX {
                    return None;
                }
                next.makers.push(me);
                next.lock = (next.makers.len() - 1) as u8;
                next.parties[i].own = next.lock;
                set(&mut next, Step::Read);
                format!("mkdir, directory {}", next.lock)
            }
            Step::Make => {
                set(&mut next, Step::Look);
                "mkdir: it is there".to_owned()
            }
            Step::Look => {
                let is_stale = state.lock != 0 && state.stale & (1 << state.lock) != 0;
                // Having the turn, it finds the record of one that died.
                let maker = state.makers[state.lock as usize] as usize;
                let has_record = state.parties.get(maker).is_some_and(|p| p.step == Step::Crashed)
                    && self.kinds[maker].queues
                    && kind.queues;
                if !is_stale && !has_record {
                    set(&mut next, again);
                    return (next != *state).then(|| ("stat: fresh or gone".to_owned(), next));
                }
                next.parties[i].judged = state.lock;
                set(&mut next, if kind.takes == Takes::Looking { Step::Catch } else { Step::Remove });
                format!(
                    "stat: directory {} is {}",
                    state.lock,
                    if is_stale { "stale" } else { "a dead one's" }
                )
            }
            Step::Catch => {
                next.parties[i].caught = state.lock;
                next.lock = 0;
                set(&mut next, if state.lock == 0 { again } else { Step::Judge });
                format!("renames directory {} away", state.lock)
            }
            Step::Judge => {
                let is_right = party.caught == party.judged;
                if is_right {
                    next.parties[i].caught = 0;
                }
                set(&mut next, if is_right { again } else { Step::PutBack });
                format!("looks: {}", if is_right { "the stale one, removes it" } else { "another's" })
            }
            Step::PutBack => {
                // RENAME_NOREPLACE: a newer lock stands, and the one caught is void.
                let what = if state.lock == 0 { "puts it back" } else { "cannot put it back" };
                if state.lock == 0 {
                    next.lock = party.caught;
                }
                next.parties[i].caught = 0;
                set(&mut next, again);
                what.to_owned()
            }
            Step::Remove => {
                next.lock = 0;
                set(&mut next, again);
                format!("rmdir, unchecked: directory {} is gone", state.lock)
            }
            Step::Read => {
                next.parties[i].read = state.version;
                set(&mut next, if kind.verifies { Step::Verify } else { Step::Rename });
                format!("reads version {}", state.version)
            }
            Step::Verify => {
                let is_mine = state.lock == party.own;
                set(&mut next, if is_mine { Step::Rename } else { again });
                format!("verifies: {}", if is_mine { "still its own" } else { "lost, begins again" })
            }
            Step::Rename => {
                next.violated = party.read != state.version;
                next.version += 1;
                set(&mut next, Step::Release);
                format!("renames version {} into place", party.read + 1)
            }
            Step::Release => {
                let is_mine = state.lock == party.own;
                if is_mine || !kind.verifies {
                    next.lock = 0;
                }
                set(&mut next, if kind.queues { Step::Unqueue } else { Step::Done });
                "releases".to_owned()
            }
            Step::Unqueue => {
                next.flock = None;
                set(&mut next, Step::Done);
                "gives the turn away".to_owned()
            }
        };
        Some((what, next))
    }

    /// Breadth first, so that the first violation is the shortest.
    fn search(&self) -> Found {
        let start = self.start();
        let mut index: HashMap<State, usize> = HashMap::from([(start.clone(), 0)]);
        let mut states = vec![start];
        let mut came_from: Vec<Option<(usize, String)>> = vec![None];
        let mut edges: Vec<Vec<usize>> = vec![Vec::new()];
        let mut queue = VecDeque::from([0]);
        let mut steps = 0;
        let mut violation = None;
        while let Some(at) = queue.pop_front() {
            if states[at].violated {
                violation = Some(at);
                break;
            }
            assert!(states.len() < STATES_MAX, "the search does not end");
            for (what, next) in self.next(&states[at]) {
                steps += 1;
                let to = *index.entry(next.clone()).or_insert_with(|| {
                    states.push(next);
                    came_from.push(Some((at, what)));
                    edges.push(Vec::new());
                    queue.push_back(states.len() - 1);
                    states.len() - 1
                });
                edges[at].push(to);
            }
        }
        let trace = violation.map(|mut at| {
            let mut trace = Vec::new();
            while let Some((from, what)) = &came_from[at] {
                trace.push(what.clone());
                at = *from;
            }
            trace.reverse();
            trace
        });
        let stuck = if violation.is_some() { 0 } else { stuck(&states, &edges) };
        Found { states: states.len(), steps, trace, stuck }
    }
}

/// How many states have no way to one in which everybody has ended.
fn stuck(states: &[State], edges: &[Vec<usize>]) -> usize {
    let mut back: Vec<Vec<usize>> = vec![Vec::new(); states.len()];
    for (from, all) in edges.iter().enumerate() {
        all.iter().for_each(|to| back[*to].push(from));
    }
    let has_ended =
        |s: &State| s.violated || s.parties.iter().all(|p| matches!(p.step, Step::Done | Step::Crashed));
    let mut can_end: Vec<bool> = states.iter().map(has_ended).collect();
    let mut queue: VecDeque<usize> = (0..states.len()).filter(|i| can_end[*i]).collect();
    while let Some(at) = queue.pop_front() {
        for from in &back[at] {
            if !std::mem::replace(&mut can_end[*from], true) {
                queue.push_back(*from);
            }
        }
    }
    can_end.iter().filter(|can| !**can).count()
}

fn check(what: &str, model: &Model) -> Found {
    let found = model.search();
    let mut text = format!("{what}: {} states, {} steps", found.states, found.steps);
    match &found.trace {
        None => text.push_str("; no message is ever lost"),
        Some(trace) => {
            text.push_str("; the shortest way to lose a message:");
            for line in trace {
                let _ = write!(text, "\n    {line}");
            }
        }
    }
    eprintln!("{text}");
    found
}

#[test]
fn the_model_throng_parties_exclude_each_other_with_crashes_and_suspensions() {
    for begins_stale in [false, true] {
        let kinds = vec![THRONG; 3];
        let found = check("three of throng", &Model { kinds, crashes: 2, suspends: true, begins_stale });
        assert!(found.trace.is_none() && found.stuck == 0, "{} stuck", found.stuck);
        assert!(found.states > 1_000, "the search goes somewhere: {}", found.states);
    }
}

#[test]
fn the_model_two_parties_without_a_queue_exclude_each_other_with_crashes() {
    let model = Model { kinds: vec![UNQUEUED; 2], crashes: 1, suspends: false, begins_stale: true };
    assert!(check("two of throng without a queue", &model).trace.is_none());
}

#[test]
fn the_model_a_naive_takeover_loses_messages_where_ours_does_not() {
    let naive = Model { kinds: vec![NAIVE; 2], crashes: 0, suspends: false, begins_stale: true };
    let trace = check("two with the naive takeover", &naive).trace.expect("it fails");
    assert!(trace.iter().any(|line| line.contains("rmdir, unchecked")), "{trace:#?}");
    let ours = Model { kinds: vec![UNQUEUED; 2], ..naive };
    assert!(check("the same two, looking at what they caught", &ours).trace.is_none());
}

#[test]
fn the_model_a_party_like_npm_proper_lockfile_breaks_it() {
    let model = Model { kinds: vec![THRONG, NPM], crashes: 0, suspends: false, begins_stale: true };
    let trace = check("throng beside npm proper-lockfile", &model).trace.expect("it fails");
    assert!(trace.iter().any(|line| line.starts_with("npm 2: rmdir, unchecked")), "{trace:#?}");
    // Without a stale lock they exclude each other.
    let model = Model { kinds: vec![THRONG, NPM], crashes: 0, suspends: false, begins_stale: false };
    assert!(check("throng beside npm proper-lockfile, no stale lock", &model).trace.is_none());
}

/// What nobody can promise, shown: a live holder that is suspended between its check and its rename.
#[test]
fn the_model_a_holder_suspended_too_long_loses_a_message_beside_another_program() {
    let model = Model { kinds: vec![UNQUEUED; 2], crashes: 0, suspends: true, begins_stale: false };
    let trace = check("two without a queue, one suspended", &model).trace.expect("it fails");
    assert!(trace.iter().any(|line| line.contains("10 s pass")), "{trace:#?}");
    // With three, catching another's lock for a moment lets a third in.
    let model = Model { kinds: vec![UNQUEUED; 3], crashes: 0, suspends: false, begins_stale: true };
    check("three of throng without a queue", &model);
}
