//! `TaskOutput` and `TaskStop`: what runs in the background is looked at and ended.

use super::background::{Phase, Running};
use super::{About, Beside, Cancel, Outcome, Ran, View, input};
use crate::sys::group::Exit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// How long an end is waited for if nothing is said.
const LIMIT_MS: u64 = 30_000;
/// How long it is waited for at most.
const LIMIT_MS_MAX: u64 = 600_000;

pub(super) const OUTPUT: About = About {
    name: "TaskOutput",
    beside: Beside::Others,
    target: None,
    description: "Tells how far a command in the background is and what it has printed so far. It waits for the end, as \
        long as timeout says, unless block is false.",
    schema: input::schema::<OutputInput>,
};

pub(super) const STOP: About = About {
    name: "TaskStop",
    beside: Beside::Nothing,
    target: None,
    description: "Ends a command in the background with all that it started.",
    schema: input::schema::<StopInput>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputInput {
    /// What the command is called, such as bash_1.
    task_id: String,
    /// False: do not wait.
    block: Option<bool>,
    /// How long to wait, in milliseconds. 30000 if left out; 600000 at most.
    #[schemars(range(max = 600_000))]
    timeout: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopInput {
    /// What the command is called, such as bash_1.
    task_id: String,
}

pub(super) async fn output(value: Value, view: View, cancel: Cancel) -> Ran {
    let input: OutputInput = input::read(value)?;
    let running = find(&view, &input.task_id)?;
    if input.block != Some(false) {
        let limit = Duration::from_millis(input.timeout.unwrap_or(LIMIT_MS).min(LIMIT_MS_MAX));
        tokio::select! {
            () = running.ended() => {}
            () = tokio::time::sleep(limit) => {}
            () = cancel.wanted() => {}
        }
    }
    Ok(Outcome::said(format!("[{}]\n{}", state(&running), running.told())))
}

pub(super) async fn stop(value: Value, view: View) -> Ran {
    let input: StopInput = input::read(value)?;
    let running = find(&view, &input.task_id)?;
    if running.has_ended() {
        return Ok(Outcome::said(format!("{} had ended before: {}", running.id, state(&running))));
    }
    running.stop();
    running.ended().await;
    Ok(Outcome::said(format!("{} is ended, with all that it started.", running.id)))
}

fn find(view: &View, id: &str) -> Result<Arc<Running>, String> {
    view.background.find(id).ok_or_else(|| {
        let all: Vec<String> = view.background.list().iter().map(|running| running.id.clone()).collect();
        let all = if all.is_empty() { "there is none".to_owned() } else { all.join(", ") };
        format!("Wrong input in field 'task_id': no command is called '{id}' ({all}).")
    })
}

fn state(running: &Running) -> String {
    match running.phase() {
        Phase::Running => "It runs.".to_owned(),
        Phase::LeftRunning(exit) => format!("The shell has ended ({}); what it started runs on.", how(exit)),
        Phase::Ended(exit) => format!("It has ended ({}).", how(exit)),
    }
}

fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("by signal {signal}"),
    }
}
