//! Running other programs: a bounded helper call, and a process that outlives us.

use super::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Output of a program in a conversation that is kept, in bytes.
const HEARD_BYTES_MAX: usize = 1024 * 1024;
/// How long the output of a program that has ended may stay open.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);

/// What a helper program answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output, as text.
    pub stdout: String,
    /// Standard error, as text, trimmed.
    pub stderr: String,
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Runs a helper program with no input to its end, at most `limit`; then it is killed.
///
/// # Errors
/// [`Error::Program`] when it cannot start or does not end in time. Its own failure is in the answer.
pub fn answer_within(mut command: Command, limit: Duration) -> Result<Answer> {
    let program = name(&command);
    let fail = |detail: String| Error::Program { program: program.clone(), detail };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    super::signals::let_all_through_in(&mut command);
    close_others(&mut command, None);
    let mut child = command.spawn().map_err(|e| fail(format!("cannot run: {e}")))?;
    let (sender, receiver) = mpsc::channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let err = std::thread::spawn(move || read_all(err));
        let out = read_all(out);
        // The receiver may have given up.
        let _ = sender.send((out, err.join().unwrap_or_default()));
    });
    let Ok((stdout, stderr)) = receiver.recv_timeout(limit) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(fail(format!("no answer within {:.0} s", limit.as_secs_f64())));
    };
    let status = child.wait().map_err(|e| fail(e.to_string()))?;
    Ok(Answer { status, stdout, stderr: stderr.trim().to_owned() })
}

fn read_all(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // What came before an error is still worth showing.
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How a conversation with a program ended.
#[derive(Debug)]
pub enum Conversed {
    /// It ended by itself.
    Ended(Answer),
    /// It took longer than it may.
    TimedOut,
    /// Whoever wanted the answer does not any more.
    Unwanted,
}

/// Feeds a program some input and hears what it says, at most `limit` and as long as `is_wanted`; then its whole process
/// group is killed. What it leaves running otherwise lives on. When our process has ended, killed or not, the group is
/// killed too. Output beyond 1 MiB is dropped.
///
/// # Errors
/// [`Error::Program`] when it cannot be run.
pub fn converse(
    mut command: Command,
    input: Vec<u8>,
    limit: Duration,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Conversed> {
    let program = name(&command);
    let fail = |e: io::Error| Error::Program { program: program.clone(), detail: format!("cannot run: {e}") };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    super::signals::let_all_through_in(&mut command);
    close_others(&mut command, None);
    keep_in_group(&mut command);
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut pipe) = child.stdin.take() {
        // It may end without reading it all.
        std::thread::spawn(move || pipe.write_all(&input));
    }
    let (out, err) = (Heard::of(child.stdout.take()), Heard::of(child.stderr.take()));
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(fail)? {
            break status;
        }
        let end = match (begun.elapsed() >= limit, is_wanted()) {
            (true, _) => Some(Conversed::TimedOut),
            (_, false) => Some(Conversed::Unwanted),
            _ => None,
        };
        if let Some(end) = end {
            super::process::signal_group(child.id().cast_signed(), nix::sys::signal::Signal::SIGKILL);
            let _ = child.wait();
            return Ok(end);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let deadline = Instant::now() + LAST_WORDS_WITHIN;
    let (stdout, stderr) = (out.text(deadline), err.text(deadline));
    Ok(Conversed::Ended(Answer { status, stdout, stderr: stderr.trim().to_owned() }))
}

/// What comes out of a pipe, as it comes: a process that was left behind may hold it open.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Heard {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Heard {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let listen = move |mut pipe| {
            let mut piece = [0; 8192];
            while let Ok(n @ 1..) = Read::read(&mut pipe, &mut piece) {
                let Ok(mut heard) = into.lock() else { return };
                let room = HEARD_BYTES_MAX.saturating_sub(heard.len());
                heard.extend(&piece[..n.min(room)]);
            }
        };
        let thread = pipe.map(|pipe| std::thread::spawn(move || listen(pipe)));
        Heard { bytes, thread }
    }

    /// What was heard until the pipe's end, or the deadline.
    fn text(&self, deadline: Instant) -> String {
        while self.thread.as_ref().is_some_and(|t| !t.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.bytes.lock().map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Starts a program in a session of its own that nobody of ours has to reap, and returns when it has been executed. It
/// inherits descriptor `keep` beside 0, 1 and 2.
///
/// # Errors
/// [`Error::Program`] when it cannot be executed.
pub fn start_detached(mut command: Command, keep: Option<i32>) -> Result<()> {
    close_others(&mut command, keep.and_then(|fd| u32::try_from(fd).ok()));
    super::signals::let_all_through_in(&mut command);
    // SAFETY: between fork and exec only `fork`, `setsid` and `_exit` are called, all async-signal-safe.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            // The middle process ends at once, so the grandchild belongs to init or the nearest subreaper. It keeps
            // the pipe on which std reports a failed exec.
            match nix::unistd::fork() {
                Ok(nix::unistd::ForkResult::Parent { .. }) => nix::libc::_exit(0),
                Ok(nix::unistd::ForkResult::Child) => {
                    nix::unistd::setsid().map(drop).map_err(io::Error::from)
                }
                Err(e) => Err(e.into()),
            }
        });
    }
    let program = name(&command);
    let fail = |e: io::Error| Error::Program { program: program.clone(), detail: format!("cannot run: {e}") };
    let mut middle = command.spawn().map_err(fail)?;
    match middle.wait() {
        // Reaped already, by whoever takes in orphans: that it has executed the program is known.
        Err(e) if e.raw_os_error() != Some(nix::libc::ECHILD) => Err(fail(e)),
        _ => Ok(()),
    }
}

