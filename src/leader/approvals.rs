//! Who answers what members ask: a rule of the team file, its hook, a person, or nobody (F3). The decisions are pure; the
//! answers are the store's.

use super::hook::meant;
use super::state::Action;
use crate::config::approvals::{Nobody, Policy};
use crate::hooks::Said;
use crate::launch::{Life, MemberView};
use crate::permission::approvals::{Decision, judge};
use crate::protocol::approval::{Ask, Terms, Verdict};
use crate::protocol::{TeamName, timestamp};
use crate::store::{self, Approval, By, Given, TeamStore};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How exactly the start of a process is known.
const START_IS_SURE_TO: Duration = Duration::from_millis(50);
/// How many requests the hook is asked about at once: each is a process, or more.
const HOOKS_AT_ONCE_MAX: usize = 4;
/// Pause before an answer that could not be sent is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Who asks, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A member that lives and waits.
    Member,
    /// Somebody who is no member: only a person answers it.
    Stranger,
    /// A member that has ended since, or was started again: nobody waits for the answer.
    Gone,
}

/// A request with who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The request, and what became of it.
    pub approval: Approval,
    /// Who asks, as it is now.
    pub standing: Standing,
}

impl Asked {
    /// Whether it waits for an answer.
    pub fn is_open(&self) -> bool {
        self.approval.is_open() && self.standing != Standing::Gone
    }
}

/// Every request of a team, by number. New ones get their numbers, and what a killed approver had decided is sent.
///
/// # Errors
/// The file system's.
pub fn asked(store: &TeamStore, members: &[MemberView]) -> store::Result<Vec<Asked>> {
    // Looking is possible where writing is not.
    let all = store.take_notice_of_approvals().or_else(|e| {
        tracing::warn!(error = %e, "requests not written down");
        store.approvals()
    })?;
    Ok(all.into_iter().map(|approval| Asked { standing: standing(&approval, members), approval }).collect())
}

fn standing(approval: &Approval, members: &[MemberView]) -> Standing {
    let Some(member) = members.iter().find(|m| m.name == approval.from) else { return Standing::Stranger };
    let is_gone = !member.life.is_alive() && !member.life.may_have_process();
    if is_gone || is_of_an_earlier_life(approval, member) { Standing::Gone } else { Standing::Member }
}

/// Whether it was asked before its asker was started again: the process that waited for the answer has ended.
fn is_of_an_earlier_life(approval: &Approval, member: &MemberView) -> bool {
    let Life::Ready(process) = member.life else { return matches!(member.life, Life::Restarting(_)) };
    let asked = approval.request.as_ref().map_or(&approval.asked, |request| &request.asked_last);
    // A time without a fraction may be of any moment of its second.
    let slack = if asked.contains('.') { START_IS_SURE_TO } else { Duration::from_secs(1) };
    let (Some(asked), Some(start)) = (timestamp::parse(asked), process.started()) else { return false };
    asked + slack < start
}

/// Whether a person can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    /// There is one, sooner or later.
    Asked,
    /// Nobody is there: a run without a terminal.
    Absent,
}

/// A verdict on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Answering {
    /// Of which request.
    pub key: String,
    /// What is answered.
    pub given: Given,
}

/// How far a request is with this leader.
#[derive(Debug, PartialEq)]
enum Stage {
    /// It waits for its turn with the hook.
    Queued,
    /// The hook is asked.
    Hook,
    /// This answer is being sent.
    Answering(Given),
    /// This answer could not be sent, and is tried again.
    Unsent { given: Given, again: Instant },
    /// It waits for a person.
    Waiting,
}

/// The part of a leader's state that decides about requests.
#[derive(Debug)]
pub(super) struct Approver {
    team: TeamName,
    policy: Policy,
    person: Person,
    stages: HashMap<String, Stage>,
    /// Whose turn with the hook is next.
    queue: VecDeque<String>,
    /// What each request asks, for telling.
    asked: HashMap<String, Asked>,
    /// What nobody answered.
    unanswered: HashMap<String, String>,
}

impl Approver {
    pub(super) fn new(team: TeamName, policy: Policy, person: Person) -> Approver {
        Approver {
            team,
            policy,
            person,
            stages: HashMap::new(),
            queue: VecDeque::new(),
            asked: HashMap::new(),
            unanswered: HashMap::new(),
        }
    }

