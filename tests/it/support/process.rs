//! Processes as the system sees them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// One process of the process table.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub state: char,
    pub name: String,
}

impl Process {
    /// The process with this pid, a zombie too.
    pub fn of(pid: i32) -> Option<Process> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold anything, so count from the last parenthesis.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let mut fields = text.get(close + 2..)?.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Process { pid, parent, state, name: text[open + 1..close].to_owned() })
    }

    /// Every process.
    pub fn all() -> Vec<Process> {
        let entries = fs::read_dir("/proc").expect("there is /proc");
        entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).filter_map(Process::of).collect()
    }

    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether its environment holds exactly `entry`.
    pub fn carries(&self, entry: &str) -> bool {
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environ.split(|b| *b == 0).any(|e| e == entry.as_bytes())
    }

    /// Its program and arguments.
    pub fn command_line(&self) -> Vec<String> {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        bytes.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// Whether it is a `throng tend` of a launch file below `dir`. Its environment may be cleared.
    pub fn is_tend_below(&self, dir: &Path) -> bool {
        let words = self.command_line();
        let tend = words.iter().position(|w| w == "tend");
        // Flags may stand before the file.
        tend.is_some_and(|at| words[at + 1..].iter().any(|word| Path::new(word).starts_with(dir)))
    }

    pub fn kill(&self) {
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

/// Whether a process runs. A zombie does not.
pub fn is_running(pid: i32) -> bool {
    Process::of(pid).is_some_and(|p| !p.is_zombie())
}

/// Sends a signal to a process.
pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap_or_else(|e| panic!("{signal} to {pid}: {e}"));
}
