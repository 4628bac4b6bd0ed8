//! `throng agent run` as a real process against a model service by script, which refuses what the real one would: the loop,
//! its cuts and kills, and its limits (D1, D9, F1).

use crate::support::service::{Part, Reply, Service};
use crate::support::world::walk;
use crate::support::{Call, World, wait};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::process::Stdio;

const KEY: &str = "sk-ant-nobody-may-see-this";

fn agent(world: &World, service: &Service, words: &[&str]) -> Call {
    let usual = ["agent", "run", "--model", "m", "--permission-mode", "bypassPermissions"];
    known(world.throng(usual.iter().chain(words)), service)
}

fn known(call: Call, service: &Service) -> Call {
    call.env("ANTHROPIC_BASE_URL", service.url()).env("ANTHROPIC_API_KEY", KEY).env("THRONG_MODEL_TRIES", "2")
}

fn say(text: &str) -> Reply {
    Reply::blocks(vec![json!({"type": "text", "text": text})])
}

fn think() -> Value {
    json!({"type": "thinking", "thinking": "hm \u{1f980}", "signature": "c2ln"})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// The content of the last message of a request.
fn last(service: &Service, request: usize) -> Vec<Value> {
    let body = &service.heard()[request].body;
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().clone()
}

#[test]
fn d1_tools_run_until_the_model_ends_its_turn() {
    let world = World::new();
    world.write("a.txt", "alpha");
    world.write("b.txt", "beta");
    let reads = vec![
        think(),
        call("t1", "Read", &json!({"file_path": "a.txt"})),
        call("t2", "Read", &json!({"file_path": "b.txt"})),
    ];
    let run = vec![call("t3", "Bash", &json!({"command": "echo made > c.txt; echo done"}))];
    let script = || vec![Reply::blocks(reads.clone()), Reply::blocks(run.clone()), say("All is done.")];
    let service = Service::start(script());
    agent(&world, &service, &["-p", "Do it"]).run().ok().prints("All is done.\n");
    let results = last(&service, 1);
    assert_eq!(
        (results[0]["tool_use_id"].as_str(), results[1]["tool_use_id"].as_str()),
        (Some("t1"), Some("t2"))
    );
    assert!(results[0]["content"].to_string().contains("alpha"), "{results:?}");
    assert_eq!(world.read("c.txt"), "made\n");
    assert_eq!(service.complaints(), [""; 0]);
    // The same as one object, and as a stream; the prompt from standard input and from a file.
    let service = Service::start(script());
    let result = agent(&world, &service, &["-p", "-", "--json"]).stdin("Do it\n").run().ok().json();
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("All is done."), &json!(3)));
    assert_eq!(service.heard()[0].body["messages"][0]["content"][0]["text"], "Do it");
    world.write("prompt.md", "Do it");
    let service = Service::start(script());
    let lines = agent(&world, &service, &["-p", "@prompt.md", "--output-format", "stream-json"])
        .run()
        .ok()
        .json_lines();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let expected =
        ["system", "user", "assistant", "user", "user", "assistant", "user", "assistant", "result"];
    assert_eq!(kinds, expected);
    world.assert_nothing_left();
}

#[test]
fn d1_project_instructions_are_told_nested_ones_with_the_file() {
    let world = World::new();
    world.write("CLAUDE.md", "Use tabs. @docs/more.md");
    world.write("docs/more.md", "And no semicolons.");
    world.write("deep/AGENTS.md", "Here only ASCII.");
    world.write("deep/x.txt", "x");
    let service = Service::start(vec![
        Reply::blocks(vec![call("t1", "Read", &json!({"file_path": "deep/x.txt"}))]),
        say("Yes."),
    ]);
    agent(&world, &service, &["-p", "Look"]).run().ok();
    let system = service.heard()[0].body["system"].to_string();
    assert!(system.contains("Use tabs.") && system.contains("And no semicolons."), "{system}");
    assert!(!system.contains("ASCII"));
    assert!(last(&service, 1).iter().any(|block| block.to_string().contains("Here only ASCII.")));
    assert_eq!(service.complaints(), [""; 0]);
}

