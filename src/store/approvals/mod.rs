//! Approvals: requests in the leader's inbox, and their answers, each given once. The inboxes suffice to know what is
//! asked; `approvals.jsonl` gives requests their numbers and remembers verdicts, written before they are sent, so that a
//! killed approver neither loses nor changes its word.

mod file;

use super::{Error, Mailbox, Result, TeamStore};
use crate::protocol::approval::{self, Kind, Request, Verdict};
use crate::protocol::{AgentName, Entry, body, timestamp};
use crate::sys::flock::Flock;
use crate::sys::{atomic_file, fault};
use file::{Decided, Known, Line};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

/// Longest line that tells what is asked, in characters.
const WHAT_CHARS_MAX: usize = 200;

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum By {
    /// Somebody, by a verb.
    Person,
    /// A rule of the team file, by its number from 1.
    Rule {
        /// Its number.
        rule: usize,
    },
    /// The team file's hook.
    Hook,
    /// Nobody was there to ask.
    Nobody,
    /// A program that is not ours, as its answer shows.
    Another,
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            By::Person => f.write_str("a person"),
            By::Rule { rule } => write!(f, "rule {rule}"),
            By::Hook => f.write_str("the hook"),
            By::Nobody => f.write_str("throng, since nobody was there to ask"),
            By::Another => f.write_str("another program"),
        }
    }
}

/// A verdict that was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// Yes or no.
    pub allow: bool,
    /// Who gave it.
    pub by: By,
    /// When, RFC 3339.
    pub time: String,
    /// What the asker was told with a no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// A request, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its number in this team, from 1.
    pub number: u64,
    /// See [`Request::key`].
    pub key: String,
    /// Who asks.
    pub from: AgentName,
    /// What is asked for.
    pub kind: Kind,
    /// The request's own id.
    pub id: String,
    /// When it was sent, as its entry says.
    pub asked: String,
    /// What is asked, in one line.
    pub what: String,
    /// The request, as long as it stands in the leader's inbox.
    pub request: Option<Request>,
    /// What was answered.
    pub answered: Option<Answered>,
}

impl Approval {
    /// Whether it waits for an answer, as far as files tell: whether its asker lives is for the caller to see.
    pub fn is_open(&self) -> bool {
        self.answered.is_none() && self.request.is_some()
    }
}

/// A verdict that is to be given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// Yes or no.
    pub verdict: Verdict,
    /// Who gives it.
    pub by: By,
}

/// What came of giving a verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It was sent.
    Sent(Answered),
    /// Another was given before.
    Already(Answered),
    /// An answer was sent before; what it was is not written down any more.
    Forgotten,
    /// The request is not there any more.
    Gone,
}

impl TeamStore {
    /// Every request that was ever seen, or stands in the leader's inbox, by number. Changes nothing.
    ///
    /// # Errors
    /// The file system's.
    pub fn approvals(&self) -> Result<Vec<Approval>> {
        Ok(self.merged(&self.known_approvals()?, self.requests()?))
    }

    /// The same, after new requests were given their numbers and told in the event log, and what a killed approver had
    /// decided was sent.
    ///
    /// # Errors
    /// The file system's.
    pub fn take_notice_of_approvals(&self) -> Result<Vec<Approval>> {
        let known = self.known_approvals()?;
        let requests = self.requests()?;
        let is_new = |r: &Request| known.get(&r.key()).is_none_or(|k| k.seen.is_none());
        let is_cut = known.values().any(|k| k.decided.as_ref().is_some_and(|d| !d.is_sent));
        // Another's team is only looked at.
        if !self.state().manifest().exists() || (!is_cut && !requests.iter().any(is_new)) {
            return Ok(self.merged(&known, requests));
        }
        // Whoever has it is writing down the same.
        let Some(_lock) = Flock::try_acquire(&self.state().approvals_lock())? else {
            return Ok(self.merged(&known, requests));
        };
        let known = self.known_approvals()?;
        let all = self.merged(&known, self.requests()?);
        for new in all.iter().filter(|a| known.get(&a.key).is_none_or(|k| k.seen.is_none())) {
            self.write_seen(new)?;
        }
        for (key, decided) in known.iter().filter_map(|(key, k)| Some((key, k.decided.as_ref()?))) {
            if !decided.is_sent {
                self.settle(key, decided, &all)?;
            }
        }
        Ok(all)
    }

