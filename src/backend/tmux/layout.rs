//! Where the next pane goes. Pure.
//!
//! Beside the leader: one split of the leader, then splits of our own largest pane while both halves stay readable, then
//! windows of our own, tiled. The sizes of the user's panes change by that one split alone.

use crate::config::plan::Placement;

/// Smallest readable pane, in character cells.
const COLS_MIN: usize = 40;
const ROWS_MIN: usize = 8;

/// One pane as tmux lists it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pane {
    /// `%N`; empty if it is still to be made.
    pub(super) id: String,
    /// `@N` of its window.
    pub(super) window: String,
    /// Columns and rows of its window.
    pub(super) window_size: (usize, usize),
    /// Columns and rows of itself.
    pub(super) size: (usize, usize),
    /// Whether it is one of this team's.
    pub(super) is_ours: bool,
}

impl Pane {
    fn area(&self) -> usize {
        self.size.0 * self.size.1
    }
}

/// Where a pane goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Spot {
    /// Left and right of each other.
    SplitBeside(String),
    /// Above each other.
    SplitBelow(String),
    /// Into a window of ours, all of which is tiled again.
    Tile { pane: String, window: String },
    /// A window of its own.
    Window,
}

/// Where up to `count` panes go, in this order, at least one. Each spot can be taken without knowing those that are taken
/// before it: nothing is split that is not among `panes`.
pub(super) fn choose_many(
    panes: &[Pane],
    anchor: Option<&str>,
    placement: Placement,
    count: usize,
) -> Vec<Spot> {
    let mut panes = panes.to_vec();
    let mut spots = vec![choose(&panes, anchor, placement)];
    while spots.len() < count
        && let Some(last) = spots.last()
        && take(&mut panes, last, placement)
    {
        let next = choose(&panes, anchor, placement);
        let is_possible = match &next {
            Spot::SplitBeside(pane) | Spot::SplitBelow(pane) => !pane.is_empty(),
            // It is not tiled before all have been split.
            Spot::Tile { pane, .. } => panes.iter().any(|p| p.id == *pane && p.size.1 >= ROWS_MIN),
            Spot::Window => true,
        };
        if !is_possible {
            break;
        }
        spots.push(next);
    }
    spots
}

/// Changes `panes` as taking the spot will; the new pane has no id yet. Answers whether that is known.
fn take(panes: &mut Vec<Pane>, spot: &Spot, placement: Placement) -> bool {
    // One line or column goes to the border.
    let halves = |size: usize| (size.saturating_sub(1).div_ceil(2), size.saturating_sub(1) / 2);
    let (id, is_beside) = match spot {
        Spot::SplitBeside(pane) => (pane, true),
        Spot::SplitBelow(pane) | Spot::Tile { pane, .. } => (pane, false),
        // Of a new window nothing is known; nothing need be, where each pane has its own.
        Spot::Window => return placement != Placement::Pane,
    };
    let Some(old) = panes.iter_mut().find(|p| p.id == *id) else { return false };
    let mut new = Pane { id: String::new(), is_ours: true, ..old.clone() };
    if is_beside {
        (old.size.0, new.size.0) = halves(old.size.0);
    } else {
        (old.size.1, new.size.1) = halves(old.size.1);
    }
    panes.push(new);
    true
}

/// Chooses. `panes` are those of the session; `anchor` is the leader's pane, if it is among them.
pub(super) fn choose(panes: &[Pane], anchor: Option<&str>, placement: Placement) -> Spot {
    if placement != Placement::Pane {
        return Spot::Window;
    }
    let anchor = anchor.and_then(|id| panes.iter().find(|p| p.id == id));
    if let Some(anchor) = anchor {
        let beside: Vec<&Pane> = panes.iter().filter(|p| p.window == anchor.window && p.is_ours).collect();
        let to_split = match beside.as_slice() {
            [] => Some(anchor),
            // Of two alike, one that can be named.
            ours => ours.iter().copied().max_by_key(|p| (p.area(), !p.id.is_empty())),
        };
        if let Some(spot) = to_split.and_then(split) {
            return spot;
        }
    }
    panes
        .iter()
        .filter(|p| p.is_ours)
        .find_map(|p| {
            let there: Vec<&Pane> = panes.iter().filter(|q| q.window == p.window).collect();
            let has_room = there.iter().all(|q| q.is_ours) && tiles_fit(p.window_size, there.len() + 1);
            let largest = there.iter().filter(|q| !q.id.is_empty()).max_by_key(|q| q.area())?;
            has_room.then(|| Spot::Tile { pane: largest.id.clone(), window: p.window.clone() })
        })
        .unwrap_or(Spot::Window)
}

/// Splits a pane the way that leaves the halves nearer to a readable shape, if both stay readable. One line or column
/// goes to the border.
fn split(pane: &Pane) -> Option<Spot> {
    let (cols, rows) = pane.size;
    let beside = cols > 2 * COLS_MIN;
    let below = rows > 2 * ROWS_MIN;
    // A cell is about twice as high as it is wide.
    let is_wide = cols > 2 * rows;
    match (beside, below) {
        (true, true) if is_wide => Some(Spot::SplitBeside(pane.id.clone())),
        (_, true) => Some(Spot::SplitBelow(pane.id.clone())),
        (true, false) => Some(Spot::SplitBeside(pane.id.clone())),
        (false, false) => None,
    }
}

