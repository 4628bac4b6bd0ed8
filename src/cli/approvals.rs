//! `throng approvals`: what teammates ask of their leader, and answering it. Works with and without a leader.

use super::context::{Context, agent};
use super::error::{Failure, Result};
use super::out::{Paint, age};
use crate::launch;
use crate::leader::{self, Asked, Standing};
use crate::protocol::approval::{Ask, Kind, MODES, PLAN_MODE_DEFAULT, Request, Terms, Verdict};
use crate::protocol::body::harmless_lines;
use crate::store::{Answer, Answered, By, Given, TeamStore};
use crate::sys::watch::DirWatch;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Longest line of a list in characters.
const LINE_CHARS_MAX: usize = 120;
/// Longest time between two looks.
const POLL: Duration = Duration::from_secs(1);

/// Show what teammates ask, and answer it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a verb it lists. ID is the number of the list, the request's own id or its beginning, or the name of a
teammate that asks one thing only.

Example:
  throng approvals --all
  throng approvals approve 1"
)]
pub struct Approvals {
    #[command(flatten)]
    list: List,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List what waits for an answer
    List(List),
    /// Show all of a request
    #[command(after_help = "Example:\n  throng approvals show 1")]
    Show(Show),
    /// Say yes
    Approve(Approve),
    /// Say no
    #[command(after_help = "Example:\n  throng approvals deny 1 --feedback 'not on this branch'")]
    Deny(Deny),
}

/// List what waits for an answer
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng approvals list --all")]
struct List {
    /// Of all teams
    #[arg(long)]
    all: bool,
    /// Print new ones as they come, and what is answered
    #[arg(long)]
    watch: bool,
}

/// Show all of a request
#[derive(Debug, clap::Args)]
struct Show {
    /// Which
    id: String,
}

/// Say yes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  throng approvals approve 1
  throng approvals approve bob --mode acceptEdits
  throng approvals approve 2 --input '{\"command\": \"cargo test\"}'")]
struct Approve {
    /// Which
    id: String,
    /// Permission mode in which an approved plan goes on (default: default)
    #[arg(long, value_name = "MODE", value_parser = MODES)]
    mode: Option<String>,
    /// Allow the like of it for the rest of its session too, as the request suggests
    #[arg(long)]
    always: bool,
    /// What the tool gets, instead of what was asked: a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    input: Option<Value>,
}

/// Say no
#[derive(Debug, clap::Args)]
struct Deny {
    /// Which
    id: String,
    /// Why, and what to do instead
    #[arg(long, value_name = "TEXT", default_value = "")]
    feedback: String,
}

fn object(text: &str) -> std::result::Result<Value, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(e) => Err(format!("it is no JSON: {e}")),
    }
}

/// Dispatches.
pub fn approvals(verb: &Approvals, context: &mut Context) -> Result {
    if verb.verb.is_some() && (verb.list.all || verb.list.watch) {
        return Err(Failure::usage(
            "--all and --watch are for the list: write them after 'list', or leave the verb out",
        ));
    }
    match &verb.verb {
        None => list(&verb.list, context),
        Some(Verb::List(verb)) => list(verb, context),
        Some(Verb::Show(verb)) => show(verb, context),
        Some(Verb::Approve(verb)) => approve(verb, context),
        Some(Verb::Deny(verb)) => {
            let (store, asked) = find(&verb.id, context)?;
            answer((&store, &asked), Verdict::Deny(verb.feedback.clone()), context)
        }
    }
}

fn asked(store: &TeamStore) -> Result<Vec<Asked>> {
    Ok(leader::asked(store, &launch::observe(store)?)?)
}

fn as_json(asked: &Asked, store: &TeamStore) -> Value {
    let mut about = leader::about(asked);
    about["team"] = json!(store.name());
    about["state"] = json!(match &asked.approval.answered {
        Some(answered) if answered.allow => "allowed",
        Some(_) => "denied",
        None if asked.is_open() => "pending",
        None => "void",
    });
    about["answered"] = json!(asked.approval.answered);
    about
}

/// The teams that are meant.
fn teams(list: &List, context: &Context) -> Result<Vec<TeamStore>> {
    match list.all {
        true => {
            Ok(context.store.teams().into_iter().filter(TeamStore::exists).map(TeamStore::at_home).collect())
        }
        false => Ok(vec![context.team()?]),
    }
}

fn list(list: &List, context: &mut Context) -> Result {
    if list.watch {
        return watch(list, context);
    }
    let mut open: Vec<(TeamStore, Asked)> = Vec::new();
    for store in teams(list, context)? {
        match asked(&store) {
            Ok(all) => open.extend(all.into_iter().filter(Asked::is_open).map(|a| (store.clone(), a))),
            // One team that cannot be read hides no other.
            Err(_) if list.all => {}
            Err(e) => return Err(e),
        }
    }
    if context.out.json {
        let all: Vec<Value> = open.iter().map(|(store, asked)| as_json(asked, store)).collect();
        return context.out.json(&json!({"approvals": all}));
    }
    if open.is_empty() {
        return context.out.line("nobody asks for anything");
    }
    let rows: Vec<Vec<String>> = open.iter().map(|(store, asked)| row(asked, store, list)).collect();
    context.out.table(&rows)?;
    context.out.line("next: 'throng approvals show ID', 'approve ID' or 'deny ID --feedback TEXT'")
}