    /// Gives a verdict, if none was given before: of two at once, one counts. It is written down, sent to the asker from
    /// the leader, told in the event log, and the request is marked read.
    ///
    /// # Errors
    /// A lock was not had in time, a file could not be written, the key to sign it with is gone, or the team is not ours;
    /// then nothing was decided.
    pub fn answer(&self, key: &str, given: &Given) -> Result<Answer> {
        if !self.state().manifest().exists() {
            return Err(Error::NotOurs(self.name.clone()));
        }
        let _lock = Flock::acquire_within(&self.state().approvals_lock(), self.lock_budget)?;
        let known = self.known_approvals()?;
        let all = self.merged(&known, self.requests()?);
        let Some(approval) = all.iter().find(|a| a.key == key) else { return Ok(Answer::Gone) };
        if known.get(key).is_none_or(|k| k.seen.is_none()) {
            self.write_seen(approval)?;
        }
        if let Some(answered) = &approval.answered {
            if let Some(decided) = known.get(key).and_then(|k| k.decided.as_ref()).filter(|d| !d.is_sent) {
                self.settle(key, decided, &all)?;
            }
            return Ok(Answer::Already(answered.clone()));
        }
        let Some(request) = &approval.request else { return Ok(Answer::Gone) };
        if self.was_sent(&request.answer_id(), &approval.from)? {
            return Ok(Answer::Forgotten);
        }
        let now = timestamp::format(SystemTime::now());
        let feedback = match &given.verdict {
            Verdict::Allow(_) => None,
            Verdict::Deny(feedback) => Some(feedback.clone()),
        };
        let decided = Decided {
            answered: Answered {
                allow: given.verdict.is_allow(),
                by: given.by.clone(),
                time: now.clone(),
                feedback,
            },
            entry: request.answer(&given.verdict, &now),
            request: request.entry.identity(),
            is_sent: false,
        };
        self.write_approval(&Line::Decided {
            key: key.to_owned(),
            answered: decided.answered.clone(),
            entry: Box::new(decided.entry.clone()),
            request: decided.request.clone(),
        })?;
        fault::point("approval:decided");
        if let Err(e) = self.settle(key, &decided, &all) {
            self.write_approval(&Line::Withdrawn { key: key.to_owned() })?;
            return Err(e);
        }
        if let Err(e) = self.keep_approvals_small() {
            tracing::warn!(error = %e, "the file of what was answered grows");
        }
        Ok(Answer::Sent(decided.answered))
    }

    /// Sends what was decided, unless it was sent, and writes down that it was.
    fn settle(&self, key: &str, decided: &Decided, all: &[Approval]) -> Result<()> {
        let Some(approval) = all.iter().find(|a| a.key == key) else { return Ok(()) };
        let id = decided.entry.msg_id.clone().unwrap_or_default();
        if !self.was_sent(&id, &approval.from)? {
            self.mailbox(&approval.from).append_any(&decided.entry)?;
        }
        fault::point("approval:sent");
        self.write_approval(&Line::Sent { key: key.to_owned() })?;
        fault::point("approval:noted");
        let Answered { allow, by, feedback, .. } = &decided.answered;
        let mut about = json!({
            "number": approval.number, "from": approval.from, "kind": approval.kind, "request_id": approval.id,
            "allow": allow, "feedback": feedback, "by": by.to_string(),
        });
        // The tagged form: how, and the rule's number.
        if let (Some(about), Ok(serde_json::Value::Object(how))) =
            (about.as_object_mut(), serde_json::to_value(by))
        {
            about.extend(how);
        }
        self.note("approval_answered", &about);
        let is_unread = approval.request.as_ref().is_some_and(|r| !r.entry.read);
        if is_unread && let Err(e) = self.lead_mail().mark_read(std::slice::from_ref(&decided.request)) {
            // It is answered all the same.
            tracing::warn!(error = %e, "an answered request was not marked read");
        }
        Ok(())
    }

