//! One agent's inbox. Anybody appends; only its owner marks and prunes (protocol I.3).

use super::guard::{Replaced, Replacement, TRIES_MAX, lost};
use super::queue::Turn;
use super::spool::{Item, Waited};
use super::{Error, Result, TeamStore};
use crate::protocol::body::ShutdownRequest;
use crate::protocol::layout::Fnv;
use crate::protocol::signature::claims_to_lead;
use crate::protocol::{AgentName, Body, Damage, Entry, Inbox, approval, inbox, names};
use crate::sys::atomic_file::{self, Stamp};
use crate::sys::{failed, fault};
use serde_json::json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Read entries that stay in the file.
const READ_KEPT_MAX: usize = 100;
/// Their size in bytes, together.
const READ_KEPT_BYTES_MAX: usize = 256 * 1024;
/// How long a read that met another program's writing is repeated.
const TORN_READ: Duration = Duration::from_millis(200);

/// New bytes for the file's; `None` leaves them.
type Edit<'a> = dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>> + 'a;

/// An inbox file.
#[derive(Debug)]
pub struct Mailbox<'a> {
    store: &'a TeamStore,
    agent: AgentName,
    path: PathBuf,
}

/// What waits in an inbox.
#[derive(Debug, Default)]
pub struct Unread {
    /// Unread messages, oldest first, each once.
    pub entries: Vec<Entry>,
    /// What could not be read, for a warning.
    pub trouble: Option<String>,
}

