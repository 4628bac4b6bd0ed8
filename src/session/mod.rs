//! One process's agent: words and mail in, turns, tool calls, transcript, end. One loop, one closed event enum, one pure
//! step ([`State::on`]); what waits runs beside the loop.

mod calls;
mod event;
mod instructions;
mod mail;
mod permits;
mod prompt;
mod shrink;
mod state;
#[cfg(test)]
mod tests;
pub mod transcript;

pub use calls::Hands;
pub use event::{Action, End, Event, News, Rest, Whom};
pub use instructions::Instructions;
pub use mail::Inbox;
pub use permits::{Approver, Permits};
pub use prompt::{Facts, system};
pub use state::{Limits, MailAt, Progress, Settings, State, activity};
pub use transcript::Transcript;

use crate::protocol::Entry;
use crate::provider::{self, Answering, Deltas, ModelEvent, Provider};
use crate::sys::fault;
use mail::Post;
use permits::{Asked, Question, Reply};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use transcript::Record;

/// How long calls may take to end when the session does. Those that do not are left to the process's end.
const CALLS_END_WITHIN: Duration = Duration::from_secs(10);

/// What the user says and does while a session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Words.
    Prompt(String),
    /// There will be no more words.
    NoMore,
    /// Ctrl-C: once ends the turn, twice the session.
    Interrupt,
    /// The session is to end now.
    Terminate,
}

/// Whether a session goes on when its turn is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtRest {
    /// It is over.
    End,
    /// It waits for words.
    Wait,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The model ended its turn; its last text.
    Done(String),
    /// The user ended it.
    Interrupted,
    /// It was told to end.
    Terminated,
    /// A limit was reached, in words.
    Limit(String),
    /// The model could not be asked.
    Failed(provider::Error),
    /// The leader has asked for it, in this message; it is to be answered.
    Asked(Box<Entry>),
}

/// A session's clock. A replay has that of the recording, so that what is written and printed is the same.
pub type Clock = Box<dyn Fn() -> SystemTime>;

/// A session that can be run.
pub struct Session {
    /// Key of its agent in a recording.
    pub agent: String,
    /// The agent.
    pub state: State,
    /// Whom it asks.
    pub provider: Provider,
    /// Whether answers are shown as they come.
    pub deltas: Deltas,
    /// What it works with.
    pub hands: Hands,
    /// Where it is written down.
    pub transcript: Transcript,
    /// The project's instructions that it knows.
    pub instructions: Instructions,
    /// Its mail, if it is a member of a team.
    pub inbox: Option<Inbox>,
    /// What time it is.
    pub clock: Clock,
    /// Whether it goes on when its turn is over.
    pub at_rest: AtRest,
}

/// Runs a session to its end, and gives its provider back, which may have something to say to the end
/// ([`Provider::end`]). What there is to see goes to `show`. When this returns, no call of it runs any more.
///
/// # Errors
/// The transcript cannot be written: nothing is done that could not be written down.
pub async fn run(
    session: Session,
    heard: mpsc::UnboundedReceiver<Heard>,
    show: &mut dyn FnMut(&News, &Progress),
) -> Result<(Ended, Provider), transcript::Error> {
    let mail = session.inbox.as_ref().map(Inbox::watch);
    let mut running = Running {
        session,
        heard: Some(heard),
        mail,
        answering: None,
        questions: BTreeMap::new(),
        end_asked: None,
        last: String::new(),
    };
    let mut event = Event::Begin;
    let ended = loop {
        let actions = running.session.state.on(event);
        // Written before anything that follows from it.
        running.write(&actions)?;
        let ended = actions.into_iter().filter_map(|action| running.perform(action, show)).last();
        if let Some(ended) = ended {
            break Ok(ended);
        }
        match running.next(show).await {
            Next::Event(next) => event = *next,
            Next::Over(ended) => break Ok(*ended),
            Next::Unwritten(e) => break Err(e),
        }
    };
    drop(running.answering);
    // Who waits for an answer would wait for ever.
    drop(running.questions);
    running.session.hands.end(CALLS_END_WITHIN).await;
    ended.map(|ended| (ended, running.session.provider))
}

