//! The rules of a team file's `[approvals]`: what a leader answers its members without a person.

use super::fit::{Argument, glob};
use crate::config::approvals::{Policy, Rule, RuleAnswer};
use crate::protocol::approval::{Ask, Kind, Request};
use serde_json::Value;

/// Fields of a tool's input that hold its main argument, with what they hold.
const MAIN: [(&str, Argument); 6] = [
    ("command", Argument::Command),
    ("file_path", Argument::Path),
    ("notebook_path", Argument::Path),
    ("path", Argument::Path),
    ("url", Argument::Url),
    ("query", Argument::Words),
];
/// Beginning of fields that switch a tool's own guards off.
const DANGEROUS: &str = "dangerously";

/// What the rules say. Rules have numbers from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Yes.
    Allow {
        /// The rule.
        rule: usize,
        /// Mode to go on in after a plan.
        mode: Option<String>,
    },
    /// No.
    Deny {
        /// The rule.
        rule: usize,
        /// What the asker is told.
        feedback: String,
    },
    /// A person is to be asked.
    Ask,
    /// No rule fits.
    Nothing,
}

/// Judges a request: the first rule that fits decides. Where it is unsure whether a rule fits, one that allows does not,
/// and one that denies or asks does.
pub fn judge(policy: &Policy, request: &Request) -> Decision {
    let found = policy.rules.iter().enumerate().find(|(_, rule)| fits(rule, request));
    let Some((i, rule)) = found else { return Decision::Nothing };
    match rule.answer {
        RuleAnswer::Allow => Decision::Allow { rule: i + 1, mode: rule.mode.clone() },
        RuleAnswer::Deny => {
            let default = || format!("denied by rule {} of the team file", i + 1);
            Decision::Deny { rule: i + 1, feedback: rule.feedback.clone().unwrap_or_else(default) }
        }
        RuleAnswer::Ask => Decision::Ask,
    }
}

fn fits(rule: &Rule, request: &Request) -> bool {
    let kind = request.ask.kind();
    let allows = rule.answer == RuleAnswer::Allow;
    // A plan is approved only by a rule that says plan.
    if rule.kind.is_some_and(|k| k != kind) || (allows && kind == Kind::Plan && rule.kind.is_none()) {
        return false;
    }
    if rule.member.as_ref().is_some_and(|member| !glob(member, request.from.as_str())) {
        return false;
    }
    let fits_tool = |tool: &String| request.ask.tool().is_some_and(|name| glob(tool, name));
    if rule.tool.as_ref().is_some_and(|tool| !fits_tool(tool)) {
        return false;
    }
    if allows && switches_guards_off(&request.ask) {
        return false;
    }
    let Some(pattern) = &rule.input else { return true };
    match (&request.ask, allows) {
        (Ask::Plan(_), _) => false,
        (Ask::Sandbox(asked), true) => Argument::Host.fits_surely(pattern, &asked.host_pattern.host),
        (Ask::Sandbox(asked), false) => Argument::Host.may_fit(pattern, &asked.host_pattern.host),
        // Two arguments that could be the main one: nobody knows which the tool takes.
        (Ask::Permission(asked), true) => match arguments(&asked.input).as_slice() {
            [(argument, text)] => argument.fits_surely(pattern, text),
            _ => false,
        },
        (Ask::Permission(asked), false) => {
            let all = arguments(&asked.input);
            all.iter().any(|(argument, text)| argument.may_fit(pattern, text))
                || (all.is_empty() && glob(pattern, &asked.input.to_string()))
        }
    }
}

/// The main arguments of a tool's input. What is there and no text is one too, and fits nothing surely.
fn arguments(input: &Value) -> Vec<(Argument, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all = MAIN.iter().filter_map(|(key, argument)| {
        let value = input.get(key)?;
        Some((if value.is_string() { *argument } else { Argument::Odd }, text(value)))
    });
    all.collect()
}

