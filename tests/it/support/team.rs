//! A team's files, shared and our own, and what `throng status` says of it.

use super::World;
use super::wait::{until, until_some};
use super::world::walk;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A team's files, shared and our own.
pub struct Team<'a> {
    pub(super) world: &'a World,
    pub(super) name: String,
}

impl Team<'_> {
    pub fn dir(&self) -> PathBuf {
        self.world.config_dir().join("teams").join(&self.name)
    }

    pub fn config_path(&self) -> PathBuf {
        self.dir().join("config.json")
    }

    pub fn inbox_path(&self, agent: &str) -> PathBuf {
        self.dir().join("inboxes").join(format!("{agent}.json"))
    }

    pub fn tasks_dir(&self) -> PathBuf {
        self.world.config_dir().join("tasks").join(&self.name)
    }

    pub fn task_path(&self, id: &str) -> PathBuf {
        self.tasks_dir().join(format!("{id}.json"))
    }

    pub fn state_dir(&self) -> PathBuf {
        self.world.state_dir().join("teams").join(&self.name)
    }

    pub fn config(&self) -> Value {
        read_json(&self.config_path())
    }

    /// Names in the team file, the leader's among them.
    pub fn roster(&self) -> Vec<String> {
        let config = self.config();
        let rows = config["members"].as_array().unwrap();
        rows.iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect()
    }

    /// All entries of an inbox, read or not.
    pub fn inbox(&self, agent: &str) -> Vec<Value> {
        let path = self.inbox_path(agent);
        let Value::Array(entries) = read_json(&path) else { panic!("{} is no array", path.display()) };
        entries
    }

    /// The texts of an inbox.
    pub fn texts(&self, agent: &str) -> Vec<String> {
        self.inbox(agent).iter().map(|e| e["text"].as_str().unwrap().to_owned()).collect()
    }

    /// Writes an inbox as it shall be found.
    pub fn plant_inbox(&self, agent: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.inbox_path(agent);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn task(&self, id: &str) -> Value {
        read_json(&self.task_path(id))
    }

    /// Writes a task file as it shall be found.
    pub fn plant_task(&self, id: &str, task: &Value) {
        fs::create_dir_all(self.tasks_dir()).unwrap();
        fs::write(self.task_path(id), serde_json::to_string_pretty(task).unwrap()).unwrap();
    }

    /// The event log.
    pub fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.state_dir().join("events.jsonl")).unwrap_or_default();
        // The last line may be on its way.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Copies of damaged files.
    pub fn quarantined(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        walk(&self.state_dir().join("quarantine"), &mut |path, _| all.push(path.to_owned()));
        all.sort();
        all
    }

    /// The team as `throng status --json` shows it.
    pub fn status(&self) -> Value {
        self.world.throng(["status", "--json", "--team", &self.name]).run().ok().json()
    }

    /// One member as `throng status --json` shows it, or null.
    pub fn member(&self, name: &str) -> Value {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|m| m["name"] == name).cloned().unwrap_or_default()
    }

    /// The word for what a member is doing; empty if there is no such member.
    pub fn member_state(&self, name: &str) -> String {
        self.member(name)["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a member is what the word says.
    pub fn until_member(&self, name: &str, state: &str) -> Value {
        until(&format!("{name} is {state}"), || {
            let status = self.world.throng(["status", "--json", "--team", &self.name]).run();
            // The team may still be in the making.
            status.code == Some(0) && self.member_state(name) == state
        });
        self.member(name)
    }

    /// Pid of the agent's own process, once it runs.
    pub fn pid(&self, name: &str) -> i32 {
        let pid = until_some(&format!("{name} runs"), || self.member(name)["pid"].as_i64());
        i32::try_from(pid).unwrap()
    }

    /// Pid of a member's `tend`.
    pub fn tend(&self, name: &str) -> i32 {
        i32::try_from(self.member(name)["tend"].as_i64().expect("it has a tend")).unwrap()
    }

    /// Pid of the leader.
    pub fn leader(&self) -> i32 {
        let leader = &self.status()["leader"];
        i32::try_from(leader["process"]["pid"].as_i64().expect("it has a leader")).unwrap()
    }
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", path.display()))
}
