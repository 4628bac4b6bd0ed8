//! `TodoWrite`: the model's own list of what is to be done. It stands in the conversation; nothing else keeps it.

use super::{About, Beside, Outcome, Ran, input};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub(super) const ABOUT: About = About {
    name: "TodoWrite",
    beside: Beside::Nothing,
    target: None,
    description: "Writes down your list of steps for work that has several, replacing the list before. Have one step \
        in_progress while you work on it, and complete it as soon as it is done.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// All steps, done or not.
    todos: Vec<Todo>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Todo {
    /// The step, as an order: Run the tests.
    content: String,
    /// How far it is.
    status: Status,
    /// The step while it is worked on: Running the tests.
    #[serde(rename = "activeForm")]
    #[allow(dead_code, reason = "it is for the screen, which reads the call itself")]
    active_form: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

pub(super) fn run(value: Value) -> Ran {
    let input: Input = input::read(value)?;
    if let Some(i) = input.todos.iter().position(|todo| todo.content.trim().is_empty()) {
        return Err(format!("Wrong input in field 'todos[{i}].content': a step is expected, not empty."));
    }
    let with = |status| input.todos.iter().filter(|todo| todo.status == status).count();
    Ok(Outcome::said(format!(
        "Noted: {} completed, {} in progress, {} pending.",
        with(Status::Completed),
        with(Status::InProgress),
        with(Status::Pending)
    )))
}
