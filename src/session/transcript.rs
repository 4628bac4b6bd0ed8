//! The transcript: one JSON object a line, written before what follows from it is done, so that a killed agent goes on
//! from where it was (D9). Only the process that holds it writes it.

use crate::protocol::timestamp;
use crate::provider::{Answer, Block, Message, Role};
use crate::sys::flock::Flock;
use crate::sys::{atomic_file, failed};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Version of the format.
const VERSION: u32 = 1;
/// What a call is answered whose result was never written down.
const NO_RESULT: &str = "The agent was ended while this call ran: whether it took effect is not known. Look before you repeat it.";

/// Why a transcript cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system's part.
    #[error(transparent)]
    Sys(#[from] crate::sys::Error),
    /// Another process goes on with it.
    #[error("the session {} goes on in another process: end that first, or begin a new one", .0.display())]
    InUse(PathBuf),
    /// There is no such session.
    #[error("there is no session {}", .0.display())]
    Missing(PathBuf),
    /// A line that is none of ours.
    #[error("{}:{line}: {problem}; correct the line, or begin a new session", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// The session's id, a UUID.
    pub session: String,
    /// The agent's name.
    pub agent: String,
    /// The agent's directory.
    pub directory: PathBuf,
    /// When it began, RFC 3339.
    pub time: String,
}

impl Header {
    /// Of a session that begins now.
    pub fn new(session: String, agent: &str, (directory, now): (&Path, SystemTime)) -> Header {
        let time = timestamp::format(now);
        Header { version: VERSION, session, agent: agent.to_owned(), directory: directory.to_owned(), time }
    }
}

/// One line after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// Something was said to the agent.
    Heard {
        /// The words.
        content: Vec<Block>,
        /// Identities of the messages among them: they are not taken again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mail: Vec<String>,
    },
    /// The model has answered.
    Answer(Box<Answer>),
    /// A call has its result.
    Result {
        /// A `tool_result` block.
        block: Block,
    },
    /// The conversation was replaced by a shorter one.
    Shrunk {
        /// All of it.
        messages: Vec<Message>,
    },
    /// The user has interrupted the turn.
    Interrupted,
    /// The model could not be asked.
    Failed {
        /// Why.
        why: String,
    },
}

impl Record {
    /// The fault points before and after it is written.
    pub(super) fn steps(&self) -> (&'static str, &'static str) {
        match self {
            Record::Heard { .. } => ("agent:write:heard", "agent:written:heard"),
            Record::Answer(_) => ("agent:write:answer", "agent:written:answer"),
            Record::Result { .. } => ("agent:write:result", "agent:written:result"),
            Record::Shrunk { .. } => ("agent:write:shrunk", "agent:written:shrunk"),
            Record::Interrupted | Record::Failed { .. } => ("agent:write:end", "agent:written:end"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    time: String,
    #[serde(flatten)]
    what: T,
}

/// A conversation as its transcript tells it.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// The conversation. Every call in it has its result.
    pub messages: Vec<Message>,
    /// Identities of the mail in it.
    pub mail: Vec<String>,
    /// Results that were made up for calls without any, to be written down.
    pub made_up: Vec<Block>,
    /// Whether the user interrupted it last: it waits for words then.
    pub is_interrupted: bool,
}

/// What a conversation was, from its records.
pub fn told(records: impl IntoIterator<Item = Record>) -> Told {
    let mut told = Told::default();
    for record in records {
        told.is_interrupted = record == Record::Interrupted;
        match record {
            Record::Heard { content, mail } => {
                told.hear(content);
                told.mail.extend(mail);
            }
            Record::Answer(answer) if answer.content.is_empty() => {}
            Record::Answer(answer) => {
                told.messages.push(Message { role: Role::Assistant, content: answer.content });
            }
            Record::Result { block } => told.hear(vec![block]),
            Record::Shrunk { messages } => told.messages = messages,
            Record::Interrupted | Record::Failed { .. } => {}
        }
    }
    for call in told.open_calls() {
        let content = crate::provider::Content::Text(NO_RESULT.to_owned());
        told.made_up.push(Block::result(&call, &content, crate::provider::IsError::Yes));
    }
    if !told.made_up.is_empty() {
        told.hear(told.made_up.clone());
    }
    told.order_results();
    told
}

impl Told {
    /// Adds to what the user's side says since the last answer.
    fn hear(&mut self, content: Vec<Block>) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.extend(content),
            _ => self.messages.push(Message { role: Role::User, content }),
        }
    }