impl<'a> Mailbox<'a> {
    pub(super) fn new(store: &'a TeamStore, agent: &AgentName) -> Mailbox<'a> {
        Mailbox { store, agent: agent.clone(), path: store.layout.inbox(&store.name, agent) }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file, if it is not there yet, and its folder (case C001), but never the folder of a team that is gone.
    ///
    /// # Errors
    /// [`Error::NoTeam`]; the file system's.
    pub fn create(&self) -> Result<()> {
        if !self.store.exists() {
            return Err(Error::NoTeam(self.store.name.clone()));
        }
        let dir = self.store.layout.inboxes(&self.store.name);
        match std::fs::create_dir(&dir) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed("create directory", &dir)(e).into());
            }
            _ => {}
        }
        atomic_file::create_new(&self.path, inbox::EMPTY, atomic_file::SHARED)?;
        Ok(())
    }

    /// Takes back the inbox of a member that could not be started: the file goes if there is nothing in it but the messages
    /// `own`; else these are marked read, so that nobody is given them.
    ///
    /// # Errors
    /// The lock was not had in time; the file system's.
    pub fn take_back(&self, own: &[String]) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let lock = self.store.lock(&self.path)?;
        let all = self.entries()?;
        let is_own = |e: &Entry| e.msg_id.as_ref().is_some_and(|id| own.contains(id));
        if all.trouble.is_none() && all.entries.iter().all(is_own) {
            all.entries.iter().for_each(|e| self.store.journal_withdrawn(&self.agent, &e.identity()));
            return Ok(atomic_file::remove_optional(&self.path)?);
        }
        drop(lock);
        self.mark_read(own)
    }

    /// Adds a message. It counts as sent only when this returns.
    ///
    /// The leader's is signed, if the owner can verify it; but no word that is obeyed: a verdict is given by
    /// [`TeamStore::answer`] alone, and asking to end is [`Mailbox::ask_to_end`]'s. If another process of ours is writing this
    /// file, the message is spooled and goes with the next write. A damaged file is kept aside, once for each distinct
    /// damage, before it is replaced.
    ///
    /// # Errors
    /// The lock was not had in time, or the file could not be written, or it is such a word; then nothing was sent.
    pub fn append(&self, entry: &Entry) -> Result<()> {
        if claims_to_lead(&entry.from)
            && let Some(kind) = Body::leaders_kind(&entry.text)
        {
            return Err(Error::LeadersWord { to: self.agent.clone(), kind });
        }
        self.append_any(entry)
    }

    /// Asks the owner, in the leader's name, to end. It counts as sent only when this returns.
    ///
    /// # Errors
    /// As [`Mailbox::append`].
    pub fn ask_to_end(&self, request: ShutdownRequest) -> Result<()> {
        let (id, time) = (uuid::Uuid::new_v4().to_string(), request.timestamp.clone());
        let request = ShutdownRequest { from: names::LEAD.to_owned(), ..request };
        let mut entry = Entry::new(names::LEAD, &Body::ShutdownRequest(request).to_text(), &time, &id);
        entry.summary = Some("please end".to_owned());
        self.append_any(&entry)
    }

    /// Adds a message, whatever it says.
    pub(super) fn append_any(&self, entry: &Entry) -> Result<()> {
        self.create()?;
        // Before it is spooled: whoever writes it for us could not.
        let entry = &*self.store.signed(entry, &self.agent)?;
        self.post(&inbox::rendered(entry))?;
        let about =
            json!({"from": entry.from, "to": self.agent, "msg_id": entry.msg_id, "summary": entry.summary});
        self.store.note("message_sent", &about);
        self.store.journal_queued(&self.agent, entry);
        self.store.poke(&self.agent);
        Ok(())
    }

    fn post(&self, text: &str) -> Result<()> {
        let mut own = Item { name: String::new(), text: text.to_owned() };
        let Some(queue) = self.store.queue(&self.path)? else {
            return self.rewrite(None, Some(&own), &mut keep);
        };
        if let Some(turn) = queue.try_turn()? {
            return self.rewrite(Some(turn), Some(&own), &mut keep);
        }
        let spooled = match queue.submit(text) {
            Ok(spooled) => spooled,
            Err(e) => {
                tracing::warn!(error = %e, "not spooled");
                return self.rewrite(Some(queue.turn()?), Some(&own), &mut keep);
            }
        };
        spooled.name().clone_into(&mut own.name);
        match queue.wait_for(&spooled)? {
            Waited::Written => Ok(()),
            Waited::OurTurn(turn) => self
                .rewrite(Some(turn), Some(&own), &mut keep)
                .or_else(|e| queue.give_up(&spooled, e).map(drop)),
        }
    }

    /// One write of the file: `edit` (`None`: as it is), then `own` and what other processes of ours have spooled.
    fn rewrite(&self, mut turn: Option<Turn>, own: Option<&Item>, edit: &mut Edit<'_>) -> Result<()> {
        let (mut is_alone, mut is_doubtful) = (false, false);
        for _ in 0..TRIES_MAX {
            let mut locked = self.store.lock_in(&self.path, turn.take())?;
            let (names, mut texts) = batch(locked.turn().filter(|_| !is_alone), own);
            let before = Stamp::of(&self.path);
            let bytes = atomic_file::read_optional(&self.path)?.unwrap_or_else(|| inbox::EMPTY.to_vec());
            let edited = edit(&bytes)?;
            if is_doubtful {
                inbox::drop_present(&bytes, &mut texts);
            }
            if edited.is_some() || !texts.is_empty() {
                let new = self.added(edited.as_deref().unwrap_or(&bytes), &texts)?;
                let new = Replacement { target: &self.path, bytes: &new, before, spooled: &names };
                let replaced = locked.replace(&new)?;
                is_alone |= replaced == Replaced::NotTogether;
                // A program that is not ours removes what it has read: repeating might double.
                is_doubtful |= replaced == Replaced::Doubtful && self.store.is_read_by_ours(&self.agent);
                if matches!(replaced, Replaced::Not | Replaced::NotTogether)
                    || (replaced == Replaced::Doubtful && is_doubtful)
                {
                    turn = locked.into_turn();
                    continue;
                }
            }
            // Our own too, before the turn is anybody's: it still lies in the spool.
            locked.acknowledge(&names);
            locked.acknowledge(own.map(|own| own.name.clone()).as_slice());
            fault::point("acknowledged");
            return Ok(());
        }
        Err(lost(&self.path))
    }

    /// The file with more entries. A damaged one is kept aside.
    fn added(&self, bytes: &[u8], texts: &[String]) -> Result<Vec<u8>> {
        inbox::with_entries(bytes, texts).or_else(|damage| {
            self.quarantine(bytes, &damage)?;
            Ok(inbox::render(texts))
        })
    }

    /// What waits. Reads without a lock and never changes the file.
    ///
    /// # Errors
    /// The file system's.
    pub fn unread(&self) -> Result<Unread> {
        let all = self.entries()?;
        let mut seen = HashSet::new();
        let entries = all.entries.into_iter().filter(|e| !e.read && seen.insert(e.identity())).collect();
        Ok(Unread { entries, trouble: all.trouble })
    }

    /// Whether nothing waits, by one look without waiting: a file that is just being written, or is damaged, is not empty.
    pub fn is_empty_now(&self) -> bool {
        match atomic_file::read_optional(&self.path) {
            Ok(None) => true,
            Ok(Some(bytes)) => Inbox::parse(&bytes).is_ok_and(|inbox| inbox.entries().all(|(_, e)| e.read)),
            Err(_) => false,
        }
    }

    /// Every well-formed message, read or not.
    ///
    /// # Errors
    /// The file system's.
    pub fn entries(&self) -> Result<Unread> {
        let start = Instant::now();
        loop {
            let Some(bytes) = atomic_file::read_optional(&self.path)? else { return Ok(Unread::default()) };
            match Inbox::parse(&bytes) {
                Ok(inbox) => {
                    let entries: Vec<Entry> = inbox.entries().map(|(_, entry)| entry).collect();
                    let odd = inbox.slices.len() - entries.len();
                    let trouble =
                        (odd > 0).then(|| format!("{}: {odd} malformed entries", self.path.display()));
                    return Ok(Unread { entries, trouble });
                }
                // Another program may be writing it in place.
                Err(_) if start.elapsed() < TORN_READ => std::thread::sleep(Duration::from_millis(10)),
                Err(damage) => {
                    let kept = self.quarantine(&bytes, &damage)?;
                    let trouble = format!(
                        "{} is damaged ({damage}); a copy is at {}",
                        self.path.display(),
                        kept.display()
                    );
                    return Ok(Unread { entries: Vec::new(), trouble: Some(trouble) });
                }
            }
        }
    }

    /// Marks messages as read, once their owner's transcript (a script's flushed output) holds them, and prunes: the
    /// newest `READ_KEPT_MAX` read entries stay, and requests that nobody has answered; malformed ones are put aside.
    ///
    /// # Errors
    /// The lock was not had in time; the messages stay unread then and come again.
    pub fn mark_read(&self, identities: &[String]) -> Result<()> {
        let turn = self.store.queue(&self.path)?.map(|queue| queue.turn()).transpose()?;
        self.rewrite(turn, None, &mut |bytes| self.marked(bytes, identities))?;
        for identity in identities {
            self.store.note("message_read", &json!({"by": self.agent, "msg_id": identity}));
        }
        self.store.journal_delivered(&self.agent, identities);
        Ok(())
    }

    /// The file with these messages marked, and pruned.
    fn marked(&self, bytes: &[u8], identities: &[String]) -> Result<Option<Vec<u8>>> {
        let Ok(inbox) = Inbox::parse(bytes) else { return Ok(None) };
        let typed: Vec<(usize, Entry)> = inbox.entries().collect();
        if typed.len() < inbox.slices.len() {
            self.quarantine(bytes, &Damage::Json("malformed entries".to_owned()))?;
        }
        let open = match self.agent.is_lead() && approval::may_hold_requests(bytes) {
            true => {
                self.store.open_requests(&typed.iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>())
            }
            false => HashSet::new(),
        };
        // What may be pruned, and the slice.
        let mut kept: Vec<(bool, String)> = typed
            .iter()
            .map(|(i, entry)| match identities.contains(&entry.identity()) && !entry.read {
                true => (!open.contains(&entry.identity()), inbox::marked_read(inbox.slices[*i])),
                false => (entry.read && !open.contains(&entry.identity()), inbox.slices[*i].get().to_owned()),
            })
            .collect();
        prune(&mut kept);
        let slices: Vec<String> = kept.into_iter().map(|(_, slice)| slice).collect();
        Ok(Some(inbox::render(&slices)))
    }

    /// One copy per distinct damage; answers where it is.
    fn quarantine(&self, bytes: &[u8], damage: &Damage) -> Result<PathBuf> {
        let mut hash = Fnv::new();
        hash.add(bytes);
        let dir = self.store.state().quarantine();
        let copy = dir.join(format!("{}-{:016x}.json", self.agent, hash.0));
        atomic_file::make_private_dir(&dir)?;
        if atomic_file::create_new(&copy, bytes, atomic_file::PRIVATE)? {
            tracing::warn!(inbox = %self.path.display(), copy = %copy.display(), %damage, "damaged inbox kept aside");
        }
        Ok(copy)
    }
}

