//! Permission modes: what is done with a call that no rule speaks of.

use std::fmt;

/// A permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Reading inside the working directories is allowed; all else is asked.
    #[default]
    Default,
    /// Also changing files inside the working directories.
    AcceptEdits,
    /// Reading only, until the plan is approved.
    Plan,
    /// All that no rule denies or asks for.
    BypassPermissions,
    /// What would be asked is denied.
    DontAsk,
    /// As `Default`: of a fork, whose questions go to its parent.
    Bubble,
}

impl Mode {
    /// All, as settings and flags write them.
    pub const WORDS: [(&'static str, Mode); 6] = [
        ("default", Mode::Default),
        ("acceptEdits", Mode::AcceptEdits),
        ("plan", Mode::Plan),
        ("bypassPermissions", Mode::BypassPermissions),
        ("dontAsk", Mode::DontAsk),
        ("bubble", Mode::Bubble),
    ];

    /// The mode of a word; `manual` is another word for `default`.
    pub fn parse(word: &str) -> Option<Mode> {
        let word = if word == "manual" { "default" } else { word };
        Mode::WORDS.iter().find(|(known, _)| *known == word).map(|(_, mode)| *mode)
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        Mode::WORDS.iter().find(|(_, mode)| *mode == self).map_or("default", |(word, _)| word)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_word() {
        for (word, mode) in Mode::WORDS {
            assert_eq!((Mode::parse(word), mode.word()), (Some(mode), word));
        }
        assert_eq!(Mode::parse("manual"), Some(Mode::Default));
        assert_eq!(Mode::parse("Plan"), None);
    }
}
