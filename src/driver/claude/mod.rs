//! Real Claude Code (npm `@anthropic-ai/claude-code`) as a teammate (B12). Facts: protocol part II, measured on 2.1.332.

mod settings;
mod sight;

pub use settings::{Settings, Unsettled, Want};
pub(super) use sight::sight;

use super::{Error, Introduction, Prepared, Wanted, find, surroundings};
use crate::config::Environment;
use crate::config::plan::{PermissionMode, Word};
use crate::store::{LaunchFile, SessionRecord};
use crate::sys::run;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// Names the program, if it is not the one on `PATH`.
pub const PROGRAM: &str = "THRONG_CLAUDE";
/// The oldest version that has agent teams as we know them.
const OLDEST: [u32; 3] = [2, 1, 0];
/// The version that the protocol was measured on.
pub const MEASURED: &str = "2.1.332";
/// Longest wait for `--version`.
const VERSION_WITHIN: Duration = Duration::from_secs(20);

/// What it inherits besides what every member does: how it behaves where nobody is.
const INHERITED: [&str; 2] = ["DISABLE_*", "IS_SANDBOX"];

/// Finds the program, looks at its version and at what it would ask a person.
pub(super) fn prepare(wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    let (cwd, mut env) = surroundings(wanted)?;
    for (key, value) in wanted.environment.for_member(&INHERITED.map(str::to_owned)) {
        env.entry(key).or_insert(value);
    }
    let named = wanted.plan.env.get(PROGRAM).map(String::as_str).or_else(|| wanted.environment.get(PROGRAM));
    let program = found(named, &cwd, &env["PATH"])?;
    version(&program)?;
    for (key, value) in [("CLAUDECODE", "1"), ("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "1")] {
        env.insert(key.to_owned(), value.to_owned());
    }
    // Without it current models have no task tools (II.6).
    env.entry("CLAUDE_CODE_ENABLE_TODO_TOOLS".to_owned()).or_insert_with(|| "1".to_owned());
    let settings = Settings::of(&env)?;
    settings.check(&cwd, &env)?;
    let id = uuid::Uuid::new_v4().to_string();
    let session = SessionRecord { id, projects: settings.projects_dir(), arguments: Vec::new() };
    Ok(Prepared { program, argv: vec!["claude".to_owned()], env, cwd, session: Some(session) })
}

/// What of these settings is missing for a member in its directory.
///
/// # Errors
/// The program or the directory is not there; the settings cannot be read.
pub fn missing(wanted: &Wanted<'_>) -> Result<Option<(Settings, Vec<Want>)>, Error> {
    match prepare(wanted) {
        Err(Error::Unsettled(unsettled)) => Ok(Some((unsettled.settings, unsettled.wants))),
        Err(e) => Err(e),
        Ok(_) => Ok(None),
    }
}

/// The program that members of ours would run, and its version.
///
/// # Errors
/// There is none, or it is not what we need.
pub fn look(environment: &Environment) -> Result<(PathBuf, String), Error> {
    let program = found(environment.get(PROGRAM), &environment.cwd, environment.search_path())?;
    let version = version(&program)?;
    Ok((program, version))
}

fn found(named: Option<&str>, cwd: &Path, path: &str) -> Result<PathBuf, Error> {
    find(named.unwrap_or("claude"), cwd, path).map_err(|e| match e {
        Error::NoProgram { program, hint } => {
            let hint = format!("{hint}: install Claude Code, or name it with {PROGRAM}=/path/to/claude");
            Error::NoProgram { program, hint }
        }
        e => e,
    })
}

/// Versions that were asked for already: a program is asked once.
static VERSIONS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// The program's version, as text.
///
/// # Errors
/// It does not answer, or it is too old.
pub fn version(program: &Path) -> Result<String, Error> {
    if let Some(version) = VERSIONS.lock().ok().and_then(|known| known.get(program).cloned()) {
        return Ok(version);
    }
    let unfit =
        |why: String| Error::Unfit(format!("{} is no Claude Code to work with: {why}", program.display()));
    let mut command = Command::new(program);
    command.arg("--version");
    let answer = run::answer_within(command, VERSION_WITHIN).map_err(|e| unfit(e.to_string()))?;
    let version = answer.stdout.split_whitespace().next().unwrap_or_default().to_owned();
    let Some(numbers) = numbers(&version).filter(|_| answer.status.success()) else {
        return Err(unfit(format!("--version answered '{}' {}", answer.stdout.trim(), answer.stderr)));
    };
    if numbers < OLDEST {
        return Err(unfit(format!("version {version} has no agent teams as we know them: 2.1 is needed")));
    }
    if let Ok(mut known) = VERSIONS.lock() {
        known.insert(program.to_owned(), version.clone());
    }
    Ok(version)
}

fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The arguments that tell it who it is (II.5.1).
pub(super) fn introduce(session: &mut SessionRecord, who: &Introduction<'_>) {
    let id = who.agent.id(who.team);
    let mut arguments: Vec<&str> = vec![
        "--agent-id",
        &id,
        "--agent-name",
        who.agent.as_str(),
        "--team-name",
        who.team.as_str(),
        "--agent-color",
        who.color,
        "--parent-session-id",
        who.lead_session,
        crate::protocol::signature::FLAG,
        who.key,
    ];
    let options = who.options;
    if options.plan_required {
        arguments.push("--plan-mode-required");
    }
    if let Some(agent) = &options.agent {
        arguments.extend(["--agent-type", agent]);
    }
    match options.permission_mode {
        // Who writes this word into the team file has accepted what it means; the user's own settings stay as they are.
        PermissionMode::BypassPermissions if !options.plan_required => {
            let settings = r#"{"skipDangerousModePermissionPrompt":true}"#;
            arguments.extend(["--dangerously-skip-permissions", "--settings", settings]);
        }
        _ if options.plan_required => arguments.extend(["--permission-mode", PermissionMode::Plan.word()]),
        mode => arguments.extend(["--permission-mode", mode.word()]),
    }
    if let Some(effort) = &options.effort {
        arguments.extend(["--effort", effort]);
    }
    if let Some(model) = &options.model {
        arguments.extend(["--model", model]);
    }
    session.arguments =
        arguments.into_iter().map(str::to_owned).chain(options.args.iter().cloned()).collect();
}

/// A new conversation, or the one that its transcript holds.
pub(super) fn argv(launch: &LaunchFile, session: &SessionRecord) -> Vec<String> {
    let how = if session.transcript().is_some() { "--resume" } else { "--session-id" };
    let session_flag = [how.to_owned(), session.id.clone()];
    launch.argv.iter().chain(&session.arguments).cloned().chain(session_flag).collect()
}
