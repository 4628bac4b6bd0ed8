//! What a message's text says: plain words, or one JSON object of a structured kind (protocol II.3.1). Reading takes the
//! older spellings too (II.11); writing gives the observed bytes, keys in the observed order.

mod digest;
mod right;
mod say;

pub use digest::{input_digest, plan_digest};
pub use right::{Refusal, Situation, may_say};
pub use say::{Standing, for_model, harmless, harmless_lines, is_invisible, line, one_line, quoted, sender};

use super::inbox::whole_surrogates;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest `summary` and `failureReason` in characters, longest `result`.
const SUMMARY_CHARS_MAX: usize = 200;
const RESULT_CHARS_MAX: usize = 4000;

/// Kinds of the answers to requests, which only a leader gives.
const VERDICTS: [&str; 3] = ["permission_response", "plan_approval_response", "sandbox_permission_response"];

/// What a text says.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Words, whatever they look like.
    Text(String),
    /// A mate's turn has ended.
    Idle(Idle),
    /// The leader asks a mate to end.
    ShutdownRequest(ShutdownRequest),
    /// A mate ends.
    ShutdownApproved(ShutdownApproved),
    /// A mate does not end.
    ShutdownRejected(ShutdownRejected),
    /// A mate's plan, to be judged.
    PlanRequest(PlanRequest),
    /// The leader's judgement of a plan.
    PlanVerdict(PlanVerdict),
    /// A mate wants to use a tool.
    PermissionRequest(PermissionRequest),
    /// The leader's answer.
    PermissionVerdict(PermissionVerdict),
    /// A mate's sandbox wants to reach a host.
    SandboxRequest(SandboxRequest),
    /// The leader's answer.
    SandboxVerdict(SandboxVerdict),
    /// A task has got this owner.
    TaskAssignment(TaskAssignment),
    /// A task was completed; only for showing.
    TaskCompleted(TaskCompleted),
    /// A mate is gone; the leader's own note, for showing.
    TeammateTerminated(TeammateTerminated),
    /// An object of a kind that we do not know, or that lacks what its kind needs: text, as it came. So are the kinds
    /// that the original always drops.
    Unknown {
        /// Its `type`.
        kind: String,
        /// The whole text.
        text: String,
    },
}

/// `idle_notification`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idle {
    /// Who; readers use the entry's sender instead.
    #[serde(default)]
    pub from: String,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
    /// `available`, `interrupted` or `failed`.
    #[serde(default)]
    pub idle_reason: String,
    /// At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The task that this turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_task_id: Option<String>,
    /// `resolved`, `blocked` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_status: Option<String>,
    /// At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The last text of the agent, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// The end of what was said in a turn, as long as a `result` may be.
pub fn tail(text: &str) -> &str {
    let at = text.char_indices().rev().nth(RESULT_CHARS_MAX - 1).map_or(0, |(at, _)| at);
    &text[at..]
}

impl Idle {
    /// Cuts its texts to what the protocol allows.
    #[must_use]
    pub fn bounded(mut self) -> Idle {
        let cut = |text: &mut Option<String>, max| {
            *text = text.take().map(|t: String| t.chars().take(max).collect());
        };
        cut(&mut self.summary, SUMMARY_CHARS_MAX);
        cut(&mut self.failure_reason, SUMMARY_CHARS_MAX);
        cut(&mut self.result, RESULT_CHARS_MAX);
        self
    }
}

/// `shutdown_request`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownRequest {
    /// `shutdown-MS@NAME`.
    #[serde(alias = "request_id")]
    pub request_id: String,
    /// Who.
    #[serde(default)]
    pub from: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
}

/// `shutdown_approved`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownApproved {
    /// The request's.
    #[serde(alias = "request_id")]
    pub request_id: String,
    /// Who.
    #[serde(default)]
    pub from: String,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
    /// Its pane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
    /// Where it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_type: Option<String>,
}

/// `shutdown_rejected`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownRejected {
    /// The request's.
    #[serde(alias = "request_id")]
    pub request_id: String,
    /// Who.
    #[serde(default)]
    pub from: String,
    /// Why it goes on.
    #[serde(default)]
    pub reason: String,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
}

/// `shutdown_response`, the older form of both answers.
#[derive(Deserialize)]
struct ShutdownResponse {
    #[serde(alias = "requestId")]
    request_id: String,
    #[serde(alias = "approved")]
    approve: bool,
    #[serde(default)]
    from: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    timestamp: String,
}

/// `plan_approval_request`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRequest {
    /// Who.
    #[serde(default)]
    pub from: String,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
    /// Where the plan lies.
    #[serde(default)]
    pub plan_file_path: String,
    /// The plan.
    #[serde(default)]
    pub plan_content: String,
    /// `plan_approval-MS@NAME@TEAM`.
    #[serde(alias = "request_id")]
    pub request_id: String,
}

/// `plan_approval_response`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanVerdict {
    /// The request's.
    #[serde(alias = "request_id")]
    pub request_id: String,
    /// Yes or no.
    #[serde(alias = "approve")]
    pub approved: bool,
    /// What to do better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
    /// The permission mode to go on in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// [`plan_digest`] of what was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
}

