//! The `[approvals]` table of a team file: who answers what mates ask of their leader, before a person does.

use super::Error;
use super::source::Source;
use super::word::{Word, words};
use crate::protocol::approval::{Kind, MODES};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How long a hook may take, unless the file says otherwise.
const HOOK_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

const KEYS: [&str; 4] = ["hook", "hook_timeout", "when_nobody_answers", "rule"];
const RULE_KEYS: [&str; 7] = ["answer", "kind", "tool", "input", "member", "mode", "feedback"];

/// Who answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Looked at in order: the first that fits decides.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Asked where no rule fits.
    #[serde(default)]
    pub hook: Option<Hook>,
    /// What becomes of what nobody is there to answer.
    #[serde(default)]
    pub when_nobody_answers: Nobody,
}

/// One rule. What is absent fits everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// What it answers.
    pub answer: RuleAnswer,
    /// What is asked for.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// Glob of the tool's name.
    #[serde(default)]
    pub tool: Option<String>,
    /// Glob of the main argument: a command, path, URL or host, as a whole.
    #[serde(default)]
    pub input: Option<String>,
    /// Glob of the asker's name.
    #[serde(default)]
    pub member: Option<String>,
    /// Mode to go on in after an allowed plan.
    #[serde(default)]
    pub mode: Option<String>,
    /// What the asker is told with a no.
    #[serde(default)]
    pub feedback: Option<String>,
}

/// A program that is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs: the team file's directory.
    pub cwd: PathBuf,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// The team file, and the line in it, for who can tell what is wrong with it.
    #[serde(skip)]
    pub at: Option<(PathBuf, usize)>,
}

impl Hook {
    /// An error at the place where the file names it.
    pub fn error(&self, problem: &str) -> Error {
        let (path, line) = self.at.clone().unwrap_or_default();
        Error::TeamFile { path, line, problem: format!("hook: {problem}") }
    }
}

/// What a rule answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAnswer {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// A person is to be asked, and no hook.
    #[default]
    Ask,
}

/// What becomes of what nobody is there to answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nobody {
    /// It is denied at once.
    #[default]
    Deny,
    /// It waits, for example for `throng approvals` from elsewhere.
    Wait,
}

impl Word for RuleAnswer {
    const WORDS: &'static [(&'static str, RuleAnswer)] =
        &[("allow", RuleAnswer::Allow), ("deny", RuleAnswer::Deny), ("ask", RuleAnswer::Ask)];
}

impl Word for Nobody {
    const WORDS: &'static [(&'static str, Nobody)] = &[("deny", Nobody::Deny), ("wait", Nobody::Wait)];
}

impl Word for Kind {
    const WORDS: &'static [(&'static str, Kind)] =
        &[("permission", Kind::Permission), ("plan", Kind::Plan), ("sandbox", Kind::Sandbox)];
}

type Text = Spanned<String>;

/// The table as it stands in the file.
#[derive(Deserialize, Default)]
pub(super) struct FileApprovals {
    hook: Option<Spanned<Vec<String>>>,
    hook_timeout: Option<Spanned<toml::Value>>,
    when_nobody_answers: Option<Text>,
    #[serde(default)]
    rule: Vec<FileRule>,
}

#[derive(Deserialize)]
struct FileRule {
    answer: Text,
    kind: Option<Text>,
    tool: Option<Text>,
    input: Option<Text>,
    member: Option<String>,
    mode: Option<Text>,
    feedback: Option<Text>,
}

