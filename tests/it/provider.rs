//! The model service's client (D1) against a service by script: how streams are read and how requests are written.

use crate::support::fixture;
use crate::support::service::{Part, Reply, Service};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use throng::config::model::{Auth, Secret, ServiceSettings};
use throng::provider::{
    self, Answer, Block, Deltas, Error, Message, ModelEvent, Request, Role, ToolDefinition, repaired,
};

/// A key that must not be seen anywhere.
pub const KEY: &str = "sk-ant-a-key-that-nobody-may-see";

pub fn settings(service: &Service) -> ServiceSettings {
    ServiceSettings {
        base_url: service.url(),
        auth: Auth::Key(Secret::new(KEY)),
        headers: Vec::new(),
        betas: Vec::new(),
        tries_max: 3,
        idle_timeout: Duration::from_secs(30),
    }
}

pub fn message(role: Role, blocks: &Value) -> Message {
    Message { role, content: serde_json::from_value(blocks.clone()).unwrap() }
}

pub fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "m".to_owned(),
        tokens_max: 100,
        thinking_tokens: None,
        system: Arc::new([]),
        tools: Arc::new([]),
        messages: Arc::new(messages),
    }
}

pub fn hello() -> Request {
    request(vec![Message { role: Role::User, content: vec![Block::text("hello")] }])
}

/// All that comes of one request.
pub fn asked(settings: ServiceSettings, request: &Request, deltas: Deltas) -> Vec<Result<ModelEvent, Error>> {
    asked_of(&provider::Service::new(settings), request, deltas)
}

fn asked_of(client: &provider::Service, request: &Request, deltas: Deltas) -> Vec<Result<ModelEvent, Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut answering = client.start(request, deltas);
        let mut all = Vec::new();
        while let Some(event) = answering.next().await {
            all.push(event);
        }
        all
    })
}

/// The whole answer, or why there is none.
pub fn answer(service: &Service, request: &Request) -> Result<Answer, Error> {
    match asked(settings(service), request, Deltas::Unwanted).pop().unwrap()? {
        ModelEvent::Done(answer) => Ok(*answer),
        other => panic!("the last event is {other:?}"),
    }
}

pub fn read(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).unwrap()
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&read(name)).unwrap()
}

fn text(answer: &Answer) -> String {
    answer.content.iter().filter_map(Block::as_text).collect()
}

