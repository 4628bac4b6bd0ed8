//! What runs beside an agent: looked at, ended, and bounded; and the list of steps.

use crate::support::tools::{Agent, is_error, text};
use serde_json::{Value, json};
use throng::tools::Tool;

#[test]
fn goal_d2_a_command_in_the_background_is_looked_at_and_stopped() {
    let agent = Agent::new();
    let ask = |tool, input: Value| agent.run(tool, &input);
    let start = |command: &str| ask(Tool::Bash, json!({"command": command, "run_in_background": true}));
    start("echo done; exit 3");
    start("echo on; exec sleep 308804");
    let ended = ask(Tool::TaskOutput, json!({"task_id": "bash_1"}));
    assert_eq!(text(&ended), "[It has ended (exit code 3).]\ndone\n");
    let runs = ask(Tool::TaskOutput, json!({"task_id": "bash_2", "block": false}));
    assert!(text(&runs).starts_with("[It runs.]\n"), "{}", text(&runs));
    let late = ask(Tool::TaskOutput, json!({"task_id": "bash_2", "timeout": 1}));
    assert!(text(&late).starts_with("[It runs.]\n"), "{}", text(&late));
    let stopped = ask(Tool::TaskStop, json!({"task_id": "bash_2"}));
    assert!(!is_error(&stopped), "{}", text(&stopped));
    assert!(agent.view.background.find("bash_2").unwrap().has_ended());
    assert!(text(&ask(Tool::TaskStop, json!({"task_id": "bash_2"}))).contains("had ended before"));
    let none = ask(Tool::TaskStop, json!({"task_id": "bash_9"}));
    assert!(is_error(&none) && text(&none).contains("bash_1, bash_2"), "{}", text(&none));
}

#[test]
fn goal_d2_a_command_that_forks_without_end_is_ended_whole() {
    let agent = Agent::new();
    // Each child starts one more when its own sleep has ended, and ignores TERM: there is always somebody new.
    let chain = "trap '' TERM; f() { (sleep 0.01; f) & }; f; f; f; sleep 308805";
    let said = agent.run(Tool::Bash, &json!({"command": chain, "timeout": 500}));
    assert!(is_error(&said) && text(&said).contains("took longer"), "{}", text(&said));
    assert!(agent.view.background.list().is_empty(), "nothing of its group runs");
}

#[test]
fn goal_d2_todo_write_checks_its_steps() {
    let agent = Agent::new();
    let todos = json!({"todos": [{"content": "a", "status": "completed"},
        {"content": "b", "status": "in_progress", "activeForm": "doing b"}, {"content": "c", "status": "pending"}]});
    let noted = agent.run(Tool::TodoWrite, &todos);
    assert_eq!(text(&noted), "Noted: 1 completed, 1 in progress, 1 pending.");
    for (input, word) in [
        (json!({"todos": [{"content": "a", "status": "soon"}]}), "'todos[0].status'"),
        (json!({"todos": [{"content": " ", "status": "pending"}]}), "todos[0].content"),
        (json!({"todos": "a"}), "'todos'"),
    ] {
        let said = agent.run(Tool::TodoWrite, &input);
        assert!(is_error(&said) && text(&said).contains(word), "{input}: {}", text(&said));
    }
}

#[test]
fn goal_d2_every_definition_is_one_the_service_takes() {
    for tool in throng::tools::ALL {
        let definition = tool.definition();
        assert_eq!(Tool::named(&definition.name), Some(tool));
        let schema = definition.input_schema;
        assert_eq!(schema["type"], "object", "{}", definition.name);
        assert!(definition.description.len() > 40);
        let text = schema.to_string();
        assert!(!text.contains("null") && !text.contains("$ref") && !text.contains("uint"), "{text}");
        for (name, field) in schema["properties"].as_object().unwrap() {
            assert!(field["description"].is_string(), "{}: {name}", definition.name);
        }
    }
}
