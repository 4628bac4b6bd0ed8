//! A program that the table of drivers describes (B12): started by its row, seen through its row's patterns.

use super::{Error, Prepared, Wanted, find, surroundings};
use crate::config::drivers::{Argument, DriverEntry, MailForm};
use crate::config::plan::{AgentOptions, MemberPlan, PermissionMode, Word};
use crate::store::{Doing, Sight};
use regex::Regex;
use std::time::Duration;

/// Further arguments of a member stand here, else at the end.
const ARGS: &str = "{args}";
/// What a member's turns print while `throng turns` runs them one by one ([`MailForm::Resume`]).
pub const TURN_BEGINS: &str = "throng: turn begins";
/// The same after a turn.
pub const TURN_ENDED: &str = "throng: waits for mail";
/// The same when something is in the way; what it is follows.
pub const TURN_STUCK: &str = "throng: stuck: ";
/// Stands in arguments for the name of the conversation.
pub const SESSION: &str = "{session}";

/// Values that stand for places in arguments.
pub type Places<'a> = [(&'a str, Option<&'a str>)];

pub(super) fn prepare(wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    let Some(entry) = &wanted.plan.entry else { return Err(Error::Unfit("no such driver".to_owned())) };
    let mut plan = wanted.plan.clone();
    plan.inherit.extend(entry.inherit_env.iter().cloned());
    let own = plan.env.clone();
    plan.env.clone_from(&entry.env);
    plan.env.extend(own);
    let (cwd, env) = surroundings(&Wanted { plan: &plan, ..*wanted })?;
    let program = find(&entry.program, &cwd, &env["PATH"]).map_err(|e| match e {
        Error::NoProgram { program, hint } => {
            let hint = format!("{hint}: install it, or name it as program of [driver.{}]", plan.driver);
            Error::NoProgram { program, hint }
        }
        e => e,
    })?;
    let (program, argv) = match entry.mail {
        MailForm::Type => (program, argv(entry, &entry.args, (&plan.agent, &[]))),
        // The program runs below our own, turn by turn.
        MailForm::Resume => {
            (wanted.environment.program.clone(), vec!["throng".to_owned(), "turns".to_owned()])
        }
    };
    Ok(Prepared { program, argv, env, cwd, session: None })
}

/// The row that a member's launch file keeps: with the member's options in the arguments of its turns.
pub fn row_of(plan: &MemberPlan) -> Option<DriverEntry> {
    let entry = plan.entry.as_ref()?;
    if entry.mail == MailForm::Type {
        return Some(entry.clone());
    }
    let later = [("{prompt}", Some("{prompt}")), (SESSION, Some(SESSION))];
    let filled = |args: &[Argument]| -> Vec<Argument> {
        let mut filled = Vec::new();
        let one_by_one = args.iter().filter(|group| group.words() != [ARGS]);
        for group in one_by_one {
            // Without the program, which stands first, and the member's further arguments, which stand last.
            let plain = AgentOptions { args: Vec::new(), ..plan.agent.clone() };
            let words = argv(entry, std::slice::from_ref(group), (&plain, &later)).split_off(1);
            filled.push(Argument::Several(words));
        }
        let at = args.iter().position(|group| group.words() == [ARGS]).unwrap_or(filled.len());
        filled.insert(at.min(filled.len()), Argument::Several(plan.agent.args.clone()));
        filled
    };
    Some(DriverEntry { args: filled(&entry.args), resume: filled(&entry.resume), ..entry.clone() })
}

