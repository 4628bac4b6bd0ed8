//! An answer put together from the events of its stream. Blocks stay whole, also what we do not know in them.

use super::{Answer, Block, Error, ModelEvent, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// An answer on its way.
#[derive(Debug, Default)]
pub struct Assembly {
    answer: Option<Answer>,
    blocks: BTreeMap<u64, Open>,
}

/// A block on its way.
#[derive(Debug)]
struct Open {
    block: Map<String, Value>,
    /// Its input as far as it has come: JSON that is parsed once, at the end.
    input: String,
    is_over: bool,
}

/// The events of the Messages API that we know.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Map<String, Value>,
    },
    ContentBlockDelta {
        index: u64,
        delta: Map<String, Value>,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Stop,
        #[serde(default)]
        usage: Map<String, Value>,
    },
    MessageStop,
    Error {
        error: Refusal,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Map<String, Value>,
}

#[derive(Deserialize)]
struct Stop {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    message: String,
}

impl Assembly {
    /// Takes an event's data. The answer comes with [`ModelEvent::Done`].
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::Failed`] for an error in the middle of the stream.
    pub fn take(&mut self, data: &[u8]) -> Result<Option<ModelEvent>, Error> {
        let malformed = |problem: String| Error::Malformed { problem };
        let wire: Wire = serde_json::from_slice(data).map_err(|e| malformed(e.to_string()))?;
        match wire {
            Wire::MessageStart { message: Start { id, model, usage } } => {
                let mut answer = Answer { id, model, ..Answer::default() };
                count(&mut answer.usage, &usage);
                (self.answer, self.blocks) = (Some(answer), BTreeMap::new());
            }
            Wire::ContentBlockStart { index, content_block } => {
                let name = content_block.get("name").and_then(Value::as_str).map(str::to_owned);
                let is_call = content_block.get("type").is_some_and(|kind| kind == "tool_use");
                self.blocks
                    .insert(index, Open { block: content_block, input: String::new(), is_over: false });
                return Ok(name.filter(|_| is_call).map(|name| ModelEvent::CallBegins { name }));
            }
            Wire::ContentBlockDelta { index, delta } => {
                let open = self.blocks.get_mut(&index);
                let open =
                    open.ok_or_else(|| malformed(format!("a part of block {index} before its beginning")))?;
                return Ok(open.add(delta));
            }
            Wire::ContentBlockStop { index } => {
                if let Some(open) = self.blocks.get_mut(&index) {
                    open.is_over = true;
                }
            }
            Wire::MessageDelta { delta, usage } => {
                let answer = self
                    .answer
                    .as_mut()
                    .ok_or_else(|| malformed("an end before the beginning".to_owned()))?;
                count(&mut answer.usage, &usage);
                answer.stop_reason = delta.stop_reason.unwrap_or_default();
            }
            Wire::MessageStop => return self.end().map(|answer| Some(ModelEvent::Done(Box::new(answer)))),
            Wire::Error { error: Refusal { kind, message } } => {
                return Err(Error::Failed { status: 200, kind, message, tries: 1 });
            }
            Wire::Unknown => {}
        }
        Ok(None)
    }

    /// The stream has ended. It may do so without its last event, once the answer's end is known and all its blocks are
    /// whole (case C075).
    ///
    /// # Errors
    /// [`Error::EndedEarly`].
    pub fn finish(mut self) -> Result<Answer, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Answer, Error> {
        let mut answer = self.answer.take().filter(|a| !a.stop_reason.is_empty()).ok_or(Error::EndedEarly)?;
        if self.blocks.values().any(|open| !open.is_over) {
            return Err(Error::EndedEarly);
        }
        for (index, open) in std::mem::take(&mut self.blocks) {
            match open.end() {
                Ok(block) => answer.content.push(block),
                // The answer was cut off in the middle of a call: there is none then.
                Err(_) if answer.stop_reason == "max_tokens" => {}
                Err(e) => {
                    return Err(Error::Malformed {
                        problem: format!("the input of block {index} is no JSON: {e}"),
                    });
                }
            }
        }
        Ok(answer)
    }
}

impl Open {
    fn add(&mut self, mut delta: Map<String, Value>) -> Option<ModelEvent> {
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut word = |key: &str| match delta.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        match kind.as_str() {
            "text_delta" => {
                let text = word("text");
                self.append("text", &text);
                Some(ModelEvent::Text(text))
            }
            "thinking_delta" => {
                let text = word("thinking");
                self.append("thinking", &text);
                Some(ModelEvent::Thinking(text))
            }
            "signature_delta" => {
                let text = word("signature");
                self.append("signature", &text);
                None
            }
            "input_json_delta" => {
                self.input += &word("partial_json");
                None
            }
            "citations_delta" => {
                if let Some(citation) = delta.remove("citation") {
                    let list = self.block.entry("citations").or_insert_with(|| Value::Array(Vec::new()));
                    match list {
                        Value::Array(list) => list.push(citation),
                        other => *other = Value::Array(vec![citation]),
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn append(&mut self, key: &str, text: &str) {
        match self.block.get_mut(key) {
            Some(Value::String(before)) => before.push_str(text),
            _ => drop(self.block.insert(key.to_owned(), Value::from(text))),
        }
    }

    fn end(mut self) -> Result<Block, serde_json::Error> {
        if !self.input.trim().is_empty() {
            self.block.insert("input".to_owned(), serde_json::from_str(&self.input)?);
        }
        Ok(Block(self.block))
    }
}

/// Figures of an answer grow: each event tells those that it knows.
fn count(usage: &mut Usage, news: &Map<String, Value>) {
    let figures = [
        ("input_tokens", &mut usage.input_tokens),
        ("cache_creation_input_tokens", &mut usage.cache_creation_input_tokens),
        ("cache_read_input_tokens", &mut usage.cache_read_input_tokens),
        ("output_tokens", &mut usage.output_tokens),
    ];
    for (key, figure) in figures {
        if let Some(news) = news.get(key).and_then(Value::as_u64) {
            *figure = news;
        }
    }
}