    /// What is to be done about the requests that are there now.
    pub(super) fn on_seen(&mut self, all: Vec<Asked>, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut open = HashSet::new();
        for asked in all.into_iter().filter(Asked::is_open) {
            let (key, is_member) = (asked.approval.key.clone(), asked.standing == Standing::Member);
            open.insert(key.clone());
            let before = self.asked.insert(key.clone(), asked);
            let was_member = before.is_some_and(|before| before.standing == Standing::Member);
            actions.extend(match self.stages.get(&key) {
                None => self.decide(&key),
                // Who asked before it was a member is one now.
                Some(Stage::Waiting) if is_member && !was_member => self.decide(&key),
                Some(Stage::Unsent { given, again }) if *again <= now => {
                    let given = given.clone();
                    self.send(&key, given)
                }
                Some(_) => Vec::new(),
            });
        }
        // Somebody else has answered, or nobody waits any more.
        let is_over = |key: &String, stage: &mut Stage| *stage == Stage::Queued && !open.contains(key);
        self.stages.extract_if(is_over).for_each(drop);
        self.queue.retain(|key| open.contains(key));
        actions.extend(self.ask_hooks());
        actions
    }

    fn decide(&mut self, key: &str) -> Vec<Action> {
        let Some(asked) = self.asked.get(key) else { return Vec::new() };
        let Some(request) = &asked.approval.request else { return Vec::new() };
        let decision = match asked.standing {
            Standing::Member => judge(&self.policy, request),
            Standing::Stranger | Standing::Gone => Decision::Ask,
        };
        match decision {
            Decision::Allow { rule, mode } => {
                let verdict = Verdict::Allow(Terms { mode, ..Terms::default() });
                self.answer(key, verdict, By::Rule { rule })
            }
            Decision::Deny { rule, feedback } => self.answer(key, Verdict::Deny(feedback), By::Rule { rule }),
            Decision::Nothing if self.policy.hook.is_some() => {
                self.stages.insert(key.to_owned(), Stage::Queued);
                self.queue.push_back(key.to_owned());
                Vec::new()
            }
            Decision::Nothing | Decision::Ask => self.ask_a_person(key),
        }
    }

    /// Asks the hook about the next ones, as far as it is free.
    fn ask_hooks(&mut self) -> Vec<Action> {
        let busy = self.stages.values().filter(|stage| **stage == Stage::Hook).count();
        let mut actions = Vec::new();
        while busy + actions.len() < HOOKS_AT_ONCE_MAX
            && let Some(key) = self.queue.pop_front()
        {
            let Some(asked) = self.asked.get(&key) else { continue };
            actions.push(Action::AskHook(Box::new(asked.clone())));
            self.stages.insert(key, Stage::Hook);
        }
        actions
    }

    /// What follows from what the hook did.
    pub(super) fn on_hook(&mut self, key: &str, said: Said) -> Vec<Action> {
        let Some(kind) = self.asked.get(key).map(|a| a.approval.kind) else { return Vec::new() };
        let timeout = self.policy.hook.as_ref().map_or(0, |hook| hook.timeout_ms);
        let verdict = match said {
            Said::Unwanted => return Vec::new(),
            Said::TimedOut => {
                Err(format!("took longer than {} s", Duration::from_millis(timeout).as_secs_f64()))
            }
            Said::NotRun(why) => Err(format!("cannot be run: {why}")),
            Said::Ended { code, stdout, stderr } => meant(kind, code, &stdout, &stderr),
        };
        let mut actions = match verdict {
            Ok(verdict) => self.answer(key, verdict, By::Hook),
            Err(trouble) => {
                let why = format!("the approval hook {trouble}");
                if self.person == Person::Absent {
                    self.tell_unanswered(key, &why);
                }
                self.answer(key, Verdict::Deny(format!("denied: {why}")), By::Hook)
            }
        };
        actions.extend(self.ask_hooks());
        actions
    }

