//! Server-sent events (WHATWG HTML, 9.2): bytes come in, cut anywhere; the data of whole events comes out. What kind of event
//! it is stands in the data of the Messages API, so names, ids and retry times are passed over.

use memchr::memchr2;

/// Longest event in bytes. No answer's event comes near it; what does is no event.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// 16 MB without the end of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {} MB", EVENT_BYTES_MAX / 1024 / 1024)]
pub struct TooLong;

/// What has come so far of the event on its way.
#[derive(Debug, Default)]
pub struct Parser {
    /// A line whose end has not come.
    line: Vec<u8>,
    /// The data of the event, each line with a line feed after it.
    data: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it is of the same line end.
    after_return: bool,
    has_begun: bool,
}

impl Parser {
    /// Takes the next bytes, and gives the data of each event that they complete.
    ///
    /// # Errors
    /// [`TooLong`]: nothing can be made of the rest of the stream.
    pub fn push(&mut self, mut bytes: &[u8], mut event: impl FnMut(&[u8])) -> Result<(), TooLong> {
        if std::mem::take(&mut self.after_return) && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        }
        while let Some(at) = memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(at);
            // A line that came in one piece is not copied.
            if self.line.is_empty() {
                self.end_line(line, &mut event);
            } else {
                self.line.extend_from_slice(line);
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, &mut event);
            }
            let is_pair = rest.starts_with(b"\r\n");
            self.after_return = rest == b"\r";
            bytes = &rest[if is_pair { 2 } else { 1 }..];
            if self.data.len() > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > EVENT_BYTES_MAX { Err(TooLong) } else { Ok(()) }
    }

    /// The stream has ended: an event whose blank line is missing counts all the same.
    pub fn finish(mut self, mut event: impl FnMut(&[u8])) {
        let line = std::mem::take(&mut self.line);
        self.end_line(&line, &mut event);
        self.end_line(b"", &mut event);
    }

    fn end_line(&mut self, mut line: &[u8], event: &mut impl FnMut(&[u8])) {
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            if let Some((_, data)) = self.data.split_last() {
                event(data);
                self.data.clear();
            }
        } else if let Some(value) = line.strip_prefix(b"data") {
            // Fields whose names only begin so are others.
            let value = match value {
                [] => value,
                [b':', b' ', value @ ..] | [b':', value @ ..] => value,
                _ => return,
            };
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut found = Vec::new();
        let mut parser = Parser::default();
        let mut take = |data: &[u8]| found.push(String::from_utf8(data.to_vec()).unwrap());
        for piece in pieces {
            parser.push(piece, &mut take).unwrap();
        }
        parser.finish(&mut take);
        found
    }

    #[test]
    fn case_c073_framing_is_the_same_wherever_it_is_cut() {
        let stream = "\u{feff}data: a\r\n\r\n: comment\ndata:b\ndata: c\u{2028}\rdata\r\revent: x\ndatabase: no\n\nid: 1\ndata:  d 日\n\ndata: last";
        let expected = ["a", "b\nc\u{2028}\n", " d 日", "last"];
        assert_eq!(events([stream.as_bytes()]), expected);
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            assert_eq!(events([head, tail]), expected, "cut at {cut}");
        }
        assert_eq!(events(stream.as_bytes().chunks(1)), expected);
    }

    #[test]
    fn an_endless_event_is_given_up() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; EVENT_BYTES_MAX / 2 + 1];
        assert_eq!(parser.push(&piece, |_| {}), Ok(()));
        assert_eq!(parser.push(&piece, |_| {}), Err(TooLong));
    }
}
