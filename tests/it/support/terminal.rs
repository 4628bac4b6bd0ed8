//! A person at a terminal: a program on a pseudo-terminal, what it shows, and what is typed.

use super::Call;
use super::wait::{LIMIT, within};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use throng::sys::pty::{self, Pty, Size};

/// A program that runs at a terminal of its own.
pub struct Terminal {
    child: Child,
    ours: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a call at a terminal of 30 lines and 100 columns.
    pub fn start(call: Call) -> Terminal {
        let terminal = Pty::open(Size { rows: 30, cols: 100 }).unwrap();
        let mut command = call.command();
        terminal.give_to(&mut command).unwrap();
        let child = command.spawn().unwrap();
        let ours = terminal.ours;
        // Our copies of its side go with `terminal` and `command`, so that its end is seen.
        drop((terminal.theirs, command));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut from, into) = (ours.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut piece) {
                into.lock().unwrap().extend(&piece[..n]);
            }
        });
        Terminal { child, ours, seen }
    }

    /// Everything it has shown so far.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until it has shown this.
    pub fn until_shows(&self, text: &str) {
        let complaint = || format!("'{text}' was not shown, but {:?}", self.seen());
        within(LIMIT, complaint, || self.seen().contains(text).then_some(()));
    }

    /// Types.
    pub fn types(&mut self, text: &str) {
        self.ours.write_all(text.as_bytes()).unwrap();
    }

    /// Gives the terminal another size.
    pub fn resize(&self, rows: u16, cols: u16) {
        pty::resize(&self.ours, Size { rows, cols });
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let seen = Arc::clone(&self.seen);
        let complaint = || format!("it does not end: {:?}", String::from_utf8_lossy(&seen.lock().unwrap()));
        within(LIMIT, complaint, || self.child.try_wait().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
