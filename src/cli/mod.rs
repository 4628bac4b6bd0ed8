//! The command line: parses flags, calls one function of a room above, prints, chooses the exit code. One verb, one file.

mod adopt;
mod agent;
mod approvals;
mod attach;
mod beyond;
mod completions;
mod context;
mod delivery;
mod doctor;
mod down;
mod drivers;
mod env;
mod error;
mod gc;
mod help;
mod inbox;
mod lead;
mod logging;
mod logs;
mod man;
mod out;
mod overview;
mod permissions;
mod respawn;
mod run;
mod screen;
mod send;
mod shown;
mod spawn;
mod status;
mod stop;
mod story;
mod task;
mod tend;
mod trust;
mod turns;
mod up;
mod wait;

use crate::config::{Config, Environment, Flags};
use clap::{Args, CommandFactory, Parser, Subcommand};
use context::Context;
use error::{EXIT_CODES, Failure, Result};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Teams of coding agents, one process each, that coordinate only through files.
#[derive(Debug, Parser)]
#[command(name = "throng", version, disable_help_subcommand = true, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = false)]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Flags of every verb.
#[derive(Debug, Args)]
struct Shared {
    /// The team (default: $THRONG_TEAM, else the only one that runs; for run and up the file's)
    #[arg(long, global = true, value_name = "NAME", help_heading = "For every verb")]
    team: Option<String>,
    /// JSON instead of text: one object, or one event a line; an error is an object on standard error
    #[arg(long, global = true, help_heading = "For every verb")]
    json: bool,
    /// Log to cli.log.jsonl in the state directory: error, warn, info, debug, trace, or a filter (default: $THRONG_LOG)
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "For every verb")]
    log_level: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a team from its file, wait for its work, end everything; the exit code tells the truth
    Run(run::Run),
    /// Start a team from its file and leave it running
    Up(up::Up),
    /// Add a teammate to a team, which is made if need be
    Spawn(spawn::Spawn),
    /// Put a message into a teammate's inbox
    Send(send::Send),
    /// Look into inboxes, or take a message from one's own
    Inbox(inbox::Inbox),
    /// Add, list, claim and complete tasks
    Task(task::Task),
    /// Show what teammates ask, and answer it
    Approvals(approvals::Approvals),
    /// Wait until teammates have ended
    Wait(wait::Wait),
    /// Show who runs, since when, and what waits
    Status(status::Status),
    /// Show what a teammate printed
    Logs(logs::Logs),
    /// Show a teammate's present screen as text
    Screen(screen::Screen),
    /// Connect this terminal to a teammate's
    Attach(attach::Attach),
    /// Start a teammate again
    Respawn(respawn::Respawn),
    /// Lead a team whose leader has died
    Adopt(adopt::Adopt),
    /// Show a teammate's environment, without its secrets
    Env(env::Env),
    /// End teammates
    Stop(stop::Stop),
    /// End a team
    Down(down::Down),
    /// Remove what ended teams left
    Gc(gc::Gc),
    /// Run an agent of throng's own
    Agent(agent::Agent),
    /// Show which rules of the settings files allow, ask for or deny what an agent would do
    Permissions(permissions::Permissions),
    /// List the agent programs that throng can drive
    Drivers(drivers::List),
    /// Try out what throng needs on this machine
    Doctor(doctor::Doctor),
    /// Help on a verb, or on the protocol for teammates
    Help(help::Help),
    /// Print shell completions
    Completions(completions::Completions),
    /// Print the manual page
    Man(man::Man),
    #[command(hide = true)]
    Tend(tend::Tend),
    #[command(hide = true)]
    Lead(lead::Lead),
    #[command(hide = true)]
    Turns(turns::Turns),
}

/// Runs the program with these arguments.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(e) if e.use_stderr() && asks_for_json(&args) => {
            let text = e.to_string();
            let message = text.trim().trim_start_matches("error: ");
            return fail(&Failure::usage(message), Form::Json);
        }
        Err(e) => {
            // Help and version are answers, not errors; a closed pipe is fine for both.
            return match e.print() {
                Err(broken) if broken.kind() != std::io::ErrorKind::BrokenPipe => {
                    fail(&Failure::from(broken), Form::Text)
                }
                _ => ExitCode::from(if e.use_stderr() { 2 } else { 0 }),
            };
        }
    };
    let form = if cli.shared.json { Form::Json } else { Form::Text };
    start(cli).map_or_else(|failure| fail(&failure, form), |()| ExitCode::SUCCESS)
}

