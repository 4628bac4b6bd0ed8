//! Placing panes: spots are chosen on a picture of the session, and taken, several in one call.

use super::super::{Error, Launch, Result};
use super::layout::{Pane, Spot, choose, choose_many};
use super::orders::{Order, Picture, Wish};
use super::server::Server;
use super::{DETACHED_SIZE, PLACING_WITHIN, SERVER_ENDING, TRIES_MAX, TmuxPanes, is_passing};
use crate::config::plan::Placement;
use crate::sys::flock::Flock;
use std::path::Path;
use tmux_interface::{IfShell, ListPanes, NewSession, NewWindow, SplitWindow, TmuxCommand};

/// What a new pane prints.
const PLACED: &str = "placed #{pane_id}";

impl TmuxPanes {
    /// The words that a pane of ours executes: `PROGRAM tend --mark MARK FILE`.
    pub(super) fn words(&self, launch: &Launch<'_>) -> Result<Vec<String>> {
        let text = |path: &Path| {
            let not_text = || {
                Error::Unusable(format!("tmux cannot be given the path {}: it is not UTF-8", path.display()))
            };
            path.to_str().map(str::to_owned).ok_or_else(not_text)
        };
        let (program, file) = (text(launch.program)?, text(launch.file)?);
        Ok(vec![program, "tend".to_owned(), "--mark".to_owned(), self.mark.clone(), file])
    }

    /// Carries out orders that wait.
    pub(super) fn carry_out(&self, picture: &mut Option<Picture>) {
        let (panes, looks): (Vec<Order>, Vec<Order>) =
            self.orders.take().into_iter().partition(|order| matches!(order.wish, Wish::Pane { .. }));
        if panes.is_empty() {
            return self.dress_all(looks);
        }
        // One at a time on this machine: each looks at the panes that are there before it takes a spot.
        let placing = Flock::acquire_within(&self.placing, PLACING_WITHIN).map_err(Error::from);
        let seen = placing.and_then(|placing| {
            if !picture.as_ref().is_some_and(Picture::is_good) {
                *picture = self.look()?;
            }
            Ok(placing)
        });
        match (seen, picture.take()) {
            (Err(e), _) => {
                panes.into_iter().for_each(|order| order.answer(Err(Error::Unusable(e.to_string()))));
                self.orders.put_back(looks);
            }
            (Ok(_placing), None) => {
                self.orders.put_back(looks);
                self.open_session(panes);
            }
            (Ok(_placing), Some(seen)) => *picture = self.take_spots(&seen, panes, looks),
        }
    }

    /// The session that panes go into, with its panes: the leader's, unless it is to be one of our own, or the leader's pane
    /// is gone. `None`: it is still to be made.
    fn look(&self) -> Result<Option<Picture>> {
        // A team's own server starts with its first pane.
        if self.is_own_server && !self.server.is_running() {
            return Ok(None);
        }
        let anchor = self.anchor.clone().filter(|_| self.placement != Placement::Session);
        for target in anchor.into_iter().chain([format!("={}:", self.session_name())]) {
            let answer = self.server.try_call([self.list(&target)])?.stdout;
            if let Some(picture) = picture(&answer) {
                return Ok(Some(picture));
            }
        }
        Ok(None)
    }