/// Refuses keys of the table that nobody reads.
pub(super) fn check_keys(source: &Source, table: &DeValue<'_>) -> Result<(), Error> {
    let known = |table: &DeTable<'_>, what: &str, keys: &[&str]| match table
        .keys()
        .find(|key| !keys.contains(&key.get_ref().as_ref()))
    {
        Some(key) => Err(source.unknown((&key.span(), what), key.get_ref(), keys)),
        None => Ok(()),
    };
    let DeValue::Table(table) = table else { return Ok(()) };
    known(table, "key of [approvals]", &KEYS)?;
    let rules = table.iter().filter(|(key, _)| key.get_ref() == "rule");
    for (_, value) in rules {
        let DeValue::Array(rows) = value.get_ref() else { continue };
        for row in rows {
            if let DeValue::Table(row) = row.get_ref() {
                known(row, "key of [[approvals.rule]]", &RULE_KEYS)?;
            }
        }
    }
    Ok(())
}

/// The checked table; `dir` is the team file's directory.
pub(super) fn policy(source: &Source, file: &FileApprovals, dir: &Path) -> Result<Policy, Error> {
    let timeout = match &file.hook_timeout {
        Some(value) => source.duration(value)?,
        None => HOOK_TIMEOUT_DEFAULT,
    };
    if let (Some(value), true) = (&file.hook_timeout, timeout.is_zero()) {
        return Err(source.error(Some(&value.span()), "hook_timeout must be more than 0"));
    }
    let hook = match &file.hook {
        Some(command) if command.get_ref().first().is_none_or(String::is_empty) => {
            return Err(source.error(Some(&command.span()), "hook is empty: write hook = [\"PROGRAM\", ...]"));
        }
        Some(command) => Some(Hook {
            command: command.get_ref().iter().map(|w| w.replace("{dir}", &dir.to_string_lossy())).collect(),
            cwd: dir.to_owned(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            at: Some((source.path.clone(), source.line(command.span().start))),
        }),
        None => None,
    };
    let rules = file.rule.iter().map(|row| rule(source, row)).collect::<Result<_, _>>()?;
    let nobody = file.when_nobody_answers.as_ref();
    let when_nobody_answers =
        nobody.map_or(Ok(Nobody::default()), |text| word(source, "when_nobody_answers", text))?;
    Ok(Policy { rules, hook, when_nobody_answers })
}

fn word<W: Word>(source: &Source, what: &str, text: &Text) -> Result<W, Error> {
    W::parse(text.get_ref()).map_err(|_| source.unknown((&text.span(), what), text.get_ref(), &words::<W>()))
}

fn rule(source: &Source, row: &FileRule) -> Result<Rule, Error> {
    let answer = word(source, "answer", &row.answer)?;
    let kind = row.kind.as_ref().map(|kind| word::<Kind>(source, "kind", kind)).transpose()?;
    let refuse = |key: &Option<Text>, problem: &str| match key {
        Some(text) => Err(source.error(Some(&text.span()), problem)),
        None => Ok(()),
    };
    if kind == Some(Kind::Plan) {
        refuse(&row.tool, "a plan has no tool")?;
        refuse(&row.input, "a plan has no input: its text cannot be judged by a glob")?;
    }
    if kind == Some(Kind::Sandbox) {
        refuse(&row.tool, "a host is reached by no tool: leave it out, or write kind = \"permission\"")?;
    }
    if answer != RuleAnswer::Deny {
        refuse(&row.feedback, "feedback goes with answer = \"deny\" alone")?;
    }
    if answer != RuleAnswer::Allow || kind != Some(Kind::Plan) {
        refuse(&row.mode, "mode goes with answer = \"allow\" and kind = \"plan\" alone")?;
    }
    if let Some(mode) = row.mode.as_ref().filter(|mode| !MODES.contains(&mode.get_ref().as_str())) {
        return Err(source.unknown((&mode.span(), "mode"), mode.get_ref(), &MODES));
    }
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.get_ref().clone());
    Ok(Rule {
        answer,
        kind,
        tool: text(&row.tool),
        input: text(&row.input),
        member: row.member.clone(),
        mode: text(&row.mode),
        feedback: text(&row.feedback),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Plan;

    const HEAD: &str = "[team]\nname = \"t\"\n";

    fn plan(text: &str) -> Result<Plan, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("team.toml");
        std::fs::write(&path, format!("{HEAD}{text}")).unwrap();
        Plan::read(&path, &crate::config::Drivers::built_in().unwrap()).map_err(|e| {
            let error = e.to_string();
            error[error.find("team.toml:").unwrap() + "team.toml:".len()..].to_owned()
        })
    }

    #[test]
    fn a_whole_table_is_read() {
        assert_eq!(plan("").unwrap().approvals, Policy::default());
        let text = r#"
            [approvals]
            hook = ["{dir}/approve.sh", "x"]
            hook_timeout = 5
            when_nobody_answers = "wait"
            [[approvals.rule]]
            answer = "deny"
            kind = "permission"
            tool = "Bash"
            input = "rm *"
            member = "b*"
            feedback = "not here"
            [[approvals.rule]]
            answer = "allow"
            kind = "plan"
            mode = "acceptEdits"
        "#;
        let plan = plan(text).unwrap();
        let policy = plan.approvals;
        assert_eq!(policy.when_nobody_answers, Nobody::Wait);
        let hook = policy.hook.unwrap();
        assert_eq!(hook.command, [format!("{}/approve.sh", plan.dir.display()), "x".to_owned()]);
        assert_eq!((hook.timeout_ms, hook.cwd), (5000, plan.dir));
        assert_eq!(policy.rules.len(), 2);
        assert_eq!(policy.rules[0].feedback.as_deref(), Some("not here"));
        let mode = policy.rules[1].mode.as_deref();
        assert_eq!((policy.rules[1].answer, mode), (RuleAnswer::Allow, Some("acceptEdits")));
    }

    #[test]
    fn each_mistake_is_named_with_its_line_and_the_nearest_word() {
        let rule = "[[approvals.rule]]\n";
        for (text, expected) in [
            ("[approvals]\nhok = []", "4: unknown key of [approvals] 'hok': did you mean 'hook'?".to_owned()),
            ("[approval]", "3: unknown key 'approval': did you mean 'approvals'?".to_owned()),
            ("[approvals]\nhook = []", "4: hook is empty: write hook = [\"PROGRAM\", ...]".to_owned()),
            ("[approvals]\nhook = \"x\"", "4: invalid type: string \"x\"".to_owned()),
            ("[approvals]\nhook_timeout = 0", "4: hook_timeout must be more than 0".to_owned()),
            (
                "[approvals]\nwhen_nobody_answers = \"dney\"",
                "4: unknown when_nobody_answers 'dney': did you mean 'deny'?".to_owned(),
            ),
            (
                &format!("{rule}answer = \"allow\"\ntol = \"x\""),
                "5: unknown key of [[approvals.rule]] 'tol': did you mean 'tool'?".to_owned(),
            ),
            (
                &format!("{rule}answer = \"alow\""),
                "4: unknown answer 'alow': did you mean 'allow'?".to_owned(),
            ),
            (&format!("{rule}tool = \"Bash\""), "3: missing field `answer`".to_owned()),
            (
                &format!("{rule}answer = \"allow\"\nkind = \"plan\"\ninput = \"*\""),
                "6: a plan has no input".to_owned(),
            ),
            (
                &format!("{rule}answer = \"allow\"\nfeedback = \"x\""),
                "5: feedback goes with answer = \"deny\" alone".to_owned(),
            ),
            (
                &format!("{rule}answer = \"allow\"\nmode = \"default\""),
                "5: mode goes with answer = \"allow\" and kind = \"plan\" alone".to_owned(),
            ),
            (
                &format!("{rule}answer = \"allow\"\nkind = \"plan\"\nmode = \"accept\""),
                "6: unknown mode 'accept': ".to_owned(),
            ),
            ("[approvals]\nrule = 3", "4: invalid type".to_owned()),
        ] {
            let problem = plan(text).unwrap_err();
            assert!(problem.starts_with(&expected), "{text}: {problem}");
        }
    }
}
