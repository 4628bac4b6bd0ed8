//! tmux panes (B1, B2): by argv, so that nothing is typed and no shell, no quoting and no format expansion stands between
//! us and `tend`. Focus never moves; the user's options, sizes and panes stay as they are.

mod layout;
mod orders;
mod placing;
mod server;

use super::{Backend, Error, Launch, Result, Wanted};
use crate::config::Environment;
use crate::config::plan::Placement;
use crate::protocol::TeamName;
use crate::store::{HomeRecord, PlaceRecord};
use orders::{Orders, Wish};
use server::Server;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tmux_interface::{DisplayMessage, IfShell, ListPanes, SelectPane, SetOption};

/// Size of a session that nobody has attached to.
const DETACHED_SIZE: (usize, usize) = (200, 50);
/// Longest wait for another process of ours that is just placing a pane.
const PLACING_WITHIN: Duration = Duration::from_secs(20);
/// How often a spot is looked for; the last time it is a window of its own.
const TRIES_MAX: u32 = 5;
/// Pause before the one retry of a server that is just ending (case C043).
const SERVER_ENDING: Duration = Duration::from_millis(100);

/// Places of one team on one tmux server.
#[derive(Debug)]
pub(super) struct TmuxPanes {
    server: Server,
    /// The leader's pane, if panes go beside it.
    anchor: Option<String>,
    placement: Placement,
    team: TeamName,
    /// Stands in the start command of every pane of this team.
    mark: String,
    /// Held while a spot is chosen and taken.
    placing: PathBuf,
    is_own_server: bool,
    /// What this process's threads want of it.
    orders: Orders,
}

/// Where we are in the user's tmux, from `TMUX` and `TMUX_PANE`.
pub(super) enum Inside {
    /// In this pane of this server.
    Pane { socket: PathBuf, pane: String },
    /// Not at all, and why that was found.
    No(&'static str),
}

/// Looks whether we are inside tmux. `TMUX` alone proves nothing: a terminal started from tmux inherits it (probe B11).
pub(super) fn inside(environment: &Environment) -> Inside {
    let (Some(tmux), Some(pane)) = (environment.get("TMUX"), environment.get("TMUX_PANE")) else {
        return Inside::No("not inside tmux");
    };
    let socket = PathBuf::from(tmux.rsplitn(3, ',').last().unwrap_or(tmux));
    let server = Server::at(&socket, environment);
    let ask = DisplayMessage::new().print().target_pane(pane).message("#{pane_id}").build();
    match server.call([ask]) {
        Ok(answer) if answer.trim() == pane => Inside::Pane { socket, pane: pane.to_owned() },
        _ => Inside::No("TMUX is set, but TMUX_PANE is no pane of that server"),
    }
}

impl TmuxPanes {
    /// Panes for a new team: beside us if we are inside tmux, else on a server of the team's own.
    pub(super) fn new(wanted: &Wanted<'_>, environment: &Environment) -> Result<(TmuxPanes, String)> {
        let (socket, anchor, reason) = match inside(environment) {
            Inside::Pane { socket, pane } => (socket, Some(pane), "inside tmux".to_owned()),
            Inside::No(why) => {
                (wanted.layout.tmux_socket(wanted.team), None, format!("{why}: a server of its own"))
            }
        };
        let home = HomeRecord {
            backend: "tmux".to_owned(),
            socket: Some(socket.to_string_lossy().into_owned()),
            anchor,
            attach: None,
        };
        let panes = TmuxPanes::again(wanted, &home, environment);
        let version = panes.server.check_version()?;
        Ok((panes, format!("{reason}, tmux {version}")))
    }

    /// Panes for a team that is there.
    pub(super) fn again(wanted: &Wanted<'_>, home: &HomeRecord, environment: &Environment) -> TmuxPanes {
        let own = wanted.layout.tmux_socket(wanted.team);
        let socket = home.socket.as_ref().map_or(own.clone(), PathBuf::from);
        TmuxPanes {
            is_own_server: socket == own,
            server: Server::at(&socket, environment),
            anchor: home.anchor.clone(),
            placement: wanted.placement,
            team: wanted.team.clone(),
            mark: wanted.layout.mark(wanted.team),
            placing: wanted.layout.state_dir.join("tmux-placing.lock"),
            orders: Orders::default(),
        }
    }

    /// Whether every window with a pane of ours is ours alone from its beginning.
    fn has_own_windows(&self) -> bool {
        self.anchor.is_none() || self.placement != Placement::Pane
    }

    /// Name of the session that is ours, where one is.
    fn session_name(&self) -> String {
        format!("throng-{}", self.team)
    }
}

/// Whether a refusal is of a thing that has gone or changed since we looked.
fn is_passing(answer: &str) -> bool {
    [
        "can't find",
        "no such",
        "no space",
        "server exited",
        "duplicate session",
        "no server running",
        "error connecting",
    ]
    .iter()
    .any(|word| answer.contains(word))
}

/// tmux's name for a colour of the protocol.
fn colour(color: &str) -> &str {
    match color {
        "purple" => "magenta",
        "orange" => "colour208",
        "pink" => "colour205",
        other => other,
    }
}

impl Backend for TmuxPanes {
    fn name(&self) -> &'static str {
        "tmux"
    }

