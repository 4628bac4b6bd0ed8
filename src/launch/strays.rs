//! What is left of a launch whose `tend` is gone, and who may be ended for it.

use crate::store::{MemberRecord, MemberState};
use crate::sys::process::{self, Process};
use nix::sys::signal::Signal;
use std::time::Duration;

/// How often what is left is killed before it is reported instead.
const ROUNDS_MAX: u32 = 20;
/// Longest wait for one killed process.
const KILL_TAKES_MAX: Duration = Duration::from_millis(100);

/// The processes that carry a launch's mark in their environment, but for this one and for those below a terminal
/// multiplexer: that is a place which somebody made to outlive us.
pub(super) fn carrying(launch: &str) -> Vec<Process> {
    let me = Process::current();
    process::carrying(&format!("THRONG_LAUNCH={launch}"), me)
        .into_iter()
        .filter(|p| !process::lineage(*p, me).iter().any(|name| is_multiplexer(name)))
        .collect()
}

/// Whether a program of that name makes places that outlive who started them.
fn is_multiplexer(name: &str) -> bool {
    name.starts_with("tmux: server") || matches!(name, "screen" | "SCREEN" | "zellij")
}

/// Kills what is left of a launch: the agent by the identity that was written down, its group, and what carries the
/// mark. Answers whether there was anything, and what is still there.
pub(super) fn end(record: &MemberRecord) -> (bool, Vec<Process>) {
    let agent = match record.state {
        MemberState::Ready { process } => Some(Process::from(process)),
        _ => None,
    };
    let left = || {
        let mut left = carrying(&record.launch);
        left.extend(agent.filter(|agent| agent.is_alive() && !left.contains(agent)));
        left
    };
    let mut any = false;
    if let Some(agent) = agent.filter(Process::is_alive) {
        any = true;
        process::signal_group(agent.pid, Signal::SIGKILL);
    }
    for _ in 0..ROUNDS_MAX {
        let now = left();
        if now.is_empty() {
            return (any, now);
        }
        any = true;
        for process in &now {
            process.signal(Signal::SIGKILL);
        }
        for process in &now {
            process.wait_gone(KILL_TAKES_MAX);
        }
    }
    (any, left())
}
