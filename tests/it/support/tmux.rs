//! A user's tmux server on a private socket, and what a test asks of it.

use super::{Call, Outcome, World};
use std::ffi::OsString;

/// A user's tmux server with a session `user`, of which pane `%0` is the leader's.
pub struct Tmux<'a> {
    pub world: &'a World,
}

impl<'a> Tmux<'a> {
    pub fn start(world: &'a World, size: (u16, u16), config: &str) -> Tmux<'a> {
        let file = world.write("tmux.conf", config);
        let tmux = Tmux { world };
        let (cols, rows) = (size.0.to_string(), size.1.to_string());
        let file = file.to_str().unwrap();
        tmux.call(&[
            "-f",
            file,
            "new-session",
            "-d",
            "-s",
            "user",
            "-x",
            &cols,
            "-y",
            &rows,
            "--",
            "sleep",
            "600",
        ])
        .ok();
        tmux
    }

    pub fn plain(world: &'a World) -> Tmux<'a> {
        Tmux::start(world, (200, 50), "")
    }

    pub fn call(&self, words: &[&str]) -> Outcome {
        let socket = self.world.tmux_socket();
        self.world.program("tmux").args(["-u", "-S", socket.to_str().unwrap()]).args(words).run()
    }

    pub fn ask(&self, words: &[&str]) -> String {
        self.call(words).ok().stdout.trim_end().to_owned()
    }

    /// One line per pane of the whole server.
    pub fn panes(&self, format: &str) -> Vec<String> {
        self.ask(&["list-panes", "-a", "-F", format]).lines().map(str::to_owned).collect()
    }

    /// A call of the program from the leader's pane.
    pub fn throng(&self, words: &[&str]) -> Call {
        self.throng_at("%0", words)
    }

    pub fn throng_at(&self, pane: &str, words: &[&str]) -> Call {
        let socket = self.world.tmux_socket();
        let pid = self.ask(&["display-message", "-p", "#{pid}"]);
        self.world.throng(words).env("TMUX", format!("{},{pid},0", socket.display())).env("TMUX_PANE", pane)
    }

    pub fn spawn(&self, name: &str) {
        self.throng(&["spawn", name, "--team", "t", "--", "sleep", "600"]).run().ok();
    }

    pub fn pane_of(&self, name: &str) -> String {
        self.world.team("t").member(name)["place"]["pane"].as_str().expect("it has a pane").to_owned()
    }

    pub fn value(&self, pane: &str, format: &str) -> String {
        self.ask(&["display-message", "-p", "-t", pane, format])
    }
}

/// The tester's `PATH`.
#[allow(clippy::disallowed_methods, reason = "a test's programs are found where the tester finds them")]
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

/// A team file with this many members that sleep.
pub fn sleepers(count: usize) -> String {
    let member = |i| format!("[[member]]\nname = \"m{i}\"\ncommand = [\"sleep\", \"60{i}\"]\n");
    let members: String = (1..=count).map(member).collect();
    format!("[team]\nname = \"t\"\n[limits]\nagents = 40\n{members}")
}
