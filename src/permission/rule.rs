//! Rules: `Tool` or `Tool(specifier)`, of whom they are, and which of them are none.

use super::verdict::Decision;
use crate::config::settings::{Dir, Layer};
use std::fmt;
use std::path::PathBuf;

/// Where a rule is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Whose it is.
    pub layer: Layer,
    /// The file; none for one of a session or a team.
    pub file: Option<PathBuf>,
    /// Where a path with one leading slash begins.
    pub anchor: Dir,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{} ({})", file.display(), self.layer),
            None => write!(f, "this {}", self.layer),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it answers.
    pub decision: Decision,
    /// As it stands in its file.
    pub text: String,
    /// The tool's name; for a rule that asks or denies also with stars.
    pub tool: String,
    /// What stands in the parentheses; none if it is for all uses of the tool.
    pub specifier: Option<String>,
    /// Where it is from.
    pub source: Source,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rule {} of {}", self.decision, self.text, self.source)
    }
}

/// A rule that is none, or that allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}: {field}: {text:?}: {problem}")]
pub struct RuleError {
    /// File and layer.
    pub source_name: String,
    /// The key: `permissions.deny`.
    pub field: String,
    /// The rule.
    pub text: String,
    /// What is wrong and the way out.
    pub problem: String,
}

/// Tools that change files.
pub(super) const EDITORS: [&str; 4] = ["Edit", "Write", "MultiEdit", "NotebookEdit"];
/// Tools that read files.
pub(super) const READERS: [&str; 5] = ["Read", "Glob", "Grep", "LS", "NotebookRead"];
/// Tools whose whole input a rule by parameter must not stand for, with the field.
const MAIN_FIELDS: [(&str, &str); 10] = [
    ("Bash", "command"),
    ("Read", "file_path"),
    ("Edit", "file_path"),
    ("Write", "file_path"),
    ("MultiEdit", "file_path"),
    ("Grep", "path"),
    ("Glob", "path"),
    ("LS", "path"),
    ("NotebookEdit", "notebook_path"),
    ("WebFetch", "url"),
];

