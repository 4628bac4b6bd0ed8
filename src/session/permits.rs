//! What an agent may do: each call is judged by the rules, and where they are unsure somebody is asked (F1, F3).

use super::mail::Inbox;
use crate::permission::{self, Decision, Mode, Paths, Request, Rules, Verdict};
use crate::provider::Call;
use crate::sys::links;
use crate::tools::{self, Hidden, Target, Tool, View};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Rules, mode, and who is asked.
#[derive(Debug, Clone)]
pub struct Permits {
    /// The rules of all settings files and flags.
    pub rules: Arc<Rules>,
    /// The mode.
    pub mode: Mode,
    /// Who is asked.
    pub approver: Approver,
}

/// Who is asked where the rules do not decide.
#[derive(Debug, Clone)]
pub enum Approver {
    /// Nobody: the answer is no.
    Nobody,
    /// The person at the terminal.
    Person,
    /// The leader of the team, by mail.
    Leader(Inbox),
}

/// What the loop hears of the calls that are not simply run.
#[derive(Debug)]
pub(super) enum Asked {
    /// A question that waits for an answer.
    Question(Question),
    /// A call was refused.
    Refused { call: Call, why: String },
}

/// A question about a call.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) call: Call,
    pub(super) why: String,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The answer to a question.
#[derive(Debug)]
pub(super) enum Reply {
    /// It may run, with this input if it was changed.
    Yes(Option<Value>),
    /// It may not, and why.
    No(String),
}

impl Permits {
    /// Judges a call, asks if need be, and answers the input with which it may run and where its paths led when it was
    /// judged, or why it may not.
    pub(super) async fn settle(
        &self,
        (tool, call): (Tool, &Call),
        view: &View,
        asks: &mpsc::UnboundedSender<Asked>,
    ) -> Result<(Value, Vec<Target>), String> {
        let (verdict, targets) = self.judge((tool, call), view).await;
        let settled = match verdict.decision {
            Decision::Allow => Ok((call.input.clone(), targets)),
            Decision::Deny => Err(verdict.reason),
            Decision::Ask => match self.ask(call, &verdict.reason, asks).await {
                Ok(Some(input)) => {
                    // Whoever answers cannot change it into something that a rule forbids.
                    let changed = Call { input, ..call.clone() };
                    let (verdict, targets) = self.judge((tool, &changed), view).await;
                    let is_denied = verdict.decision == Decision::Deny;
                    if is_denied { Err(verdict.reason) } else { Ok((changed.input, targets)) }
                }
                Ok(None) => Ok((call.input.clone(), targets)),
                Err(why) => Err(why),
            },
        };
        if let Err(why) = &settled {
            // Nobody looks once the session is over.
            let _ = asks.send(Asked::Refused { call: call.clone(), why: why.clone() });
        }
        settled
    }

    /// Files that a rule forbids to read: a search is judged only where it begins.
    pub(super) fn hidden(&self) -> Hidden {
        let rules = Arc::clone(&self.rules);
        Hidden::new(move |path| rules.denies_reading(path, &links::followed(path)).is_some())
    }

    async fn ask(
        &self,
        call: &Call,
        why: &str,
        asks: &mpsc::UnboundedSender<Asked>,
    ) -> Result<Option<Value>, String> {
        let nobody = || format!("it must be asked for, and nobody is there to be asked: {why}");
        if matches!(self.approver, Approver::Nobody) {
            return Err(nobody());
        }
        let (reply, answer) = oneshot::channel();
        let id = request_id();
        let question = Question { id: id.clone(), call: call.clone(), why: why.to_owned(), reply };
        asks.send(Asked::Question(question)).map_err(|_| nobody())?;
        if let Approver::Leader(inbox) = &self.approver {
            inbox.ask(&id, call, why).await.map_err(|e| format!("the leader cannot be asked: {e}"))?;
        }
        match answer.await {
            Ok(Reply::Yes(input)) => Ok(input),
            Ok(Reply::No(why)) => Err(why),
            Err(_) => Err("the question was not answered".to_owned()),
        }
    }

    async fn judge(&self, (tool, call): (Tool, &Call), view: &View) -> (Verdict, Vec<Target>) {
        let (rules, mode, call, view) = (Arc::clone(&self.rules), self.mode, call.clone(), view.clone());
        // Links may lead to a disk that is slow.
        let judged = tokio::task::spawn_blocking(move || {
            let (name, input, cwd) = (call.name.as_str(), &call.input, view.directory.as_path());
            let targets = tools::targets(tool, input, &view);
            // What is judged is what will be used, whatever becomes of the links meanwhile.
            let follow = |path: &Path| {
                let target = targets.iter().find(|target| target.as_given == path);
                target.map_or_else(|| links::followed(path), |target| target.resolved.clone())
            };
            let paths = Paths::follow(permission::paths(&rules, (name, input), cwd), follow);
            let request = Request { tool: name, input, cwd, paths: &paths };
            (permission::judge(&rules, mode, &request), targets)
        });
        judged.await.unwrap_or_else(|e| {
            let reason = format!("the call cannot be judged: {e}");
            (Verdict { decision: Decision::Deny, reason, parts: Vec::new() }, Vec::new())
        })
    }
}

/// `perm-{ms}-{7 base36}` (protocol II.3.1).
fn request_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let word: String = (0..7).map(|_| char::from_digit(fastrand::u32(0..36), 36).unwrap_or('0')).collect();
    format!("perm-{}-{word}", now.as_millis())
}
