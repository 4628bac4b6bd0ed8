//! `Bash`: a shell command in a process group of its own.

use super::background::{Keep, Phase, Running};
use super::{About, Background, Beside, Cancel, Effect, Outcome, Ran, View, input};
use crate::provider::IsError;
use crate::sys::atomic_file;
use crate::sys::group::Exit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// How long a command may take if nothing is said.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a command may take at most.
const LIMIT_MAX: Duration = Duration::from_secs(600);

pub(super) const ABOUT: About = About {
    name: "Bash",
    beside: Beside::Nothing,
    target: None,
    description: "Runs a command with `bash -c` and tells what it printed (both outputs as one) and its exit code. It has \
        no input and no terminal, so use options that keep a program from asking. `cd` lasts for the calls after it; \
        variables, functions and options do not. Output of more than 30000 bytes is shortened in the middle, and you are \
        told the file that has all of it. For a server or anything else that is to go on while you work, set \
        run_in_background. Use Read, Edit, Write, Glob and Grep for files rather than cat, sed, find and grep.",
    schema: input::schema::<Input>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command, in Bash.
    command: String,
    /// After how many milliseconds it is ended. 120000 if left out; 600000 at most.
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// What it does, in a few words, for whoever watches.
    #[allow(dead_code, reason = "it is for the screen, which reads the call itself")]
    description: Option<String>,
    /// True: the call returns at once, the command goes on, and its output goes into a file.
    #[serde(default)]
    run_in_background: Option<bool>,
}

pub(super) async fn run(value: Value, view: View, cancel: Cancel) -> Ran {
    let input: Input = input::read(value)?;
    let limit = match input.timeout {
        None => LIMIT,
        Some(ms) if (1..=600_000).contains(&ms) => Duration::from_millis(ms),
        Some(ms) => {
            let most = LIMIT_MAX.as_millis();
            return Err(format!(
                "Wrong input in field 'timeout': {ms} is not between 1 and {most} (milliseconds)."
            ));
        }
    };
    if input.command.trim().is_empty() || input.command.contains('\0') {
        return Err(
            "Wrong input in field 'command': a Bash command is expected, not empty, no NUL.".to_owned()
        );
    }
    if !view.directory.is_dir() {
        return Err(format!("Your directory {} is gone.", view.directory.display()));
    }
    if input.run_in_background == Some(true) {
        return start_in_background(input, view).await;
    }
    let whereabouts = Whereabouts::new(&view).await?;
    let command = shell(&input.command, &view, Some(&whereabouts.0));
    let running = start(&view, command, &input.command, Keep::IfLong).await?;
    let guard = Guard { running: Arc::clone(&running), background: view.background.clone() };
    let why = tokio::select! {
        () = running.done() => None,
        () = tokio::time::sleep(limit) => Some(format!("It was ended since it took longer than {} ms.", limit.as_millis())),
        () = cancel.wanted() => Some("It was ended since the call was cancelled.".to_owned()),
    };
    if why.is_some() {
        running.stop();
        running.ended().await;
    }
    let outcome = told(&running, why);
    drop(guard);
    let moved = super::blocking_value(move || whereabouts.read(&view.directory)).await.flatten();
    Ok(match moved {
        Some(directory) => outcome.with([Effect::Directory(directory)]),
        None => outcome,
    })
}

async fn start_in_background(input: Input, view: View) -> Ran {
    let command = shell(&input.command, &view, None);
    let running = start(&view, command, &input.command, Keep::InFile).await?;
    Ok(Outcome::said(format!(
        "It runs in the background as {}. Its output goes into {}.",
        running.id,
        running.path.display()
    )))
}

async fn start(view: &View, command: Command, line: &str, keep: Keep) -> Result<Arc<Running>, String> {
    let (background, output, line) = (view.background.clone(), view.output.clone(), line.to_owned());
    super::blocking_value(move || background.start(command, &line, (&output, keep)))
        .await
        .unwrap_or_else(|| Err("The command could not be started.".to_owned()))
}

