//! Rows of the public lists of probes on mail: what other tools lost, and when.

use crate::support::{Call, World, until, until_some};
use nix::sys::signal::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime};
use throng::protocol::{AgentName, Entry, Layout, TeamName, timestamp};
use throng::store::{Store, TeamStore};

/// A `run` whose member writes to the leader once, and stays.
const TELLS: &str = "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\n\
                     command = [\"sh\", \"-c\", \"throng send lead 'an answer'; exec sleep 600\"]\n";

#[test]
fn probe_d02_mail_of_a_leader_that_is_killed_before_it_was_shown_is_shown_after_its_restart() {
    for (step, shown_before) in [("lead:mail", 0), ("lead:shown", 1)] {
        let world = World::new();
        world.write("t.toml", TELLS);
        let team = world.team("demo");
        world.throng(["run", "t.toml"]).env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        let shown = || team.events().iter().filter(|e| e["event"] == "lead_mail").count();
        assert_eq!(shown(), shown_before, "{step}");
        world.throng(["inbox", "list", "lead", "--team", "demo"]).run().ok().says("an answer");
        // Whoever takes the team over has it, once.
        world.throng(["adopt", "--team", "demo"]).run();
        let take = || world.throng(["inbox", "take", "--team", "demo"]).run();
        take().ok().prints("an answer\n");
        take().code(3);
        world.throng(["down", "demo"]).run();
    }
}

