//! What the agent printed: as a bounded log of bytes, and as the present picture of its terminal.

use super::answers::Answers;
use crate::sys::pty::Size;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Size at which a log is put aside as `.1` and begun anew.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Log and picture of one agent's output.
pub(super) struct Screen {
    picture: vt100::Parser<Answers>,
    log: Option<File>,
    log_bytes: u64,
    log_path: PathBuf,
}

impl Screen {
    pub(super) fn new(log: &Path, size: Size) -> Screen {
        let mut screen = Screen {
            picture: vt100::Parser::new_with_callbacks(
                cells(size.rows),
                cells(size.cols),
                0,
                Answers::default(),
            ),
            log: None,
            log_bytes: fs::metadata(log).map_or(0, |m| m.len()),
            log_path: log.to_owned(),
        };
        screen.open_log();
        screen
    }

    fn open_log(&mut self) {
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.log_path);
        if let Err(e) = &opened {
            tracing::error!(path = %self.log_path.display(), error = %e, "no log");
        }
        self.log = opened.ok();
    }

    /// Takes a piece of output: as it was printed, and as a terminal shows it.
    pub(super) fn feed(&mut self, bytes: &[u8], shown: &[u8]) {
        self.picture.process(shown);
        if self.log_bytes >= LOG_BYTES_MAX {
            let _ = fs::rename(&self.log_path, self.log_path.with_extension("log.1"));
            self.log_bytes = 0;
            self.open_log();
        }
        // A full disk must not stop the agent.
        if let Some(log) = &mut self.log
            && log.write_all(bytes).is_ok()
        {
            self.log_bytes += bytes.len() as u64;
        }
    }

    /// What a terminal would have answered to what was printed since.
    pub(super) fn answers(&mut self) -> String {
        self.picture.callbacks_mut().take()
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.picture.screen_mut().set_size(cells(size.rows), cells(size.cols));
    }

    /// The picture as plain text, without empty lines at its end.
    pub(super) fn text(&self) -> String {
        let text = self.picture.screen().contents();
        format!("{}\n", text.trim_end())
    }

    /// The picture row by row: where a long line is wrapped, its pieces stand on rows of their own.
    pub(super) fn rows(&self) -> String {
        let screen = self.picture.screen();
        let rows: Vec<String> = screen.rows(0, screen.size().1.get()).collect();
        rows.join("\n")
    }

    /// Row of the cursor, from 0.
    pub(super) fn cursor_row(&self) -> usize {
        usize::from(self.picture.screen().cursor_position().0)
    }

    /// Whether the program has asked for pastes to be marked as such.
    pub(super) fn wants_bracketed_paste(&self) -> bool {
        self.picture.screen().bracketed_paste()
    }

    /// The bytes that draw the picture on a cleared terminal.
    pub(super) fn drawing(&self) -> Vec<u8> {
        let mut bytes = b"\x1b[2J\x1b[H".to_vec();
        bytes.extend(self.picture.screen().state_formatted().bytes());
        bytes
    }
}

/// A terminal has at least one line and one column.
fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap_or(NonZero::<u16>::MIN)
}
