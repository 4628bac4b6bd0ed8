//! All rules of a session, of whatever files, and the places that they speak of.

use super::mode::Mode;
use super::paths::plain;
use super::pattern::{self, Reach};
use super::rule::{EDITORS, READERS, Read, Rule, RuleError, Source, parameter};
use super::verdict::Decision;
use crate::config::Settings;
use crate::config::settings::{Dir, Layer, SettingsFile};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where a session works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Where it started. Relative path rules begin here, wherever a shell has gone since.
    pub start: Dir,
    /// The user's home.
    pub home: Dir,
    /// Further directories that it may work in.
    pub more: Vec<Dir>,
    /// The one file that may be written while planning.
    pub plan_file: Option<PathBuf>,
}

/// The rules of a session.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// All of them.
    pub all: Vec<Rule>,
    /// Where it works.
    pub place: Place,
    /// The mode in which it begins, by its settings.
    pub default_mode: Mode,
    /// The file that forbids the mode `bypassPermissions`.
    pub bypass_disabled_by: Option<Source>,
    /// What was left out, and why: rules that allow nothing, settings without effect.
    pub notes: Vec<String>,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Read,
    Edit,
}

impl Rules {
    /// The rules of the settings files.
    ///
    /// # Errors
    /// A rule or a mode that is none: file, key and text are named.
    pub fn new(settings: &Settings) -> Result<Rules, RuleError> {
        let place = Place { start: settings.start.clone(), home: settings.home.clone(), ..Place::default() };
        let mut rules = Rules { place, ..Rules::default() };
        let managed_only = settings
            .files
            .iter()
            .find(|f| f.layer == Layer::Managed && f.permissions.allows_managed_rules_only);
        let mut mode = None;
        for file in &settings.files {
            let source =
                Source { layer: file.layer, file: Some(file.path.clone()), anchor: file.anchor.clone() };
            let permissions = &file.permissions;
            let sorts = [
                (Decision::Deny, &permissions.deny),
                (Decision::Ask, &permissions.ask),
                (Decision::Allow, &permissions.allow),
            ];
            for (decision, texts) in sorts {
                let is_left_out = decision == Decision::Allow && file.layer != Layer::Managed;
                if let Some(by) = managed_only.filter(|_| is_left_out && !texts.is_empty()) {
                    let by = by.path.display();
                    rules.notes.push(format!(
                        "{source}: permissions.allow: left out, since {by} lets no others allow"
                    ));
                    continue;
                }
                for text in texts {
                    rules.add(decision, text, &source)?;
                }
            }
            rules.place.more.extend(permissions.additional_directories.iter().cloned());
            if permissions.disables_bypass && rules.bypass_disabled_by.is_none() {
                rules.bypass_disabled_by = Some(source.clone());
            }
            mode = mode.or(rules.read_mode(file, &source)?);
        }
        rules.default_mode = rules.effective(mode.unwrap_or_default());
        Ok(rules)
    }

    /// Adds one rule.
    ///
    /// # Errors
    /// It is none.
    pub fn add(&mut self, decision: Decision, text: &str, source: &Source) -> Result<(), RuleError> {
        let field = format!("permissions.{decision}");
        match Rule::read(decision, text, source) {
            Ok(Read::Rule(rule)) => self.all.push(rule),
            Ok(Read::Void(why)) => {
                self.notes.push(format!("{source}: {field}: {text:?} allows nothing: {why}"));
            }
            Err(problem) => {
                return Err(RuleError {
                    source_name: source.to_string(),
                    field,
                    text: text.to_owned(),
                    problem,
                });
            }
        }
        Ok(())
    }

    /// Allows tools to work on a path and all below it: one of the team's allowed paths (F2), a scratchpad.
    ///
    /// # Errors
    /// A tool's name is none.
    pub fn allow_path(&mut self, path: &Path, tools: &[&str], layer: Layer) -> Result<(), RuleError> {
        let source = Source { layer, file: None, anchor: self.place.start.clone() };
        for tool in tools {
            self.add(
                Decision::Allow,
                &format!("{tool}(/{})", pattern::escaped(&path.to_string_lossy())),
                &source,
            )?;
        }
        Ok(())
    }

    /// The rule that denies to read a file, as it is named or where it leads to: for what a search finds on its way, since
    /// only the place where it begins is judged.
    pub fn denies_reading(&self, given: &Path, real: &Path) -> Option<&Rule> {
        let of = |path: &Path| self.of_path(Decision::Deny, (Act::Read, "Read"), &plain(path));
        of(given).or_else(|| of(real))
    }

