//! Whether a team can still get anywhere. Pure.

use super::state::View;
use crate::launch::MemberView;
use crate::protocol::{Task, task::open_blockers};

/// Why no remaining task can be completed by anybody alive; `None` while one can.
///
/// A task with an owner is its owner's. One that was taken from a member who is gone is nobody's until somebody claims
/// it: a program follows its plan, it does not pick up what another dropped. Any other task without owner can be taken by
/// whoever is alive. A task of somebody who is no member (the leader's, a person's) is not ours to judge.
pub(super) fn stall(view: &View) -> Option<String> {
    let open: Vec<&Task> = view.tasks.iter().filter(|t| !t.is_completed()).collect();
    // One that waits for mail goes on when somebody writes to it, not by itself.
    let may_go_on = |m: &MemberView| m.life.is_alive() && !view.at_rest.contains(&m.name);
    let somebody_goes_on = view.members.iter().any(may_go_on);
    let has_doer = |task: &Task| match task.owner_name() {
        Some(owner) => match view.members.iter().find(|m| m.name.as_str() == owner) {
            Some(member) => may_go_on(member),
            None => true,
        },
        None => task.freed_from().is_none() && somebody_goes_on,
    };
    let can_go_on = |task: &&Task| has_doer(task) && open_blockers(task, &view.tasks).is_empty();
    if open.is_empty() || open.iter().any(can_go_on) {
        return None;
    }
    let reasons: Vec<String> = open.iter().map(|task| reason(task, view)).collect();
    Some(reasons.join("; "))
}

fn reason(task: &Task, view: &View) -> String {
    let fate = |name: &str| {
        let member = view.members.iter().find(|m| m.name.as_str() == name);
        member.map_or("gone".to_owned(), super::outcome::fate)
    };
    let what = format!("task {} '{}'", task.id, task.subject);
    if let Some(owner) = task.freed_from() {
        return format!("{what} was {owner}'s, which {}", fate(owner));
    }
    let blockers = open_blockers(task, &view.tasks);
    if !blockers.is_empty() {
        return format!("{what} waits for task {}", blockers.join(", "));
    }
    let rests = |name: &str| view.at_rest.iter().any(|m| m.as_str() == name);
    match task.owner_name() {
        Some(owner) if rests(owner) => {
            format!("{what} is {owner}'s, which is idle and does not go on with it")
        }
        None if !view.at_rest.is_empty() => format!("{what} has no owner, and all are idle"),
        Some(owner) => format!("{what} is {owner}'s, which {}", fate(owner)),
        None => format!("{what} has no owner and nobody is alive to take it"),
    }
}
