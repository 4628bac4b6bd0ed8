//! The event log as it is shown while a team is led. Lines are printed by a thread of their own: a reader that does not
//! read must hold up neither the team's end nor a signal.

use super::error::Failure;
use super::out::Out;
use super::story;
use crate::config::Config;
use indicatif::ProgressBar;
use serde_json::Value;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait for a slow reader; then the rest is not shown.
const WAITING_LINES_MAX: usize = 100_000;
/// How long a reader may take for the last lines.
const LAST_READ_WITHIN: Duration = Duration::from_secs(5);

/// Shows the lines of an event log.
pub struct Shown {
    out: Out,
    lines: Option<SyncSender<Line>>,
    trouble: Receiver<Option<Failure>>,
    is_cut: bool,
    /// Tasks that are completed now, and whether each failed.
    tasks: HashMap<String, bool>,
    ended: usize,
    of: Option<(usize, usize)>,
}

/// One line, and the line of progress below it.
struct Line {
    text: Option<String>,
    progress: Option<String>,
}

impl Shown {
    /// For a team of so many members and tasks, if their progress is to be shown too, where a person looks.
    pub fn new(config: &Config, of: Option<(usize, usize)>) -> Shown {
        let (lines, to_print) = sync_channel(WAITING_LINES_MAX);
        let (told, trouble) = sync_channel(1);
        let out = Out::new(config);
        let wants = of.is_some() && out.is_terminal && !out.json && std::io::stderr().is_terminal();
        let mut printer = Out::new(config);
        std::thread::spawn(move || {
            // Nobody may wait for the answer any more.
            let _ = told.send(print(&mut printer, &to_print, wants.then(ProgressBar::new_spinner)));
        });
        Shown { out, lines: Some(lines), trouble, is_cut: false, tasks: HashMap::new(), ended: 0, of }
    }

    /// Shows one line of the log.
    pub fn show(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("task_completed") => drop(self.tasks.insert(id, !event["failure"].is_null())),
            Some("task_changed" | "task_freed") => drop(self.tasks.remove(&id)),
            Some("member_ended") => self.ended += 1,
            _ => {}
        }
        let text = match self.out.json {
            true => Some(line.to_owned()),
            false => story::line(&self.out, &event),
        };
        let progress = self.of.map(|(members, tasks)| {
            let tasks = match tasks {
                0 => String::new(),
                _ => format!(", {} of {tasks} tasks completed", self.tasks.len()),
            };
            format!("{} of {members} ended{tasks}", self.ended)
        });
        self.send(Line { text, progress });
    }

    fn send(&mut self, line: Line) {
        if let Some(lines) = self.lines.as_ref().filter(|_| !self.is_cut) {
            self.is_cut = lines.try_send(line).is_err();
        }
    }

    /// Shows a last text and answers what stood in the way of showing it all. That nobody reads is nothing to tell.
    pub fn end(mut self, text: Option<String>) -> Option<Failure> {
        if text.is_some() {
            self.send(Line { text, progress: None });
        }
        self.lines = None;
        self.trouble.recv_timeout(LAST_READ_WITHIN).ok().flatten()
    }

    /// How the tasks ended, as the end of a sentence.
    pub fn tasks(&self) -> String {
        let failed = self.tasks.values().filter(|failed| **failed).count();
        match self.tasks.len() {
            0 => String::new(),
            all => format!(": {} tasks completed, {failed} failed", all - failed),
        }
    }
}

/// Prints what comes, until no more does or nobody reads.
fn print(out: &mut Out, lines: &Receiver<Line>, live: Option<ProgressBar>) -> Option<Failure> {
    if let Some(live) = &live {
        live.enable_steady_tick(Duration::from_millis(100));
    }
    let mut trouble = None;
    while let Ok(Line { text, progress }) = lines.recv() {
        let mut write = || text.as_ref().map_or(Ok(()), |text| out.line(text));
        let shown = match &live {
            Some(live) => live.suspend(&mut write),
            None => write(),
        };
        if let (Some(live), Some(progress)) = (&live, progress) {
            live.set_message(progress);
        }
        // The team goes on without a reader.
        if let Err(failure) = shown {
            trouble = Some(failure).filter(|f| !matches!(f, Failure::ReaderGone));
            break;
        }
    }
    if let Some(live) = live {
        live.finish_and_clear();
    }
    trouble
}
