//! A model service of the Messages API, asked over HTTP (D1).

use super::assemble::Assembly;
use super::body::body;
use super::sse::Parser;
use super::{Answer, Answering, Deltas, EVENTS_MAX, Error, ModelEvent, Request};
use crate::config::model::{Auth, BASE_URL, Secret, ServiceSettings};
use crate::sys::run;
use backon::{BackoffBuilder, ExponentialBuilder};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{OnceCell, mpsc};

/// Version of the API.
const VERSION: &str = "2023-06-01";
/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// First and longest wait between two tries; each is up to twice as long, by chance.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// The longest wait that the service may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// Longest answer in one piece.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often a service is tried that does not answer at all.
const UNREACHED_TRIES: u32 = 4;
/// How much of an error's body is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How much of a body that is none of the API's is shown, in characters.
const ERROR_CHARS_MAX: usize = 300;
/// Shorter values of headers are words that say nothing, in bytes.
const SECRET_BYTES_MIN: usize = 8;
/// How long the command that prints the key may take.
const KEY_WITHIN: Duration = Duration::from_secs(30);

/// A model service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Service {
    settings: Arc<ServiceSettings>,
    /// Made when it is first needed: an idle agent has no use for it.
    client: Arc<OnceCell<Client>>,
    /// What the key command printed.
    key: Arc<tokio::sync::Mutex<Option<Secret>>>,
}

/// Why a try failed.
struct Failed {
    error: Error,
    again: Again,
}

/// Whether a failure may be gone the next time.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    No,
    /// After the usual wait.
    Yes,
    /// After as long as the service asks for.
    After(Duration),
    /// At once, with a new key.
    WithNewKey,
}

impl Failed {
    fn for_good(error: Error) -> Failed {
        Failed { error, again: Again::No }
    }

    fn for_now(error: Error) -> Failed {
        Failed { error, again: Again::Yes }
    }
}

/// One answer being asked for.
struct Asking {
    service: Service,
    body: Arc<[u8]>,
    deltas: Deltas,
    events: mpsc::Sender<Result<ModelEvent, Error>>,
    /// Whether something of an answer was shown, which cannot be taken back.
    has_shown: bool,
}

impl Service {
    /// Nothing is asked yet.
    pub fn new(settings: ServiceSettings) -> Service {
        Service { settings: Arc::new(settings), client: Arc::default(), key: Arc::default() }
    }

    /// Asks for an answer.
    pub fn start(&self, request: &Request, deltas: Deltas) -> Answering {
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let body = body(request).into();
        let asking = Asking { service: self.clone(), body, deltas, events, has_shown: false };
        Answering { events: receiver, task: tokio::spawn(asking.run()) }
    }

