//! Entries that wait to be written by whoever has the turn (`store/queue.rs`): one file each, named by time, so first come,
//! first served.
//!
//! - Its writer holds a flock on the file: an entry that nobody holds is that of a dead writer, and is dropped, since
//!   nobody was told that it was sent.
//! - Acknowledging is emptying the file, after the rename: its writer sees that through its open descriptor, wherever the
//!   folder may have gone, and no other end of the file means success.
//! - A writer that gives up renames its entry away, then looks into the record whether it is being written.

use super::queue::{Pauses, Queue, Turn};
use super::{Error, Result};
use crate::sys::{atomic_file, failed, fault};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

/// Most entries of others that one write takes along.
const BATCH_MAX: usize = 512;
/// Their size in bytes, together; one always goes.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Age from which a file without content is what a killed process left.
const LITTER: Duration = Duration::from_secs(60);
/// Every so many looks at one's own entry, the turn is tried for.
const TURN_EVERY: u32 = 2;
/// Mark of an entry whose writer has given up.
const WITHDRAWN: &str = "withdrawn";

/// An entry that waits.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Name of its file.
    pub name: String,
    /// The entry as it shall stand in the file.
    pub text: String,
}

/// An entry of ours in the spool. Dropping it takes it out.
#[derive(Debug)]
pub(super) struct Spooled {
    file: File,
    path: PathBuf,
    name: String,
}

/// How waiting ended.
#[derive(Debug)]
pub(super) enum Waited {
    /// Another process has written it.
    Written,
    /// It is our turn, and it is still to be written.
    OurTurn(Turn),
}

impl Queue {
    /// Puts an entry into the spool.
    pub(super) fn submit(&self, text: &str) -> Result<Spooled> {
        let dir = self.spool();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{:020}-{}", now.as_nanos(), Uuid::new_v4());
        let path = dir.join(&name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(atomic_file::PRIVATE);
        let file = match options.open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                atomic_file::make_private_dir(&dir)?;
                options.open(&path)
            }
            other => other,
        };
        let mut spooled = Spooled { file: file.map_err(failed("create", &path))?, path, name };
        // Locked before there is anything in it, so that a file with content and without a lock is a dead writer's.
        spooled.file.lock().map_err(failed("lock", &spooled.path))?;
        spooled.file.write_all(format!("{text}\n").as_bytes()).map_err(failed("write", &spooled.path))?;
        fault::point("spooled");
        Ok(spooled)
    }

    /// Waits until the entry is written, or it is our turn.
    ///
    /// # Errors
    /// The budget is spent: the entry was taken back and is not written.
    pub(super) fn wait_for(&self, spooled: &Spooled) -> Result<Waited> {
        let start = Instant::now();
        let mut pauses = Pauses::new();
        let mut file = match self.file() {
            Ok(file) => file,
            Err(e) => return self.give_up(spooled, e),
        };
        loop {
            if spooled.is_acknowledged() {
                return Ok(Waited::Written);
            }
            // Whoever has the turn is writing for us, so being told is likelier than getting it.
            if pauses.count.is_multiple_of(TURN_EVERY) {
                file = match self.try_turn_on(file) {
                    // Having it, we may just have finished for a dead writer what held our entry.
                    Ok(Ok(_)) if spooled.is_acknowledged() => return Ok(Waited::Written),
                    Ok(Ok(turn)) => return Ok(Waited::OurTurn(turn)),
                    Ok(Err(file)) => file,
                    Err(e) => return self.give_up(spooled, e),
                };
            }
            if start.elapsed() >= self.budget() {
                return self.give_up(spooled, self.busy(start.elapsed()).into());
            }
            pauses.wait();
        }
    }

    /// Takes the entry back. If it is being written right now, that is waited for, as long again at most; after that it
    /// may still be written, though its writer was told that it failed.
    pub(super) fn give_up(&self, spooled: &Spooled, trouble: Error) -> Result<Waited> {
        let _ = std::fs::rename(&spooled.path, spooled.path.with_extension(WITHDRAWN));
        let start = Instant::now();
        while start.elapsed() < self.budget() && self.record()?.is_some_and(|r| r.names(&spooled.name)) {
            // Its writer may be dead: then having the turn settles it.
            drop(self.try_turn()?);
            std::thread::sleep(Duration::from_millis(2));
        }
        // Looked at after the record: acknowledging comes before the record's end.
        if spooled.is_acknowledged() { Ok(Waited::Written) } else { Err(trouble) }
    }

    /// Tells the writers of these entries that they are in the file.
    pub(super) fn acknowledge(&self, names: &[String]) {
        let dir = self.spool();
        for name in names.iter().filter(|name| !name.is_empty()) {
            for path in [dir.join(name), dir.join(name).with_extension(WITHDRAWN)] {
                let emptied = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(0));
                if emptied.is_ok() && std::fs::remove_file(&path).is_ok() {
                    break;
                }
            }
        }
    }
}

impl Turn {
    /// What others have spooled, oldest first.
    pub(super) fn spooled(&self) -> Vec<Item> {
        let dir = self.queue().spool();
        let Ok(entries) = std::fs::read_dir(&dir) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        let mut items = Vec::new();
        let mut bytes = 0;
        for name in names {
            if items.len() >= BATCH_MAX || (bytes >= BATCH_BYTES_MAX && !items.is_empty()) {
                break;
            }
            if let Some(text) = read(&dir.join(&name)) {
                bytes += text.len();
                items.push(Item { name, text });
            }
        }
        items
    }
}

/// The text of an entry whose writer lives. What a dead one left is removed.
fn read(path: &std::path::Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let meta = file.metadata().ok()?;
    if !is_held {
        // Between making and locking it, it is empty.
        let is_old = meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LITTER));
        if meta.len() > 0 || is_old {
            let _ = std::fs::remove_file(path);
        }
        return None;
    }
    if path.extension().is_some() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    // Without its end it is still being written.
    text.strip_suffix('\n').map(str::to_owned)
}

impl Spooled {
    /// Whether it is in the file. Only acknowledging empties it.
    fn is_acknowledged(&self) -> bool {
        self.file.metadata().is_ok_and(|meta| meta.len() == 0)
    }
}

impl Spooled {
    /// Name of its file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.path.with_extension(WITHDRAWN));
    }
}
