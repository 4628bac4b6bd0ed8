//! A model service by script, on a raw socket: each request gets the next reply, byte for byte as the test wrote it. A request
//! that the real service would refuse is answered 400 whatever the script says, and remembered as a complaint.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A part of a reply.
#[derive(Clone)]
pub enum Part {
    /// These bytes as one chunk.
    Chunk(Vec<u8>),
    /// So long nothing.
    Pause(Duration),
    /// Nothing more until the client goes away.
    Silence,
    /// The connection ends in the middle of the body.
    Cut,
}

/// What one request is answered.
#[derive(Clone)]
pub struct Reply {
    status: String,
    headers: Vec<(String, String)>,
    parts: Vec<Part>,
    /// Whole blocks that the model says in it.
    blocks: Vec<Value>,
}

impl Reply {
    /// A status and its body.
    pub fn new(status: &str, kind: &str, body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status: status.to_owned(),
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            parts: vec![Part::Chunk(body.into())],
            blocks: Vec::new(),
        }
    }

    /// A stream of these bytes.
    pub fn stream(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::new("200 OK", "text/event-stream", bytes)
    }

    /// A stream in parts.
    pub fn parts(parts: Vec<Part>) -> Reply {
        Reply { parts, ..Reply::stream("") }
    }

    /// A stream in these chunks.
    pub fn chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Reply {
        Reply::parts(chunks.into_iter().map(|bytes| Part::Chunk(bytes.to_vec())).collect())
    }

    /// The model says these blocks; they must come back unchanged.
    pub fn blocks(blocks: Vec<Value>) -> Reply {
        Reply { blocks: blocks.clone(), ..Reply::stream(events(&blocks)) }
    }

    /// An error of the API.
    pub fn error(status: &str, kind: &str, message: &str) -> Reply {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        Reply::new(status, "application/json", error.to_string())
    }

    pub fn status(self, status: &str) -> Reply {
        Reply { status: status.to_owned(), ..self }
    }

    pub fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Heard {
    pub first: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    heard: Mutex<Vec<Heard>>,
    complaints: Mutex<Vec<String>>,
    told: Mutex<Vec<Value>>,
    gone: Mutex<usize>,
    is_over: AtomicBool,
}

