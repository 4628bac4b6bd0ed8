//! One `[[member]]` of a team file.

use super::Error;
use super::drivers::{DriverEntry, Drivers};
use super::plan::{Text, word};
use super::source::Source;
use super::word::{PermissionMode, Restart};
use crate::protocol::{AgentName, NameError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The driver of a member that names none.
pub const COMMAND: &str = "command";
/// The driver of agents of our own.
pub const THRONG: &str = "throng";
/// The driver of real Claude Code.
pub const CLAUDE: &str = "claude";

pub(super) const KEYS: [&str; 15] = [
    "name",
    "driver",
    "command",
    "args",
    "agent",
    "model",
    "permission_mode",
    "plan_required",
    "effort",
    "cwd",
    "env",
    "tty",
    "restart",
    "prompt",
    "prompt_file",
];

/// One member to be.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberPlan {
    /// Its name.
    pub name: AgentName,
    /// What kind of program it is: `command`, `claude`, or a row of the table of drivers.
    pub driver: String,
    /// That row.
    pub entry: Option<DriverEntry>,
    /// Program and arguments, for the driver `command`; `{dir}` is replaced already.
    pub command: Vec<String>,
    /// What its agent program is told; nothing for the driver `command`.
    pub agent: AgentOptions,
    /// Working directory, relative to the team's.
    pub cwd: PathBuf,
    /// Variables on top of what it inherits.
    pub env: BTreeMap<String, String>,
    /// Variables it inherits besides the allow-list; `*` at the end stands for any ending.
    pub inherit: Vec<String>,
    /// Whether it gets a terminal.
    pub tty: bool,
    /// When it is started again.
    pub restart: Restart,
    /// First message in its inbox.
    pub prompt: Option<String>,
}

/// What an agent program is told when it starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentOptions {
    /// Type of the agent: the name of its definition.
    pub agent: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// What it may do without asking.
    pub permission_mode: PermissionMode,
    /// It has to have a plan approved before it changes anything.
    pub plan_required: bool,
    /// How hard its model thinks.
    pub effort: Option<String>,
    /// Further arguments of its program.
    pub args: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct FileMember {
    pub(super) name: Text,
    driver: Option<Text>,
    command: Option<Spanned<Vec<String>>>,
    args: Option<Spanned<Vec<String>>>,
    agent: Option<Text>,
    model: Option<Text>,
    permission_mode: Option<Text>,
    plan_required: Option<Spanned<bool>>,
    effort: Option<Text>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    tty: Option<Spanned<bool>>,
    pub(super) restart: Option<Text>,
    prompt: Option<Text>,
    prompt_file: Option<Spanned<PathBuf>>,
}

/// The members of a file in the directory `dir`, which inherit these variables besides the allow-list.
pub(super) fn members(
    source: &Source,
    rows: &[FileMember],
    (dir, inherit): (&Path, &[String]),
    drivers: &Drivers,
) -> Result<Vec<MemberPlan>, Error> {
    let mut members: Vec<MemberPlan> = Vec::new();
    for row in rows {
        let at = row.name.span();
        let name = AgentName::for_member(row.name.get_ref())
            .map_err(|e: NameError| source.error(Some(&at), e.to_string()))?;
        if let Some(twin) = members.iter().find(|m| m.name.as_str().eq_ignore_ascii_case(name.as_str())) {
            return Err(
                source.error(Some(&at), format!("member '{name}' is there twice (as '{}')", twin.name))
            );
        }
        if let Some(key) = row.env.keys().find(|key| key.is_empty() || key.contains(['=', '\0'])) {
            return Err(source.error(Some(&at), format!("member '{name}': '{key}' is no name of a variable")));
        }
        let (driver, entry) = driver(source, row, drivers)?;
        let fill = |text: &String| text.replace("{dir}", &dir.to_string_lossy());
        let (command, agent) = if driver == COMMAND {
            (command(source, row)?.iter().map(fill).collect(), AgentOptions::default())
        } else {
            (Vec::new(), options(source, row, fill)?)
        };
        if let Some(Err(option)) = entry.as_ref().map(|entry| entry.check_options(&agent)) {
            let problem = format!("the driver '{driver}' has no place for {option} in its args");
            return Err(source.error(row.driver.as_ref().map(Spanned::span).as_ref(), problem));
        }
        members.push(MemberPlan {
            name,
            command,
            agent,
            driver,
            entry,
            cwd: row.cwd.clone().unwrap_or_default(),
            env: row.env.iter().map(|(key, value)| (key.clone(), fill(value))).collect(),
            inherit: inherit.to_vec(),
            tty: row.tty.as_ref().is_none_or(|tty| *tty.get_ref()),
            restart: word(source, "restart", row.restart.as_ref())?,
            prompt: prompt(source, row, dir)?,
        });
    }
    Ok(members)
}

fn driver(
    source: &Source,
    row: &FileMember,
    drivers: &Drivers,
) -> Result<(String, Option<DriverEntry>), Error> {
    let Some(driver) = &row.driver else { return Ok((COMMAND.to_owned(), None)) };
    let entry = drivers.find(driver.get_ref());
    if entry.is_none() && ![COMMAND, THRONG, CLAUDE].contains(&driver.get_ref().as_str()) {
        return Err(source.error(Some(&driver.span()), drivers.unknown(driver.get_ref())));
    }
    Ok((driver.get_ref().clone(), entry))
}

