//! Judging a call: which parts it has, and what comes of them together.

use super::command::BASH;
use super::line::Line;
use super::mode::Mode;
use super::pattern;
use super::rule::{EDITORS, READERS, Rule};
use super::rules::{Act, Rules};
use super::verdict::{Decision, Part, Verdict, strictest};
use super::{Request, web};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Tools that need nobody's leave: they change nothing outside of the session, or are asked about elsewhere.
const FREE: [&str; 24] = [
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "SendMessage",
    "StructuredOutput",
    "SyntheticOutput",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "BashOutput",
    "KillShell",
    "KillBash",
];
/// Agents that may be started while planning (F4).
const PLANNERS: [&str; 2] = ["Explore", "Plan"];
/// The agent that is meant where none is named.
const GENERAL: &str = "general-purpose";

/// A call that is being judged.
pub(super) struct Judge<'a> {
    pub(super) rules: &'a Rules,
    pub(super) mode: Mode,
    pub(super) request: &'a Request<'a>,
    /// The rule that is exactly the whole command line, which allows all of it.
    pub(super) whole: Option<&'a Rule>,
}

/// The files that a file tool works on, as they were given.
fn files(request: (&str, &Value), cwd: &Path, home: &Path) -> Vec<PathBuf> {
    let (tool, input) = request;
    let text = |key: &str| input.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let absolute = |text: &str, base: &Path| match text.strip_prefix("~/").or((text == "~").then_some("")) {
        Some(rest) => home.join(rest),
        None => base.join(text),
    };
    // All that are there: which of them the tool takes is its own matter.
    let named = ["file_path", "notebook_path", "path"].into_iter().filter_map(text);
    let mut all: Vec<PathBuf> = named.map(|text| absolute(text, cwd)).collect();
    if EDITORS.contains(&tool) {
        return all;
    }
    // A search without a path is one of the directory.
    if all.is_empty() {
        all.push(cwd.to_owned());
    }
    if let Some(pattern) = text("pattern").filter(|_| tool == "Glob") {
        let star = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
        let (fixed, rest) = pattern.split_at(star);
        let folder = absolute(fixed.rfind('/').map_or("", |at| &fixed[..=at]), &all[0]);
        // Behind a star such a pattern may lead to anything.
        let leads_anywhere =
            rest.contains("..") || rest.contains("{/") || rest.contains(",/") || rest.contains("{~");
        all.push(if leads_anywhere { PathBuf::from("/") } else { folder });
    }
    all
}

/// The paths that the caller is to follow.
pub(super) fn paths(rules: &Rules, (tool, input): (&str, &Value), cwd: &Path) -> Vec<PathBuf> {
    let home = &rules.place.home.given;
    if tool == BASH {
        let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
        return Line::new(command, cwd, home).paths(home);
    }
    if EDITORS.contains(&tool) || READERS.contains(&tool) {
        return files((tool, input), cwd, home);
    }
    Vec::new()
}

impl<'a> Judge<'a> {
    pub(super) fn verdict(&self) -> Verdict {
        let (tool, input) = (self.request.tool, self.request.input);
        if let Some(rule) = self.rules.of_tool(Decision::Deny, tool, input) {
            return self.concluded(vec![Part::by_rule(tool.to_owned(), Decision::Deny, rule)]);
        }
        let mut parts = match tool {
            BASH => self.bash(),
            _ if EDITORS.contains(&tool) => self.file_tool(Act::Edit),
            _ if READERS.contains(&tool) => self.file_tool(Act::Read),
            "WebFetch" => vec![self.web_fetch()],
            "Agent" | "Task" => vec![self.agent()],
            "Skill" => vec![self.skill()],
            _ => vec![self.other()],
        };
        if let Some(rule) = self.rules.of_tool(Decision::Ask, tool, input) {
            parts.insert(0, Part::by_rule(tool.to_owned(), Decision::Ask, rule));
        }
        self.concluded(parts)
    }