    /// Results were written as they came; the model got them in the order of its calls.
    fn order_results(&mut self) {
        for pair in 1..self.messages.len() {
            let (before, after) = self.messages.split_at_mut(pair);
            let calls: Vec<String> =
                before[pair - 1].content.iter().filter_map(Block::as_call).map(|call| call.id).collect();
            after[0].content.sort_by_key(|block| {
                block.answers().and_then(|id| calls.iter().position(|call| call == id)).unwrap_or(calls.len())
            });
        }
    }

    /// Calls of the last answer that have no result.
    fn open_calls(&self) -> Vec<String> {
        let Some(at) = self.messages.iter().rposition(|m| m.role == Role::Assistant) else {
            return Vec::new();
        };
        let answered: Vec<&str> =
            self.messages[at..].iter().flat_map(|m| &m.content).filter_map(Block::answers).collect();
        let calls = self.messages[at].content.iter().filter_map(Block::as_call);
        calls.map(|call| call.id).filter(|id| !answered.contains(&id.as_str())).collect()
    }

    /// Whether the model is to be asked at once: the last word is the user's, or a result's.
    pub fn is_unanswered(&self) -> bool {
        !self.is_interrupted && self.messages.last().is_some_and(|m| m.role == Role::User)
    }
}

/// A transcript that this process holds.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    file: File,
    header: Header,
    _held: Flock,
}

impl Transcript {
    /// Begins one. Its folder is made.
    ///
    /// # Errors
    /// The file system's; one of that name is there already.
    pub fn create(path: &Path, header: Header) -> Result<Transcript, Error> {
        if let Some(dir) = path.parent() {
            atomic_file::make_private_dir(dir)?;
        }
        let held = hold(path)?;
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(failed("create session", path))?;
        let mut transcript = Transcript { path: path.to_owned(), file, header, _held: held };
        let line = serde_json::to_string(&transcript.header).map_err(std::io::Error::other);
        line.and_then(|line| transcript.append(&format!("{line}\n")))
            .map_err(failed("write session", path))?;
        Ok(transcript)
    }

    /// Goes on with one, and tells what it holds. A last line that was cut off by a kill is taken away.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::InUse`], [`Error::Damaged`]; the file system's.
    pub fn resume(path: &Path) -> Result<(Transcript, Told), Error> {
        let held = match path.is_file() {
            true => hold(path)?,
            false => return Err(Error::Missing(path.to_owned())),
        };
        let mut file = OpenOptions::new().read(true).append(true).open(path);
        let mut bytes = Vec::new();
        if let Ok(file) = &mut file {
            file.read_to_end(&mut bytes).map_err(failed("read session", path))?;
        }
        let mut file = file.map_err(failed("open session", path))?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed("repair session", path))?;
            file.seek(SeekFrom::End(0)).map_err(failed("repair session", path))?;
        }
        let (header, records) = parse(path, &bytes[..whole])?;
        Ok((Transcript { path: path.to_owned(), file, header, _held: held }, told(records)))
    }

    /// The first line of one that may be in use; none if it cannot be read.
    pub fn header_of(path: &Path) -> Option<Header> {
        let mut first = String::new();
        BufReader::new(File::open(path).ok()?).read_line(&mut first).ok()?;
        serde_json::from_str(&first).ok()
    }

    /// Its first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds records. When this returns they are on the disk.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&mut self, records: &[Record], now: SystemTime) -> Result<(), Error> {
        let mut text = String::new();
        for what in records {
            let line = serde_json::to_string(&Line { time: timestamp::format(now), what });
            text += &line.map_err(std::io::Error::other).map_err(failed("write session", &self.path))?;
            text.push('\n');
        }
        self.append(&text).map_err(failed("write session", &self.path))?;
        Ok(())
    }

    fn append(&mut self, text: &str) -> std::io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// The right to write it.