/// The program's name and these arguments, filled in; what belongs to a missing value is left out.
pub fn argv(
    entry: &DriverEntry,
    args: &[Argument],
    (options, places): (&AgentOptions, &Places<'_>),
) -> Vec<String> {
    let mode = options.permission_mode;
    let mut values: Vec<(&str, Option<&str>)> = vec![
        ("{model}", options.model.as_deref()),
        ("{agent}", options.agent.as_deref()),
        ("{effort}", options.effort.as_deref()),
        ("{permission_mode}", (mode != PermissionMode::Default).then(|| mode.word())),
    ];
    values.extend_from_slice(places);
    let mut argv = vec![entry.program.clone()];
    let mut has_args = false;
    for group in args {
        if group.words() == [ARGS] {
            has_args = true;
            argv.extend(options.args.iter().cloned());
            continue;
        }
        let filled: Option<Vec<String>> = group.words().iter().map(|word| fill(word, &values)).collect();
        argv.extend(filled.into_iter().flatten());
    }
    if !has_args {
        argv.extend(options.args.iter().cloned());
    }
    argv
}

/// A word with its places filled in, or `None` if a value is missing. What was filled in is not looked at again.
fn fill(word: &str, values: &Places<'_>) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => {
                out.push_str((*value)?);
                rest = &rest[place.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    Some(out)
}

/// Reads a program's state off its screen.
#[derive(Debug)]
pub struct Eyes {
    lines: usize,
    runs_turns: bool,
    idle: Vec<Regex>,
    working: Vec<Regex>,
    failed: Vec<Regex>,
    dialogs: Vec<(Regex, String, Option<String>)>,
    quiet: Option<Duration>,
    paste_marker: Option<Regex>,
}

impl Eyes {
    /// For a row, whose patterns were checked when it was read.
    pub fn of(entry: &DriverEntry) -> Eyes {
        let all =
            |texts: &[String]| texts.iter().filter_map(|text| Regex::new(text).ok()).collect::<Vec<_>>();
        let (idle, working) = match entry.mail {
            MailForm::Type => (all(&entry.idle), all(&entry.working)),
            MailForm::Resume => {
                let exactly = Regex::new(&format!("^{}$", regex::escape(TURN_ENDED)));
                (exactly.into_iter().collect(), Vec::new())
            }
        };
        Eyes {
            // The line of ours is the last one while it waits; whatever stands there else is a turn's.
            lines: if entry.mail == MailForm::Resume { 1 } else { entry.lines },
            runs_turns: entry.mail == MailForm::Resume,
            idle,
            working,
            failed: all(&entry.failed),
            dialogs: entry
                .dialogs
                .iter()
                .filter_map(|d| Some((Regex::new(&d.text).ok()?, d.name.clone(), d.answer.clone())))
                .collect(),
            quiet: entry.quiet_ms.map(Duration::from_millis),
            paste_marker: entry.paste_marker.as_deref().and_then(|text| Regex::new(text).ok()),
        }
    }

    /// After what time without output silence says something.
    pub fn quiet(&self) -> Option<Duration> {
        self.quiet
    }

    /// The lowest lines, without empty ones.
    pub fn lowest<'a>(&self, screen: &'a str) -> Vec<&'a str> {
        let lines: Vec<&str> = screen.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(self.lines)..].to_vec()
    }

    /// What it is doing, having printed nothing for `quiet_for`; `None` for a screen that says nothing.
    pub fn sight(&self, screen: &str, quiet_for: Duration) -> Option<Sight> {
        if self.runs_turns
            && let Some(why) = stuck(screen)
        {
            return Some(Sight::of_a_person(why));
        }
        let lowest = self.lowest(screen);
        let shows = |patterns: &[Regex]| patterns.iter().any(|p| lowest.iter().any(|line| p.is_match(line)));
        if let Some((_, name, _)) = self.dialog(&lowest) {
            return Some(Sight::of_a_person(name.clone()));
        }
        if shows(&self.working) {
            return Some(Sight::new(Doing::Working));
        }
        if shows(&self.idle) {
            return Some(Sight::new(Doing::Idle));
        }
        if self.runs_turns && !lowest.is_empty() {
            return Some(Sight::new(Doing::Working));
        }
        let quiet = self.quiet?;
        match quiet_for >= quiet {
            true => Some(Sight::new(Doing::Idle)),
            // Where nothing else tells of idleness, output is work.
            false => self.idle.is_empty().then(|| Sight::new(Doing::Working)),
        }
    }

    fn dialog(&self, lowest: &[&str]) -> Option<&(Regex, String, Option<String>)> {
        self.dialogs.iter().find(|(text, ..)| lowest.iter().any(|line| text.is_match(line)))
    }

    /// The lowest row that tells that it is idle.
    pub fn idle_row(&self, screen: &str) -> Option<usize> {
        let rows = screen
            .lines()
            .enumerate()
            .filter(|(_, line)| self.idle.iter().any(|p| p.is_match(line.trim_end())));
        rows.map(|(row, _)| row).last()
    }

    /// Keys that answer the dialog on this screen without a person.
    pub fn answer(&self, screen: &str) -> Option<&str> {
        self.dialog(&self.lowest(screen))?.2.as_deref()
    }

    /// The line that says that the turn failed, if there is one.
    pub fn failure(&self, said: &str) -> Option<String> {
        let mut lines = said.lines().rev();
        lines.find(|line| self.failed.iter().any(|p| p.is_match(line))).map(|line| line.trim().to_owned())
    }

    /// Whether the lowest lines show what stands for a long paste.
    pub fn shows_paste(&self, screen: &str) -> bool {
        let shows = |marker: &Regex| self.lowest(screen).iter().any(|line| marker.is_match(line));
        self.paste_marker.as_ref().is_some_and(shows)
    }
}

