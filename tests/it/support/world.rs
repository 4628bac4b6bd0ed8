//! A sealed world: folders, environment and processes of one test, all gone when it is dropped.

use super::process::Process;
use super::wait::{LIMIT, within};
use super::{Call, Team};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The variable that every process of a world carries.
const MARK: &str = "THRONG_WORLD";

/// Folders, environment and processes of one test.
pub struct World {
    root: PathBuf,
    mark: String,
    program: PathBuf,
    mounts: Mutex<Vec<PathBuf>>,
}

impl World {
    /// A fresh one. Its folder lies directly below `/tmp`: a socket's path may have 108 bytes only.
    pub fn new() -> World {
        let dir = tempfile::Builder::new().prefix("throng-it.").tempdir_in("/tmp").unwrap();
        let root = dir.keep().canonicalize().unwrap();
        // Another user may have to reach what a test gives it.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        for dir in ["home", "claude", "state", "run", "here", "tmp"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_throng"));
        World { root, mark: uuid::Uuid::new_v4().to_string(), program, mounts: Mutex::new(Vec::new()) }
    }

    /// The folder of it all.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the working directory of its programs.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join("here").join(below)
    }

    /// `CLAUDE_CONFIG_DIR`.
    pub fn config_dir(&self) -> PathBuf {
        self.root.join("claude")
    }

    /// `THRONG_STATE_DIR`.
    pub fn state_dir(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Where throng's sockets lie.
    pub fn sockets(&self) -> PathBuf {
        self.root.join("run/throng")
    }

    /// Socket of a tmux server that a test may start.
    pub fn tmux_socket(&self) -> PathBuf {
        self.root.join("tmux")
    }

    /// Writes a file below the working directory, with its folders.
    pub fn write(&self, below: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Reads a file below the working directory.
    pub fn read(&self, below: impl AsRef<Path>) -> String {
        let path = self.path(below);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Copies a folder of the repository into the working directory.
    pub fn copy_in(&self, from: &str) -> PathBuf {
        let to = self.path(from);
        copy_tree(&super::repository().join(from), &to);
        to
    }

    /// A call of the program.
    pub fn throng<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Call {
        self.program(&self.program).args(args)
    }

    /// A call of any program in this world.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Call {
        Call::new(program.as_ref(), self.environment(), self.path(""))
    }

    /// The program at a place where every user may execute it.
    pub fn program_for_all(&self) -> PathBuf {
        let copy = self.root.join("throng");
        // By another process: one that forks meanwhile would keep our file open, and it could not be executed.
        let install = Command::new("install").args(["-m", "755"]).args([&self.program, &copy]).status();
        assert!(install.unwrap().success());
        copy
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "a sealed world takes PATH and the Rust tools from the tester"
    )]
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let path = |below: &str| self.root.join(below).into_os_string();
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), path("home")),
            ("CLAUDE_CONFIG_DIR".into(), path("claude")),
            ("THRONG_STATE_DIR".into(), path("state")),
            ("XDG_RUNTIME_DIR".into(), path("run")),
            ("TMPDIR".into(), path("tmp")),
            ("LANG".into(), "C.UTF-8".into()),
            ("TERM".into(), "xterm-256color".into()),
            (MARK.into(), self.mark.clone().into()),
        ];
        env.push(("PATH".into(), std::env::var_os("PATH").unwrap_or("/usr/bin:/bin".into())));
        // Teams that run cargo need the tester's, since HOME is another.
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        for (key, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let dir = std::env::var_os(key).map_or_else(|| home.join(default), PathBuf::from);
            env.push((key.into(), dir.into_os_string()));
        }
        env
    }

    /// A team's files.
    pub fn team(&self, name: &str) -> Team<'_> {
        Team { world: self, name: name.to_owned() }
    }

    /// A team as another program makes it: nothing runs.
    pub fn plant_team(&self, name: &str, members: &[&str]) -> Team<'_> {
        let team = self.team(name);
        let member = |m: &str| json!({"agentId": format!("{m}@{name}"), "name": m});
        let mut rows = vec![member("team-lead")];
        rows.extend(members.iter().map(|m| member(m)));
        let config = json!({
            "name": name, "createdAt": 1, "leadAgentId": format!("team-lead@{name}"), "leadSessionId": "x", "members": rows,
        });
        fs::create_dir_all(team.dir()).unwrap();
        fs::write(team.config_path(), serde_json::to_string_pretty(&config).unwrap()).unwrap();
        team
    }

    /// Adds a teammate that runs until it is ended.
    pub fn spawn_sleeper(&self, team: &str, name: &str) {
        self.throng(["spawn", name, "--team", team, "--", "sleep", "600"]).run().ok();
    }

    /// Mounts a file system of this many KiB, if this user may. It goes with the world.
    pub fn mount_small(&self, at: &Path, kib: u32) -> bool {
        fs::create_dir_all(at).unwrap();
        let size = format!("size={kib}k");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|s| s.success());
        if mounted {
            self.mounts.lock().unwrap().push(at.to_owned());
        }
        mounted
    }

    /// The processes of this world that run: marked ones, and those of `tend`, whose environment is its own.
    pub fn processes(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.mark);
        let ours = |p: &Process| !p.is_zombie() && (p.carries(&mark) || p.is_tend_below(&self.root));
        Process::all().into_iter().filter(ours).collect()
    }

    /// The processes of this world whose command line holds this word.
    pub fn processes_with(&self, word: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|p| p.command_line().iter().any(|w| w.contains(word))).collect()
    }

    /// Zombies whose parent is a process of this world: it should have reaped them.
    pub fn zombies(&self) -> Vec<Process> {
        let all = Process::all();
        let ours: Vec<i32> = self.processes().iter().map(|p| p.pid).collect();
        // Looked at before their parents were: a parent that ended meanwhile is no fault.
        all.into_iter()
            .filter(|p| p.is_zombie() && ours.contains(&p.parent))
            .filter(|p| Process::of(p.pid).is_some_and(|now| now.is_zombie()))
            .collect()
    }

    /// Checks that no process, lock, temporary file, socket or tmux server of this world is left.
    pub fn assert_nothing_left(&self) {
        let described = || -> Vec<String> {
            self.processes().iter().map(|p| format!("{} {:?}", p.pid, p.command_line())).collect()
        };
        within(
            LIMIT,
            || format!("processes are left: {:#?}", described()),
            || described().is_empty().then_some(()),
        );
        let mut left = Vec::new();
        for dir in [self.config_dir(), self.state_dir()] {
            walk(&dir, &mut |path, is_dir| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let is_lock = is_dir && name.ends_with(".lock");
                if is_lock || name.contains(".tmp.") || name.starts_with(".throng-") {
                    left.push(path.to_owned());
                }
            });
        }
        walk(&self.root.join("run"), &mut |path, is_dir| {
            if !is_dir {
                left.push(path.to_owned());
            }
        });
        assert!(left.is_empty(), "files are left: {left:#?}");
    }

    fn end_all(&self) {
        for socket in self.tmux_sockets() {
            let mut tmux = Command::new("tmux");
            tmux.arg("-S").arg(socket).arg("kill-server").stderr(Stdio::null());
            let _ = tmux.status();
        }
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            left.iter().for_each(Process::kill);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn tmux_sockets(&self) -> Vec<PathBuf> {
        let mut sockets = vec![self.tmux_socket()];
        walk(&self.sockets(), &mut |path, _| {
            if path.extension().is_some_and(|e| e == "tmux") {
                sockets.push(path.to_owned());
            }
        });
        sockets.retain(|s| s.exists());
        sockets
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_all();
        for at in self.mounts.lock().unwrap().iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(at).status();
        }
        #[allow(clippy::disallowed_methods, reason = "the tester's own word to the tests")]
        let keep = std::thread::panicking() && std::env::var_os("THRONG_KEEP_WORLD").is_some();
        if keep {
            eprintln!("the world is kept at {}", self.root.display());
        } else if let Err(e) = fs::remove_dir_all(&self.root) {
            eprintln!("{} is left: {e}", self.root.display());
        }
    }
}

/// Calls `see` with every path below `dir` and whether it is a folder.
pub fn walk(dir: &Path, see: &mut impl FnMut(&Path, bool)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        see(&entry.path(), is_dir);
        if is_dir {
            walk(&entry.path(), see);
        }
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        // What a build left is no part of it.
        if entry.file_name() == "target" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
