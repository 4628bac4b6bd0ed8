//! A model service whose answers are written down as they come, so that the run can be replayed (D10).

use super::cassette::{self, Header, Line, Moment, Plain, changed};
use super::known::Known;
use super::{Answering, Deltas, EVENTS_MAX, Error, ModelEvent, Request, Service};
use crate::protocol::timestamp;
use crate::sys::atomic_file;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tokio::sync::mpsc;

/// A recorder.
#[derive(Debug)]
pub struct Recorder {
    service: Service,
    dir: PathBuf,
    header: Header,
    known: Known,
    moment: Moment,
    tapes: BTreeMap<String, Tape>,
}

/// One agent's recording.
#[derive(Debug)]
struct Tape {
    path: PathBuf,
    file: File,
    known: Known,
    /// The request before.
    before: Plain,
    calls: usize,
}

impl Recorder {
    /// Begins the recording of the agent that the header names, or goes on with it if it is of the same session.
    ///
    /// # Errors
    /// There is a recording of another session; the file cannot be written.
    pub fn new(service: Service, dir: &Path, (header, known): (Header, Known)) -> Result<Recorder, Error> {
        let began = timestamp::parse(&header.time).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut recorder = Recorder {
            service,
            dir: dir.to_owned(),
            known,
            moment: Moment::at(began),
            tapes: BTreeMap::new(),
            header,
        };
        let agent = recorder.header.agent.clone();
        recorder.tape(&agent)?;
        Ok(recorder)
    }

    /// Its clock.
    pub fn moment(&self) -> Moment {
        self.moment.clone()
    }

    fn tape(&mut self, agent: &str) -> Result<&mut Tape, Error> {
        if !self.tapes.contains_key(agent) {
            let header = Header { agent: agent.to_owned(), ..self.header.clone() };
            let tape = Tape::open(&self.dir, &header, self.known.clone())?;
            self.tapes.insert(agent.to_owned(), tape);
        }
        let missing = || Error::Settings(format!("no recording of {agent}"));
        self.tapes.get_mut(agent).ok_or_else(missing)
    }

    /// Asks for an answer and writes it down before the agent has it.
    pub(super) fn start(&mut self, agent: &str, request: &Request, deltas: Deltas) -> Answering {
        match self.begin(agent, request) {
            Ok(recording) => recording.of(self.service.start(request, deltas)),
            Err(e) => Answering::of(vec![Err(e)]),
        }
    }

    pub(super) fn begin(&mut self, agent: &str, request: &Request) -> Result<Recording, Error> {
        let moment = self.moment.clone();
        let (line, file, (path, known)) = self.tape(agent)?.begin(request)?;
        Ok(Recording { line: Some(line), file, path, known, moment })
    }
}

impl Tape {
    fn open(dir: &Path, header: &Header, known: Known) -> Result<Tape, Error> {
        let path = cassette::file(dir, &header.agent, "jsonl")?;
        let failed = |what: &str, e: &dyn std::fmt::Display| {
            Error::Settings(format!("cannot {what} the recording {}: {e}", path.display()))
        };
        if !dir.is_dir() {
            atomic_file::make_private_dir(dir).map_err(|e| failed("make the folder of", &e))?;
        }
        let (before, mut calls) = (Plain::default(), 0);
        let mut options = OpenOptions::new();
        options.read(true).append(true).mode(0o600);
        let mut file = match options.clone().create_new(true).open(&path) {
            Ok(mut file) => {
                append(&mut file, header).map_err(|e| failed("write", &e))?;
                return Ok(Tape { path, file, known, before, calls });
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => options.open(&path),
            Err(e) => Err(e),
        }
        .map_err(|e| failed("open", &e))?;
        let cassette::Found { header: found, lines, .. } = cassette::read(&path)?;
        if found.session != header.session {
            return Err(Error::Settings(format!(
                "{} holds the recording of another session ({}): name another directory, or remove it",
                path.display(),
                found.session
            )));
        }
        calls += lines.len();
        let mut bytes = Vec::new();
        let whole = file
            .read_to_end(&mut bytes)
            .map(|_| bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
        let cut =
            whole.and_then(|whole| file.set_len(whole as u64)).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(|e| failed("mend", &e))?;
        let known = known.having_met(lines.into_iter().flat_map(|line| line.temporary).collect());
        // The first request of this process stands whole: nobody remembers the one before.
        Ok(Tape { path, file, known, before, calls })
    }

    /// The line of a call that begins, and what its end is written with.
    fn begin(&mut self, request: &Request) -> Result<(Line, File, (PathBuf, Known)), Error> {
        let met = self.known.met().len();
        let plain = Plain::of(request, &mut self.known);
        let temporary = self.known.met()[met..].to_vec();
        let change = plain.since(&self.before);
        self.before = plain;
        self.calls += 1;
        let file = self.file.try_clone();
        let file = file.map_err(|e| {
            Error::Settings(format!("cannot write the recording {}: {e}", self.path.display()))
        })?;
        let line = Line {
            call: self.calls,
            request: change,
            temporary,
            events: Vec::new(),
            error: None,
            time: String::new(),
        };
        Ok((line, file, (self.path.clone(), self.known.clone())))
    }
}

/// A call that is being recorded. Dropped before its end it was interrupted, and is written down as that.
#[derive(Debug)]
pub(super) struct Recording {
    line: Option<Line>,
    file: File,
    path: PathBuf,
    known: Known,
    moment: Moment,
}

impl Recording {
    /// The answer, as it is written down.
    pub(super) fn of(self, inner: Answering) -> Answering {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        Answering { events, task: tokio::spawn(self.run(inner, sender)) }
    }

    async fn run(mut self, mut inner: Answering, events: mpsc::Sender<Result<ModelEvent, Error>>) {
        while let Some(event) = inner.next().await {
            let is_last = !event.as_ref().is_ok_and(|event| !matches!(event, ModelEvent::Done(_)));
            if let Some(line) = &mut self.line {
                match &event {
                    Ok(event) => line.events.push(changed(event, &mut |text| self.known.named_as_met(text))),
                    Err(e) => line.error = Some(e.clone()),
                }
            }
            // What could not be written down is not answered: the recording would lie.
            let event = if is_last { self.write().and(event) } else { event };
            if events.send(event).await.is_err() || is_last {
                return;
            }
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let Some(mut line) = self.line.take() else { return Ok(()) };
        let now = SystemTime::now();
        self.moment.set(now);
        line.time = timestamp::format(now);
        let failed = |e| Error::Settings(format!("cannot write the recording {}: {e}", self.path.display()));
        append(&mut self.file, &line).map_err(failed)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Err(e) = self.write() {
            tracing::error!(error = %e, "an interrupted call is not in the recording");
        }
    }
}

/// One line, on the disk when this returns.
fn append(file: &mut File, what: &impl serde::Serialize) -> std::io::Result<()> {
    let line = serde_json::to_string(what).map_err(std::io::Error::other)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}
