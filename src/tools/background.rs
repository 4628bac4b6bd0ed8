//! The commands of an agent: each a process group with a thread that tends it. What a command leaves running, and what was
//! started to run beside the agent, stays listed here until it has ended, so that nothing outlives its session.
//!
//! A thread, since a command goes on while nobody waits for it; it shares two small values under a lock, and never waits
//! while it holds it.

use super::cancel::Cancel;
use crate::sys::group::{Exit, Group, Heard};
use nix::sys::signal::Signal;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a group may take to end after TERM.
const GRACE: Duration = Duration::from_millis(1500);
/// How long what a command left running may hold its output open before the command counts as done.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(300);
/// How soon a request to stop is seen, at the latest.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether what a command left running has ended.
const LOOK_AFTER_EVERY: Duration = Duration::from_millis(500);
/// Bytes of output that are told whole; of more, the beginning and the end are.
const TOLD_BYTES_MAX: usize = 30_000;
/// How much of them is the end.
const TOLD_END_BYTES: usize = 20_000;
/// Bytes of output that are kept in a file. What comes after them is dropped.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Ended commands that stay listed.
const ENDED_MAX: usize = 100;

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It runs.
    Running,
    /// The shell has ended, but not all that it started.
    LeftRunning(Exit),
    /// Nothing of it runs.
    Ended(Exit),
}

/// One command.
#[derive(Debug)]
pub struct Running {
    /// What it is called: `bash_1`.
    pub id: String,
    /// The command.
    pub command: String,
    /// Where its output goes: all of it for a command in the background, else only if it is long.
    pub path: PathBuf,
    phase: watch::Receiver<Phase>,
    stop: Cancel,
    output: Mutex<Output>,
}

/// Where output goes from its first byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Into the file.
    InFile,
    /// Into the file once it is too long to be told.
    IfLong,
}

/// All commands of an agent that may still run. Copies are one; when the last one goes, the commands are ended.
#[derive(Debug, Clone, Default)]
pub struct Background(Arc<Registry>);

#[derive(Debug, Default)]
struct Registry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    count: u64,
    all: Vec<Arc<Running>>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        locked(&self.0).all.iter().for_each(|running| running.stop.set());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What another thread left when it panicked is still whole: every change is one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Background {
    /// Starts a command.
    ///
    /// # Errors
    /// Words: it cannot be started, or its file cannot be made.
    pub(super) fn start(
        &self,
        command: Command,
        line: &str,
        output: (&Path, Keep),
    ) -> Result<Arc<Running>, String> {
        let (dir, keep) = output;
        let id = {
            let mut entries = locked(&self.0.0);
            entries.count += 1;
            format!("bash_{}", entries.count)
        };
        let path = dir.join(format!("{id}.log"));
        let mut output = Output { path: path.clone(), ..Output::default() };
        if keep == Keep::InFile {
            output.open()?;
        }
        let (phase, seen) = watch::channel(Phase::Running);
        let running = Arc::new(Running {
            id,
            command: line.to_owned(),
            path,
            phase: seen,
            stop: Cancel::default(),
            output: Mutex::new(output),
        });
        let (started, starts) = std::sync::mpsc::channel();
        let tended = Arc::clone(&running);
        std::thread::spawn(move || {
            let group = match Group::start(command) {
                Ok(group) => group,
                Err(e) => return drop(started.send(Err(e.to_string()))),
            };
            let _ = started.send(Ok(()));
            tend(group, &tended, &phase);
        });
        starts.recv().map_err(|e| e.to_string())??;
        let mut entries = locked(&self.0.0);
        entries.all.push(Arc::clone(&running));
        let ended = entries.all.iter().filter(|r| r.has_ended()).count();
        if ended > ENDED_MAX
            && let Some(oldest) = entries.all.iter().position(|r| r.has_ended())
        {
            entries.all.remove(oldest);
        }
        Ok(running)
    }

    /// Takes a command that has ended, and was told of, out of the list.
    pub(super) fn forget(&self, id: &str) {
        locked(&self.0.0).all.retain(|running| running.id != id);
    }

    /// The commands that run or have ended lately.
    pub fn list(&self) -> Vec<Arc<Running>> {
        locked(&self.0.0).all.clone()
    }

    /// The command of that id.
    pub fn find(&self, id: &str) -> Option<Arc<Running>> {
        locked(&self.0.0).all.iter().find(|running| running.id == id).cloned()
    }

    /// Ends everything, and returns when nothing runs.
    pub async fn stop_all(&self) {
        let all = self.list();
        all.iter().for_each(|running| running.stop.set());
        for running in all {
            running.ended().await;
        }
    }
}