    fn read_mode(&mut self, file: &SettingsFile, source: &Source) -> Result<Option<Mode>, RuleError> {
        let Some(word) = &file.permissions.default_mode else { return Ok(None) };
        let field = "permissions.defaultMode";
        let mode = Mode::parse(word).filter(|mode| *mode != Mode::Bubble);
        match mode {
            // Modes of the original that we have not: the next stricter one is taken.
            None if matches!(word.as_str(), "auto" | "delegate") => {
                self.notes.push(format!("{source}: {field}: throng has no mode '{word}': default instead"));
                Ok(Some(Mode::Default))
            }
            None => Err(RuleError {
                source_name: source.to_string(),
                field: field.to_owned(),
                text: word.clone(),
                problem: "unknown: write default, acceptEdits, plan, dontAsk or bypassPermissions".to_owned(),
            }),
            // A repository that one looks into must not switch the questions off.
            Some(Mode::BypassPermissions) if matches!(file.layer, Layer::Project | Layer::Local) => {
                self.notes.push(format!(
                    "{source}: {field}: {word} does not count from here: say it in your own settings"
                ));
                Ok(None)
            }
            mode => Ok(mode),
        }
    }

    /// The mode that a wanted one comes to: `bypassPermissions` may be forbidden.
    pub fn effective(&self, mode: Mode) -> Mode {
        let is_forbidden = mode == Mode::BypassPermissions && self.bypass_disabled_by.is_some();
        if is_forbidden { Mode::Default } else { mode }
    }

    /// Every directory that may be worked in.
    pub(super) fn directories(&self) -> Vec<Dir> {
        std::iter::once(&self.place.start).chain(&self.place.more).cloned().collect()
    }

    /// Rules of one kind.
    pub(super) fn of(&self, decision: Decision) -> impl Iterator<Item = &Rule> {
        self.all.iter().filter(move |rule| rule.decision == decision)
    }

    /// The first rule that is for every use of a tool, or for this input by one of its parameters.
    pub(super) fn of_tool(&self, decision: Decision, tool: &str, input: &Value) -> Option<&Rule> {
        self.of(decision).find(|rule| {
            rule.is_of_tool(tool)
                && rule
                    .specifier
                    .as_deref()
                    .is_none_or(|s| decision != Decision::Allow && has_parameter(input, s))
        })
    }

    /// The first rule that speaks of a path.
    pub(super) fn of_path(&self, decision: Decision, (act, tool): (Act, &str), path: &Path) -> Option<&Rule> {
        self.of(decision).find(|rule| rule.covers(act, tool) && rule.fits_path(path, &self.place))
    }
}

/// Whether the input has the parameter of a rule, with its value.
fn has_parameter(input: &Value, specifier: &str) -> bool {
    let Some((name, wanted)) = parameter(specifier) else { return false };
    match input.get(name) {
        Some(Value::String(value)) => pattern::stars(wanted, value),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => pattern::stars(wanted, &value.to_string()),
        _ => false,
    }
}

impl Rule {
    /// Whether it names the tool. `Task` is another name of `Agent`; `mcp__server` is every tool of that server.
    pub(super) fn is_of_tool(&self, tool: &str) -> bool {
        let canonical = |name: &str| if name == "Task" { "Agent".to_owned() } else { name.to_owned() };
        let (own, tool) = (canonical(&self.tool), canonical(tool));
        // A server's name may have two underscores: for a no, what begins so is meant too.
        let is_one_tool = self.decision == Decision::Allow && own.matches("__").count() > 1;
        let is_server = own.starts_with("mcp__") && !is_one_tool;
        let of_server = is_server && tool.strip_prefix(&own).is_some_and(|rest| rest.starts_with("__"));
        own == tool || of_server || (own.contains('*') && pattern::stars(&own, &tool))
    }

    /// Whether it speaks of such an act by such a tool. A no covers more than a yes: whatever tool for changing files it
    /// names, none may; what must not be read must not be changed either; and a yes to change is one to read.
    fn covers(&self, act: Act, tool: &str) -> bool {
        let own = self.tool.as_str();
        let is_path = self.specifier.is_some();
        let is_no = self.decision != Decision::Allow;
        match act {
            _ if self.is_of_tool(tool) => true,
            Act::Edit => {
                self.is_of_tool("Edit")
                    || (is_no && is_path && EDITORS.contains(&own))
                    || (self.decision == Decision::Deny && is_path && own == "Read")
            }
            Act::Read => {
                self.is_of_tool("Read")
                    || (is_path && ((is_no && READERS.contains(&own)) || (!is_no && own == "Edit")))
            }
        }
    }

    /// Whether a path is one that it names.
    fn fits_path(&self, path: &Path, place: &Place) -> bool {
        let Some(specifier) = &self.specifier else { return true };
        let reach = if self.decision == Decision::Allow { Reach::Narrow } else { Reach::Wide };
        let (bases, pattern) = self.bases(specifier, place);
        bases.iter().any(|base| {
            let below = path.strip_prefix(base);
            below.is_ok_and(|below| pattern::path_below(&pattern, below, reach))
        })
    }

