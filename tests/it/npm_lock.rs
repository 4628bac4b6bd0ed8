//! The real npm `proper-lockfile` is the other party of our lock directories: it holds, it goes stale, it races.
//! `scripts/test` installs it and says where (`THRONG_TEST_NPM`).

use crate::support::{Call, Running, Team, World, fake, until};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the package lies. Without it the test is skipped, loudly, and fails where all must be there.
#[allow(clippy::disallowed_methods, reason = "the tester's own word to the tests")]
pub fn package() -> Option<PathBuf> {
    let dir = std::env::var_os("THRONG_TEST_NPM").map(PathBuf::from);
    let dir = dir.filter(|dir| dir.join("node_modules/proper-lockfile").is_dir());
    if dir.is_none() {
        eprintln!("SKIPPED: npm proper-lockfile is not there; scripts/test installs it");
        assert!(std::env::var("CI").is_err(), "proper-lockfile must be there in CI");
    }
    dir
}

/// A call of the other party.
fn party(world: &World, package: &Path, target: &Path, verb: &[&str]) -> Call {
    let program = fake("lockfile_party.cjs");
    world.program("node").args([Path::new(&program), package, target]).args(verb)
}

fn holder(world: &World, package: &Path, target: &Path) -> Running {
    // Its end is the end of its input; a pipe that nobody writes to stays open as long as `sleep` runs.
    let line = "exec node \"$0\" \"$1\" \"$2\" hold < \"$3\"";
    let pipe = target.with_extension("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let program = fake("lockfile_party.cjs");
    let call = world.program("sh").args(["-c", line]).args([Path::new(&program), package, target, &pipe]);
    call.start()
}

fn team(world: &World) -> Team<'_> {
    let team = world.plant_team("demo", &["bob"]);
    fs::create_dir_all(team.state_dir()).unwrap();
    team.plant_inbox("bob", "[]");
    team
}

fn send(world: &World, text: &str) -> Call {
    world.throng(["send", "--team", "demo", "bob", text])
}

#[test]
fn a_lock_that_npm_holds_is_waited_for_and_ours_by_npm() {
    let Some(package) = package() else { return };
    let world = World::new();
    let team = team(&world);
    let inbox = team.inbox_path("bob");
    let lock = inbox.with_extension("json.lock");
    let held = holder(&world, &package, &inbox);
    let input = fs::File::options().write(true).open(inbox.with_extension("pipe")).unwrap();
    held.until_says("held");
    send(&world, "too early").env("THRONG_LOCK_BUDGET", "300ms").run().code(4);
    let mut sending = send(&world, "waits").start();
    // It renews its lock every 5 s: after two of these periods it would be stale.
    let since = std::time::Instant::now();
    until("the lock has been renewed twice", || {
        assert!(sending.is_running(), "the lock is held");
        since.elapsed() > Duration::from_secs(11)
    });
    drop(input);
    held.wait().code(0).says("released");
    sending.wait().ok();
    assert_eq!(team.texts("bob"), ["waits"]);
    // The other way round: ours is suspended while it holds, npm waits, and has it after us.
    let ours = send(&world, "ours").env("THRONG_FAULT", "stop@prepared").start();
    until("ours holds it", || {
        crate::support::process::Process::of(ours.pid()).is_some_and(|p| p.state == 'T')
    });
    let mut theirs = party(&world, &package, &inbox, &["append", "1", "npm"]).start();
    until("npm waits", || {
        assert!(theirs.is_running());
        lock.is_dir() && since.elapsed() > Duration::from_secs(12)
    });
    ours.signal(Signal::SIGCONT);
    ours.wait().ok();
    theirs.wait().code(0).says("written 1");
    assert_eq!(team.texts("bob"), ["waits", "ours", "npm 0"]);
    assert!(!lock.exists());
}

#[test]
fn case_c002_a_lock_of_a_killed_npm_party_is_taken_over_when_it_is_stale() {
    let Some(package) = package() else { return };
    let world = World::new();
    let team = team(&world);
    let inbox = team.inbox_path("bob");
    let held = holder(&world, &package, &inbox);
    let _input = fs::File::options().write(true).open(inbox.with_extension("pipe")).unwrap();
    held.until_says("held");
    held.signal(Signal::SIGKILL);
    held.wait().signalled(Signal::SIGKILL);
    assert!(inbox.with_extension("json.lock").is_dir());
    send(&world, "after it").run().ok();
    assert_eq!(team.texts("bob"), ["after it"]);
}

/// Writers of both kinds at once. No lock goes stale here, so that nothing may be lost at all.
#[test]
fn writers_of_both_kinds_lose_nothing_beside_each_other() {
    let Some(package) = package() else { return };
    let world = World::new();
    let team = team(&world);
    let inbox = team.inbox_path("bob");
    let theirs: Vec<Running> = (0..3)
        .map(|i| party(&world, &package, &inbox, &["append", "20", &format!("npm{i}")]).start())
        .collect();
    std::thread::scope(|scope| {
        for w in 0..3 {
            let world = &world;
            scope.spawn(move || {
                for i in 0..20 {
                    send(world, &format!("throng{w} {i}")).run().ok();
                }
            });
        }
    });
    for party in theirs {
        party.wait().code(0).says("written 20");
    }
    let mut texts = team.texts("bob");
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 120, "{texts:?}");
    assert_eq!(team.inbox("bob").len(), 120);
    world.assert_nothing_left();
}
