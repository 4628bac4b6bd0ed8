//! An agent of ours as a member of a team: its `tend` hears what it is doing, its leader when it ends.

use crate::cli::context::Context;
use crate::cli::error::{Failure, Result};
use crate::launch::control;
use crate::protocol::Entry;
use crate::session::transcript::{Header, Told};
use crate::session::{Inbox, News, Progress, Transcript, activity};
use crate::store::{Doing, LaunchFile, ProgressRecord, TeamStore};
use serde_json::json;
use std::cell::Cell;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// How long it may take to end after it has agreed to.
const END_WITHIN: Duration = Duration::from_secs(60);

/// A member.
pub struct Member {
    store: TeamStore,
    launch: LaunchFile,
    doing: mpsc::Sender<Doing>,
    /// What was told last.
    last: Cell<Option<Doing>>,
}

impl Member {
    /// The one that this process was started as.
    ///
    /// # Errors
    /// It was not started as one.
    pub fn of_this_process(context: &Context) -> Result<Member> {
        let store = context.team()?;
        let launch = LaunchFile::read(&store.state().launch(&context.config.me))
            .map_err(|e| Failure::usage(format!("this is no member of a team: {e}")))?;
        let (doing, news) = mpsc::channel();
        let (of, name) = (store.clone(), launch.agent.clone());
        // `tend` may be slow to answer; the agent does not wait for it.
        std::thread::spawn(move || {
            for doing in news {
                if let Err(e) = control::tell(&of, &name, doing) {
                    tracing::warn!(error = %e, "tend was not told what the agent is doing");
                }
            }
        });
        Ok(Member { store, launch, doing, last: Cell::new(None) })
    }

    /// Its mail.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.store.clone(), self.launch.agent.clone())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.launch.agent.as_str()
    }

    /// The transcript of this launch: after a restart the one that was there, else a new one with this id and time.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn transcript(&self, (id, now): (String, SystemTime)) -> Result<(Transcript, Told)> {
        let path = self.store.state().transcript(&self.launch.agent, &self.launch.launch);
        if path.is_file() {
            return Ok(Transcript::resume(&path)?);
        }
        let header = Header::new(id, self.name(), (&self.launch.cwd, now));
        Ok((Transcript::create(&path, header)?, Told::default()))
    }

    /// It is doing this from now on.
    pub fn is(&self, doing: Doing) {
        if self.last.replace(Some(doing)) != Some(doing) {
            // The thread lives as long as we do.
            let _ = self.doing.send(doing);
        }
    }

    /// What is seen of it says what it is doing, and is written down.
    pub fn notice(&self, news: &News, (progress, model): (&Progress, &str)) {
        if matches!(news, News::Answer(_) | News::Calling(_)) {
            let record = ProgressRecord {
                model: model.to_owned(),
                turns: progress.turns,
                tool_uses: progress.tool_uses,
                context_tokens: progress.context_tokens,
                input_tokens: progress.usage.context(),
                output_tokens: progress.usage.output_tokens,
                cost_usd: progress.cost_usd,
                activities: progress.activities.iter().cloned().collect(),
            };
            if let Err(e) = self.store.write_progress(&self.launch.agent, &record) {
                tracing::warn!(error = %e, "the progress is not written");
            }
        }
        match news {
            News::Heard(_) | News::AskingAgain { .. } => self.is(Doing::Working),
            News::Rests(_) => self.is(Doing::Idle),
            News::Asks { .. } => self.is(Doing::AwaitsApproval),
            News::Result(_) => self.is(Doing::Working),
            News::Refused { call, why } => {
                let about = json!({"agent": self.launch.agent, "call": activity(call), "why": why});
                self.store.note("call_refused", &about);
            }
            _ => {}
        }
    }

    /// It ends, as its leader asks.
    ///
    /// # Errors
    /// The leader cannot be answered.
    pub fn agree(&self, request: &Entry) -> Result {
        // Else `tend` may start it again. One that does not answer starts nothing.
        if let Err(e) = control::expect_end(&self.store, &self.launch.agent, END_WITHIN) {
            tracing::warn!(error = %e, "tend was not told of the end");
        }
        Ok(self.inbox().agree(request)?)
    }
}
