//! `throng agent run`: one agent, from its prompt to its last word (D1, D9, D10).

use super::member::Member;
use super::rights::Rights;
use super::show::{Format, Shown};
use super::tape::{Source, Tape};
use crate::cli::context::Context;
use crate::cli::error::{Failure, Result};
use crate::cli::send::body;
use crate::provider::{self, Deltas, Moment};
use crate::session::transcript::{Header, Told};
use crate::session::{
    self, Approver, AtRest, Clock, Ended, Facts, Hands, Heard, Instructions, Limits, News, Permits, Progress,
    Session, Settings, State, Transcript,
};
use crate::store::Doing;
use crate::tools;
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Name of an agent without a team.
const AGENT: &str = "main";
/// How long mail that is being written may take after the session's end.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(5);
/// Most tokens of an answer, if nothing else is said.
const TOKENS_MAX: u32 = 16_000;

/// Give an agent a prompt, and show what it does until it is done
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a prompt, on a terminal, it asks for one line after another; Ctrl-C once ends the turn, twice the session.
Exit codes: 0 the model has ended its turn; 1 a limit was reached; 6 the model service refused, failed or could not be
reached, or a replay differs; 130 interrupted."
)]
pub struct Run {
    /// What it is to do: a text, - for standard input, @FILE for a file's content
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Form of the output
    #[arg(long, value_name = "FORM")]
    output_format: Option<Format>,
    /// Go on with a session: its id, the beginning of it, or 'last' for the last one of this directory
    #[arg(long, value_name = "SESSION")]
    resume: Option<String>,
    /// The model's full name (default: $ANTHROPIC_MODEL)
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Most requests to the model
    #[arg(long, value_name = "N")]
    max_turns: Option<u64>,
    /// Most tokens, read and written
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// Be the member of a team that this process was started as
    #[arg(long, hide = true, conflicts_with_all = ["prompt", "resume", "output_format"])]
    member: bool,
    /// Added to the system prompt: a text, - or @FILE
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    #[command(flatten)]
    rights: Rights,
    #[command(flatten)]
    tape: Tape,
}

/// Runs it.
pub fn run(verb: &Run, context: &mut Context) -> Result {
    let prompt = verb.prompt.as_deref().map(body).transpose()?;
    let is_person = context.out.is_terminal && std::io::stdin().is_terminal();
    let member = if verb.member { Some(Member::of_this_process(context)?) } else { None };
    let format = match verb.output_format {
        _ if member.is_some() => None,
        None if context.config.json => Some(Format::Json),
        None if prompt.is_none() && is_person => None,
        None => Some(Format::Text),
        format => format,
    };
    if prompt.as_deref().is_none_or(|text| text.trim().is_empty())
        && format.is_some()
        && verb.resume.is_none()
    {
        return Err(Failure::usage("say what it is to do: --prompt TEXT, --prompt - or --prompt @FILE"));
    }
    let source = Source::open(&verb.tape, member.as_ref().map_or(AGENT, Member::name))?;
    let (transcript, told) = match &member {
        Some(member) => member.transcript(source.birth())?,
        None => transcript(verb, &source, context)?,
    };
    if prompt.is_none() && format.is_some() && !told.is_unanswered() {
        return Err(Failure::usage("the session has nothing left to go on with: say --prompt TEXT"));
    }
    let approver = match &member {
        Some(member) => Approver::Leader(member.inbox()),
        None if format.is_none() => Approver::Person,
        None => Approver::Nobody,
    };
    let permits = verb.rights.permits(context, &transcript.header().directory, approver)?;
    let mut session = session(verb, context, (source, transcript, told, (format, permits)))?;
    session.inbox = member.as_ref().map(Member::inbox);
    let (ended, is_replayed) = drive(session, (prompt, format, member.as_ref()), context)?;
    match (ended, member) {
        (Ended::Asked(request), Some(member)) => {
            member.agree(&request).and(is_replayed.map_err(Failure::from))
        }
        (ended, _) => verdict(ended, format),
    }
}