fn shown(events: &[Result<ModelEvent, Error>]) -> String {
    let text = |event: &Result<ModelEvent, Error>| match event {
        Ok(ModelEvent::Text(text)) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[test]
fn case_c072_a_stream_may_be_cut_at_every_byte() {
    let (stream, expected) = (read("C072/utf8.sse"), json_of("C072/expected.json"));
    let mut replies = vec![Reply::chunks(stream.chunks(1))];
    replies.extend((0..=stream.len()).map(|at| Reply::chunks([&stream[..at], &stream[at..]])));
    let count = replies.len();
    let service = Service::start(replies);
    for n in 0..count {
        let events = asked(settings(&service), &hello(), Deltas::Wanted);
        assert_eq!(shown(&events), expected["text"].as_str().unwrap(), "request {n}");
        let Some(Ok(ModelEvent::Done(answer))) = events.last() else { panic!("request {n}: {events:?}") };
        assert_eq!(text(answer), expected["text"].as_str().unwrap());
        let call = answer.content[1].as_call().unwrap();
        assert_eq!(json!({"id": call.id, "name": call.name, "input": call.input}), expected["tool"]);
        assert_eq!(answer.stop_reason, "tool_use");
    }
}

#[test]
fn case_c073_framing_is_read_as_the_standard_says() {
    // The fixture mixes line ends.
    let mixed = String::from_utf8(read("C073/framing.sse")).unwrap();
    let stream = mixed.replace("\r\n", "\n").replace('\r', "\n");
    let expected = json_of("C073/expected.json");
    let forms = [
        mixed,
        stream.clone(),
        stream.replace('\n', "\r\n"),
        stream.replace('\n', "\r"),
        format!("\u{feff}{stream}"),
    ];
    let mut replies = Vec::new();
    for form in &forms {
        replies.push(Reply::stream(form.as_str()));
        replies.push(Reply::chunks(form.as_bytes().chunks(1)));
        replies.push(Reply::chunks(form.as_bytes().chunks(7)));
    }
    let count = replies.len();
    let service = Service::start(replies);
    for n in 0..count {
        let answer = answer(&service, &hello()).unwrap_or_else(|e| panic!("request {n}: {e}"));
        assert_eq!(text(&answer), expected["text"].as_str().unwrap(), "request {n}");
        assert_eq!(answer.stop_reason, "end_turn");
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (5, 9));
    }
}

#[test]
fn case_c075_a_stream_that_ends_early_is_no_answer() {
    let good = || Reply::blocks(vec![json!({"type": "text", "text": "whole"})]);
    for name in ["eof.sse", "eof-before-content.sse", "empty.sse"] {
        // The server closes properly, or in the middle of the body.
        let cut = vec![Part::Chunk(read(&format!("C075/{name}"))), Part::Cut];
        for early in [Reply::stream(read(&format!("C075/{name}"))), Reply::parts(cut)] {
            let service = Service::start(vec![early.clone(), good()]);
            let whole = answer(&service, &hello()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!((text(&whole).as_str(), service.heard().len()), ("whole", 2), "{name}");

            let service = Service::start(vec![early, good()]);
            let events = asked(settings(&service), &hello(), Deltas::Wanted);
            if name == "eof.sse" {
                assert_eq!(shown(&events), "half an ans");
                assert_eq!(events.last(), Some(&Err(Error::EndedEarly)), "what was shown is not taken back");
                assert_eq!(service.heard().len(), 1);
            } else {
                assert!(
                    matches!(events[0], Ok(ModelEvent::AskingAgain { attempt: 1, .. })),
                    "{name}: {events:?}"
                );
                assert_eq!(shown(&events), "whole", "{name}");
            }
        }
    }
    // All blocks and the reason are known: nothing is missing but the last event.
    let bytes = read("C075/eof-after-delta.sse");
    for reply in [Reply::stream(bytes.clone()), Reply::parts(vec![Part::Chunk(bytes), Part::Cut])] {
        let service = Service::start(vec![reply]);
        assert_eq!(text(&answer(&service, &hello()).unwrap()), "all of it.");
    }
}

#[test]
fn case_c076_any_byte_is_a_sign_of_life_and_silence_is_an_error() {
    let stream = read("C072/utf8.sse");
    let pause = Duration::from_millis(200);
    let mut parts = Vec::new();
    for _ in 0..12 {
        parts.push(Part::Chunk(b"event: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec()));
        parts.push(Part::Pause(pause));
    }
    parts.push(Part::Chunk(stream.clone()));
    let service = Service::start(vec![Reply::parts(parts)]);
    let patient = ServiceSettings { idle_timeout: pause * 9, tries_max: 1, ..settings(&service) };
    let events = asked(patient, &hello(), Deltas::Wanted);
    assert!(matches!(events.last(), Some(Ok(ModelEvent::Done(_)))), "{events:?}");

    let head = stream[..stream.iter().position(|b| *b == b'}').unwrap() + 40].to_vec();
    for parts in [vec![Part::Chunk(head), Part::Silence], vec![Part::Silence]] {
        let service = Service::start(vec![Reply::parts(parts)]);
        let idle = Duration::from_millis(300);
        let impatient = ServiceSettings { idle_timeout: idle, tries_max: 1, ..settings(&service) };
        let events = asked(impatient, &hello(), Deltas::Wanted);
        assert_eq!(events.last(), Some(&Err(Error::Silent { waited: idle })));
    }
}

#[test]
fn case_c078_input_is_joined_and_parsed_once() {
    let (stream, expected) = (read("C078/fragments.sse"), json_of("C078/expected.json"));
    let service = Service::start(vec![Reply::stream(stream.clone()), Reply::chunks(stream.chunks(1))]);
    for _ in 0..2 {
        let answer = answer(&service, &hello()).unwrap();
        let calls: Vec<_> = answer.content.iter().filter_map(Block::as_call).collect();
        let calls: Vec<_> = calls.iter().map(|c| json!({"id": c.id, "input": c.input})).collect();
        assert_eq!(Value::from(calls), expected);
    }
}

#[test]
fn case_c080_a_broken_history_is_repaired_before_it_is_sent() {
    let histories = json_of("C080/history.json");
    for (name, history) in histories.as_object().unwrap() {
        let messages: Vec<Message> = serde_json::from_value(history.clone()).unwrap();
        let service = Service::start(vec![Reply::blocks(vec![json!({"type": "text", "text": "ok"})])]);
        answer(&service, &request(messages.clone())).unwrap_or_else(|e| panic!("{name}: {e}"));
        let sent = &service.heard()[0].body["messages"];
        for said in ["stop!", "note"] {
            assert_eq!(history.to_string().contains(said), sent.to_string().contains(said), "{name}: {sent}");
        }
        let made_up = sent.to_string().matches("\"is_error\":true").count();
        let is_missing = ["1", "5", "6"].iter().any(|n| name.starts_with(n));
        assert_eq!(made_up, usize::from(is_missing), "{name}: {sent}");
        let once = repaired(&messages);
        assert_eq!(repaired(&once), once, "{name}: what is repaired stays as it is");
    }
}

#[test]
fn case_c080_a_history_that_begins_with_the_model_gets_a_beginning() {
    let messages = vec![
        message(Role::Assistant, &json!([{"type": "tool_use", "id": "t1", "name": "x", "input": {}}])),
        message(Role::User, &json!([{"type": "tool_result", "tool_use_id": "t1", "content": "r"}])),
    ];
    let service = Service::start(vec![Reply::blocks(vec![json!({"type": "text", "text": "ok"})])]);
    answer(&service, &request(messages)).unwrap();
}

#[test]
fn case_c082_a_request_has_at_most_four_marks_and_the_last_turns_keep_theirs() {
    let mark = json!({"type": "ephemeral"});
    let mut messages = Vec::new();
    for n in 0..6 {
        let role = if n % 2 == 0 { Role::User } else { Role::Assistant };
        messages
            .push(message(role, &json!([{"type": "text", "text": format!("{n}"), "cache_control": mark}])));
    }
    messages.push(message(Role::User, &json!([{"type": "text", "text": "6"}])));
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: "d".to_owned(),
        input_schema: json!({"type": "object"}),
    };
    let request = Request {
        system: Arc::from(["one".to_owned(), "two".to_owned(), "three".to_owned()]),
        tools: Arc::from([tool("a"), tool("b")]),
        ..request(messages)
    };
    let service = Service::start(vec![Reply::blocks(vec![json!({"type": "text", "text": "ok"})])]);
    answer(&service, &request).unwrap();
    let body = &service.heard()[0].body;
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
    let marked = |list: &Value| -> Vec<bool> {
        list.as_array().unwrap().iter().map(|part| part.to_string().contains("cache_control")).collect()
    };
    assert_eq!(marked(&body["tools"]), [false, true]);
    assert_eq!(marked(&body["system"]), [false, true, false], "before what varies");
    assert_eq!(marked(&body["messages"]), [false, false, false, false, true, false, true]);
    assert_eq!(provider::body(&request), provider::body(&request.clone()));
}

#[test]
fn case_c083_no_blank_text_is_sent_and_every_call_is_answered() {
    let messages = vec![
        message(Role::User, &json!([{"type": "text", "text": "go"}])),
        message(
            Role::Assistant,
            &json!([{"type": "text", "text": ""}, {"type": "tool_use", "id": "a", "name": "x", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "x", "input": {}}]),
        ),
        message(
            Role::User,
            &json!([{"type": "tool_result", "tool_use_id": "a", "content": ""},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": " \n"}]},
                    {"type": "text", "text": "  "}]),
        ),
        message(Role::Assistant, &json!([{"type": "text", "text": "\n"}])),
        message(Role::User, &json!([{"type": "text", "text": "on"}])),
    ];
    let request = Request { system: Arc::from(["  ".to_owned()]), ..request(messages) };
    let service = Service::start(vec![Reply::blocks(vec![json!({"type": "text", "text": "ok"})])]);
    answer(&service, &request).unwrap();
    let body = &service.heard()[0].body;
    assert_eq!(body["messages"].as_array().unwrap().len(), 3, "{body}");
    assert_eq!(body["messages"][2]["content"].as_array().unwrap().len(), 3, "{body}");
    assert!(body["system"].as_array().is_none_or(Vec::is_empty), "{body}");
}

#[test]
fn thoughts_calls_and_unknown_blocks_go_back_as_they_came() {
    let said = vec![
        json!({"type": "thinking", "thinking": "hm \u{2028} \u{1f980} \"\\", "signature": "c2ln+/=="}),
        json!({"type": "redacted_thinking", "data": "b64=="}),
        json!({"type": "brand_new", "id": "n1", "deep": {"z": 1, "a": [1.5, null]}}),
        json!({"type": "text", "text": "well"}),
        json!({"type": "tool_use", "id": "t1", "name": "x", "input": {"z": "\u{e9}", "a": 12345678901234567_u64}}),
    ];
    let service =
        Service::start(vec![Reply::blocks(said), Reply::blocks(vec![json!({"type": "text", "text": "ok"})])]);
    let first = answer(&service, &hello()).unwrap();
    let mut messages = hello().messages.to_vec();
    messages.push(Message { role: Role::Assistant, content: first.content });
    messages
        .push(message(Role::User, &json!([{"type": "tool_result", "tool_use_id": "t1", "content": "r"}])));
    answer(&service, &request(messages)).unwrap();
    assert_eq!(service.complaints(), Vec::<String>::new());
    let sent = service.heard()[1].body["messages"][1]["content"].to_string();
    assert!(sent.contains("{\"z\":\"\u{e9}\",\"a\":12345678901234567}"), "the order of fields too: {sent}");
}

#[test]
fn an_answer_in_one_piece_is_taken_too() {
    let whole = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": null, "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 3, "output_tokens": 2}});
    let service = Service::start(vec![
        Reply::new("200 OK", "application/json", whole.to_string()),
        Reply::new("200 OK", "application/json", "{\"detail\": 1}"),
    ]);
    let taken = answer(&service, &hello()).unwrap();
    assert_eq!((text(&taken).as_str(), taken.usage.output_tokens), ("hi", 2));
    assert!(matches!(answer(&service, &hello()), Err(Error::Malformed { .. })));
}