    fn concluded(&self, parts: Vec<Part>) -> Verdict {
        let Some(deciding) = strictest(&parts) else {
            return Verdict::ask(format!("{} could not be judged", self.request.tool));
        };
        let reason = match deciding.decision {
            Decision::Allow if parts.len() > 1 => {
                format!(
                    "all {} parts are allowed, the first ({}) by this: {}",
                    parts.len(),
                    deciding.what,
                    deciding.why
                )
            }
            _ => format!("{}: {}", deciding.what, deciding.why),
        };
        let is_question = self.request.tool == "AskUserQuestion";
        match deciding.decision {
            Decision::Ask if self.mode == Mode::DontAsk => Verdict {
                decision: Decision::Deny,
                reason: format!("{reason}; mode dontAsk denies what would be asked"),
                parts,
            },
            _ if is_question && self.mode == Mode::DontAsk => Verdict {
                decision: Decision::Deny,
                reason: "AskUserQuestion: mode dontAsk asks nothing".to_owned(),
                parts,
            },
            decision => Verdict { decision, reason, parts },
        }
    }

    /// What no rule speaks of.
    fn unruled(&self, what: impl Into<String>, why: &str) -> Part {
        match self.mode {
            Mode::BypassPermissions => Part::allow(what, "mode bypassPermissions"),
            _ => Part::ask(what, why),
        }
    }

    fn bash(&self) -> Vec<Part> {
        let Some(text) = self.request.input.get("command").and_then(Value::as_str) else {
            return vec![Part::ask(BASH, "its input has no command")];
        };
        let input = self.request.input;
        let line = Line::new(text, self.request.cwd, &self.rules.place.home.given);
        let exact = |rule: &&Rule| {
            rule.specifier.as_deref().is_some_and(|s| !pattern::is_open(s) && s.trim() == text.trim())
        };
        let whole = self.rules.of(Decision::Allow).filter(|rule| rule.is_of_tool(BASH)).find(exact);
        let judge = Judge { whole, ..*self };
        let mut parts: Vec<Part> =
            line.script.commands.iter().flat_map(|command| judge.command(&line, command)).collect();
        let unguarded =
            input.get("dangerouslyDisableSandbox").is_some_and(|value| *value != Value::Bool(false));
        if unguarded {
            parts.push(self.unruled("outside of the sandbox", "it asks to run without the sandbox"));
        }
        // First: what was found of it is of less weight.
        parts.splice(0..0, judge.unsure(&line, text));
        if parts.is_empty() {
            parts.push(Part::allow(text.trim(), "it runs nothing"));
        }
        parts
    }

    /// Of a line whose commands are not all known.
    fn unsure(&self, line: &Line, text: &str) -> Option<Part> {
        let why = line.script.unsure.as_ref()?;
        let shown: String = text.trim().chars().take(60).collect();
        let what = if shown.len() < text.trim().len() { format!("{shown}...") } else { shown };
        for decision in [Decision::Deny, Decision::Ask] {
            let whole = self.rules.of(decision).filter(|rule| rule.is_of_tool(BASH)).find(|rule| {
                rule.specifier.as_deref().is_some_and(|specifier| pattern::command(specifier, text.trim()))
            });
            if let Some(rule) = whole {
                return Some(Part::by_rule(what, decision, rule));
            }
        }
        if let Some(rule) = self.whole {
            return Some(Part::by_rule(what, Decision::Allow, rule));
        }
        let blanket =
            self.rules.of(Decision::Allow).find(|rule| rule.is_of_tool(BASH) && rule.specifier.is_none());
        let is_free = self.mode == Mode::BypassPermissions || (blanket.is_some() && self.mode != Mode::Plan);
        Some(match blanket {
            _ if !is_free || self.may_be_evaded() => {
                Part::ask(what, format!("it is not certain what it would run: {why}"))
            }
            Some(rule) => Part::by_rule(what, Decision::Allow, rule),
            None => Part::allow(what, "mode bypassPermissions"),
        })
    }

