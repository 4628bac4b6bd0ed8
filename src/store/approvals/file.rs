//! `approvals.jsonl`: numbers and verdicts, a line for each step. What is over and done is forgotten once the file is large.

use super::{Answered, Approval, TeamStore};
use crate::protocol::approval::{Kind, Request};
use crate::protocol::{AgentName, Entry};
use crate::store::Result;
use crate::sys::{atomic_file, fault};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Size in bytes from which on what is over is forgotten.
const BYTES_MAX: usize = 512 * 1024;
/// How much of what is over stays, to be shown: so many requests, and so many bytes.
const OVER_KEPT_MAX: usize = 100;
const OVER_KEPT_BYTES_MAX: usize = 128 * 1024;

/// One line of `approvals.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    /// A request was seen for the first time, and got its number.
    Seen { key: String, number: u64, from: AgentName, kind: Kind, id: String, asked: String, what: String },
    /// A verdict counts from here on; `entry` is what is sent.
    Decided { key: String, answered: Answered, entry: Box<Entry>, request: String },
    /// The answer stands in the asker's inbox.
    Sent { key: String },
    /// The answer could not be sent: nothing was decided.
    Withdrawn { key: String },
}

/// What the lines say of one request.
#[derive(Default)]
pub(super) struct Known {
    pub(super) seen: Option<Approval>,
    pub(super) decided: Option<Decided>,
}

/// A verdict, and the message that brings it.
#[derive(Clone)]
pub(super) struct Decided {
    pub(super) answered: Answered,
    pub(super) entry: Entry,
    /// Identity of the request's message.
    pub(super) request: String,
    pub(super) is_sent: bool,
}

impl TeamStore {
    pub(super) fn known_approvals(&self) -> Result<BTreeMap<String, Known>> {
        let bytes = atomic_file::read_optional(&self.state().approvals())?.unwrap_or_default();
        let mut all: BTreeMap<String, Known> = BTreeMap::new();
        // A line that was cut by a crash is passed over.
        for line in bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok())
        {
            match line {
                Line::Seen { key, number, from, kind, id, asked, what } => {
                    let known = all.entry(key.clone()).or_default();
                    let (request, answered) = (None, None);
                    known.seen =
                        Some(Approval { number, key, from, kind, id, asked, what, request, answered });
                }
                Line::Decided { key, answered, entry, request } => {
                    let decided = Decided { answered, entry: *entry, request, is_sent: false };
                    all.entry(key).or_default().decided = Some(decided);
                }
                Line::Sent { key } => {
                    if let Some(decided) = &mut all.entry(key).or_default().decided {
                        decided.is_sent = true;
                    }
                }
                Line::Withdrawn { key } => all.entry(key).or_default().decided = None,
            }
        }
        Ok(all)
    }

    /// Rewrites the file, if it is large, without what is over: the request has left the leader's inbox, and no answer to it
    /// is still to be sent. The newest of it stay, and so does the highest number, which none gets again. If an asker asks the same once
    /// more, the journal still knows that it was answered. To be called under the lock.
    ///
    /// # Errors
    /// The file system's; the file is as it was then.
    pub(super) fn keep_approvals_small(&self) -> Result<()> {
        let path = self.state().approvals();
        let size =
            std::fs::metadata(&path).map_or(0, |meta| usize::try_from(meta.len()).unwrap_or(usize::MAX));
        if size <= BYTES_MAX {
            return Ok(());
        }
        let standing: HashSet<String> = self.requests()?.iter().map(Request::key).collect();
        let known = self.known_approvals()?;
        let mut known: Vec<(&String, &Known)> = known.iter().collect();
        known.sort_by_key(|(_, k)| std::cmp::Reverse(k.seen.as_ref().map_or(0, |seen| seen.number)));
        let (mut kept, mut over, mut over_bytes) = (Vec::new(), 0, 0);
        for (key, known) in known {
            let text = lines_of(key, known);
            let is_over = known.decided.as_ref().is_none_or(|d| d.is_sent) && !standing.contains(key);
            if is_over {
                (over, over_bytes) = (over + 1, over_bytes + text.len());
            }
            if !is_over || over == 1 || (over <= OVER_KEPT_MAX && over_bytes <= OVER_KEPT_BYTES_MAX) {
                kept.push(text);
            }
        }
        kept.reverse();
        let text = kept.concat();
        // What waits is not to be written anew with each answer.
        if text.len() > size / 2 {
            return Ok(());
        }
        fault::point("approval:small");
        Ok(atomic_file::write(&path, text.as_bytes(), atomic_file::PRIVATE)?)
    }

    pub(super) fn write_seen(&self, approval: &Approval) -> Result<()> {
        let Approval { number, from, kind, id, what, .. } = approval;
        self.note(
            "approval_requested",
            &json!({"number": number, "from": from, "kind": kind, "request_id": id, "what": what}),
        );
        self.write_approval(&Line::seen(approval))
    }

    pub(super) fn write_approval(&self, line: &Line) -> Result<()> {
        // Plain data is always written.
        let text = serde_json::to_string(line).unwrap_or_default();
        Ok(atomic_file::append_line(&self.state().approvals(), &text)?)
    }
}

/// The lines that say what is known of one request, each with its line break.
fn lines_of(key: &str, known: &Known) -> String {
    let mut lines = Vec::new();
    if let Some(seen) = &known.seen {
        lines.push(Line::seen(seen));
    }
    if let Some(Decided { answered, entry, request, is_sent }) = &known.decided {
        let (answered, entry, request) = (answered.clone(), Box::new(entry.clone()), request.clone());
        lines.push(Line::Decided { key: key.to_owned(), answered, entry, request });
        lines.extend(is_sent.then(|| Line::Sent { key: key.to_owned() }));
    }
    // Plain data is always written.
    lines.iter().map(|line| serde_json::to_string(line).unwrap_or_default() + "\n").collect()
}

impl Line {
    fn seen(approval: &Approval) -> Line {
        let Approval { number, key, from, kind, id, asked, what, .. } = approval.clone();
        Line::Seen { key, number, from, kind, id, asked, what }
    }
}
