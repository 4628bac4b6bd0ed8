//! The leader's keys: what it sends to a member that can tell is signed, from whichever process it comes.

use crate::support::{Team, World};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};
use throng::protocol::signature::{Verdict, Verifier};
use throng::protocol::{AgentName, Entry, Layout, TeamName};
use throng::store::{Store, TeamStore};

/// A team's files as this process sees them.
pub fn store(world: &World, team: &str) -> TeamStore {
    let layout =
        Layout { config_dir: world.config_dir(), state_dir: world.state_dir(), runtime_dir: world.sockets() };
    Store::new(layout, Duration::from_secs(15)).team(&TeamName::new(team).unwrap())
}

fn entries(team: &Team<'_>, agent: &str) -> Vec<Entry> {
    team.inbox(agent).into_iter().map(|e| serde_json::from_value(e).unwrap()).collect()
}

#[test]
fn the_leaders_messages_are_signed_for_a_member_with_a_key_and_others_never() {
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    world.spawn_sleeper("demo", "carol");
    let (team, store) = (world.team("demo"), store(&world, "demo"));
    let bob = AgentName::new("bob").unwrap();
    assert!(store.lead_key(&bob).unwrap().is_none());
    let key = store.make_lead_key(&bob).unwrap();
    let path = team.state_dir().join("keys/bob");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(store.lead_key(&bob).unwrap().unwrap().flag(), key.flag(), "the same key from the file");

    // Several at once, so that some are spooled and written by another process.
    let send = |i: usize| world.throng(["send", "bob", &format!("order {i}"), "--team", "demo"]).start();
    let calls: Vec<_> = (0..8).map(send).collect();
    for call in calls {
        call.wait().ok();
    }
    world.throng(["send", "bob", "from a mate", "--team", "demo"]).by("carol").run().ok();
    world.throng(["send", "carol", "for one without a key", "--team", "demo"]).run().ok();

    let mut verifier = Verifier::new(&key.flag(), SystemTime::now()).unwrap();
    for entry in entries(&team, "bob") {
        let expected = if entry.from == "team-lead" { Verdict::Verified } else { Verdict::Plain };
        assert_eq!(verifier.judge(&entry), expected, "{entry:?}");
    }
    let is_signed = |agent: &str| team.inbox(agent).iter().filter(|e| e["lead_sig"].is_string()).count();
    assert_eq!((team.inbox("bob").len(), is_signed("bob"), is_signed("carol")), (9, 8, 0));

    let old = key.flag();
    assert_ne!(store.make_lead_key(&bob).unwrap().flag(), old, "a new key replaces the old one");
    world.throng(["stop", "bob", "--team", "demo", "--force"]).run().ok();
    assert!(!path.exists(), "a retired member's key is removed");
    world.throng(["down", "demo", "--force"]).run().ok();
}

#[test]
fn a_damaged_key_is_named_and_nothing_is_sent_unsigned() {
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    let (team, store) = (world.team("demo"), store(&world, "demo"));
    store.make_lead_key(&AgentName::new("bob").unwrap()).unwrap();
    let path = team.state_dir().join("keys/bob");
    for bad in
        ["", "{}", r#"{"version":1,"seed":"AAAA","made_ms":1}"#, r#"{"version":2,"seed":"","made_ms":1}"#]
    {
        std::fs::write(&path, bad).unwrap();
        let outcome = world.throng(["send", "bob", "x", "--team", "demo"]).run();
        outcome.code(2).complains(path.to_str().unwrap());
        assert!(team.inbox("bob").is_empty(), "{bad}");
    }
}
