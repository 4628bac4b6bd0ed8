//! `throng status`: who runs, since when, and what waits.

use super::context::{Context, span};
use super::delivery::{self, Mail};
use super::error::{Failure, Result};
use super::out::{Out, Paint, age};
use crate::launch::{self, Activity, Life, MemberView, activity};
use crate::leader::{self, Asked};
use crate::protocol::delivery::State;
use crate::protocol::{AgentName, Task};
use crate::store::{Leader, LeaderMode, Manifest, PlaceRecord, ProgressRecord, TeamStore};
use crate::sys::process::Table;
use crate::sys::watch::DirWatch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Show who runs, since when, and what waits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  throng status --watch
  throng status --json | jq '.members[] | select(.state == \"exited\")'")]
pub struct Status {
    /// Show again on every change
    #[arg(long)]
    watch: bool,
    /// Raise the alarm when a message of somebody alive has waited for longer
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "60s")]
    alarm_after: Duration,
}

/// What is shown of a team.
struct Picture {
    manifest: Option<Manifest>,
    leader: Option<Option<Leader>>,
    members: Vec<(MemberView, Mail)>,
    /// All processes of the machine.
    processes: Table,
    /// What agents of ours have done.
    progress: BTreeMap<AgentName, ProgressRecord>,
    /// Who asked each request that waits for an answer.
    asking: Vec<AgentName>,
    tasks: Vec<Task>,
    /// What is wrong with the task list.
    lost: Option<String>,
    /// What waits for the leader.
    lead: Mail,
    dead_letters: usize,
    /// What could not be read: of it nothing is shown.
    trouble: Vec<String>,
    alarm_after: Duration,
}

/// Shows a team.
pub fn status(verb: &Status, context: &mut Context) -> Result {
    let store = context.team()?;
    if !verb.watch {
        let picture = look(verb, &store)?;
        show(&picture, &store, &mut context.out)?;
        return match picture.trouble.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(picture.trouble.join("\n  "))),
        };
    }
    let inboxes = store.layout().inboxes(store.name());
    let watch = DirWatch::new(&[&store.state().members(), &inboxes, store.tasks().dir()]);
    let mut before = Value::Null;
    loop {
        let picture = look(verb, &store)?;
        let now = without_figures(as_json(&picture, &store));
        // Times pass on a terminal; elsewhere only changes are worth a line.
        if context.out.is_terminal && !context.out.json {
            context.out.bytes(b"\x1b[2J\x1b[H")?;
            show(&picture, &store, &mut context.out)?;
        } else if now != before {
            show(&picture, &store, &mut context.out)?;
        }
        before = now;
        if !store.exists() {
            return Ok(());
        }
        watch.wait(Duration::from_secs(1));
    }
}

/// The picture without what always moves: memory, processes, ages.
fn without_figures(mut picture: Value) -> Value {
    let members = picture["members"].as_array_mut().into_iter().flatten();
    for member in members.filter_map(Value::as_object_mut) {
        member.retain(|key, _| !matches!(key.as_str(), "resident_kb" | "processes") && !key.contains("age"));
    }
    picture
}

fn look(verb: &Status, store: &TeamStore) -> Result<Picture> {
    let manifest = store.manifest()?;
    let members = launch::observe(store)?;
    if manifest.is_none() && !store.exists() {
        return Err(Failure::missing(format!("there is no team '{}'", store.name())));
    }
    let delivery::All { records, unreadable } = delivery::all_records(store)?;
    let mut trouble: Vec<String> = unreadable.into_iter().map(|(_, why)| why).collect();
    let mail = |name: &AgentName| Mail::of(name, store, &records);
    let tasks = store.tasks().survey();
    let asked = leader::asked(store, &members).unwrap_or_else(|e| {
        trouble.extend(Some(e.to_string()).filter(|why| !trouble.contains(why)));
        Vec::new()
    });
    let asked = asked.into_iter().filter(Asked::is_open);
    Ok(Picture {
        processes: Table::now(),
        progress: members.iter().filter_map(|m| Some((m.name.clone(), store.progress(&m.name)?))).collect(),
        asking: asked.map(|asked| asked.approval.from).collect(),
        manifest,
        leader: store.leader(),
        members: members.into_iter().map(|m| (m.clone(), mail(&m.name))).collect(),
        lost: super::task::lost(&tasks),
        tasks: tasks.tasks,
        lead: mail(&AgentName::lead()),
        trouble,
        dead_letters: records.iter().filter(|r| r.state == State::Dead).count(),
        alarm_after: verb.alarm_after,
    })
}