fn row(asked: &Asked, store: &TeamStore, list: &List) -> Vec<String> {
    let approval = &asked.approval;
    let stranger = if asked.standing == Standing::Stranger { " (no member)" } else { "" };
    let mut cells = vec![
        approval.number.to_string(),
        format!("{}{stranger}", approval.from),
        approval.kind.word().to_owned(),
        age(&approval.asked),
        approval.what.chars().take(LINE_CHARS_MAX).collect(),
    ];
    if list.all {
        cells.insert(0, store.name().to_string());
    }
    cells
}

/// Prints what changes, until the team has ended.
fn watch(list: &List, context: &mut Context) -> Result {
    let mut known: HashMap<(String, String), &'static str> = HashMap::new();
    let mut is_first = true;
    loop {
        let stores = teams(list, context)?;
        let mut dirs = Vec::new();
        for store in &stores {
            dirs.extend([store.layout().inboxes(store.name()), store.state().dir().to_owned()]);
        }
        let events = DirWatch::new(&dirs.iter().map(std::path::PathBuf::as_path).collect::<Vec<_>>());
        for store in &stores {
            // A team may end at any moment, and a file may be half written by another program.
            for asked in asked(store).unwrap_or_default() {
                let state = if asked.is_open() {
                    "approval_requested"
                } else if asked.approval.answered.is_some() {
                    "approval_answered"
                } else {
                    "approval_void"
                };
                let key = (store.name().to_string(), asked.approval.key.clone());
                let is_news = known.insert(key, state) != Some(state);
                // What was over before is no news.
                if is_news && (!is_first || asked.is_open()) {
                    tell(state, &asked, store, context)?;
                }
            }
        }
        is_first = false;
        if !list.all && stores.iter().all(|store| !store.exists()) {
            return Ok(());
        }
        events.wait(POLL);
    }
}

fn tell(event: &str, asked: &Asked, store: &TeamStore, context: &mut Context) -> Result {
    if context.out.json {
        let mut line = json!({"event": event});
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), as_json(asked, store)) {
            line.extend(fields);
        }
        return context.out.json(&line);
    }
    let approval = &asked.approval;
    let said = match &approval.answered {
        Some(answered) => verdict_words(answered, context),
        None if asked.is_open() => approval.what.clone(),
        None => "has ended: nobody waits for the answer any more".to_owned(),
    };
    context.out.line(format!("{} {} {}: {said}", store.name(), approval.number, approval.from))
}

fn verdict_words(answered: &Answered, context: &Context) -> String {
    let word = match answered.allow {
        true => context.out.paint(Paint::Green, "allowed"),
        false => context.out.paint(Paint::Red, "denied"),
    };
    let why = answered.feedback.as_deref().filter(|f| !f.is_empty());
    let why = why.map_or(String::new(), |why| format!(": {}", harmless_lines(why)));
    format!("{word} by {} {} ago{why}", answered.by, age(&answered.time))
}

/// The request that a word means, in whatever state it is.
fn find(word: &str, context: &Context) -> Result<(TeamStore, Asked)> {
    let store = context.team()?;
    let all = asked(&store)?;
    let open: Vec<&Asked> = all.iter().filter(|a| a.is_open()).collect();
    let pending = || {
        let lines = open.iter().map(|a| {
            let approval = &a.approval;
            let what: String = approval.what.chars().take(LINE_CHARS_MAX).collect();
            format!("\n  {}  {} {what}", approval.number, approval.from)
        });
        if open.is_empty() {
            ": nothing is pending".to_owned()
        } else {
            format!("; pending:{}", lines.collect::<String>())
        }
    };
    let of =
        |is_it: &dyn Fn(&Asked) -> bool| all.iter().filter(|a| is_it(a)).cloned().collect::<Vec<Asked>>();
    let number: Option<u64> = word.parse().ok();
    let name = agent(word, &store).ok();
    let exact = of(&|a| Some(a.approval.number) == number || a.approval.id == word);
    let begun = of(&|a| a.is_open() && !word.is_empty() && a.approval.id.starts_with(word));
    let named = of(&|a| a.is_open() && name.as_ref().is_some_and(|n| a.approval.from == *n));
    for mut found in [exact, named, begun] {
        match found.len() {
            0 => {}
            1 => return Ok((store, found.remove(0))),
            // The same id by two askers, or two requests of one.
            _ => return Err(Failure::usage(format!("'{word}' may mean several{}", pending()))),
        }
    }
    Err(Failure::missing(format!("team '{}' has no request '{word}'{}", store.name(), pending())))
}

