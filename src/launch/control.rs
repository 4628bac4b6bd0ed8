//! Speaking with a member's `tend` over its control socket: one line of JSON asks, one line answers. Attaching then goes
//! on in bytes: what the agent prints comes as it is; what we send goes in frames.

use crate::protocol::AgentName;
use crate::store::{Doing, TeamStore};
use crate::sys::pty::Size;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Kind of a frame from an attached terminal: input for the agent.
pub const FRAME_INPUT: u8 = b'i';
/// Kind of a frame: the terminal's size, rows and columns as two big-endian 16-bit numbers.
pub const FRAME_SIZE: u8 = b's';

/// Asks `tend` for something and waits for its answer.
///
/// # Errors
/// Nobody listens, or the answer does not come or is none.
pub fn ask(store: &TeamStore, agent: &AgentName, request: &Value) -> io::Result<Value> {
    converse(store, agent, request).map(|(answer, _)| answer)
}

fn converse(
    store: &TeamStore,
    agent: &AgentName,
    request: &Value,
) -> io::Result<(Value, BufReader<UnixStream>)> {
    let mut stream = UnixStream::connect(store.layout().socket(store.name(), agent, "ctl"))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    writeln!(stream, "{request}")?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let answer: Value =
        serde_json::from_str(&line).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(io::Error::other(error.to_owned())),
        None => Ok((answer, reader)),
    }
}

/// The agent's present screen as text.
///
/// # Errors
/// As [`ask`].
pub fn screen(store: &TeamStore, agent: &AgentName) -> io::Result<String> {
    let answer = ask(store, agent, &json!({"op": "screen"}))?;
    Ok(answer["text"].as_str().unwrap_or_default().to_owned())
}

/// Asks `tend` to end its agent politely, and surely after `grace`. It answers at once.
///
/// # Errors
/// As [`ask`].
pub fn stop(store: &TeamStore, agent: &AgentName, grace: Duration) -> io::Result<()> {
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    ask(store, agent, &json!({"op": "stop", "grace_ms": grace_ms})).map(drop)
}

/// Tells `tend` that its agent is about to end by itself: if it does so `within` that time, it is not started again.
///
/// # Errors
/// As [`ask`].
pub fn expect_end(store: &TeamStore, agent: &AgentName, within: Duration) -> io::Result<()> {
    let grace_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    ask(store, agent, &json!({"op": "expect_end", "grace_ms": grace_ms})).map(drop)
}

/// Tells `tend` what its agent is doing, in the name of that agent.
///
/// # Errors
/// As [`ask`].
pub fn tell(store: &TeamStore, agent: &AgentName, doing: Doing) -> io::Result<()> {
    ask(store, agent, &json!({"op": "doing", "doing": doing})).map(drop)
}

/// Types into the agent's terminal.
///
/// # Errors
/// As [`ask`]; an agent without a terminal refuses.
pub fn press(store: &TeamStore, agent: &AgentName, keys: &str) -> io::Result<()> {
    ask(store, agent, &json!({"op": "press", "keys": keys})).map(drop)
}

/// Asks `tend` to end its agent, surely after `grace`, and to start it again in the same place. It answers at once.
///
/// # Errors
/// As [`ask`].
pub fn respawn(store: &TeamStore, agent: &AgentName, grace: Duration) -> io::Result<()> {
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    ask(store, agent, &json!({"op": "respawn", "grace_ms": grace_ms})).map(drop)
}

/// Connects a terminal of this size to the agent. What it prints can be read from the answered stream.
///
/// # Errors
/// As [`ask`]; an agent without a terminal refuses.
pub fn attach(store: &TeamStore, agent: &AgentName, size: Size) -> io::Result<BufReader<UnixStream>> {
    let (_, reader) = converse(store, agent, &json!({"op": "attach", "rows": size.rows, "cols": size.cols}))?;
    reader.get_ref().set_read_timeout(None)?;
    Ok(reader)
}

/// One frame from an attached terminal: kind, length as a big-endian 16-bit number, bytes.
pub fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let mut frame = vec![kind];
    frame.extend(len.to_be_bytes());
    frame.extend(&bytes[..usize::from(len)]);
    frame
}