    fn list(&self, target: &str) -> TmuxCommand<'static> {
        let format = format!(
            "#{{session_id}} #{{pane_id}} #{{window_id}} #{{window_width}} #{{window_height}} #{{pane_width}} \
             #{{pane_height}} {}",
            self.is_ours()
        );
        ListPanes::new().session().target(target.to_owned()).format(format).build()
    }

    /// Says of a pane whether it is one of this team's, in tmux's language: 1 or 0.
    fn is_ours(&self) -> String {
        format!("#{{?#{{m:*{}*,#{{pane_start_command}}}},1,0}}", self.mark)
    }

    /// Makes the session, for the first of these; the others are placed in it next.
    fn open_session(&self, mut panes: Vec<Order>) {
        let first = panes.remove(0);
        match &first.wish {
            Wish::Pane { words, name } => match self.new_session(words, name) {
                Err(Error::Refused { answer, .. }) if first.tries + 1 < TRIES_MAX && is_passing(&answer) => {
                    panes.insert(0, first.again());
                }
                made => first.answer(made),
            },
            Wish::Look { .. } => panes.insert(0, first),
        }
        self.orders.put_back(panes);
    }

    fn new_session(&self, words: &[String], name: &str) -> Result<String> {
        let make = || {
            let new = NewSession::new()
                .detached()
                .print()
                .format(PLACED)
                .session_name(self.session_name())
                .window_name(name.to_owned())
                .width(DETACHED_SIZE.0)
                .height(DETACHED_SIZE.1)
                .build();
            self.server.call([executing(new, words)])
        };
        let made = match make() {
            Err(Error::Refused { answer, .. }) if answer.contains("server exited unexpectedly") => {
                std::thread::sleep(SERVER_ENDING);
                make()
            }
            made => made,
        };
        let answer = made?;
        placed(&answer).next().ok_or_else(|| no_pane(&answer))
    }

    /// Takes a spot for each, and dresses those that are there, as far as one call goes. Panes come and go between the look
    /// and the splits, so what was refused is looked at again. Answers how the session is then.
    fn take_spots(&self, seen: &Picture, mut panes: Vec<Order>, looks: Vec<Order>) -> Option<Picture> {
        let tries = panes.first().map_or(0, |order| order.tries);
        let spots = match tries + 1 {
            1 => choose_many(&seen.panes, self.anchor.as_deref(), self.placement, panes.len()),
            2..TRIES_MAX => vec![choose(&seen.panes, self.anchor.as_deref(), self.placement)],
            _ => vec![Spot::Window],
        };
        self.orders.put_back(panes.split_off(spots.len().min(panes.len())));
        let mut commands: Vec<TmuxCommand<'static>> = Vec::new();
        for (spot, order) in spots.iter().zip(&panes) {
            if let Wish::Pane { words, name } = &order.wish {
                commands.push(executing(opening(spot, &seen.session, name), words));
            }
        }
        commands.extend(self.tiling(&spots));
        commands.push(self.list(&seen.session));
        commands.extend(looks.iter().flat_map(commands_of));
        let answer = match self.server.try_call(commands) {
            Ok(answer) => answer,
            Err(e) => {
                let orders = panes.into_iter().chain(looks);
                orders.for_each(|order| order.answer(Err(Error::Unusable(e.to_string()))));
                return None;
            }
        };
        let mut ids = placed(&answer.stdout);
        // tmux stops at the first command that it refuses.
        let mut left = Vec::new();
        for order in panes {
            match ids.next() {
                Some(id) => order.answer(Ok(id)),
                None => left.push(order),
            }
        }
        if answer.status.success() && left.is_empty() {
            looks.into_iter().for_each(|order| order.answer(Ok(String::new())));
            return picture(&answer.stdout);
        }
        if !looks.is_empty() {
            self.dress_all(looks);
        }
        self.refused(left, &answer.stderr);
        None
    }

    /// The first of these was refused: it is tried again, unless that is of no use; those after it were not tried.
    fn refused(&self, mut left: Vec<Order>, why: &str) {
        if left.is_empty() {
            return;
        }
        let first = left.remove(0);
        if first.tries + 1 < TRIES_MAX && is_passing(why) {
            tracing::info!(why, "looking for a spot again");
            left.insert(0, first.again());
        } else {
            first.answer(Err(Error::Refused { deed: "tmux refused".to_owned(), answer: why.to_owned() }));
        }
        self.orders.put_back(left);
    }

    /// Tiles the windows of these spots, unless a pane that is not ours has come into one.
    fn tiling(&self, spots: &[Spot]) -> Vec<TmuxCommand<'static>> {
        let mut windows: Vec<&String> = Vec::new();
        for spot in spots {
            if let Spot::Tile { window, .. } = spot
                && !windows.contains(&window)
            {
                windows.push(window);
            }
        }
        // For each pane of the window nothing or an x; then, whether that is nothing.
        let any_strange = format!("#{{P:#{{?{},,x}}}}", self.is_ours());
        let tile = |window: &String| {
            let ask = IfShell::new().not_execute().target_pane(window.clone());
            let mut ask = ask.shell_command(format!("#{{?{any_strange},0,1}}")).build();
            ask.push_param(format!("select-layout -t {window} tiled"));
            ask
        };
        windows.into_iter().map(tile).collect()
    }

    /// Carries out what is wanted of panes that are there: in one call, or, if that is refused, each for itself.
    fn dress_all(&self, looks: Vec<Order>) {
        if looks.len() > 1 && self.server.call(looks.iter().flat_map(commands_of)).is_ok() {
            return looks.into_iter().for_each(|order| order.answer(Ok(String::new())));
        }
        for order in looks {
            let dressed = self.server.call(commands_of(&order));
            order.answer(dressed);
        }
    }
}

