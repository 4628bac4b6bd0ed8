//! Runs the user's commands at named events: JSON in, what it did out, bounded in time. What that means is for the caller
//! to decide.

use crate::sys::run::{Conversed, converse};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A command to be run.
#[derive(Debug, Clone, Copy)]
pub struct Hook<'a> {
    /// The event's name: `event` of its input.
    pub event: &'a str,
    /// Program and arguments.
    pub command: &'a [String],
    /// Its working directory.
    pub cwd: &'a Path,
    /// Variables on top of ours.
    pub env: &'a BTreeMap<String, String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// What a hook did.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// It ended.
    Ended {
        /// Its exit code; `None`: a signal ended it.
        code: Option<i32>,
        /// What it printed.
        stdout: String,
        /// What it complained about, trimmed.
        stderr: String,
    },
    /// It took too long, and was killed.
    TimedOut,
    /// It could not be run, and why.
    NotRun(String),
    /// Nobody wants to know any more.
    Unwanted,
}

/// Runs a hook with this input, as one line of JSON with the event's name first.
pub fn run(hook: &Hook<'_>, input: &Value, is_wanted: &dyn Fn() -> bool) -> Said {
    let Some((program, arguments)) = hook.command.split_first() else {
        return Said::NotRun("there is no command".to_owned());
    };
    let mut event = json!({"event": hook.event});
    if let (Some(event), Some(fields)) = (event.as_object_mut(), input.as_object()) {
        event.extend(fields.clone());
    }
    let mut command = Command::new(program);
    // What marks a member's processes, and who it is, is not the hook's.
    command.args(arguments).current_dir(hook.cwd).env_remove("THRONG_LAUNCH").env_remove("THRONG_AGENT");
    command.envs(hook.env);
    match converse(command, format!("{event}\n").into_bytes(), hook.timeout, is_wanted) {
        Ok(Conversed::Ended(answer)) => {
            Said::Ended { code: answer.status.code(), stdout: answer.stdout, stderr: answer.stderr }
        }
        Ok(Conversed::TimedOut) => Said::TimedOut,
        Ok(Conversed::Unwanted) => Said::Unwanted,
        Err(e) => Said::NotRun(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hook_did_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([("X".to_owned(), "y".to_owned())]);
        let say = |script: &str, ms: u64| {
            let command = ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
            let timeout = Duration::from_millis(ms);
            let hook = Hook { event: "test", command: &command, cwd: dir.path(), env: &env, timeout };
            run(&hook, &json!({"a": 1}), &|| true)
        };
        let ended = |code, stdout: &str, stderr: &str| Said::Ended {
            code,
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        assert_eq!(
            say("cat; echo $X >&2; exit 2", 10_000),
            ended(Some(2), "{\"event\":\"test\",\"a\":1}\n", "y")
        );
        assert_eq!(say("kill -9 $$", 10_000), ended(None, "", ""));
        assert_eq!(say("sleep 60", 50), Said::TimedOut);
        let command = ["./missing".to_owned()];
        let timeout = Duration::from_secs(1);
        let hook = Hook { event: "test", command: &command, cwd: dir.path(), env: &env, timeout };
        assert!(matches!(run(&hook, &json!({}), &|| true), Said::NotRun(why) if why.contains("./missing")));
    }
}
