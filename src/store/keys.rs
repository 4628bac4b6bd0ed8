//! The leader's keys (protocol II.3.2): one for each member that was given the public half. They lie on disk, so that any
//! process that speaks for the leader can sign, and a team survives its leader.

use super::{Error, LaunchFile, Result, TeamStore};
use crate::protocol::signature::{FLAG, LeadKey};
use crate::protocol::{AgentName, Entry, names};
use crate::sys::{atomic_file, random};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::SystemTime;

/// Version of a key's file.
const VERSION: u32 = 1;

/// A key as it lies on disk.
#[derive(Serialize, Deserialize)]
struct KeyFile {
    /// Version of this file: 1.
    version: u32,
    /// 32 bytes in base64url: secret.
    seed: String,
    /// When it was made, milliseconds since the epoch.
    made_ms: u64,
}

impl TeamStore {
    /// Makes a new key for a member and keeps it until the member is retired; an older one is replaced.
    ///
    /// # Errors
    /// The file system's.
    pub fn make_lead_key(&self, agent: &AgentName) -> Result<LeadKey> {
        let key = LeadKey::new(random::bytes()?, SystemTime::now());
        let (seed, made_ms) = key.parts();
        let file = KeyFile { version: VERSION, seed: URL_SAFE_NO_PAD.encode(seed), made_ms };
        atomic_file::make_private_dir(&self.state().keys())?;
        let path = self.state().key(agent);
        // A new file has its mode, an older one keeps its own.
        atomic_file::remove_optional(&path)?;
        let bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
        atomic_file::write(&path, &bytes, atomic_file::PRIVATE)?;
        Ok(key)
    }

    /// The key for a member, if it has one.
    ///
    /// # Errors
    /// [`Error::Damaged`]; the file system's.
    pub fn lead_key(&self, agent: &AgentName) -> Result<Option<LeadKey>> {
        let path = self.state().key(agent);
        let Some(bytes) = atomic_file::read_optional(&path)? else { return Ok(None) };
        let damaged = |why: &str| Error::Damaged { path: path.clone(), why: why.to_owned() };
        let file: KeyFile = serde_json::from_slice(&bytes).map_err(|e| damaged(&e.to_string()))?;
        if file.version != VERSION {
            return Err(damaged(&format!("version {} of a key is not known", file.version)));
        }
        let seed = URL_SAFE_NO_PAD.decode(&file.seed).ok().and_then(|seed| seed.try_into().ok());
        let seed = seed.ok_or_else(|| damaged("its seed is not 32 bytes in base64url"))?;
        Ok(Some(LeadKey::from_parts(seed, file.made_ms)))
    }

    /// Removes the key for a member, if there is one.
    ///
    /// # Errors
    /// The file system's.
    pub fn forget_lead_key(&self, agent: &AgentName) -> Result<()> {
        Ok(atomic_file::remove_optional(&self.state().key(agent))?)
    }

    /// Whether a member was told to verify what its leader sends, as its launch file says, whatever became of the key.
    fn was_given_key(&self, agent: &AgentName) -> bool {
        let launch = LaunchFile::read(&self.state().launch(agent));
        let session = launch.ok().and_then(|launch| launch.session);
        session.is_some_and(|session| session.arguments.iter().any(|word| word == FLAG))
    }

    /// Whether its owner takes a message in its inbox for the leader's.
    pub(super) fn is_taken_for_the_leaders(&self, entry: &Entry, by: &AgentName) -> Result<bool> {
        Ok(match self.lead_key(by)? {
            Some(key) => key.has_signed(entry),
            // Nobody but its owner can tell.
            None => !self.was_given_key(by),
        })
    }

    /// The entry as it goes to `to`: signed, if it is the leader's and the member can tell.
    ///
    /// # Errors
    /// [`Error::KeyLost`]; the key's.
    pub(super) fn signed<'e>(&self, entry: &'e Entry, to: &AgentName) -> Result<Cow<'e, Entry>> {
        if entry.from != names::LEAD {
            return Ok(Cow::Borrowed(entry));
        }
        let Some(key) = self.lead_key(to)? else {
            return match self.was_given_key(to) {
                true => Err(Error::KeyLost { agent: to.clone(), path: self.state().key(to) }),
                false => Ok(Cow::Borrowed(entry)),
            };
        };
        let mut entry = entry.clone();
        key.sign(&mut entry);
        Ok(Cow::Owned(entry))
    }
}
