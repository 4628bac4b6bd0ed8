//! What comes of judging a call: a decision, why, and what each part of it was worth.

use super::rule::Rule;
use std::fmt;

/// What is to be done with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It may be run.
    Allow,
    /// Somebody is to be asked.
    Ask,
    /// It must not be run.
    Deny,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        })
    }
}

/// One thing that a call would do: a command, a file that is read or written, an address.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What, as a person would say it.
    pub what: String,
    /// What of it.
    pub decision: Decision,
    /// Why, in words that name the rule and its file, if one decided.
    pub why: String,
    /// The rule that decided, if one did.
    pub rule: Option<Rule>,
}

/// What of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The strictest of its parts, as the mode takes it.
    pub decision: Decision,
    /// Why, in one line for the model and for people: it names the deciding part, rule and file.
    pub reason: String,
    /// Each part. Never empty.
    pub parts: Vec<Part>,
}

impl Verdict {
    /// A question about a call that has no parts.
    pub(super) fn ask(reason: String) -> Verdict {
        let part = Part::ask(reason.clone(), "it is not known what it does");
        Verdict { decision: Decision::Ask, reason, parts: vec![part] }
    }

    /// The rule that decided, if one did.
    pub fn rule(&self) -> Option<&Rule> {
        self.deciding().and_then(|part| part.rule.as_ref())
    }

    /// The part that decided: the first of the strictest.
    pub fn deciding(&self) -> Option<&Part> {
        strictest(&self.parts)
    }
}

impl Part {
    pub(super) fn by_rule(what: impl Into<String>, decision: Decision, rule: &Rule) -> Part {
        Part { what: what.into(), decision, why: rule.to_string(), rule: Some(rule.clone()) }
    }

    pub(super) fn allow(what: impl Into<String>, why: impl Into<String>) -> Part {
        Part { what: what.into(), decision: Decision::Allow, why: why.into(), rule: None }
    }

    pub(super) fn ask(what: impl Into<String>, why: impl Into<String>) -> Part {
        Part { what: what.into(), decision: Decision::Ask, why: why.into(), rule: None }
    }

    pub(super) fn deny(what: impl Into<String>, why: impl Into<String>) -> Part {
        Part { what: what.into(), decision: Decision::Deny, why: why.into(), rule: None }
    }
}

/// The first of the strictest parts.
pub(super) fn strictest(parts: &[Part]) -> Option<&Part> {
    let worst = parts.iter().map(|part| part.decision).max()?;
    parts.iter().find(|part| part.decision == worst)
}
