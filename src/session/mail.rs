//! An agent's mail: its inbox watched beside the loop, what it took marked, its rests told to the leader.

use super::event::{Event, Rest};
use super::permits::{Question, Reply};
use crate::protocol::body::{self, Body, PermissionRequest, Situation, input_digest, may_say};
use crate::protocol::{AgentName, Entry, names, timestamp};
use crate::provider::Call;
use crate::store::{Error, TeamStore, notice};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// How long is waited after an inbox that could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What comes by mail.
#[derive(Debug)]
pub(super) enum Post {
    /// Something for the agent.
    Event(Event),
    /// The answer to a question.
    Verdict(Box<Entry>),
}

/// The inbox of an agent that is a member.
#[derive(Debug, Clone)]
pub struct Inbox {
    store: Arc<TeamStore>,
    agent: AgentName,
}

impl Inbox {
    /// Of this member.
    pub fn new(store: TeamStore, agent: AgentName) -> Inbox {
        Inbox { store: Arc::new(store), agent }
    }

    /// What comes into it: unread messages whenever they have changed, and the leader's request to end. Ends with the team.
    pub(super) fn watch(&self) -> mpsc::UnboundedReceiver<Post> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let inbox = self.clone();
        std::thread::spawn(move || {
            let mut watch = inbox.store.watch_mail(&inbox.agent);
            let mut told = HashSet::new();
            while !sender.is_closed() {
                let mut limit = Duration::MAX;
                if watch.has_changed() {
                    match inbox.look(&mut told, &sender) {
                        Ok(()) => {}
                        Err(Error::NoTeam(_)) => return,
                        Err(e) => {
                            tracing::warn!(error = %e, "the inbox cannot be read");
                            watch.forget();
                            limit = AGAIN_AFTER;
                        }
                    }
                }
                watch.wait(limit);
            }
        });
        receiver
    }

    /// Tells of what was not told yet.
    fn look(&self, told: &mut HashSet<String>, to: &mpsc::UnboundedSender<Post>) -> Result<(), Error> {
        let unread = self.store.mailbox(&self.agent).unread()?.entries;
        let now: HashSet<String> = unread.iter().map(Entry::identity).collect();
        let is_news = now.iter().any(|id| !told.contains(id));
        *told = now;
        if !is_news {
            return Ok(());
        }
        let (asks, says): (Vec<Entry>, Vec<Entry>) =
            unread.into_iter().partition(|entry| notice::asks_to_end(entry, &self.agent));
        // Of anybody else it is text.
        let is_verdict = |entry: &Entry| {
            entry.from == names::LEAD && matches!(Body::parse(&entry.text), Body::PermissionVerdict(_))
        };
        let (verdicts, says): (Vec<Entry>, Vec<Entry>) = says.into_iter().partition(is_verdict);
        // Nobody hears it once the session is over.
        for verdict in verdicts {
            let _ = to.send(Post::Verdict(Box::new(verdict)));
        }
        if !says.is_empty() {
            let _ = to.send(Post::Event(Event::Mail(says)));
        }
        if let Some(request) = asks.into_iter().next_back() {
            let _ = to.send(Post::Event(Event::EndAsked(Box::new(request))));
        }
        Ok(())
    }

    /// It ends, as the leader asks in this message.
    ///
    /// # Errors
    /// The inboxes cannot be written.
    pub fn agree(&self, request: &Entry) -> Result<(), Error> {
        self.store.mailbox(&self.agent).mark_read(&[request.identity()])?;
        self.store.mailbox(&AgentName::lead()).append(&notice::agreement(&self.agent, &request.text))
    }

    /// Asks the leader whether a call may run.
    pub(super) async fn ask(&self, id: &str, call: &Call, why: &str) -> Result<(), Error> {
        let request = PermissionRequest {
            request_id: id.to_owned(),
            agent_id: self.agent.to_string(),
            tool_name: call.name.clone(),
            tool_use_id: call.id.clone(),
            description: why.to_owned(),
            input: call.input.clone(),
            permission_suggestions: Vec::new(),
        };
        let text = Body::PermissionRequest(request).to_text();
        let now = timestamp::format(SystemTime::now());
        let entry = Entry::new(self.agent.as_str(), &text, &now, &uuid::Uuid::new_v4().to_string());
        let inbox = self.clone();
        let sent =
            tokio::task::spawn_blocking(move || inbox.store.mailbox(&AgentName::lead()).append(&entry));
        sent.await.unwrap_or(Ok(()))
    }

    /// The answer that a message of the leader gives to one of these questions, by its id.
    pub(super) fn answer(
        &self,
        entry: &Entry,
        pending: &BTreeMap<String, Question>,
    ) -> Option<(String, Reply)> {
        let body = Body::parse(&entry.text);
        let ids: Vec<&str> = pending.keys().map(String::as_str).collect();
        let situation = Situation { me: &self.agent, leader: names::LEAD, signature: None, pending: &ids };
        may_say(&body, entry, &situation).ok()?;
        let Body::PermissionVerdict(verdict) = body else { return None };
        let question = pending.get(&verdict.request_id)?;
        let is_for = |about: &body::ApprovedRequest| {
            about.tool_use_id == question.call.id
                && input_digest(&question.call.name, &question.call.input)
                    .is_none_or(|d| d == about.input_digest)
        };
        let reply = match verdict.subtype.as_str() {
            // An answer to another question of the same id is none to this.
            "success" if verdict.approved_request.as_ref().is_none_or(is_for) => {
                let changed = verdict.response.as_ref().and_then(|r| r.get("updated_input")).cloned();
                Reply::Yes(changed.filter(|input| *input != question.call.input))
            }
            "success" => return None,
            _ => Reply::No(verdict.error.unwrap_or_else(|| "the leader says no".to_owned())),
        };
        Some((verdict.request_id, reply))
    }

    /// These stand in the transcript: they are delivered.
    pub(super) fn mark_read(&self, identities: Vec<String>) {
        let inbox = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(e) = inbox.store.mailbox(&inbox.agent).mark_read(&identities) {
                tracing::warn!(error = %e, "mail is not marked as read; it is known from the transcript");
            }
        });
    }

    /// The leader is told that the agent rests.
    pub(super) fn tell_rest(&self, rest: &Rest) {
        let (said, failure) = match rest {
            Rest::Done(text) => (body::tail(text).to_owned(), None),
            Rest::Interrupted => (String::new(), None),
            Rest::Failed(error) => (String::new(), Some(error.to_string())),
        };
        let notice = notice::idle(&self.agent, said, failure);
        let inbox = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(e) = inbox.store.mailbox(&AgentName::lead()).append(&notice) {
                tracing::error!(error = %e, "the leader is not told that the turn is over");
            }
        });
    }
}