fn as_json(picture: &Picture, store: &TeamStore) -> Value {
    let members: Vec<Value> = picture.members.iter().map(|(m, mail)| member_json(m, mail, picture)).collect();
    let leader = picture.leader.as_ref().map(|leader| serde_json::to_value(leader).unwrap_or_default());
    let tasks = |wanted: &dyn Fn(&Task) -> bool| picture.tasks.iter().filter(|t| wanted(t)).count();
    json!({
        "team": store.name(),
        "state": state_word(picture, store),
        "mode": picture.manifest.as_ref().map(|m| m.mode),
        "backend": picture.manifest.as_ref().map(|m| &m.home.backend),
        "attach": picture.manifest.as_ref().and_then(|m| m.home.attach.as_ref()),
        "started": picture.manifest.as_ref().map(|m| &m.started),
        "ended": picture.manifest.as_ref().and_then(|m| m.ended.as_ref()),
        "leader": leader,
        "lead_unread": picture.lead.unread,
        "lead_oldest_unread": picture.lead.oldest,
        "lead_alarm": picture.lead.is_late(picture.alarm_after),
        "dead_letters": picture.dead_letters,
        "approvals": picture.asking.len(),
        "tasks_trouble": picture.lost,
        "mail_trouble": picture.trouble,
        "members": members,
        "tasks": {
            "all": picture.tasks.len(),
            "completed": tasks(&|t| t.is_completed() && t.failure().is_none()),
            "failed": tasks(&|t| t.failure().is_some()),
        },
    })
}

fn member_json(member: &MemberView, mail: &Mail, picture: &Picture) -> Value {
    let record = member.record.as_ref();
    let exit = match member.life {
        Life::Exited(exit) | Life::Restarting(exit) => Some(exit),
        _ => None,
    };
    let tree = pid(member).map(|pid| picture.processes.tree(pid));
    json!({
        "name": member.name,
        "state": member.life.word(),
        "since": record.map(|r| &r.since),
        "pid": pid(member),
        "tend": record.map(|r| r.tend.pid),
        "place": record.map(|r| &r.place),
        "exit": exit,
        "restarts": record.map_or(0, |r| r.restarts),
        "unread": mail.unread,
        "oldest_unread": mail.oldest,
        "alarm": is_alarming(member, mail, picture),
        "idle": mail.idle.as_ref().map(|idle| json!({"since": idle.since, "owes": idle.owes, "failure": idle.failure})),
        "driver": record.map(|r| &r.driver),
        "sight": record.and_then(|r| r.sight.as_ref()),
        "approvals": picture.asking.iter().filter(|name| **name == member.name).count(),
        "progress": picture.progress.get(&member.name),
        "activity": activity(member, &picture.tasks).map(Activity::word),
        "processes": tree.map(|(count, _)| count),
        "resident_kb": tree.map(|(_, kb)| kb),
        "cwd": record.map(|r| &r.cwd),
        "command": record.map(|r| &r.command),
        "note": record.and_then(|r| r.note.as_ref()),
    })
}

/// Whether somebody who could read its mail does not.
fn is_alarming(member: &MemberView, mail: &Mail, picture: &Picture) -> bool {
    member.life.is_alive() && mail.is_late(picture.alarm_after)
}

