//! Whatever is recorded is replayed, and whatever is changed is found (D10).

use super::super::record::Recorder;
use super::super::{Answer, Content, IsError, Message, Role, Service, ToolDefinition};
use super::*;
use crate::config::Environment;
use crate::config::model::ServiceSettings;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// One call and what comes of it.
#[derive(Debug, Clone)]
struct Exchange {
    request: Request,
    events: Vec<Result<ModelEvent, Error>>,
}

/// What one turn of a conversation adds.
#[derive(Debug, Clone)]
struct Turn {
    said: Vec<String>,
    answer: Vec<String>,
    /// The conversation is replaced by its first message.
    shrinks: bool,
    /// No answer comes.
    fails: bool,
    /// Another system prompt from now on.
    role: Option<String>,
}

const WORDS: [&str; 12] = [
    "go on",
    "/w/x/a.rs",
    "/home/ann",
    "/home/anna",
    "/tmp/tmp.Ab3dEf9hIj",
    "2026-12-01",
    "{directory}",
    "é\n",
    "id-7-id",
    "\"",
    "/tmp/made-by-model",
    "",
];

fn words() -> impl Strategy<Value = Vec<String>> {
    let word =
        prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..4).prop_map(|words| words.join(" "));
    prop::collection::vec(word, 1..3)
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let role = prop::option::weighted(0.2, prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned));
    let turn = (words(), words(), prop::bool::weighted(0.1), prop::bool::weighted(0.1), role);
    let turn =
        turn.prop_map(|(said, answer, shrinks, fails, role)| Turn { said, answer, shrinks, fails, role });
    prop::collection::vec(turn, 1..7)
}

/// The exchanges that a conversation is made of.
fn exchanges(turns: &[Turn]) -> Vec<Exchange> {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: "reads in /w/x".to_owned(),
        input_schema: json!({"type": "object", "properties": {"file": {"type": "string"}}}),
    };
    let mut messages: Vec<Message> = Vec::new();
    let mut system = vec!["be brief".to_owned(), "directory: /w/x, date: 2026-12-01".to_owned()];
    let mut all = Vec::new();
    let mut call = None;
    for (number, turn) in turns.iter().enumerate() {
        if turn.shrinks {
            messages.truncate(1);
            call = None;
        }
        system[0] = turn.role.clone().unwrap_or_else(|| system[0].clone());
        let mut said: Vec<Block> = turn.said.iter().map(Block::text).collect();
        if let Some(id) = call.take() {
            said.insert(0, Block::result(id, &Content::Text(turn.said.concat()), IsError::No));
        }
        match messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.extend(said),
            _ => messages.push(Message { role: Role::User, content: said }),
        }
        let request = Request {
            model: "m".to_owned(),
            tokens_max: 9,
            thinking_tokens: None,
            system: system.clone().into(),
            tools: [tool("Read"), tool("Bash")].into(),
            messages: Arc::new(messages.clone()),
        };
        if turn.fails {
            let error = Error::Failed {
                status: 529,
                kind: "overloaded_error".to_owned(),
                message: "x".to_owned(),
                tries: 2,
            };
            all.push(Exchange { request, events: vec![Err(error)] });
            continue;
        }
        let mut content: Vec<Block> = turn.answer.iter().map(Block::text).collect();
        let block = json!({"type": "tool_use", "id": "c", "name": "Read", "input": {"file": turn.answer.concat(), "n": 1.5}});
        content.push(serde_json::from_value(block).unwrap());
        call = Some("c");
        messages.push(Message { role: Role::Assistant, content: content.clone() });
        let pieces = turn.answer.iter().map(|text| Ok(ModelEvent::Text(text.clone())));
        let answer = Answer {
            id: format!("msg_{number}"),
            content,
            stop_reason: "tool_use".to_owned(),
            ..Answer::default()
        };
        let events = pieces.chain([Ok(ModelEvent::Done(Box::new(answer)))]).collect();
        all.push(Exchange { request, events });
    }
    all
}

fn known() -> Known {
    let known = Known::new().value("directory", "/w/x").value("home", "/home/ann").value("tmp", "/tmp");
    known.value("session", "id-7-id").value("date", "2026-12-01")
}

