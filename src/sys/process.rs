//! Processes by identity: pid **and** start time, since a pid alone is soon somebody else's.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

/// One process, never confused with a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start: u64,
}

/// The fields of `/proc/PID/stat` that we use.
struct Stat {
    state: char,
    parent: i32,
    group: i32,
    start: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, so count from the last one.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

impl Process {
    /// This process.
    pub fn current() -> Process {
        let pid = std::process::id().cast_signed();
        Process { pid, start: stat(pid).map_or(0, |s| s.start) }
    }

    /// The process that has `pid` now. A zombie counts: it is not reaped yet.
    pub fn of(pid: i32) -> Option<Process> {
        stat(pid).map(|s| Process { pid, start: s.start })
    }

    /// Whether it still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|s| s.start == self.start && !matches!(s.state, 'Z' | 'X'))
    }

    /// When it was started, to about 10 ms; `None` where the system does not say.
    pub fn started(&self) -> Option<SystemTime> {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = uptime.split(' ').next()?.parse().ok()?;
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
        let ticks = u32::try_from(ticks).ok()?;
        let start = Duration::from_millis(self.start.checked_mul(1000)? / u64::from(ticks.max(1)));
        SystemTime::now().checked_sub(Duration::try_from_secs_f64(up).ok()?)?.checked_add(start)
    }

    /// Sends a signal if the process is still the same one. Answers whether it was there.
    pub fn signal(&self, signal: Signal) -> bool {
        self.is_alive() && kill(Pid::from_raw(self.pid), signal).is_ok()
    }

    /// Takes an ended process out of the process table, if it was left to us as the nearest subreaper.
    pub fn reap(&self) {
        if stat(self.pid).is_some_and(|s| s.start == self.start && s.state == 'Z') {
            // Not our child: whoever's it is reaps it.
            let _ =
                nix::sys::wait::waitpid(Pid::from_raw(self.pid), Some(nix::sys::wait::WaitPidFlag::WNOHANG));
        }
    }

    /// The zombies that are ours to reap.
    pub fn zombies_of_ours() -> Vec<Process> {
        let me = std::process::id().cast_signed();
        let is_ours = |p: &Process| stat(p.pid).is_some_and(|s| s.parent == me && s.state == 'Z');
        all().into_iter().filter(is_ours).collect()
    }

    /// Waits until it has ended, at most `limit`. Answers whether it has.
    pub fn wait_gone(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        while self.is_alive() {
            if start.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        true
    }
}

/// Signals a whole process group. Answers whether it had any process.
pub fn signal_group(group: i32, signal: Signal) -> bool {
    group > 1 && killpg(Pid::from_raw(group), signal) != Err(Errno::ESRCH)
}

/// Whether a process group still has a process that runs.
pub fn group_is_alive(group: i32) -> bool {
    all().into_iter().any(|p| stat(p.pid).is_some_and(|s| s.group == group && !matches!(s.state, 'Z' | 'X')))
}

/// Every process that can be seen.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::of)
        .collect()
}

/// The running processes whose environment holds exactly `entry` (`KEY=value`), except `of` itself.
pub fn carrying(entry: &str, of: Process) -> Vec<Process> {
    all()
        .into_iter()
        .filter(|p| *p != of && p.is_alive())
        .filter(|p| {
            fs::read(format!("/proc/{}/environ", p.pid))
                .is_ok_and(|env| env.split(|b| *b == 0).any(|e| e == entry.as_bytes()))
        })
        .collect()
}

/// Program names of a process and its ancestors below `until`, itself first.
pub fn lineage(process: Process, until: Process) -> Vec<String> {
    let mut names = Vec::new();
    let mut pid = process.pid;
    while pid > 1 && pid != until.pid && names.len() < 64 {
        let Some(stat) = stat(pid) else { break };
        names.push(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned());
        pid = stat.parent;
    }
    names
}

/// Makes this process the parent of whatever escapes from below it.
pub fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Resident memory of a process in kilobytes, if the system tells.
pub fn resident_kb(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Makes the system sooner end this process than others when memory is short. Best effort.
pub fn give_up_first(pid: i32) {
    let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "200");
}

/// Memory that new processes can have, in megabytes, if the system tells.
pub fn available_memory_mb() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kb| kb / 1024)
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|s| matches!(s.state, 'T' | 't'))
}

/// Who is whose child, of all processes at one moment.
#[derive(Debug, Default)]
pub struct Table {
    children: HashMap<i32, Vec<i32>>,
}

impl Table {
    /// As it is now.
    pub fn now() -> Table {
        let mut table = Table::default();
        for process in all() {
            if let Some(stat) = stat(process.pid) {
                table.children.entry(stat.parent).or_default().push(process.pid);
            }
        }
        table
    }

    /// A process and all below it: how many, and their resident memory in kilobytes together.
    pub fn tree(&self, root: i32) -> (usize, u64) {
        let mut tree = vec![root];
        let mut next = 0;
        while let Some(parent) = tree.get(next).copied() {
            next += 1;
            tree.extend(self.children.get(&parent).into_iter().flatten().filter(|pid| **pid != root));
        }
        (tree.len(), tree.iter().filter_map(|pid| resident_kb(*pid)).sum())
    }
}

/// A descriptor that becomes readable when the process ends; `None` where the system has none.
pub fn end_descriptor(process: Process) -> Option<std::os::fd::OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        let pid = rustix::process::Pid::from_raw(process.pid)?;
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()?;
        process.is_alive().then_some(fd)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = process;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_pid_and_start_time() {
        let me = Process::current();
        assert!(me.is_alive());
        assert!(!Process { start: me.start + 1, ..me }.is_alive());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id().cast_signed()).unwrap();
        assert!(process.is_alive());
        let age = SystemTime::now().duration_since(process.started().unwrap());
        assert!(age.unwrap_or_else(|e| e.duration()) < Duration::from_secs(5));
        child.kill().unwrap();
        assert!(process.wait_gone(Duration::from_secs(5)), "a zombie does not run");
        child.wait().unwrap();
        assert_eq!(Process::of(process.pid), None);
    }
}