fn show(verb: &Show, context: &mut Context) -> Result {
    let (store, asked) = find(&verb.id, context)?;
    if context.out.json {
        return context.out.json(&as_json(&asked, &store));
    }
    let approval = &asked.approval;
    let mut lines = vec![format!(
        "approval {} in team {}: {} asks for {}",
        approval.number,
        store.name(),
        approval.from,
        match approval.kind {
            Kind::Permission => "permission to use a tool",
            Kind::Plan => "approval of its plan",
            Kind::Sandbox => "a host to be reached",
        }
    )];
    let mut add = |key: &str, text: &str| {
        if !text.is_empty() {
            let text = harmless_lines(text.trim_end()).replace('\n', "\n             ");
            lines.push(format!("{key:<12} {text}"));
        }
    };
    add("state", &state_words(&asked, context));
    add("asked", &format!("{} ago", age(&approval.asked)));
    add("id", &approval.id);
    match approval.request.as_ref().map(|request| &request.ask) {
        Some(Ask::Permission(request)) => {
            add("tool", &request.tool_name);
            add("for", &request.description);
            add("input", &pretty(&request.input));
            let rules = approval.request.as_ref().map(Request::session_rules);
            for rule in rules.unwrap_or_default() {
                add("with --always", &pretty(&rule));
            }
        }
        Some(Ask::Plan(request)) => {
            add("plan", &request.plan_file_path);
            lines.push(String::new());
            lines.push(harmless_lines(request.plan_content.trim_end()));
        }
        Some(Ask::Sandbox(request)) => add("host", &request.host_pattern.host),
        None => add("asks", &approval.what),
    }
    context.out.line(lines.join("\n"))
}

fn state_words(asked: &Asked, context: &Context) -> String {
    match (&asked.approval.answered, asked.standing) {
        (Some(answered), _) => verdict_words(answered, context),
        (None, Standing::Gone) => format!("void: {} has ended or was started again", asked.approval.from),
        (None, _) if !asked.is_open() => "void: its message is gone".to_owned(),
        (None, Standing::Stranger) => format!("waits; {} is no member of this team", asked.approval.from),
        (None, Standing::Member) => "waits".to_owned(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn approve(verb: &Approve, context: &mut Context) -> Result {
    let (store, asked) = find(&verb.id, context)?;
    let kind = asked.approval.kind;
    let misfit = |flag: &str, what: &str| {
        Err(Failure::usage(format!("{flag} goes with {what}, and this is a {}", kind.word())))
    };
    if verb.mode.is_some() && kind != Kind::Plan {
        return misfit("--mode", "a plan");
    }
    if (verb.input.is_some() || verb.always) && kind != Kind::Permission {
        return misfit(if verb.always { "--always" } else { "--input" }, "a permission");
    }
    let request = asked.approval.request.as_ref();
    let updates = if verb.always { request.map_or(Vec::new(), Request::session_rules) } else { Vec::new() };
    if verb.always && updates.is_empty() && asked.is_open() {
        return Err(Failure::usage("the request suggests no rule for --always: approve it without"));
    }
    let terms = Terms { mode: verb.mode.clone(), input: verb.input.clone(), updates };
    answer((&store, &asked), Verdict::Allow(terms), context)
}

fn answer((store, asked): (&TeamStore, &Asked), verdict: Verdict, context: &mut Context) -> Result {
    let approval = &asked.approval;
    let me = &context.config.me;
    if !me.is_lead() {
        return Err(Failure::usage(format!("only the leader answers, and you are {me} ($THRONG_AGENT)")));
    }
    let who = format!("approval {} of {}", approval.number, approval.from);
    let already = |answered: &Answered, context: &Context| {
        Failure::missing(format!("{who} is answered already: {}", verdict_words(answered, context)))
    };
    if let Some(answered) = &approval.answered {
        return Err(already(answered, context));
    }
    if !asked.is_open() {
        return Err(Failure::missing(format!("{who} is {}", state_words(asked, context))));
    }
    let mode = match (&verdict, approval.kind) {
        (Verdict::Allow(terms), Kind::Plan) => {
            let mode = terms.mode.as_deref().unwrap_or(PLAN_MODE_DEFAULT);
            format!(", it goes on in mode {mode}")
        }
        _ => String::new(),
    };
    match store.answer(&approval.key, &Given { verdict, by: By::Person })? {
        Answer::Sent(answered) => {
            if context.out.json {
                let mut about = as_json(asked, store);
                about["state"] = json!(if answered.allow { "allowed" } else { "denied" });
                about["answered"] = json!(answered);
                return context.out.json(&about);
            }
            let word = if answered.allow { "allowed" } else { "denied" };
            context.out.line(format!("{who}: {word}{mode}"))
        }
        Answer::Already(answered) => Err(already(&answered, context)),
        Answer::Forgotten => Err(Failure::missing(format!("{who} was answered before"))),
        Answer::Gone => Err(Failure::missing(format!("{who} is void: its message is gone"))),
    }
}
