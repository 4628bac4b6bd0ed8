//! Running other programs: a bounded helper call, and a process that outlives us.

use super::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

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
    middle.wait().map_err(fail)?;
    Ok(())
}

/// Makes `command` inherit no descriptor but 0, 1, 2 and `keep`: what we were started with is none of its business, and
/// a server that outlives us would hold it for ever.
#[allow(unsafe_code)]
fn close_others(command: &mut Command, keep: Option<u32>) {
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
    let argv =
        argv.iter().map(|word| CString::new(word.as_bytes())).collect::<std::result::Result<Vec<_>, _>>()?;
    let env = env
        .iter()
        .map(|(k, v)| CString::new(format!("{k}={v}")))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    // SAFETY: everything was allocated before the fork but the list of pointers, and the callers have one thread.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || match nix::unistd::execve(&program, &argv, &env) {
            Ok(never) => match never {},
            Err(e) => Err(e.into()),
        });
    }
    Ok(())
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
    fn a_detached_program_reports_a_failed_exec() {
        assert!(start_detached(Command::new("/no/such"), None).is_err());
        assert!(start_detached(Command::new("true"), None).is_ok());
    }
}
