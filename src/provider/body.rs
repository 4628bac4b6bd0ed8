//! A request as it is sent: calls and results paired (case C080), no blank text (case C083), at most four cache marks
//! (case C082). Pure, and the same for the same request.

use super::{Block, Content, IsError, Message, Request, Role, ToolDefinition};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// What a call is answered that has no result.
const NO_RESULT: &str = "The call was cut off: there is no result.";

/// What stands before a conversation that begins with the model: the service wants the user to begin.
const NO_BEGINNING: &str = "(The beginning of this conversation is gone.)";

/// User messages whose end is marked for the cache: the newest, and the one that was the newest before.
const MARKED_MESSAGES: usize = 2;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    system: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Out<'a>>,
    stream: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(flatten)]
    definition: &'a ToolDefinition,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

/// A message as it is sent.
#[derive(Debug, Serialize)]
struct Out<'a> {
    role: Role,
    content: Vec<Cow<'a, Block>>,
}

/// The JSON of a request that wants a stream.
pub fn body(request: &Request) -> Vec<u8> {
    let mut messages = paired(&request.messages);
    let users = messages.iter_mut().rev().filter(|m| m.role == Role::User);
    for message in users.take(MARKED_MESSAGES) {
        if let Some(last) = message.content.last_mut() {
            last.to_mut().0.insert("cache_control".to_owned(), mark());
        }
    }
    // What varies stands last: the mark stands before it, so that others find what they share.
    let shared = request.system.len().saturating_sub(2);
    let system =
        request.system.iter().filter(|text| !text.trim().is_empty()).enumerate().map(|(at, text)| {
            let mut part = json!({"type": "text", "text": text});
            if at == shared {
                part["cache_control"] = mark();
            }
            part
        });
    let last = request.tools.len().saturating_sub(1);
    let tool = |(at, definition)| Tool { definition, cache_control: (at == last).then(mark) };
    let body = Body {
        model: &request.model,
        max_tokens: request.tokens_max,
        thinking: request.thinking_tokens.map(|n| json!({"type": "enabled", "budget_tokens": n})),
        system: system.collect(),
        tools: request.tools.iter().enumerate().map(tool).collect(),
        messages,
        stream: true,
    };
    // Plain data with text keys can always be written.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn mark() -> Value {
    json!({"type": "ephemeral"})
}

/// A conversation that the service takes: roles alternate; each call has exactly one result, first in the very next
/// message; results of unknown calls and blank texts are gone; a call's id that comes again is made distinct.
pub fn repaired(messages: &[Message]) -> Vec<Message> {
    let whole = |out: Out<'_>| Message {
        role: out.role,
        content: out.content.into_iter().map(Cow::into_owned).collect(),
    };
    paired(messages).into_iter().map(whole).collect()
}

fn paired(messages: &[Message]) -> Vec<Out<'_>> {
    let mut merged: Vec<Out<'_>> = Vec::new();
    for message in messages {
        let content = message.content.iter().filter_map(without_blanks);
        match merged.last_mut() {
            Some(last) if last.role == message.role => last.content.extend(content),
            _ => merged.push(Out { role: message.role, content: content.collect() }),
        }
    }
    let mut out: Vec<Out<'_>> = Vec::with_capacity(merged.len());
    let mut used = HashSet::new();
    // Ids of the calls that wait for results, as they were and as they are sent.
    let mut open: Vec<(String, String)> = Vec::new();
    for message in merged {
        match message.role {
            Role::Assistant => {
                if !open.is_empty() {
                    out.push(Out { role: Role::User, content: answered(Vec::new(), &mut open) });
                }
                let content = distinct(message.content, &mut used, &mut open);
                push(&mut out, Out { role: Role::Assistant, content });
            }
            Role::User => {
                let content = answered(message.content, &mut open);
                push(&mut out, Out { role: Role::User, content });
            }
        }
    }
    if !open.is_empty() {
        push(&mut out, Out { role: Role::User, content: answered(Vec::new(), &mut open) });
    }
    if out.first().is_some_and(|first| first.role == Role::Assistant) {
        let content = vec![Cow::Owned(Block::text(NO_BEGINNING))];
        out.insert(0, Out { role: Role::User, content });
    }
    out
}