/// The shell with its command. It writes its directory into `whereabouts` when it ends.
fn shell(line: &str, view: &View, whereabouts: Option<&Path>) -> Command {
    let mut command = Command::new("bash");
    // A text that begins with a dash is no option.
    command.arg("-c");
    match whereabouts {
        Some(path) => {
            let path = path.to_string_lossy();
            let path = shlex::try_quote(&path).unwrap_or_default().into_owned();
            let trap = format!("pwd -P >{path}");
            let trap = shlex::try_quote(&trap).unwrap_or_default();
            // By `eval`, so that errors of syntax name the lines as the model wrote them.
            command.arg(format!("trap {trap} EXIT; eval -- \"$1\"")).arg("bash").arg(line);
        }
        None => {
            command.args(["--", line]);
        }
    }
    command.current_dir(&view.directory).env_clear().envs(view.environment.iter().map(|(k, v)| (k, v)));
    command
}

fn told(running: &Running, why: Option<String>) -> Outcome {
    let (exit, is_left) = match running.phase() {
        Phase::LeftRunning(exit) => (Some(exit), true),
        Phase::Ended(exit) => (Some(exit), false),
        Phase::Running => (None, false),
    };
    let mut notes: Vec<String> = Vec::new();
    let has_failed = why.is_some() || exit != Some(Exit::Code(0));
    match (why, exit) {
        (Some(why), _) => notes.push(why),
        (None, Some(Exit::Code(0))) => {}
        (None, Some(Exit::Code(code))) => notes.push(format!("Exit code {code}.")),
        (None, Some(Exit::Signal(signal))) => notes.push(format!("Ended by signal {signal}.")),
        (None, None) => notes.push("How it ended is not known.".to_owned()),
    }
    if is_left {
        notes.push(format!("What it started runs on in the background as {}.", running.id));
    }
    let mut text = running.told();
    if text.trim().is_empty() && notes.is_empty() {
        text = "It printed nothing.".to_owned();
    }
    for note in notes {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{note}]"));
    }
    let is_error = if has_failed { IsError::Yes } else { IsError::No };
    Outcome { is_error, ..Outcome::said(text) }
}

/// Ends a command whose call was dropped; keeps listed what a command has left running.
struct Guard {
    running: Arc<Running>,
    background: Background,
}

impl Drop for Guard {
    fn drop(&mut self) {
        match self.running.phase() {
            Phase::Running => self.running.stop(),
            Phase::LeftRunning(_) => {}
            Phase::Ended(_) => self.background.forget(&self.running.id),
        }
    }
}

/// The file into which a shell writes its directory when it ends; removed when dropped.
struct Whereabouts(tempfile::TempPath);

impl Whereabouts {
    async fn new(view: &View) -> Result<Whereabouts, String> {
        let dir = view.output.clone();
        let made = super::blocking_value(move || {
            atomic_file::make_private_dir(&dir).map_err(|e| e.to_string())?;
            let file = tempfile::NamedTempFile::with_prefix_in("directory-", &dir);
            file.map_err(|e| format!("cannot make a file in {}: {e}", dir.display()))
        });
        match made.await {
            Some(made) => Ok(Whereabouts(made?.into_temp_path())),
            None => Err("The command could not be started.".to_owned()),
        }
    }

    /// Where the shell was in the end, if that is not `before`.
    fn read(self, before: &Path) -> Option<PathBuf> {
        let text = std::fs::read(&self.0).ok()?;
        let text = String::from_utf8(text).ok()?;
        let path = PathBuf::from(text.strip_suffix('\n')?);
        let is_new = path.is_absolute() && path != before && path.is_dir();
        (is_new && std::fs::canonicalize(before).ok().as_ref() != Some(&path)).then_some(path)
    }
}
