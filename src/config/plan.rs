//! The team file `team.toml` (I2): what a user wants to run, checked strictly before anything starts.

pub use super::member::{AgentOptions, CLAUDE, COMMAND, MemberPlan, THRONG};
pub use super::word::{BackendChoice, LeaderDeath, PermissionMode, Placement, Restart, Word};

use super::approvals::{self, FileApprovals, Policy};
use super::drivers::Rows;
use super::source::Source;
use super::word::words;
use super::{Drivers, Error, member};
use crate::protocol::{AgentName, TeamName};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most members of one team, unless the file says otherwise.
pub const AGENTS_DEFAULT: usize = 16;

/// Deepest chain of members that spawn members, unless the file says otherwise: a member of the leader's has depth 1.
pub const DEPTH_DEFAULT: u32 = 2;
/// Least free memory before a spawn, in megabytes, unless the file says otherwise.
pub const MEMORY_FREE_MB_DEFAULT: u64 = 100;
/// Starts a second that make sense.
const START_RATES: std::ops::RangeInclusive<f64> = 0.01..=1000.0;

const KEYS: [&str; 6] = ["team", "limits", "approvals", "member", "task", "driver"];
const TEAM_KEYS: [&str; 6] = ["name", "backend", "placement", "cwd", "inherit_env", "on_leader_death"];
const LIMITS_KEYS: [&str; 5] = ["agents", "depth", "memory_free_mb", "start_rate_per_s", "run_timeout"];
const TASK_KEYS: [&str; 5] = ["key", "subject", "description", "owner", "blocked_by"];

/// A checked team file.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Team name.
    pub name: TeamName,
    /// Where members are to live.
    pub backend: BackendChoice,
    /// Where in tmux.
    pub placement: Placement,
    /// The team file's directory, absolute.
    pub dir: PathBuf,
    /// Working directory of the team, absolute.
    pub cwd: PathBuf,
    /// What becomes of it when its leader dies, if it is up.
    pub on_leader_death: LeaderDeath,
    /// Caps.
    pub limits: Limits,
    /// Who answers what members ask.
    pub approvals: Policy,
    /// The drivers of its own.
    pub drivers: Rows,
    /// Members in the file's order.
    pub members: Vec<MemberPlan>,
    /// Tasks in the file's order.
    pub tasks: Vec<TaskPlan>,
}

/// What a team may use (I7).
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Most members at once.
    pub agents: usize,
    /// Deepest chain of members that spawn members.
    pub depth: u32,
    /// Least free memory before a spawn, in megabytes.
    pub memory_free_mb: u64,
    /// Most starts a second; `None` is no limit.
    pub start_rate_per_s: Option<f64>,
    /// Longest duration of a `run`.
    pub run_timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            agents: AGENTS_DEFAULT,
            depth: DEPTH_DEFAULT,
            memory_free_mb: MEMORY_FREE_MB_DEFAULT,
            start_rate_per_s: None,
            run_timeout: None,
        }
    }
}

/// One task to be.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPlan {
    /// The file's own name for it.
    pub key: String,
    /// One line.
    pub subject: String,
    /// All there is to know.
    pub description: String,
    /// Member it belongs to.
    pub owner: Option<AgentName>,
    /// Keys of the tasks it waits for.
    pub blocked_by: Vec<String>,
}

pub(super) type Text = Spanned<String>;

#[derive(Deserialize)]
struct File {
    team: FileTeam,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    approvals: FileApprovals,
    #[serde(default)]
    member: Vec<member::FileMember>,
    #[serde(default)]
    task: Vec<FileTask>,
}

#[derive(Deserialize)]
struct FileTeam {
    name: Text,
    backend: Option<Text>,
    placement: Option<Text>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    inherit_env: Vec<String>,
    on_leader_death: Option<Text>,
}

#[derive(Deserialize, Default)]
struct FileLimits {
    agents: Option<usize>,
    depth: Option<u32>,
    memory_free_mb: Option<u64>,
    start_rate_per_s: Option<Spanned<f64>>,
    run_timeout: Option<Spanned<toml::Value>>,
}

#[derive(Deserialize)]
struct FileTask {
    key: Text,
    subject: String,
    #[serde(default)]
    description: String,
    owner: Option<Text>,
    #[serde(default)]
    blocked_by: Vec<Text>,
}

