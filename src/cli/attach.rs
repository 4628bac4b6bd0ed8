//! `throng attach`: this terminal is a teammate's for a while.

use super::context::Context;
use super::error::{Failure, Result};
use super::logs::known_member;
use crate::launch::control::{self, FRAME_INPUT, FRAME_SIZE, frame};
use crate::sys::pty::{self, Raw, Size};
use crate::sys::socket::poll_readable;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Ctrl-], as telnet has it.
const DETACH: u8 = 0x1d;
/// Takes the agent's modes off this terminal: keypad, cursor keys, mouse, focus, bracketed paste, colours, the other page;
/// shows the cursor.
const MODES_OFF: &str = "\x1b>\x1b[?1l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l\r";
/// How often the terminal's size is looked at.
const SIZE_EVERY: Duration = Duration::from_millis(250);

/// Connect this terminal to a teammate's
#[derive(Debug, clap::Args)]
#[command(after_help = "Ctrl-] goes away again. Without a name the team's tmux session is shown.

Example:
  throng attach bob")]
pub struct Attach {
    /// Whose
    name: Option<String>,
}

/// Attaches.
pub fn attach(verb: &Attach, context: &mut Context) -> Result {
    let store = context.team()?;
    let Some(name) = &verb.name else {
        let manifest = store.manifest()?;
        let words = manifest.and_then(|m| shlex::split(&m.home.attach?)).unwrap_or_default();
        let Some((program, args)) = words.split_first() else {
            return Err(Failure::usage(
                "this team has no tmux session: say whose terminal, 'throng attach NAME'",
            ));
        };
        let e = Command::new(program).args(args).exec();
        return Err(Failure::not_started(format!("{program}: {e}")));
    };
    let name = known_member(name, &store)?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    if !stdin.is_terminal() || !stdout.is_terminal() {
        return Err(Failure::usage("attach needs a terminal; 'throng screen' and 'throng logs -f' do not"));
    }
    let size = pty::size_of(&stdin).unwrap_or(Size::DEFAULT);
    let agent = control::attach(&store, &name, size)
        .map_err(|e| Failure::missing(format!("{name} cannot be attached to: {e}")))?;
    // Its picture comes on a page of its own; ours is there again afterwards.
    writeln!(io::stdout(), "\x1b[?1049h\x1b[2J\x1b[Hattached to {name}; Ctrl-] goes away again")?;
    let raw = Raw::enter(&stdin)?;
    let end = relay(agent, size);
    drop(raw);
    write!(io::stdout(), "{MODES_OFF}")?;
    io::stdout().flush()?;
    context.out.line(end?)
}

/// Relays until one side goes away. Answers how it ended.
fn relay(mut agent: BufReader<UnixStream>, mut size: Size) -> io::Result<&'static str> {
    let (stdin, mut stdout) = (io::stdin(), io::stdout());
    let mut writer = agent.get_ref().try_clone()?;
    let mut bytes = [0; 4096];
    loop {
        // What came with the answer is in the reader already.
        let buffered = !agent.buffer().is_empty();
        let wait = if buffered { Duration::ZERO } else { SIZE_EVERY };
        let ready = poll_readable(&[stdin.as_fd(), agent.get_ref().as_fd()], wait);
        if buffered || ready[1] {
            match agent.read(&mut bytes)? {
                0 => return Ok("the agent has ended"),
                n => {
                    stdout.write_all(&bytes[..n])?;
                    stdout.flush()?;
                }
            }
        }
        if ready[0] {
            let n = stdin.lock().read(&mut bytes)?;
            let typed = &bytes[..n];
            let until = typed.iter().position(|b| *b == DETACH).unwrap_or(n);
            writer.write_all(&frame(FRAME_INPUT, &typed[..until]))?;
            if n == 0 || until < n {
                return Ok("detached");
            }
        }
        let now = pty::size_of(&stdin).unwrap_or(size);
        if now != size {
            size = now;
            let cells = [size.rows.to_be_bytes(), size.cols.to_be_bytes()].concat();
            writer.write_all(&frame(FRAME_SIZE, &cells))?;
        }
    }
}
