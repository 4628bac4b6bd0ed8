//! Beside which session the next one goes. Pure.
//!
//! The first goes beside the leader, each later one below the last of ours; where that would become unreadable, into the
//! largest of ours. All that are left are tried after it: a session may be closed between our look and our split.

use super::it2::Session;

/// Smallest readable session, in character cells.
const COLS_MIN: usize = 40;
const ROWS_MIN: usize = 8;

/// A split to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// The session to split.
    pub(super) session: String,
    /// Left and right of each other, not above each other.
    pub(super) is_beside: bool,
}

/// All that are worth trying, the best first. `ours` in the order in which they were opened.
pub(super) fn spots(sessions: &[Session], ours: &[String], leader: Option<&str>) -> Vec<Spot> {
    let find = |id: &str| sessions.iter().find(|s| s.id == id);
    let mut living: Vec<&Session> = ours.iter().rev().filter_map(|id| find(id)).collect();
    if living.first().is_some_and(|last| !fits_below(last) && !fits_beside(last)) {
        living.sort_by_key(|s| std::cmp::Reverse(s.cols * s.rows));
    }
    let below =
        living.iter().map(|s| Spot { session: s.id.clone(), is_beside: !fits_below(s) && fits_beside(s) });
    let beside_leader = leader.and_then(find).map(|s| Spot { session: s.id.clone(), is_beside: true });
    below.chain(beside_leader).collect()
}

fn fits_below(session: &Session) -> bool {
    session.rows > 2 * ROWS_MIN
}

fn fits_beside(session: &Session) -> bool {
    session.cols > 2 * COLS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, cols: usize, rows: usize) -> Session {
        Session { id: id.to_owned(), cols, rows }
    }

    fn tried(sessions: &[Session], ours: &[&str]) -> Vec<String> {
        let ours: Vec<String> = ours.iter().map(|id| (*id).to_owned()).collect();
        let word = |s: Spot| format!("{}{}", s.session, if s.is_beside { "|" } else { "-" });
        spots(sessions, &ours, Some("lead")).into_iter().map(word).collect()
    }

    #[test]
    fn the_first_goes_beside_the_leader_and_the_next_below_the_last() {
        let mut all = vec![session("lead", 100, 50), session("user", 100, 50)];
        assert_eq!(tried(&all, &[]), ["lead|"]);
        all.push(session("a", 100, 25));
        all.push(session("b", 100, 25));
        assert_eq!(tried(&all, &["a", "b"]), ["b-", "a-", "lead|"]);
    }

    #[test]
    fn probe_q060_closed_sessions_are_no_anchors() {
        let all = [session("lead", 100, 50), session("a", 100, 25)];
        assert_eq!(tried(&all, &["a", "closed"]), ["a-", "lead|"]);
        assert_eq!(tried(&[session("user", 100, 50)], &["closed"]), [""; 0]);
    }

    #[test]
    fn probe_c01_a_small_session_is_split_the_other_way_or_left_alone() {
        let all = [session("lead", 100, 50), session("a", 100, 30), session("b", 100, 12)];
        assert_eq!(tried(&all, &["a", "b"])[0], "b|");
        let all = [session("lead", 100, 50), session("a", 60, 30), session("b", 60, 12)];
        assert_eq!(tried(&all, &["a", "b"])[0], "a-");
    }
}
