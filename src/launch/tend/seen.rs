//! What the agent's driver sees of it, kept in the member's file: from its screen, and at the start from its inbox.

use super::Tend;
use crate::driver;
use crate::protocol::{Entry, names, timestamp};
use crate::store::{Doing, MailWay, Sight};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};

/// Pause after output before the screen is looked at: programs paint in pieces.
const LOOK_AFTER: Duration = Duration::from_millis(150);
/// How often the inbox is looked at until the first poll.
const FIRST_POLL_EVERY: Duration = Duration::from_millis(100);
/// How long a dialog must stand during the start to count: some are only painted over.
const DIALOG_STANDS: Duration = Duration::from_secs(1);

/// When to look, and what is waited for.
#[derive(Debug, Default)]
pub(super) struct Seeing {
    look_at: Option<Instant>,
    /// Mail lay in the inbox at the start: once it is gone, the program has polled.
    awaits_first_poll: bool,
    dialog_since: Option<Instant>,
}

impl Seeing {
    pub(super) fn due(&self) -> Option<Instant> {
        self.look_at
    }
}

impl Tend {
    /// The agent has been started.
    pub(super) fn begin_to_see(&mut self) {
        if !driver::sees(&self.launch.driver) {
            return;
        }
        let waits = self.launch.mail == MailWay::Removed && self.has_mail();
        self.seeing = Seeing {
            awaits_first_poll: waits,
            look_at: Some(Instant::now() + FIRST_POLL_EVERY),
            dialog_since: None,
        };
        self.set_sight(Sight::new(Doing::Starting));
        if driver::tells(&self.launch.driver) {
            // It tells when it is ready, and goes on by itself with its transcript and its mail.
            self.seeing.look_at = None;
            return;
        }
        if self.record.restarts > 0 && self.launch.mail.is_awaited() {
            self.tell_of_restart();
        }
    }

    /// Tells the agent that it was started again: nobody else would set it going. Its start has a later time than mail
    /// that was signed before, so this is written now.
    fn tell_of_restart(&mut self) {
        let has_conversation = self.launch.session.as_ref().is_some_and(|s| s.transcript().is_some());
        let first = self.launch.prompt.as_ref().filter(|_| !has_conversation);
        let text = format!(
            "throng has started you again: your process had ended ({}). {}What you were doing may be unfinished: look, and go on.{}",
            self.exit,
            if has_conversation { "You go on in the conversation that you had. " } else { "" },
            first.map_or(String::new(), |prompt| format!("\n\nWhat you were told first:\n{prompt}")),
        );
        let (store, agent) = (self.store.clone(), self.launch.agent.clone());
        // The lock may have to be waited for, and `tend` waits for nothing.
        self.telling = Some(std::thread::spawn(move || {
            let id = uuid::Uuid::new_v4().to_string();
            let entry = Entry::new(names::LEAD, &text, &timestamp::format(SystemTime::now()), &id);
            if let Err(e) = store.mailbox(&agent).append(&entry) {
                tracing::error!(error = %e, "the agent was not told that it was started again");
            }
        }));
    }

    /// Whether mail waits; a file that cannot be read is no proof that it does not.
    fn has_mail(&self) -> bool {
        !self.store.mailbox(&self.launch.agent).is_empty_now()
    }

    /// It has printed something.
    pub(super) fn has_printed(&mut self) {
        if self.record.sight.is_some() && !driver::tells(&self.launch.driver) {
            self.seeing.look_at.get_or_insert(Instant::now() + LOOK_AFTER);
        }
    }

    /// Looks, if it is time to.
    pub(super) fn see(&mut self) {
        let now = Instant::now();
        if self.child.is_none() || self.seeing.look_at.is_none_or(|at| now < at) {
            return;
        }
        self.seeing.look_at = None;
        let Some(doing) = self.record.sight.as_ref().map(|s| s.doing) else { return };
        let is_starting = doing == Doing::Starting;
        let mut sight = match self.sight_of_table() {
            Some((sight, look_again)) => {
                self.seeing.look_at = look_again;
                sight
            }
            None => driver::sight(&self.launch.driver, &self.screen.text()),
        };
        if is_starting {
            self.seeing.look_at = Some(now + FIRST_POLL_EVERY);
            let is_dialog = sight.as_ref().is_some_and(|s| s.doing == Doing::NeedsHuman);
            self.seeing.dialog_since = is_dialog.then(|| self.seeing.dialog_since.unwrap_or(now));
            if is_dialog {
                let stands = self.seeing.dialog_since.is_some_and(|since| now - since >= DIALOG_STANDS);
                sight = sight.filter(|_| stands);
            } else if self.seeing.awaits_first_poll {
                self.seeing.awaits_first_poll = self.has_mail();
                // Mail that is gone has begun a turn, whatever the screen shows yet.
                sight = (!self.seeing.awaits_first_poll).then(|| Sight::new(Doing::Working));
            }
        }
        let Some(sight) = sight else { return };
        let is_new =
            self.record.sight.as_ref().is_none_or(|s| s.doing != sight.doing || s.what != sight.what);
        if is_new {
            let has_become_ready = is_starting && sight.doing != Doing::NeedsHuman;
            self.set_sight(sight);
            if has_become_ready {
                self.note_ready();
                self.is_to_be_fed_now();
                // What it does now is seen once it has painted it.
                self.seeing.look_at = Some(now + LOOK_AFTER);
            }
        }
    }

    /// The agent tells what it is doing; answers its request.
    pub(super) fn agent_tells(&mut self, doing: Doing) -> Value {
        let is_running = self.child.is_some() && driver::tells(&self.launch.driver);
        let Some(before) = self.record.sight.as_ref().map(|s| s.doing).filter(|_| is_running) else {
            return json!({"error": "this agent is not one that tells what it is doing"});
        };
        if before != doing {
            self.set_sight(Sight::new(doing));
        }
        if before == Doing::Starting {
            self.note_ready();
        }
        json!({"noted": true})
    }

    pub(super) fn set_sight(&mut self, mut sight: Sight) {
        sight.since = timestamp::format(SystemTime::now());
        if let Some(what) = &sight.what {
            self.store.note("member_needs_human", &json!({"agent": self.launch.agent, "what": what}));
        }
        self.record.sight = Some(sight);
        self.save();
    }
}