/// A running service; it ends when it is dropped.
pub struct Service {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Service {
    pub fn start(replies: Vec<Reply>) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Service { address: listener.local_addr().unwrap(), shared: Arc::default() };
        service.shared.replies.lock().unwrap().extend(replies);
        let shared = Arc::clone(&service.shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // A client that goes away in the middle is its own affair.
                std::thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        service
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// What was wrong with requests.
    pub fn complaints(&self) -> Vec<String> {
        self.shared.complaints.lock().unwrap().clone()
    }

    /// How many clients went away during a silence.
    pub fn gone(&self) -> usize {
        *self.shared.gone.lock().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((key, value)) = line.split_once(':') {
            headers.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    let length = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let heard = Heard { first, headers, body: serde_json::from_slice(&body).unwrap_or_default() };
    let wrong = wrong(&heard.body, &shared.told.lock().unwrap());
    shared.heard.lock().unwrap().push(heard);
    let reply = match (wrong, shared.replies.lock().unwrap().pop_front()) {
        (Some(wrong), _) => {
            shared.complaints.lock().unwrap().push(wrong.clone());
            Reply::error("400 Bad Request", "invalid_request_error", &wrong)
        }
        (None, Some(reply)) => reply,
        (None, None) => Reply::error("400 Bad Request", "invalid_request_error", "the script is over"),
    };
    shared.told.lock().unwrap().extend(reply.blocks.clone());
    let mut head =
        format!("HTTP/1.1 {}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes())?;
    for part in &reply.parts {
        match part {
            // A chunk of no length would be the end.
            Part::Chunk(bytes) if bytes.is_empty() => {}
            Part::Chunk(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                stream.write_all(&chunk)?;
            }
            Part::Pause(length) => std::thread::sleep(*length),
            Part::Silence => {
                let _ = reader.read(&mut [0]);
                *shared.gone.lock().unwrap() += 1;
                return Ok(());
            }
            Part::Cut => return Ok(()),
        }
    }
    stream.write_all(b"0\r\n\r\n")
}

/// Why the real service would refuse the request.
fn wrong(body: &Value, told: &[Value]) -> Option<String> {
    let Some(messages) = body["messages"].as_array() else { return Some("messages: missing".to_owned()) };
    if body.to_string().matches("\"cache_control\":{").count() > 4 {
        return Some("more than 4 blocks with cache_control".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    let mut used = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Some(format!("messages.{at}: role must be {expected}"));
        }
        let Some(blocks) = message["content"].as_array().filter(|blocks| !blocks.is_empty()) else {
            return Some(format!("messages.{at}: content is empty"));
        };
        if blocks.iter().any(is_blank) {
            return Some(format!("messages.{at}: text must not be blank"));
        }
        let mut is_behind_results = false;
        for block in blocks {
            if block["type"] == "tool_result" {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                let Some(index) = open.iter().position(|open| *open == id) else {
                    return Some(format!("messages.{at}: unexpected tool_result {id}"));
                };
                open.remove(index);
                if is_behind_results {
                    return Some(format!("messages.{at}: tool_result {id} does not stand first"));
                }
                let content = &block["content"];
                if content.as_array().is_some_and(|blocks| blocks.iter().any(is_blank)) {
                    return Some(format!("messages.{at}: text in a tool_result must not be blank"));
                }
            } else {
                is_behind_results = true;
            }
        }
        if !open.is_empty() {
            return Some(format!("messages.{at}: tool_use without tool_result: {open:?}"));
        }
        for block in blocks.iter().filter(|_| expected == "assistant") {
            if block["type"] == "tool_use" {
                let id = block["id"].as_str().unwrap_or_default();
                if used.contains(&id) {
                    return Some(format!("messages.{at}: tool_use ids must be unique: {id}"));
                }
                used.push(id);
                open.push(id);
            }
            let is_ours =
                |key: &str| !block[key].is_null() && told.iter().any(|told| told[key] == block[key]);
            let changes = (is_ours("id") || is_ours("signature")) && !told.contains(block);
            if changes || block["type"] == "thinking" && !told.is_empty() && !told.contains(block) {
                return Some(format!("messages.{at}: blocks cannot be modified: {block}"));
            }
        }
    }
    let last = messages.last().map(|m| &m["role"]);
    (last.is_none_or(|role| role != "user")).then(|| "the conversation must end with the user".to_owned())
}

fn is_blank(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty())
}

/// The blocks as server-sent events, each text in two parts.
pub fn events(blocks: &[Value]) -> String {
    let mut stream = String::new();
    let mut event = |body: Value| {
        stream.push_str(&format!("event: {}\ndata: {body}\n\n", body["type"].as_str().unwrap()));
    };
    let usage = json!({"input_tokens": 100, "cache_read_input_tokens": 7, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    event(json!({"type": "message_start", "message": message}));
    for (index, block) in blocks.iter().enumerate() {
        let mut empty = block.clone();
        let mut deltas = Vec::new();
        let mut halves = |key: &str, kind: &str, text: &str| {
            let mut at = text.len() / 2;
            while !text.is_char_boundary(at) {
                at += 1;
            }
            for half in [&text[..at], &text[at..]] {
                let mut delta = json!({"type": kind});
                delta[key] = json!(half);
                deltas.push(delta);
            }
        };
        for (key, kind) in
            [("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")]
        {
            if let Some(text) = block[key].as_str() {
                empty[key] = json!("");
                halves(key, kind, text);
            }
        }
        if block["type"] == "tool_use" {
            empty["input"] = json!({});
            halves("partial_json", "input_json_delta", &block["input"].to_string());
        }
        event(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        deltas
            .into_iter()
            .for_each(|delta| event(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        event(json!({"type": "content_block_stop", "index": index}));
    }
    let calls = blocks.iter().any(|block| block["type"] == "tool_use");
    let delta = json!({"stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null});
    event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}));
    event(json!({"type": "message_stop"}));
    stream
}
