//! How the model service is reached and asked, from the environment and the settings files.

use super::{Environment, Error};
use std::fmt;
use std::time::Duration;

/// Where the service is, if nothing else is said.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// How often a request is tried, if nothing else is said.
const TRIES: u32 = 10;
/// How long the service may be silent, if nothing else is said. It sends a sign of life every few seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps it.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself: for the request alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// How the service knows us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    None,
    /// `ANTHROPIC_API_KEY`, as `x-api-key`.
    Key(Secret),
    /// `ANTHROPIC_AUTH_TOKEN`, as a bearer token.
    Token(Secret),
    /// A command that prints the key: `THRONG_API_KEY_COMMAND`, run by `sh -c`.
    Command(String),
}

/// How the service is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Its address, without a slash at the end.
    pub base_url: String,
    /// How it knows us.
    pub auth: Auth,
    /// Further headers: `ANTHROPIC_CUSTOM_HEADERS`, one `Name: value` a line. May be secret.
    pub headers: Vec<(String, Secret)>,
    /// `anthropic-beta`.
    pub betas: Vec<String>,
    /// How often a request is tried.
    pub tries_max: u32,
    /// How long it may be silent.
    pub idle_timeout: Duration,
}

impl ServiceSettings {
    /// What the environment says.
    ///
    /// # Errors
    /// A setting that cannot be read, with its name.
    pub fn of(environment: &Environment) -> Result<ServiceSettings, Error> {
        let base_url = environment.get("ANTHROPIC_BASE_URL").unwrap_or(BASE_URL).trim_end_matches('/');
        // Some name the API's folder too.
        let base_url = base_url.strip_suffix("/v1").unwrap_or(base_url).to_owned();
        if !(base_url.starts_with("http://") || base_url.starts_with("https://")) {
            return Err(Error::Setting(format!(
                "ANTHROPIC_BASE_URL is '{base_url}': it must begin with http:// or https://"
            )));
        }
        let secret = |key: &str| environment.get(key).map(|text| Secret::new(text.trim()));
        let auth = match (secret("ANTHROPIC_API_KEY"), secret("ANTHROPIC_AUTH_TOKEN")) {
            (Some(key), _) => Auth::Key(key),
            (None, Some(token)) => Auth::Token(token),
            (None, None) => environment
                .get("THRONG_API_KEY_COMMAND")
                .map_or(Auth::None, |command| Auth::Command(command.to_owned())),
        };
        let mut headers = Vec::new();
        for line in environment.get("ANTHROPIC_CUSTOM_HEADERS").unwrap_or_default().lines() {
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.trim().to_owned(), Secret::new(value.trim()))),
                None if line.trim().is_empty() => {}
                None => {
                    let problem = "ANTHROPIC_CUSTOM_HEADERS: each line is written 'Name: value'";
                    return Err(Error::Setting(problem.to_owned()));
                }
            }
        }
        let betas = environment.get("ANTHROPIC_BETAS").unwrap_or_default().split(',').map(str::trim);
        let betas = betas.filter(|beta| !beta.is_empty()).map(str::to_owned).collect();
        let idle_timeout = number(environment, "API_TIMEOUT_MS")?.map_or(IDLE_TIMEOUT, Duration::from_millis);
        let tries = number(environment, "THRONG_MODEL_TRIES")?.unwrap_or(u64::from(TRIES));
        let tries_max = u32::try_from(tries).unwrap_or(u32::MAX).max(1);
        Ok(ServiceSettings { base_url, auth, headers, betas, tries_max, idle_timeout })
    }
}

/// A whole number.
fn number(environment: &Environment, key: &str) -> Result<Option<u64>, Error> {
    let read = |text: &str| {
        text.trim()
            .parse()
            .map_err(|_| Error::Setting(format!("{key} is '{text}': it must be a whole number")))
    };
    environment.get(key).map(read).transpose()
}
