//! Where everything lies: the shared files under the Claude configuration directory (protocol II.1), our own state beside
//! them. Pure path arithmetic.

use super::{AgentName, TeamName};
use std::path::{Path, PathBuf};

/// The three roots of all paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// `CLAUDE_CONFIG_DIR`, else `~/.claude`: shared with other programs.
    pub config_dir: PathBuf,
    /// `THRONG_STATE_DIR`, else `$XDG_STATE_HOME/throng`, else `~/.local/state/throng`: ours.
    pub state_dir: PathBuf,
    /// A short private directory for sockets: `$XDG_RUNTIME_DIR/throng`, else one in the temporary directory.
    pub runtime_dir: PathBuf,
}

impl Layout {
    /// Folder of all teams.
    pub fn teams(&self) -> PathBuf {
        self.config_dir.join("teams")
    }

    /// Folder of one team.
    pub fn team(&self, team: &TeamName) -> PathBuf {
        self.teams().join(team.as_str())
    }

    /// The team file.
    pub fn team_file(&self, team: &TeamName) -> PathBuf {
        self.team(team).join("config.json")
    }

    /// Folder of a team's inboxes.
    pub fn inboxes(&self, team: &TeamName) -> PathBuf {
        self.team(team).join("inboxes")
    }

    /// One agent's inbox.
    pub fn inbox(&self, team: &TeamName, agent: &AgentName) -> PathBuf {
        self.inboxes(team).join(format!("{agent}.json"))
    }

    /// A team's task list.
    pub fn tasks(&self, team: &TeamName) -> PathBuf {
        self.config_dir.join("tasks").join(team.as_str())
    }

    /// Our own state of all teams.
    pub fn states(&self) -> PathBuf {
        self.state_dir.join("teams")
    }

    /// Our own state of one team.
    pub fn state(&self, team: &TeamName) -> TeamState {
        TeamState(self.states().join(team.as_str()))
    }

    /// Transcripts of agents without a team.
    pub fn sessions(&self) -> PathBuf {
        self.state_dir.join("sessions")
    }

    /// Transcripts of replays: their sessions have the ids of those that were recorded.
    pub fn replays(&self) -> PathBuf {
        self.state_dir.join("replays")
    }

    /// State of teams whose name was used again.
    pub fn ended(&self) -> PathBuf {
        self.state_dir.join("ended")
    }

    /// Locks of the names of teams that are just being made.
    pub fn births(&self) -> PathBuf {
        self.state_dir.join("births")
    }

    /// A word that stands for one team of one state directory, in 16 hexadecimal digits.
    pub fn mark(&self, team: &TeamName) -> String {
        let mut hash = Fnv::new();
        hash.add(self.state_dir.as_os_str().as_encoded_bytes());
        hash.add(team.as_str().as_bytes());
        format!("{:016x}", hash.0)
    }

    /// Path of a socket. Short and hashed, since a socket's path may have 108 bytes only.
    pub fn socket(&self, team: &TeamName, agent: &AgentName, kind: &str) -> PathBuf {
        let mut hash = Fnv::new();
        hash.add(self.state_dir.as_os_str().as_encoded_bytes());
        hash.add(team.as_str().as_bytes());
        hash.add(agent.as_str().as_bytes());
        self.runtime_dir.join(format!("{:016x}.{kind}", hash.0))
    }

    /// Folder of the sockets of all that wait for an agent's mail: one each.
    pub fn waiters(&self, team: &TeamName, agent: &AgentName) -> PathBuf {
        self.socket(team, agent, "waiters")
    }

    /// Path of the socket of a tmux server of our own for a team.
    pub fn tmux_socket(&self, team: &TeamName) -> PathBuf {
        self.socket(team, &AgentName::lead(), "tmux")
    }
}

/// Our own state of one team: `{state_dir}/teams/{team}/`, directories 0700, files 0600.
#[derive(Debug, Clone)]
pub struct TeamState(PathBuf);

