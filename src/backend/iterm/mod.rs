//! iTerm2 sessions (B3), through `it2`. It can only type into a shell, so one short line is typed that starts `tend`;
//! whether it did is proven by `tend` itself, and else the line is typed again.

mod it2;
mod line;
mod spot;

use super::{Backend, Error, Launch, Result, Wanted};
use crate::config::Environment;
use crate::protocol::Layout;
use crate::store::{HomeRecord, PlaceRecord};
use crate::sys::atomic_file;
use crate::sys::flock::Flock;
use it2::{Fault, It2};
use line::Launcher;
use spot::Spot;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for other processes of ours that are just splitting sessions; each split takes seconds at worst.
const PLACING_WITHIN: Duration = Duration::from_secs(120);
/// How often a closed session is looked for before it counts as still there, and the pause between.
const LOOKS_MAX: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Ctrl-C and Ctrl-U: whatever the shell does, it shall read `exit`.
const LEAVE: &str = "\x03\x15 exit";

/// Whether we are inside iTerm2, from `TERM_PROGRAM` and `ITERM_SESSION_ID`: the UUID of our session.
///
/// The environment proves nothing: containers and remote logins inherit it (probe B13).
pub(super) fn inside(environment: &Environment) -> Option<String> {
    let is_iterm = environment.get("TERM_PROGRAM") == Some("iTerm.app");
    environment.get("ITERM_SESSION_ID").filter(|_| is_iterm).and_then(session_id)
}

/// The UUID of `w0t0p0:UUID`.
fn session_id(word: &str) -> Option<String> {
    let id = word.rsplit(':').next()?;
    let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_id.then(|| id.to_owned())
}

/// Places of one team in iTerm2.
#[derive(Debug, Clone)]
pub(super) struct ItermSessions {
    it2: It2,
    /// The leader's session.
    leader: Option<String>,
    runtime_dir: PathBuf,
    /// The sessions that were opened for this team, the last one last.
    ours: PathBuf,
    /// Held while a spot is chosen and taken.
    placing: PathBuf,
}

impl ItermSessions {
    /// Sessions for a new team, beside ours.
    pub(super) fn new(wanted: &Wanted<'_>, environment: &Environment) -> Result<(ItermSessions, String)> {
        let outside = || {
            Error::Unusable(
                "iterm2: not inside iTerm2 (TERM_PROGRAM and ITERM_SESSION_ID do not say so): run this in one of its \
                 sessions, or choose another backend"
                    .to_owned(),
            )
        };
        let leader = inside(environment).ok_or_else(outside)?;
        let it2 = It2::of(environment);
        if !it2.check()?.iter().any(|s| s.id == leader) {
            return Err(Error::Unusable(format!(
                "iterm2: ITERM_SESSION_ID is {leader}, and iTerm2 has no such session"
            )));
        }
        Ok((
            ItermSessions::at(wanted.layout, wanted, (it2, Some(leader))),
            "inside iTerm2, it2 works".to_owned(),
        ))
    }

    /// Sessions for a team that is there.
    pub(super) fn again(wanted: &Wanted<'_>, home: &HomeRecord, environment: &Environment) -> ItermSessions {
        ItermSessions::at(wanted.layout, wanted, (It2::of(environment), home.anchor.clone()))
    }

    fn at(layout: &Layout, wanted: &Wanted<'_>, (it2, leader): (It2, Option<String>)) -> ItermSessions {
        ItermSessions {
            it2,
            leader,
            runtime_dir: layout.runtime_dir.clone(),
            ours: layout.state(wanted.team).iterm_sessions(),
            placing: layout.state_dir.join("iterm-placing.lock"),
        }
    }

    /// Opens a session beside one of ours or the leader's. What has been closed meanwhile is passed over (probe Q060).
    fn split(&self) -> Result<String> {
        let sessions = self.it2.sessions()?;
        let ours = atomic_file::read_optional(&self.ours)?.unwrap_or_default();
        let mut ours: Vec<String> = String::from_utf8_lossy(&ours).lines().map(str::to_owned).collect();
        ours.retain(|id| sessions.iter().any(|s| s.id == *id));
        let mut answers = Vec::new();
        for spot in spot::spots(&sessions, &ours, self.leader.as_deref()) {
            match self.it2.split(&spot) {
                Ok(new) => {
                    ours.push(new.clone());
                    self.remember(&ours);
                    return Ok(new);
                }
                Err(Fault::Gone) => answers.push(format!("session {} is gone", spot.session)),
                Err(Fault::Other(e)) => answers.push(e.to_string()),
            }
        }
        if answers.is_empty() {
            answers.push("the leader's session and those of its teammates are closed".to_owned());
        }
        Err(Error::Refused { deed: "iTerm2 opened no session".to_owned(), answer: answers.join("; ") })
    }

    /// Where the next one goes is only nicer for it.
    fn remember(&self, ours: &[String]) {
        let text = ours.join("\n");
        if let Err(e) = atomic_file::write_unsynced(&self.ours, text.as_bytes(), atomic_file::PRIVATE) {
            tracing::warn!(error = %e, "sessions not remembered");
        }
    }

    fn launcher(&self, token: &str) -> PathBuf {
        line::launcher_path(&self.runtime_dir, token)
    }

    /// Writes the launcher and types the line that starts it.
    fn start(&self, session: &str, launch: &Launch<'_>) -> Result<()> {
        let launcher = Launcher {
            program: launch.program,
            file: launch.file,
            session,
            agent: launch.agent,
            color: launch.color,
        };
        let path = self.launcher(launch.token);
        atomic_file::write_unsynced(&path, launcher.script()?.as_bytes(), atomic_file::PRIVATE)?;
        self.type_line(session, &path)
    }