/// What a rule's text came to.
pub(super) enum Read {
    /// A rule.
    Rule(Rule),
    /// One that allows nothing, with the reason: no harm is done by leaving it out.
    Void(String),
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What is wrong with it, and the way out. An `allow` that would allow nothing is no error.
    pub(super) fn read(decision: Decision, text: &str, source: &Source) -> Result<Read, String> {
        let (tool, specifier) = split(text)?;
        let allows = decision == Decision::Allow;
        let name_fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/*".contains(c);
        if tool.is_empty() || !tool.chars().all(name_fits) {
            return Err(format!("'{tool}' is no tool's name: write Tool or Tool(specifier)"));
        }
        if let Some(why) = void_tool(tool).filter(|_| allows) {
            return Ok(Read::Void(why));
        }
        let rule = |specifier: Option<&str>| {
            Read::Rule(Rule {
                decision,
                text: text.to_owned(),
                tool: tool.to_owned(),
                specifier: specifier.map(str::to_owned),
                source: source.clone(),
            })
        };
        let Some(specifier) = specifier else { return Ok(rule(None)) };
        if specifier.trim().is_empty() {
            return Err(format!(
                "it has nothing between its parentheses: write {tool} for all uses of the tool"
            ));
        }
        match check_specifier(tool, specifier) {
            // For commands and paths a lone star is every use.
            Ok(()) if specifier == "*" && tool != "WebFetch" => Ok(rule(None)),
            Ok(()) => Ok(rule(Some(specifier))),
            Err(_) if !allows && is_by_parameter(tool, specifier) => Ok(rule(Some(specifier))),
            Err(why) if allows => Ok(Read::Void(why)),
            Err(why) => Err(why),
        }
    }
}

/// `Tool` or `Tool(specifier)`; parentheses inside the specifier are plain characters.
fn split(text: &str) -> Result<(&str, Option<&str>), String> {
    let text = text.trim();
    let Some((tool, rest)) = text.split_once('(') else {
        if text.contains(')') {
            return Err("a ')' has no '(' before it".to_owned());
        }
        return Ok((text, None));
    };
    match rest.strip_suffix(')') {
        Some(specifier) => Ok((tool, Some(specifier))),
        None => Err("its '(' is not closed at the end".to_owned()),
    }
}

/// Why a tool's name allows nothing.
fn void_tool(tool: &str) -> Option<String> {
    let star = tool.find('*')?;
    let server = tool.strip_prefix("mcp__").and_then(|rest| rest.find("__")).map(|at| at + "mcp____".len());
    match server {
        Some(end) if star >= end => None,
        _ => Some("a star in a tool's name allows only behind mcp__SERVER__".to_owned()),
    }
}

/// Whether the tool can be told by such a specifier.
fn check_specifier(tool: &str, specifier: &str) -> Result<(), String> {
    let main = MAIN_FIELDS.iter().find(|(name, _)| *name == tool);
    if let (Some((_, field)), Some((name, _))) = (main, specifier.split_once(':'))
        && name.trim() == *field
    {
        return Err(format!("'{field}' is what the tool works on: write {tool}(...) without '{field}:'"));
    }
    let is_path = EDITORS.contains(&tool) || READERS.contains(&tool);
    match tool {
        _ if is_path && specifier.starts_with('!') => {
            Err("a path that begins with '!' takes nothing back".to_owned())
        }
        _ if is_path || matches!(tool, "Bash" | "Agent" | "Task" | "Skill") => Ok(()),
        "WebFetch" if specifier.trim() == "*" => Ok(()),
        "WebFetch" => match specifier.trim().strip_prefix("domain:").map(str::trim) {
            Some(host) if is_host(host) => Ok(()),
            Some(host) => Err(format!("'{host}' is no host: write WebFetch(domain:example.com)")),
            None => Err("write WebFetch(domain:example.com)".to_owned()),
        },
        _ if tool.starts_with("mcp__") => {
            Err(format!("tools of MCP servers take no specifier: write {tool}"))
        }
        _ if specifier.trim() == "*" => Ok(()),
        _ => Err(format!("{tool} takes no specifier: write {tool}")),
    }
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || ".-_:[]*".contains(c))
}

/// Whether it names a parameter of the tool, as rules that ask or deny may.
fn is_by_parameter(tool: &str, specifier: &str) -> bool {
    let is_main = |name: &str| MAIN_FIELDS.iter().any(|(known, field)| *known == tool && *field == name);
    parameter(specifier).is_some_and(|(name, _)| !is_main(name)) && !tool.starts_with("mcp__")
}

/// `name:value` of a rule by parameter.
pub(super) fn parameter(specifier: &str) -> Option<(&str, &str)> {
    let (name, value) = specifier.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    (is_name && !value.is_empty()).then_some((name, value))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::permission) fn source() -> Source {
        let anchor = Dir { given: "/p".into(), real: "/p".into() };
        Source { layer: Layer::Project, file: Some("/p/.claude/settings.json".into()), anchor }
    }

    fn read(decision: Decision, text: &str) -> Result<Option<(String, Option<String>)>, String> {
        Rule::read(decision, text, &source()).map(|read| match read {
            Read::Rule(rule) => Some((rule.tool, rule.specifier)),
            Read::Void(_) => None,
        })
    }

    #[test]
    fn rules_are_read() {
        let one = |tool: &str, specifier: Option<&str>| Ok(Some((tool.into(), specifier.map(Into::into))));
        for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
            assert_eq!(read(decision, "Bash"), one("Bash", None));
            assert_eq!(read(decision, " Bash(*) "), one("Bash", None));
            assert_eq!(read(decision, "Bash(echo (a))"), one("Bash", Some("echo (a)")));
            assert_eq!(read(decision, "Bash(npm run test:*)"), one("Bash", Some("npm run test:*")));
            assert_eq!(read(decision, "Read(//etc/**)"), one("Read", Some("//etc/**")));
            assert_eq!(read(decision, "WebFetch(domain:*.a.org)"), one("WebFetch", Some("domain:*.a.org")));
            assert_eq!(read(decision, "mcp__github__get_*"), one("mcp__github__get_*", None));
            assert_eq!(read(decision, "Agent(Explore)"), one("Agent", Some("Explore")));
        }
        assert_eq!(read(Decision::Deny, "mcp__*"), one("mcp__*", None));
        assert_eq!(read(Decision::Deny, "*"), one("*", None));
        assert_eq!(read(Decision::Ask, "TodoWrite(x:y)"), one("TodoWrite", Some("x:y")));
        assert_eq!(read(Decision::Deny, "WebFetch(prompt:*)"), one("WebFetch", Some("prompt:*")));
    }

    #[test]
    fn a_malformed_rule_is_an_error_and_a_void_one_allows_nothing() {
        for text in
            ["", "Bash(", "Bash(ls", "Bash)", "Bash()", "Bash( )", "(ls)", "Ba sh", "Bash(ls) x", "Édit"]
        {
            for decision in [Decision::Allow, Decision::Deny] {
                assert!(read(decision, text).is_err(), "{text}");
            }
        }
        for text in ["mcp__*", "*", "B*", "mcp__a*__x"] {
            assert_eq!(read(Decision::Allow, text), Ok(None), "{text}");
        }
        for text in [
            "WebFetch(example.com)",
            "WebFetch(domain:)",
            "WebFetch(url:http://x)",
            "Bash(command:rm *)",
            "mcp__a__b(x:y)",
            "Read(!x)",
            "TodoWrite(x)",
            "Edit(file_path:x)",
        ] {
            assert_eq!(read(Decision::Allow, text), Ok(None), "{text}");
            assert!(read(Decision::Deny, text).is_err(), "a no must not become nothing: {text}");
            assert!(read(Decision::Ask, text).is_err(), "{text}");
        }
    }
}