    fn file_tool(&self, act: Act) -> Vec<Part> {
        let tool = self.request.tool;
        let files = files((tool, self.request.input), self.request.cwd, &self.rules.place.home.given);
        if files.is_empty() {
            return vec![Part::ask(tool, "its input names no file")];
        }
        files.iter().map(|file| self.file(act, tool, file)).collect()
    }

    fn web_fetch(&self) -> Part {
        let Some(url) = self.request.input.get("url").and_then(Value::as_str) else {
            return Part::ask("WebFetch", "its input has no url");
        };
        let what = format!("fetch {url}");
        let possible = web::possible_hosts(url);
        let of = |decision, hosts: &[String]| {
            let mut rules = self.rules.of(decision).filter(|rule| rule.is_of_tool("WebFetch"));
            rules.find(|rule| {
                rule.specifier.as_deref().is_none_or(|s| hosts.iter().any(|host| web::is_of_domain(s, host)))
            })
        };
        for decision in [Decision::Deny, Decision::Ask] {
            if let Some(rule) = of(decision, &possible) {
                return Part::by_rule(what, decision, rule);
            }
        }
        let host: Vec<String> = web::host(url).into_iter().collect();
        match of(Decision::Allow, &host) {
            Some(rule) => Part::by_rule(what, Decision::Allow, rule),
            None if host.is_empty() => self.unruled(what, "its address is not a plain one of http or https"),
            None => self.unruled(what, "no rule allows this domain"),
        }
    }

    fn agent(&self) -> Part {
        let kind = self.request.input.get("subagent_type").and_then(Value::as_str).unwrap_or(GENERAL);
        let what = format!("start agent {kind}");
        let named = |rule: &&Rule| {
            rule.is_of_tool("Agent")
                && rule.specifier.as_deref().is_none_or(|s| pattern::stars(s.trim(), kind))
        };
        for decision in [Decision::Deny, Decision::Ask] {
            if let Some(rule) = self.rules.of(decision).find(named) {
                return Part::by_rule(what, decision, rule);
            }
        }
        if self.mode == Mode::Plan && !PLANNERS.contains(&kind) {
            return Part::deny(what, "mode plan: only the agents Explore and Plan may be started");
        }
        Part::allow(what, "starting an agent needs no leave: what it does is judged")
    }

    fn skill(&self) -> Part {
        let input = self.request.input;
        let name =
            ["skill", "command", "name"].iter().find_map(|key| input.get(*key)?.as_str()).unwrap_or_default();
        let name = name.trim_start_matches('/');
        let args = input.get("args").and_then(Value::as_str).unwrap_or_default().trim();
        let call = format!("{name} {args}");
        let what = format!("use skill {}", call.trim());
        let of = |decision: Decision| {
            self.rules.of(decision).filter(|rule| rule.is_of_tool("Skill")).find(|rule| {
                let Some(specifier) = rule.specifier.as_deref() else { return true };
                let specifier = specifier.trim().trim_start_matches('/');
                // For a no, whatever it is called with.
                pattern::command(specifier, call.trim())
                    || (decision != Decision::Allow && pattern::command(specifier, name))
            })
        };
        for decision in [Decision::Deny, Decision::Ask, Decision::Allow] {
            if let Some(rule) = of(decision).filter(|_| !name.is_empty()) {
                return Part::by_rule(what, decision, rule);
            }
        }
        self.unruled(what, "no rule allows this skill")
    }

    /// Tools that rules know by their name alone.
    fn other(&self) -> Part {
        let tool = self.request.tool;
        let is_mcp = tool.starts_with("mcp__");
        match self.rules.of_tool(Decision::Allow, tool, self.request.input) {
            Some(rule) if is_mcp && self.mode == Mode::Plan => {
                Part::ask(tool, format!("mode plan: it is not known to only read, whatever the {rule} says"))
            }
            Some(rule) => Part::by_rule(tool, Decision::Allow, rule),
            None if FREE.contains(&tool) => Part::allow(tool, "it needs no leave"),
            None => self.unruled(tool, "no rule allows this tool"),
        }
    }
}
