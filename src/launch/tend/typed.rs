//! Keeps from the agent what was typed to start `tend`: a backend that can only type may have typed its line once more
//! just before it heard that the first had been enough. Pure.

/// Ctrl-U, which stands before the line.
const CLEAR: u8 = 0x15;
/// So many bytes of the line's beginning are held back until the next read tells whether it is the line. A person's keys
/// come one at a time, so nothing of theirs is held.
const HELD_MIN: usize = 8;

/// Takes a line out of what is typed.
#[derive(Debug)]
pub(super) struct Typed {
    line: Vec<u8>,
    held: Vec<u8>,
    /// The line was the last that came; its end may still come.
    is_after_line: bool,
}

impl Typed {
    /// `None`: nothing was typed.
    pub(super) fn new(line: Option<String>) -> Typed {
        Typed { line: line.unwrap_or_default().into_bytes(), held: Vec::new(), is_after_line: false }
    }

    /// What of these bytes is for the agent.
    pub(super) fn pass(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.line.is_empty() {
            return bytes;
        }
        let mut rest = std::mem::take(&mut self.held);
        rest.extend(bytes);
        let mut out = Vec::new();
        self.drop_line_end(&mut rest);
        while let Some(at) = rest.windows(self.line.len()).position(|w| w == self.line) {
            let before = rest[..at].strip_suffix(&[CLEAR]).unwrap_or(&rest[..at]);
            out.extend(before);
            rest.drain(..at + self.line.len());
            self.is_after_line = true;
            self.drop_line_end(&mut rest);
        }
        let begun = self.begun(&rest);
        self.held = rest.split_off(rest.len() - begun);
        out.extend(rest);
        out
    }

    fn drop_line_end(&mut self, rest: &mut Vec<u8>) {
        if self.is_after_line && !rest.is_empty() {
            self.is_after_line = false;
            if matches!(rest[0], b'\r' | b'\n') {
                rest.remove(0);
            }
        }
    }

    /// How many bytes at the end may be the beginning of the line, with what stands before it.
    fn begun(&self, rest: &[u8]) -> usize {
        let longest = rest.len().min(self.line.len() - 1);
        let of_line = (HELD_MIN..=longest).rev().find(|n| rest.ends_with(&self.line[..*n]));
        of_line.map_or(0, |n| n + usize::from(rest[..rest.len() - n].ends_with(&[CLEAR])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pieces: &[&str]) -> String {
        let mut typed = Typed::new(Some(" exec /bin/sh /r/1.line".to_owned()));
        let out: Vec<u8> = pieces.iter().flat_map(|p| typed.pass(p.as_bytes().to_vec())).collect();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_line_is_taken_out_wherever_it_is_cut() {
        let text = "ab\x15 exec /bin/sh /r/1.line\rcd\r\x15 exec /bin/sh /r/1.line\nef";
        assert_eq!(passed(&[text]), "abcd\ref");
        for at in (0..text.len()).filter(|at| {
            // Fewer bytes than these are not held back: then the line is a person's.
            [2, 30].iter().all(|start| !(start + 1..start + 1 + HELD_MIN).contains(at))
        }) {
            assert_eq!(passed(&[&text[..at], &text[at..]]), "abcd\ref", "cut at {at}");
        }
    }

    #[test]
    fn what_only_begins_like_it_comes_through_with_the_next_key() {
        let pieces = ["\x15", " exec /bin/", "true\r", "\r", " ", "exec"];
        assert_eq!(passed(&pieces), pieces.concat());
        assert_eq!(Typed::new(None).pass(b"\x15 exec /bin/sh".to_vec()), b"\x15 exec /bin/sh");
    }
}
