//! What Claude Code's screen says that it is doing. Only the lowest lines count: above them stands what agents said,
//! which may look like anything. Observed on 2.1.332; a screen of another version that is not recognised says nothing.

use crate::store::{Doing, Sight};

/// Dialogs that only a person can answer: a text of each, and its name.
const DIALOGS: [(&str, &str); 7] = [
    ("Accessing workspace:", "the folder trust dialog"),
    ("Detected a custom API key", "the API key dialog"),
    ("running in Bypass Permissions mode", "the bypass permissions warning"),
    ("Select login method", "the login dialog"),
    ("Choose the text style", "the first-run wizard"),
    ("Unable to connect to Anthropic services", "the first-run wizard, which finds no network"),
    ("Do you want to", "a permission dialog"),
];
/// What stands below a dialog.
const DIALOG_ENDS: [&str; 3] = ["Enter to confirm", "Esc to cancel", "Press Enter to continue"];
/// So many lowest lines belong to the frame around the input.
const FRAME_LINES: usize = 6;

/// Reads the screen.
pub fn sight(screen: &str) -> Option<Sight> {
    let lines: Vec<&str> = screen.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let frame = &lines[lines.len().saturating_sub(FRAME_LINES)..];
    let last_two = &lines[lines.len().saturating_sub(2)..];
    // The input line stands between two rules.
    let is_rule = |line: &str| line.chars().filter(|c| matches!(c, '─' | '▔')).count() >= 10;
    let input = frame.windows(3).any(|w| is_rule(w[0]) && w[1].starts_with('❯') && is_rule(w[2]));
    if input {
        let doing = if frame.iter().any(|line| line.contains("esc to interrupt")) {
            let box_above = lines[..lines.len() - frame.len().min(lines.len())].iter().rev().take(8);
            let mut boxed = box_above.chain(frame).filter(|line| line.starts_with('│'));
            if boxed.any(|line| line.contains("Waiting for team lead approval")) {
                Doing::AwaitsApproval
            } else {
                Doing::Working
            }
        } else {
            Doing::Idle
        };
        return Some(Sight::new(doing));
    }
    let is_dialog = last_two.iter().any(|line| DIALOG_ENDS.iter().any(|end| line.contains(end)));
    let wizard = lines.first().is_some_and(|line| line.starts_with("Welcome to Claude Code"));
    if !is_dialog && !wizard {
        return None;
    }
    let named = DIALOGS.iter().find(|(text, _)| lines.iter().any(|line| line.contains(text)));
    match (named, is_dialog) {
        (Some((_, name)), _) => Some(Sight::of_a_person((*name).to_owned())),
        (None, true) => {
            // It begins below a rule, with its title.
            let start = lines.iter().rposition(|line| is_rule(line)).map_or(0, |at| at + 1);
            let mut below = lines[start..].iter().map(|line| line.trim());
            let title = below.find(|line| line.chars().any(char::is_alphabetic));
            let title: String = title.unwrap_or_default().chars().take(80).collect();
            Some(Sight::of_a_person(format!("a dialog: {title}")))
        }
        (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "────────────────────────────────────";

    fn frame(above: &str, below: &str) -> String {
        format!("{above}\n\n                ◐ medium · /effort\n{RULE}── @w1 ─\n❯  \n{RULE}\n  {below}\n")
    }

    #[test]
    fn working_waiting_and_idle_are_told_from_the_frame_alone() {
        let said = "● Press esc to interrupt.\n│ Waiting for team lead approval │\n Enter to confirm · Esc to cancel";
        let idle = sight(&frame(said, "⏸ manual mode on · ? for shortcuts"));
        assert_eq!(idle, Some(Sight::new(Doing::Idle)));
        let working = sight(&frame("✢ Working… (1s)", "⏵⏵ auto mode on · esc to interrupt · ← for agents"));
        assert_eq!(working, Some(Sight::new(Doing::Working)));
        let boxed = "╭────╮\n│ ✢ Waiting for team lead approval │\n│ │\n│ Tool:    Bash │\n│ Action:  compute │\n╰────╯";
        let waiting = sight(&frame(boxed, "⏸ manual mode on · esc to interrupt"));
        assert_eq!(waiting, Some(Sight::new(Doing::AwaitsApproval)));
    }

    #[test]
    fn dialogs_are_named_and_what_is_unknown_says_nothing() {
        let dialog = |text: &str| {
            let end = "\n ❯ No, exit\n   Yes\n\n Enter to confirm · Esc to cancel";
            sight(&format!("{RULE}\n {text}{end}")).and_then(|s| s.what)
        };
        assert_eq!(dialog("Accessing workspace:\n\n /p").as_deref(), Some("the folder trust dialog"));
        let key = "Detected a custom API key in your environment";
        assert_eq!(dialog(key).as_deref(), Some("the API key dialog"));
        assert_eq!(dialog("Something new").as_deref(), Some("a dialog: Something new"));
        let below = "Claude Code v2\n● Well.\n▔▔▔▔▔▔▔▔▔▔▔▔▔▔\n  Select model\n  1. One\n\n  Enter to save · Esc to cancel";
        assert_eq!(sight(below).and_then(|s| s.what).as_deref(), Some("a dialog: Select model"));
        assert_eq!(sight("booting"), None);
        assert_eq!(sight(""), None);
        let offline = "Welcome to Claude Code v2.1.332\n\n Unable to connect to Anthropic services\n";
        let what = sight(offline).and_then(|s| s.what);
        assert_eq!(what.as_deref(), Some("the first-run wizard, which finds no network"));
    }
}