impl Plan {
    /// Reads and checks a team file, with these drivers and its own; `path` may be the directory that holds a `team.toml`.
    ///
    /// # Errors
    /// File, line and the nearest known word.
    pub fn read(path: &Path, drivers: &Drivers) -> Result<Plan, Error> {
        let path = if path.is_dir() { path.join("team.toml") } else { path.to_owned() };
        let path = std::path::absolute(&path).unwrap_or(path);
        let source = Source::read(&path)?;
        check_keys(&source)?;
        let file: File = toml::from_str(&source.text)
            .map_err(|e| source.error(e.span().as_ref(), with_way_out(e.message().trim())))?;
        let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
        let mut drivers = drivers.clone();
        drivers.add_file(&source)?;
        let members = member::members(&source, &file.member, (&dir, &file.team.inherit_env), &drivers)?;
        let tasks = tasks(&source, &file, &members)?;
        if tasks.is_empty() {
            for (plan, file) in members.iter().zip(&file.member) {
                if plan.restart == Restart::Always {
                    let span = file.restart.as_ref().map(Spanned::span);
                    let problem = "restart = \"always\" without a [[task]] would never end: add a task, or use \"on-failure\"";
                    return Err(source.error(span.as_ref(), problem));
                }
            }
        }
        let limits = limits(&source, &file.limits)?;
        if members.len() > limits.agents {
            let problem = format!("{} members, but limits.agents is {}", members.len(), limits.agents);
            return Err(source.error(file.member.get(limits.agents).map(|m| m.name.span()).as_ref(), problem));
        }
        Ok(Plan {
            name: TeamName::new(file.team.name.get_ref())
                .map_err(|e| source.error(Some(&file.team.name.span()), e.to_string()))?,
            backend: word(&source, "backend", file.team.backend.as_ref())?,
            placement: word(&source, "placement", file.team.placement.as_ref())?,
            on_leader_death: word(&source, "on_leader_death", file.team.on_leader_death.as_ref())?,
            cwd: dir.join(file.team.cwd.as_deref().unwrap_or(Path::new("."))).components().collect(),
            approvals: approvals::policy(&source, &file.approvals, &dir)?,
            drivers: drivers.rows_of(&path),
            dir,
            limits,
            members,
            tasks,
        })
    }
}

/// A complaint about a type, with what to write instead.
fn with_way_out(complaint: &str) -> String {
    let way_out = match complaint {
        c if c.contains("map, expected a sequence") => {
            ": members and tasks are written [[member]] and [[task]]"
        }
        c if c.contains("expected a sequence") => ": write a list, for example [\"sh\", \"-c\", \"true\"]",
        c if c.contains("missing field `team`") => ": begin with [team] and name = \"...\"",
        _ => "",
    };
    format!("{complaint}{way_out}")
}

