//! How an agent's life ends: asked or by itself, its tree swept, and started again by policy or request.

use super::{GRACE_ALONE, Output, Phase, Tend, child};
use crate::config::plan::{Restart, Word};
use crate::launch::strays;
use crate::store::MemberState;
use crate::sys::process;
use nix::sys::signal::Signal;
use serde_json::json;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Grace of what an agent left behind when it ended.
const GRACE_LEFT_BEHIND: Duration = Duration::from_millis(500);
/// How long killed processes are waited for before they are reported instead.
const KILL_TAKES_MAX: Duration = Duration::from_secs(5);
/// How long the last output of an ended agent is waited for.
const DRAIN_MAX: Duration = Duration::from_millis(100);
/// First pause before a restart; it doubles up to the second.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Most restarts in a row without a life of [`HEALTHY_LIFE`].
const RESTARTS_IN_A_ROW_MAX: u32 = 5;
const HEALTHY_LIFE: Duration = Duration::from_secs(60);
/// Pause before a leader that is just changing is looked for again.
const LEADER_LOOK_AGAIN: Duration = Duration::from_millis(300);

impl Tend {
    /// The leader that was watched has died. Another may lead by now, or be about to: a leader that is killed by an adopter
    /// is followed by that one within a moment.
    pub(super) fn leader_died(&mut self) {
        self.leader = None;
        let now = Instant::now();
        self.look_for_leader_at = Some(now + LEADER_LOOK_AGAIN);
        match self.store.leader() {
            None => {
                let since = *self.leaderless_since.get_or_insert(now);
                if now.duration_since(since) >= LEADER_LOOK_AGAIN {
                    self.look_for_leader_at = None;
                    self.end(GRACE_ALONE, "its leader died");
                }
            }
            Some(leader) => {
                self.leaderless_since = None;
                self.leader = leader.and_then(|leader| process::end_descriptor(leader.process.into()));
                if self.leader.is_some() {
                    self.look_for_leader_at = None;
                }
            }
        }
    }

    /// Its place is gone: a signal and the end of its terminal say the same.
    pub(super) fn place_closed(&mut self) {
        if self.ending.is_none() {
            self.end(GRACE_ALONE, "its place was closed");
        }
    }

    /// Somebody wants it ended: politely, and surely after `grace`. Asked the second time, at once.
    pub(super) fn asked_to_end(&mut self, grace: Duration, why: &'static str) {
        let is_second = std::mem::replace(&mut self.is_asked, true);
        self.end(if is_second { Duration::ZERO } else { grace }, why);
    }

    /// The agent is about to end by itself, having been asked: if it does so in time, that is its end.
    pub(super) fn expect_end(&mut self, within: Duration) {
        self.expected_until = Instant::now().checked_add(within);
        if matches!(self.phase, Phase::Pausing { .. }) {
            self.finish();
        }
    }

    fn is_expected(&self) -> bool {
        self.expected_until.is_some_and(|until| Instant::now() < until)
    }

    /// Ends the agent: politely, and surely after `grace`.
    pub(super) fn end(&mut self, grace: Duration, why: &'static str) {
        if self.phase == Phase::Running && !self.is_ended_by_line(grace) {
            self.terminate();
        }
        self.end_without_term(grace, why);
    }

