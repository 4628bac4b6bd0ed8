//! `throng task`: the shared task list.

use super::context::{Context, agent, span};
use super::error::{Failure, Result};
use super::out::Paint;
use crate::launch;
use crate::protocol::{AgentName, Status, Task as Item, task::open_blockers};
use crate::store::{self, NewTask, Survey, TeamStore};
use crate::sys::watch::DirWatch;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

/// Add, list, claim and complete tasks
#[derive(Debug, clap::Args)]
pub struct Task {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Add a task
    Add(Add),
    /// List all tasks
    #[command(after_help = "Example:\n  throng task list --json")]
    List,
    /// Show one task
    #[command(visible_alias = "get", after_help = "Example:\n  throng task show 2")]
    Show {
        /// Its id or key
        task: String,
    },
    /// Take a task for oneself
    Claim(Claim),
    /// Change a task
    Update(Update),
    /// Complete a task, or give it up with --failed
    #[command(visible_alias = "finish")]
    Done(Done),
    /// Delete a task; its id is never given again
    #[command(after_help = "Example:\n  throng task delete 2")]
    Delete {
        /// Its id or key
        task: String,
    },
    /// Bring back tasks whose files another program removed
    #[command(after_help = "Example:\n  throng task restore")]
    Restore,
}

/// Add a task
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng task add 'Write the report' --owner bob --blocked-by 1 --blocked-by 2")]
struct Add {
    /// One line
    subject: String,
    /// All there is to know
    #[arg(long, default_value = "")]
    description: String,
    /// Whose it is
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// A task it waits for, by id or key; can be given several times
    #[arg(long, value_name = "TASK")]
    blocked_by: Vec<String>,
    /// A word to call it by
    #[arg(long)]
    key: Option<String>,
}

/// Take a task for oneself
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 when it is another's, completed, or blocked.

Example:
  throng task claim report --wait --timeout 10m")]