/// Since when it is what it is: what is seen of its program changes more often than its process does.
fn since(member: &MemberView) -> Option<&String> {
    let record = member.record.as_ref()?;
    let sight = record.sight.as_ref().filter(|_| matches!(member.life, Life::Ready(_)));
    Some(sight.map_or(&record.since, |sight| &sight.since))
}

fn pid(member: &MemberView) -> Option<i32> {
    match member.life {
        Life::Ready(process) | Life::Lost(Some(process)) => Some(process.pid),
        _ => None,
    }
}

fn state_word(picture: &Picture, store: &TeamStore) -> &'static str {
    let ended = picture.manifest.as_ref().is_some_and(|m| m.ended.is_some());
    let alive = picture.members.iter().any(|(m, _)| m.life.may_have_process());
    match (&picture.manifest, &picture.leader) {
        _ if ended => "ended",
        (Some(m), _) if m.ending_grace_ms.is_some() && alive => "ending",
        (_, Some(_)) => "led",
        (None, None) => "of another program",
        // Nobody was ever to lead it.
        (Some(m), None) if alive && m.mode == LeaderMode::Spawn => "running",
        (Some(_), None) if alive => "without a leader",
        (Some(_), None) if store.exists() => "nobody alive",
        (Some(_), None) => "gone",
    }
}

fn show(picture: &Picture, store: &TeamStore, out: &mut Out) -> Result {
    if out.json {
        return out.json(&as_json(picture, store));
    }
    let started = picture.manifest.as_ref().map_or(String::new(), |m| match &m.ended {
        Some(ended) => format!(" {} ago", age(ended)),
        None => format!(", for {}", age(&m.started)),
    });
    let leader = match &picture.leader {
        Some(Some(leader)) => format!(" by process {}", leader.process.pid),
        _ => String::new(),
    };
    let backend = picture.manifest.as_ref().map_or(String::new(), |m| format!(", {}", m.home.backend));
    out.line(format!("team {}: {}{leader}{started}{backend}", store.name(), state_word(picture, store)))?;
    if let Some(attach) =
        picture.manifest.as_ref().filter(|m| m.ended.is_none()).and_then(|m| m.home.attach.as_ref())
    {
        out.line(format!("see it with: {attach}"))?;
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (member, mail) in &picture.members {
        rows.push(row(member, mail, (picture, out)));
    }
    if rows.is_empty() {
        out.line("no members: add one with 'throng spawn NAME -- CMD'")?;
    }
    out.table(&rows)?;
    if !picture.tasks.is_empty() {
        let completed = picture.tasks.iter().filter(|t| t.is_completed()).count();
        let failed = picture.tasks.iter().filter(|t| t.failure().is_some()).count();
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        out.line(format!("tasks: {completed} of {} completed{failed}", picture.tasks.len()))?;
    }
    if let Some(lost) = &picture.lost {
        out.line(out.paint(Paint::Red, lost))?;
    }
    if picture.lead.trouble.is_some() {
        out.line(out.paint(Paint::Red, &format!("mail for you: {}", picture.lead.words())))?;
    }
    if picture.lead.unread > 0 {
        let is_late = picture.lead.is_late(picture.alarm_after);
        let words = if is_late { alarm(&picture.lead, out) } else { picture.lead.words() };
        out.line(format!("mail for you: {words}, see 'throng inbox list'"))?;
    }
    if !picture.asking.is_empty() {
        out.line(out.paint(
            Paint::Yellow,
            &format!("approvals: {}, see 'throng approvals'", waiting(picture.asking.len())),
        ))?;
    }
    if picture.dead_letters > 0 {
        out.line(format!("dead letters: {}, see 'throng inbox status --dead'", picture.dead_letters))?;
    }
    Ok(())
}

/// `1 waits for you`.
fn waiting(count: usize) -> String {
    if count == 1 { "1 waits for you".to_owned() } else { format!("{count} wait for you") }
}

/// What waits for too long.
fn alarm(mail: &Mail, out: &Out) -> String {
    out.paint(Paint::Red, &format!("{}: ALARM", mail.words()))
}

/// What a running member is doing, its idle notices being heard.
fn doing(member: &MemberView, mail: &Mail, picture: &Picture) -> &'static str {
    match activity(member, &picture.tasks) {
        Some(Activity::Quiet) if mail.idle.is_some() => "idle",
        Some(activity) => activity.word(),
        None => member.life.word(),
    }
}

