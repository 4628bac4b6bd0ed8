//! Judging one file that is read or changed.

use super::judge::Judge;
use super::mode::Mode;
use super::paths::{is_inside, plain, protected_part};
use super::rule::Rule;
use super::rules::Act;
use super::verdict::{Decision, Part};
use std::path::Path;

impl Judge<'_> {
    /// A file that a tool works on, as it was given: its links are looked up in what the caller followed.
    pub(super) fn file(&self, act: Act, tool: &str, given: &Path) -> Part {
        let verb = if act == Act::Edit { "change" } else { "read" };
        let read = plain(given);
        let what = format!("{verb} {}", read.display());
        let real = self.request.paths.real(given);
        if let Some((decision, rule)) = self.file_no(act, tool, given) {
            return Part::by_rule(what, decision, rule);
        }
        let Some(real) = real else {
            return Part::ask(what, "where it leads to is not known");
        };
        let leads = if real == read { String::new() } else { format!(" (it leads to {})", real.display()) };
        if act == Act::Edit {
            if self.mode == Mode::Plan {
                return self.planned(what, (&read, real));
            }
            let protected = protected_part(real).or_else(|| protected_part(&read));
            if let Some(part) = protected.filter(|_| self.mode != Mode::BypassPermissions) {
                return Part::ask(what, format!("{part} is protected: programs obey what is in it{leads}"));
            }
        }
        let allow = |path: &Path| self.rules.of_path(Decision::Allow, (act, tool), path);
        if let (Some(rule), Some(_)) = (allow(&read), allow(real)) {
            return Part::by_rule(what, Decision::Allow, rule);
        }
        if let Some(rule) = self.whole {
            return Part::by_rule(what, Decision::Allow, rule);
        }
        let inside = is_inside(&self.rules.directories(), &read, real);
        match (act, self.mode) {
            (Act::Read, _) if inside => Part::allow(what, "it lies in the working directories"),
            (Act::Edit, Mode::AcceptEdits) if inside => {
                Part::allow(what, "mode acceptEdits, and it lies in the working directories")
            }
            (_, Mode::BypassPermissions) => Part::allow(what, "mode bypassPermissions"),
            _ if !inside => Part::ask(what, format!("it lies outside of the working directories{leads}")),
            _ => Part::ask(what, "no rule allows to change it"),
        }
    }

    /// The rule that denies or asks for a file, as it was given or where it leads to.
    pub(super) fn file_no(&self, act: Act, tool: &str, given: &Path) -> Option<(Decision, &Rule)> {
        let (read, real) = (plain(given), self.request.paths.real(given));
        [Decision::Deny, Decision::Ask].into_iter().find_map(|decision| {
            let of = |path: &Path| self.rules.of_path(decision, (act, tool), path);
            of(&read).or_else(|| real.and_then(of)).map(|rule| (decision, rule))
        })
    }

    /// A change while planning.
    fn planned(&self, what: String, paths: (&Path, &Path)) -> Part {
        match &self.rules.place.plan_file {
            Some(plan) if plan == paths.0 && paths.1.file_name() == plan.file_name() => {
                Part::allow(what, "it is the plan")
            }
            Some(plan) => {
                Part::deny(what, format!("mode plan: nothing but the plan {} is written", plan.display()))
            }
            None => Part::deny(what, "mode plan: nothing is changed before the plan is approved"),
        }
    }
}
