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

    /// The mode of a sub-agent: its definition's, else `acceptEdits`; a parent that plans binds it (F1). Rules are the
    /// parent's in any case.
    #[must_use]
    pub fn of_subagent(self, definition: Option<Mode>) -> Mode {
        if self == Mode::Plan { Mode::Plan } else { definition.unwrap_or(Mode::AcceptEdits) }
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
        assert_eq!(Mode::Plan.of_subagent(Some(Mode::BypassPermissions)), Mode::Plan);
        assert_eq!(Mode::DontAsk.of_subagent(None), Mode::AcceptEdits);
        assert_eq!(Mode::Default.of_subagent(Some(Mode::DontAsk)), Mode::DontAsk);
    }
}
