//! Text in bounded pieces.

use std::io::{self, BufRead};

/// One line of a file, without its end; of a long one the beginning.
pub(super) struct Line {
    kept: Vec<u8>,
    bytes: u64,
}

impl Line {
    /// The next line, of which at most `keep` bytes are kept; `None` at the end.
    pub(super) fn next(from: &mut impl BufRead, keep: usize) -> io::Result<Option<Line>> {
        let mut line = Line { kept: Vec::new(), bytes: 0 };
        let mut is_any = false;
        loop {
            let piece = match from.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            if piece.is_empty() {
                return Ok(is_any.then_some(line));
            }
            is_any = true;
            let end = piece.iter().position(|b| *b == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            let room = keep.saturating_sub(line.kept.len()).min(part.len());
            line.kept.extend(&part[..room]);
            line.bytes += part.len() as u64;
            let taken = part.len() + usize::from(end.is_some());
            from.consume(taken);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }

    /// Whether not all of it is kept.
    pub(super) fn is_cut(&self) -> bool {
        self.bytes > self.kept.len() as u64
    }

    /// What is kept, as text, and how much is not. A byte order mark and the CR of a Windows line end are not shown.
    pub(super) fn shown(&self, number: usize) -> String {
        let mut kept = self.kept.as_slice();
        if number == 1 {
            kept = kept.strip_prefix(b"\xef\xbb\xbf").unwrap_or(kept);
        }
        if self.is_cut() {
            let more = self.bytes - self.kept.len() as u64;
            return format!("{} [... {more} more bytes in this line]", String::from_utf8_lossy(kept));
        }
        String::from_utf8_lossy(kept.strip_suffix(b"\r").unwrap_or(kept)).into_owned()
    }
}

/// How many lines there are; the last one needs no end.
pub(super) fn count_lines(bytes: &[u8]) -> usize {
    let ends = bytes.iter().filter(|b| **b == b'\n').count();
    ends + usize::from(bytes.last().is_some_and(|b| *b != b'\n'))
}

/// The beginning of a text, if it is longer than `bytes_max`, and how much is left out.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{}\n[... {} more bytes]", &text[..end], text.len() - end)
}