    /// An answer is sent (`Ok`, whether it was ours that counts), or could not be.
    pub(super) fn on_answered(&mut self, key: &str, sent: Result<IsOurs, ()>, now: Instant) {
        match sent {
            Ok(IsOurs::Yes) => {}
            // Somebody else was there to answer.
            Ok(IsOurs::No) => drop(self.unanswered.remove(key)),
            // What was decided stands: nobody is asked again.
            Err(()) => {
                if let Some(Stage::Answering(given)) = self.stages.remove(key) {
                    self.stages.insert(key.to_owned(), Stage::Unsent { given, again: now + RETRY_AFTER });
                }
            }
        }
    }

    /// Whether there is no person to ask.
    pub(super) fn is_alone(&self) -> bool {
        self.person == Person::Absent
    }

    /// What nobody answered, as sentences.
    pub(super) fn unanswered(&self) -> Vec<String> {
        let mut all: Vec<(u64, &String)> = self
            .unanswered
            .iter()
            .map(|(key, what)| (self.asked.get(key).map_or(0, |a| a.approval.number), what))
            .collect();
        all.sort();
        all.into_iter().map(|(_, what)| what.clone()).collect()
    }

    fn answer(&mut self, key: &str, verdict: Verdict, by: By) -> Vec<Action> {
        self.send(key, Given { verdict, by })
    }

    fn send(&mut self, key: &str, given: Given) -> Vec<Action> {
        self.stages.insert(key.to_owned(), Stage::Answering(given.clone()));
        vec![Action::Answer(Box::new(Answering { key: key.to_owned(), given }))]
    }

    fn ask_a_person(&mut self, key: &str) -> Vec<Action> {
        let Some(asked) = self.asked.get(key) else { return Vec::new() };
        let waits = self.person == Person::Asked || self.policy.when_nobody_answers == Nobody::Wait;
        if waits {
            if self.stages.insert(key.to_owned(), Stage::Waiting).is_some() {
                return Vec::new();
            }
            let about =
                json!({"number": asked.approval.number, "from": asked.approval.from, "team": self.team});
            return vec![Action::Note("approval_waits", about)];
        }
        // A stranger makes no run fail.
        if asked.standing != Standing::Member {
            self.stages.insert(key.to_owned(), Stage::Waiting);
            return Vec::new();
        }
        let why = "nobody is there to ask, since this run has no terminal or was told so, and no rule or hook of the \
                   team file has answered";
        self.tell_unanswered(key, why);
        self.answer(key, Verdict::Deny(format!("denied: {why}")), By::Nobody)
    }

    fn tell_unanswered(&mut self, key: &str, why: &str) {
        if let Some(asked) = self.asked.get(key) {
            let what = format!("{} {}, and was denied: {why}", asked.approval.from, asked.approval.what);
            self.unanswered.insert(key.to_owned(), what);
        }
    }
}

/// Whether the answer that counts is the one that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsOurs {
    /// It is.
    Yes,
    /// Another was faster, or the request is gone.
    No,
}

