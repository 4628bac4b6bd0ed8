//! A model that was written by hand: what it says when something is said to it, and what it expects (D10). It sees nothing
//! but the request, and finds in the conversation how far it has come, so that an agent that was killed goes on.

mod file;
#[cfg(test)]
mod tests;

use super::replay::fitting;
use super::{Answer, Answering, Block, Deltas, Error, Message, ModelEvent, Request, Role, Usage, cassette};
use file::{Expect, File, On, Repeats, Step, Turn};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// Whose mail is as good as a prompt.
const LEADER: &str = "team-lead";
/// Longest piece of a text that an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 400;
/// What is said where the script says nothing more.
const SILENCE: &str = "Done.";
/// Placeholder for the results of the last calls.
const LAST_RESULT: &str = "last_result";

/// A script that is played.
#[derive(Debug)]
pub struct Script {
    file: File,
    /// What its placeholders stand for from the beginning.
    values: BTreeMap<String, String>,
    /// How far it has come with the last answer.
    came: Came,
}

/// How far a script has come.
#[derive(Debug, Clone, Default)]
struct Came {
    /// Turns that have begun.
    begun: Vec<usize>,
    /// The turn that goes on, and its next step.
    current: Option<(usize, usize)>,
    /// What was said and has begun no turn yet.
    pending: VecDeque<Heard>,
    /// Tasks that have begun a turn.
    tasks: BTreeSet<String>,
    /// Results of the last calls.
    results: Vec<Said>,
    /// The last calls: id and what they are.
    calls: Vec<(String, String)>,
    /// What placeholders stand for.
    values: BTreeMap<String, String>,
    /// Answers that were given.
    answers: usize,
    /// What the last answer takes.
    usage: Usage,
}

/// Something that was said to the agent.
#[derive(Debug, Clone, PartialEq)]
struct Heard {
    on: On,
    /// Whose mail it is.
    from: Option<String>,
    /// Number of the task.
    task: Option<String>,
    text: String,
}

/// What an expectation is about.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    /// Id of the call; none for words.
    call: Option<String>,
    /// What it is, in words.
    what: String,
    text: String,
    is_error: bool,
}

impl Script {
    /// The script of an agent, `DIR/{agent}.toml`, that works in this directory.
    ///
    /// # Errors
    /// It cannot be read, or is no script.
    pub fn new(dir: &Path, agent: &str) -> Result<Script, Error> {
        let path = cassette::file(dir, agent, "toml")?;
        let file = File::read(&path).map_err(|e| Error::Settings(e.to_string()))?;
        let values = BTreeMap::from([("agent".to_owned(), agent.to_owned())]);
        Ok(Script { file, values, came: Came::default() })
    }

    /// The directory that `{directory}` stands for.
    #[must_use]
    pub fn within(mut self, directory: &Path) -> Script {
        self.values.insert("directory".to_owned(), directory.to_string_lossy().into_owned());
        self
    }