    async fn client(&self) -> Result<&Client, Error> {
        let make = || async {
            // Fails only where another part of the program was first.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = Client::builder()
                .user_agent(concat!("throng/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_WITHIN)
                .read_timeout(self.settings.idle_timeout)
                // Another host has no business with the key.
                .redirect(reqwest::redirect::Policy::none());
            // Reading the system's certificates takes time and memory; without TLS there is no use for them.
            let client = match self.settings.base_url.starts_with("http://") {
                true => client.tls_certs_only([]),
                false => client,
            };
            client.build().map_err(|e| Error::Settings(format!("no HTTP client: {}", words(e))))
        };
        self.client.get_or_try_init(make).await
    }

    async fn headers(&self) -> Result<HeaderMap, Error> {
        let settings = &self.settings;
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            let bad =
                |what: &str| Error::Settings(format!("the header '{name}' has {what} that cannot be sent"));
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("a name"))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad("a value"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
            Ok(())
        };
        set("content-type", "application/json")?;
        set("anthropic-version", VERSION)?;
        if !settings.betas.is_empty() {
            set("anthropic-beta", &settings.betas.join(","))?;
        }
        match &settings.auth {
            Auth::None if settings.base_url == BASE_URL => {
                return Err(Error::Settings(
                    "there is no key for the model service: set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or \
                     THRONG_API_KEY_COMMAND, or ANTHROPIC_BASE_URL to a server that needs none"
                        .to_owned(),
                ));
            }
            Auth::None => {}
            Auth::Key(key) => set("x-api-key", key.reveal())?,
            Auth::Token(token) => set("authorization", &format!("Bearer {}", token.reveal()))?,
            Auth::Command(command) => set("x-api-key", self.key(command).await?.reveal())?,
        }
        for (name, value) in &settings.headers {
            set(name, value.reveal())?;
        }
        Ok(headers)
    }

    /// What the key command prints; it is asked once, and again when the service refuses its key.
    async fn key(&self, command: &str) -> Result<Secret, Error> {
        let mut known = self.key.lock().await;
        if let Some(key) = &*known {
            return Ok(key.clone());
        }
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(command);
        let answer = tokio::task::spawn_blocking(move || run::answer_within(shell, KEY_WITHIN)).await;
        let bad = |why: String| Error::Settings(format!("the command that prints the key failed: {why}"));
        let answer = answer.map_err(|e| bad(e.to_string()))?.map_err(|e| bad(e.to_string()))?;
        let key = answer.stdout.trim();
        if !answer.status.success() || key.is_empty() {
            // Its errors may repeat what it was told: only the status is said.
            return Err(bad(format!("it ended with {} and printed {} characters", answer.status, key.len())));
        }
        let key = Secret::new(key);
        *known = Some(key.clone());
        Ok(key)
    }

    /// A text of the service without what is secret: some repeat what they were sent.
    async fn without_secrets(&self, text: &str) -> String {
        let command_key = self.key.lock().await.clone();
        let key = match &self.settings.auth {
            Auth::Key(key) | Auth::Token(key) => Some(key),
            Auth::None | Auth::Command(_) => None,
        };
        let secrets =
            key.into_iter().chain(&command_key).chain(self.settings.headers.iter().map(|(_, value)| value));
        let words = secrets.map(Secret::reveal).filter(|word| word.len() >= SECRET_BYTES_MIN);
        words.fold(text.to_owned(), |text, word| text.replace(word, "(secret)"))
    }

    /// An error without what is secret.
    async fn harmless(&self, mut error: Error) -> Error {
        if let Error::TooLong { message: text }
        | Error::Refused { message: text, .. }
        | Error::Failed { message: text, .. }
        | Error::Malformed { problem: text } = &mut error
        {
            *text = self.without_secrets(text).await;
        }
        error
    }
}

impl Asking {
    async fn run(mut self) {
        let last = match self.answer().await {
            Ok(answer) => Ok(ModelEvent::Done(Box::new(answer))),
            Err(error) => Err(error),
        };
        // Nobody waits any more.
        let _ = self.events.send(last).await;
    }

    async fn answer(&mut self) -> Result<Answer, Error> {
        let (shortest, longest) = BACKOFF;
        let tries_max = self.service.settings.tries_max;
        let mut waits = ExponentialBuilder::default()
            .with_min_delay(shortest)
            .with_max_delay(longest)
            .with_jitter()
            .without_max_times()
            .build();
        let mut has_new_key = false;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut failed = match self.attempt().await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            failed.error = self.service.harmless(failed.error).await;
            let wait = match failed.again {
                Again::WithNewKey if !has_new_key => {
                    has_new_key = true;
                    *self.service.key.lock().await = None;
                    continue;
                }
                Again::No | Again::WithNewKey => return Err(failed.error.after(tries)),
                _ if self.has_shown || tries >= tries_for(&failed.error, tries_max) => {
                    return Err(failed.error.after(tries));
                }
                Again::Yes => waits.next().unwrap_or(longest),
                Again::After(wait) => wait.min(RETRY_AFTER_MAX),
            };
            let event =
                ModelEvent::AskingAgain { attempt: tries, wait, why: failed.error.after(tries).to_string() };
            let _ = self.events.send(Ok(event)).await;
            tokio::time::sleep(wait).await;
        }
    }

