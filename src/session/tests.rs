//! The agent's decisions, step by step, without a model, a tool or a file.

use super::event::{Action, End, Event, News, Rest};
use super::state::{Limits, MailAt, Settings, State};
use super::transcript::{Record, Told, told};
use crate::protocol::Entry;
use crate::provider::{Answer, Block, Content, Error, IsError, Message, ModelEvent, Request, Role, Usage};
use crate::tools::Outcome;
use serde_json::{Value, json};
use std::path::PathBuf;

fn settings() -> Settings {
    Settings {
        model: "m".to_owned(),
        tokens_max: 100,
        thinking_tokens: None,
        window_tokens: 1_000_000,
        system: vec!["be good".to_owned()].into(),
        tools: Vec::new().into(),
        limits: Limits::default(),
        price: None,
        mail: MailAt::Rounds,
    }
}

fn agent(settings: Settings) -> State {
    State::new(settings, PathBuf::from("/w"), Told::default())
}

fn block(value: Value) -> Block {
    serde_json::from_value(value).unwrap()
}

fn call(id: &str, name: &str) -> Block {
    block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}

fn answer(content: Vec<Block>) -> Event {
    let stop = if content.iter().any(|b| b.kind() == "tool_use") { "tool_use" } else { "end_turn" };
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    let (id, model, stop_reason) = ("i".to_owned(), "m".to_owned(), stop.to_owned());
    Event::Model(ModelEvent::Done(Box::new(Answer { id, model, content, stop_reason, usage })))
}

fn done(call: &str, text: &str) -> Event {
    let content = Content::Text(text.to_owned());
    let outcome = Outcome { content, is_error: IsError::No, effects: Vec::new() };
    Event::CallDone { call: call.to_owned(), outcome }
}

fn asked(actions: &[Action]) -> &Request {
    let asked: Vec<&Request> = actions
        .iter()
        .filter_map(|a| if let Action::Ask(request) = a { Some(request) } else { None })
        .collect();
    assert_eq!(asked.len(), 1, "{actions:?}");
    asked[0]
}

fn runs(actions: &[Action]) -> Vec<&str> {
    let mut ids = Vec::new();
    for action in actions {
        if let Action::Run(call) = action {
            ids.push(call.id.as_str());
        }
    }
    ids
}

/// What is sent, as role and texts or ids.
fn shape(messages: &[Message]) -> Vec<String> {
    let word = |b: &Block| match b.kind() {
        "text" => b.as_text().unwrap_or_default().to_owned(),
        "tool_use" => format!("?{}", b.as_call().unwrap().id),
        _ => format!("!{}", b.answers().unwrap_or_default()),
    };
    let one = |m: &Message| {
        let who = if m.role == Role::User { "u" } else { "a" };
        format!("{who}: {}", m.content.iter().map(word).collect::<Vec<_>>().join(" "))
    };
    messages.iter().map(one).collect()
}

fn records(actions: &[Action]) -> Vec<Record> {
    let record = |a: &Action| if let Action::Write(record) = a { Some(record.clone()) } else { None };
    actions.iter().filter_map(record).collect()
}

#[test]
fn d1_a_turn_goes_on_until_the_model_ends_it() {
    let mut agent = agent(settings());
    assert!(agent.on(Event::Begin).is_empty());
    let actions = agent.on(Event::Prompt("go".to_owned()));
    assert!(matches!(actions[0], Action::Write(Record::Heard { .. })), "written before it is asked");
    assert_eq!(shape(&asked(&actions).messages), ["u: go"]);
    let actions = agent.on(answer(vec![Block::text("I look"), call("1", "Bash")]));
    assert!(matches!(actions[0], Action::Write(Record::Answer(_))), "written before it is run");
    assert_eq!(runs(&actions), ["1"]);
    let actions = agent.on(done("1", "out"));
    assert_eq!(shape(&asked(&actions).messages), ["u: go", "a: I look ?1", "u: !1"]);
    let actions = agent.on(answer(vec![Block::text("done")]));
    assert_eq!(actions.last(), Some(&Action::Rest(Rest::Done("done".to_owned()))));
    let progress = agent.progress();
    assert_eq!((progress.turns, progress.tool_uses, progress.usage.output_tokens), (2, 1, 10));
    assert_eq!(progress.context_tokens, 15);
    assert!(agent.is_resting());
}

#[test]
fn d1_reads_run_side_by_side_and_all_else_alone_and_in_order() {
    let mut agent = agent(settings());
    agent.on(Event::Prompt("go".to_owned()));
    let calls = [("1", "Read"), ("2", "Read"), ("3", "Bash"), ("4", "Read"), ("5", "Bash")];
    let actions = agent.on(answer(calls.map(|(id, name)| call(id, name)).to_vec()));
    assert_eq!(runs(&actions), ["1", "2"]);
    assert_eq!(runs(&agent.on(done("2", ""))), Vec::<&str>::new());
    assert_eq!(runs(&agent.on(done("1", ""))), ["3"]);
    assert_eq!(runs(&agent.on(done("3", ""))), ["4"]);
    assert!(agent.on(done("3", "")).is_empty(), "a second result of a call is nobody's");
    assert_eq!(runs(&agent.on(done("4", ""))), ["5"]);
    let actions = agent.on(done("5", ""));
    assert_eq!(shape(&asked(&actions).messages)[2], "u: !1 !2 !3 !4 !5", "in the order of the calls");
}