    fn open(&self, launch: &Launch<'_>) -> Result<PlaceRecord> {
        let name = match self.placement {
            Placement::Pane => self.team.to_string(),
            Placement::Window | Placement::Session => launch.agent.to_string(),
        };
        let wish = Wish::Pane { words: self.words(launch)?, name };
        let pane = self.orders.place(wish, |picture| self.carry_out(picture))?;
        Ok(PlaceRecord::Tmux { socket: self.server.socket.to_string_lossy().into_owned(), pane })
    }

    fn dress(&self, place: &PlaceRecord, launch: &Launch<'_>) -> Result<()> {
        let PlaceRecord::Tmux { pane, .. } = place else { return Ok(()) };
        let target = || pane.clone();
        let set = |option: &'static str, value: String| {
            SetOption::new().pane().target_pane(target()).option(option).value(value).build()
        };
        let title = SelectPane::new().target_pane(target()).title(launch.agent.to_string()).build();
        let c = colour(launch.color);
        let look = format!("#[fg={c},bold] #{{pane_title}} #[default]");
        // The colour goes into the title's format: the border's style is an option of the whole window, hence the user's.
        // What this version of tmux lacks (`-q`) is no reason to fail.
        let look = SetOption::new()
            .pane()
            .quiet()
            .target_pane(target())
            .option("pane-border-format")
            .value(look)
            .build();
        let mut commands = vec![set("@throng_token", launch.token.to_owned()), title, look];
        if self.has_own_windows() {
            let top = SetOption::new()
                .window()
                .quiet()
                .target_pane(target())
                .option("pane-border-status")
                .value("top");
            commands.push(top.build());
        }
        let dressed = self.orders.place(Wish::Look { commands }, |picture| self.carry_out(picture));
        match dressed {
            // Its agent has ended already, and the pane with it.
            Err(Error::Refused { answer, .. }) if is_passing(&answer) => Ok(()),
            dressed => dressed.map(drop),
        }
    }

    fn close(&self, place: &PlaceRecord, token: &str) -> Result<()> {
        close_at(&self.server, place, token)
    }

    fn home(&self) -> HomeRecord {
        let socket = self.server.socket.to_string_lossy().into_owned();
        let has_own_session = self.is_own_server || self.placement == Placement::Session;
        let attach = has_own_session.then(|| {
            let words = ["tmux", "-S", &socket, "attach-session", "-t", &format!("={}", self.session_name())];
            shlex::try_join(words).unwrap_or_default()
        });
        HomeRecord { backend: "tmux".to_owned(), socket: Some(socket), anchor: self.anchor.clone(), attach }
    }

    /// A throwaway server, so that nothing of the user's is touched: a session, a split, a kill.
    fn try_out(&self) -> Result<String> {
        let socket = self.server.socket.with_extension(format!("try{}", std::process::id()));
        placing::try_out(&self.server.with_socket(&socket))?;
        Ok("split and killed a pane".to_owned())
    }
}

/// Closes a pane if it still carries the token, in one step on the server, and verifies: `kill-pane` answers 0 for a pane
/// that is not there.
fn close_at(server: &Server, place: &PlaceRecord, token: &str) -> Result<()> {
    let PlaceRecord::Tmux { pane, .. } = place else { return Ok(()) };
    if !server.is_running() {
        return Ok(());
    }
    let is_ours = format!("#{{==:#{{@throng_token}},{token}}}");
    let kill = format!("kill-pane -t {pane}");
    let mut close =
        IfShell::new().not_execute().target_pane(pane.as_str()).shell_command(is_ours.as_str()).build();
    close.push_param(kill);
    // A pane that has gone is what we want.
    let _ = server.try_call([close])?;
    let list = ListPanes::new().all().format("#{pane_id} #{@throng_token}").build();
    let answer = server.try_call([list])?;
    match answer.stdout.lines().any(|line| line == format!("{pane} {token}")) {
        true => {
            Err(Error::Refused { deed: format!("tmux pane {pane} is still there"), answer: answer.stderr })
        }
        false => Ok(()),
    }
}

/// Closes a pane of any team's.
pub(super) fn close(place: &PlaceRecord, token: &str, environment: &Environment) -> Result<()> {
    let PlaceRecord::Tmux { socket, .. } = place else { return Ok(()) };
    close_at(&Server::at(Path::new(socket), environment), place, token)
}

/// Waits until a server of a team's own has ended with its last pane, and removes its socket, which stays otherwise.
pub(super) fn leave(wanted: &Wanted<'_>, environment: &Environment) {
    let socket = wanted.layout.tmux_socket(wanted.team);
    if !socket.exists() {
        return;
    }
    let server = Server::at(&socket, environment);
    for _ in 0..50 {
        if !server.is_running() {
            let _ = std::fs::remove_file(&socket);
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    tracing::warn!(socket = %socket.display(), "the team's tmux server has panes that are not ours; it is left running");
}
