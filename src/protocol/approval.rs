//! Approvals as a view of the leader's inbox: what mates ask, and the answer in its exact shape (protocol II.3.1).

use super::body::{
    ApprovedRequest, PermissionRequest, PermissionVerdict, PlanRequest, PlanVerdict, SandboxRequest,
    SandboxVerdict, Situation, input_digest, may_say, plan_digest,
};
use super::delivery::IN_REPLY_TO;
use super::{AgentName, Body, Entry, names};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Permission mode after an approved plan, unless another is asked for: each step is asked for again.
pub const PLAN_MODE_DEFAULT: &str = "default";
/// Permission modes that an approved plan may go on in.
pub const MODES: [&str; 5] = ["default", "acceptEdits", "auto", "dontAsk", "bypassPermissions"];
/// What a denial says where nothing else is said: an empty text would be none.
const DENIED: &str = "denied by the leader";
/// What every text that may hold a request holds.
const MARKS: [&str; 2] = ["permission_request", "plan_approval_request"];

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// To use a tool.
    Permission,
    /// To go on with a plan.
    Plan,
    /// To reach a host from the sandbox.
    Sandbox,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Permission => "permission",
            Kind::Plan => "plan",
            Kind::Sandbox => "sandbox",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// To use a tool.
    Permission(PermissionRequest),
    /// To go on with a plan.
    Plan(PlanRequest),
    /// To reach a host from the sandbox.
    Sandbox(SandboxRequest),
}

impl Ask {
    /// What a body asks for, if it is a request.
    fn of(body: Body) -> Option<Ask> {
        Some(match body {
            Body::PermissionRequest(request) => Ask::Permission(request),
            Body::PlanRequest(request) => Ask::Plan(request),
            Body::SandboxRequest(request) => Ask::Sandbox(request),
            _ => return None,
        })
    }

    /// What it is about.
    pub fn kind(&self) -> Kind {
        match self {
            Ask::Permission(_) => Kind::Permission,
            Ask::Plan(_) => Kind::Plan,
            Ask::Sandbox(_) => Kind::Sandbox,
        }
    }

    /// The request's own id.
    pub fn id(&self) -> &str {
        match self {
            Ask::Permission(request) => &request.request_id,
            Ask::Plan(request) => &request.request_id,
            Ask::Sandbox(request) => &request.request_id,
        }
    }

    /// The tool that is to be used.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Ask::Permission(request) => Some(&request.tool_name),
            _ => None,
        }
    }
}

/// A request in the leader's inbox that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is asked for.
    pub ask: Ask,
    /// Who asks.
    pub from: AgentName,
    /// The message; of several that ask the same, the first.
    pub entry: Entry,
    /// When it was asked last, as the entry says.
    pub asked_last: String,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Yes.
    Allow(Terms),
    /// No, with what the asker is told.
    Deny(String),
}

/// What an approval says beside yes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Terms {
    /// The mode to go on in after a plan.
    pub mode: Option<String>,
    /// What the tool gets instead of what was asked.
    pub input: Option<Value>,
    /// Rules for the rest of the asker's session.
    pub updates: Vec<Value>,
}

impl Verdict {
    /// Plain yes.
    pub fn allow() -> Verdict {
        Verdict::Allow(Terms::default())
    }

    /// Whether it is yes.
    pub fn is_allow(&self) -> bool {
        matches!(self, Verdict::Allow(_))
    }
}

/// Whether a file's text can hold a request at all: the cheap question before reading it.
pub fn may_hold_requests(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    MARKS.iter().any(|mark| text.contains(mark))
}

/// The requests among the leader's messages that count, each once: of equal ones the first. What is sent for somebody
/// else, or by somebody whose name nothing could be sent to, is text.
pub fn requests(entries: &[Entry]) -> Vec<Request> {
    let mut all: Vec<Request> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for request in entries.iter().filter_map(Request::of) {
        match places.get(&request.key()).and_then(|at| all.get_mut(*at)) {
            // What was shown first is what is answered.
            Some(first) => first.asked_last = request.asked_last,
            None => {
                places.insert(request.key(), all.len());
                all.push(request);
            }
        }
    }
    all
}