    pub(super) fn start(&mut self, request: &Request, deltas: Deltas) -> Answering {
        let events = match self.answer(request) {
            Ok(answer) => {
                fitting(vec![ModelEvent::Done(Box::new(answer))], deltas).into_iter().map(Ok).collect()
            }
            Err(e) => vec![Err(e)],
        };
        Answering::of(events)
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, Error> {
        let mut came = Came { values: self.values.clone(), ..Came::default() };
        for message in request.messages.iter() {
            match message.role {
                Role::User => came.hear(message),
                Role::Assistant => drop(came.answer(&self.file)?),
            }
        }
        let content = came.answer(&self.file)?;
        let calls = content.iter().any(|block| block.kind() == "tool_use");
        let (id, model, usage) = (format!("msg_{}", came.answers), request.model.clone(), came.usage);
        self.came = came;
        let stop_reason = if calls { "tool_use" } else { "end_turn" }.to_owned();
        Ok(Answer { id, model, content, stop_reason, usage })
    }

    /// The session is over.
    ///
    /// # Errors
    /// A turn never began, or did not end.
    pub(super) fn end(&self) -> Result<(), Error> {
        let path = self.file.path.display();
        if let Some((at, step)) = self.came.current
            && let Some(turn) = self.file.turns.get(at).filter(|turn| step < turn.steps.len())
        {
            let what =
                format!("the session is over, and {} stopped before its step {}", title(at, turn), step + 1);
            return Err(Error::Differs { difference: format!("{path}:{}: {what}", turn.line) });
        }
        let turns = self.file.turns.iter().enumerate();
        let mut never = turns.filter(|(at, t)| t.repeats == Repeats::Once && !self.came.begun.contains(at));
        never.next().map_or(Ok(()), |(at, turn)| {
            let what = format!("the session is over, and {} never began", title(at, turn));
            Err(Error::Differs { difference: format!("{path}:{}: {what}", turn.line) })
        })
    }
}

impl Came {
    /// What is said to the agent, and what its calls gave.
    fn hear(&mut self, message: &Message) {
        for block in &message.content {
            if let Some(id) = block.answers() {
                let what = self.calls.iter().find(|(call, _)| call == id).map(|(_, what)| what.clone());
                let is_error = block.0.get("is_error") == Some(&Value::Bool(true));
                let what = what.unwrap_or_else(|| "a call".to_owned());
                self.results.push(Said { call: Some(id.to_owned()), what, text: content(block), is_error });
            }
            if let Some(text) = block.as_text().filter(|text| !text.starts_with("<system-reminder>")) {
                self.pending.push_back(heard(text));
            }
        }
    }

    /// The next answer.
    fn answer(&mut self, file: &File) -> Result<Vec<Block>, Error> {
        self.answers += 1;
        self.usage = Usage::default();
        let mut blocks = Vec::new();
        let mut is_first = true;
        loop {
            let (at, number, about) = match self.current.take() {
                Some((at, number)) => (at, number, self.take_results()),
                None => match self.begin(file)? {
                    Begins::Turn(at, said) => (at, 0, vec![said]),
                    Begins::Nothing if is_first => return Err(nothing_to_do(file)),
                    Begins::Nothing => break,
                    Begins::Reminder => {
                        is_first = false;
                        continue;
                    }
                },
            };
            is_first = false;
            let Some((turn, step)) =
                file.turns.get(at).and_then(|turn| Some((turn, turn.steps.get(number)?)))
            else {
                // The last step's calls have their results, and nothing is said about them.
                continue;
            };
            let place = format!("{}, step {}", title(at, turn), number + 1);
            for expect in &step.expect {
                self.check(expect, &about, (file, &place))?;
            }
            if self.perform(step, (&mut blocks, file, &place))? == Goes::On {
                self.current = Some((at, number + 1));
                break;
            }
        }
        if blocks.is_empty() {
            blocks.push(Block::text(SILENCE));
        }
        Ok(blocks)
    }

    /// What the last calls gave.
    fn take_results(&mut self) -> Vec<Said> {
        let results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.values.insert(LAST_RESULT.to_owned(), together(&results));
        }
        results
    }

    /// The first turn that something which was said begins.
    fn begin(&mut self, file: &File) -> Result<Begins, Error> {
        let Some(heard) = self.pending.pop_front() else { return Ok(Begins::Nothing) };
        for (at, turn) in file.turns.iter().enumerate() {
            let is_due = turn.repeats == Repeats::Always || !self.begun.contains(&at);
            if !is_due || !self.fits(turn, &heard) {
                continue;
            }
            if let Some(pattern) = &turn.matches {
                if !pattern.is_match(&heard.text) {
                    continue;
                }
                self.capture(pattern, &heard.text);
            }
            self.tasks.extend(heard.task.clone());
            let task = heard.task.clone().map(|task| ("task".to_owned(), task));
            let from = heard.from.clone().map(|from| ("from".to_owned(), from));
            self.values.extend(task.into_iter().chain(from));
            self.begun.push(at);
            let what = heard.title();
            return Ok(Begins::Turn(at, Said { call: None, what, text: heard.text, is_error: false }));
        }
        // Told of its task once more: its owner may have been reminded while the first word was on its way.
        if heard.task.as_ref().is_some_and(|task| self.tasks.contains(task)) {
            return Ok(Begins::Reminder);
        }
        let path = file.path.display();
        let difference = format!(
            "{path}: no turn is left for {}: {}; add one, with repeat = true if it may come at any time",
            heard.title(),
            cut(&heard.text)
        );
        Err(Error::Differs { difference })
    }