#[test]
fn probe_d01_a_new_leader_looks_at_files_again() {
    let world = World::new();
    world.write(
        "t.toml",
        "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\ncommand = [\"sleep\", \"600\"]\n[[task]]\nkey = \"a\"\nsubject = \"first\"\n",
    );
    world.throng(["up", "t.toml", "--backend", "process"]).run().code(0);
    let team = world.team("demo");
    crate::support::process::signal(team.leader(), Signal::SIGKILL);
    until("it has no leader", || team.status()["state"] == "without a leader");
    // Mail and a completed task by programs that poke nobody, while nobody leads.
    team.plant_inbox("team-lead", r#"[{"from":"bob","text":"done","timestamp":"2030-01-02T03:04:05.678Z"}]"#);
    let mut task = team.task("1");
    task["status"] = json!("completed");
    team.plant_task("1", &task);
    world.throng(["adopt", "--team", "demo"]).run().code(0);
    until("it has seen the task", || team.events().iter().any(|e| e["event"] == "task_completed"));
    assert_eq!(team.status()["lead_unread"], 1);
    world.throng(["inbox", "take", "--team", "demo"]).run().ok().prints("done\n");
    world.throng(["down", "demo"]).run().code(0);
    world.assert_nothing_left();
}

/// A real Claude Code writes by rename and pokes nobody.
#[test]
fn goal_p10_mail_of_another_program_wakes_the_leader_at_once() {
    const MESSAGES: usize = 5;
    let world = World::new();
    world.write(
        "t.toml",
        "[team]\nname = \"demo\"\n[[member]]\nname = \"bob\"\ncommand = [\"sleep\", \"600\"]\n",
    );
    // With debug its log tells each look that it takes because its time has come.
    let run = world.throng(["run", "t.toml", "--backend", "process", "--log-level", "debug"]).start();
    let team = world.team("demo");
    team.until_member("bob", "ready");
    let inbox = team.inbox_path("team-lead");
    let log = team.state_dir().join("logs/leader.log");
    let polls = || fs::read_to_string(&log).unwrap().matches("nothing was heard").count();
    let mut needed = Vec::new();
    for i in 0..MESSAGES {
        // Right after a poll: the next comes a second after the last thing that it did.
        let before = polls();
        until("it has polled", || polls() > before);
        let text = format!(r#"[{{"from":"bob","text":"word {i}","timestamp":"2030-01-02T03:04:05.678Z"}}]"#);
        let new = inbox.with_extension("json.tmp.deadbeef");
        fs::write(&new, text).unwrap();
        let before = polls();
        fs::rename(new, &inbox).unwrap();
        run.until_says(&format!("word {i}"));
        needed.push(polls() - before);
        until("it is marked", || team.inbox("team-lead").iter().all(|e| e["read"] == true));
    }
    // By polls alone, each message needs one; a slow machine may let one come in between.
    assert!(needed.contains(&0), "each message waited for a poll: {needed:?}");
    run.signal(Signal::SIGTERM);
    run.wait();
    world.assert_nothing_left();
}

#[test]
fn probe_q108_what_a_killed_taker_has_printed_comes_again() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    world.throng(["send", "--team", "demo", "bob", "precious"]).run().ok();
    let take = |step: &str| {
        world.throng(["inbox", "take", "--team", "demo"]).by("bob").env("THRONG_FAULT", step).run()
    };
    // Up to the rename it is unread; from there on it is read, and its reader had it before.
    for step in ["printed", "signed", "prepared", "intended"] {
        take(step).signalled(Signal::SIGKILL).prints("precious\n");
        assert_eq!(team.inbox("bob")[0]["read"], false, "{step}");
    }
    take("renamed").signalled(Signal::SIGKILL).prints("precious\n");
    take("").code(3);
    world.throng(["send", "--team", "demo", "bob", "next"]).run().ok();
    take("").ok().prints("next\n");
    world.assert_nothing_left();
}

/// A message that comes while its receiver says that it is idle and lies down to wait.
#[test]
fn probe_q110_a_message_that_races_the_idle_notice_is_never_missed() {
    const ROUNDS: usize = 1000;
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let store = store(&world);
    let (bob, lead) = (AgentName::new("bob").unwrap(), AgentName::lead());
    team.plant_inbox("bob", "[]");
    team.plant_inbox("team-lead", "[]");
    std::thread::scope(|scope| {
        let (turn, turns) = std::sync::mpsc::sync_channel::<()>(0);
        let (store, bob, lead) = (&store, &bob, &lead);
        scope.spawn(move || {
            for i in 0..ROUNDS {
                // Both begin within the same moment.
                turn.send(()).unwrap();
                std::thread::sleep(Duration::from_micros(fastrand::u64(..1000)));
                store.mailbox(bob).append(&entry("team-lead", &i.to_string())).unwrap();
            }
        });
        let mut watch = store.watch_mail(bob);
        for i in 0..ROUNDS {
            turns.recv().unwrap();
            let idle = r#"{"type":"idle_notification","from":"bob","idleReason":"available"}"#;
            store.mailbox(lead).append(&entry("bob", idle)).unwrap();
            let came = until_some("the message has come", || {
                let unread =
                    if watch.has_changed() { store.mailbox(bob).unread().unwrap().entries } else { vec![] };
                if unread.is_empty() {
                    watch.wait(Duration::from_secs(1));
                }
                unread.into_iter().next()
            });
            assert_eq!(came.text, i.to_string());
            store.mailbox(bob).mark_read(&[came.identity()]).unwrap();
        }
    });
    let notices = team.inbox("team-lead").len();
    assert_eq!(notices, ROUNDS, "nor was a notice");
}

/// A poll that goes on for long sees each message, also of a writer that pokes nobody and leaves size and inode as they were.
#[test]
fn probe_d04_after_ten_thousand_polls_messages_are_still_seen() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let store = store(&world);
    let bob = AgentName::new("bob").unwrap();
    let path = team.plant_inbox("bob", "[]");
    let mut watch = store.watch_mail(&bob);
    let (mut seen, mut readings) = (BTreeSet::new(), 0);
    let write = |text: String| {
        let entry = format!(r#"[{{"from":"lead","text":"{text}","timestamp":"2030-01-02T03:04:05.678Z"}}]"#);
        fs::write(&path, entry).unwrap();
    };
    let set_time = |at: SystemTime| {
        fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    };
    for poll in 0..10_000 {
        match poll % 100 {
            0 => write(format!("message {poll:05}")),
            // Within one tick of a coarse clock: size, inode and time are those of the one before.
            1 => {
                let at = fs::metadata(&path).unwrap().modified().unwrap();
                write(format!("message {poll:05}"));
                set_time(at);
            }
            // As if time had passed: a file that rests is not read again.
            50 => set_time(SystemTime::now() - Duration::from_secs(100 + poll)),
            _ => {}
        }
        if watch.has_changed() {
            readings += 1;
            seen.extend(store.mailbox(&bob).unread().unwrap().entries.into_iter().map(|e| e.text));
        }
    }
    assert_eq!(seen.len(), 200);
    assert!(readings < 5300, "a file at rest is not read: {readings} readings");
}

/// On a file system where flock excludes nobody, the lock directories still do.
#[test]
fn probe_q122_where_flock_does_nothing_nothing_is_lost_or_doubled() {
    const WRITERS: usize = 8;
    const MESSAGES: usize = 12;
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let source = world.write("shim.c", "int flock(int fd, int how) { return 0; }\n");
    let shim = world.path("shim.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(source).status();
    assert!(built.unwrap().success(), "cc is there, since rustc links by it");
    // It does nothing indeed.
    let flock = |shim: &str| {
        let mut call = Command::new("flock");
        call.args(["--nonblock", "--exclusive", "lock", "flock", "--nonblock", "lock", "true"]).arg0("flock");
        call.current_dir(world.path("")).env("LD_PRELOAD", shim).status().unwrap().success()
    };
    let shim = shim.to_str().unwrap();
    assert!(!flock("") && flock(shim));
    let by = |call: Call| call.env("LD_PRELOAD", shim).env("THRONG_LOCK_BUDGET", "60s");
    let taken = std::thread::scope(|scope| {
        for w in 0..WRITERS {
            let (world, by) = (&world, &by);
            scope.spawn(move || {
                for i in 0..MESSAGES {
                    by(world.throng(["send", "--team", "demo", "bob", &format!("{w}.{i}")])).run().ok();
                }
            });
        }
        let mut taken: Vec<String> = Vec::new();
        while taken.len() < WRITERS * MESSAGES {
            let take = ["inbox", "take", "--all", "--wait", "--timeout", "60s", "--team", "demo"];
            let outcome = by(world.throng(take)).by("bob").run();
            taken.extend(outcome.ok().stdout.lines().map(str::to_owned));
        }
        taken
    });
    let each: BTreeSet<&String> = taken.iter().collect();
    assert_eq!((each.len(), taken.len()), (WRITERS * MESSAGES, WRITERS * MESSAGES), "{taken:?}");
    assert!(team.inbox("bob").iter().all(|e| e["read"] == true));
    world.assert_nothing_left();
}

#[test]
fn probe_q123_damaged_files_are_kept_and_named_and_names_are_checked() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let cut = r#"[{"from":"lead","text":"half of"#;
    team.plant_inbox("bob", cut);
    let list = world.throng(["inbox", "list", "bob", "--team", "demo"]).run();
    list.complains("bob.json is damaged").complains("quarantine");
    assert_eq!(fs::read_to_string(team.inbox_path("bob")).unwrap(), cut, "looking changes nothing");
    world.throng(["send", "bob", "whole", "--team", "demo"]).run().code(0);
    assert_eq!(team.texts("bob"), ["whole"]);
    let kept = team.quarantined();
    assert_eq!((kept.len(), fs::read_to_string(&kept[0]).unwrap().as_str()), (1, cut));
    let config = fs::read_to_string(team.config_path()).unwrap();
    let cut = &config[..config.len() / 2];
    fs::write(team.config_path(), cut).unwrap();
    for verb in [&["send", "bob", "x"][..], &["inbox", "take", "--as", "bob"], &["status"]] {
        let outcome = world.throng(["--team", "demo"]).args(verb).run();
        outcome.complains("config.json").check("it fails", outcome.code != Some(0));
    }
    assert_eq!(fs::read_to_string(team.config_path()).unwrap(), cut, "left as it is");
    fs::write(team.config_path(), &config).unwrap();
    for name in ["../x", "a/b", ".", "..", "", "a\nb", "/etc/passwd"] {
        for verb in
            [&["send", name, "x", "--force"][..], &["inbox", "list", name], &["spawn", name, "--", "true"]]
        {
            world.throng(["--team", "demo"]).args(verb).run().code(2);
        }
    }
    let inboxes = fs::read_dir(team.dir().join("inboxes")).unwrap().count();
    assert_eq!(inboxes, 1, "nothing was made");
}

/// A team with state of ours, so that its writers queue.
fn our_team<'a>(world: &'a World, members: &[&str]) -> crate::support::Team<'a> {
    let team = world.plant_team("demo", members);
    fs::create_dir_all(team.state_dir()).unwrap();
    team
}

/// The team's files, by the library.
fn store(world: &World) -> TeamStore {
    let layout =
        Layout { config_dir: world.config_dir(), state_dir: world.state_dir(), runtime_dir: world.sockets() };
    Store::new(layout, Duration::from_secs(15)).team(&TeamName::new("demo").unwrap())
}

fn entry(from: &str, text: &str) -> Entry {
    Entry::new(from, text, &timestamp::format(SystemTime::now()), &uuid::Uuid::new_v4().to_string())
}