#[test]
fn d1_an_interrupt_ends_the_answer_and_the_session_can_be_resumed() {
    let world = World::new();
    let service = Service::start(vec![Reply::parts(vec![Part::Silence]), say("Now.")]);
    let running = agent(&world, &service, &["-p", "Wait"]).start();
    wait::until("the model is asked", || service.heard().len() == 1);
    running.signal(Signal::SIGINT);
    running.wait().signalled(Signal::SIGINT);
    wait::until("the connection is closed", || service.gone() == 1);
    agent(&world, &service, &["--resume", "last"]).run().code(2).complains("nothing left to go on with");
    agent(&world, &service, &["--resume", "last", "-p", "Go on"]).run().ok().prints("Now.\n");
    assert_eq!(service.complaints(), [""; 0]);
    world.assert_nothing_left();
}

#[test]
fn d1_an_interrupt_ends_a_command_with_all_that_it_started() {
    let world = World::new();
    let command = json!({"command": "sleep 86399 & sleep 86398"});
    let service = Service::start(vec![
        Reply::blocks(vec![think(), call("t1", "Bash", &command), call("t2", "Bash", &command)]),
        say("Well."),
    ]);
    let running = agent(&world, &service, &["-p", "Sleep"]).start();
    wait::until("it runs", || {
        world.processes_with("86398").iter().any(|p| p.command_line()[0].contains("sleep"))
    });
    running.signal(Signal::SIGINT);
    running.wait().signalled(Signal::SIGINT);
    world.assert_nothing_left();
    agent(&world, &service, &["--resume", "last", "-p", "Go on"]).run().ok();
    let said = last(&service, 1);
    assert!(said.iter().take(2).all(|b| b["is_error"] == true), "both calls have their results: {said:?}");
    assert_eq!(service.complaints(), [""; 0]);
}

#[test]
fn d9_killed_at_any_step_it_goes_on_from_there() {
    let steps = ["heard", "answer", "result"]
        .map(|kind| [format!("agent:write:{kind}"), format!("agent:written:{kind}")]);
    for step in steps.concat().iter().map(String::as_str).chain(["agent:asked"]) {
        let world = World::new();
        world.write("a.txt", "alpha");
        let tools = || Reply::blocks(vec![think(), call("t1", "Read", &json!({"file_path": "a.txt"}))]);
        // Whether the killed one got an answer depends on the step: each that asks gets what comes next.
        let replies = match step {
            "agent:write:answer" | "agent:asked" | "agent:written:heard" => {
                vec![tools(), tools(), say("Done.")]
            }
            _ => vec![tools(), say("Done."), say("Done.")],
        };
        let service = Service::start(replies);
        agent(&world, &service, &["-p", "Look"]).env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        let before = service.heard().len();
        let resumed = match step {
            // It was never written down.
            "agent:write:heard" => agent(&world, &service, &["--resume", "last", "-p", "Look"]),
            _ => agent(&world, &service, &["--resume", "last"]),
        };
        let outcome = resumed.run();
        let complaints = service.complaints();
        assert_eq!(complaints, [""; 0], "after {step}");
        outcome.ok();
        assert!(service.heard().len() > before, "after {step}");
        world.assert_nothing_left();
    }
}

#[test]
fn d9_killed_between_call_and_result_nothing_runs_on_and_the_model_is_told() {
    let world = World::new();
    let command = json!({"command": "touch begun; sleep 86397"});
    let service = Service::start(vec![Reply::blocks(vec![call("t1", "Bash", &command)]), say("I see.")]);
    let running = agent(&world, &service, &["-p", "Sleep"]).start();
    wait::until("it has begun", || world.path("begun").exists());
    let second = agent(&world, &service, &["--resume", "last", "-p", "x"]).run();
    second.code(2).complains("goes on in another process");
    running.signal(Signal::SIGKILL);
    running.wait().signalled(Signal::SIGKILL);
    world.assert_nothing_left();
    agent(&world, &service, &["--resume", "last"]).run().ok().prints("I see.\n");
    assert!(last(&service, 1)[0]["content"].to_string().contains("whether it took effect is not known"));
    assert_eq!(service.complaints(), [""; 0]);
}

