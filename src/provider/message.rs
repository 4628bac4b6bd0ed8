//! A conversation with a model as plain data, in the words of the Messages API. What we do not know in a block is kept.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// One content block: a text, a thought, a tool call, a result, an image, or of a kind that we do not know. It goes back
/// to the service as it came, so the object is kept whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Block(pub Map<String, Value>);

impl Block {
    /// A text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::of(json!({"type": "text", "text": text.into()}))
    }

    /// The result of a call. An empty text is answered by leaving the content out, since the service refuses blank
    /// blocks (case C083).
    pub fn result(call: &str, content: &Content, is_error: IsError) -> Block {
        let mut block = json!({"type": "tool_result", "tool_use_id": call});
        match content {
            Content::Text(text) if text.trim().is_empty() => {}
            Content::Text(text) => block["content"] = json!(text),
            Content::Blocks(blocks) => block["content"] = json!(blocks),
        }
        if is_error == IsError::Yes {
            block["is_error"] = json!(true);
        }
        Block::of(block)
    }

    fn of(value: Value) -> Block {
        match value {
            Value::Object(object) => Block(object),
            _ => Block(Map::new()),
        }
    }

    /// Its kind: `text`, `thinking`, `tool_use`, `tool_result`; empty if it has none.
    pub fn kind(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        self.0.get("text").and_then(Value::as_str).filter(|_| self.kind() == "text")
    }

    /// The call of a `tool_use` block.
    pub fn as_call(&self) -> Option<Call> {
        if self.kind() != "tool_use" {
            return None;
        }
        let word = |key| self.0.get(key).and_then(Value::as_str).map(str::to_owned);
        let input = self.0.get("input").cloned().unwrap_or_else(|| json!({}));
        Some(Call { id: word("id")?, name: word("name")?, input })
    }

    /// The call that a `tool_result` block answers.
    pub fn answers(&self) -> Option<&str> {
        self.0.get("tool_use_id").and_then(Value::as_str).filter(|_| self.kind() == "tool_result")
    }
}

/// What a tool says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Blocks: texts and images.
    Blocks(Vec<Block>),
}

/// Whether a result tells of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IsError {
    /// The tool did what was asked.
    No,
    /// It did not.
    Yes,
}

/// A call of a tool, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The call's id, by which it is answered.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user, or what speaks in the user's place: tools, mail.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// Name, `^[a-zA-Z0-9_-]{1,128}$`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its input.
    pub input_schema: Value,
}

/// What the model is asked. The recorder compares requests, so nothing in it may differ between two runs of the same work
/// but what the recorder knows to be a clock, an id or a temporary path.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The model's full name.
    pub model: String,
    /// Most tokens of the answer.
    pub tokens_max: u32,
    /// Tokens to think with; none: no extended thinking.
    pub thinking_tokens: Option<u32>,
    /// Parts of the system prompt; what varies between agents and days stands last.
    pub system: Arc<[String]>,
    /// The tools.
    pub tools: Arc<[ToolDefinition]>,
    /// The conversation. It ends with the user.
    pub messages: Arc<Vec<Message>>,
}

/// Tokens that one answer took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read afresh.
    pub input_tokens: u64,
    /// Written into the cache.
    pub cache_creation_input_tokens: u64,
    /// Read from the cache.
    pub cache_read_input_tokens: u64,
    /// Said and thought.
    pub output_tokens: u64,
}

impl Usage {
    /// All that was read, from the cache or not: how full the context is.
    pub fn context(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input_tokens += other.input_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.output_tokens += other.output_tokens;
    }
}

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The service's id of it.
    pub id: String,
    /// The model that gave it.
    pub model: String,
    /// Its blocks, as they came.
    pub content: Vec<Block>,
    /// Why it ends: `end_turn`, `tool_use`, `max_tokens`, `refusal`, ...
    pub stop_reason: String,
    /// What it took.
    pub usage: Usage,
}

/// News of an answer that is on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More of a thought.
    Thinking(String),
    /// A call begins; its input is not known yet.
    CallBegins {
        /// The tool's name.
        name: String,
    },
    /// The service refused or failed, and is asked again after a while. Nothing was shown of the failed try.
    AskingAgain {
        /// Number of the try that failed, from 1.
        attempt: u32,
        /// How long is waited.
        wait: std::time::Duration,
        /// Why.
        why: String,
    },
    /// The whole answer. Nothing comes after it.
    Done(Box<Answer>),
}
