//! Who is told what about a task: a new owner that it is theirs, an owner that nothing blocks it any more (protocol
//! II.7; probe E07). The mail goes out after the list's lock is released.

use super::TaskBoard;
use crate::protocol::body::{Body, TaskAssignment};
use crate::protocol::task::open_blockers;
use crate::protocol::{AgentName, Entry, Task, timestamp};
use serde_json::json;
use std::time::SystemTime;

impl TaskBoard<'_> {
    /// Notes a change in the event log, and tells whom it concerns. `all` is the list after the change.
    pub(super) fn tell(&self, before: &Task, task: &Task, all: &[Task]) {
        let ends_now = task.is_completed() && !before.is_completed();
        if task != before {
            self.note(if ends_now { "task_completed" } else { "task_changed" }, task);
        }
        if task.owner_name() != before.owner_name() {
            self.tell_owner(task);
        }
        if ends_now {
            self.tell_waiting(&task.id, all);
        }
    }

    /// Mails an owner that the task is theirs, if somebody else says so.
    pub(super) fn tell_owner(&self, task: &Task) {
        self.mail(task, &format!("task {} is yours: {}", task.id, task.subject));
    }

    /// Tells the owners of those tasks that waited for `ended` alone.
    pub(super) fn tell_waiting(&self, ended: &str, all: &[Task]) {
        let waited = |t: &&Task| t.blocked_by.iter().any(|id| id == ended) && !t.is_completed();
        for task in all.iter().filter(waited).filter(|t| open_blockers(t, all).is_empty()) {
            // A task without owner wakes nobody; who looks for work reads this.
            self.store.note(
                "task_unblocked",
                &json!({"id": task.id, "key": task.key(), "subject": task.subject, "owner": task.owner, "ended": ended}),
            );
            self.mail(task, &format!("task {} can begin, task {ended} has ended: {}", task.id, task.subject));
        }
    }

    /// Mails a member its open tasks that can begin; answers the ids of the messages.
    pub fn tell_all_of(&self, owner: &AgentName) -> Vec<String> {
        let all = self.list();
        let own = |t: &&Task| !t.is_completed() && t.owner_name() == Some(owner.as_str());
        let can_begin = all.iter().filter(own).filter(|t| open_blockers(t, &all).is_empty());
        can_begin.filter_map(|t| self.mail(t, &format!("task {} is yours: {}", t.id, t.subject))).collect()
    }

    /// Answers the message's id, if there was one to send.
    fn mail(&self, task: &Task, summary: &str) -> Option<String> {
        let by = self.by.as_ref()?;
        let owner = task.owner_name().filter(|o| *o != by.as_str()).and_then(|o| AgentName::new(o).ok())?;
        let now = timestamp::format(SystemTime::now());
        let body = Body::TaskAssignment(TaskAssignment {
            task_id: task.id.clone(),
            subject: task.subject.clone(),
            description: task.description.clone(),
            assigned_by: by.to_string(),
            timestamp: now.clone(),
        });
        let id = uuid::Uuid::new_v4().to_string();
        let mut entry = Entry::new(by.as_str(), &body.to_text(), &now, &id);
        entry.summary = Some(summary.chars().take(200).collect());
        // The task's file is the truth; the owner finds it there without mail too.
        if let Err(e) = self.store.mailbox(&owner).append(&entry) {
            tracing::warn!(task = task.id, %owner, error = %e, "owner not told");
            self.store
                .note("task_mail_failed", &json!({"id": task.id, "owner": owner, "why": e.to_string()}));
        }
        Some(id)
    }
}