    /// Asks the agent's group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
        // A stopped process takes TERM only once it goes on.
        self.signal(Signal::SIGCONT);
    }

    /// The rest of it, for an agent that was asked already.
    pub(super) fn end_without_term(&mut self, grace: Duration, why: &'static str) {
        // Told to end while it is being started again: it ends.
        self.is_respawning &= self.ending.is_none();
        self.ending.get_or_insert(why);
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Stopping { kill_at: Instant::now() + grace };
            }
            Phase::Stopping { kill_at } => {
                self.phase = Phase::Stopping { kill_at: kill_at.min(Instant::now() + grace) };
            }
            Phase::Pausing { .. } => self.finish(),
            Phase::Sweeping { .. } | Phase::Over => {}
        }
    }

    /// Ends the agent and starts it again in the same place; one that is about to be started is started now.
    pub(super) fn respawn(&mut self, grace: Duration) {
        match self.phase {
            Phase::Pausing { .. } => self.phase = Phase::Pausing { until: Instant::now() },
            _ => {
                self.is_respawning = true;
                self.end(grace, "it is being started again");
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            process::signal_group(child.process.pid, signal);
        }
    }

    pub(super) fn reap(&mut self) {
        let Some(exit) = child::reap(self.child.as_ref().map(|c| c.process)) else { return };
        self.exit = exit;
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
        for stray in strays::carrying(&self.launch.launch) {
            stray.signal(Signal::SIGTERM);
        }
        let now = Instant::now();
        let kill_at = now + GRACE_LEFT_BEHIND;
        self.phase = Phase::Sweeping { kill_at, give_up_at: kill_at + KILL_TAKES_MAX };
    }

    /// What has become due.
    pub(super) fn pass_time(&mut self) {
        let now = Instant::now();
        if self.look_for_leader_at.is_some_and(|at| now >= at) {
            self.leader_died();
        }
        match self.phase {
            Phase::Stopping { kill_at } if now >= kill_at => {
                self.signal(Signal::SIGKILL);
                self.phase = Phase::Stopping { kill_at: now + KILL_TAKES_MAX };
            }
            Phase::Sweeping { kill_at, give_up_at } => {
                let group = self.child.as_ref().is_some_and(|c| process::group_is_alive(c.process.pid));
                let strays = strays::carrying(&self.launch.launch);
                if !group && strays.is_empty() {
                    self.settle();
                } else if now >= give_up_at {
                    self.record.note =
                        Some(format!("{} processes of it could not be ended", strays.len().max(1)));
                    self.settle();
                } else if now >= kill_at {
                    self.signal(Signal::SIGKILL);
                    for stray in &strays {
                        stray.signal(Signal::SIGKILL);
                    }
                }
            }
            Phase::Pausing { until } if now >= until => {
                self.record.restarts += 1;
                self.start();
            }
            _ => {}
        }
    }

    /// The agent and all of its tree have ended: start it again, or be over.
    pub(super) fn settle(&mut self) {
        let drain_until = Instant::now() + DRAIN_MAX;
        while self.relay_output() != Output::Ended && Instant::now() < drain_until {
            if let Some(child) = &self.child {
                crate::sys::socket::poll_readable(&[child.output.as_fd()], Duration::from_millis(10));
            }
        }
        self.child = None;
        if std::mem::take(&mut self.is_respawning) {
            self.ending = None;
            self.restarts_in_a_row = 0;
            self.phase = Phase::Pausing { until: Instant::now() };
            return;
        }
        let healthy = self.started.elapsed() >= HEALTHY_LIFE;
        self.restarts_in_a_row = if healthy { 0 } else { self.restarts_in_a_row + 1 };
        let wanted = match Restart::parse(&self.launch.restart).unwrap_or_default() {
            Restart::Never => false,
            Restart::OnFailure => !self.exit.is_success(),
            Restart::Always => true,
        };
        if !wanted || self.ending.is_some() || self.is_expected() {
            return self.finish();
        }
        if self.restarts_in_a_row > RESTARTS_IN_A_ROW_MAX {
            self.record.note = Some(format!("given up after {RESTARTS_IN_A_ROW_MAX} restarts in a row"));
            return self.finish();
        }
        let pause = BACKOFF_FIRST.saturating_mul(1 << (self.restarts_in_a_row.max(1) - 1)).min(BACKOFF_MAX);
        self.phase = Phase::Pausing { until: Instant::now() + pause };
        self.write(MemberState::Restarting { exit: self.exit });
        let about = json!({"agent": self.launch.agent, "exit": self.exit, "pause_ms": pause.as_millis()});
        self.store.note("member_restarting", &about);
    }

    fn finish(&mut self) {
        if self.record.note.is_none() {
            let expected = self.is_expected().then_some("it was asked to end");
            self.record.note = self.ending.or(expected).map(str::to_owned);
        }
        let path = self.store.state().screen(&self.launch.agent);
        // The last screen is a comfort; the log has it too.
        let _ = crate::sys::atomic_file::write_unsynced(&path, self.screen.text().as_bytes(), 0o600);
        self.phase = Phase::Over;
        self.write(MemberState::Exited { exit: self.exit });
        let about = json!({"agent": self.launch.agent, "exit": self.exit, "note": self.record.note});
        self.store.note("member_ended", &about);
    }
}