/// `permission_request`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    /// `perm-{ms}-{7 base36}`.
    #[serde(alias = "requestId")]
    pub request_id: String,
    /// The agent's *name*.
    #[serde(default, alias = "agentId")]
    pub agent_id: String,
    /// The tool.
    #[serde(default)]
    pub tool_name: String,
    /// The model's call.
    #[serde(default)]
    pub tool_use_id: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// What the tool gets.
    #[serde(default)]
    pub input: Value,
    /// Rules that would allow it from now on.
    #[serde(default)]
    pub permission_suggestions: Vec<Value>,
}

/// What an approval is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovedRequest {
    /// The model's call.
    pub tool_use_id: String,
    /// The tool.
    pub tool_name: String,
    /// [`input_digest`].
    pub input_digest: String,
}

/// `permission_response`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionVerdict {
    /// The request's.
    #[serde(alias = "requestId")]
    pub request_id: String,
    /// `success` or `error`.
    pub subtype: String,
    /// The model's call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_request: Option<ApprovedRequest>,
    /// `updated_input`, which is executed as given, and `permission_updates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `sandbox_permission_request`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRequest {
    /// `sandbox-{ms}-{7 base36}`.
    #[serde(alias = "request_id")]
    pub request_id: String,
    /// The mate's id.
    #[serde(default)]
    pub worker_id: String,
    /// The mate's name.
    #[serde(default)]
    pub worker_name: String,
    /// The mate's colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_color: Option<String>,
    /// What is to be reached.
    #[serde(default)]
    pub host_pattern: HostPattern,
    /// Milliseconds since the epoch.
    #[serde(default)]
    pub created_at: u64,
}

/// A host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostPattern {
    /// Its name.
    #[serde(default)]
    pub host: String,
}

/// `sandbox_permission_response`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxVerdict {
    /// The request's.
    #[serde(alias = "request_id")]
    pub request_id: String,
    /// What may be reached.
    #[serde(default)]
    pub host: String,
    /// Yes or no.
    pub allow: bool,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
}

/// `task_assignment`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAssignment {
    /// Its id.
    pub task_id: String,
    /// One line.
    #[serde(default)]
    pub subject: String,
    /// All there is to know.
    #[serde(default)]
    pub description: String,
    /// Who gave it.
    #[serde(default)]
    pub assigned_by: String,
    /// RFC 3339.
    #[serde(default)]
    pub timestamp: String,
}

/// `task_completed`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCompleted {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its id.
    pub task_id: String,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_subject: Option<String>,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// `teammate_terminated`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TeammateTerminated {
    /// One line.
    pub message: String,
}

impl Body {
    /// What a text says. Only a text that is one JSON object with a `type` of a known kind, and with all that its kind
    /// needs, is of that kind; a code block around it, or a word behind it, makes it plain text.
    pub fn parse(text: &str) -> Body {
        // The common case is cheap.
        if !text.trim_start().starts_with('{') {
            return Body::Text(text.to_owned());
        }
        let Ok(object) = serde_json::from_str::<Map<String, Value>>(text) else {
            return Body::Text(text.to_owned());
        };
        let Some(kind) = object.get("type").and_then(Value::as_str).map(str::to_owned) else {
            return Body::Text(text.to_owned());
        };
        Body::of_kind(&kind, object).unwrap_or(Body::Unknown { kind, text: text.to_owned() })
    }

