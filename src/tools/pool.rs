//! Which tools an agent has: the layers of D6 as one pure function. What a call may do is decided by the permission rules,
//! each time; what is not in the pool is not even told to the model.

/// No sub-agent has these. `Agent` comes back for built-in agents that may nest.
const NOT_FOR_SUB_AGENTS: [&str; 7] = [
    "TaskOutput",
    "EnterPlanMode",
    "ExitPlanMode",
    "AskUserQuestion",
    "TaskStop",
    "Agent",
    // Only members of a team write letters.
    "SendMessage",
];
/// What an agent in the background has at most: nothing that asks a person or needs the conversation of its parent.
const IN_BACKGROUND: [&str; 15] = [
    "Read",
    "Grep",
    "Glob",
    "Bash",
    "Edit",
    "Write",
    "WebSearch",
    "WebFetch",
    "TodoWrite",
    "NotebookEdit",
    "Skill",
    "SyntheticOutput",
    "ToolSearch",
    "EnterWorktree",
    "ExitWorktree",
];
/// All that a coordinator has.
const FOR_COORDINATORS: [&str; 4] = ["Agent", "SendMessage", "TaskStop", "SyntheticOutput"];
/// What a teammate has even if its definition's `tools` do not name it: without these it is no member.
const FOR_TEAMMATES: [&str; 5] = ["SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// A tool that may come into a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose it is.
    pub origin: Origin,
}

/// Whose a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Ours.
    Own,
    /// An MCP server's, which says that it only reads.
    McpReadOnly,
    /// An MCP server's, which may write.
    Mcp,
}

/// What an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The main loop.
    Main,
    /// The main loop in coordinator mode.
    Coordinator,
    /// A member of a team.
    Teammate(Planning),
    /// An agent that works for another one.
    SubAgent(Source, Runs, Nesting),
}

/// Whether a teammate must have its plan approved first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planning {
    /// It must.
    Yes,
    /// It need not.
    No,
}

/// Where an agent's definition is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From us.
    BuiltIn,
    /// From a file, a plugin, a flag or an MCP server.
    Custom,
}

/// Whether its parent waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// It does.
    Foreground,
    /// It does not.
    Background,
}

/// Whether the user's depth limit leaves room for an agent below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// It does.
    Allowed,
    /// It does not.
    Forbidden,
}

/// Whether an agent may only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// It may write.
    #[default]
    All,
    /// It is a read-only agent.
    ReadOnly,
}

/// What an agent's definition says of tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lists<'a> {
    /// `tools`: what it has; nothing said or `*`: all.
    pub tools: Option<&'a [String]>,
    /// `disallowedTools`: what it has not.
    pub disallowed: &'a [String],
    /// Whether it is a read-only agent: of MCP tools it gets those that only read.
    pub reach: Reach,
}

/// The tools of an agent, in the order of `candidates`.
pub fn pool<'a>(candidates: &[Candidate<'a>], kind: Kind, lists: &Lists<'_>) -> Vec<&'a str> {
    let has = |candidate: &&Candidate<'_>| {
        let Candidate { name, origin } = **candidate;
        let is_mcp = origin != Origin::Own;
        let of_kind = match kind {
            Kind::Coordinator => FOR_COORDINATORS.contains(&name),
            _ if is_mcp => true,
            Kind::Main | Kind::Teammate(Planning::Yes) => true,
            Kind::Teammate(Planning::No) => name != "ExitPlanMode",
            Kind::SubAgent(source, runs, nesting) => {
                let is_nesting = name == "Agent" && source == Source::BuiltIn && nesting == Nesting::Allowed;
                (is_nesting || !NOT_FOR_SUB_AGENTS.contains(&name))
                    && (runs == Runs::Foreground || IN_BACKGROUND.contains(&name))
            }
        };
        let is_member = matches!(kind, Kind::Teammate(_)) && !is_mcp;
        let is_always = is_member
            && (FOR_TEAMMATES.contains(&name)
                || (name == "ExitPlanMode" && kind == Kind::Teammate(Planning::Yes)));
        let is_listed = is_always || lists.tools.is_none_or(|tools| names(tools, name));
        let is_within_reach = lists.reach == Reach::All || origin != Origin::Mcp;
        of_kind && is_listed && !names(lists.disallowed, name) && is_within_reach
    };
    candidates.iter().filter(has).map(|candidate| candidate.name).collect()
}

