//! Where an agent's answers come from: a model service, recorded or not, or what was recorded or written by hand (D10).

use crate::cli::error::{Failure, Result};
use crate::config::Config;
use crate::config::model::ServiceSettings;
use crate::protocol::{Layout, timestamp};
use crate::provider::{Header, Known, Provider, Recorder, Replay, Script, Service};
use crate::session::{MailAt, Transcript};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Recording and replay.
#[derive(Debug, Clone, clap::Args)]
pub struct Tape {
    /// Write down what the model is asked and says, one file for each agent
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    record: Option<PathBuf>,
    /// Ask no model: replay what was recorded, or what was written by hand (docs/replay.md)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "record"])]
    replay: Option<PathBuf>,
}

/// Where answers come from.
pub enum Source {
    /// A model service.
    Service,
    /// A model service, and what it says is written down here.
    Record(PathBuf),
    /// What was recorded.
    Replay(Box<Replay>),
    /// What was written by hand.
    Script(Box<Script>),
}

impl Source {
    /// What is asked for.
    ///
    /// # Errors
    /// There is no replay for this agent, or it cannot be read.
    pub fn open(tape: &Tape, agent: &str) -> Result<Source> {
        Ok(match (&tape.record, &tape.replay) {
            (Some(dir), _) => Source::Record(dir.clone()),
            (None, Some(dir)) => replayed(dir, agent)?,
            (None, None) => Source::Service,
        })
    }

    /// Id and beginning of a new session.
    pub fn birth(&self) -> (String, SystemTime) {
        let new = || uuid::Uuid::new_v4().to_string();
        match self {
            Source::Replay(replay) => {
                let session = replay.header().map_or_else(new, |header| header.session.clone());
                (session, replay.moment().now())
            }
            _ => (new(), SystemTime::now()),
        }
    }

    /// Where the transcript of a new session lies that is of no team.
    pub fn transcript(&self, id: &str, layout: &Layout) -> PathBuf {
        match self {
            // The session that was recorded may lie here too, and there may be many replays of it.
            Source::Replay(_) => layout.replays().join(format!("{}.jsonl", uuid::Uuid::new_v4())),
            _ => layout.sessions().join(format!("{id}.jsonl")),
        }
    }

    /// The model, if it is settled.
    pub fn model(&self) -> Option<&str> {
        match self {
            Source::Replay(replay) => replay.header().map(|header| header.model.as_str()),
            _ => None,
        }
    }

    /// When mail is taken: what shall be the same again must not depend on when it comes.
    pub fn mail(&self) -> MailAt {
        match self {
            Source::Service => MailAt::Rounds,
            _ => MailAt::TurnEnds,
        }
    }

    /// Whom the session asks.
    ///
    /// # Errors
    /// The settings of the model service; the recording.
    pub fn provider(self, config: &Config, (transcript, model): (&Transcript, &str)) -> Result<Provider> {
        let service =
            || Ok::<_, crate::config::Error>(Service::new(ServiceSettings::of(&config.environment)?));
        Ok(match self {
            Source::Service => Provider::Service(service()?),
            Source::Record(dir) => {
                let head = transcript.header();
                let header = Header::new(&head.session, &head.agent, (&head.directory, &head.time, model));
                let known = known(config, transcript);
                Provider::Recorder(Box::new(Recorder::new(service()?, &dir, (header, known))?))
            }
            Source::Script(script) => {
                Provider::Script(Box::new(script.within(&transcript.header().directory)))
            }
            Source::Replay(replay) => {
                let known = known(config, transcript).value("date", &day(SystemTime::now()));
                Provider::Replay(Box::new(replay.knowing(known)))
            }
        })
    }
}

/// The recording or the script of an agent.
fn replayed(dir: &Path, agent: &str) -> Result<Source> {
    let (recording, script) = (dir.join(format!("{agent}.jsonl")), dir.join(format!("{agent}.toml")));
    match (recording.exists(), script.exists()) {
        (true, false) => Ok(Source::Replay(Box::new(Replay::new(dir, agent)?))),
        (false, true) => Ok(Source::Script(Box::new(Script::new(dir, agent)?))),
        (true, true) => Err(Failure::usage(format!(
            "for {agent} there are a recording and a script, {} and {}: remove one of them",
            recording.display(),
            script.display()
        ))),
        (false, false) => Err(Failure::usage(format!(
            "for {agent} there is nothing to replay in {}: record it with --record, or write {agent}.toml (docs/replay.md)",
            dir.display()
        ))),
    }
}

/// What is another in each run and means the same.
fn known(config: &Config, transcript: &Transcript) -> Known {
    let (environment, layout, header) = (&config.environment, &config.layout, transcript.header());
    let known = Known::new()
        .place("directory", &header.directory)
        .place("output", &transcript.path().with_extension(""))
        .place("config", &layout.config_dir)
        .place("state", &layout.state_dir)
        .place("tmp", Path::new(environment.get("TMPDIR").unwrap_or("/tmp")))
        .value("session", &header.session)
        .value("date", header.time.split('T').next().unwrap_or_default());
    match environment.home() {
        Some(home) => known.place("home", &home),
        None => known,
    }
}

fn day(time: SystemTime) -> String {
    timestamp::format(time).split('T').next().unwrap_or_default().to_owned()
}
