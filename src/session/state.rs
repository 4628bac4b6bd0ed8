//! An agent's decisions. Pure: what happens comes in, what is to be done comes out.

use super::event::{Action, End, Event, News, Rest};
use super::shrink::{self, Shrinking};
use super::transcript::{Record, Told};
use crate::protocol::{Entry, body};
use crate::provider::{
    Answer, Block, Call, Content, Error, IsError, Message, ModelEvent, Request, Role, ToolDefinition, Usage,
};
use crate::tools::{Beside, Effect, Outcome, Stamp, Tool};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// Calls that run side by side.
const CALLS_MAX: usize = 8;
/// Recent activities that are kept.
const ACTIVITIES_MAX: usize = 5;
/// Longest activity in characters.
const ACTIVITY_CHARS_MAX: usize = 100;
/// What a call is answered that the user has interrupted.
const INTERRUPTED: &str = "The user interrupted this call: it may have taken effect in part, or not at all.";

/// How an agent works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model's full name.
    pub model: String,
    /// Most tokens of an answer.
    pub tokens_max: u32,
    /// Tokens to think with.
    pub thinking_tokens: Option<u32>,
    /// Tokens that the model can read at once.
    pub window_tokens: u64,
    /// Parts of the system prompt, what varies last.
    pub system: Arc<[String]>,
    /// The tools.
    pub tools: Arc<[ToolDefinition]>,
    /// What the agent may spend.
    pub limits: Limits,
    /// What an answer costs in US dollars, if that is known.
    pub price: Option<fn(&Usage) -> f64>,
    /// When mail is taken.
    pub mail: MailAt,
}

/// When mail that comes during a turn is taken (C2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailAt {
    /// With the next results of tools.
    Rounds,
    /// When the turn is over: only so is a replay the same each time.
    TurnEnds,
}

/// What an agent may spend; none: without a limit. Checked before each request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Requests to the model.
    pub turns: Option<u64>,
    /// Tokens read (from the cache or not) and written.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// What an agent has done so far (D8).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Requests that were answered.
    pub turns: u64,
    /// Calls of tools.
    pub tool_uses: u64,
    /// Size of the conversation at the last answer, in tokens.
    pub context_tokens: u64,
    /// All answers together.
    pub usage: Usage,
    /// US dollars; none: the model's price is not known.
    pub cost_usd: Option<f64>,
    /// The last calls, the newest last, in words.
    pub activities: VecDeque<String>,
}

/// What the agent is doing.
#[derive(Debug)]
enum Phase {
    /// Nothing: it waits for words.
    Resting,
    /// The model is being asked.
    Asking,
    /// The model is asked for a summary of the conversation.
    Summarising,
    /// Calls run.
    Working(Work),
    /// The session is over.
    Over,
}

/// The calls of one answer.
#[derive(Debug, Default)]
struct Work {
    /// All of them, in the model's order.
    calls: Vec<Call>,
    /// Those that have not begun.
    queue: VecDeque<Call>,
    /// Ids of those that run.
    running: Vec<String>,
    /// Results, by call.
    results: BTreeMap<String, Block>,
}

/// Words that wait for the next request.
#[derive(Debug)]
enum Input {
    Said(String),
    Mail(Box<Entry>),
}

impl Input {
    /// Whether it may join the conversation in the middle of a turn.
    fn may_join(&self, mail: MailAt) -> bool {
        mail == MailAt::Rounds || matches!(self, Input::Said(_))
    }
}

/// One agent.
#[derive(Debug)]
pub struct State {
    settings: Settings,
    messages: Arc<Vec<Message>>,
    phase: Phase,
    waiting: VecDeque<Input>,
    /// Identities of the mail that was taken or waits.
    mail: HashSet<String>,
    progress: Progress,
    shrinking: Shrinking,
    seen: BTreeMap<PathBuf, Stamp>,
    directory: PathBuf,
    /// Results that a resumed conversation lacked.
    made_up: Vec<Block>,
    is_unanswered: bool,
    /// The leader's request to end.
    end_asked: Option<Box<Entry>>,
}

