//! `tend`'s control socket: others ask for the screen, for an end, or to be attached.

use super::super::control::{FRAME_INPUT, FRAME_SIZE};
use crate::store::Doing;
use crate::sys::outlet::{Outlet, Reader};
use crate::sys::pty::Size;
use crate::sys::{self, atomic_file, failed};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest request line in bytes.
const REQUEST_BYTES_MAX: usize = 4096;
/// Most connections at once.
const CLIENTS_MAX: usize = 32;

/// What somebody wants.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    Screen,
    Stop { grace: Duration },
    Respawn { grace: Duration },
    ExpectEnd { within: Duration },
    Press(Vec<u8>),
    Doing(Doing),
    Attach { size: Size },
    Input(Vec<u8>),
    Resize(Size),
    Unknown,
}

/// The socket with its connections.
pub(super) struct Desk {
    listener: UnixListener,
    path: PathBuf,
    pub(super) clients: Vec<Client>,
}

/// One connection.
pub(super) struct Client {
    input: File,
    pub(super) output: Outlet,
    received: Vec<u8>,
    pub(super) is_attached: bool,
    is_gone: bool,
}

impl Desk {
    pub(super) fn open(path: &Path) -> sys::Result<Desk> {
        if let Some(dir) = path.parent() {
            sys::socket::private_dir(dir)?;
        }
        atomic_file::remove_optional(path)?;
        let listener = UnixListener::bind(path).map_err(failed("listen on", path))?;
        listener.set_nonblocking(true).map_err(failed("listen on", path))?;
        Ok(Desk { listener, path: path.to_owned(), clients: Vec::new() })
    }

    /// Takes new connections.
    pub(super) fn welcome(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let file = File::from(OwnedFd::from(stream));
            if self.clients.len() < CLIENTS_MAX
                && let Ok(input) = file.try_clone()
                && let Ok(output) = Outlet::new(file)
            {
                self.clients.push(Client {
                    input,
                    output,
                    received: Vec::new(),
                    is_attached: false,
                    is_gone: false,
                });
            }
        }
    }

    /// Whether somebody is attached.
    pub(super) fn is_watched(&self) -> bool {
        self.clients.iter().any(|client| client.is_attached)
    }

    /// Sends output to those who are attached.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        for client in self.clients.iter_mut().filter(|c| c.is_attached) {
            client.push(bytes);
        }
    }

    /// Lets those go who have gone.
    pub(super) fn sweep(&mut self) {
        self.clients.retain(|c| !c.is_gone);
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Client {
    /// Reads what has come and answers the requests in it.
    pub(super) fn requests(&mut self) -> Vec<Request> {
        let mut bytes = [0; 4096];
        loop {
            match self.input.read(&mut bytes) {
                Ok(0) => self.is_gone = true,
                Ok(n) => {
                    self.received.extend(&bytes[..n]);
                    continue;
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => self.is_gone = true,
            }
            break;
        }
        let mut requests = Vec::new();
        while let Some(request) = if self.is_attached { self.frame() } else { self.line() } {
            self.is_attached |= matches!(request, Request::Attach { .. });
            requests.push(request);
        }
        requests
    }

    fn line(&mut self) -> Option<Request> {
        let Some(end) = self.received.iter().position(|b| *b == b'\n') else {
            self.is_gone |= self.received.len() > REQUEST_BYTES_MAX;
            return None;
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        let request: Value = serde_json::from_slice(&line).unwrap_or_default();
        let number = |key: &str| request[key].as_u64();
        let cells = |key: &str| number(key).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
        let grace = || Duration::from_millis(number("grace_ms").unwrap_or(0));
        Some(match request["op"].as_str() {
            Some("screen") => Request::Screen,
            Some("stop") => Request::Stop { grace: grace() },
            Some("respawn") => Request::Respawn { grace: grace() },
            Some("expect_end") => Request::ExpectEnd { within: grace() },
            Some("press") => Request::Press(request["keys"].as_str().unwrap_or_default().as_bytes().to_vec()),
            Some("doing") => {
                serde_json::from_value(request["doing"].clone()).map_or(Request::Unknown, Request::Doing)
            }
            Some("attach") => Request::Attach {
                size: Size {
                    rows: cells("rows").unwrap_or(Size::DEFAULT.rows),
                    cols: cells("cols").unwrap_or(Size::DEFAULT.cols),
                },
            },
            _ => Request::Unknown,
        })
    }

    fn frame(&mut self) -> Option<Request> {
        let head: [u8; 3] = self.received.get(..3)?.try_into().ok()?;
        let len = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let body = self.received.get(3..3 + len)?.to_vec();
        self.received.drain(..3 + len);
        Some(match (head[0], body.as_slice()) {
            (FRAME_INPUT, _) => Request::Input(body),
            (FRAME_SIZE, [r1, r0, c1, c0]) => {
                let (rows, cols) = (u16::from_be_bytes([*r1, *r0]), u16::from_be_bytes([*c1, *c0]));
                Request::Resize(Size { rows: rows.max(1), cols: cols.max(1) })
            }
            _ => Request::Unknown,
        })
    }

    pub(super) fn answer(&mut self, answer: &Value) {
        self.push(format!("{answer}\n").as_bytes());
    }

    pub(super) fn refuse(&mut self, why: &str) {
        self.answer(&json!({"error": why}));
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.is_gone |= self.output.push(bytes) == Reader::Gone;
    }

    pub(super) fn flush(&mut self) {
        self.is_gone |= self.output.flush() == Reader::Gone;
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}