fn hold(path: &Path) -> Result<Flock, Error> {
    Flock::try_acquire(&path.with_extension("lock"))?.ok_or_else(|| Error::InUse(path.to_owned()))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<(Header, Vec<Record>), Error> {
    let damaged = |line: usize, problem: String| Error::Damaged { path: path.to_owned(), line, problem };
    let mut lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let Some((_, first)) = lines.next() else {
        return Err(damaged(1, "the session has no first line".to_owned()));
    };
    let header: Header = serde_json::from_slice(first).map_err(|e| damaged(1, e.to_string()))?;
    if header.version != VERSION {
        let problem = format!("a transcript of version {}, and this throng reads {VERSION}", header.version);
        return Err(damaged(1, problem));
    }
    let record = |(at, line): (usize, &[u8])| {
        let line: Line<Record> = serde_json::from_slice(line).map_err(|e| damaged(at + 1, e.to_string()))?;
        Ok(line.what)
    };
    Ok((header, lines.map(record).collect::<Result<_, Error>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(value: serde_json::Value) -> Block {
        serde_json::from_value(value).unwrap()
    }

    fn answer(content: Vec<Block>) -> Record {
        let stop_reason = "tool_use".to_owned();
        let (id, model) = ("m".to_owned(), "x".to_owned());
        Record::Answer(Box::new(Answer { id, model, content, stop_reason, usage: Default::default() }))
    }

    fn call(id: &str) -> Block {
        block(json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "a"}}))
    }

    #[test]
    fn d9_what_was_written_is_told_and_a_torn_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s/one.jsonl");
        let header = Header::new("id".to_owned(), "main", (Path::new("/w"), SystemTime::now()));
        let mut transcript = Transcript::create(&path, header.clone()).unwrap();
        let thought = block(json!({"type": "thinking", "thinking": "hm", "signature": "é=", "new": 1.50}));
        let records = [
            Record::Heard { content: vec![Block::text("go")], mail: vec!["m1".to_owned()] },
            answer(vec![thought.clone(), call("a"), call("b")]),
            Record::Result {
                block: block(json!({"type": "tool_result", "tool_use_id": "b", "content": "B"})),
            },
        ];
        transcript.write(&records, SystemTime::now()).unwrap();
        assert!(matches!(Transcript::resume(&path), Err(Error::InUse(_))));
        drop(transcript);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"time\":\"t\",\"type\":\"resu").unwrap();
        for _ in 0..2 {
            let (resumed, told) = Transcript::resume(&path).unwrap();
            assert_eq!(resumed.header(), &header);
            assert_eq!(told.mail, ["m1"]);
            assert_eq!(told.messages.len(), 3);
            assert_eq!(told.messages[1].content[0], thought);
            assert_eq!(told.made_up.len(), 1);
            assert_eq!(told.made_up[0].answers(), Some("a"));
            assert!(told.is_unanswered());
        }
        assert!(matches!(Transcript::resume(&dir.path().join("no")), Err(Error::Missing(_))));
    }

    #[test]
    fn a_line_that_is_not_ours_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.jsonl");
        let header = Header::new("id".to_owned(), "main", (Path::new("/w"), SystemTime::now()));
        drop(Transcript::create(&path, header).unwrap());
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"time\":\"t\",\"type\":\"sung\"}\n").unwrap();
        let error = Transcript::resume(&path).unwrap_err().to_string();
        assert!(error.contains("one.jsonl:2: unknown variant `sung`"), "{error}");
    }

    #[test]
    fn an_interrupted_conversation_waits_for_words() {
        let heard = || Record::Heard { content: vec![Block::text("go")], mail: Vec::new() };
        assert!(told([heard()]).is_unanswered());
        assert!(!told([heard(), Record::Interrupted]).is_unanswered());
        assert!(told([heard(), Record::Failed { why: "x".to_owned() }]).is_unanswered());
        assert!(!told([heard(), answer(vec![Block::text("done")])]).is_unanswered());
    }
}