impl TeamState {
    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.0
    }
    /// What kind of team this is and how it was started.
    pub fn manifest(&self) -> PathBuf {
        self.0.join("team.json")
    }
    /// Held by the leader as long as it lives.
    pub fn leader_lock(&self) -> PathBuf {
        self.0.join("leader.lock")
    }
    /// Who the leader is, for showing.
    pub fn leader_record(&self) -> PathBuf {
        self.0.join("leader.json")
    }
    /// Member files and member locks.
    pub fn members(&self) -> PathBuf {
        self.0.join("members")
    }
    /// One member's file, written by its `tend` alone.
    pub fn member(&self, agent: &AgentName) -> PathBuf {
        self.members().join(format!("{agent}.json"))
    }
    /// What a member that is an agent of ours has done so far; written by itself alone.
    pub fn progress(&self, agent: &AgentName) -> PathBuf {
        self.members().join(format!("{agent}.progress"))
    }
    /// Held by a member's `tend` as long as it lives.
    pub fn member_lock(&self, agent: &AgentName) -> PathBuf {
        self.members().join(format!("{agent}.lock"))
    }
    /// Held by whoever is just spawning this member.
    pub fn spawn_lock(&self, agent: &AgentName) -> PathBuf {
        self.members().join(format!("{agent}.spawn"))
    }
    /// Held by whoever just counts the members for one more.
    pub fn counting_lock(&self) -> PathBuf {
        self.0.join("counting.lock")
    }
    /// Launch files.
    pub fn launches(&self) -> PathBuf {
        self.0.join("launch")
    }
    /// One member's launch file: argv, environment, directory. May hold secrets: 0600.
    pub fn launch(&self, agent: &AgentName) -> PathBuf {
        self.launches().join(format!("{agent}.json"))
    }
    /// The leader's keys, one for each member that verifies its messages.
    pub fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }
    /// The secret key with which the leader's messages to a member are signed: 0600.
    pub fn key(&self, agent: &AgentName) -> PathBuf {
        self.keys().join(agent.as_str())
    }
    /// What was asked of the leader, and what was answered.
    pub fn approvals(&self) -> PathBuf {
        self.0.join("approvals.jsonl")
    }
    /// Held by whoever is just answering, or writing down what is asked.
    pub fn approvals_lock(&self) -> PathBuf {
        self.0.join("approvals.lock")
    }
    /// Logs of the team's processes.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }
    /// What an agent printed.
    pub fn log(&self, agent: &AgentName) -> PathBuf {
        self.logs().join(format!("{agent}.log"))
    }
    /// An agent's last screen, written when it ended.
    pub fn screen(&self, agent: &AgentName) -> PathBuf {
        self.logs().join(format!("{agent}.screen"))
    }
    /// Ids of the iTerm2 sessions that were opened for the team, one a line.
    pub fn iterm_sessions(&self) -> PathBuf {
        self.0.join("iterm2-sessions")
    }
    /// Transcript of a member that is an agent of ours, for this launch of it.
    pub fn transcript(&self, agent: &AgentName, launch: &str) -> PathBuf {
        let launch: String = launch.chars().take(8).collect();
        self.0.join("transcripts").join(format!("{agent}-{launch}.jsonl"))
    }
    /// Messages to a member that are too long to be typed to its program.
    pub fn letters(&self, agent: &AgentName) -> PathBuf {
        self.0.join("letters").join(agent.as_str())
    }
    /// The team's event log.
    pub fn events(&self) -> PathBuf {
        self.0.join("events.jsonl")
    }
    /// What became of messages.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal.jsonl")
    }
    /// The journal before this one.
    pub fn old_journal(&self) -> PathBuf {
        self.0.join("journal.1.jsonl")
    }
    /// Each state of each task.
    pub fn tasks(&self) -> PathBuf {
        self.0.join("tasks.jsonl")
    }
    /// A folder with nothing but a link to our program, for the members' `PATH`.
    pub fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }
    /// Where our processes queue for a shared file before one of them contends for its lock directory.
    pub fn queues(&self) -> PathBuf {
        self.0.join("queues")
    }
    /// Copies of damaged files, one per distinct damage.
    pub fn quarantine(&self) -> PathBuf {
        self.0.join("quarantine")
    }
    /// What the team's members made, kept after its end.
    pub fn out(&self) -> PathBuf {
        self.0.join("out")
    }
    /// The shared files as they were at the team's end.
    pub fn last_files(&self) -> PathBuf {
        self.0.join("final")
    }
}

/// FNV-1a, 64 bits: a hash that stays the same for ever, for names of sockets and copies.
#[derive(Debug, Clone, Copy)]
pub struct Fnv(pub u64);

impl Fnv {
    /// The empty hash.
    pub fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a part and its end.
    pub fn add(&mut self, part: &[u8]) {
        for byte in part.iter().chain([&0]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv::new()
    }
}
