//! Who answers what members ask: a rule of the team file, its hook, a person, or nobody (F3). The decisions are pure; the
//! answers are the store's.

use super::Led;
use super::state::Action;
use crate::config::approvals::{Nobody, Policy};
use crate::hooks::{self, Hook, Said};
use crate::launch::{Life, MemberView};
use crate::permission::{Decision, judge};
use crate::protocol::approval::{Ask, Kind, MODES, Terms, Verdict};
use crate::protocol::{TeamName, timestamp};
use crate::store::{self, Approval, By, Given, TeamStore};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How exactly the start of a process is known.
const START_IS_SURE_TO: Duration = Duration::from_millis(50);
/// Longest feedback that is taken from a hook's complaint, in characters.
const FEEDBACK_CHARS_MAX: usize = 4000;
/// What a hook may print on its standard output.
const HOOK_KEYS: [&str; 3] = ["mode", "feedback", "updated_input"];
/// Exit code of a hook that says no.
const NO: i32 = 2;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The hook is asked.
    Hook,
    /// An answer is being sent.
    Answering,
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
            asked: HashMap::new(),
            unanswered: HashMap::new(),
        }
    }

    /// What is to be done about the requests that are there now.
    pub(super) fn on_seen(&mut self, all: Vec<Asked>) -> Vec<Action> {
        let mut actions = Vec::new();
        for asked in all.into_iter().filter(Asked::is_open) {
            let key = asked.approval.key.clone();
            if self.stages.contains_key(&key) {
                continue;
            }
            let Some(request) = &asked.approval.request else { continue };
            self.asked.insert(key.clone(), asked.clone());
            let decision = match asked.standing {
                Standing::Member => judge(&self.policy, request),
                Standing::Stranger | Standing::Gone => Decision::Ask,
            };
            actions.extend(match decision {
                Decision::Allow { rule, mode } => {
                    let verdict = Verdict::Allow(Terms { mode, ..Terms::default() });
                    self.answer(&key, verdict, By::Rule { rule })
                }
                Decision::Deny { rule, feedback } => {
                    self.answer(&key, Verdict::Deny(feedback), By::Rule { rule })
                }
                Decision::Nothing if self.policy.hook.is_some() => {
                    self.stages.insert(key, Stage::Hook);
                    vec![Action::AskHook(Box::new(asked))]
                }
                Decision::Nothing | Decision::Ask => self.ask_a_person(&key),
            });
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
        match verdict {
            Ok(verdict) => self.answer(key, verdict, By::Hook),
            Err(trouble) => {
                let why = format!("the approval hook {trouble}");
                if self.person == Person::Absent {
                    self.tell_unanswered(key, &why);
                }
                self.answer(key, Verdict::Deny(format!("denied: {why}")), By::Hook)
            }
        }
    }

    /// An answer is sent (`Ok`, whether it was ours that counts), or could not be.
    pub(super) fn on_answered(&mut self, key: &str, sent: Result<IsOurs, ()>) {
        match sent {
            Ok(IsOurs::Yes) => {}
            // Somebody else was there to answer.
            Ok(IsOurs::No) => drop(self.unanswered.remove(key)),
            // The next look begins anew.
            Err(()) => drop(self.stages.remove(key)),
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
        self.stages.insert(key.to_owned(), Stage::Answering);
        let given = Given { verdict, by };
        vec![Action::Answer(Box::new(Answering { key: key.to_owned(), given }))]
    }

    fn ask_a_person(&mut self, key: &str) -> Vec<Action> {
        let Some(asked) = self.asked.get(key) else { return Vec::new() };
        let waits = self.person == Person::Asked || self.policy.when_nobody_answers == Nobody::Wait;
        if waits {
            self.stages.insert(key.to_owned(), Stage::Waiting);
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

/// The verdict of a hook that ended, or what is wrong with it.
fn meant(kind: Kind, code: Option<i32>, stdout: &str, stderr: &str) -> Result<Verdict, String> {
    let complaint = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
    let terms = match code {
        None => return Err(format!("was ended by a signal{complaint}")),
        Some(0 | NO) => terms(stdout)?,
        Some(code) => return Err(format!("failed with exit code {code}{complaint}")),
    };
    let text = |key: &str| match terms.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("printed a '{key}' that is no text")),
    };
    let (mode, feedback) = (text("mode")?, text("feedback")?);
    if code == Some(NO) {
        let said = feedback.unwrap_or_else(|| stderr.chars().take(FEEDBACK_CHARS_MAX).collect());
        let said = if said.is_empty() { "denied by the approval hook".to_owned() } else { said };
        return Ok(Verdict::Deny(said));
    }
    if let Some(mode) = mode.as_ref().filter(|mode| !MODES.contains(&mode.as_str())) {
        return Err(format!("printed an unknown mode '{mode}': known are {}", MODES.join(", ")));
    }
    let input = terms.get("updated_input").filter(|input| !input.is_null()).cloned();
    match &input {
        Some(_) if kind != Kind::Permission => {
            return Err("printed an updated_input for what has no input".to_owned());
        }
        Some(input) if !input.is_object() => {
            return Err("printed an updated_input that is no JSON object".to_owned());
        }
        _ => {}
    }
    Ok(Verdict::Allow(Terms { mode, input, updates: Vec::new() }))
}

/// What a hook printed. A yes that cannot be read whole might have meant something else.
fn terms(stdout: &str) -> Result<Map<String, Value>, String> {
    if stdout.trim().is_empty() {
        return Ok(Map::new());
    }
    let terms: Map<String, Value> = serde_json::from_str(stdout)
        .map_err(|_| "printed what is no JSON object: it belongs on standard error".to_owned())?;
    match terms.keys().find(|key| !HOOK_KEYS.contains(&key.as_str())) {
        Some(key) => Err(format!("printed an unknown key '{key}': known are {}", HOOK_KEYS.join(", "))),
        None => Ok(terms),
    }
}

/// Asks the team file's hook, beside the loop.
pub(super) fn ask_hook(led: &Led, asked: &Asked, is_wanted: &dyn Fn() -> bool) -> Said {
    let Some(hook) = &led.manifest.approvals.hook else {
        return Said::NotRun("the team file has none".to_owned());
    };
    let (layout, environment) = (led.store.layout(), &led.config.environment);
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let env = BTreeMap::from([
        ("THRONG_TEAM".to_owned(), led.store.name().to_string()),
        ("THRONG_DIR".to_owned(), text(&led.manifest.dir)),
        ("THRONG_STATE_DIR".to_owned(), text(&layout.state_dir)),
        ("CLAUDE_CONFIG_DIR".to_owned(), text(&layout.config_dir)),
        ("PATH".to_owned(), format!("{}:{}", text(&led.store.state().bin()), environment.search_path())),
    ]);
    let timeout = Duration::from_millis(hook.timeout_ms);
    let hook = Hook { event: "approval", command: &hook.command, cwd: &hook.cwd, env: &env, timeout };
    let mut input = about(asked);
    input["team"] = json!(led.store.name());
    hooks::run(&hook, &input, is_wanted)
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

    #[test]
    fn what_a_hook_means() {
        let yes = |stdout: &str| meant(Kind::Permission, Some(0), stdout, "");
        assert_eq!(yes(" \n"), Ok(Verdict::allow()));
        let terms = Terms { input: Some(json!({"command": "ls"})), ..Terms::default() };
        assert_eq!(yes(r#"{"updated_input": {"command": "ls"}}"#), Ok(Verdict::Allow(terms)));
        let mode = Terms { mode: Some("acceptEdits".into()), ..Terms::default() };
        let plan = meant(Kind::Plan, Some(0), r#"{"mode": "acceptEdits"}"#, "chatter");
        assert_eq!(plan, Ok(Verdict::Allow(mode)));
        for bad in [
            "ok",
            "{\"updated_input\": {\"comm",
            "[]",
            "{} {}",
            r#"{"allow": true}"#,
            r#"{"mode": "yolo"}"#,
            r#"{"mode": 3}"#,
            r#"{"updated_input": "ls"}"#,
        ] {
            assert!(yes(bad).is_err(), "{bad}");
        }
        assert!(meant(Kind::Plan, Some(0), r#"{"updated_input": {}}"#, "").is_err());
        let no = |stdout: &str, stderr: &str| meant(Kind::Permission, Some(2), stdout, stderr).unwrap();
        assert_eq!(no("", "not on Fridays"), Verdict::Deny("not on Fridays".into()));
        assert_eq!(no(r#"{"feedback": "f"}"#, "chatter"), Verdict::Deny("f".into()));
        assert_eq!(no("", ""), Verdict::Deny("denied by the approval hook".into()));
        let failed = meant(Kind::Permission, Some(1), "", "oops").unwrap_err();
        assert_eq!(failed, "failed with exit code 1: oops");
        assert!(
            meant(Kind::Permission, None, "", "").is_err() && meant(Kind::Plan, Some(126), "", "").is_err()
        );
    }
}