/// Whether `count` panes stay readable in tmux's tiled layout, with a title line each.
fn tiles_fit((cols, rows): (usize, usize), count: usize) -> bool {
    let (mut down, mut across) = (1, 1);
    while down * across < count {
        down += 1;
        if down * across < count {
            across += 1;
        }
    }
    let width = (cols + 1).saturating_sub(across) / across;
    let height = rows.saturating_sub(down) / down;
    width >= COLS_MIN && height >= ROWS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(id: &str, window: &str, size: (usize, usize)) -> Pane {
        let is_ours = id != "%0" && !id.starts_with("%u");
        Pane { id: id.to_owned(), window: window.to_owned(), window_size: (200, 50), size, is_ours }
    }

    #[test]
    fn probe_c09_the_leader_is_split_once_and_then_only_panes_of_ours() {
        let mut panes = vec![pane("%0", "@0", (100, 50)), pane("%u1", "@0", (99, 50))];
        assert_eq!(choose(&panes, Some("%0"), Placement::Pane), Spot::SplitBelow("%0".into()));
        panes[0].size = (100, 24);
        panes.push(pane("%2", "@0", (100, 25)));
        assert_eq!(choose(&panes, Some("%0"), Placement::Pane), Spot::SplitBeside("%2".into()));
        panes[2].size = (50, 25);
        panes.push(pane("%3", "@0", (49, 25)));
        assert_eq!(choose(&panes, Some("%0"), Placement::Pane), Spot::SplitBelow("%2".into()));
    }

    #[test]
    fn probe_c01_no_pane_becomes_unreadable_before_a_new_window_is_opened() {
        let mut panes = vec![pane("%0", "@0", (80, 12)), pane("%1", "@0", (80, 11))];
        panes.iter_mut().for_each(|p| p.window_size = (80, 24));
        assert_eq!(choose(&panes, Some("%0"), Placement::Pane), Spot::Window);
        panes.push(pane("%2", "@1", (80, 24)));
        panes[2].window_size = (80, 24);
        let tile = Spot::Tile { pane: "%2".into(), window: "@1".into() };
        assert_eq!(choose(&panes, Some("%0"), Placement::Pane), tile);
        panes.push(pane("%3", "@1", (80, 12)));
        panes[3].window_size = (80, 24);
        assert_eq!(
            choose(&panes, Some("%0"), Placement::Pane),
            Spot::Window,
            "three would be 39 columns wide"
        );
    }

    #[test]
    fn goal_p3_spots_of_one_call_split_only_what_is_there_and_leave_halves_that_tmux_splits() {
        let ids = |spots: &[Spot]| -> Vec<String> {
            let id = |spot: &Spot| match spot {
                Spot::SplitBeside(pane) | Spot::SplitBelow(pane) | Spot::Tile { pane, .. } => pane.clone(),
                Spot::Window => "window".to_owned(),
            };
            spots.iter().map(id).collect()
        };
        let many = |panes: &[Pane], placement| ids(&choose_many(panes, Some("%0"), placement, 20));
        // Beside the leader the next one would split what the first has made.
        let leader = pane("%0", "@0", (200, 50));
        assert_eq!(many(std::slice::from_ref(&leader), Placement::Pane), ["%0"]);
        assert_eq!(many(std::slice::from_ref(&leader), Placement::Window), ["window"; 20]);
        let mut beside = vec![leader, pane("%2", "@0", (100, 50))];
        assert_eq!(many(&beside, Placement::Pane), ["%2", "%2"]);
        beside.push(pane("%3", "@0", (100, 50)));
        assert_eq!(many(&beside, Placement::Pane), ["%3", "%2", "%3", "%2"]);
        // In a window of ours each is split while the halves last, up to what is readable tiled.
        let one = [pane("%1", "@1", (200, 50))];
        assert_eq!(many(&one, Placement::Pane), ["%1"; 3]);
        let four: Vec<Pane> = (1..5).map(|i| pane(&format!("%{i}"), "@1", (100, 24))).collect();
        let spots = many(&four, Placement::Pane);
        assert!(spots.iter().all(|id| spots.iter().filter(|i| i == &id).count() == 2), "{spots:?}");
        assert_eq!(spots.len(), 8);
        let full: Vec<Pane> = (1..15).map(|i| pane(&format!("%{i}"), "@1", (40, 12))).collect();
        let spots = many(&full, Placement::Pane);
        assert_eq!(spots.iter().position(|id| id == "window"), Some(spots.len() - 1));
        assert!(spots.len() > 2, "{spots:?}");
    }

    #[test]
    fn a_window_with_a_users_pane_is_never_tiled() {
        let panes = [pane("%2", "@1", (100, 50)), pane("%u", "@1", (99, 50))];
        assert_eq!(choose(&panes, None, Placement::Pane), Spot::Window);
        assert_eq!(choose(&panes[..1], None, Placement::Window), Spot::Window);
        assert!(tiles_fit((200, 50), 16) && !tiles_fit((200, 50), 26));
    }
}