struct Claim {
    /// Its id or key
    task: String,
    /// Wait until nothing blocks it
    #[arg(long)]
    wait: bool,
    /// Longest wait
    #[arg(long, value_name = "TIME", value_parser = span, requires = "wait")]
    timeout: Option<Duration>,
    /// For whom (default: $THRONG_AGENT, else lead)
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// Change a task
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng task update 3 --owner bob --status pending")]
struct Update {
    /// Its id or key
    task: String,
    /// How far it is
    #[arg(long)]
    status: Option<StatusWord>,
    /// Whose it is; nobody's: ''
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// One line
    #[arg(long)]
    subject: Option<String>,
    /// All there is to know
    #[arg(long)]
    description: Option<String>,
    /// A task it waits for, by id or key; can be given several times
    #[arg(long, value_name = "TASK")]
    add_blocked_by: Vec<String>,
}

/// Complete a task
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng task done tests --failed 'two tests fail'")]
struct Done {
    /// Its id or key
    task: String,
    /// It is over, but without success: why
    #[arg(long, value_name = "WHY")]
    failed: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StatusWord {
    Pending,
    InProgress,
    Completed,
    /// It is deleted, as by 'task delete'
    Deleted,
}

/// Dispatches.
pub fn task(verb: &Task, context: &mut Context) -> Result {
    let store = context.team()?;
    let board = store.tasks().by(&context.config.me);
    match &verb.verb {
        Verb::Add(verb) => {
            let new = NewTask {
                subject: verb.subject.clone(),
                description: verb.description.clone(),
                owner: verb.owner.as_ref().map(|name| member(name, &store)).transpose()?,
                blocked_by: verb.blocked_by.clone(),
                key: verb.key.clone(),
            };
            let task = board.add(&new)?;
            tell(context, &store, &task)
        }
        Verb::List => list(context, &store),
        Verb::Show { task } => show(context, &store, &store.tasks().find(task)?),
        Verb::Claim(verb) => claim(verb, context, &store),
        Verb::Update(verb) => {
            let task = update(verb, context, &store)?;
            if matches!(verb.status, Some(StatusWord::Deleted)) {
                return tell_deleted(context, &task);
            }
            tell(context, &store, &task)
        }
        Verb::Delete { task } => {
            let task = board.delete(task)?;
            tell_deleted(context, &task)
        }
        Verb::Restore => restore(context, &board.restore()?),
        Verb::Done(verb) => {
            let task = board.complete(&verb.task, verb.failed.as_deref())?;
            tell(context, &store, &task)
        }
    }
}

/// An owner must be somebody.
fn member(name: &str, store: &TeamStore) -> Result<AgentName> {
    let name = agent(name, store)?;
    if name.is_lead() {
        return Ok(name);
    }
    let members = launch::observe(store)?;
    let found = members.iter().find(|m| m.name.as_str().eq_ignore_ascii_case(name.as_str()));
    let missing = || {
        let near = crate::protocol::names::near(name.as_str(), members.iter().map(|m| m.name.as_str()));
        let hint = super::context::did_you_mean(&near);
        Failure::missing(format!("team '{}' has no member '{name}'{hint}", store.name()))
    };
    found.map(|m| m.name.clone()).ok_or_else(missing)
}

/// A task with the blockers that still count, whatever its file keeps.
fn as_json(task: &Item, all: &[Item]) -> Value {
    let mut value = serde_json::to_value(task).unwrap_or_default();
    value["openBlockers"] = json!(open_blockers(task, all));
    value
}

fn tell(context: &mut Context, store: &TeamStore, task: &Item) -> Result {
    if context.out.json {
        return context.out.json(&as_json(task, &store.tasks().list()));
    }
    let outcome = task.failure().map_or(String::new(), |why| format!(", failed: {why}"));
    context.out.line(format!("task {} {}: {}{outcome}", task.id, task.status.as_str(), task.subject))
}

fn tell_deleted(context: &mut Context, task: &Item) -> Result {
    match context.out.json {
        true => context.out.json(&json!({"deleted": task.id})),
        false => context.out.line(format!("task {} deleted: {}", task.id, task.subject)),
    }
}

fn restore(context: &mut Context, restored: &[Item]) -> Result {
    if context.out.json {
        let ids: Vec<&str> = restored.iter().map(|t| t.id.as_str()).collect();
        return context.out.json(&json!({"restored": ids}));
    }
    if restored.is_empty() {
        return context.out.line("no task is lost");
    }
    for task in restored {
        context.out.line(format!("task {} restored, {}: {}", task.id, task.status.as_str(), task.subject))?;
    }
    Ok(())
}

/// Says on standard error what is wrong with the list.
fn warn(survey: &Survey) {
    let mut stderr = std::io::stderr();
    for (path, why) in &survey.damaged {
        let _ = writeln!(stderr, "throng: {} is no task and is left as it is: {why}", path.display());
    }
    if let Some(text) = lost(survey) {
        let _ = writeln!(stderr, "throng: {text}");
    }
}

/// What to say of tasks whose files are gone.
pub fn lost(survey: &Survey) -> Option<String> {
    let ids: Vec<&str> = survey.lost.iter().map(|t| t.id.as_str()).take(10).collect();
    let more = if survey.lost.len() > ids.len() { ", ..." } else { "" };
    (!ids.is_empty()).then(|| {
        format!(
            "task {}{more}: removed by another program without being deleted; 'throng task restore' brings back what was lost",
            ids.join(", ")
        )
    })
}

fn list(context: &mut Context, store: &TeamStore) -> Result {
    let survey = store.tasks().survey();
    warn(&survey);
    let all = &survey.tasks;
    if context.out.json {
        let tasks: Vec<Value> = all.iter().map(|t| as_json(t, all)).collect();
        let lost: Vec<&str> = survey.lost.iter().map(|t| t.id.as_str()).collect();
        let damaged: Vec<Value> =
            survey.damaged.iter().map(|(path, why)| json!({"path": path, "why": why})).collect();
        return context
            .out
            .json(&json!({"team": store.name(), "tasks": tasks, "lost": lost, "damaged": damaged}));
    }
    if all.is_empty() {
        return context.out.line("no tasks");
    }
    let mut rows = Vec::new();
    for task in all {
        let open = open_blockers(task, all);
        let (word, paint) = match (task.status, task.failure()) {
            (Status::Completed, Some(_)) => ("failed", Paint::Red),
            (Status::Completed, None) => ("completed", Paint::Green),
            (Status::InProgress, _) => ("in progress", Paint::Yellow),
            (Status::Pending, _) if !open.is_empty() => ("blocked", Paint::Dim),
            (Status::Pending, _) => ("pending", Paint::Dim),
        };
        let waits = if open.is_empty() { String::new() } else { format!(" (waits for {})", open.join(", ")) };
        let why = task.failure().map_or(String::new(), |why| format!(": {why}"));
        rows.push(vec![
            task.id.clone(),
            context.out.paint(paint, word),
            task.owner.clone().unwrap_or("-".to_owned()),
            format!("{}{waits}{why}", task.subject),
        ]);
    }
    context.out.table(&rows)
}

fn show(context: &mut Context, store: &TeamStore, task: &Item) -> Result {
    let all = store.tasks().list();
    if context.out.json {
        return context.out.json(&as_json(task, &all));
    }
    let mut rows = vec![
        vec!["task".to_owned(), task.id.clone()],
        vec!["subject".to_owned(), task.subject.clone()],
        vec!["status".to_owned(), task.status.as_str().to_owned()],
        vec!["owner".to_owned(), task.owner.clone().unwrap_or("-".to_owned())],
        vec!["waits for".to_owned(), open_blockers(task, &all).join(", ")],
        vec!["blocks".to_owned(), task.blocks.join(", ")],
    ];
    let optional = [("key", task.key()), ("failed", task.failure()), ("freed from", task.freed_from())];
    rows.extend(
        optional.iter().filter_map(|(word, text)| Some(vec![(*word).to_owned(), (*text)?.to_owned()])),
    );
    context.out.table(&rows)?;
    if task.description.is_empty() { Ok(()) } else { context.out.line(format!("\n{}", task.description)) }
}

fn claim(verb: &Claim, context: &mut Context, store: &TeamStore) -> Result {
    let me = match &verb.name {
        Some(name) => member(name, store)?,
        None => context.config.me.clone(),
    };
    let deadline = verb.timeout.and_then(|t| Instant::now().checked_add(t));
    let board = store.tasks().by(&context.config.me);
    let watch = DirWatch::new(&[board.dir()]);
    loop {
        let refused = match board.claim(&verb.task, &me) {
            Ok(task) => return tell(context, store, &task),
            Err(refused @ store::Error::TaskRefused { .. }) if verb.wait => refused,
            Err(e) => return Err(e.into()),
        };
        let task = board.find(&verb.task)?;
        // Only blockers go away by themselves.
        if open_blockers(&task, &board.list()).is_empty() {
            return match board.claim(&verb.task, &me) {
                Ok(task) => tell(context, store, &task),
                Err(e) => Err(e.into()),
            };
        }
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(Failure::timed_out(refused.to_string()));
        }
        watch.wait(left);
    }
}

fn update(verb: &Update, context: &Context, store: &TeamStore) -> Result<Item> {
    let board = store.tasks().by(&context.config.me);
    if matches!(verb.status, Some(StatusWord::Deleted)) {
        return Ok(board.delete(&verb.task)?);
    }
    let owner = match verb.owner.as_deref() {
        Some("") => Some(None),
        Some(name) => Some(Some(member(name, store)?)),
        None => None,
    };
    for blocker in &verb.add_blocked_by {
        board.block(&verb.task, blocker)?;
    }
    let change = |task: &mut Item, all: &[Item]| {
        match (verb.status, open_blockers(task, all)) {
            (Some(StatusWord::InProgress | StatusWord::Completed), open) if !open.is_empty() => {
                let why = format!("waits for task {}", open.join(", "));
                return Err(store::Error::TaskRefused { id: task.id.clone(), why });
            }
            (Some(StatusWord::Completed), _) => task.complete(None),
            (Some(StatusWord::InProgress), _) => {
                task.status = Status::InProgress;
                // Who begins a task that is nobody's has it.
                if task.owner_name().is_none() && owner.is_none() {
                    task.assign(&context.config.me);
                }
            }
            (Some(StatusWord::Pending), _) => task.status = Status::Pending,
            (Some(StatusWord::Deleted) | None, _) => {}
        }
        match &owner {
            Some(Some(owner)) => task.assign(owner),
            Some(None) => task.owner = None,
            None => {}
        }
        if let Some(subject) = &verb.subject {
            task.subject.clone_from(subject);
        }
        if let Some(description) = &verb.description {
            task.description.clone_from(description);
        }
        Ok(())
    };
    Ok(board.change(&verb.task, change)?)
}
