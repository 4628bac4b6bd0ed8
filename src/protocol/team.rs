//! The team file `config.json` (protocol II.2).

use super::names::LEAD;
use super::{AgentName, TeamName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A team: metadata and members. Unknown fields survive in `extra`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    /// Team name; an older variant calls it `teamName`.
    #[serde(alias = "teamName", default)]
    pub name: String,
    /// Milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// `team-lead@{team}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead_agent_id: Option<String>,
    /// Session of the leader, a UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead_session_id: Option<String>,
    /// The leader first, then the members as they joined. Rows without id or name are not members.
    #[serde(default)]
    pub members: Vec<Member>,
    /// What other programs wrote.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One member's row. Only `agentId` and `name` are required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    /// `{name}@{team}`.
    pub agent_id: String,
    /// The name messages are addressed to.
    pub name: String,
    /// One of the fixed colours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<u64>,
    /// `leader`, `%N` of tmux, an iTerm2 session id, `in-process`; absent for a plain process of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmux_pane_id: Option<String>,
    /// Always `[]`.
    pub subscriptions: Vec<Value>,
    /// Type of agent, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `in-process`, `tmux` or `iterm2`; absent for a plain process of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_type: Option<String>,
    /// What other programs wrote.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Team {
    /// A new team with its leader's row.
    pub fn new(name: &TeamName, session: &str, now_ms: u64, cwd: &str) -> Team {
        let lead = AgentName::lead().id(name);
        Team {
            name: name.as_str().to_owned(),
            created_at: Some(now_ms),
            lead_agent_id: Some(lead.clone()),
            lead_session_id: Some(session.to_owned()),
            members: vec![Member {
                agent_id: lead,
                name: AgentName::lead().as_str().to_owned(),
                agent_type: Some(AgentName::lead().as_str().to_owned()),
                joined_at: Some(now_ms),
                tmux_pane_id: Some("leader".to_owned()),
                cwd: Some(cwd.to_owned()),
                backend_type: Some("in-process".to_owned()),
                ..Member::default()
            }],
            extra: Map::new(),
        }
    }

    /// The member of that name, without regard to case.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.name.eq_ignore_ascii_case(name))
    }

    /// Name of the leader that the file records: that of the row with `leadAgentId`, else the id's own, else the usual.
    pub fn leader_name(&self) -> &str {
        let Some(id) = self.lead_agent_id.as_deref() else { return LEAD };
        let row = self.members.iter().find(|m| m.agent_id == id && !m.name.is_empty());
        let name = row.map_or(id.split('@').next().unwrap_or_default(), |m| m.name.as_str());
        if name.is_empty() { LEAD } else { name }
    }

    /// Teammates in the order they joined: every well-formed row but the leader's.
    pub fn teammates(&self) -> impl Iterator<Item = (AgentName, &Member)> {
        self.members
            .iter()
            .filter(|m| !m.agent_id.is_empty())
            .filter_map(|m| Some((AgentName::new(&m.name).ok()?, m)))
            .filter(|(name, _)| !name.is_lead())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_survive_in_team_and_member() {
        let text = r#"{"name":"t","members":[{"agentId":"a@t","name":"a","isActive":false,"x":[1]}],"teamAllowedPaths":[],"leadProcess":{"pid":1}}"#;
        let team: Team = serde_json::from_str(text).unwrap();
        let back: Value = serde_json::to_value(&team).unwrap();
        assert_eq!(back["teamAllowedPaths"], serde_json::json!([]));
        assert_eq!(back["leadProcess"]["pid"], 1);
        assert_eq!(back["members"][0]["isActive"], false);
        assert_eq!(back["members"][0]["x"], serde_json::json!([1]));
    }

    #[test]
    fn an_older_file_with_team_name_is_read() {
        let team: Team = serde_json::from_str(r#"{"teamName":"old","members":[{"name":"x"}]}"#).unwrap();
        assert_eq!(team.name, "old");
        assert_eq!(team.teammates().count(), 0, "a row without id is no member");
    }

    #[test]
    fn the_leader_is_whom_the_file_records() {
        let name = |text: &str| serde_json::from_str::<Team>(text).unwrap().leader_name().to_owned();
        assert_eq!(name("{}"), "team-lead");
        assert_eq!(name(r#"{"leadAgentId":"boss@t"}"#), "boss");
        let rows = r#"{"leadAgentId":"1@t","members":[{"agentId":"1@t","name":"chief"}]}"#;
        assert_eq!(name(rows), "chief");
    }
}