    fn fits(&self, turn: &Turn, heard: &Heard) -> bool {
        let is_kind = turn.on == heard.on
            || turn.on == On::Prompt && heard.on == On::Mail && heard.from.as_deref() == Some(LEADER);
        let is_from = turn.from.as_ref().is_none_or(|from| heard.from.as_ref() == Some(from));
        let has = |part: &String| heard.text.contains(&filled(part, &self.values));
        is_kind && is_from && turn.contains.iter().all(has)
    }

    fn capture(&mut self, pattern: &regex::Regex, text: &str) {
        let Some(found) = pattern.captures(text) else { return };
        let names = pattern.capture_names().flatten();
        let named = names.filter_map(|name| Some((name.to_owned(), found.name(name)?.as_str().to_owned())));
        self.values.extend(named);
    }

    /// Whether an expectation is met.
    fn check(&mut self, expect: &Expect, about: &[Said], (file, place): (&File, &str)) -> Result<(), Error> {
        let of = match expect.call {
            None => about,
            Some(call) => call.checked_sub(1).and_then(|at| about.get(at..=at)).unwrap_or_default(),
        };
        let text = together(of);
        let unmet = if of.is_empty() {
            Some(match expect.call {
                Some(call) => format!("expected a result of call {call}, and there were {}", about.len()),
                None => "expected a result, and there was none".to_owned(),
            })
        } else {
            let lacks = expect.contains.iter().find(|part| !text.contains(&filled(part, &self.values)));
            let has = expect.not_contains.iter().find(|part| text.contains(&filled(part, &self.values)));
            let pattern = expect.matches.as_ref();
            if let Some(is_error) = expect.is_error.filter(|is| of.iter().any(|said| said.is_error != *is)) {
                Some(format!("expected is_error = {is_error}"))
            } else if let Some(part) = lacks {
                Some(format!("expected to find {:?}", filled(part, &self.values)))
            } else if let Some(part) = has {
                Some(format!("expected not to find {:?}", filled(part, &self.values)))
            } else {
                let unmatched = pattern.filter(|pattern| !pattern.is_match(&text));
                unmatched.map(|pattern| format!("expected a match of '{pattern}'"))
            }
        };
        let Some(unmet) = unmet else {
            if let Some(pattern) = &expect.matches {
                self.capture(pattern, &text);
            }
            return Ok(());
        };
        let came = |said: &Said| {
            format!("{}{} {}", said.what, if said.is_error { " (an error)" } else { "" }, cut(&said.text))
        };
        let came: Vec<String> = of.iter().map(came).collect();
        let came = if came.is_empty() { String::new() } else { format!("; came: {}", came.join("; ")) };
        let difference = format!("{}:{}: {place}: {unmet}{came}", file.path.display(), expect.line);
        Err(Error::Differs { difference })
    }

    /// Adds what a step says and calls to the answer.
    fn perform(
        &mut self,
        step: &Step,
        (blocks, file, place): (&mut Vec<Block>, &File, &str),
    ) -> Result<Goes, Error> {
        let fill = |text: &str| match unset(text, file, &self.values) {
            None => Ok(filled(text, &self.values)),
            Some(name) => Err(Error::Differs {
                difference: format!(
                    "{}: {place}: {{{name}}} has no value yet: {}",
                    file.path.display(),
                    if name == LAST_RESULT {
                        "nothing was called"
                    } else {
                        "it was not found by any pattern"
                    }
                ),
            }),
        };
        add(&mut self.usage, &step.usage);
        if let Some(text) = &step.say {
            blocks.push(Block::text(fill(text)?));
        }
        self.calls.clear();
        for (number, call) in step.calls.iter().enumerate() {
            let id = format!("call_{}_{}", self.answers, number + 1);
            let mut input = call.input.clone();
            let mut failed = None;
            super::Known::each(&mut input, &mut |text| {
                fill(text).unwrap_or_else(|e| {
                    failed.get_or_insert(e);
                    String::new()
                })
            });
            if let Some(e) = failed {
                return Err(e);
            }
            self.calls.push((id.clone(), format!("{} {}", call.tool, short(&input.to_string()))));
            let block = json!({"type": "tool_use", "id": id, "name": call.tool, "input": input});
            blocks.push(serde_json::from_value(block).unwrap_or_else(|_| Block::text(String::new())));
        }
        Ok(if step.calls.is_empty() { Goes::Over } else { Goes::On })
    }
}