#[test]
fn case_c085_a_conversation_that_stays_too_long_ends_with_a_clear_word() {
    let world = World::new();
    let too_long = || {
        Reply::error("400 Bad Request", "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")
    };
    let command = json!({"command": "head -c 20000 /dev/zero | tr '\\0' x"});
    let service = Service::start(vec![
        Reply::blocks(vec![call("t1", "Bash", &command)]),
        too_long(),
        too_long(),
        too_long(),
        too_long(),
    ]);
    agent(&world, &service, &["-p", "Go"]).run().code(6).complains("too long for the model");
    assert_eq!(service.heard().len(), 4, "the first request, and three that were too long");
    assert!(last(&service, 2)[0]["content"].as_str().unwrap().contains("bytes left out"));
    // With a summary it goes on.
    let service = Service::start(vec![
        Reply::blocks(vec![call("t1", "Bash", &command)]),
        too_long(),
        too_long(),
        say("We made many x."),
        say("Done."),
    ]);
    let run = agent(&world, &service, &["-p", "Go"]).run();
    run.code(0).prints("Done.\n").complains("the conversation was made shorter");
    assert!(last(&service, 4)[0]["text"].as_str().unwrap().contains("We made many x."));
    assert_eq!(service.complaints(), [""; 0]);
}

#[test]
fn case_c076_a_silent_service_and_a_missing_one_end_with_6() {
    let world = World::new();
    let service = Service::start(vec![Reply::parts(vec![Part::Silence])]);
    let silent =
        agent(&world, &service, &["-p", "Go"]).env("API_TIMEOUT_MS", "200").env("THRONG_MODEL_TRIES", "1");
    silent.run().code(6).complains("the model service said nothing for 0.2 s");
    let missing = agent(&world, &service, &["-p", "Go"]).env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    missing.env("THRONG_MODEL_TRIES", "1").run().code(6).complains("http://127.0.0.1:9 cannot be reached");
}

#[test]
fn case_c075_a_stream_that_was_cut_is_asked_for_again_and_what_was_done_is_not_done_twice() {
    let world = World::new();
    let whole = crate::support::service::events(&[json!({"type": "text", "text": "whole"})]);
    for cut in (1..whole.len()).step_by(whole.len() / 8) {
        let half = Reply::parts(vec![Part::Chunk(whole.as_bytes()[..cut].to_vec()), Part::Cut]);
        let service = Service::start(vec![
            Reply::blocks(vec![call("t1", "Bash", &json!({"command": "echo x >> log"}))]),
            half,
            say("whole"),
        ]);
        let run = agent(&world, &service, &["-p", "Go"]).run();
        run.code(0).prints("whole\n");
        // Cut behind its end, it is whole.
        match service.heard().len() {
            2 => assert!(whole[..cut].contains("end_turn"), "cut at {cut}"),
            _ => drop(run.complains("the model is asked again")),
        }
    }
    assert_eq!(world.read("log").lines().count(), (1..whole.len()).step_by(whole.len() / 8).count());
}