/// Everything about a request, for programs.
pub fn about(asked: &Asked) -> Value {
    let Approval { number, from, kind, id, asked: at, what, .. } = &asked.approval;
    let mut about = json!({
        "number": number, "from": from, "kind": kind, "request_id": id, "asked": at, "what": what,
        "member": asked.standing != Standing::Stranger,
    });
    let mut add = |key: &str, value: Value| about[key] = value;
    match asked.approval.request.as_ref().map(|request| &request.ask) {
        Some(Ask::Permission(request)) => {
            add("tool", json!(request.tool_name));
            add("input", request.input.clone());
            add("description", json!(request.description));
            add("suggestions", json!(request.permission_suggestions));
        }
        Some(Ask::Plan(request)) => {
            add("plan_path", json!(request.plan_file_path));
            add("plan", json!(request.plan_content));
        }
        Some(Ask::Sandbox(request)) => add("host", json!(request.host_pattern.host)),
        None => {}
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::approvals;
    use crate::protocol::{AgentName, Entry, approval};

    const AT: &str = "2026-11-30T16:01:16.632Z";

    fn asked(number: u64, standing: Standing) -> Asked {
        let text = json!({"type": "permission_request", "request_id": format!("perm-{number}-a"), "agent_id": "bob", "tool_name": "Bash", "input": {"command": "ls"}});
        let entry = Entry::new("bob", &text.to_string(), AT, &format!("m-{number}"));
        let request = approval::requests(&[entry]).pop().unwrap();
        let approval = Approval {
            number,
            key: request.key(),
            from: AgentName::new("bob").unwrap(),
            kind: request.ask.kind(),
            id: request.ask.id().to_owned(),
            asked: AT.to_owned(),
            what: "asks".to_owned(),
            request: Some(request),
            answered: None,
        };
        Asked { approval, standing }
    }

    fn approver(policy: Policy, person: Person) -> Approver {
        Approver::new(TeamName::new("t").unwrap(), policy, person)
    }

    fn with_hook() -> Policy {
        let hook = approvals::Hook { command: vec!["h".into()], cwd: "/".into(), timeout_ms: 1000, at: None };
        Policy { hook: Some(hook), ..Policy::default() }
    }

    fn keys(actions: &[Action]) -> Vec<String> {
        let of = |action: &Action| match action {
            Action::AskHook(asked) => format!("hook {}", asked.approval.number),
            Action::Answer(answering) => format!("{} {}", answering.given.by, answering.key),
            other => format!("{other:?}"),
        };
        actions.iter().map(of).collect()
    }

    #[test]
    fn who_was_taken_for_a_stranger_is_judged_again_as_a_member() {
        let now = Instant::now();
        let mut alone = approver(Policy::default(), Person::Absent);
        assert_eq!(alone.on_seen(vec![asked(1, Standing::Stranger)], now), []);
        let said = alone.on_seen(vec![asked(1, Standing::Member)], now);
        assert_eq!(keys(&said), ["throng, since nobody was there to ask permission bob perm-1-a"]);
        assert_eq!(alone.on_seen(vec![asked(1, Standing::Member)], now), [], "once");
        let mut asking = approver(Policy::default(), Person::Asked);
        assert_eq!(asking.on_seen(vec![asked(1, Standing::Stranger)], now).len(), 1, "it is told");
        assert_eq!(asking.on_seen(vec![asked(1, Standing::Member)], now), [], "and not again");
    }

    #[test]
    fn the_hook_is_asked_about_few_at_once_and_never_about_what_is_over() {
        let now = Instant::now();
        let mut approver = approver(with_hook(), Person::Absent);
        let all = |numbers: std::ops::RangeInclusive<u64>| -> Vec<Asked> {
            numbers.map(|n| asked(n, Standing::Member)).collect()
        };
        assert_eq!(keys(&approver.on_seen(all(1..=8), now)), ["hook 1", "hook 2", "hook 3", "hook 4"]);
        assert_eq!(approver.on_seen(all(1..=8), now), []);
        let yes = || Said::Ended { code: Some(0), stdout: String::new(), stderr: String::new() };
        let said = approver.on_hook("permission bob perm-2-a", yes());
        assert_eq!(keys(&said), ["the hook permission bob perm-2-a", "hook 5"]);
        let mut rest = all(7..=8);
        rest.extend(all(1..=4));
        assert_eq!(approver.on_seen(rest, now), [], "the sixth has been answered by somebody");
        assert_eq!(keys(&approver.on_hook("permission bob perm-1-a", Said::TimedOut))[1], "hook 7");
    }

    #[test]
    fn an_answer_that_could_not_be_sent_is_sent_later_and_the_hook_is_not_asked_again() {
        let now = Instant::now();
        let mut approver = approver(with_hook(), Person::Absent);
        let key = "permission bob perm-1-a";
        let look = || vec![asked(1, Standing::Member)];
        approver.on_seen(look(), now);
        let no = Said::Ended { code: Some(2), stdout: String::new(), stderr: "no".into() };
        let first = approver.on_hook(key, no);
        assert_eq!(keys(&first), [format!("the hook {key}")]);
        approver.on_answered(key, Err(()), now);
        assert_eq!(approver.on_seen(look(), now), [], "not at once");
        assert_eq!(approver.on_seen(look(), now + RETRY_AFTER), first, "the same answer");
        assert_eq!(approver.on_seen(look(), now + RETRY_AFTER), []);
        approver.on_answered(key, Ok(IsOurs::Yes), now);
        assert_eq!(approver.on_seen(look(), now + 2 * RETRY_AFTER), []);
    }
}