/// Refuses keys that nobody reads.
fn check_keys(source: &Source) -> Result<(), Error> {
    let root = DeTable::parse(&source.text)
        .map_err(|e| source.error(e.span().as_ref(), e.message().trim().to_owned()))?;
    let known = |table: &DeTable<'_>, what: &str, keys: &[&str]| match table
        .keys()
        .find(|key| !keys.contains(&key.get_ref().as_ref()))
    {
        Some(key) => Err(source.unknown((&key.span(), what), key.get_ref(), keys)),
        None => Ok(()),
    };
    known(root.get_ref(), "key", &KEYS)?;
    for (key, value) in root.get_ref() {
        if key.get_ref() == "approvals" {
            approvals::check_keys(source, value.get_ref())?;
            continue;
        }
        let (what, keys): (&str, &[&str]) = match key.get_ref().as_ref() {
            "team" => ("key of [team]", &TEAM_KEYS),
            "limits" => ("key of [limits]", &LIMITS_KEYS),
            "member" => ("key of [[member]]", &member::KEYS),
            // The table of drivers checks them.
            "driver" => continue,
            _ => ("key of [[task]]", &TASK_KEYS),
        };
        match value.get_ref() {
            DeValue::Table(table) => known(table, what, keys)?,
            DeValue::Array(rows) => {
                for row in rows {
                    if let DeValue::Table(table) = row.get_ref() {
                        known(table, what, keys)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn word<W: Word + Default>(source: &Source, what: &str, text: Option<&Text>) -> Result<W, Error> {
    let Some(text) = text else { return Ok(W::default()) };
    W::parse(text.get_ref()).map_err(|_| source.unknown((&text.span(), what), text.get_ref(), &words::<W>()))
}

fn limits(source: &Source, file: &FileLimits) -> Result<Limits, Error> {
    let run_timeout = file.run_timeout.as_ref().map(|value| source.duration(value)).transpose()?;
    if let Some(rate) = &file.start_rate_per_s
        && !START_RATES.contains(rate.get_ref())
    {
        let (low, high) = (START_RATES.start(), START_RATES.end());
        return Err(
            source.error(Some(&rate.span()), format!("start_rate_per_s must be from {low} to {high}"))
        );
    }
    Ok(Limits {
        agents: file.agents.unwrap_or(AGENTS_DEFAULT),
        depth: file.depth.unwrap_or(DEPTH_DEFAULT),
        memory_free_mb: file.memory_free_mb.unwrap_or(MEMORY_FREE_MB_DEFAULT),
        start_rate_per_s: file.start_rate_per_s.as_ref().map(|rate| *rate.get_ref()),
        run_timeout,
    })
}

fn tasks(source: &Source, file: &File, members: &[MemberPlan]) -> Result<Vec<TaskPlan>, Error> {
    let keys: Vec<&str> = file.task.iter().map(|t| t.key.get_ref().as_str()).collect();
    let mut tasks: Vec<TaskPlan> = Vec::new();
    for (i, row) in file.task.iter().enumerate() {
        let key = row.key.get_ref();
        if key.is_empty() || key.bytes().all(|b| b.is_ascii_digit()) {
            return Err(
                source.error(Some(&row.key.span()), format!("'{key}' is no task key: numbers are the ids"))
            );
        }
        if keys[..i].contains(&key.as_str()) {
            return Err(source.error(Some(&row.key.span()), format!("task '{key}' is there twice")));
        }
        let mut owner = None;
        if let Some(name) = &row.owner {
            let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
            let found = members.iter().find(|m| m.name.as_str() == name.get_ref());
            owner =
                Some(found.ok_or_else(|| source.unknown((&name.span(), "owner"), name.get_ref(), &names))?);
        }
        for blocker in &row.blocked_by {
            if !keys.contains(&blocker.get_ref().as_str()) {
                return Err(source.unknown(
                    (&blocker.span(), "task in blocked_by"),
                    blocker.get_ref(),
                    &keys,
                ));
            }
        }
        tasks.push(TaskPlan {
            key: key.clone(),
            subject: row.subject.clone(),
            description: row.description.clone(),
            owner: owner.map(|m| m.name.clone()),
            blocked_by: row.blocked_by.iter().map(|b| b.get_ref().clone()).collect(),
        });
    }
    if let Some(stuck) = in_a_cycle(&tasks) {
        let chain = stuck.iter().map(|t| t.key.as_str()).collect::<Vec<_>>().join("' -> '");
        let row = file.task.iter().find(|row| stuck.first().is_some_and(|t| t.key == *row.key.get_ref()));
        let problem = format!("tasks wait for each other: '{chain}'");
        return Err(source.error(row.map(|r| r.key.span()).as_ref(), problem));
    }
    Ok(tasks)
}

/// A cycle in `blocked_by`, from its first task back to it.
fn in_a_cycle(tasks: &[TaskPlan]) -> Option<Vec<&TaskPlan>> {
    let by_key = |key: &String| tasks.iter().find(|t| t.key == *key);
    // A task can be done once all it waits for can; what remains holds a cycle.
    let mut open: Vec<&TaskPlan> = tasks.iter().collect();
    loop {
        let before = open.len();
        let still = open.clone();
        open.retain(|t| t.blocked_by.iter().any(|b| still.iter().any(|s| s.key == *b)));
        if open.len() == before {
            break;
        }
    }
    let mut chain = vec![*open.first()?];
    loop {
        let next = chain
            .last()?
            .blocked_by
            .iter()
            .filter_map(by_key)
            .find(|t| open.iter().any(|o| o.key == t.key))?;
        if let Some(start) = chain.iter().position(|t| t.key == next.key) {
            chain.push(next);
            return Some(chain.split_off(start));
        }
        chain.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("team.toml");
        std::fs::write(&path, text).unwrap();
        Plan::read(&path, &Drivers::built_in().unwrap())
    }

    fn problem(text: &str) -> String {
        let error = plan(text).unwrap_err().to_string();
        error[error.find("team.toml:").expect("file named") + "team.toml:".len()..].to_owned()
    }

    const HEAD: &str = "[team]\nname = \"t\"\n";
    const A: &str = "[[member]]\nname = \"a\"\ncommand = [\"true\"]\n";

    #[test]
    fn defaults_and_directories() {
        let timed = plan(&format!("{HEAD}{A}[limits]\nrun_timeout = 5\n")).unwrap();
        assert_eq!(timed.limits.run_timeout, Some(Duration::from_secs(5)));
        let text = format!(
            "{HEAD}cwd = \"crate\"\n{A}[[member]]\nname = \"b\"\ncommand = [\"sh\", \"{{dir}}/x.sh\"]\ntty = false\n"
        );
        let plan = plan(&text).unwrap();
        assert_eq!(plan.cwd, plan.dir.join("crate"));
        assert_eq!(plan.members[1].command[1], format!("{}/x.sh", plan.dir.display()));
        assert_eq!(
            (plan.backend, plan.members[0].tty, plan.members[1].tty),
            (BackendChoice::Auto, true, false)
        );
        assert_eq!(plan.limits, Limits::default());
    }

    #[test]
    fn each_mistake_is_named_with_its_line_and_the_nearest_word() {
        for (text, expected) in [
            ("[taem]\nname = \"t\"", "1: unknown key 'taem': did you mean 'team'?"),
            (
                "[team]\nname = \"t\"\nbakcend = \"tmux\"",
                "3: unknown key of [team] 'bakcend': did you mean 'backend'?",
            ),
            ("[team]\nname = \"t\"\nbackend = \"tmx\"", "3: unknown backend 'tmx': did you mean 'tmux'?"),
            (
                "[team]\nname = \"T t\"",
                "2: 'T t' is no team name: a to z, 0 to 9 and '-', beginning with a letter or digit, at most 63",
            ),
            ("[team]\n", "1: missing field `name`"),
            (
                "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = \"true\"",
                "5: invalid type: string \"true\", expected a sequence: write a list, for example [\"sh\", \"-c\", \"true\"]",
            ),
            ("[team]\nname = 3", "2: invalid type: integer `3`, expected a string"),
            (
                "[team]\nname = \"t\"\n[limits]\nrun_timeout = \"soon\"",
                "4: 'soon' is no span of time: write for example 500ms, 90s, 10m or 1h30m",
            ),
            (
                "[team]\nname = \"t\"\n[[member]]\nname = \"a\"",
                "4: member 'a' has no command: add command = [\"PROGRAM\", ...], or a driver",
            ),
            (
                "[team]\nname = \"t\"\n[[member]]\nname = \"lead\"\ncommand = [\"x\"]",
                "4: 'lead' is a reserved name: choose another for a teammate",
            ),
        ] {
            assert_eq!(problem(text), expected);
        }
        let twice = format!("{HEAD}{A}[[member]]\nname = \"A\"\ncommand = [\"true\"]");
        assert_eq!(problem(&twice), "7: member 'A' is there twice (as 'a')");
        let owner = format!("{HEAD}{A}[[task]]\nkey = \"k\"\nsubject = \"s\"\nowner = \"aa\"");
        assert_eq!(problem(&owner), "9: unknown owner 'aa': did you mean 'a'?");
        let limit = format!("{HEAD}{A}[[member]]\nname = \"b\"\ncommand = [\"true\"]\n[limits]\nagents = 1");
        assert_eq!(problem(&limit), "7: 2 members, but limits.agents is 1");
        let always = format!("{HEAD}{A}restart = \"always\"");
        assert!(problem(&always).starts_with("6: restart = \"always\" without a [[task]]"));
    }

    #[test]
    fn a_cycle_is_named_with_its_chain() {
        let text = format!(
            "{HEAD}{A}[[task]]\nkey = \"x\"\nsubject = \"\"\n[[task]]\nkey = \"y\"\nsubject = \"\"\nblocked_by = [\"z\", \"x\"]\n[[task]]\nkey = \"z\"\nsubject = \"\"\nblocked_by = [\"y\"]"
        );
        assert_eq!(problem(&text), "10: tasks wait for each other: 'y' -> 'z' -> 'y'");
    }
}