fn commands_of(order: &Order) -> Vec<TmuxCommand<'static>> {
    match &order.wish {
        Wish::Look { commands } => commands.clone(),
        Wish::Pane { .. } => Vec::new(),
    }
}

/// Opens a pane at the spot.
fn opening(spot: &Spot, session: &str, name: &str) -> TmuxCommand<'static> {
    let split =
        |pane: &String| SplitWindow::new().detached().print().format(PLACED).target_pane(pane.clone());
    match spot {
        Spot::SplitBeside(pane) => split(pane).horizontal().build(),
        Spot::SplitBelow(pane) | Spot::Tile { pane, .. } => split(pane).vertical().build(),
        Spot::Window => NewWindow::new()
            .detached()
            .print()
            .format(PLACED)
            .window_name(name.to_owned())
            .target_window(format!("{session}:"))
            .build(),
    }
}

/// Adds `-- WORDS`.
fn executing(mut command: TmuxCommand<'static>, words: &[String]) -> TmuxCommand<'static> {
    command.push_param("--");
    for word in words {
        command.push_param(word.clone());
    }
    command
}

/// The ids of the panes that were opened, in order.
fn placed(answer: &str) -> impl Iterator<Item = String> {
    let is_id = |id: &&str| {
        id.strip_prefix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let ids = answer.lines().filter_map(|line| line.trim().strip_prefix("placed ")).filter(is_id);
    ids.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn no_pane(answer: &str) -> Error {
    Error::Refused { deed: "tmux named no pane".to_owned(), answer: answer.to_owned() }
}

/// What `list-panes` printed, if it did.
fn picture(answer: &str) -> Option<Picture> {
    let panes: Vec<(String, Pane)> = answer.lines().filter_map(parse_pane).collect();
    let session = panes.first()?.0.clone();
    Some(Picture::new(session, panes.into_iter().map(|(_, pane)| pane).collect()))
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

/// Opens a pane for nothing on a throwaway server, splits it, and ends that server.
pub(super) fn try_out(server: &Server) -> Result<()> {
    let sleep: Vec<String> = ["sleep", "60"].map(str::to_owned).to_vec();
    let tried = (|| {
        let new = NewSession::new().detached().print().format(PLACED).session_name("try").build();
        let answer = server.call([executing(new, &sleep)])?;
        let first = placed(&answer).next().ok_or_else(|| no_pane(&answer))?;
        let split = opening(&Spot::SplitBelow(first), "", "");
        let answer = server.call([executing(split, &sleep)])?;
        placed(&answer).next().ok_or_else(|| no_pane(&answer)).map(drop)
    })();
    let ended = server.call([tmux_interface::KillServer::new().build()]);
    let _ = std::fs::remove_file(&server.socket);
    tried?;
    ended.map(drop)
}