/// A message that says nothing is left out, and its neighbours are one then.
fn push<'a>(out: &mut Vec<Out<'a>>, message: Out<'a>) {
    match out.last_mut() {
        _ if message.content.is_empty() => {}
        Some(last) if last.role == message.role => last.content.extend(message.content),
        _ => out.push(message),
    }
}

fn is_blank(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty())
}

/// The block as it may be sent; none for a blank text.
fn without_blanks(block: &Block) -> Option<Cow<'_, Block>> {
    match block.kind() {
        "text" if block.as_text().is_none_or(|text| text.trim().is_empty()) => None,
        "tool_result" => {
            let is_empty = match block.0.get("content") {
                Some(Value::String(text)) => text.trim().is_empty(),
                Some(Value::Array(blocks)) => blocks.iter().any(is_blank) || blocks.is_empty(),
                _ => false,
            };
            let is_marked = block.0.contains_key("cache_control");
            if !is_empty && !is_marked {
                return Some(Cow::Borrowed(block));
            }
            let mut object = block.0.clone();
            object.remove("cache_control");
            let kept = match object.remove("content") {
                Some(Value::Array(blocks)) => blocks.into_iter().filter(|b| !is_blank(b)).collect(),
                Some(Value::String(text)) if !text.trim().is_empty() => {
                    object.insert("content".to_owned(), Value::String(text));
                    Vec::new()
                }
                _ => Vec::new(),
            };
            if !kept.is_empty() {
                object.insert("content".to_owned(), Value::Array(kept));
            }
            Some(Cow::Owned(Block(object)))
        }
        // Marks are set afresh for each request.
        _ if block.0.contains_key("cache_control") => {
            let mut object = block.0.clone();
            object.remove("cache_control");
            Some(Cow::Owned(Block(object)))
        }
        _ => Some(Cow::Borrowed(block)),
    }
}

/// The model's blocks; a call whose id is used already gets another one.
fn distinct<'a>(
    blocks: Vec<Cow<'a, Block>>,
    used: &mut HashSet<String>,
    open: &mut Vec<(String, String)>,
) -> Vec<Cow<'a, Block>> {
    let mut kept = Vec::with_capacity(blocks.len());
    for mut block in blocks {
        let id = block.0.get("id").and_then(Value::as_str).filter(|_| block.kind() == "tool_use");
        if let Some(id) = id.map(str::to_owned) {
            let mut sent = id.clone();
            let mut n = 1;
            while !used.insert(sent.clone()) {
                n += 1;
                sent = format!("{id}_{n}");
            }
            if sent != id {
                block.to_mut().0.insert("id".to_owned(), Value::from(sent.as_str()));
            }
            open.push((id, sent));
        }
        kept.push(block);
    }
    kept
}

/// The user's blocks: the results of the open calls first, each once, made up where there is none.
fn answered<'a>(blocks: Vec<Cow<'a, Block>>, open: &mut Vec<(String, String)>) -> Vec<Cow<'a, Block>> {
    let mut results: HashMap<String, Cow<'a, Block>> = HashMap::new();
    let mut rest = Vec::new();
    for block in blocks {
        match block.answers().map(str::to_owned) {
            Some(id) => drop(results.entry(id).or_insert(block)),
            None if block.kind() == "tool_result" => {}
            None => rest.push(block),
        }
    }
    let mut kept = Vec::with_capacity(open.len() + rest.len());
    for (id, sent) in open.drain(..) {
        match results.remove(&id) {
            Some(block) if id == sent => kept.push(block),
            Some(block) => {
                let mut object: Map<String, Value> = block.into_owned().0;
                object.insert("tool_use_id".to_owned(), Value::from(sent));
                kept.push(Cow::Owned(Block(object)));
            }
            None => {
                let content = Content::Text(NO_RESULT.to_owned());
                kept.push(Cow::Owned(Block::result(&sent, &content, IsError::Yes)));
            }
        }
    }
    kept.extend(rest);
    kept
}