    /// The kind of what only a leader may say and is obeyed: verdicts, and asking to end. Whatever may be taken for one
    /// counts, also one that lacks what its kind needs: who reads it may be more lenient than we are.
    pub fn leaders_kind(text: &str) -> Option<&'static str> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let object: Map<String, Value> = serde_json::from_str(&whole_surrogates(text)).ok()?;
        let kind = object.get("type")?.as_str()?;
        VERDICTS.into_iter().chain(["shutdown_request"]).find(|known| *known == kind)
    }

    /// Whether it may be taken for a verdict about a request.
    pub fn may_be_verdict(text: &str) -> bool {
        Body::leaders_kind(text).is_some_and(|kind| VERDICTS.contains(&kind))
    }

    fn of_kind(kind: &str, object: Map<String, Value>) -> Option<Body> {
        fn typed<T: for<'de> Deserialize<'de>>(object: Map<String, Value>) -> Option<T> {
            serde_json::from_value(Value::Object(object)).ok()
        }
        Some(match kind {
            "idle_notification" => Body::Idle(typed(object)?),
            "shutdown_request" => Body::ShutdownRequest(typed(object)?),
            "shutdown_approved" => Body::ShutdownApproved(typed(object)?),
            "shutdown_rejected" => Body::ShutdownRejected(typed(object)?),
            "shutdown_response" => typed::<ShutdownResponse>(object)?.into(),
            "plan_approval_request" => Body::PlanRequest(typed(object)?),
            "plan_approval_response" => Body::PlanVerdict(typed(object)?),
            "permission_request" => Body::PermissionRequest(typed(object)?),
            "permission_response" => Body::PermissionVerdict(typed(object)?),
            "sandbox_permission_request" => Body::SandboxRequest(typed(object)?),
            "sandbox_permission_response" => Body::SandboxVerdict(typed(object)?),
            "task_assignment" => Body::TaskAssignment(typed(object)?),
            "task_completed" => Body::TaskCompleted(typed(object)?),
            "teammate_terminated" => Body::TeammateTerminated(typed(object)?),
            _ => return None,
        })
    }

    /// The word of its kind; plain text has none.
    pub fn kind(&self) -> Option<&str> {
        Some(match self {
            Body::Text(_) => return None,
            Body::Idle(_) => "idle_notification",
            Body::ShutdownRequest(_) => "shutdown_request",
            Body::ShutdownApproved(_) => "shutdown_approved",
            Body::ShutdownRejected(_) => "shutdown_rejected",
            Body::PlanRequest(_) => "plan_approval_request",
            Body::PlanVerdict(_) => "plan_approval_response",
            Body::PermissionRequest(_) => "permission_request",
            Body::PermissionVerdict(_) => "permission_response",
            Body::SandboxRequest(_) => "sandbox_permission_request",
            Body::SandboxVerdict(_) => "sandbox_permission_response",
            Body::TaskAssignment(_) => "task_assignment",
            Body::TaskCompleted(_) => "task_completed",
            Body::TeammateTerminated(_) => "teammate_terminated",
            Body::Unknown { kind, .. } => kind,
        })
    }

    /// The id of the request that it makes or answers.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Body::ShutdownRequest(b) => Some(&b.request_id),
            Body::ShutdownApproved(b) => Some(&b.request_id),
            Body::ShutdownRejected(b) => Some(&b.request_id),
            Body::PlanRequest(b) => Some(&b.request_id),
            Body::PlanVerdict(b) => Some(&b.request_id),
            Body::PermissionRequest(b) => Some(&b.request_id),
            Body::PermissionVerdict(b) => Some(&b.request_id),
            Body::SandboxRequest(b) => Some(&b.request_id),
            Body::SandboxVerdict(b) => Some(&b.request_id),
            _ => None,
        }
    }

    /// The text of a message that says it, in the observed form.
    pub fn to_text(&self) -> String {
        match self {
            Body::Text(text) | Body::Unknown { text, .. } => text.clone(),
            _ => Value::Object(self.fields()).to_string(),
        }
    }

    /// The text of a message that says it in answer to `request`: the request's id is spelled as it was there (II.11).
    pub fn to_text_answering(&self, request: &str) -> String {
        let asked: Map<String, Value> = serde_json::from_str(request).unwrap_or_default();
        let (from, to) = match (asked.contains_key("request_id"), asked.contains_key("requestId")) {
            (true, false) => ("requestId", "request_id"),
            (false, true) => ("request_id", "requestId"),
            _ => return self.to_text(),
        };
        if matches!(self, Body::Text(_) | Body::Unknown { .. }) {
            return self.to_text();
        }
        let respelled = |(key, value)| if key == from { (to.to_owned(), value) } else { (key, value) };
        Value::Object(self.fields().into_iter().map(respelled).collect()).to_string()
    }

    /// Its fields in the observed order, the kind first.
    fn fields(&self) -> Map<String, Value> {
        let value = match self {
            Body::Text(_) | Body::Unknown { .. } => Ok(Value::Null),
            Body::Idle(b) => serde_json::to_value(b),
            Body::ShutdownRequest(b) => serde_json::to_value(b),
            Body::ShutdownApproved(b) => serde_json::to_value(b),
            Body::ShutdownRejected(b) => serde_json::to_value(b),
            Body::PlanRequest(b) => serde_json::to_value(b),
            Body::PlanVerdict(b) if b.approved => serde_json::to_value(b),
            Body::PlanVerdict(b) => {
                serde_json::to_value(PlanVerdict { permission_mode: None, plan_digest: None, ..b.clone() })
            }
            Body::PermissionRequest(b) => serde_json::to_value(b),
            Body::PermissionVerdict(b) => serde_json::to_value(b),
            Body::SandboxRequest(b) => serde_json::to_value(b),
            Body::SandboxVerdict(b) => serde_json::to_value(b),
            Body::TaskAssignment(b) => serde_json::to_value(b),
            Body::TaskCompleted(b) => serde_json::to_value(b),
            Body::TeammateTerminated(b) => serde_json::to_value(b),
        };
        let mut fields = Map::new();
        fields.insert("type".to_owned(), Value::from(self.kind().unwrap_or_default()));
        // Plain data always becomes an object.
        if let Ok(Value::Object(rest)) = value {
            fields.extend(rest);
        }
        fields
    }
}

impl From<ShutdownResponse> for Body {
    fn from(old: ShutdownResponse) -> Body {
        let ShutdownResponse { request_id, approve, from, reason, timestamp } = old;
        match approve {
            true => Body::ShutdownApproved(ShutdownApproved {
                request_id,
                from,
                timestamp,
                ..ShutdownApproved::default()
            }),
            false => Body::ShutdownRejected(ShutdownRejected { request_id, from, reason, timestamp }),
        }
    }
}

#[cfg(test)]
mod tests;
