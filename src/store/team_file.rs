//! The team file, and the team's birth and end.

use super::{Error, Result, TeamStore};
use crate::protocol::{Team, inbox};
use crate::sys::atomic_file;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a torn read is repeated: other programs write this file in place (protocol II.2).
const TORN_READ: Duration = Duration::from_millis(300);

fn parse(path: &Path, bytes: &[u8]) -> Result<Team> {
    let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
    let text = inbox::text(bytes).map_err(|e| damaged(e.to_string()))?;
    serde_json::from_str(text).map_err(|e| damaged(e.to_string()))
}

impl TeamStore {
    /// Whether the team has its shared files.
    pub fn exists(&self) -> bool {
        self.layout.team_file(&self.name).exists()
    }

    /// The team file as it is now. Taking no lock, it repeats a read that met another program's writing.
    ///
    /// # Errors
    /// [`Error::NoTeam`]; [`Error::Damaged`] naming the path; the file is never touched.
    pub fn read_team(&self) -> Result<Team> {
        let path = self.layout.team_file(&self.name);
        let start = Instant::now();
        loop {
            let Some(bytes) = atomic_file::read_optional(&path)? else {
                return Err(Error::NoTeam(self.name.clone()));
            };
            match parse(&path, &bytes) {
                Err(e) if start.elapsed() >= TORN_READ => return Err(e),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
                Ok(team) => return Ok(team),
            }
        }
    }

    /// Makes the team's shared files.
    ///
    /// # Errors
    /// [`Error::TeamExists`].
    pub fn create_team(&self, team: &Team) -> Result<()> {
        atomic_file::make_dir(&self.layout.inboxes(&self.name))?;
        atomic_file::make_dir(&self.layout.tasks(&self.name))?;
        self.change(&self.layout.team_file(&self.name), |bytes| match bytes {
            Some(_) => Err(Error::TeamExists(self.name.clone())),
            None => Ok((Some(render(team)), ())),
        })
    }

    /// Changes the team file under its lock.
    ///
    /// # Errors
    /// [`Error::NoTeam`], [`Error::Damaged`], and what `change` answers; then nothing is written.
    pub fn change_team<T>(&self, mut change: impl FnMut(&mut Team) -> Result<T>) -> Result<T> {
        let path = self.layout.team_file(&self.name);
        if !path.exists() {
            return Err(Error::NoTeam(self.name.clone()));
        }
        self.change(&path, |bytes| {
            let Some(bytes) = bytes else { return Err(Error::NoTeam(self.name.clone())) };
            let mut team = parse(&path, bytes)?;
            let before = team.clone();
            let result = change(&mut team)?;
            Ok(((team != before).then(|| render(&team)), result))
        })
    }

    /// Puts the shared files away among our state, so that nothing undelivered is lost. Tasks stay if `keep_tasks`.
    ///
    /// # Errors
    /// The file system's.
    pub fn put_away(&self, keep_tasks: KeepTasks) -> Result<()> {
        let to = self.state().last_files();
        if to.exists() {
            std::fs::remove_dir_all(&to).map_err(crate::sys::failed("clear", &to))?;
        }
        atomic_file::make_private_dir(&to)?;
        let team = self.layout.team(&self.name);
        if team.exists() {
            atomic_file::move_tree(&team, &to.join("team"))?;
        }
        let tasks = self.layout.tasks(&self.name);
        if keep_tasks == KeepTasks::No && tasks.exists() {
            atomic_file::move_tree(&tasks, &to.join("tasks"))?;
        }
        // Locks that somebody held came along; their holders find them lost. So did what a killed writer was about to rename.
        for dir in [to.join("team"), to.join("team/inboxes"), to.join("tasks")] {
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            for path in entries.map(|e| e.path()) {
                if path.extension().is_some_and(|e| e == "lock") {
                    // A file of that name is none; a folder with something in it is somebody's.
                    let _ = std::fs::remove_dir(path);
                } else if is_temporary(&path) {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
        Ok(())
    }

    /// Puts our state of an earlier team of this name aside, to make room for a new one.
    ///
    /// # Errors
    /// The file system's.
    pub fn put_state_aside(&self, stamp: &str) -> Result<()> {
        let state = self.state();
        if !state.dir().exists() {
            return Ok(());
        }
        atomic_file::make_private_dir(&self.layout.ended())?;
        let to = self.layout.ended().join(format!("{}-{stamp}", self.name));
        Ok(atomic_file::move_tree(state.dir(), &to)?)
    }
}

/// Whether a file is one that was to replace another: `NAME.tmp.` and eight hexadecimal digits.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digits = name.rsplit_once(".tmp.").map_or("", |(_, digits)| digits);
    digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether the task list outlives its team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepTasks {
    /// It stays where it is.
    Yes,
    /// It is put away with the team.
    No,
}

/// Indented by two, no newline at the end, as the original writes it.
fn render(team: &Team) -> Vec<u8> {
    serde_json::to_vec_pretty(team).unwrap_or_default()
}