/// Puts a keeper between us and what `command` starts: the leader of its group, which ends as the program ended, and kills the
/// whole group when our process has ended, by a kill too. The kernel alone would kill the program and not what that started.
#[allow(unsafe_code)]
pub(super) fn keep_in_group(command: &mut Command) {
    // SAFETY: between fork and exec, and in the keeper, there are only system calls.
    #[cfg(target_os = "linux")]
    unsafe {
        let parent = nix::unistd::getpid();
        command.pre_exec(move || super::keeper::stand_between(parent).map_err(io::Error::from));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Makes `command` inherit no descriptor but 0, 1, 2 and `keep`: what we were started with is none of its business, and
/// a server that outlives us would hold it for ever.
#[allow(unsafe_code)]
pub(super) fn close_others(command: &mut Command, keep: Option<u32>) {
    let close = |first: u32, last: u32| {
        // SAFETY: marking descriptors to be closed by exec touches no memory. The marked ones stay open until then,
        // among them the pipe on which std reports a failed exec.
        #[cfg(target_os = "linux")]
        unsafe {
            nix::libc::close_range(first, last, nix::libc::CLOSE_RANGE_CLOEXEC.cast_signed());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (first, last);
    };
    // SAFETY: close_range is a bare system call.
    unsafe {
        command.pre_exec(move || {
            match keep {
                Some(keep) => {
                    if keep > 3 {
                        close(3, keep - 1);
                    }
                    close(keep.saturating_add(1), u32::MAX);
                }
                None => close(3, u32::MAX),
            }
            Ok(())
        });
    }
}

/// Makes `command` execute exactly this program, these words and this environment. What the standard library would do
/// instead has a catch: a file that is no program is given to a shell.
///
/// # Errors
/// A word holds a NUL byte.
pub fn execute_exactly(
    command: &mut Command,
    program: &Path,
    argv: &[String],
    env: &BTreeMap<String, String>,
) -> io::Result<()> {
    close_others(command, None);
    let program = CString::new(program.as_os_str().as_encoded_bytes())?;
    let argv = Words::new(argv.iter().cloned())?;
    let env = Words::new(env.iter().map(|(key, value)| format!("{key}={value}")))?;
    // SAFETY: everything was allocated before the fork, and the lists end with a null pointer.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || {
            nix::libc::execve(program.as_ptr(), argv.list(), env.list());
            Err(io::Error::last_os_error())
        });
    }
    Ok(())
}