fn switches_guards_off(ask: &Ask) -> bool {
    let Ask::Permission(asked) = ask else { return false };
    let is_on = |(key, value): (&String, &Value)| key.starts_with(DANGEROUS) && *value != Value::Bool(false);
    asked.input.as_object().is_some_and(|fields| fields.iter().any(is_on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Entry;
    use crate::protocol::approval::requests;
    use serde_json::json;

    fn request(text: &Value) -> Request {
        let entry = Entry::new("bob", &text.to_string(), "2026-11-30T16:01:16.632Z", "m");
        requests(&[entry]).pop().unwrap()
    }

    fn tool(name: &str, input: &Value) -> Request {
        request(
            &json!({"type": "permission_request", "request_id": "perm-1-a", "agent_id": "bob", "tool_name": name, "tool_use_id": "t", "input": input}),
        )
    }

    fn bash(command: &str) -> Request {
        tool("Bash", &json!({"command": command}))
    }

    fn plan() -> Request {
        request(&json!({"type": "plan_approval_request", "requestId": "p", "planContent": "x"}))
    }

    fn host(host: &str) -> Request {
        request(
            &json!({"type": "sandbox_permission_request", "requestId": "s", "workerName": "bob", "hostPattern": {"host": host}}),
        )
    }

    fn rule(answer: RuleAnswer, tool: Option<&str>, input: Option<&str>) -> Rule {
        Rule { answer, tool: tool.map(Into::into), input: input.map(Into::into), ..Rule::default() }
    }

    fn decided(rules: &[Rule], request: &Request) -> Decision {
        judge(&Policy { rules: rules.to_vec(), ..Policy::default() }, request)
    }

    fn allows(rules: &[Rule], request: &Request) -> bool {
        matches!(decided(rules, request), Decision::Allow { .. })
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = [
            rule(RuleAnswer::Deny, Some("Bash"), Some("python3 bad*")),
            rule(RuleAnswer::Ask, Some("Edit"), None),
            rule(RuleAnswer::Allow, Some("Bash"), Some("python3 *")),
        ];
        let feedback = "denied by rule 1 of the team file".to_owned();
        assert_eq!(decided(&rules, &bash("python3 bad.py")), Decision::Deny { rule: 1, feedback });
        assert_eq!(decided(&rules, &bash("python3 good.py")), Decision::Allow { rule: 3, mode: None });
        assert_eq!(decided(&rules, &tool("Edit", &json!({"file_path": "/x"}))), Decision::Ask);
        assert_eq!(decided(&rules, &bash("ruby x")), Decision::Nothing);
        assert_eq!(decided(&[], &bash("ls")), Decision::Nothing);
        let of_carol = Rule { member: Some("c*".into()), ..rule(RuleAnswer::Allow, None, None) };
        assert_eq!(decided(&[of_carol], &bash("ls")), Decision::Nothing);
    }

    #[test]
    fn a_plan_is_allowed_only_by_a_rule_that_says_plan() {
        assert!(!allows(&[rule(RuleAnswer::Allow, None, None)], &plan()));
        assert!(!allows(&[rule(RuleAnswer::Allow, Some("*"), None)], &plan()));
        assert!(!allows(&[rule(RuleAnswer::Allow, None, Some("*"))], &plan()));
        let says_plan =
            Rule { kind: Some(Kind::Plan), mode: Some("auto".into()), ..rule(RuleAnswer::Allow, None, None) };
        let allowed = Decision::Allow { rule: 1, mode: Some("auto".into()) };
        assert_eq!(decided(std::slice::from_ref(&says_plan), &plan()), allowed);
        assert!(!allows(&[says_plan], &bash("ls")));
        let denies = decided(&[rule(RuleAnswer::Deny, None, None)], &plan());
        assert!(matches!(denies, Decision::Deny { .. }), "no kind is any kind for a no");
    }

    #[test]
    fn where_the_main_argument_is_unsure_a_yes_does_not_fit_and_a_no_does() {
        let yes = [rule(RuleAnswer::Allow, None, Some("safe*"))];
        let no = [rule(RuleAnswer::Deny, None, Some("safe*"))];
        for input in [
            json!({"command": "safe", "file_path": "/etc/passwd"}),
            json!({"path": "safe", "url": "https://evil"}),
        ] {
            assert!(!allows(&yes, &tool("X", &input)), "{input}");
            assert!(matches!(decided(&no, &tool("X", &input)), Decision::Deny { .. }), "{input}");
        }
        for input in [json!({"command": ["safe"]}), json!({"other": "safe"}), json!("safe"), json!(null)] {
            assert!(!allows(&yes, &tool("X", &input)), "{input}");
        }
        let whole = [rule(RuleAnswer::Deny, None, Some("*secret*"))];
        let other = tool("mcp__x", &json!({"other": "a secret"}));
        assert!(matches!(decided(&whole, &other), Decision::Deny { .. }));
        assert!(allows(&[rule(RuleAnswer::Allow, Some("mcp__*"), None)], &other), "without input, all of it");
        let unguarded = tool("Bash", &json!({"command": "safe", "dangerouslyDisableSandbox": true}));
        assert!(!allows(&yes, &unguarded) && !allows(&[rule(RuleAnswer::Allow, None, None)], &unguarded));
        let guarded = tool("Bash", &json!({"command": "safe", "dangerouslyDisableSandbox": false}));
        assert!(allows(&yes, &guarded));
    }

    #[test]
    fn a_no_before_a_yes_is_not_evaded_by_spelling() {
        let denied = |pattern: &str, request: &Request| {
            let rules = [rule(RuleAnswer::Deny, None, Some(pattern)), rule(RuleAnswer::Allow, None, None)];
            matches!(decided(&rules, request), Decision::Deny { .. })
        };
        for path in ["/etc/x", "/tmp/../etc/x", "//etc/x", "/./etc/x"] {
            assert!(denied("/etc/*", &tool("Write", &json!({"file_path": path}))), "{path}");
        }
        for command in ["rm -rf x", "\"rm\" -rf x", "rm\t-rf x", "\\rm x"] {
            assert!(denied("rm *", &bash(command)), "{command}");
        }
        assert!(denied("evil.org", &host("evil.org.")) && denied("evil.org", &host("EVIL.org")));
        assert!(
            !denied("/etc/*", &tool("Write", &json!({"file_path": "/tmp/x"})))
                && !denied("rm *", &bash("ls"))
        );
    }

    #[test]
    fn hosts_are_told_apart() {
        let yes = [rule(RuleAnswer::Allow, None, Some("*.rust-lang.org"))];
        assert!(allows(&yes, &host("doc.Rust-Lang.org")));
        for other in ["rust-lang.org", "evil.org", "evil.org/.rust-lang.org", "x.rust-lang.org.evil.org", ""]
        {
            assert!(!allows(&yes, &host(other)), "{other}");
        }
    }
}