/// A session that runs.
struct Running {
    session: Session,
    /// The user, as long as there may be more words.
    heard: Option<mpsc::UnboundedReceiver<Heard>>,
    mail: Option<mpsc::UnboundedReceiver<Post>>,
    answering: Option<Answering>,
    /// Questions that wait for an answer, by id: the oldest first.
    questions: BTreeMap<String, Question>,
    /// The leader's request to end, for which the turn was interrupted.
    end_asked: Option<Box<Entry>>,
    /// The last text of the model.
    last: String,
}

/// What comes next.
enum Next {
    Event(Box<Event>),
    Over(Box<Ended>),
    Unwritten(transcript::Error),
}

impl Running {
    /// Writes down what the actions say, in one go.
    fn write(&mut self, actions: &[Action]) -> Result<(), transcript::Error> {
        let records: Vec<Record> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Write(record) => Some(record.clone()),
                _ => None,
            })
            .collect();
        if records.is_empty() {
            return Ok(());
        }
        let (before, after) = records.last().map_or(("", ""), Record::steps);
        fault::point(before);
        self.session.transcript.write(&records, (self.session.clock)())?;
        fault::point(after);
        Ok(())
    }

    fn perform(&mut self, action: Action, show: &mut dyn FnMut(&News, &Progress)) -> Option<Ended> {
        let session = &mut self.session;
        match action {
            Action::Write(_) => {}
            Action::Ask(request) => {
                self.answering = Some(session.provider.start(&session.agent, &request, session.deltas));
                fault::point("agent:asked");
            }
            Action::StopAsking => self.answering = None,
            Action::Run(call) => session.hands.begin(call, &session.state),
            Action::CancelCalls => {
                self.questions.clear();
                session.hands.cancel();
            }
            Action::MarkRead(identities) => {
                if let Some(inbox) = &session.inbox {
                    inbox.mark_read(identities);
                }
            }
            Action::Show(news) => show(&news, session.state.progress()),
            Action::Rest(rest) => {
                if let Some(inbox) = &session.inbox {
                    inbox.tell_rest(&rest);
                }
                return self.rested(rest);
            }
            Action::End(End::Interrupted) => return Some(Ended::Interrupted),
            Action::End(End::Limit(limit)) => return Some(Ended::Limit(limit)),
            Action::End(End::Asked(request)) => return Some(Ended::Asked(request)),
        }
        None
    }

    /// Whether a rest is the end.
    fn rested(&mut self, rest: Rest) -> Option<Ended> {
        let ended = match rest {
            Rest::Done(text) => {
                self.last.clone_from(&text);
                Ended::Done(text)
            }
            Rest::Interrupted => Ended::Interrupted,
            Rest::Failed(error) => Ended::Failed(error),
        };
        // What was recorded, or written by hand, goes no further from here.
        let differs = matches!(ended, Ended::Failed(provider::Error::Differs { .. }));
        let may_hear = self.heard.is_some() || self.session.inbox.is_some();
        (self.session.at_rest == AtRest::End || !may_hear || differs).then_some(ended)
    }

    async fn next(&mut self, show: &mut dyn FnMut(&News, &Progress)) -> Next {
        if let Some(request) = self.end_asked.take() {
            return Next::event(Event::EndAsked(request));
        }
        loop {
            tokio::select! {
                biased;
                words = of(&mut self.heard) => match words {
                    Some(Heard::Prompt(text)) => {
                        if let Some(prompt) = self.answer_of_a_person(text) {
                            return Next::event(Event::Prompt(prompt));
                        }
                    }
                    Some(Heard::Interrupt) => return Next::event(Event::Interrupt),
                    Some(Heard::Terminate) => return Next::Over(Box::new(Ended::Terminated)),
                    Some(Heard::NoMore) | None => {
                        self.heard = None;
                        if self.session.state.is_resting() && self.session.inbox.is_none() {
                            return Next::Over(Box::new(Ended::Done(std::mem::take(&mut self.last))));
                        }
                    }
                },
                Some(heard) = self.session.hands.next() => {
                    let done = match heard {
                        calls::Heard::Done(done) => done,
                        calls::Heard::Asked(asked) => {
                            self.on_asked(asked, show);
                            continue;
                        }
                    };
                    if let Err(e) = self.take_instructions(&done) {
                        return Next::Unwritten(e);
                    }
                    return Next::event(Event::CallDone { call: done.call, outcome: done.outcome });
                }
                event = next_of(&mut self.answering) => {
                    if !event.as_ref().is_ok_and(|event| !matches!(event, ModelEvent::Done(_))) {
                        self.answering = None;
                    }
                    return Next::event(event.map_or_else(Event::ModelFailed, Event::Model));
                }
                Some(post) = of(&mut self.mail) => match post {
                    // Nobody answers what a team asks that is ending: the turn goes no further.
                    Post::Event(Event::EndAsked(request)) if !self.questions.is_empty() => {
                        self.end_asked = Some(request);
                        return Next::event(Event::Interrupt);
                    }
                    Post::Event(event) => return Next::event(event),
                    Post::Verdict(entry) => self.on_verdict(&entry),
                },
            }
        }
    }

    fn on_asked(&mut self, asked: Asked, show: &mut dyn FnMut(&News, &Progress)) {
        let progress = self.session.state.progress();
        match asked {
            Asked::Refused { call, why } => show(&News::Refused { call, why }, progress),
            Asked::Question(question) => {
                let (call, why) = (question.call.clone(), question.why.clone());
                let whom = match self.session.hands.permits.approver {
                    Approver::Leader(_) => Whom::Leader,
                    Approver::Person | Approver::Nobody => Whom::Person,
                };
                self.questions.insert(question.id.clone(), question);
                show(&News::Asks { call, why, whom }, progress);
            }
        }
    }

    /// A person's words answer the oldest question, if the person was asked one; else they are given back.
    fn answer_of_a_person(&mut self, text: String) -> Option<String> {
        if !matches!(self.session.hands.permits.approver, Approver::Person) {
            return Some(text);
        }
        let Some((_, question)) = self.questions.pop_first() else { return Some(text) };
        let reply = match text.trim().to_lowercase().as_str() {
            "y" | "yes" => Reply::Yes(None),
            "" | "n" | "no" => Reply::No("the user says no".to_owned()),
            _ => Reply::No(format!("the user says no: {text}")),
        };
        // It may have been cancelled meanwhile.
        let _ = question.reply.send(reply);
        None
    }

    /// The leader has answered a question, or says something that answers none.
    fn on_verdict(&mut self, entry: &Entry) {
        let Some(inbox) = &self.session.inbox else { return };
        if let Some((id, reply)) = inbox.answer(entry, &self.questions)
            && let Some(question) = self.questions.remove(&id)
        {
            let _ = question.reply.send(reply);
        }
        inbox.mark_read(vec![entry.identity()]);
    }

    /// Instructions of folders that a call has looked into go with its result.
    fn take_instructions(&mut self, done: &calls::Done) -> Result<(), transcript::Error> {
        let Session { instructions, state, .. } = &mut self.session;
        let Some(text) = calls::instructions_for(done, instructions, state) else { return Ok(()) };
        // While calls run, words only wait.
        let actions = state.on(Event::Notice(text));
        self.write(&actions)
    }
}

impl Next {
    fn event(event: Event) -> Next {
        Next::Event(Box::new(event))
    }
}

/// The next event of the answer on its way; for ever none if there is none on its way.
async fn next_of(answering: &mut Option<Answering>) -> Result<ModelEvent, provider::Error> {
    match answering {
        Some(answering) => answering.next().await.unwrap_or(Err(provider::Error::EndedEarly)),
        None => std::future::pending().await,
    }
}

/// The next of a channel that may be there; for ever none if it is not.
async fn of<T>(channel: &mut Option<mpsc::UnboundedReceiver<T>>) -> Option<T> {
    match channel {
        Some(channel) => channel.recv().await,
        None => std::future::pending().await,
    }
}
