//! Choices that a team file and the command line write as words.

/// Where members are to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// tmux inside a tmux session, iTerm2 inside one of its sessions, else plain processes.
    #[default]
    Auto,
    /// tmux or an error.
    Tmux,
    /// iTerm2 or an error.
    Iterm2,
    /// Plain processes.
    Process,
}

/// Where in tmux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Panes beside the leader.
    #[default]
    Pane,
    /// A window each.
    Window,
    /// Windows of a session of the team's own.
    Session,
}

/// When a member that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Not at all.
    #[default]
    Never,
    /// After a failure.
    OnFailure,
    /// Always, until the team ends.
    Always,
}

/// What becomes of a team that is up when its leader dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaderDeath {
    /// It goes on; `throng adopt` gives it a leader.
    #[default]
    Keep,
    /// Its members end.
    Stop,
}

/// What an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionMode {
    /// What its rules allow; it asks for the rest.
    #[default]
    Default,
    /// File edits too.
    AcceptEdits,
    /// Reading only, until its plan is approved.
    Plan,
    /// Everything.
    BypassPermissions,
    /// What it judges to be harmless itself.
    Auto,
    /// What its rules allow; the rest is denied.
    DontAsk,
}

/// A word of the file or the command line that stands for a value.
pub trait Word: Sized + Copy + 'static {
    /// All words with their values.
    const WORDS: &'static [(&'static str, Self)];

    /// The word of a value.
    fn word(self) -> &'static str
    where
        Self: PartialEq,
    {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }

    /// The value of a word.
    ///
    /// # Errors
    /// The known words.
    fn parse(word: &str) -> Result<Self, String> {
        Self::WORDS
            .iter()
            .find(|(w, _)| *w == word)
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("'{word}' is none of {}", words::<Self>().join(", ")))
    }
}

pub(super) fn words<W: Word>() -> Vec<&'static str> {
    W::WORDS.iter().map(|(word, _)| *word).collect()
}

impl Word for BackendChoice {
    const WORDS: &'static [(&'static str, BackendChoice)] = &[
        ("auto", BackendChoice::Auto),
        ("tmux", BackendChoice::Tmux),
        ("iterm2", BackendChoice::Iterm2),
        ("process", BackendChoice::Process),
    ];
}

impl Word for Placement {
    const WORDS: &'static [(&'static str, Placement)] =
        &[("pane", Placement::Pane), ("window", Placement::Window), ("session", Placement::Session)];
}

impl Word for Restart {
    const WORDS: &'static [(&'static str, Restart)] =
        &[("never", Restart::Never), ("on-failure", Restart::OnFailure), ("always", Restart::Always)];
}

impl Word for LeaderDeath {
    const WORDS: &'static [(&'static str, LeaderDeath)] =
        &[("keep", LeaderDeath::Keep), ("stop", LeaderDeath::Stop)];
}

impl Word for PermissionMode {
    const WORDS: &'static [(&'static str, PermissionMode)] = &[
        ("default", PermissionMode::Default),
        ("acceptEdits", PermissionMode::AcceptEdits),
        ("plan", PermissionMode::Plan),
        ("bypassPermissions", PermissionMode::BypassPermissions),
        ("auto", PermissionMode::Auto),
        ("dontAsk", PermissionMode::DontAsk),
    ];
}
