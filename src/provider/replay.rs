//! A recorded run once more, without any service: each request must be the recorded one, and gets the recorded answer (D10).

#[cfg(test)]
mod tests;

use super::cassette::{self, Header, Line, Moment, Plain, changed};
use super::difference::{difference, shown};
use super::known::Known;
use super::{Answering, Block, Deltas, Error, ModelEvent, Request};
use crate::protocol::timestamp;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A replay.
#[derive(Debug)]
pub struct Replay {
    dir: PathBuf,
    /// Key of the agent; its sub-agents have it with a number.
    agent: String,
    known: Known,
    moment: Moment,
    tapes: BTreeMap<String, Tape>,
}

/// One agent's recording.
#[derive(Debug)]
struct Tape {
    path: PathBuf,
    header: Header,
    calls: std::vec::IntoIter<Line>,
    /// Whether a call after these was cut off.
    is_torn: bool,
    known: Known,
    /// The recorded request before.
    before: Plain,
    /// How many calls were made.
    made: usize,
}

impl Replay {
    /// Of this agent's recording and those of its sub-agents.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn new(dir: &Path, agent: &str) -> Result<Replay, Error> {
        let tape = Tape::open(dir, agent, Known::new())?;
        let moment = Moment::at(began(&tape.header));
        let tapes = BTreeMap::from([(agent.to_owned(), tape)]);
        Ok(Replay { dir: dir.to_owned(), agent: agent.to_owned(), known: Known::new(), moment, tapes })
    }

    /// What the recording of the agent says of itself.
    pub fn header(&self) -> Option<&Header> {
        self.tapes.get(&self.agent).map(|tape| &tape.header)
    }

    /// The values of this run.
    #[must_use]
    pub fn knowing(mut self, known: Known) -> Replay {
        self.tapes.values_mut().for_each(|tape| tape.known = known.clone());
        self.known = known;
        self
    }

    /// Its clock.
    pub fn moment(&self) -> Moment {
        self.moment.clone()
    }

    pub(super) fn start(&mut self, agent: &str, request: &Request, deltas: Deltas) -> Answering {
        Answering::of(self.answer(agent, request, deltas).unwrap_or_else(|e| vec![Err(e)]))
    }

    fn answer(
        &mut self,
        agent: &str,
        request: &Request,
        deltas: Deltas,
    ) -> Result<Vec<Result<ModelEvent, Error>>, Error> {
        if !self.tapes.contains_key(agent) {
            let path = cassette::file(&self.dir, agent, "jsonl")?;
            if !path.exists() {
                let difference = format!("{agent} was not recorded: there is no {}", path.display());
                return Err(Error::Differs { difference });
            }
            self.tapes.insert(agent.to_owned(), Tape::open(&self.dir, agent, self.known.clone())?);
        }
        let tape = self.tapes.get_mut(agent);
        let tape = tape.ok_or_else(|| Error::Settings(format!("no recording of {agent}")))?;
        let line = tape.take(request)?;
        if let Some(time) = timestamp::parse(&line.time) {
            self.moment.set(time);
        }
        let known = &tape.known;
        let events =
            line.events.iter().map(|event| changed(event, &mut |text| known.put_back(text))).collect();
        let mut events: Vec<_> = fitting(events, deltas).into_iter().map(Ok).collect();
        events.extend(line.error.map(Err));
        Ok(events)
    }

    /// The session is over.
    ///
    /// # Errors
    /// Recorded calls were not made.
    pub(super) fn end(&self) -> Result<(), Error> {
        self.tapes.values().try_for_each(Tape::end)?;
        // Sub-agents that were recorded, and have asked nothing now.
        let mut others = cassette::sub_agents(&self.dir, &self.agent)?;
        others.retain(|key| !self.tapes.contains_key(key));
        others.iter().try_for_each(|key| Tape::open(&self.dir, key, Known::new())?.end())
    }
}

impl Tape {
    fn open(dir: &Path, agent: &str, known: Known) -> Result<Tape, Error> {
        let path = cassette::file(dir, agent, "jsonl")?;
        let cassette::Found { header, lines, is_torn } = cassette::read(&path)?;
        if is_torn {
            tracing::warn!(path = %path.display(), "the recording's last line was cut off: it does not count");
        }
        let calls = lines.into_iter();
        Ok(Tape { path, header, calls, is_torn, known, before: Plain::default(), made: 0 })
    }

    /// Whether all of its calls were made.
    fn end(&self) -> Result<(), Error> {
        let (made, left) = (self.made, self.calls.len());
        if left == 0 {
            return Ok(());
        }
        let difference = format!(
            "the session is over, and of the {} recorded calls of {} only {made} were made",
            made + left,
            self.path.display()
        );
        Err(Error::Differs { difference })
    }

    /// The recorded call, if the request is the recorded one.
    fn take(&mut self, request: &Request) -> Result<Line, Error> {
        let asked = Plain::of(request, &mut self.known);
        self.made += 1;
        let number = self.made;
        let differs = |difference: String| Err(Error::Differs { difference });
        let Some(line) = self.calls.next() else {
            let last = asked.messages.last().map(shown).unwrap_or_default();
            let path = self.path.display();
            let torn = if self.is_torn { ", and a last line that was cut off" } else { "" };
            return differs(format!(
                "call {number} was not recorded: {path} holds {}{torn}; asked: {last}",
                number - 1
            ));
        };
        let recorded = std::mem::take(&mut self.before).after(line.request.clone());
        let difference = difference(&recorded, &asked);
        self.before = recorded;
        if let Some(difference) = difference {
            return differs(format!("call {number} of {}: {difference}", self.path.display()));
        }
        let is_whole = line.error.is_some() || matches!(line.events.last(), Some(ModelEvent::Done(_)));
        match is_whole {
            true => Ok(line),
            false => differs(format!(
                "call {number} of {} was interrupted when it was recorded: it has no answer",
                self.path.display()
            )),
        }
    }
}

/// When a recording began.
fn began(header: &Header) -> SystemTime {
    timestamp::parse(&header.time).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The events as they are wanted now: pieces are left out, or made where none were recorded.
pub(super) fn fitting(events: Vec<ModelEvent>, deltas: Deltas) -> Vec<ModelEvent> {
    let is_piece = |event: &ModelEvent| {
        matches!(event, ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::CallBegins { .. })
    };
    let has_pieces = events.iter().any(is_piece);
    let mut fitting = Vec::new();
    for event in events {
        match &event {
            event if is_piece(event) && deltas == Deltas::Unwanted => continue,
            ModelEvent::Done(answer) if !has_pieces && deltas == Deltas::Wanted => {
                let texts = answer.content.iter().filter_map(Block::as_text);
                fitting.extend(texts.map(|text| ModelEvent::Text(text.to_owned())));
            }
            _ => {}
        }
        fitting.push(event);
    }
    fitting
}