    fn type_line(&self, session: &str, launcher: &Path) -> Result<()> {
        let text = format!("{}{}", line::CLEAR, line::line(launcher)?);
        match self.it2.type_line(session, &text) {
            Ok(()) => Ok(()),
            Err(Fault::Other(e)) => Err(e),
            Err(Fault::Gone) => Err(gone(session)),
        }
    }
}

impl Backend for ItermSessions {
    fn name(&self) -> &'static str {
        "iterm2"
    }

    fn open(&self, launch: &Launch<'_>) -> Result<PlaceRecord> {
        // What cannot be typed is found out before anything is opened.
        line::line(&self.launcher(launch.token))?;
        let session = {
            let _placing = Flock::acquire_within(&self.placing, PLACING_WITHIN)?;
            self.split()?
        };
        let place = PlaceRecord::Iterm2 { session: session.clone() };
        self.start(&session, launch).inspect_err(|_| {
            if let Err(e) = self.close(&place, launch.token) {
                tracing::error!(error = %e, "a session is left open");
            }
        })?;
        Ok(place)
    }

    /// Types the line again: a shell that reads its start-up files may have thrown it away.
    fn nudge(&self, place: &PlaceRecord, launch: &Launch<'_>) -> Result<()> {
        let PlaceRecord::Iterm2 { session } = place else { return Ok(()) };
        let launcher = self.launcher(launch.token);
        // It removes itself when it runs.
        if !launcher.exists() {
            return Ok(());
        }
        tracing::info!(session, agent = %launch.agent, "typing the line again");
        match self.type_line(session, &launcher) {
            Err(e) if self.it2.has(session).is_ok_and(|has| !has) => Err(e),
            Err(e) => {
                tracing::warn!(error = %e, "the line was not typed");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn close(&self, place: &PlaceRecord, token: &str) -> Result<()> {
        let PlaceRecord::Iterm2 { session } = place else { return Ok(()) };
        let launcher = self.launcher(token);
        if launcher.exists() {
            // The line was never read: the shell still runs, and iTerm2 would ask before it closes that.
            atomic_file::remove_optional(&launcher)?;
            let _ = self.it2.type_line(session, LEAVE);
            wait_gone(&self.it2, session)?;
        }
        close_at(&self.it2, session)
    }

    fn home(&self) -> HomeRecord {
        HomeRecord {
            backend: self.name().to_owned(),
            socket: None,
            anchor: self.leader.clone(),
            attach: None,
        }
    }

    fn try_out(&self) -> Result<String> {
        let spot = Spot { session: self.leader.clone().unwrap_or_default(), is_beside: true };
        let session = self.it2.split(&spot).map_err(|fault| match fault {
            Fault::Other(e) => e,
            Fault::Gone => Error::Unusable(format!("iTerm2 has no session {}", spot.session)),
        })?;
        let _ = self.it2.type_line(&session, LEAVE);
        wait_gone(&self.it2, &session)?;
        close_at(&self.it2, &session)?;
        Ok("split and closed a session".to_owned())
    }
}

fn gone(session: &str) -> Error {
    let answer = "it was closed, or its shell has ended".to_owned();
    Error::Refused { deed: format!("iTerm2 session {session}"), answer }
}

/// Whether a session goes away by itself within a second or two.
fn wait_gone(it2: &It2, session: &str) -> Result<bool> {
    for look in 0..LOOKS_MAX {
        if look > 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        if !it2.has(session)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Closes a session in which nothing runs any more, and verifies. iTerm2 closes it by itself where its profile says so.
fn close_at(it2: &It2, session: &str) -> Result<()> {
    if !it2.has(session)? {
        return Ok(());
    }
    let answer = match it2.close(session) {
        Ok(()) | Err(Fault::Gone) => String::new(),
        Err(Fault::Other(e)) => e.to_string(),
    };
    match wait_gone(it2, session)? {
        true => Ok(()),
        false => Err(Error::Refused {
            deed: format!("iTerm2 session {session} is still there, close it by hand"),
            answer,
        }),
    }
}

/// Closes the session of a member of any team's that has ended. Where iTerm2 cannot be asked it may have been quit, and
/// else the session went with its `tend`, unless its profile keeps what has ended on the screen.
pub(super) fn close(place: &PlaceRecord, environment: &Environment) -> Result<()> {
    let PlaceRecord::Iterm2 { session } = place else { return Ok(()) };
    let it2 = It2::of(environment);
    match it2.has(session) {
        Ok(true) => close_at(&it2, session),
        Ok(false) => Ok(()),
        Err(e) => {
            tracing::warn!(session, error = %e, "iTerm2 cannot be asked whether the session is closed");
            Ok(())
        }
    }
}

/// The line that was typed to start the launch `token`, to be told from what a person types.
pub(super) fn typed_line(layout: &Layout, token: &str) -> Option<String> {
    line::line(&line::launcher_path(&layout.runtime_dir, token)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_known_by_both_variables() {
        let both = [("TERM_PROGRAM", "iTerm.app"), ("ITERM_SESSION_ID", "w0t1p2:6A1B-C2")];
        assert_eq!(inside(&Environment::fake(&both)), Some("6A1B-C2".to_owned()));
        assert_eq!(inside(&Environment::fake(&both[..1])), None);
        assert_eq!(inside(&Environment::fake(&both[1..])), None);
        assert_eq!(session_id("w0t0p0:"), None);
        assert_eq!(session_id("w0t0p0:$(x)"), None);
    }
}
