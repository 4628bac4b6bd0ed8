//! tmux panes (B1, B2): by argv, so that nothing is typed and no shell, no quoting and no format expansion stands between
//! us and `tend`. Focus never moves; the user's options, sizes and panes stay as they are.

mod layout;
mod server;

use super::{Backend, Error, Launch, Result, Wanted};
use crate::config::Environment;
use crate::config::plan::Placement;
use crate::protocol::TeamName;
use crate::store::{HomeRecord, PlaceRecord};
use crate::sys::flock::Flock;
use layout::{Pane, Spot, choose};
use server::Server;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tmux_interface::{
    DisplayMessage, IfShell, ListPanes, NewSession, NewWindow, SelectLayout, SelectPane, SetOption,
    SplitWindow, TmuxCommand,
};

/// Size of a session that nobody has attached to.
const DETACHED_SIZE: (usize, usize) = (200, 50);
/// Longest wait for another process of ours that is just placing a pane.
const PLACING_WITHIN: Duration = Duration::from_secs(20);
/// How often a spot is looked for; the last time it is a window of its own.
const TRIES_MAX: u32 = 5;
/// Pause before the one retry of a server that is just ending (case C043).
const SERVER_ENDING: Duration = Duration::from_millis(100);

/// Places of one team on one tmux server.
#[derive(Debug, Clone)]
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

    /// The session that panes go into, with its panes: the leader's, unless it is to be one of our own, or the leader's pane
    /// is gone. `None`: it is still to be made.
    fn look(&self) -> Result<Option<(String, Vec<Pane>)>> {
        let anchor = self.anchor.clone().filter(|_| self.placement != Placement::Session);
        for target in anchor.into_iter().chain([format!("={}:", self.session_name())]) {
            let format = format!(
                "#{{session_id}} #{{pane_id}} #{{window_id}} #{{window_width}} #{{window_height}} #{{pane_width}} \
                 #{{pane_height}} #{{?#{{m:*{}*,#{{pane_start_command}}}},1,0}}",
                self.mark
            );
            let list = ListPanes::new().session().target(target.as_str()).format(format.as_str()).build();
            let answer = self.server.try_call([list])?.stdout;
            let panes: Vec<(String, Pane)> = answer.lines().filter_map(parse_pane).collect();
            if let Some((session, _)) = panes.first() {
                return Ok(Some((session.clone(), panes.into_iter().map(|(_, pane)| pane).collect())));
            }
        }
        Ok(None)
    }

    /// Takes a spot. Panes come and go between our look and our split, so what was refused is looked at again.
    fn take(&self, launch: &Launch<'_>) -> Result<String> {
        let mut tries = 0;
        loop {
            tries += 1;
            let taken = match self.look()? {
                None => self.new_session(launch),
                Some((session, panes)) => {
                    let spot = match tries {
                        1..TRIES_MAX => choose(&panes, self.anchor.as_deref(), self.placement),
                        _ => Spot::Window,
                    };
                    self.take_spot(&spot, &session, launch)
                }
            };
            match taken {
                Err(Error::Refused { answer, .. }) if tries < TRIES_MAX && is_passing(&answer) => {
                    tracing::info!(answer, "looking for a spot again");
                }
                taken => return taken,
            }
        }
    }

    fn take_spot(&self, spot: &Spot, session: &str, launch: &Launch<'_>) -> Result<String> {
        let split = |pane: &String| {
            SplitWindow::new().detached().print().format("#{pane_id}").target_pane(pane.clone())
        };
        let name = match self.placement {
            Placement::Pane => self.team.to_string(),
            Placement::Window | Placement::Session => launch.agent.to_string(),
        };
        let window = format!("{session}:");
        let mut commands = vec![with_argv(
            match spot {
                Spot::SplitBeside(pane) => split(pane).horizontal().build(),
                Spot::SplitBelow(pane) => split(pane).vertical().build(),
                Spot::Tile { pane, .. } => split(pane).vertical().build(),
                Spot::Window => NewWindow::new()
                    .detached()
                    .print()
                    .format("#{pane_id}")
                    .window_name(name)
                    .target_window(window.as_str())
                    .build(),
            },
            launch,
            &self.mark,
        )?];
        if let Spot::Tile { window, .. } = spot {
            commands.push(SelectLayout::new().target_pane(window.as_str()).layout_name("tiled").build());
        }
        pane_id(&self.server.call(commands)?)
    }

    fn new_session(&self, launch: &Launch<'_>) -> Result<String> {
        let name = match self.placement {
            Placement::Pane => self.team.to_string(),
            Placement::Window | Placement::Session => launch.agent.to_string(),
        };
        let make = || {
            let new = NewSession::new()
                .detached()
                .print()
                .format("#{pane_id}")
                .session_name(self.session_name())
                .window_name(name.clone())
                .width(DETACHED_SIZE.0)
                .height(DETACHED_SIZE.1)
                .build();
            with_argv(new, launch, &self.mark).and_then(|new| self.server.call([new]))
        };
        let made = match make() {
            Err(Error::Refused { answer, .. }) if answer.contains("server exited unexpectedly") => {
                std::thread::sleep(SERVER_ENDING);
                make()
            }
            made => made,
        };
        pane_id(&made?)
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

/// Adds `-- PROGRAM tend --mark MARK FILE`.
fn with_argv<'a>(mut command: TmuxCommand<'a>, launch: &Launch<'_>, mark: &str) -> Result<TmuxCommand<'a>> {
    let text = |path: &Path| {
        let not_text =
            || Error::Unusable(format!("tmux cannot be given the path {}: it is not UTF-8", path.display()));
        path.to_str().map(str::to_owned).ok_or_else(not_text)
    };
    command.push_param("--").push_param(text(launch.program)?);
    command
        .push_param("tend")
        .push_param("--mark")
        .push_param(mark.to_owned())
        .push_param(text(launch.file)?);
    Ok(command)
}

fn pane_id(answer: &str) -> Result<String> {
    let id = answer.lines().next().unwrap_or_default().trim();
    let is_id = id.strip_prefix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let refused = || Error::Refused { deed: "tmux named no pane".to_owned(), answer: answer.to_owned() };
    is_id.then(|| id.to_owned()).ok_or_else(refused)
}

/// The session and the pane of one line.
fn parse_pane(line: &str) -> Option<(String, Pane)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [session, id, window, window_cols, window_rows, cols, rows, ours] = words.as_slice() else {
        return None;
    };
    let pane = Pane {
        id: (*id).to_owned(),
        window: (*window).to_owned(),
        window_size: (window_cols.parse().ok()?, window_rows.parse().ok()?),
        size: (cols.parse().ok()?, rows.parse().ok()?),
        is_ours: *ours == "1",
    };
    Some(((*session).to_owned(), pane))
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
        // One at a time on this machine: each looks at the panes that are there before it takes a spot.
        let _placing = Flock::acquire_within(&self.placing, PLACING_WITHIN)?;
        let pane = self.take(launch)?;
        Ok(PlaceRecord::Tmux { socket: self.server.socket.to_string_lossy().into_owned(), pane })
    }

    fn dress(&self, place: &PlaceRecord, launch: &Launch<'_>) -> Result<()> {
        let PlaceRecord::Tmux { pane, .. } = place else { return Ok(()) };
        let pane = pane.as_str();
        let set = |option: &'static str, value: String| {
            SetOption::new().pane().target_pane(pane).option(option).value(value).build()
        };
        let title = SelectPane::new().target_pane(pane).title(launch.agent.as_str()).build();
        let c = colour(launch.color);
        let look = format!("#[fg={c},bold] #{{pane_title}} #[default]");
        // The colour goes into the title's format: the border's style is an option of the whole window, hence the user's.
        // What this version of tmux lacks (`-q`) is no reason to fail.
        let look = SetOption::new()
            .pane()
            .quiet()
            .target_pane(pane)
            .option("pane-border-format")
            .value(look)
            .build();
        let mut commands = vec![set("@throng_token", launch.token.to_owned()), title, look];
        if self.has_own_windows() {
            let top =
                SetOption::new().window().quiet().target_pane(pane).option("pane-border-status").value("top");
            commands.push(top.build());
        }
        match self.server.call(commands) {
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
        let server = self.server.with_socket(&socket);
        let sleep = |mut command: TmuxCommand<'static>| {
            command.push_param("--").push_param("sleep").push_param("60");
            command
        };
        let tried = (|| {
            let session =
                NewSession::new().detached().print().format("#{pane_id}").session_name("try").build();
            let first = pane_id(&server.call([sleep(session)])?)?;
            let split = SplitWindow::new().detached().print().format("#{pane_id}").target_pane(first).build();
            pane_id(&server.call([sleep(split)])?)
        })();
        let ended = server.call([tmux_interface::KillServer::new().build()]);
        let _ = std::fs::remove_file(&socket);
        tried?;
        ended?;
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