impl State {
    /// An agent with this conversation behind it.
    pub fn new(settings: Settings, directory: PathBuf, told: Told) -> State {
        let price = settings.price;
        State {
            settings,
            is_unanswered: told.is_unanswered(),
            messages: Arc::new(told.messages),
            phase: Phase::Resting,
            waiting: VecDeque::new(),
            mail: told.mail.into_iter().collect(),
            progress: Progress { cost_usd: price.map(|_| 0.0), ..Progress::default() },
            shrinking: Shrinking::default(),
            seen: BTreeMap::new(),
            directory,
            made_up: told.made_up,
            end_asked: None,
        }
    }

    /// What it has done so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Its model.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// Files that it has seen, as it saw them.
    pub fn seen(&self) -> &BTreeMap<PathBuf, Stamp> {
        &self.seen
    }

    /// Where its commands run.
    pub fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// Whether it asks the model as soon as it begins.
    pub fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// Whether it waits for words.
    pub fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting | Phase::Over)
    }

    /// The step.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if matches!(self.phase, Phase::Over) {
            return actions;
        }
        match event {
            Event::Begin => self.begin(&mut actions),
            Event::Prompt(text) | Event::Notice(text) => self.hear(Input::Said(text), &mut actions),
            Event::Mail(entries) => self.take_mail(entries, &mut actions),
            Event::EndAsked(request) => self.on_end_asked(request, &mut actions),
            Event::Model(event) => self.on_model(event, &mut actions),
            Event::ModelFailed(error) => self.on_failure(error, &mut actions),
            Event::CallDone { call, outcome } => self.on_result(&call, outcome, &mut actions),
            Event::Interrupt => self.interrupt(&mut actions),
        }
        actions
    }

    fn begin(&mut self, actions: &mut Vec<Action>) {
        actions.extend(
            std::mem::take(&mut self.made_up)
                .into_iter()
                .map(|block| Action::Write(Record::Result { block })),
        );
        if self.is_unanswered {
            self.ask(actions);
        }
    }

    /// Words wait until the model may be asked.
    fn hear(&mut self, input: Input, actions: &mut Vec<Action>) {
        self.waiting.push_back(input);
        if matches!(self.phase, Phase::Resting) {
            self.take_turn(actions);
        }
    }

    fn take_mail(&mut self, entries: Vec<Entry>, actions: &mut Vec<Action>) {
        let mut known = Vec::new();
        for entry in entries {
            let identity = entry.identity();
            // What the transcript holds was not marked only because we were killed in between.
            if self.mail.insert(identity.clone()) {
                self.waiting.push_back(Input::Mail(Box::new(entry)));
            } else if !self.is_waiting(&identity) {
                known.push(identity);
            }
        }
        if !known.is_empty() {
            actions.push(Action::MarkRead(known));
        }
        if matches!(self.phase, Phase::Resting) {
            self.take_turn(actions);
        }
    }

    /// The turn is ended first: the grace of whoever asks is its limit.
    fn on_end_asked(&mut self, request: Box<Entry>, actions: &mut Vec<Action>) {
        self.end_asked = Some(request);
        if matches!(self.phase, Phase::Resting) {
            self.agree_to_end(actions);
        }
    }

    fn agree_to_end(&mut self, actions: &mut Vec<Action>) -> bool {
        let Some(request) = self.end_asked.take() else { return false };
        self.phase = Phase::Over;
        actions.push(Action::End(End::Asked(request)));
        true
    }

    fn is_waiting(&self, identity: &str) -> bool {
        self.waiting.iter().any(|input| matches!(input, Input::Mail(entry) if entry.identity() == identity))
    }

    /// A new turn, if there are words for it.
    fn take_turn(&mut self, actions: &mut Vec<Action>) {
        if self.take_words(MailAt::Rounds, actions) {
            self.ask(actions);
        }
    }

    /// Makes what waits, and may join now, part of the conversation.
    fn take_words(&mut self, mail_at: MailAt, actions: &mut Vec<Action>) -> bool {
        let mut mail = Vec::new();
        let mut content = Vec::new();
        let (joins, waits) = self.waiting.drain(..).partition(|input| input.may_join(mail_at));
        self.waiting = waits;
        let joins: VecDeque<Input> = joins;
        for input in joins {
            match input {
                // The service refuses blank texts (case C083).
                Input::Said(text) if text.trim().is_empty() => {}
                Input::Said(text) => content.push(Block::text(text)),
                Input::Mail(entry) => {
                    mail.push(entry.identity());
                    content.push(Block::text(body::for_model(&entry)));
                }
            }
        }
        if content.is_empty() {
            return false;
        }
        self.say(content.clone());
        actions.push(Action::Write(Record::Heard { content: content.clone(), mail: mail.clone() }));
        if !mail.is_empty() {
            actions.push(Action::MarkRead(mail));
        }
        actions.push(Action::Show(News::Heard(content)));
        true
    }

    /// The user's side of the conversation goes on.
    fn say(&mut self, content: Vec<Block>) {
        let messages = Arc::make_mut(&mut self.messages);
        match messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.extend(content),
            _ => messages.push(Message { role: Role::User, content }),
        }
    }

    fn ask(&mut self, actions: &mut Vec<Action>) {
        if let Some(limit) = self.limit() {
            self.phase = Phase::Over;
            actions.push(Action::End(End::Limit(limit)));
            return;
        }
        if self.shrinking.is_due(self.progress.context_tokens, self.settings.window_tokens) {
            return self.shrink(None, actions);
        }
        self.phase = Phase::Asking;
        actions.push(Action::Ask(self.request()));
    }

    fn request(&self) -> Request {
        Request {
            model: self.settings.model.clone(),
            tokens_max: self.settings.tokens_max,
            thinking_tokens: self.settings.thinking_tokens,
            system: Arc::clone(&self.settings.system),
            tools: Arc::clone(&self.settings.tools),
            messages: Arc::clone(&self.messages),
        }
    }

    /// The limit that is reached, in words.
    fn limit(&self) -> Option<String> {
        let Limits { turns, tokens, cost_usd } = self.settings.limits;
        let used = self.progress.usage.context() + self.progress.usage.output_tokens;
        let spent = self.progress.cost_usd.unwrap_or_default();
        if let Some(max) = turns.filter(|max| self.progress.turns >= *max) {
            return Some(format!("the limit of {max} turns is reached"));
        }
        if let Some(max) = tokens.filter(|max| used >= *max) {
            return Some(format!("the limit of {max} tokens is reached ({used} used)"));
        }
        let max = cost_usd.filter(|max| spent >= *max)?;
        Some(format!("the limit of ${max:.2} is reached (${spent:.2} spent)"))
    }

    fn on_model(&mut self, event: ModelEvent, actions: &mut Vec<Action>) {
        let news = match event {
            ModelEvent::Done(answer) => return self.on_answer(answer, actions),
            ModelEvent::AskingAgain { attempt, wait, why } => News::AskingAgain { attempt, wait, why },
            _ if !matches!(self.phase, Phase::Asking) => return,
            ModelEvent::Text(text) => News::Text(text),
            ModelEvent::Thinking(text) => News::Thinking(text),
            ModelEvent::CallBegins { name } => News::CallBegins(name),
        };
        actions.push(Action::Show(news));
    }

    fn on_answer(&mut self, answer: Box<Answer>, actions: &mut Vec<Action>) {
        let is_summary = match self.phase {
            Phase::Asking => false,
            Phase::Summarising => true,
            _ => return,
        };
        self.count(&answer);
        if is_summary {
            let text: String = answer.content.iter().filter_map(Block::as_text).collect();
            if text.trim().is_empty() {
                let message = "the model gave no summary of it".to_owned();
                return self.fail(Error::TooLong { message }, actions);
            }
            let messages = shrink::summarised(&self.messages, &text);
            return self.go_on_with(messages, "older parts were replaced by a summary", actions);
        }
        self.shrinking = Shrinking::default();
        actions.push(Action::Write(Record::Answer(answer.clone())));
        if !answer.content.is_empty() {
            let content = answer.content.clone();
            Arc::make_mut(&mut self.messages).push(Message { role: Role::Assistant, content });
        }
        let calls: Vec<Call> = answer.content.iter().filter_map(Block::as_call).collect();
        let stop = answer.stop_reason.clone();
        let text: String = answer.content.iter().filter_map(Block::as_text).collect();
        actions.push(Action::Show(News::Answer(answer)));
        if !calls.is_empty() {
            self.progress.tool_uses += calls.len() as u64;
            let queue = calls.iter().cloned().collect();
            self.phase = Phase::Working(Work { calls, queue, ..Work::default() });
            return self.start_calls(actions);
        }
        match stop.as_str() {
            // The service's own tools take longer than one answer.
            "pause_turn" => self.ask(actions),
            "refusal" => {
                let message = "the model refused to answer".to_owned();
                let error = Error::Refused { status: 200, kind: "refusal".to_owned(), message };
                self.rest(Rest::Failed(error), actions);
            }
            _ => self.rest(Rest::Done(text), actions),
        }
    }

    fn count(&mut self, answer: &Answer) {
        self.progress.turns += 1;
        self.progress.context_tokens = answer.usage.context() + answer.usage.output_tokens;
        self.progress.usage += answer.usage;
        if let (Some(cost), Some(price)) = (&mut self.progress.cost_usd, self.settings.price) {
            *cost += price(&answer.usage);
        }
    }

    /// The turn is over; what waits begins the next one.
    fn rest(&mut self, rest: Rest, actions: &mut Vec<Action>) {
        self.phase = Phase::Resting;
        if self.agree_to_end(actions) {
            return;
        }
        if !self.waiting.is_empty() && matches!(rest, Rest::Done(_)) {
            return self.take_turn(actions);
        }
        actions.push(Action::Show(News::Rests(rest.clone())));
        actions.push(Action::Rest(rest));
    }

    /// Begins what may begin: reads side by side, all else alone and in order.
    fn start_calls(&mut self, actions: &mut Vec<Action>) {
        let Phase::Working(work) = &mut self.phase else { return };
        let beside = |name: &str| Tool::named(name).map_or(Beside::Nothing, Tool::runs_beside);
        // A replay is the same each time only if the results come in the same order.
        let calls_max = if self.settings.mail == MailAt::TurnEnds { 1 } else { CALLS_MAX };
        while let Some(next) = work.queue.front() {
            let all_beside = beside(&next.name) == Beside::Others
                && work
                    .calls
                    .iter()
                    .filter(|c| work.running.contains(&c.id))
                    .all(|c| beside(&c.name) == Beside::Others);
            if !(work.running.is_empty() || all_beside && work.running.len() < calls_max) {
                break;
            }
            let Some(call) = work.queue.pop_front() else { break };
            work.running.push(call.id.clone());
            let activity: String = activity(&call).chars().take(ACTIVITY_CHARS_MAX).collect();
            self.progress.activities.push_back(activity);
            if self.progress.activities.len() > ACTIVITIES_MAX {
                self.progress.activities.pop_front();
            }
            actions.push(Action::Show(News::Calling(call.clone())));
            actions.push(Action::Run(call));
        }
    }

    fn on_result(&mut self, id: &str, outcome: Outcome, actions: &mut Vec<Action>) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some(at) = work.running.iter().position(|running| running == id) else { return };
        work.running.swap_remove(at);
        for effect in outcome.effects {
            match effect {
                Effect::Saw(path, stamp) => drop(self.seen.insert(path, stamp)),
                Effect::Directory(path) => self.directory = path,
            }
        }
        let block = Block::result(id, &outcome.content, outcome.is_error);
        work.results.insert(id.to_owned(), block.clone());
        actions.push(Action::Write(Record::Result { block: block.clone() }));
        actions.push(Action::Show(News::Result(block)));
        if work.running.is_empty() && work.queue.is_empty() {
            self.end_round();
            self.take_words(self.settings.mail, actions);
            self.ask(actions);
        } else {
            self.start_calls(actions);
        }
    }

    /// The results of a round become part of the conversation, in the order of the calls.
    fn end_round(&mut self) {
        if let Phase::Working(work) = &mut self.phase {
            let mut results = std::mem::take(&mut work.results);
            let blocks = work.calls.iter().filter_map(|call| results.remove(&call.id)).collect();
            self.say(blocks);
        }
    }

    fn on_failure(&mut self, error: Error, actions: &mut Vec<Action>) {
        match (&self.phase, error) {
            (Phase::Asking | Phase::Summarising, error @ Error::TooLong { .. }) => {
                self.shrink(Some(error), actions);
            }
            (Phase::Asking | Phase::Summarising, error) => self.fail(error, actions),
            _ => {}
        }
    }

    fn fail(&mut self, error: Error, actions: &mut Vec<Action>) {
        self.shrinking = Shrinking::default();
        actions.push(Action::Write(Record::Failed { why: error.to_string() }));
        self.rest(Rest::Failed(error), actions);
    }

    /// Makes the conversation shorter, in a bounded number of tries (case C085).
    fn shrink(&mut self, error: Option<Error>, actions: &mut Vec<Action>) {
        match self.shrinking.next(&self.messages) {
            shrink::Step::Cut(messages) => {
                self.go_on_with(messages, "long results of tools were cut", actions);
            }
            shrink::Step::Summarise(messages) => {
                self.phase = Phase::Summarising;
                let request =
                    Request { messages: Arc::new(messages), thinking_tokens: None, ..self.request() };
                actions.push(Action::Ask(request));
            }
            shrink::Step::GiveUp => {
                let message = "it cannot be made short enough".to_owned();
                self.fail(error.unwrap_or(Error::TooLong { message }), actions);
            }
        }
    }

    fn go_on_with(&mut self, messages: Vec<Message>, how: &str, actions: &mut Vec<Action>) {
        self.progress.context_tokens = 0;
        actions.push(Action::Write(Record::Shrunk { messages: messages.clone() }));
        actions.push(Action::Show(News::Shrunk { how: how.to_owned() }));
        self.messages = Arc::new(messages);
        self.ask(actions);
    }

    fn interrupt(&mut self, actions: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Resting => {
                self.phase = Phase::Over;
                return actions.push(Action::End(End::Interrupted));
            }
            Phase::Over => return,
            Phase::Asking | Phase::Summarising => actions.push(Action::StopAsking),
            Phase::Working(work) => {
                actions.push(Action::CancelCalls);
                for call in &work.calls {
                    if !work.results.contains_key(&call.id) {
                        let content = Content::Text(INTERRUPTED.to_owned());
                        let block = Block::result(&call.id, &content, IsError::Yes);
                        actions.push(Action::Write(Record::Result { block: block.clone() }));
                        work.results.insert(call.id.clone(), block);
                    }
                }
                self.end_round();
            }
        }
        actions.push(Action::Write(Record::Interrupted));
        self.rest(Rest::Interrupted, actions);
    }
}

/// What a call does, in a few words.
pub fn activity(call: &Call) -> String {
    let about = [
        "description",
        "command",
        "file_path",
        "notebook_path",
        "pattern",
        "path",
        "url",
        "query",
        "subject",
    ];
    let word = about.iter().find_map(|key| call.input.get(*key)?.as_str());
    match word {
        Some(word) => {
            format!("{} {}", call.name, body::harmless_lines(word.lines().next().unwrap_or_default()))
        }
        None => call.name.clone(),
    }
}