/// What the next of what was said begins.
enum Begins {
    /// This turn, with these words.
    Turn(usize, Said),
    /// Nothing: it is known already.
    Reminder,
    /// Nothing was said.
    Nothing,
}

/// Whether a turn goes on after a step.
#[derive(Clone, Copy, PartialEq)]
enum Goes {
    On,
    Over,
}

impl Heard {
    fn title(&self) -> String {
        match (self.on, &self.from, &self.task) {
            (_, _, Some(task)) => format!("task {task}"),
            (On::Mail, Some(from), _) => format!("the mail of {from}"),
            _ => "the prompt".to_owned(),
        }
    }
}

fn nothing_to_do(file: &File) -> Error {
    let difference = format!("{}: the model is asked although nothing was said to it", file.path.display());
    Error::Differs { difference }
}

/// A turn as an error names it.
fn title(at: usize, turn: &Turn) -> String {
    let from = turn.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    format!("turn {} (on {}{from})", at + 1, turn.on.word())
}

/// What a text of the user's side is.
fn heard(text: &str) -> Heard {
    let quoted = text.strip_prefix("<teammate-message teammate_id=\"").and_then(|rest| {
        let (from, rest) = rest.split_once('"')?;
        let (_, body) = rest.split_once(">\n")?;
        Some((from, body.strip_suffix("\n</teammate-message>").unwrap_or(body)))
    });
    let Some((from, body)) = quoted else {
        return Heard { on: On::Prompt, from: None, task: None, text: text.to_owned() };
    };
    let task = body.strip_prefix("Task ").and_then(|rest| rest.split_once(" is yours:"));
    let task = task.map(|(id, _)| id).filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
    let on = if task.is_some() { On::Task } else { On::Mail };
    let plain = |text: &str| {
        // The reverse of `protocol::body::harmless`: a script says what was written.
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    };
    Heard { on, from: Some(plain(from)), task: task.map(str::to_owned), text: plain(body) }
}

/// The texts, each on lines of its own.
fn together(all: &[Said]) -> String {
    all.iter().map(|said| said.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// An answer can be made of steps of several turns.
fn add(sum: &mut Usage, one: &Usage) {
    sum.input_tokens = sum.input_tokens.saturating_add(one.input_tokens);
    sum.cache_creation_input_tokens =
        sum.cache_creation_input_tokens.saturating_add(one.cache_creation_input_tokens);
    sum.cache_read_input_tokens = sum.cache_read_input_tokens.saturating_add(one.cache_read_input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(one.output_tokens);
}

/// The text of a result.
fn content(block: &Block) -> String {
    match block.0.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts =
                blocks.iter().map(|b| b["text"].as_str().map_or_else(|| b.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The names in braces of a text, each with its place.
fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('{').filter_map(|(at, _)| {
        let end = text[at..].find('}')?;
        let name = &text[at + 1..at + end];
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then_some((at, name))
    })
}

/// The text with what is known for its placeholders. Other braces are left: they may be a shell's.
fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut done = 0;
    for (at, name) in names(text) {
        let Some(value) = values.get(name) else { continue };
        out.push_str(&text[done..at]);
        out.push_str(value);
        done = at + name.len() + 2;
    }
    out.push_str(&text[done..]);
    out
}

/// A placeholder that should have its value from a pattern or a call, and has not.
fn unset<'t>(text: &'t str, file: &File, values: &BTreeMap<String, String>) -> Option<&'t str> {
    names(text)
        .map(|(_, name)| name)
        .find(|name| (*name == LAST_RESULT || file.captures.contains(*name)) && !values.contains_key(*name))
}

/// A text as an error shows it.
fn cut(text: &str) -> String {
    let piece = short(text);
    if piece.len() < text.len() { format!("{piece:?}...") } else { format!("{piece:?}") }
}

fn short(text: &str) -> &str {
    text.char_indices().nth(SHOWN_CHARS_MAX).map_or(text, |(at, _)| &text[..at])
}