/// Whether a list of a definition names a tool: by its name, with a specifier behind it or not, as `*`, or by its MCP
/// server (`mcp__server` or `mcp__server__*`).
fn names(list: &[String], name: &str) -> bool {
    list.iter().any(|entry| {
        let entry = entry.split('(').next().unwrap_or_default().trim();
        let server = entry.strip_suffix("__*").unwrap_or(entry);
        let is_server = server.starts_with("mcp__")
            && !server.trim_start_matches("mcp__").contains("__")
            && name.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"));
        entry == "*" || entry == name || is_server
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [&str; 24] = [
        "Bash",
        "Read",
        "Edit",
        "Write",
        "Glob",
        "Grep",
        "WebFetch",
        "WebSearch",
        "TodoWrite",
        "NotebookEdit",
        "Skill",
        "ToolSearch",
        "SyntheticOutput",
        "TaskCreate",
        "TaskList",
        "SendMessage",
        "Agent",
        "TaskStop",
        "TaskOutput",
        "AskUserQuestion",
        "EnterPlanMode",
        "ExitPlanMode",
        "EnterWorktree",
        "ExitWorktree",
    ];

    fn candidates() -> Vec<Candidate<'static>> {
        let own = OWN.into_iter().map(|name| Candidate { name, origin: Origin::Own });
        let mcp = [
            ("mcp__db__read", Origin::McpReadOnly),
            ("mcp__db__write", Origin::Mcp),
            ("mcp__dbx__w", Origin::Mcp),
        ];
        own.chain(mcp.map(|(name, origin)| Candidate { name, origin })).collect()
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// All of `from` but `without`.
    fn but(without: &[&str]) -> Vec<&'static str> {
        candidates().iter().map(|c| c.name).filter(|name| !without.contains(name)).collect()
    }

    #[test]
    fn goal_d6_the_layers_by_kind() {
        let all = Lists::default();
        let of = |kind| pool(&candidates(), kind, &all);
        let global = [
            "SendMessage",
            "Agent",
            "TaskStop",
            "TaskOutput",
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
        ];
        let nesting: Vec<&str> = global.into_iter().filter(|name| *name != "Agent").collect();
        let board = ["TaskCreate", "TaskList"];
        let background: Vec<&str> = global.into_iter().chain(board).collect();
        use {Nesting::*, Runs::*, Source::*};
        for (kind, expected) in [
            (Kind::Main, but(&[])),
            (Kind::Coordinator, vec!["SyntheticOutput", "SendMessage", "Agent", "TaskStop"]),
            (Kind::Teammate(Planning::No), but(&["ExitPlanMode"])),
            (Kind::Teammate(Planning::Yes), but(&[])),
            (Kind::SubAgent(BuiltIn, Foreground, Forbidden), but(&global)),
            (Kind::SubAgent(BuiltIn, Foreground, Allowed), but(&nesting)),
            (Kind::SubAgent(Custom, Foreground, Allowed), but(&global)),
            (Kind::SubAgent(Custom, Foreground, Forbidden), but(&global)),
            (Kind::SubAgent(BuiltIn, Background, Allowed), but(&background)),
            (Kind::SubAgent(Custom, Background, Forbidden), but(&background)),
        ] {
            assert_eq!(of(kind), expected, "{kind:?}");
        }
    }

    #[test]
    fn goal_d6_the_lists_of_a_definition() {
        let sub = Kind::SubAgent(Source::Custom, Runs::Foreground, Nesting::Forbidden);
        let member = Kind::Teammate(Planning::Yes);
        let of = |kind, tools: Option<&[&str]>, disallowed: &[&str], reach| {
            let (tools, disallowed) = (tools.map(strings), strings(disallowed));
            let lists = Lists { tools: tools.as_deref(), disallowed: &disallowed, reach };
            pool(&candidates(), kind, &lists)
        };
        let is = |got: Vec<&str>, expected: &[&str]| assert_eq!(got, expected);
        is(of(sub, Some(&["Read", "Bash(git *)", "Agent", "Nothing"]), &[], Reach::All), &["Bash", "Read"]);
        assert_eq!(
            of(sub, Some(&["*"]), &["Bash"], Reach::All).len(),
            of(sub, None, &[], Reach::All).len() - 1
        );
        is(of(sub, Some(&[]), &[], Reach::All), &[]);
        is(of(sub, Some(&["Read", "mcp__db"]), &["Read"], Reach::All), &["mcp__db__read", "mcp__db__write"]);
        is(of(sub, Some(&["mcp__db__*"]), &["mcp__db__write"], Reach::All), &["mcp__db__read"]);
        is(of(sub, Some(&["Read", "mcp__db", "mcp__dbx"]), &[], Reach::ReadOnly), &["Read", "mcp__db__read"]);
        is(of(sub, None, &["*"], Reach::All), &[]);
        is(of(Kind::Coordinator, Some(&["Agent", "Bash", "mcp__db"]), &[], Reach::All), &["Agent"]);
        let always = ["Read", "TaskCreate", "TaskList", "SendMessage", "ExitPlanMode"];
        is(of(member, Some(&["Read"]), &[], Reach::All), &always);
        is(
            of(member, Some(&["Read"]), &["SendMessage"], Reach::All),
            &["Read", "TaskCreate", "TaskList", "ExitPlanMode"],
        );
    }
}
