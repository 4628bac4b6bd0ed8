//! `throng permissions`: what the rules of the settings files say, and what they make of a call.

use super::agent::mode;
use super::context::Context;
use super::error::{Failure, Result};
use super::out::Paint;
use crate::config::Settings;
use crate::config::settings::Layer;
use crate::permission::{self, Decision, Mode, Part, Paths, Request, Rule, Rules, Verdict};
use crate::sys::links;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Show which rules of the settings files allow, ask for or deny what an agent would do
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The files are those of Claude Code: managed, .claude/settings.local.json, .claude/settings.json, and
settings.json in the configuration directory.

Example:
  throng permissions explain 'Bash(git log && rm x)'"
)]
pub struct Permissions {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Say what becomes of a call of a tool, part by part, with the rule and file that decided
    Explain(Explain),
    /// List all rules with their files, modes, directories, and what has no effect
    List(List),
}

/// Say what becomes of a call of a tool, part by part, with the rule and file that decided
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 allow, 1 deny, 7 ask, 2 no such call, or a bad file.

Example:
  throng permissions explain 'Bash(npm test && git push)'
  throng permissions explain 'Edit(src/main.rs)' --mode acceptEdits
  throng permissions explain 'mcp__github__get_issue'")]
struct Explain {
    /// The call: a tool, and in parentheses its command, path, address, agent or skill
    call: String,
    /// The whole input as JSON instead of what stands in parentheses
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// List all rules with their files, modes, directories, and what has no effect
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng permissions list")]
struct List {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Permission mode: default, acceptEdits, plan, dontAsk, bypassPermissions, bubble (default: the settings')
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<Mode>,
    /// Where the session works (default: here)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// Dispatches.
pub fn permissions(verb: &Permissions, context: &mut Context) -> Result {
    match &verb.verb {
        Verb::Explain(verb) => explain(verb, context),
        Verb::List(verb) => list(verb, context),
    }
}

impl Place {
    fn read(&self, context: &Context) -> Result<(Settings, Rules, Mode)> {
        let environment = &context.config.environment;
        let start = self.cwd.as_deref().unwrap_or(Path::new("."));
        let settings = Settings::read(environment, &context.config.layout, start)?;
        if !settings.start.real.is_dir() {
            return Err(Failure::usage(format!("there is no directory {}", settings.start.given.display())));
        }
        let rules = Rules::new(&settings).map_err(|e| Failure::usage(e.to_string()))?;
        let mode = rules.effective(self.mode.unwrap_or(rules.default_mode));
        Ok((settings, rules, mode))
    }
}

/// A tool and its input.
fn call(verb: &Explain) -> Result<(String, Value)> {
    let text = verb.call.trim();
    let (tool, argument) = match text.split_once('(') {
        None => (text, None),
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (tool, Some(argument)),
            None => {
                return Err(Failure::usage(format!(
                    "'{text}' has no ')' at its end: quote it for your shell"
                )));
            }
        },
    };
    if tool.is_empty() || tool.contains(char::is_whitespace) {
        return Err(Failure::usage(format!("'{tool}' is no tool: write for example 'Bash(git status)'")));
    }
    if let Some(input) = &verb.input {
        if argument.is_some() {
            return Err(Failure::usage("either parentheses or --input"));
        }
        let input =
            serde_json::from_str(input).map_err(|e| Failure::usage(format!("--input is no JSON: {e}")))?;
        return Ok((tool.to_owned(), input));
    }
    let key = match tool {
        "Bash" => "command",
        "Read" | "Edit" | "Write" | "MultiEdit" => "file_path",
        "NotebookEdit" | "NotebookRead" => "notebook_path",
        "Glob" | "Grep" | "LS" => "path",
        "WebFetch" => "url",
        "WebSearch" => "query",
        "Agent" | "Task" => "subagent_type",
        "Skill" => "skill",
        _ if argument.is_some() => {
            return Err(Failure::usage(format!(
                "what {tool} works on is not known: give its input with --input JSON"
            )));
        }
        _ => "",
    };
    Ok((tool.to_owned(), argument.map_or_else(|| json!({}), |argument| json!({key: argument}))))
}

fn explain(verb: &Explain, context: &mut Context) -> Result {
    let (tool, input) = call(verb)?;
    let (_, rules, mode) = verb.place.read(context)?;
    let cwd = rules.place.start.given.clone();
    let paths = Paths::follow(permission::paths(&rules, (&tool, &input), &cwd), links::followed);
    let request = Request { tool: &tool, input: &input, cwd: &cwd, paths: &paths };
    let verdict = permission::judge(&rules, mode, &request);
    show(&verdict, mode, context)?;
    match verdict.decision {
        Decision::Allow => Ok(()),
        // The verdict has been said.
        Decision::Deny => Err(Failure::failed("")),
        Decision::Ask => Err(Failure::unanswered("")),
    }
}

fn show(verdict: &Verdict, mode: Mode, context: &mut Context) -> Result {
    if context.out.json {
        let part = |part: &Part| {
            json!({"what": part.what, "decision": part.decision.to_string(), "why": part.why,
                "rule": part.rule.as_ref().map(rule_json)})
        };
        let parts: Vec<Value> = verdict.parts.iter().map(part).collect();
        return context.out.json(&json!({"decision": verdict.decision.to_string(), "mode": mode.word(),
            "reason": verdict.reason, "rule": verdict.rule().map(rule_json), "parts": parts}));
    }
    let paint = |decision: Decision| match decision {
        Decision::Allow => Paint::Green,
        Decision::Ask => Paint::Yellow,
        Decision::Deny => Paint::Red,
    };
    let word = context.out.paint(paint(verdict.decision), &verdict.decision.to_string());
    context.out.line(format!("{word}  {}", one_line(&verdict.reason)))?;
    let mut rows = Vec::new();
    for part in &verdict.parts {
        let word = context.out.paint(paint(part.decision), &part.decision.to_string());
        rows.push(vec![format!("  {word}"), one_line(&part.what), one_line(&part.why)]);
    }
    rows.push(vec!["  mode".to_owned(), mode.word().to_owned()]);
    context.out.table(&rows)
}

/// Line ends and tabs as people write them.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

fn rule_json(rule: &Rule) -> Value {
    let source = &rule.source;
    json!({"text": rule.text, "key": format!("permissions.{}", rule.decision), "file": source.file, "layer": source.layer.to_string()})
}

fn list(verb: &List, context: &mut Context) -> Result {
    let (settings, rules, mode) = verb.place.read(context)?;
    let directories: Vec<&Path> =
        std::iter::once(&rules.place.start).chain(&rules.place.more).map(|dir| dir.given.as_path()).collect();
    if context.out.json {
        let files = settings.files.iter().map(|f| json!({"file": f.path, "layer": f.layer.to_string()}));
        return context.out.json(&json!({
            "mode": mode.word(), "rules": rules.all.iter().map(rule_json).collect::<Vec<_>>(),
            "directories": directories, "files": files.collect::<Vec<_>>(), "notes": rules.notes,
            "bypass_disabled_by": rules.bypass_disabled_by.as_ref().map(|source| &source.file),
        }));
    }
    let mut rows = vec![vec!["mode".to_owned(), mode.word().to_owned()]];
    if let Some(source) = &rules.bypass_disabled_by {
        rows.push(vec!["never".to_owned(), "bypassPermissions".to_owned(), source.to_string()]);
    }
    rows.extend(directories.iter().map(|dir| vec!["directory".to_owned(), dir.display().to_string()]));
    for decision in [Decision::Deny, Decision::Ask, Decision::Allow] {
        let of = rules.all.iter().filter(|rule| rule.decision == decision);
        rows.extend(of.map(|rule| vec![decision.to_string(), rule.text.clone(), rule.source.to_string()]));
    }
    rows.extend(rules.notes.iter().map(|note| vec!["note".to_owned(), note.clone()]));
    let has = |layer| settings.files.iter().any(|file| file.layer == layer);
    if ![Layer::Managed, Layer::Local, Layer::Project, Layer::User].into_iter().any(has) {
        rows.push(vec!["note".to_owned(), "there is no settings file".to_owned()]);
    }
    context.out.table(&rows)
}