    /// One try.
    async fn attempt(&mut self) -> Result<Answer, Failed> {
        let service = self.service.clone();
        let url = format!("{}/v1/messages", service.settings.base_url);
        let client = service.client().await.map_err(Failed::for_good)?;
        let headers = service.headers().await.map_err(Failed::for_good)?;
        let request = client.post(&url).headers(headers).body(self.body.to_vec());
        let response = request.send().await.map_err(|e| self.broken(e))?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/html")) {
            let bytes = start_of(response).await;
            let (_, text) = said(&bytes, StatusCode::OK);
            let problem = format!("a page came instead of a stream: {text}");
            return Err(Failed::for_good(Error::Malformed { problem }));
        }
        // Some servers never stream, LiteLLM's prepared answers for one.
        if kind.is_some_and(|kind| kind.starts_with("application/json")) {
            return self.whole(response).await;
        }
        self.stream(response).await
    }

    /// An answer that comes in one piece.
    async fn whole(&self, mut response: Response) -> Result<Answer, Failed> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.broken(e))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_BYTES_MAX {
                let problem = format!("an answer of more than {} MB", ANSWER_BYTES_MAX / 1024 / 1024);
                return Err(Failed::for_good(Error::Malformed { problem }));
            }
        }
        serde_json::from_slice(&bytes)
            .map_err(|e| Failed::for_good(Error::Malformed { problem: format!("no message: {e}") }))
    }

    async fn stream(&mut self, mut response: Response) -> Result<Answer, Failed> {
        let (mut parser, mut assembly) = (Parser::default(), Assembly::default());
        let mut taken = Vec::new();
        loop {
            let bytes = match response.chunk().await.map_err(|e| self.broken(e)) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // Nothing is missing but the last event.
                Err(failed) if failed.error == Error::EndedEarly => {
                    return assembly.finish().map_err(|_| failed);
                }
                Err(failed) => return Err(failed),
            };
            let pushed = parser.push(&bytes, |data| taken.push(assembly.take(data)));
            for event in taken.drain(..) {
                match event.map_err(in_the_middle)? {
                    Some(ModelEvent::Done(answer)) => return Ok(*answer),
                    Some(event) if self.deltas == Deltas::Wanted => {
                        self.has_shown = true;
                        let _ = self.events.send(Ok(event)).await;
                    }
                    _ => {}
                }
            }
            pushed.map_err(|e| Failed::for_good(Error::Malformed { problem: e.to_string() }))?;
        }
        let mut whole = None;
        parser.finish(|data| {
            // What was cut off is no event.
            if let Ok(Some(ModelEvent::Done(answer))) = assembly.take(data) {
                whole = Some(*answer);
            }
        });
        whole.map_or_else(|| assembly.finish(), Ok).map_err(Failed::for_now)
    }

    /// The connection failed.
    fn broken(&self, e: reqwest::Error) -> Failed {
        let settings = &self.service.settings;
        if e.is_timeout() && !e.is_connect() {
            return Failed::for_now(Error::Silent { waited: settings.idle_timeout });
        }
        if e.is_body() || e.is_decode() {
            return Failed::for_now(Error::EndedEarly);
        }
        if e.is_builder() {
            return Failed::for_good(Error::Settings(format!(
                "the model service cannot be asked: {}",
                words(e)
            )));
        }
        Failed::for_now(Error::Unreachable { url: shown(&settings.base_url), problem: words(e), tries: 1 })
    }

    /// The service said no.
    async fn refused(&self, response: Response) -> Failed {
        let status = response.status().as_u16();
        let header =
            |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (after, advice) = (header("retry-after").and_then(|text| wait(&text)), header("x-should-retry"));
        let code = response.status();
        let (kind, message) = said(&start_of(response).await, code);
        if is_too_long(status, &message) {
            return Failed::for_good(Error::TooLong { message });
        }
        let may_be_gone = matches!(status, 408 | 409 | 429 | 500..=599);
        let again = match (advice.as_deref(), after) {
            (Some("false"), _) => Again::No,
            _ if status == 401 && matches!(self.service.settings.auth, Auth::Command(_)) => Again::WithNewKey,
            (Some("true"), None) => Again::Yes,
            (Some("true"), Some(wait)) => Again::After(wait),
            (_, Some(wait)) if may_be_gone => Again::After(wait),
            _ if may_be_gone => Again::Yes,
            _ => Again::No,
        };
        let error = match again {
            Again::No | Again::WithNewKey => Error::Refused { status, kind, message },
            _ => Error::Failed { status, kind, message, tries: 1 },
        };
        Failed { error, again }
    }
}