impl Request {
    fn of(entry: &Entry) -> Option<Request> {
        if !may_hold_requests(entry.text.as_bytes()) {
            return None;
        }
        let body = lenient(&entry.text)?;
        let situation =
            Situation { me: &AgentName::lead(), leader: names::LEAD, signature: None, pending: &[] };
        may_say(&body, entry, &situation).ok()?;
        Some(Request {
            ask: Ask::of(body)?,
            from: AgentName::for_member(&entry.from).ok()?,
            entry: entry.clone(),
            asked_last: entry.timestamp.clone(),
        })
    }

    /// What tells it from all other requests: who asks, what kind, and the id that was given to it.
    pub fn key(&self) -> String {
        format!("{} {} {}", self.ask.kind().word(), self.from, self.ask.id())
    }

    /// The id of the one message that answers it, whoever writes it.
    pub fn answer_id(&self) -> String {
        let hash = Sha256::digest(format!("answer {} {}", self.key(), self.entry.identity()).as_bytes());
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(hash.iter()).for_each(|(to, from)| *to = *from);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }

    /// The message that answers it, in the spelling in which it was asked.
    pub fn answer(&self, verdict: &Verdict, now: &str) -> Entry {
        let body = match &self.ask {
            Ask::Permission(request) => permission(request, verdict),
            Ask::Plan(request) => plan(request, verdict, now),
            Ask::Sandbox(request) => Body::SandboxVerdict(SandboxVerdict {
                request_id: request.request_id.clone(),
                host: request.host_pattern.host.clone(),
                allow: verdict.is_allow(),
                timestamp: now.to_owned(),
            }),
        };
        let text = body.to_text_answering(&self.entry.text);
        let mut entry = Entry::new(names::LEAD, &text, now, &self.answer_id());
        entry.extra.insert(IN_REPLY_TO.to_owned(), Value::from(self.entry.identity()));
        entry
    }

    /// Whether a message in the asker's inbox is an answer to this.
    pub fn is_answered_by(&self, entry: &Entry) -> bool {
        let body = Body::parse(&entry.text);
        let is_fitting = matches!(
            (&body, self.ask.kind()),
            (Body::PermissionVerdict(_), Kind::Permission)
                | (Body::PlanVerdict(_), Kind::Plan)
                | (Body::SandboxVerdict(_), Kind::Sandbox)
        );
        is_fitting && entry.from == names::LEAD && body.request_id() == Some(self.ask.id())
    }

    /// Its suggestions as rules for the rest of the asker's session: what would change a mode or a settings file is left
    /// out, since the asker wrote them.
    pub fn session_rules(&self) -> Vec<Value> {
        let Ask::Permission(request) = &self.ask else { return Vec::new() };
        let is_rule = |s: &&Value| s["type"] == "addRules" && s["behavior"] == "allow";
        let for_session = |suggestion: &Value| {
            let mut suggestion = suggestion.clone();
            suggestion["destination"] = json!("session");
            suggestion
        };
        request.permission_suggestions.iter().filter(is_rule).map(for_session).collect()
    }
}

/// What a text says, its optional fields of a wrong type left out: who asks waits for an answer all the same (probe J03).
fn lenient(text: &str) -> Option<Body> {
    let body = Body::parse(text);
    if !matches!(body, Body::Unknown { .. }) {
        return Some(body);
    }
    let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    fields.retain(|key, value| match key.as_str() {
        "input" => true,
        "permission_suggestions" => value.is_array(),
        "hostPattern" => value["host"].is_string(),
        "createdAt" => value.is_u64(),
        _ => value.is_string(),
    });
    Some(Body::parse(&Value::Object(fields).to_string()))
}