fn all_of(answering: Answering, runtime: &tokio::runtime::Runtime) -> Vec<Result<ModelEvent, Error>> {
    let mut answering = answering;
    runtime.block_on(async {
        let mut events = Vec::new();
        while let Some(event) = answering.next().await {
            events.push(event);
        }
        events
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Records the exchanges, through processes of so many calls each.
fn record(exchanges: &[Exchange], dir: &Path, per_process: usize) {
    let runtime = runtime();
    let _inside = runtime.enter();
    let settings = ServiceSettings::of(&Environment::fake(&[])).unwrap();
    for exchanges in exchanges.chunks(per_process) {
        let header = Header::new("id-7-id", "main", (Path::new("/w/x"), "2026-12-01T00:00:00.000Z", "m"));
        let mut recorder = Recorder::new(Service::new(settings.clone()), dir, (header, known())).unwrap();
        for exchange in exchanges {
            let answering =
                recorder.begin("main", &exchange.request).unwrap().of(Answering::of(exchange.events.clone()));
            assert_eq!(all_of(answering, &runtime), exchange.events);
        }
    }
}

/// The first call that is not replayed as it was, with its error.
fn first_difference(exchanges: &[Exchange], dir: &Path) -> Option<(usize, Option<Error>)> {
    let runtime = runtime();
    let _inside = runtime.enter();
    let mut replay = Replay::new(dir, "main").unwrap().knowing(known());
    for (at, exchange) in exchanges.iter().enumerate() {
        let events = all_of(replay.start("main", &exchange.request, Deltas::Wanted), &runtime);
        if events != exchange.events {
            return Some((at + 1, events.into_iter().find_map(Result::err)));
        }
    }
    assert_eq!(replay.end(), Ok(()));
    None
}

/// Changes one thing of a request, and says how that must be named.
fn mutate(request: &mut Request, (kind, at): (usize, usize)) -> String {
    match kind {
        0 => {
            request.model.push('x');
            "model, line 1: recorded \"m\", now \"mx\"".to_owned()
        }
        1 => {
            let at = at % request.system.len();
            // After a space: a temporary path may have another name.
            Arc::make_mut(&mut request.system)[at].push_str(" x");
            format!("system part {}", at + 1)
        }
        2 => {
            let at = at % request.tools.len();
            let mut tools = request.tools.to_vec();
            tools[at].input_schema["properties"]["file"]["type"] = json!("number");
            let name = tools[at].name.clone();
            request.tools = tools.into();
            format!(
                "tool {} ({name}) input_schema properties file type, line 1: recorded \"string\", now \"number\"",
                at + 1
            )
        }
        3 => {
            Arc::make_mut(&mut request.messages).pop();
            format!("message {}: recorded user", request.messages.len() + 1)
        }
        _ => {
            let messages = Arc::make_mut(&mut request.messages);
            let places: Vec<(usize, usize)> = messages
                .iter()
                .enumerate()
                .flat_map(|(m, message)| (0..message.content.len()).map(move |b| (m, b)))
                .collect();
            let (message, block) = places[at % places.len()];
            let value = &mut messages[message].content[block].0;
            let key = ["text", "content", "input"].into_iter().find(|key| value.contains_key(*key));
            match key.map(|key| &mut value[key]) {
                Some(Value::String(text)) => text.push_str(" x"),
                Some(Value::Object(input)) => input["n"] = json!(2.5),
                // The result of a call without words.
                _ => drop(value.insert("content".to_owned(), json!("x"))),
            }
            format!(
                "message {} block {} ({}",
                message + 1,
                block + 1,
                messages[message].content[block].kind()
            )
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn probe_d10_what_is_recorded_is_replayed(turns in turns(), per_process in 1usize..8) {
        let dir = tempfile::tempdir().unwrap();
        let exchanges = exchanges(&turns);
        record(&exchanges, dir.path(), per_process);
        prop_assert_eq!(first_difference(&exchanges, dir.path()), None);
    }

    #[test]
    fn probe_d10_a_single_change_is_found_and_named(turns in turns(), call in 0usize..7, kind in 0usize..8, at in 0usize..40) {
        let dir = tempfile::tempdir().unwrap();
        let mut exchanges = exchanges(&turns);
        record(&exchanges, dir.path(), 9);
        let call = call % exchanges.len();
        let named = mutate(&mut exchanges[call].request, (kind, at));
        let found = first_difference(&exchanges, dir.path());
        let Some((number, Some(Error::Differs { difference }))) = found else { panic!("{named}: {found:?}") };
        prop_assert_eq!(number, call + 1);
        prop_assert!(difference.contains(&format!("call {number} of ")), "{}", difference);
        prop_assert!(difference.contains(&named), "{} is not in {}", named, difference);
        prop_assert!(difference.chars().count() < 1000, "{}", difference);
    }
}

#[test]
fn d10_an_interrupted_call_stops_a_replay_with_words() {
    let dir = tempfile::tempdir().unwrap();
    let turn =
        Turn { said: vec!["a".into()], answer: vec!["b".into()], shrinks: false, fails: false, role: None };
    let exchange = exchanges(&[turn]).remove(0);
    let runtime = runtime();
    let _inside = runtime.enter();
    let settings = ServiceSettings::of(&Environment::fake(&[])).unwrap();
    let header = Header::new("s", "main", (Path::new("/w/x"), "2026-12-01T00:00:00.000Z", "m"));
    let mut recorder = Recorder::new(Service::new(settings), dir.path(), (header, known())).unwrap();
    drop(recorder.begin("main", &exchange.request).unwrap());
    let found = first_difference(&[exchange], dir.path());
    let Some((1, Some(Error::Differs { difference }))) = found else { panic!("{found:?}") };
    assert!(difference.ends_with("was interrupted when it was recorded: it has no answer"), "{difference}");
}

/// What a replay of `main` gives for calls of these agents, and at its end.
fn replayed(calls: &[(&str, &Exchange)], dir: &Path) -> (Vec<Option<Error>>, Result<(), Error>) {
    let runtime = runtime();
    let _inside = runtime.enter();
    let mut replay = Replay::new(dir, "main").unwrap().knowing(known());
    let mut errors = Vec::new();
    for (agent, exchange) in calls {
        let events = all_of(replay.start(agent, &exchange.request, Deltas::Wanted), &runtime);
        errors.push(if events == exchange.events { None } else { events.into_iter().find_map(Result::err) });
    }
    (errors, replay.end())
}

#[test]
fn probe_d10_each_sub_agent_has_its_own_recording() {
    let dir = tempfile::tempdir().unwrap();
    let one = |word: &str| {
        let words = || vec![word.to_owned()];
        let turn = Turn { said: words(), answer: words(), shrinks: false, fails: false, role: None };
        exchanges(&[turn]).remove(0)
    };
    let (main, first, second) = (one("go on"), one("first"), one("second"));
    let runtime = runtime();
    let inside = runtime.enter();
    let settings = ServiceSettings::of(&Environment::fake(&[])).unwrap();
    let header = Header::new("id-7-id", "main", (Path::new("/w/x"), "2026-12-01T00:00:00.000Z", "m"));
    let mut recorder = Recorder::new(Service::new(settings), dir.path(), (header, known())).unwrap();
    // Both are on their way at once, and the later one is answered first.
    let all = [("main", &main), ("main.1", &first), ("main.1.2", &second)];
    let begun: Vec<_> = all.iter().map(|(key, one)| recorder.begin(key, &one.request).unwrap()).collect();
    for (recording, (_, exchange)) in begun.into_iter().zip(all).rev() {
        all_of(recording.of(Answering::of(exchange.events.clone())), &runtime);
    }
    drop(inside);
    let others = [("main", &main), ("main.1.2", &second), ("main.1", &first)];
    assert_eq!(replayed(&others, dir.path()), (vec![None; 3], Ok(())));
    // Another one's request is a difference, and so is an agent that was not there or has gone.
    let (errors, _) = replayed(&[("main", &main), ("main.1", &second)], dir.path());
    let Some(Error::Differs { difference }) = &errors[1] else { panic!("{errors:?}") };
    assert!(
        difference.contains("main.1.jsonl: message 1 block 1 (text) text, line 1: recorded"),
        "{difference}"
    );
    let (errors, _) = replayed(&[("main", &main), ("main.2", &first)], dir.path());
    let Some(Error::Differs { difference }) = &errors[1] else { panic!("{errors:?}") };
    assert!(difference.starts_with("main.2 was not recorded: there is no "), "{difference}");
    let (errors, end) = replayed(&others[..2], dir.path());
    let Err(Error::Differs { difference }) = end else { panic!("{errors:?} {end:?}") };
    assert!(
        difference.contains("of the 1 recorded calls of ") && difference.contains("main.1.jsonl only 0"),
        "{difference}"
    );
    // A member of another name is none of its sub-agents.
    for name in ["main-2.1.jsonl", "main.x.jsonl", "mainly.1.jsonl", "main..jsonl"] {
        std::fs::write(dir.path().join(name), "none").unwrap();
    }
    assert_eq!(replayed(&others, dir.path()), (vec![None; 3], Ok(())));
}

#[test]
fn d10_an_agent_that_goes_on_after_its_conversation_was_shrunk_numbers_temporary_paths_as_before() {
    let turn = |said: &str, answer: &str, shrinks: bool| {
        let (said, answer) = (vec![said.to_owned()], vec![answer.to_owned()]);
        Turn { said, answer, shrinks, fails: false, role: None }
    };
    let all = exchanges(&[
        turn("go on", "/tmp/tmp.Ab3dEf9hIj", false),
        turn("go on", "go on", false),
        turn("go on", "/tmp/made-by-chance1", true),
        turn("go on", "go on", false),
    ]);
    for per_process in 1..=4 {
        let dir = tempfile::tempdir().unwrap();
        record(&all, dir.path(), per_process);
        assert_eq!(first_difference(&all, dir.path()), None, "{per_process} calls for each process");
    }
}
