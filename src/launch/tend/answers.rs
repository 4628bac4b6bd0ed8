//! What a terminal answers when a program asks it something. An agent whose place has no terminal gets these from us, so
//! that a program that waits for an answer goes on. The picture knows what is asked and where the cursor stands then.
//! Sources: ECMA-48; DEC VT510 reference, "Device Attributes" and "Reports"; xterm control sequences.

use std::fmt::Write;

/// Answers that wait to be typed.
#[derive(Debug, Default)]
pub(super) struct Answers {
    text: String,
}

impl Answers {
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn add(&mut self, answer: std::fmt::Arguments<'_>) {
        // Writing to a text cannot fail.
        let _ = self.text.write_fmt(answer);
    }
}

impl vt100::Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        params: &[&[u16]],
        end: char,
    ) {
        let number = params.first().and_then(|p| p.first()).copied().unwrap_or(0);
        let (row, column) = screen.cursor_position();
        let (row, column) = (row + 1, column + 1);
        match (first, second, end, number) {
            // Primary and secondary device attributes: a VT220 with colours.
            (None, None, 'c', 0) => self.add(format_args!("\x1b[?62;22c")),
            (Some(b'>'), None, 'c', 0) => self.add(format_args!("\x1b[>0;10;1c")),
            (None, None, 'n', 5) => self.add(format_args!("\x1b[0n")),
            (None, None, 'n', 6) => self.add(format_args!("\x1b[{row};{column}R")),
            (Some(b'?'), None, 'n', 6) => self.add(format_args!("\x1b[?{row};{column}R")),
            // The terminal's name and version.
            (Some(b'>'), None, 'q', 0) => {
                self.add(format_args!("\x1bP>|throng({})\x1b\\", env!("CARGO_PKG_VERSION")));
            }
            // The keyboard protocol of kitty: no flags.
            (Some(b'?'), None, 'u', _) => self.add(format_args!("\x1b[?0u")),
            // Whether a mode is set: not known here.
            (Some(b'?'), Some(b'$'), 'p', mode) => self.add(format_args!("\x1b[?{mode};0$y")),
            (Some(b'$'), None, 'p', mode) => self.add(format_args!("\x1b[{mode};0$y")),
            (None, None, 't', 18) => {
                let (rows, columns) = screen.size();
                self.add(format_args!("\x1b[8;{rows};{columns}t"));
            }
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        // Text white, ground black, cursor white.
        let color = match params {
            [b"10" | b"12", b"?"] => "ffff/ffff/ffff",
            [b"11", b"?"] => "0000/0000/0000",
            _ => return,
        };
        let what = String::from_utf8_lossy(params[0]);
        self.add(format_args!("\x1b]{what};rgb:{color}\x1b\\"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZero;

    fn asked(text: &str) -> String {
        let size = |n| NonZero::new(n).unwrap();
        let mut picture = vt100::Parser::new_with_callbacks(size(24), size(80), 0, Answers::default());
        picture.process(text.as_bytes());
        picture.callbacks_mut().take()
    }

    #[test]
    fn each_question_has_its_answer_at_its_moment() {
        assert_eq!(asked("ab\r\ncd\x1b[6n\x1b[5;7H\x1b[6n"), "\x1b[2;3R\x1b[5;7R");
        assert_eq!(asked("\x1b[c\x1b[0c\x1b[>c"), "\x1b[?62;22c\x1b[?62;22c\x1b[>0;10;1c");
        assert_eq!(asked("\x1b[5n\x1b[?u\x1b[18t"), "\x1b[0n\x1b[?0u\x1b[8;24;80t");
        assert_eq!(asked("\x1b[?2026$p\x1b[4$p"), "\x1b[?2026;0$y\x1b[4;0$y");
        assert_eq!(asked("\x1b]11;?\x1b\\"), "\x1b]11;rgb:0000/0000/0000\x1b\\");
        assert!(asked("\x1b[>0q").starts_with("\x1bP>|throng("));
        assert_eq!(asked("text \x1b[31mred\x1b[0m \x1b]2;title\x07\x1b[2J\x1b[?25l"), "");
    }
}