/// Why turns cannot go on, if that is the last thing that was said.
fn stuck(screen: &str) -> Option<String> {
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let at = lines.iter().rposition(|line| line.starts_with("throng: "))?;
    // Long lines go on in the next row.
    lines[at..].concat().strip_prefix(TURN_STUCK).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Drivers;

    fn entry(toml: &str) -> DriverEntry {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn arguments_are_filled_in_once_and_left_out_with_their_value() {
        let row = entry(
            "program = \"p\"\nargs = [[\"--model\", \"{model}\"], \"{args}\", \"-x\", [\"--say={prompt}\"], \"{\"]",
        );
        let mut options = AgentOptions { args: vec!["{prompt}".into()], ..AgentOptions::default() };
        let args = |options: &AgentOptions, prompt| argv(&row, &row.args, (options, &[("{prompt}", prompt)]));
        assert_eq!(args(&options, None), ["p", "{prompt}", "-x", "{"]);
        options.model = Some("{prompt}".into());
        assert_eq!(
            args(&options, Some("a {model}")),
            ["p", "--model", "{prompt}", "{prompt}", "-x", "--say=a {model}", "{"]
        );
    }

    #[test]
    fn dialogs_count_more_than_work_and_work_more_than_idleness() {
        let row = entry(
            "program = \"p\"\nlines = 3\nidle = [\"^>\"]\nworking = [\"esc\"]\nquiet_ms = 5\ndialogs = [{ text = \"trust\", name = \"the dialog\" }]",
        );
        let eyes = Eyes::of(&row);
        let doing = |screen: &str, quiet| eyes.sight(screen, Duration::from_millis(quiet)).map(|s| s.doing);
        assert_eq!(doing("trust\n\n> \nesc", 0), Some(Doing::NeedsHuman));
        assert_eq!(doing("trust\n1\n> \nesc", 0), Some(Doing::Working), "only the lowest lines count");
        assert_eq!(doing("> \n\n\n", 0), Some(Doing::Idle));
        assert_eq!(doing("what", 4), None);
        assert_eq!(doing("what", 5), Some(Doing::Idle));
    }

    #[test]
    fn the_built_in_rows_are_whole() {
        let drivers = Drivers::built_in().unwrap();
        assert!(drivers.rows().count() >= 4);
        for (name, _, row) in drivers.rows() {
            assert!(!row.about.is_empty() && !row.version.is_empty(), "{name}");
        }
    }
}
