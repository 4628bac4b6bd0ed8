//! A stub of a model service on a real socket: the Messages API as far as agent programs use it. What "the model" says is a
//! list of parts: the last user message that contains a part's trigger decides which, and so many answers as came since
//! then decide which step of it.

use super::Call;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The key that the stub is asked with.
pub const KEY: &str = "sk-ant-a-key-of-no-worth";

/// What the model does when it reads this word.
#[derive(Clone)]
pub struct Part {
    pub trigger: String,
    /// One answer each: texts and tool calls.
    pub steps: Vec<Vec<Value>>,
}

impl Part {
    pub fn new(trigger: &str, steps: Vec<Vec<Value>>) -> Part {
        Part { trigger: trigger.to_owned(), steps }
    }

    /// Agrees to end when it is asked to. `{request_id}` stands for the last one that was named, as `{plan_file}` does.
    pub fn that_ends() -> Part {
        let answer = json!({"type": "shutdown_response", "request_id": "{request_id}", "approve": true});
        Part::new(
            "shutdown_request",
            vec![
                load("SendMessage"),
                vec![tool("SendMessage", json!({"to": "team-lead", "message": answer}))],
            ],
        )
    }
}

/// Plain words.
pub fn say(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A call of a tool.
pub fn tool(name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "name": name, "input": input})
}

/// A message to somebody.
pub fn send(to: &str, text: &str) -> Value {
    tool("SendMessage", json!({"to": to, "summary": "a report", "message": text}))
}

/// The request is refused.
pub fn refuse(why: &str) -> Value {
    json!({"type": "error", "text": why})
}

/// The step that makes tools known which are loaded on demand.
pub fn load(tools: &str) -> Vec<Value> {
    vec![tool("ToolSearch", json!({"query": format!("select:{tools}")}))]
}

const JSON: (&str, &str) = ("200 OK", "application/json");

/// A running stub; it ends when it is dropped.
pub struct Model {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
    is_over: Arc<AtomicBool>,
}

impl Model {
    pub fn start(parts: Vec<Part>) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Model {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            is_over: Arc::default(),
        };
        let (requests, is_over) = (Arc::clone(&model.requests), Arc::clone(&model.is_over));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (parts, requests) = (parts.clone(), Arc::clone(&requests));
                // A client that goes away in the middle is its own affair.
                std::thread::spawn(move || drop(serve(&stream, &parts, &requests)));
            }
        });
        model
    }

    /// All that was asked of the model so far.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// A call in whose environment Claude Code speaks with this stub and with nobody else.
    pub fn known_to(&self, call: Call) -> Call {
        let nowhere = "http://127.0.0.1:9";
        call.env("ANTHROPIC_BASE_URL", format!("http://{}", self.address))
            .env("ANTHROPIC_API_KEY", KEY)
            .env("HTTPS_PROXY", nowhere)
            .env("HTTP_PROXY", nowhere)
            .env("NO_PROXY", "127.0.0.1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_ERROR_REPORTING", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("IS_SANDBOX", "1")
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: &TcpStream, parts: &[Part], requests: &Mutex<Vec<Value>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((key, value)) = line.split_once(':')
            && key.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = first.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if path.ends_with("/count_tokens") {
        return answer(stream, JSON, &json!({"input_tokens": 1000}).to_string());
    }
    if !path.ends_with("/v1/messages") || !first.starts_with("POST") {
        return answer(stream, JSON, "{}");
    }
    let content = reply(&body, parts);
    requests.lock().unwrap().push(body.clone());
    if let Some(block) = content.iter().find(|block| block["type"] == "error") {
        let error = json!({"type": "invalid_request_error", "message": block["text"]});
        let body = json!({"type": "error", "error": error}).to_string();
        return answer(stream, ("400 Bad Request", "application/json"), &body);
    }
    let calls = content.iter().any(|block| block["type"] == "tool_use");
    let stop = if calls { "tool_use" } else { "end_turn" };
    let message = json!({
        "id": format!("msg_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant",
        "model": body["model"], "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    });
    if body["stream"] == true {
        answer(stream, ("200 OK", "text/event-stream"), &events(&message))
    } else {
        answer(stream, JSON, &message.to_string())
    }
}

fn answer(mut stream: &TcpStream, (status, kind): (&str, &str), body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The blocks of the next answer.
fn reply(body: &Value, parts: &[Part]) -> Vec<Value> {
    let nothing = Vec::new();
    let messages = body["messages"].as_array().unwrap_or(&nothing);
    let last = messages.iter().enumerate().rev().filter(|(_, m)| m["role"] == "user").find_map(|(at, m)| {
        let text = words(m);
        parts.iter().find(|part| text.contains(&part.trigger)).map(|part| (at, part))
    });
    let Some((at, part)) = last.filter(|_| body["tools"].as_array().is_some_and(|t| !t.is_empty())) else {
        return vec![say("Well.")];
    };
    let answered = messages[at + 1..].iter().filter(|m| m["role"] == "assistant").count();
    let Some(step) = part.steps.get(answered) else { return vec![say("That is done.")] };
    let all: String = messages.iter().map(words).collect();
    let named = |key: &str| {
        let at = all.rfind(&format!("\"{key}\":\"")).map(|at| at + key.len() + 4);
        at.and_then(|at| all[at..].split('"').next()).unwrap_or("none").to_owned()
    };
    let plan_file =
        all.split(['"', ' ', '\n', '`']).rfind(|word| word.contains("/plans/") && word.ends_with(".md"));
    let text = json!(step)
        .to_string()
        .replace("{request_id}", &named("requestId"))
        .replace("{plan_file}", plan_file.unwrap_or("none"));
    let mut blocks: Vec<Value> = serde_json::from_str(&text).unwrap();
    for block in blocks.iter_mut().filter(|block| block["type"] == "tool_use") {
        block["id"] = json!(format!("toolu_{}", uuid::Uuid::new_v4().simple()));
    }
    blocks
}

fn words(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The message as server-sent events.
fn events(message: &Value) -> String {
    let mut stream = String::new();
    let mut event = |body: Value| {
        let name = body["type"].as_str().unwrap().to_owned();
        stream.push_str(&format!("event: {name}\ndata: {body}\n\n"));
    };
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    event(json!({"type": "message_start", "message": start}));
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let mut empty = block.clone();
        let delta = if block["type"] == "text" {
            empty["text"] = json!("");
            json!({"type": "text_delta", "text": block["text"]})
        } else {
            empty["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        };
        event(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        event(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}));
    event(json!({"type": "message_stop"}));
    stream
}