impl Running {
    /// How far it is.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Whether nothing of it runs.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase(), Phase::Ended(_))
    }

    /// Ends it: TERM to its group, a short grace, KILL. Returns at once.
    pub fn stop(&self) {
        self.stop.set();
    }

    /// Waits until nothing of it runs.
    pub async fn ended(&self) {
        // Fails when the thread that tends it is gone, and then so is the command.
        let _ = self.phase.clone().wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
    }

    /// Waits until its shell has ended.
    pub async fn done(&self) {
        let _ = self.phase.clone().wait_for(|phase| *phase != Phase::Running).await;
    }

    /// What it has said so far: whole, or the beginning and the end with a line in between that tells of the rest.
    pub fn told(&self) -> String {
        locked(&self.output).told()
    }

    /// Bytes that it has said so far.
    pub fn said_bytes(&self) -> u64 {
        locked(&self.output).total
    }
}

/// Hears a group until nothing of it runs.
fn tend(mut group: Group, running: &Running, phase: &watch::Sender<Phase>) {
    let mut piece = vec![0; 64 * 1024];
    let mut exit: Option<(Exit, Instant)> = None;
    let mut is_open = true;
    let mut stopping: Option<Instant> = None;
    loop {
        let is_left = *phase.borrow() != Phase::Running && stopping.is_none();
        let wait = if is_left { LOOK_AFTER_EVERY.min(LOOK_EVERY * 4) } else { LOOK_EVERY };
        if is_open {
            match group.hear(&mut piece, wait) {
                Ok(Heard::Bytes(n)) => locked(&running.output).take(&piece[..n]),
                Ok(Heard::Nothing) => {}
                Ok(Heard::End) | Err(_) => is_open = false,
            }
        } else if exit.is_some() || group.exit().is_none() {
            std::thread::sleep(if exit.is_some() && stopping.is_none() { wait } else { LOOK_EVERY / 5 });
        }
        if exit.is_none() {
            exit = group.exit().map(|exit| (exit, Instant::now()));
        }
        if running.stop.is_set() {
            let since = *stopping.get_or_insert_with(|| {
                group.signal(Signal::SIGTERM);
                Instant::now()
            });
            if since.elapsed() >= GRACE {
                group.signal(Signal::SIGKILL);
            }
        }
        let Some((how, at)) = exit else { continue };
        let is_heard = !is_open || at.elapsed() >= LAST_WORDS_WITHIN;
        if (is_heard || stopping.is_some()) && !group.is_alive() {
            group.reap();
            phase.send_replace(Phase::Ended(how));
            return;
        }
        if is_heard && stopping.is_none() {
            phase.send_if_modified(|phase| {
                std::mem::replace(phase, Phase::LeftRunning(how)) == Phase::Running
            });
        }
    }
}

/// What a command has said.
#[derive(Debug, Default)]
struct Output {
    path: PathBuf,
    total: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    file: Option<File>,
    /// Why the file holds less than all.
    lost: Option<String>,
}

impl Output {
    fn open(&mut self) -> Result<(), String> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let file =
            crate::sys::atomic_file::make_private_dir(dir).map_err(|e| e.to_string()).and_then(|()| {
                let mut options = File::options();
                options.write(true).create_new(true).mode(crate::sys::atomic_file::PRIVATE);
                options.open(&self.path).map_err(|e| format!("cannot make {}: {e}", self.path.display()))
            })?;
        self.file = Some(file);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        let before = self.total;
        self.total += bytes.len() as u64;
        if self.file.is_none() && self.lost.is_none() && self.total > TOLD_BYTES_MAX as u64 {
            match self.open() {
                Ok(()) => self.write(0, &self.head.clone()),
                Err(why) => self.lost = Some(why),
            }
        }
        if self.file.is_some() {
            self.write(before, bytes);
        }
        let room = TOLD_BYTES_MAX.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend(&bytes[..room]);
        self.tail.extend(&bytes[bytes.len().saturating_sub(TOLD_END_BYTES)..]);
        let excess = self.tail.len().saturating_sub(TOLD_END_BYTES);
        self.tail.drain(..excess);
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        if self.lost.is_some() {
            return;
        }
        let room = usize::try_from(KEPT_BYTES_MAX.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        if let Some(Err(e)) = self.file.as_mut().map(|file| file.write_all(&bytes[..room])) {
            self.lost = Some(format!("cannot write {}: {e}", self.path.display()));
        } else if room < bytes.len() {
            self.lost = Some(format!("only the first {KEPT_BYTES_MAX} bytes are kept"));
        }
    }

    fn told(&self) -> String {
        if self.total <= TOLD_BYTES_MAX as u64 {
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let begin = &self.head[..TOLD_BYTES_MAX - TOLD_END_BYTES];
        let end: Vec<u8> = self.tail.iter().copied().collect();
        let left_out = self.total - TOLD_BYTES_MAX as u64;
        let lost = self.lost.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let kept = match &self.file {
            Some(_) => format!("all output is in {}{lost}", self.path.display()),
            None => format!("they are lost{lost}"),
        };
        format!(
            "{}\n[... {left_out} bytes left out here; {kept} ...]\n{}",
            String::from_utf8_lossy(begin),
            String::from_utf8_lossy(&end)
        )
    }
}
