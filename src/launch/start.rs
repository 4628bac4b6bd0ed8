//! The last steps of a spawn and of a respawn alike: the place is opened, and `tend` proves that the agent runs.

use super::spawn::{Failure, READY_STEP, START_STEP, failed};
use crate::backend::{Backend, Launch};
use crate::driver;
use crate::protocol::AgentName;
use crate::store::{self, Doing, MemberRecord, MemberState, PlaceRecord, TeamStore};
use crate::sys::fault;
use crate::sys::socket::Waker;
use std::time::{Duration, Instant};

/// Longest wait for a member to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The same for one that has to be ready for mail: on a busy machine Claude Code alone takes many seconds.
pub(super) const READY_FOR_MAIL_WITHIN: Duration = Duration::from_secs(90);

/// Pause after which a start of which nothing was heard is helped, and how often.
const NUDGE_AFTER: Duration = Duration::from_secs(3);
const NUDGES_MAX: u32 = 5;

/// A member whose launch file is written and whose name is reserved.
pub(super) struct Start<'a> {
    pub(super) store: &'a TeamStore,
    pub(super) backend: &'a dyn Backend,
    pub(super) launch: &'a Launch<'a>,
    pub(super) driver: &'a str,
}

/// Opens its place, which `opened` is told of, and waits until it is ready.
pub(super) fn start(start: &Start<'_>, mut opened: impl FnMut(&PlaceRecord)) -> Result<PlaceRecord, Failure> {
    let (store, agent) = (start.store, start.launch.agent);
    let waker =
        Waker::bind(&store.layout().socket(store.name(), agent, "spawn")).map_err(failed("listen for it"))?;
    let place = start.backend.open(start.launch).map_err(failed("open its place"))?;
    opened(&place);
    fault::point("spawn:opened");
    wait_ready(start, &place, &waker)?;
    // Before the team file, for which members wait one by one: those that are ready together are dressed together.
    start.backend.dress(&place, start.launch).map_err(failed("mark its place"))?;
    fault::point("spawn:ready");
    if let PlaceRecord::Tmux { pane: id, .. } | PlaceRecord::Iterm2 { session: id } = &place {
        set_pane(store, agent, id).map_err(failed("write its pane down"))?;
    }
    Ok(place)
}

fn set_pane(store: &TeamStore, agent: &AgentName, pane: &str) -> store::Result<()> {
    store.change_team(|team| {
        if let Some(row) = team.members.iter_mut().find(|m| m.name == agent.as_str()) {
            row.tmux_pane_id = Some(pane.to_owned());
        }
        Ok(())
    })
}

/// Longest wait for a program of this driver to be ready.
pub(super) fn ready_within(driver: &str) -> Duration {
    if driver::sees(driver) { READY_FOR_MAIL_WITHIN } else { READY_WITHIN }
}

/// Whether a program that runs takes no mail yet; one that asks a person first never will.
pub(super) fn is_starting(record: &MemberRecord) -> Result<bool, Failure> {
    let Some(sight) = &record.sight else { return Ok(false) };
    match sight.doing {
        Doing::Starting => Ok(true),
        Doing::NeedsHuman => {
            let what = sight.what.as_deref().unwrap_or("something");
            let why = format!("it shows {what}: start it by hand there once and answer it");
            Err((READY_STEP, why, false))
        }
        Doing::Idle | Doing::Working | Doing::AwaitsApproval => Ok(false),
    }
}

/// Waits until `tend` has written that this launch runs. Of which nothing is heard for a while is helped.
fn wait_ready(start: &Start<'_>, place: &PlaceRecord, waker: &Waker) -> Result<(), Failure> {
    let begun = Instant::now();
    let (mut silent_since, mut nudges) = (begun, 0);
    let within = ready_within(start.driver);
    while begun.elapsed() < within {
        let record = start.store.member_record(start.launch.agent).map_err(failed(START_STEP))?;
        if let Some(record) = record.filter(|r| r.launch == start.launch.token) {
            match record.state {
                MemberState::Ready { .. } if is_starting(&record)? => {}
                MemberState::Exited { exit } if record.sight.is_some() => {
                    return Err((READY_STEP, exit.to_string(), false));
                }
                MemberState::Ready { .. } | MemberState::Exited { .. } | MemberState::Restarting { .. } => {
                    return Ok(());
                }
                MemberState::Failed => return Err((START_STEP, record.note.unwrap_or_default(), false)),
                MemberState::Starting => {}
            }
        } else if silent_since.elapsed() >= NUDGE_AFTER && nudges < NUDGES_MAX {
            start.backend.nudge(place, start.launch).map_err(failed(START_STEP))?;
            (silent_since, nudges) = (Instant::now(), nudges + 1);
        }
        waker.wait(Duration::from_millis(50));
    }
    Err((
        READY_STEP,
        format!(
            "it has not shown within {} s that it {}",
            within.as_secs(),
            if driver::sees(start.driver) { "takes mail" } else { "runs" }
        ),
        false,
    ))
}