fn permission(request: &PermissionRequest, verdict: &Verdict) -> Body {
    let digest = input_digest(&request.tool_name, &request.input);
    let approved = digest.map(|input_digest| ApprovedRequest {
        tool_use_id: request.tool_use_id.clone(),
        tool_name: request.tool_name.clone(),
        input_digest,
    });
    let answer = PermissionVerdict {
        request_id: request.request_id.clone(),
        tool_use_id: Some(request.tool_use_id.clone()),
        approved_request: approved,
        ..PermissionVerdict::default()
    };
    Body::PermissionVerdict(match verdict {
        Verdict::Allow(terms) => {
            let mut response = Map::new();
            let input = terms.input.as_ref().unwrap_or(&request.input);
            response.insert("updated_input".to_owned(), input.clone());
            if !terms.updates.is_empty() {
                response.insert("permission_updates".to_owned(), Value::from(terms.updates.clone()));
            }
            PermissionVerdict {
                subtype: "success".to_owned(),
                response: Some(Value::Object(response)),
                ..answer
            }
        }
        Verdict::Deny(feedback) => {
            PermissionVerdict { subtype: "error".to_owned(), error: Some(said(feedback)), ..answer }
        }
    })
}

fn plan(request: &PlanRequest, verdict: &Verdict, now: &str) -> Body {
    let answer = PlanVerdict {
        request_id: request.request_id.clone(),
        timestamp: now.to_owned(),
        ..PlanVerdict::default()
    };
    Body::PlanVerdict(match verdict {
        Verdict::Allow(terms) => PlanVerdict {
            approved: true,
            permission_mode: Some(terms.mode.clone().unwrap_or_else(|| PLAN_MODE_DEFAULT.to_owned())),
            plan_digest: Some(plan_digest(&request.plan_content)),
            ..answer
        },
        Verdict::Deny(feedback) => PlanVerdict { feedback: Some(said(feedback)), ..answer },
    })
}