/// Whether a command line that cannot be parsed asks for JSON.
fn asks_for_json(args: &[OsString]) -> bool {
    args.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// How an error is said.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Text,
    Json,
}

/// Says what went wrong, and how the process is to end.
fn fail(failure: &Failure, form: Form) -> ExitCode {
    match failure {
        Failure::Signal(signal) => crate::sys::signals::die_of(*signal),
        Failure::Code(code, message) if !message.is_empty() => {
            let said = match form {
                Form::Text => format!("throng: {message}"),
                Form::Json => {
                    json!({"error": {"exit_code": code, "kind": failure.kind(), "message": message}})
                        .to_string()
                }
            };
            // Where even that cannot be said, the code says it.
            let _ = writeln!(std::io::stderr(), "{said}");
        }
        _ => {}
    }
    ExitCode::from(u8::try_from(failure.code()).unwrap_or(1))
}

fn start(cli: Cli) -> Result {
    let environment = Environment::of_this_process()?;
    let verb = match cli.verb {
        // The agent's keeper has its own circumstances: they stand in its launch file.
        Some(Verb::Tend(verb)) => return tend::tend(&verb, &environment),
        Some(Verb::Help(verb)) => return help::help(&verb),
        Some(Verb::Completions(verb)) => return completions::completions(&verb),
        Some(Verb::Man(verb)) => return man::man(&verb),
        verb => verb,
    };
    let flags = Flags { team: cli.shared.team, json: cli.shared.json, log_level: cli.shared.log_level };
    let mut context = Context::new(Config::resolve(&flags, environment)?);
    // Leaders log to their team.
    if !matches!(verb, Some(Verb::Run(_) | Verb::Lead(_))) {
        logging::for_verb(&context.config)?;
    }
    dispatch(verb, &mut context)
}

fn dispatch(verb: Option<Verb>, context: &mut Context) -> Result {
    match verb {
        None => overview::overview(context),
        Some(Verb::Run(verb)) => run::run(&verb, context),
        Some(Verb::Up(verb)) => up::up(&verb, context),
        Some(Verb::Spawn(verb)) => spawn::spawn(&verb, context),
        Some(Verb::Send(verb)) => send::send(&verb, context),
        Some(Verb::Inbox(verb)) => inbox::inbox(&verb, context),
        Some(Verb::Task(verb)) => task::task(&verb, context),
        Some(Verb::Approvals(verb)) => approvals::approvals(&verb, context),
        Some(Verb::Wait(verb)) => wait::wait(&verb, context),
        Some(Verb::Status(verb)) => status::status(&verb, context),
        Some(Verb::Logs(verb)) => logs::logs(&verb, context),
        Some(Verb::Screen(verb)) => screen::screen(&verb, context),
        Some(Verb::Attach(verb)) => attach::attach(&verb, context),
        Some(Verb::Respawn(verb)) => respawn::respawn(&verb, context),
        Some(Verb::Adopt(verb)) => adopt::adopt(&verb, context),
        Some(Verb::Env(verb)) => env::env(&verb, context),
        Some(Verb::Stop(verb)) => stop::stop(&verb, context),
        Some(Verb::Down(verb)) => down::down(&verb, context),
        Some(Verb::Gc(verb)) => gc::gc(&verb, context),
        Some(Verb::Agent(verb)) => agent::agent(&verb, context),
        Some(Verb::Permissions(verb)) => permissions::permissions(&verb, context),
        Some(Verb::Drivers(verb)) => drivers::drivers(&verb, context),
        Some(Verb::Doctor(verb)) => doctor::doctor(&verb, context),
        Some(Verb::Turns(verb)) => turns::turns(&verb, context),
        Some(Verb::Lead(verb)) => lead::lead(&verb, context),
        // Dealt with before there was a configuration.
        Some(Verb::Tend(_) | Verb::Help(_) | Verb::Completions(_) | Verb::Man(_)) => Ok(()),
    }
}

/// The whole command line, for help, completions and the manual page.
fn command() -> clap::Command {
    Cli::command()
}