/// The beginning of a body, as much as is worth reading.
async fn start_of(mut response: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < ERROR_BYTES_MAX
        && let Ok(Some(chunk)) = response.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

/// How often a request is tried that fails so: where nobody answers, waiting seldom helps.
fn tries_for(error: &Error, tries_max: u32) -> u32 {
    match error {
        Error::Unreachable { .. } | Error::Silent { .. } => tries_max.min(UNREACHED_TRIES),
        _ => tries_max,
    }
}

/// An error in the middle of the stream.
fn in_the_middle(error: Error) -> Failed {
    match error {
        Error::Failed { kind, message, .. } if !is_for_now(&kind) => match is_too_long(400, &message) {
            true => Failed::for_good(Error::TooLong { message }),
            false => Failed::for_good(Error::Refused { status: 200, kind, message }),
        },
        // A server that breaks off in the middle of an event may do better the next time.
        error => Failed::for_now(error),
    }
}

fn is_for_now(kind: &str) -> bool {
    matches!(kind, "overloaded_error" | "rate_limit_error" | "api_error" | "timeout_error" | "")
}

fn is_too_long(status: u16, message: &str) -> bool {
    let text = message.to_lowercase();
    let says_so = ["prompt is too long", "exceed context limit", "context window", "context length"];
    status == 413 || status == 400 && says_so.iter().any(|words| text.contains(words))
}

/// The service's word for a refusal, and its words.
fn said(bytes: &[u8], status: StatusCode) -> (String, String) {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let error = &value["error"];
    if let Some(message) = error["message"].as_str() {
        return (error["type"].as_str().unwrap_or_default().to_owned(), message.to_owned());
    }
    let kind = status.canonical_reason().unwrap_or("unknown").to_owned();
    let text = String::from_utf8_lossy(bytes);
    let text: String =
        crate::protocol::body::harmless_lines(text.trim()).chars().take(ERROR_CHARS_MAX).collect();
    (kind, if text.is_empty() { "it says nothing more".to_owned() } else { text })
}

/// `retry-after`: seconds, or a moment.
fn wait(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let moment = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp().as_second();
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(moment).ok()?);
    Some(moment.duration_since(SystemTime::now()).unwrap_or_default())
}

/// An address without a password.
fn shown(url: &str) -> String {
    crate::config::redacted("URL", url)
}

/// What went wrong, down to its cause, without the address.
fn words(e: reqwest::Error) -> String {
    let e = e.without_url();
    let mut text = e.to_string();
    let mut cause = std::error::Error::source(&e);
    while let Some(e) = cause {
        text += &format!(": {e}");
        cause = e.source();
    }
    text
}

impl Error {
    /// The same after so many tries.
    fn after(&self, n: u32) -> Error {
        let mut error = self.clone();
        if let Error::Failed { tries, .. } | Error::Unreachable { tries, .. } = &mut error {
            *tries = n;
        }
        error
    }
}
