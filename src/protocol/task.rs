//! One task of the shared list, one file each (protocol II.7).

use super::AgentName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody works on it.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Ended, well or badly (see [`Task::failure`]).
    Completed,
}

impl Status {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
        }
    }
}

/// A task. The original drops unknown top-level keys, so what only we need stands in `metadata.throng`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Decimal number, as text.
    pub id: String,
    /// One line.
    #[serde(default)]
    pub subject: String,
    /// All there is to know.
    #[serde(default)]
    pub description: String,
    /// What is shown while it is worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// Name of the member it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How far it is.
    pub status: Status,
    /// Tasks that wait for this one.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Tasks that this one waits for.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// Free for everybody; ours is under `throng`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// What other programs wrote.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Task {
    /// A new, pending task.
    pub fn new(id: u64, subject: &str) -> Task {
        Task {
            id: id.to_string(),
            subject: subject.to_owned(),
            description: String::new(),
            active_form: None,
            owner: None,
            status: Status::Pending,
            blocks: Vec::new(),
            blocked_by: Vec::new(),
            metadata: None,
            extra: Map::new(),
        }
    }

    fn ours(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get("throng")?.get(key)?.as_str()
    }

    fn set_ours(&mut self, key: &str, value: Option<&str>) {
        let metadata = self.metadata.get_or_insert_default();
        let ours = metadata.entry("throng").or_insert_with(|| Value::Object(Map::new()));
        if !ours.is_object() {
            *ours = Value::Object(Map::new());
        }
        if let Value::Object(ours) = ours {
            match value {
                Some(value) => ours.insert(key.to_owned(), Value::from(value)),
                None => ours.shift_remove(key),
            };
        }
    }

    /// The key the team file gave it.
    pub fn key(&self) -> Option<&str> {
        self.ours("key")
    }

    /// Gives it a key.
    pub fn set_key(&mut self, key: &str) {
        self.set_ours("key", Some(key));
    }

    /// Why it failed, if it was completed without success.
    pub fn failure(&self) -> Option<&str> {
        (self.is_completed() && self.ours("outcome") == Some("failed"))
            .then(|| self.ours("why").unwrap_or("no reason given"))
    }

    /// Completes it: well, or with the reason of its failure.
    pub fn complete(&mut self, failure: Option<&str>) {
        self.status = Status::Completed;
        if failure.is_some() || self.ours("outcome").is_some() {
            self.set_ours("outcome", Some(if failure.is_some() { "failed" } else { "done" }));
            self.set_ours("why", failure);
        }
    }

    /// Takes it from an owner who is gone.
    pub fn free(&mut self) {
        let owner = self.owner.take();
        self.status = Status::Pending;
        self.set_ours("freed_from", owner.as_deref());
    }

    /// Gives it to `owner`.
    pub fn assign(&mut self, owner: &AgentName) {
        self.owner = Some(owner.as_str().to_owned());
        if self.freed_from().is_some() {
            self.set_ours("freed_from", None);
        }
    }

    /// The owner it was taken from because that one is gone for good, as long as nobody else has it.
    pub fn freed_from(&self) -> Option<&str> {
        self.ours("freed_from")
    }

    /// Name of its owner; some write the owner's id, `NAME@TEAM`.
    pub fn owner_name(&self) -> Option<&str> {
        self.owner.as_deref().and_then(|owner| owner.split('@').next()).filter(|name| !name.is_empty())
    }

    /// Whether it is completed.
    pub fn is_completed(&self) -> bool {
        self.status == Status::Completed
    }

    /// Whether `word` names it: its id or its key.
    pub fn is_called(&self, word: &str) -> bool {
        self.id == word || self.key() == Some(word)
    }

    /// The number behind its id; tasks with other ids sort last.
    pub fn number(&self) -> u64 {
        self.id.parse().unwrap_or(u64::MAX)
    }
}

/// Ids among `blocked_by` whose task is still open. A blocker that is gone blocks nobody.
pub fn open_blockers<'a>(task: &'a Task, all: &[Task]) -> Vec<&'a str> {
    task.blocked_by
        .iter()
        .filter(|id| all.iter().any(|t| t.id == **id && !t.is_completed()))
        .map(String::as_str)
        .collect()
}

/// A chain of ids that would lead from `blocker` back to `task`, if `task` were to wait for `blocker`.
pub fn cycle(task: &str, blocker: &str, all: &[Task]) -> Option<Vec<String>> {
    let mut path = vec![blocker.to_owned()];
    fn walk(task: &str, all: &[Task], path: &mut Vec<String>) -> bool {
        let Some(last) = path.last().cloned() else { return false };
        if last == task {
            return true;
        }
        let waits_for = all.iter().find(|t| t.id == last).map(|t| t.blocked_by.clone()).unwrap_or_default();
        for next in waits_for {
            if path.contains(&next) {
                continue;
            }
            path.push(next);
            if walk(task, all, path) {
                return true;
            }
            path.pop();
        }
        false
    }
    walk(task, all, &mut path).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observed_shape_is_read_and_written() {
        let text = r#"{"id":"2","subject":"Second task","description":"Second thing","status":"in_progress","blocks":[],"blockedBy":["1"],"metadata":{"n":1,"z":true},"owner":"team-lead","stranger":1}"#;
        let mut task: Task = serde_json::from_str(text).unwrap();
        task.complete(Some("broken"));
        let back: Task = serde_json::from_str(&serde_json::to_string(&task).unwrap()).unwrap();
        assert_eq!(back.failure(), Some("broken"));
        assert_eq!(back.extra["stranger"], 1);
        assert_eq!(back.metadata.as_ref().unwrap()["z"], true);
        task.complete(None);
        assert_eq!(task.failure(), None);
    }

    #[test]
    fn probe_i12_a_cycle_is_found_with_its_chain() {
        let mut all = [Task::new(1, "a"), Task::new(2, "b"), Task::new(3, "c")];
        all[1].blocked_by = vec!["1".into()];
        all[2].blocked_by = vec!["2".into()];
        assert_eq!(cycle("1", "3", &all), Some(vec!["3".into(), "2".into(), "1".into()]));
        assert_eq!(cycle("3", "1", &all), None);
        assert_eq!(cycle("1", "1", &all), Some(vec!["1".into()]));
    }
}