fn model(verb: &Run, source: &Source, context: &Context) -> Result<String> {
    let word = verb.model.as_deref().or(source.model()).or(context.config.environment.get("ANTHROPIC_MODEL"));
    let is_asked_for = matches!(source, Source::Service | Source::Record(_));
    match word {
        Some(word) => Ok(word.to_owned()),
        // A script is no model.
        None if !is_asked_for => Ok("script".to_owned()),
        None => Err(Failure::usage("say which model: --model NAME, its full name, or set ANTHROPIC_MODEL")),
    }
}

/// The exit code and what to say.
fn verdict(ended: Ended, format: Option<Format>) -> Result {
    match ended {
        Ended::Done(_) | Ended::Asked(_) => Ok(()),
        Ended::Interrupted if format.is_none() => Ok(()),
        Ended::Interrupted => Err(Failure::Signal(Signal::SIGINT)),
        Ended::Terminated => Err(Failure::Signal(Signal::SIGTERM)),
        Ended::Limit(limit) => Err(Failure::failed(limit)),
        Ended::Failed(error) => Err(error.into()),
    }
}

/// The transcript: a new one, or that of the session to go on with.
fn transcript(verb: &Run, source: &Source, context: &Context) -> Result<(Transcript, Told)> {
    let dir = context.config.layout.sessions();
    if let Some(word) = &verb.resume {
        let path = find(&dir, word, &context.config.environment.cwd)?;
        return Ok(Transcript::resume(&path)?);
    }
    let (id, now) = source.birth();
    let path = source.transcript(&id, &context.config.layout);
    let header = Header::new(id, AGENT, (&context.config.environment.cwd, now));
    Ok((Transcript::create(&path, header)?, Told::default()))
}

/// The session that a word means.
fn find(dir: &Path, word: &str, directory: &Path) -> Result<PathBuf> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".jsonl") else { continue };
        let fits = match word {
            "last" => Transcript::header_of(&path).is_some_and(|header| header.directory == directory),
            word => id.starts_with(word),
        };
        if fits {
            let modified =
                entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((modified, path));
        }
    }
    found.sort();
    match (found.len(), word) {
        (0, "last") => Err(Failure::missing(format!("there is no session of {}", directory.display()))),
        (0, _) => Err(Failure::missing(format!("there is no session '{word}' in {}", dir.display()))),
        (1, _) | (_, "last") => Ok(found.pop().map(|(_, path)| path).unwrap_or_default()),
        (n, _) => Err(Failure::usage(format!("{n} sessions begin with '{word}': say more of its id"))),
    }
}

/// All that the agent is and has.
fn session(
    verb: &Run,
    context: &Context,
    (source, transcript, told, (format, permits)): (Source, Transcript, Told, (Option<Format>, Permits)),
) -> Result<Session> {
    let config = &context.config;
    let directory = transcript.header().directory.clone();
    if !directory.is_dir() {
        return Err(Failure::usage(format!(
            "the session's directory {} is not there any more",
            directory.display()
        )));
    }
    let instructions = Instructions::find(&directory, &config.layout.config_dir, config.environment.home());
    let model = model(verb, &source, context)?;
    let mail = source.mail();
    let provider = source.provider(config, (&transcript, &model))?;
    let clock = provider.moment();
    let clock: Clock = Box::new(move || clock.as_ref().map_or_else(SystemTime::now, Moment::now));
    let now = clock();
    let role = verb.append_system_prompt.as_deref().map(body).transpose()?;
    let facts = Facts { directory: &directory, model: &model, now };
    let settings = Settings {
        tokens_max: TOKENS_MAX,
        thinking_tokens: None,
        window_tokens: 200_000,
        system: session::system(role.as_deref(), &instructions.text, &facts).into(),
        tools: tools::ALL.iter().map(|tool| tool.definition()).collect(),
        limits: Limits { turns: verb.max_turns, tokens: verb.max_tokens, cost_usd: None },
        price: None,
        mail,
        model,
    };
    let output = transcript.path().with_extension("");
    let environment = config.environment.for_commands();
    Ok(Session {
        agent: transcript.header().agent.clone(),
        state: State::new(settings, directory, told),
        provider,
        deltas: if format.is_none() { Deltas::Wanted } else { Deltas::Unwanted },
        hands: Hands::new(output, environment, permits),
        transcript,
        instructions,
        inbox: None,
        clock,
        at_rest: if format.is_none() { AtRest::Wait } else { AtRest::End },
    })
}