/// `, 3 turns, 5 calls, 12.0k tokens, $0.02, Bash cargo test`.
fn progress_words(progress: &ProgressRecord) -> String {
    let tokens = progress.input_tokens + progress.output_tokens;
    let tokens = if tokens < 1000 { tokens.to_string() } else { format!("{:.1}k", tokens as f64 / 1000.0) };
    let cost = progress.cost_usd.map_or(String::new(), |cost| format!(", ${cost:.2}"));
    let last = progress.activities.last().map_or(String::new(), |last| format!(", {last}"));
    format!(", {} turns, {} calls, {tokens} tokens{cost}{last}", progress.turns, progress.tool_uses)
}

fn row(member: &MemberView, mail: &Mail, (picture, out): (&Picture, &Out)) -> Vec<String> {
    let paint = match member.life {
        Life::Ready(_) => Paint::Green,
        life if life.has_failed() => Paint::Red,
        Life::Exited(_) => Paint::Dim,
        _ => Paint::Yellow,
    };
    let word = match member.life {
        Life::Exited(exit) => exit.to_string(),
        Life::Restarting(exit) => format!("restarting, {exit}"),
        _ => doing(member, mail, picture).to_owned(),
    };
    let memory =
        pid(member).map(|pid| picture.processes.tree(pid)).map_or(String::new(), |(count, kb)| match count {
            1 => format!("{} MB", kb / 1024),
            _ => format!("{} MB in {count} processes", kb / 1024),
        });
    let record = member.record.as_ref();
    let place = match record.map(|r| &r.place) {
        Some(PlaceRecord::Tmux { pane, .. }) => format!("pane {pane}"),
        Some(PlaceRecord::Iterm2 { session }) => {
            format!("session {}", session.split('-').next().unwrap_or(session))
        }
        _ => String::new(),
    };
    let restarts = match record.map_or(0, |r| r.restarts) {
        0 => String::new(),
        n => format!(", {n} restarts"),
    };
    let what = record.and_then(|r| r.sight.as_ref()).filter(|_| pid(member).is_some());
    let what = what.and_then(|s| s.what.as_ref()).map_or(String::new(), |what| format!(" for {what}"));
    let failure = mail.idle.as_ref().and_then(|idle| idle.failure.as_ref());
    let failure = failure.map_or(String::new(), |why| format!(", its last turn failed: {why}"));
    let progress = picture.progress.get(&member.name).map_or(String::new(), progress_words);
    let note = record.and_then(|r| r.note.as_ref()).map_or(String::new(), |note| format!("  ({note})"));
    let waits = if is_alarming(member, mail, picture) { alarm(mail, out) } else { mail.words() };
    let owed: Vec<String> =
        mail.idle.iter().flat_map(|idle| &idle.owes).map(|id| delivery::short(id)).collect();
    let owes = if owed.is_empty() { String::new() } else { format!(", owes a reply to {}", owed.join(", ")) };
    let asks = match picture.asking.iter().filter(|name| **name == member.name).count() {
        0 => String::new(),
        count => {
            let noun = if count == 1 { "approval" } else { "approvals" };
            format!(", {}", out.paint(Paint::Yellow, &format!("needs you: {count} {noun}")))
        }
    };
    vec![
        member.name.to_string(),
        format!("{}{what}", out.paint(paint, &word)),
        since(member).map_or(String::new(), |time| age(time)),
        pid(member).map_or(String::new(), |pid| format!("process {pid}")),
        place,
        memory,
        format!("{waits}{asks}{owes}{progress}{failure}{restarts}{note}"),
    ]
}