/// Words, with the list of pointers to them that `execve` takes.
struct Words {
    _owned: Vec<CString>,
    pointers: Vec<*const nix::libc::c_char>,
}

// SAFETY: the pointers lead into words that are never changed and live as long as the list.
#[allow(unsafe_code)]
unsafe impl Send for Words {}
#[allow(unsafe_code)]
unsafe impl Sync for Words {}

impl Words {
    fn new(words: impl Iterator<Item = String>) -> io::Result<Words> {
        let owned = words.map(CString::new).collect::<std::result::Result<Vec<_>, _>>()?;
        let end = std::iter::once(std::ptr::null());
        let pointers = owned.iter().map(|word| word.as_ptr()).chain(end).collect();
        Ok(Words { _owned: owned, pointers })
    }

    fn list(&self) -> *const *const nix::libc::c_char {
        self.pointers.as_ptr()
    }
}

/// Lets a child inherit `file` under its present descriptor number, which is returned.
///
/// # Errors
/// The system call's.
pub fn keep_across_exec(file: &File) -> io::Result<i32> {
    nix::fcntl::fcntl(file.as_fd(), nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
    Ok(file.as_raw_fd())
}

/// Takes over a descriptor that this process inherited as `number`; `None` if it is not an open file.
#[allow(unsafe_code)]
pub fn take_inherited(number: i32) -> Option<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the number was given to this process for this purpose alone and is taken once; fcntl proves it open.
    let file = unsafe {
        if nix::libc::fcntl(number, nix::libc::F_SETFD, nix::libc::FD_CLOEXEC) != 0 {
            return None;
        }
        File::from_raw_fd(number)
    };
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_bounded_in_time_and_its_answer_kept() {
        let mut echo = Command::new("sh");
        echo.args(["-c", "echo out; echo err >&2; exit 3"]);
        let answer = answer_within(echo, Duration::from_secs(10)).unwrap();
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("out\n", "err"));
        assert_eq!(answer.status.code(), Some(3));
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        assert!(answer_within(sleep, Duration::from_millis(50)).is_err());
        let missing = answer_within(Command::new("/no/such"), Duration::from_secs(1)).unwrap_err();
        assert!(missing.to_string().contains("/no/such"), "{missing}");
    }

    #[test]
    fn a_conversation_is_bounded_and_ends_the_whole_group() {
        let talk = |script: &str, limit_ms: u64, is_wanted: &dyn Fn() -> bool| {
            let mut sh = Command::new("sh");
            sh.args(["-c", script]);
            converse(sh, b"hello".to_vec(), Duration::from_millis(limit_ms), is_wanted).unwrap()
        };
        let Conversed::Ended(answer) = talk("cat; echo err >&2; exit 3", 10_000, &|| true) else { panic!() };
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("hello", "err"));
        assert_eq!(answer.status.code(), Some(3));
        let begun = Instant::now();
        // A child of the program keeps its output open.
        assert!(matches!(talk("sleep 60 & sleep 60", 50, &|| true), Conversed::TimedOut));
        assert!(matches!(talk("sleep 60", 60_000, &|| false), Conversed::Unwanted));
        let Conversed::Ended(left) = talk("sleep 7 & echo said", 10_000, &|| true) else { panic!() };
        assert_eq!(left.stdout, "said\n");
        assert!(begun.elapsed() < Duration::from_secs(6), "nobody waited for a sleep");
        let missing = converse(Command::new("/no/such"), Vec::new(), Duration::from_secs(1), &|| true);
        assert!(missing.unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn a_detached_program_reports_a_failed_exec() {
        assert!(start_detached(Command::new("/no/such"), None).is_err());
        assert!(start_detached(Command::new("true"), None).is_ok());
    }
}