    /// Where its path begins, and the pattern from there. A pattern that is anchored begins with a slash.
    pub(super) fn bases(&self, specifier: &str, place: &Place) -> (Vec<PathBuf>, String) {
        let specifier = specifier.trim();
        let of = |dir: &Dir| vec![dir.given.clone(), dir.real.clone()];
        if let Some(rest) = specifier.strip_prefix("//") {
            return (vec![PathBuf::from("/")], format!("/{rest}"));
        }
        if specifier == "~" || specifier.starts_with("~/") {
            return (of(&place.home), format!("/{}", specifier.trim_start_matches(['~', '/'])));
        }
        if specifier.starts_with('/') {
            return (of(&self.source.anchor), specifier.to_owned());
        }
        match specifier.strip_prefix("./") {
            // For a no a bare name is meant at any depth, as the original has it (measured on 2.1.332).
            Some(rest) if self.decision != Decision::Allow => (of(&place.start), rest.to_owned()),
            Some(rest) => (of(&place.start), format!("/{rest}")),
            None => (of(&place.start), specifier.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::rule::tests::source;
    use crate::permission::{Paths, Request, judge, paths};
    use serde_json::json;

    fn rules(all: &[(Decision, &str)]) -> Rules {
        let dir = |path: &str| Dir { given: path.into(), real: path.into() };
        let place = Place { start: dir("/p"), home: dir("/h"), ..Place::default() };
        let mut rules = Rules { place, ..Rules::default() };
        all.iter().for_each(|(decision, text)| rules.add(*decision, text, &source()).unwrap());
        rules
    }

    fn decided(rules: &Rules, mode: Mode, (tool, input): (&str, &Value)) -> Decision {
        let cwd = Path::new("/p");
        let paths = Paths::follow(paths(rules, (tool, input), cwd), Path::to_owned);
        judge(rules, mode, &Request { tool, input, cwd, paths: &paths }).decision
    }

    #[test]
    fn goal_f2_an_allowed_path_of_the_team_is_a_rule_like_others() {
        let mut rules = rules(&[(Decision::Deny, "Edit(//shared/[x]/secret)")]);
        let edit =
            |rules: &Rules, path: &str| decided(rules, Mode::Default, ("Edit", &json!({"file_path": path})));
        assert_eq!(edit(&rules, "/shared/[x]/a"), Decision::Ask);
        rules.allow_path(Path::new("/shared/[x]"), &["Edit", "Write"], Layer::Team).unwrap();
        assert_eq!(edit(&rules, "/shared/[x]/a"), Decision::Allow);
        assert_eq!(edit(&rules, "/shared/x/a"), Decision::Ask, "what looks like a pattern is the name");
        assert_eq!(edit(&rules, "/shared/[x]/../../etc/a"), Decision::Ask);
        assert_eq!(edit(&rules, "/shared/x/secret"), Decision::Deny);
        let redirected = json!({"command": "echo a > '/shared/[x]/b'"});
        assert_eq!(decided(&rules, Mode::Default, ("Bash", &redirected)), Decision::Allow);
        assert!(rules.allow_path(Path::new("/x"), &["no tool"], Layer::Team).is_err());
    }

    #[test]
    fn goal_f4_while_planning_only_the_plan_is_written() {
        let mut rules = rules(&[(Decision::Allow, "Edit"), (Decision::Allow, "Bash")]);
        rules.place.plan_file = Some("/h/.claude/plans/a.md".into());
        let write = |path: &str| decided(&rules, Mode::Plan, ("Write", &json!({"file_path": path})));
        assert_eq!(write("/h/.claude/plans/a.md"), Decision::Allow);
        assert_eq!((write("/h/.claude/plans/b.md"), write("/p/x")), (Decision::Deny, Decision::Deny));
        let run = |command: &str| decided(&rules, Mode::Plan, ("Bash", &json!({"command": command})));
        assert_eq!(
            (run("ls"), run("make"), run("echo x > y")),
            (Decision::Allow, Decision::Ask, Decision::Deny)
        );
    }

    #[test]
    fn a_search_can_ask_about_what_it_finds() {
        let rules = rules(&[(Decision::Deny, "Read(.env)"), (Decision::Allow, "Read(b)")]);
        let denies =
            |given: &str, real: &str| rules.denies_reading(Path::new(given), Path::new(real)).is_some();
        assert!(denies("/p/a/.env", "/p/a/.env") && denies("/p/link", "/p/.env") && !denies("/p/b", "/p/b"));
    }

    #[test]
    fn a_path_whose_links_nobody_followed_is_asked_for() {
        let rules = rules(&[(Decision::Allow, "Edit")]);
        for (tool, input) in [("Edit", json!({"file_path": "a"})), ("Bash", json!({"command": "cat a"}))] {
            let none = Paths::default();
            let request = Request { tool, input: &input, cwd: Path::new("/p"), paths: &none };
            assert_eq!(judge(&rules, Mode::Default, &request).decision, Decision::Ask);
        }
    }
}