/// Program and arguments of the driver `command`, which has no other options.
fn command<'a>(source: &Source, row: &'a FileMember) -> Result<&'a [String], Error> {
    let name = row.name.get_ref();
    let texts = [&row.agent, &row.model, &row.permission_mode, &row.effort];
    let keys = ["agent", "model", "permission_mode", "effort"];
    let given = texts.iter().zip(keys).find_map(|(text, key)| Some((text.as_ref()?.span(), key)));
    let given = given.or_else(|| Some((row.plan_required.as_ref()?.span(), "plan_required")));
    let given = given.or_else(|| Some((row.args.as_ref()?.span(), "args")));
    if let Some((span, key)) = given {
        let problem =
            format!("{key} is for agent programs: add driver = \"{CLAUDE}\", or put it into command");
        return Err(source.error(Some(&span), problem));
    }
    if let Some(command) = row.command.as_ref().filter(|c| c.get_ref().first().is_some_and(|p| !p.is_empty()))
    {
        return Ok(command.get_ref());
    }
    let at = row.command.as_ref().map_or(row.name.span(), Spanned::span);
    let problem = format!("member '{name}' has no command: add command = [\"PROGRAM\", ...], or a driver");
    Err(source.error(Some(&at), problem))
}

fn options(
    source: &Source,
    row: &FileMember,
    fill: impl Fn(&String) -> String,
) -> Result<AgentOptions, Error> {
    if let Some(command) = &row.command {
        let problem = "a member with a driver has no command: write args = [...] for further arguments";
        return Err(source.error(Some(&command.span()), problem));
    }
    if let Some(tty) = row.tty.as_ref().filter(|tty| !*tty.get_ref()) {
        let problem = "an agent program takes part only on a terminal: leave tty out (no real one is needed)";
        return Err(source.error(Some(&tty.span()), problem));
    }
    let text = |text: &Option<Text>| match text {
        Some(text) if text.get_ref().trim().is_empty() => {
            Err(source.error(Some(&text.span()), "an empty text says nothing: leave the key out"))
        }
        text => Ok(text.as_ref().map(|text| text.get_ref().clone())),
    };
    Ok(AgentOptions {
        agent: text(&row.agent)?,
        model: text(&row.model)?,
        permission_mode: word(source, "permission_mode", row.permission_mode.as_ref())?,
        plan_required: row.plan_required.as_ref().is_some_and(|is| *is.get_ref()),
        effort: text(&row.effort)?,
        args: row.args.as_ref().map_or(Vec::new(), |args| args.get_ref().iter().map(fill).collect()),
    })
}

/// The first message: as it stands, or what a file beside the team file holds.
fn prompt(source: &Source, row: &FileMember, dir: &Path) -> Result<Option<String>, Error> {
    match (&row.prompt, &row.prompt_file) {
        (Some(_), Some(file)) => {
            Err(source.error(Some(&file.span()), "prompt and prompt_file are both there: leave one out"))
        }
        (prompt, None) => Ok(prompt.as_ref().map(|text| text.get_ref().clone())),
        (None, Some(file)) => {
            let path = dir.join(file.get_ref());
            let text = std::fs::read_to_string(&path);
            text.map(Some)
                .map_err(|e| source.error(Some(&file.span()), format!("cannot read {}: {e}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Plan;

    fn read(member: &str) -> Result<MemberPlan, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("team.toml");
        std::fs::write(dir.path().join("p.md"), "Look.\n").unwrap();
        std::fs::write(&path, format!("[team]\nname = \"t\"\n[[member]]\nname = \"a\"\n{member}")).unwrap();
        let plan = Plan::read(&path, &Drivers::built_in().unwrap()).map_err(|e| e.to_string());
        plan.map(|mut plan| plan.members.remove(0))
            .map_err(|e| e.rsplit("team.toml:").next().unwrap().to_owned())
    }

    #[test]
    fn an_agent_program_has_options_and_no_command() {
        let text = "driver = \"claude\"\nmodel = \"m\"\nagent = \"general-purpose\"\npermission_mode = \"acceptEdits\"\nplan_required = true\neffort = \"low\"\nargs = [\"--verbose\"]\nprompt_file = \"p.md\"";
        let member = read(text).unwrap();
        assert_eq!((member.driver.as_str(), member.prompt.as_deref()), (CLAUDE, Some("Look.\n")));
        let options = AgentOptions {
            agent: Some("general-purpose".into()),
            model: Some("m".into()),
            permission_mode: PermissionMode::AcceptEdits,
            plan_required: true,
            effort: Some("low".into()),
            args: vec!["--verbose".into()],
        };
        assert_eq!(member.agent, options);
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_the_way_out() {
        for (text, expected) in [
            ("driver = \"cluade\"", "5: unknown driver 'cluade': did you mean 'claude'?"),
            (
                "command = [\"x\"]\nmodel = \"m\"",
                "6: model is for agent programs: add driver = \"claude\", or put it into command",
            ),
            (
                "driver = \"claude\"\ncommand = [\"x\"]",
                "6: a member with a driver has no command: write args = [...] for further arguments",
            ),
            (
                "driver = \"claude\"\ntty = false",
                "6: an agent program takes part only on a terminal: leave tty out (no real one is needed)",
            ),
            (
                "driver = \"claude\"\npermission_mode = \"bypass\"",
                "6: unknown permission_mode 'bypass': known: default, acceptEdits, plan, bypassPermissions, auto, dontAsk",
            ),
            ("driver = \"claude\"\nmodel = \" \"", "6: an empty text says nothing: leave the key out"),
            (
                "command = [\"x\"]\nprompt = \"p\"\nprompt_file = \"p.md\"",
                "7: prompt and prompt_file are both there: leave one out",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
        assert!(read("command = [\"x\"]\nprompt_file = \"q.md\"").unwrap_err().contains("cannot read"));
    }
}