/// Runs the session on an event loop of its own, with this process's signals and terminal. Beside how it ended it says
/// whether all was replayed that there was to be replayed.
fn drive(
    session: Session,
    (prompt, format, member): (Option<String>, Option<Format>, Option<&Member>),
    context: &mut Context,
) -> Result<(Ended, std::result::Result<(), provider::Error>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::failed(format!("no event loop: {e}")))?;
    let (begun, clock) = ((session.clock)(), session.provider.moment());
    let (words, heard) = mpsc::unbounded_channel();
    let about = json!({"cwd": session.transcript.header().directory, "model": session.state.model()});
    let mut shown = Shown::new(&mut context.out, format, &session.transcript.header().session);
    shown.begin(&about);
    let model = session.state.model().to_owned();
    if prompt.is_none() && format.is_none() {
        shown.ask();
    }
    if let Some(prompt) = prompt {
        let _ = words.send(Heard::Prompt(prompt));
    }
    if let Some(member) = member {
        member.is(if session.state.is_unanswered() { Doing::Working } else { Doing::Idle });
    }
    if format.is_none() {
        read_lines(words.clone());
    }
    let ended = runtime.block_on(async {
        listen_to_signals(&words)?;
        let mut show = |news: &News, progress: &Progress| {
            shown.show(news, progress);
            if let Some(member) = member {
                member.notice(news, (progress, &model));
            }
            // Nobody reads what comes of it.
            if shown.is_broken() {
                let _ = words.send(Heard::Terminate);
            }
        };
        Ok::<_, Failure>(session::run(session, heard, &mut show).await?)
    });
    let now = clock.as_ref().map_or_else(SystemTime::now, Moment::now);
    let took = now.duration_since(begun).unwrap_or_default();
    // What was told to others must not be cut off; another thread may still read the terminal.
    runtime.shutdown_timeout(LAST_WORDS_WITHIN);
    let (mut ended, provider) = ended?;
    let is_replayed = provider.end();
    if let (Err(e), Ended::Done(_) | Ended::Limit(_)) = (&is_replayed, &ended) {
        ended = Ended::Failed(e.clone());
    }
    shown.end(&ended, took)?;
    Ok((ended, is_replayed))
}

/// INT interrupts, TERM and HUP end.
fn listen_to_signals(words: &mpsc::UnboundedSender<Heard>) -> Result {
    let failed = |e: std::io::Error| Failure::failed(format!("cannot listen to signals: {e}"));
    for (kind, heard) in [
        (SignalKind::interrupt(), Heard::Interrupt),
        (SignalKind::terminate(), Heard::Terminate),
        (SignalKind::hangup(), Heard::Terminate),
    ] {
        let mut signals = signal(kind).map_err(failed)?;
        let words = words.clone();
        tokio::spawn(
            async move { while signals.recv().await.is_some() && words.send(heard.clone()).is_ok() {} },
        );
    }
    Ok(())
}

/// The lines that a person writes.
fn read_lines(words: mpsc::UnboundedSender<Heard>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if !line.trim().is_empty() && words.send(Heard::Prompt(line)).is_err() {
                return;
            }
        }
        let _ = words.send(Heard::NoMore);
    });
}