/// Leaves the file as it is.
fn keep(_: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Everything that is to be added, in the order of arrival, and the names of what is others'.
fn batch(turn: Option<&Turn>, own: Option<&Item>) -> (Vec<String>, Vec<String>) {
    let mut all = turn.map(Turn::spooled).unwrap_or_default();
    all.retain(|item| own.is_none_or(|own| own.name != item.name));
    let names = all.iter().map(|item| item.name.clone()).collect();
    if let Some(own) = own {
        // What never was in the spool came last.
        let at = all.iter().position(|item| !own.name.is_empty() && item.name > own.name);
        all.insert(at.unwrap_or(all.len()), own.clone());
    }
    (names, all.into_iter().map(|item| item.text).collect())
}

/// Drops the oldest read slices beyond the limits.
fn prune(slices: &mut Vec<(bool, String)>) {
    let mut read = 0;
    let mut bytes = 0;
    let keep: Vec<bool> = slices
        .iter()
        .rev()
        .map(|(is_read, slice)| {
            if *is_read {
                read += 1;
                bytes += slice.len();
            }
            !*is_read || (read <= READ_KEPT_MAX && bytes <= READ_KEPT_BYTES_MAX)
        })
        .collect();
    let mut keep = keep.into_iter().rev();
    slices.retain(|_| keep.next().unwrap_or(true));
}