    /// Whether a verdict of this id ever was in an inbox. Anybody can know the id, so one that its owner does not believe
    /// is none.
    fn was_sent(&self, id: &str, to: &AgentName) -> Result<bool> {
        for entry in self.mailbox(to).entries()?.entries {
            if entry.msg_id.as_deref() == Some(id) && self.is_taken_for_the_leaders(&entry, to)? {
                return Ok(true);
            }
        }
        self.is_journaled(id, to)
    }

    /// Identities of the messages that `mark_read` must not prune: requests of members that nobody has answered.
    pub(super) fn open_requests(&self, entries: &[Entry]) -> HashSet<String> {
        let requests = approval::requests(entries);
        if requests.is_empty() {
            return HashSet::new();
        }
        let team = self.read_team().ok();
        let is_member = |name: &str| team.as_ref().is_none_or(|team| team.member(name).is_some());
        let known = self.known_approvals().unwrap_or_default();
        let is_open = |r: &Request| known.get(&r.key()).is_none_or(|k| k.decided.is_none());
        let open = requests.into_iter().filter(|r| is_open(r) && is_member(r.from.as_str()));
        open.map(|r| r.entry.identity()).collect()
    }

    fn lead_mail(&self) -> Mailbox<'_> {
        self.mailbox(&AgentName::lead())
    }

    /// The requests in the leader's inbox.
    fn requests(&self) -> Result<Vec<Request>> {
        let mailbox = self.lead_mail();
        let bytes = atomic_file::read_optional(mailbox.path())?.unwrap_or_default();
        if !approval::may_hold_requests(&bytes) {
            return Ok(Vec::new());
        }
        Ok(approval::requests(&mailbox.entries()?.entries))
    }

    /// What is known and what is asked, by number. What has none yet gets the next.
    fn merged(&self, known: &BTreeMap<String, Known>, requests: Vec<Request>) -> Vec<Approval> {
        let answered = |key: &str| known.get(key)?.decided.as_ref().map(|d| d.answered.clone());
        let mut all: Vec<Approval> = known.values().filter_map(|k| k.seen.clone()).collect();
        let mut last = all.iter().map(|a| a.number).max().unwrap_or(0);
        for request in requests {
            let key = request.key();
            if let Some(approval) = all.iter_mut().find(|a| a.key == key) {
                approval.request = Some(request);
                continue;
            }
            last += 1;
            all.push(Approval {
                number: last,
                from: request.from.clone(),
                kind: request.ask.kind(),
                id: request.ask.id().to_owned(),
                asked: request.entry.timestamp.clone(),
                what: body::one_line(&request.entry, WHAT_CHARS_MAX),
                answered: None,
                request: Some(request),
                key,
            });
        }
        for approval in &mut all {
            approval.answered = answered(&approval.key);
            if approval.is_open() {
                approval.answered = self.answer_of_another(approval);
            }
        }
        all.sort_by_key(|a| a.number);
        all
    }

    /// An answer in the asker's inbox of which we know nothing: our state is gone, or another program leads.
    fn answer_of_another(&self, approval: &Approval) -> Option<Answered> {
        let request = approval.request.as_ref()?;
        let entries = self.mailbox(&approval.from).entries().ok()?.entries;
        // One that the asker does not believe answers nothing.
        let is_believed = |e: &Entry| self.is_taken_for_the_leaders(e, &approval.from).unwrap_or(false);
        let answer = entries.into_iter().find(|entry| request.is_answered_by(entry) && is_believed(entry))?;
        let allow = match body::Body::parse(&answer.text) {
            body::Body::PermissionVerdict(verdict) => verdict.subtype == "success",
            body::Body::PlanVerdict(verdict) => verdict.approved,
            body::Body::SandboxVerdict(verdict) => verdict.allow,
            _ => return None,
        };
        Some(Answered { allow, by: By::Another, time: answer.timestamp, feedback: None })
    }
}