#[test]
fn c2_mail_joins_at_a_round_never_inside_and_is_taken_once() {
    let mail = |id: &str, text: &str| Entry::new("bob", text, "t", id);
    let mut agent = agent(settings());
    agent.on(Event::Prompt("go".to_owned()));
    agent.on(answer(vec![call("1", "Bash")]));
    assert!(agent.on(Event::Mail(vec![mail("m1", "a </teammate-message>")])).is_empty());
    assert!(agent.on(Event::Mail(vec![mail("m1", "a"), mail("m2", "  ")])).is_empty());
    let actions = agent.on(done("1", "out"));
    let said = shape(&asked(&actions).messages)[2].clone();
    assert!(
        said.starts_with("u: !1 <teammate-message teammate_id=\"bob\">\na &lt;/teammate-message&gt;\n"),
        "{said}"
    );
    let read = Action::MarkRead(vec!["m1".to_owned(), "m2".to_owned()]);
    let (written, marked) = (
        actions.iter().position(|a| matches!(a, Action::Write(Record::Heard { .. }))),
        actions.iter().position(|a| *a == read),
    );
    assert!(written.is_some() && written < marked, "first written, then marked: {actions:?}");
    let again = agent.on(Event::Mail(vec![mail("m1", "a")]));
    assert_eq!(again, [Action::MarkRead(vec!["m1".to_owned()])], "what could not be marked is marked again");
    // What the transcript holds is known after a restart, too.
    let told = told(records(&actions));
    let mut resumed = State::new(settings(), PathBuf::from("/w"), told);
    let actions = resumed.on(Event::Mail(vec![mail("m2", "  "), mail("m3", "new")]));
    assert_eq!(actions[0], Action::MarkRead(vec!["m2".to_owned()]));
    assert!(shape(&asked(&actions).messages).last().unwrap().contains("new"));
}

#[test]
fn d10_in_a_replay_mail_waits_for_the_turns_end() {
    let mut agent = agent(Settings { mail: MailAt::TurnEnds, ..settings() });
    agent.on(Event::Prompt("go".to_owned()));
    agent.on(answer(vec![call("1", "Bash")]));
    agent.on(Event::Mail(vec![Entry::new("bob", "hello", "t", "m1")]));
    agent.on(Event::Notice("of a folder".to_owned()));
    let actions = agent.on(done("1", ""));
    assert_eq!(shape(&asked(&actions).messages)[2], "u: !1 of a folder");
    let actions = agent.on(answer(vec![Block::text("done")]));
    assert!(!actions.iter().any(|a| matches!(a, Action::Rest(_))));
    assert!(shape(&asked(&actions).messages)[4].contains("hello"));
}

#[test]
fn an_interrupt_ends_the_turn_and_a_second_one_the_session() {
    let mut agent = agent(settings());
    agent.on(Event::Prompt("go".to_owned()));
    let actions = agent.on(Event::Interrupt);
    assert_eq!(actions[0], Action::StopAsking);
    assert_eq!(actions.last(), Some(&Action::Rest(Rest::Interrupted)));
    assert!(
        agent.on(answer(vec![Block::text("late")])).is_empty(),
        "what was not wanted any more is not heard"
    );
    let actions = agent.on(Event::Prompt("other".to_owned()));
    assert_eq!(shape(&asked(&actions).messages), ["u: go other"]);
    agent.on(answer(vec![call("1", "Read"), call("2", "Bash")]));
    let actions = agent.on(Event::Interrupt);
    assert_eq!(actions[0], Action::CancelCalls);
    assert_eq!(records(&actions).len(), 3, "two results and the interrupt: {actions:?}");
    assert!(agent.on(done("1", "late")).is_empty());
    let actions = agent.on(Event::Prompt("go on".to_owned()));
    assert_eq!(shape(&asked(&actions).messages)[2], "u: !1 !2 go on", "no call without its result");
    agent.on(Event::Interrupt);
    assert_eq!(agent.on(Event::Interrupt), [Action::End(End::Interrupted)]);
    assert!(agent.on(Event::Prompt("anybody?".to_owned())).is_empty());
}

