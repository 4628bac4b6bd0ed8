//! `throng doctor`: really tries each thing that throng needs, and says which backend would be chosen and why.

use super::context::Context;
use super::error::{Failure, Result};
use super::out::Paint;
use crate::backend::{self, Wanted};
use crate::config::plan::{BackendChoice, Placement, Word};
use crate::driver::claude;
use crate::protocol::TeamName;
use crate::sys::{atomic_file, lock_dir, pty, run, socket};
use serde_json::json;
use std::process::Command;
use std::time::Duration;

/// Try out what throng needs on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng doctor --json")]
pub struct Doctor {}

/// One thing tried.
struct Check {
    what: &'static str,
    result: std::result::Result<String, String>,
    /// Whether throng can do without.
    is_optional: bool,
}

/// Tries everything.
pub fn doctor(_verb: &Doctor, context: &mut Context) -> Result {
    let layout = &context.config.layout;
    let mut checks = vec![
        check("shared files", try_lock(&layout.config_dir)),
        check("own state", try_lock(&layout.state_dir)),
        check("sockets", try_socket(&layout.runtime_dir)),
        check("processes", try_process(&context.config.environment.program)),
        check(
            "pseudo-terminals",
            pty::Pty::open(pty::Size::DEFAULT).map(|_| "opened one".to_owned()).map_err(text),
        ),
    ];
    checks.extend(backends(context)?);
    let claude = claude::look(&context.config.environment).map_err(text);
    let claude = claude.map(|(program, version)| {
        format!("{version} at {}; its driver was measured on {}", program.display(), claude::MEASURED)
    });
    checks.push(Check { what: "claude", result: claude, is_optional: true });
    let bad = checks.iter().filter(|c| c.result.is_err() && !c.is_optional).count();
    if context.out.json {
        let list: Vec<_> = checks
            .iter()
            .map(|c| json!({"check": c.what, "ok": c.result.is_ok(), "optional": c.is_optional, "detail": c.result.as_ref().unwrap_or_else(|e| e)}))
            .collect();
        context.out.json(&json!({"ok": bad == 0, "checks": list}))?;
    } else {
        let mut rows = Vec::new();
        for check in &checks {
            let (paint, word) = match (&check.result, check.is_optional) {
                (Ok(_), _) => (Paint::Green, "ok"),
                (Err(_), true) => (Paint::Yellow, "no, optional"),
                (Err(_), false) => (Paint::Red, "failed"),
            };
            let detail = check.result.as_ref().unwrap_or_else(|e| e);
            rows.push(vec![check.what.to_owned(), context.out.paint(paint, word), detail.clone()]);
        }
        context.out.table(&rows)?;
    }
    if bad == 0 { Ok(()) } else { Err(Failure::not_started(format!("{bad} checks failed"))) }
}

fn check(what: &'static str, result: std::result::Result<String, String>) -> Check {
    Check { what, result, is_optional: false }
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Makes a folder, takes a lock in it, writes a file in one step, removes both.
fn try_lock(dir: &std::path::Path) -> std::result::Result<String, String> {
    atomic_file::make_private_dir(dir).map_err(text)?;
    let file = dir.join(format!(".throng-doctor-{}", std::process::id()));
    let lock = lock_dir::acquire(&file, Duration::from_secs(1)).map_err(text)?;
    atomic_file::write(&file, b"x", atomic_file::PRIVATE).map_err(text)?;
    lock.verify().map_err(text)?;
    drop(lock);
    atomic_file::remove_optional(&file).map_err(text)?;
    Ok(format!("locked and wrote in {}", dir.display()))
}

fn try_socket(dir: &std::path::Path) -> std::result::Result<String, String> {
    socket::private_dir(dir).map_err(text)?;
    let path = dir.join(format!("doctor-{}", std::process::id()));
    let waker = socket::Waker::bind(&path).map_err(text)?;
    socket::poke(&path);
    match waker.wait(Duration::from_secs(1)) {
        true => Ok(format!("woke itself in {}", dir.display())),
        false => Err(format!("no poke arrived in {}", dir.display())),
    }
}

fn try_process(program: &std::path::Path) -> std::result::Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version");
    let answer = run::answer_within(command, Duration::from_secs(5)).map_err(text)?;
    Ok(format!("started and ended {}", answer.stdout.trim()))
}

fn backends(context: &Context) -> Result<Vec<Check>> {
    let team = TeamName::new("doctor")?;
    let mut checks = Vec::new();
    for (word, choice) in BackendChoice::WORDS {
        let wanted = Wanted {
            choice: *choice,
            placement: Placement::Session,
            team: &team,
            layout: &context.config.layout,
        };
        let tried = backend::choose(&wanted, &context.config.environment).map_err(text);
        let tried = tried.and_then(|(backend, reason)| {
            backend.try_out().map(|done| format!("{}: {reason}; {done}", backend.name())).map_err(text)
        });
        let what = match *word {
            "auto" => "backend auto",
            "tmux" => "backend tmux",
            "iterm2" => "backend iterm2",
            _ => "backend process",
        };
        checks.push(Check {
            what,
            result: tried,
            is_optional: matches!(choice, BackendChoice::Tmux | BackendChoice::Iterm2),
        });
    }
    Ok(checks)
}
