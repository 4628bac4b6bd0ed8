//! An agent's mail: its inbox watched beside the loop, what it took marked, its rests told to the leader.

use super::event::{Event, Rest};
use crate::protocol::{AgentName, Entry, body};
use crate::store::{Error, TeamStore, notice};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long is waited after an inbox that could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

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
    pub(super) fn watch(&self) -> mpsc::UnboundedReceiver<Event> {
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
    fn look(&self, told: &mut HashSet<String>, to: &mpsc::UnboundedSender<Event>) -> Result<(), Error> {
        let unread = self.store.mailbox(&self.agent).unread()?.entries;
        let now: HashSet<String> = unread.iter().map(Entry::identity).collect();
        let is_news = now.iter().any(|id| !told.contains(id));
        *told = now;
        if !is_news {
            return Ok(());
        }
        let (asks, says): (Vec<Entry>, Vec<Entry>) =
            unread.into_iter().partition(|entry| notice::asks_to_end(entry, &self.agent));
        // Nobody hears it once the session is over.
        if !says.is_empty() {
            let _ = to.send(Event::Mail(says));
        }
        if let Some(request) = asks.into_iter().next_back() {
            let _ = to.send(Event::EndAsked(Box::new(request)));
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