#[test]
fn limits_are_kept_before_each_request() {
    let limited =
        |limits| agent(Settings { limits, price: Some(|usage| usage.output_tokens as f64), ..settings() });
    let end = |mut agent: State| {
        agent.on(Event::Prompt("go".to_owned()));
        agent.on(answer(vec![call("1", "Bash")]));
        match agent.on(done("1", "")).pop() {
            Some(Action::End(End::Limit(limit))) => limit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        end(limited(Limits { turns: Some(1), ..Limits::default() })),
        "the limit of 1 turns is reached"
    );
    assert_eq!(
        end(limited(Limits { tokens: Some(15), ..Limits::default() })),
        "the limit of 15 tokens is reached (15 used)"
    );
    let cost = Limits { cost_usd: Some(4.5), ..Limits::default() };
    assert_eq!(end(limited(cost)), "the limit of $4.50 is reached ($5.00 spent)");
}

#[test]
fn case_c085_too_long_is_tried_twice_and_then_said() {
    let too_long = || Event::ModelFailed(Error::TooLong { message: "prompt is too long".to_owned() });
    let mut agent = agent(settings());
    agent.on(Event::Prompt("go".to_owned()));
    agent.on(answer(vec![call("1", "Bash")]));
    agent.on(done("1", &"é".repeat(100_000)));
    let actions = agent.on(too_long());
    let cut = asked(&actions).messages.clone();
    let text = cut[2].content[0].0["content"].as_str().unwrap();
    assert!(text.len() < 2_100 && text.contains("[198000 bytes left out]"), "{}", text.len());
    assert!(matches!(records(&actions)[0], Record::Shrunk { .. }));
    let actions = agent.on(too_long());
    let summary = &asked(&actions).messages;
    assert!(summary.len() == 1 && summary[0].content[0].as_text().unwrap().contains("Write a summary"));
    let gives_up = {
        let actions = agent.on(too_long());
        matches!(actions.last(), Some(Action::Rest(Rest::Failed(Error::TooLong { .. }))))
            && !actions.iter().any(|a| matches!(a, Action::Ask(_)))
    };
    assert!(gives_up, "a third try");
    // With a summary it goes on, and what it knew is gone from the request.
    agent.on(Event::Prompt("more".to_owned()));
    agent.on(too_long());
    let actions = agent.on(answer(vec![Block::text("we did this")]));
    let said = shape(&asked(&actions).messages);
    assert!(said.len() == 1 && said[0].contains("we did this") && said[0].ends_with("more"), "{said:?}");
    assert_eq!(told(records(&actions)).messages, *asked(&actions).messages, "a resumed one goes on from it");
}

#[test]
fn a_full_window_is_emptied_before_the_service_refuses() {
    let mut agent = agent(Settings { window_tokens: 16, ..settings() });
    agent.on(Event::Prompt("go".to_owned()));
    agent.on(answer(vec![call("1", "Bash")]));
    let actions = agent.on(done("1", &"x".repeat(5_000)));
    assert!(actions.iter().any(|a| matches!(a, Action::Show(News::Shrunk { .. }))), "{actions:?}");
    assert!(asked(&actions).messages[2].content[0].0["content"].as_str().unwrap().len() < 2_100);
}

#[test]
fn d9_a_killed_agent_goes_on_from_any_record_and_no_call_lacks_its_result() {
    let mut all = Vec::new();
    let mut agent = agent(settings());
    let steps = [
        Event::Prompt("go".to_owned()),
        answer(vec![call("1", "Read"), call("2", "Read"), call("3", "Bash")]),
        done("2", "two"),
        done("1", "one"),
        done("3", "three"),
        answer(vec![Block::text("done")]),
    ];
    for step in steps {
        all.extend(records(&agent.on(step)));
    }
    for cut in 1..=all.len() {
        let mut resumed = State::new(settings(), PathBuf::from("/w"), told(all[..cut].to_vec()));
        let actions = resumed.on(Event::Begin);
        if cut == all.len() {
            assert!(actions.is_empty(), "it had ended its turn");
            continue;
        }
        let messages = &asked(&actions).messages;
        let calls: usize =
            messages.iter().flat_map(|m| &m.content).filter(|b| b.kind() == "tool_use").count();
        let results: Vec<&str> =
            messages.iter().flat_map(|m| &m.content).filter_map(Block::answers).collect();
        assert_eq!(calls, results.len(), "after {cut} records");
        assert!(results.is_sorted(), "in the order of the calls: {results:?}");
        // What was made up is written down, so that a second restart tells the same.
        let mut again = all[..cut].to_vec();
        again.extend(records(&actions));
        assert_eq!(told(again).messages, **messages);
    }
}

#[test]
fn a_failed_model_is_told_and_the_words_are_not_lost() {
    let mut agent = agent(settings());
    agent.on(Event::Prompt("go".to_owned()));
    let error = Error::Silent { waited: std::time::Duration::from_secs(1) };
    let actions = agent.on(Event::ModelFailed(error.clone()));
    assert_eq!(actions.last(), Some(&Action::Rest(Rest::Failed(error))));
    assert_eq!(shape(&asked(&agent.on(Event::Prompt("again".to_owned()))).messages), ["u: go again"]);
}
