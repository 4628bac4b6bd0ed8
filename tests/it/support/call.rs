//! Calls of a program: started, waited for, and judged with all they printed.

use super::wait::{LIMIT, within};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest run of one call, unless a test says otherwise.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// A program about to be started.
pub struct Call {
    words: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    stdin: Option<Vec<u8>>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    limit: Duration,
}

impl Call {
    pub(super) fn new(program: &OsStr, env: Vec<(OsString, OsString)>, cwd: PathBuf) -> Call {
        Call {
            words: vec![program.to_owned()],
            env,
            cwd,
            stdin: None,
            stdout: None,
            stderr: None,
            limit: CALL_LIMIT,
        }
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.words.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.retain(|(k, _)| k != key);
        self.env.push((key.into(), value.as_ref().to_owned()));
        self
    }

    pub fn without_env(mut self, key: &str) -> Self {
        self.env.retain(|(k, _)| k != key);
        self
    }

    /// As a member calls it.
    pub fn by(self, agent: &str) -> Self {
        self.env("THRONG_AGENT", agent)
    }

    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = self.cwd.join(dir);
        self
    }

    pub fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin = Some(bytes.as_ref().to_vec());
        self
    }

    /// Where standard output goes; then the outcome has none.
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.stdout = Some(to.into());
        self
    }

    /// Longest time; the default is a minute.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Outcome {
        self.start().wait()
    }

    /// The call without its input and output.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env_clear().envs(self.env.clone()).current_dir(&self.cwd);
        command
    }

    /// Starts it.
    pub fn start(self) -> Running {
        let what = shown(&self.words);
        let mut command = self.command();
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(self.stdout.unwrap_or_else(Stdio::piped));
        command.stderr(self.stderr.unwrap_or_else(Stdio::piped));
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{what}: {e}"));
        if let (Some(bytes), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // It may end without reading it all.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        let stdout = Collector::of(child.stdout.take());
        let stderr = Collector::of(child.stderr.take());
        Running { what, child, stdout, stderr, limit: self.limit }
    }
}

fn shown(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    words.join(" ").chars().take(500).collect()
}

/// What comes out of a pipe, as it comes.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Collector {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let thread = pipe.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(n @ 1..) = pipe.read(&mut piece) {
                    into.lock().unwrap().extend(&piece[..n]);
                }
            })
        });
        Collector { bytes, thread }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// A program that was started.
pub struct Running {
    what: String,
    child: Child,
    stdout: Collector,
    stderr: Collector,
    limit: Duration,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it has complained about so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until it has printed this.
    pub fn until_says(&self, text: &str) {
        let complaint = || {
            let (out, err) = (self.stdout(), self.stderr());
            format!("{} did not say '{text}'\n--- stdout\n{out}\n--- stderr\n{err}", self.what)
        };
        within(LIMIT, complaint, || self.stdout().contains(text).then_some(()));
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn signal(&self, signal: Signal) {
        super::process::signal(self.pid(), signal);
    }

    /// Waits for its end, and for the end of its output: nobody else may keep that open.
    pub fn wait(mut self) -> Outcome {
        let start = Instant::now();
        let Running { what, child, stdout, stderr, limit } = &mut self;
        let complaint = |fault: &str| {
            let (out, err) = (stdout.text(), stderr.text());
            format!("{what} {fault}, after {} s\n--- stdout\n{out}\n--- stderr\n{err}", limit.as_secs())
        };
        let status = within(*limit, || complaint("does not end"), || child.try_wait().unwrap());
        let is_open = |pipe: &Collector| pipe.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        let kept_open = || complaint("has ended, but somebody keeps its output open");
        within(*limit, kept_open, || (!is_open(stdout) && !is_open(stderr)).then_some(()));
        Outcome {
            what: self.what.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            took: start.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a program ended and what it printed.
#[derive(Debug)]
pub struct Outcome {
    what: String,
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// How long it was waited for.
    pub took: Duration,
}

impl Outcome {
    fn complain(&self, expected: &str) -> ! {
        panic!(
            "{}\nexpected: {expected}\ncode {:?}, signal {:?}, after {:.2} s\n--- stdout\n{}\n--- stderr\n{}\n---",
            self.what,
            self.code,
            self.signal,
            self.took.as_secs_f64(),
            self.stdout,
            self.stderr
        )
    }

    /// Checks something of it, showing it all if that is not so.
    pub fn check(&self, expected: &str, is_so: bool) -> &Self {
        if is_so { self } else { self.complain(expected) }
    }

    /// It ended with 0 and without a complaint.
    pub fn ok(&self) -> &Self {
        self.code(0).check("nothing on standard error", self.stderr.is_empty())
    }

    /// It ended with this exit code.
    pub fn code(&self, code: i32) -> &Self {
        self.check(&format!("exit code {code}"), self.code == Some(code))
    }

    /// It was ended by this signal.
    pub fn signalled(&self, signal: Signal) -> &Self {
        self.check(&format!("ended by {signal}"), self.signal == Some(signal as i32))
    }

    /// Its standard output holds this.
    pub fn says(&self, text: &str) -> &Self {
        self.check(&format!("'{text}' on standard output"), self.stdout.contains(text))
    }

    /// Its standard output is this.
    pub fn prints(&self, text: &str) -> &Self {
        self.check(&format!("standard output {text:?}"), self.stdout == text)
    }

    /// Its standard error holds this.
    pub fn complains(&self, text: &str) -> &Self {
        self.check(&format!("'{text}' on standard error"), self.stderr.contains(text))
    }

    /// Its standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| self.complain(&format!("JSON: {e}")))
    }

    /// Its standard output as one JSON value a line.
    pub fn json_lines(&self) -> Vec<Value> {
        let line =
            |l: &str| serde_json::from_str(l).unwrap_or_else(|e| self.complain(&format!("JSON: {e}: {l}")));
        self.stdout.lines().map(line).collect()
    }
}