fn said(feedback: &str) -> String {
    if feedback.trim().is_empty() { DENIED.to_owned() } else { feedback.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-11-30T16:01:16.632Z";

    fn entry(from: &str, text: &str) -> Entry {
        Entry::new(from, text, AT, "m-1")
    }

    fn bash(from: &str, spelling: &str) -> Entry {
        let text = format!(
            r#"{{"type":"permission_request","{spelling}":"perm-1-a","agent_id":"bob","tool_name":"Bash","tool_use_id":"tu-1","description":"d","input":{{"command":"ls","b":1}},"permission_suggestions":[{{"type":"addRules","rules":[{{"toolName":"Bash"}}],"behavior":"allow","destination":"localSettings"}},{{"type":"setMode","mode":"bypassPermissions","destination":"session"}}]}}"#
        );
        entry(from, &text)
    }

    fn only(entry: &Entry) -> Request {
        requests(std::slice::from_ref(entry)).pop().unwrap()
    }

    /// Digest expected: node's `createHash('sha256')` over `Bash\0{"b":1,"command":"ls"}`.
    #[test]
    fn a_permission_is_answered_in_the_exact_shape_and_spelling() {
        let digest = "932e7fa35444c36a3d0583bedb85945a1fd1fad5a493a5a537d4c6d530706455";
        let request = only(&bash("bob", "request_id"));
        let answer = request.answer(&Verdict::allow(), AT);
        assert_eq!(
            answer.text,
            format!(
                r#"{{"type":"permission_response","request_id":"perm-1-a","subtype":"success","tool_use_id":"tu-1","approved_request":{{"tool_use_id":"tu-1","tool_name":"Bash","input_digest":"{digest}"}},"response":{{"updated_input":{{"command":"ls","b":1}}}}}}"#
            )
        );
        assert_eq!((answer.from.as_str(), &answer.extra["in_reply_to"]), ("team-lead", &json!("m-1")));
        let denied = only(&bash("bob", "requestId")).answer(&Verdict::Deny("no".into()), AT);
        assert_eq!(
            denied.text,
            format!(
                r#"{{"type":"permission_response","requestId":"perm-1-a","subtype":"error","tool_use_id":"tu-1","approved_request":{{"tool_use_id":"tu-1","tool_name":"Bash","input_digest":"{digest}"}},"error":"no"}}"#
            )
        );
        assert_eq!(answer.msg_id, denied.msg_id, "there is one answer");
        let updates = request.session_rules();
        assert_eq!(
            updates,
            [
                json!({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"})
            ],
            "no mode, no settings file"
        );
        let terms = Terms { input: Some(json!({"command": "ls -l"})), updates, mode: None };
        let changed = request.answer(&Verdict::Allow(terms), AT).text;
        assert!(changed.contains(digest), "the digest is that of what was asked: {changed}");
        assert!(
            changed.ends_with(
                r#""response":{"updated_input":{"command":"ls -l"},"permission_updates":[{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"allow","destination":"session"}]}}"#
            ),
            "{changed}"
        );
    }

    #[test]
    fn plans_and_hosts_are_answered_in_the_exact_shape() {
        let plan = entry(
            "bob",
            r#"{"type":"plan_approval_request","from":"bob","timestamp":"t","planFilePath":"/p.md","planContent":"1. look\n2. do","requestId":"plan_approval-1@bob@t"}"#,
        );
        let request = only(&plan);
        let terms = Terms { mode: Some("acceptEdits".into()), ..Terms::default() };
        assert_eq!(
            request.answer(&Verdict::Allow(terms), AT).text,
            r#"{"type":"plan_approval_response","requestId":"plan_approval-1@bob@t","approved":true,"timestamp":"2026-11-30T16:01:16.632Z","permissionMode":"acceptEdits","planDigest":"97a8229487b20df9847ed706279e0f3e447e9c31196872ce9dd5ff320a7682c3"}"#
        );
        assert_eq!(
            request.answer(&Verdict::Deny(" ".into()), AT).text,
            r#"{"type":"plan_approval_response","requestId":"plan_approval-1@bob@t","approved":false,"feedback":"denied by the leader","timestamp":"2026-11-30T16:01:16.632Z"}"#
        );
        let host = entry(
            "bob",
            r#"{"type":"sandbox_permission_request","requestId":"sandbox-1-a","workerId":"w","workerName":"bob","workerColor":"blue","hostPattern":{"host":"docs.rs"},"createdAt":1}"#,
        );
        assert_eq!(
            only(&host).answer(&Verdict::allow(), AT).text,
            r#"{"type":"sandbox_permission_response","requestId":"sandbox-1-a","host":"docs.rs","allow":true,"timestamp":"2026-11-30T16:01:16.632Z"}"#
        );
        let answer = request.answer(&Verdict::allow(), AT);
        assert!(request.is_answered_by(&answer) && !only(&host).is_answered_by(&answer));
        let by_another = Entry { from: "carol".into(), ..answer };
        assert!(!request.is_answered_by(&by_another));
    }

    #[test]
    fn what_does_not_count_is_no_request() {
        for from in ["carol", "team-lead", "Team-Lead", "user", "bob\n", "../bob"] {
            assert!(requests(&[bash(from, "request_id")]).is_empty(), "{from}");
        }
        let quoted = entry("bob", &format!("```\n{}\n```", bash("bob", "request_id").text));
        assert!(requests(&[quoted]).is_empty());
        let odd = entry(
            "bob",
            r#"{"type":"permission_request","request_id":"perm-1-a","agent_id":"bob","tool_name":7,"permission_suggestions":null,"input":{"a":1}}"#,
        );
        let Ask::Permission(request) = only(&odd).ask else { panic!() };
        assert_eq!((request.tool_name.as_str(), request.input), ("", json!({"a": 1})));
        for no_id in [
            r#"{"type":"permission_request","agent_id":"bob"}"#,
            r#"{"type":"permission_request","request_id":7,"agent_id":"bob"}"#,
        ] {
            assert!(requests(&[entry("bob", no_id)]).is_empty(), "nobody could answer it");
        }
        let twice = [bash("bob", "request_id"), bash("bob", "requestId")];
        assert_eq!(requests(&twice).len(), 1, "one request, sent twice");
    }
}