#[test]
fn f1_what_no_rule_allows_is_refused_where_nobody_is_there_to_be_asked_and_the_model_is_told() {
    let world = World::new();
    world.write(
        ".claude/settings.json",
        r#"{"permissions": {"allow": ["Bash(touch ok)"], "deny": ["Read(secret)"]}}"#,
    );
    world.write("secret", "s3cret");
    let calls = vec![
        call("t1", "Bash", &json!({"command": "touch ok"})),
        call("t2", "Bash", &json!({"command": "touch ok && touch no"})),
        call("t3", "Read", &json!({"file_path": "secret"})),
        call("t4", "Grep", &json!({"pattern": "s3", "output_mode": "content"})),
    ];
    let service = Service::start(vec![Reply::blocks(calls), say("So be it.")]);
    let run = known(world.throng(["agent", "run", "--model", "m", "-p", "Go"]), &service).run();
    run.code(0)
        .prints("So be it.\n")
        .complains("refused Bash touch ok && touch no")
        .complains("Read(secret)");
    assert!(world.path("ok").exists() && !world.path("no").exists());
    let results = last(&service, 1);
    assert!(results[1]["content"].to_string().contains("nobody is there to be asked"), "{results:?}");
    assert!(results[2]["content"].to_string().contains("deny rule Read(secret)"), "{results:?}");
    assert!(!service.heard()[1].body.to_string().contains("s3cret"));
}

#[test]
fn i7_limits_end_a_run_with_1() {
    let world = World::new();
    let reply = || Reply::blocks(vec![call("t1", "Bash", &json!({"command": "true"}))]);
    for (words, why) in
        [(["--max-turns", "1"], "the limit of 1 turns"), (["--max-tokens", "117"], "the limit of 117 tokens")]
    {
        let service = Service::start(vec![reply(), say("never")]);
        agent(&world, &service, &["-p", "Go", words[0], words[1]]).run().code(1).complains(why);
        assert_eq!(service.heard().len(), 1);
    }
}

#[test]
fn case_c107_a_reader_that_goes_away_ends_the_session_quietly() {
    let world = World::new();
    let command = json!({"command": "echo begun > begun; sleep 86396"});
    let service = Service::start(vec![Reply::blocks(vec![call("t1", "Bash", &command)])]);
    let (reader, writer) = std::io::pipe().unwrap();
    let call = agent(&world, &service, &["-p", "Go", "--output-format", "stream-json"]);
    drop(reader);
    let outcome = call.stdout(Stdio::from(writer)).run();
    outcome.code(0);
    world.assert_nothing_left();
}

#[test]
fn probe_k06_the_key_is_in_no_file_and_no_output() {
    let world = World::new();
    let service = Service::start(vec![
        Reply::blocks(vec![call("t1", "Bash", &json!({"command": "env; cat /proc/$PPID/cmdline"}))]),
        Reply::error("401 Unauthorized", "authentication_error", &format!("bad key {KEY}")),
    ]);
    let outcome = agent(&world, &service, &["-p", "Go", "--log-level", "trace"]).run();
    outcome.code(6).complains("401 authentication_error");
    assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains(KEY));
    assert!(!last(&service, 1)[0].to_string().contains(KEY), "a command was told the key");
    walk(world.root(), &mut |path, is_dir| {
        let bytes = if is_dir { Vec::new() } else { std::fs::read(path).unwrap_or_default() };
        assert!(!bytes.windows(KEY.len()).any(|w| w == KEY.as_bytes()), "the key is in {}", path.display());
    });
}

#[test]
fn wrong_words_are_refused_with_the_way_out() {
    let world = World::new();
    let service = Service::start(Vec::new());
    agent(&world, &service, &[]).run().code(2).complains("--prompt");
    agent(&world, &service, &["--resume", "nothing"])
        .run()
        .code(3)
        .complains("there is no session 'nothing'");
    agent(&world, &service, &["-p", "x"])
        .env("ANTHROPIC_BASE_URL", "host")
        .run()
        .code(2)
        .complains("ANTHROPIC_BASE_URL");
    agent(&world, &service, &["-p", "x", "--allow", "Bash("]).run().code(2).complains("Bash(");
    assert!(service.heard().is_empty());
    let keyless = world.throng(["agent", "run", "--model", "m", "-p", "x"]);
    keyless.run().code(2).complains("set ANTHROPIC_API_KEY");
}
