//! Mail under load and under fire: many writers, a marking reader, killed and suspended writers, full and read-only disks.

use crate::support::process::Process;
use crate::support::{Call, Running, Team, World, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A team with state of ours, so that its writers queue.
fn our_team<'a>(world: &'a World, members: &[&str]) -> Team<'a> {
    let team = world.plant_team("demo", members);
    fs::create_dir_all(team.state_dir()).unwrap();
    team
}

fn send(world: &World, to: &str, text: &str) -> Call {
    world.throng(["send", "--team", "demo", to, text])
}

/// Waits until the process has stopped.
fn until_stopped(call: &Running) {
    until("the process has stopped", || Process::of(call.pid()).is_some_and(|p| p.state == 'T'));
}

/// The entries that wait for their turn, in order.
fn spool(team: &Team<'_>) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = Vec::new();
    crate::support::world::walk(&team.state_dir().join("queues"), &mut |path, is_dir| {
        if !is_dir && path.parent().unwrap().extension().is_some_and(|e| e == "spool") {
            names.push(path.to_owned());
        }
    });
    names.sort();
    names
}

/// Starts a writer and waits until its entry is spooled, the `count`th.
fn spooled(world: &World, team: &Team<'_>, call: Call, count: usize) -> Running {
    let call = call.start();
    until(&format!("{count} entries are spooled"), || {
        spool(team).iter().filter(|p| p.metadata().is_ok_and(|m| m.len() > 0)).count() == count
    });
    let _ = world;
    call
}

#[test]
fn probe_d18_q105_q106_a_reader_that_marks_all_the_time_loses_nothing() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let (writers, messages) = (6, 12);
    // 64 kB bodies, so that no write is small.
    let body =
        |w: usize, i: usize| format!("{w}.{i} {}", "x".repeat(if i.is_multiple_of(4) { 64_000 } else { 20 }));
    let taken = std::thread::scope(|scope| {
        for w in 0..writers {
            let world = &world;
            scope.spawn(move || {
                for i in 0..messages {
                    let call = world.throng(["send", "--team", "demo", "bob", "-"]).stdin(body(w, i));
                    call.run().ok();
                }
            });
        }
        let mut taken: Vec<String> = Vec::new();
        while taken.len() < writers * messages {
            let take = ["inbox", "take", "--all", "--json", "--wait", "--timeout", "60s", "--team", "demo"];
            let outcome = world.throng(take).by("bob").run();
            outcome.ok();
            taken.extend(outcome.json_lines().iter().map(|m| m["text"].as_str().unwrap().to_owned()));
        }
        taken
    });
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for text in &taken {
        *count.entry(text.split(' ').next().unwrap()).or_default() += 1;
    }
    assert_eq!(count.len(), writers * messages);
    assert!(count.values().all(|n| *n == 1), "doubled: {count:?}");
    for w in 0..writers {
        let order: Vec<&String> = taken.iter().filter(|t| t.starts_with(&format!("{w}."))).collect();
        assert!((0..messages).all(|i| *order[i] == body(w, i)), "one writer's messages keep their order");
    }
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().code(3);
    assert!(team.inbox("bob").iter().all(|e| e["read"] == true));
    assert_eq!(spool(&team), Vec::<PathBuf>::new());
    world.assert_nothing_left();
}

#[test]
fn goal_p2_who_has_the_turn_writes_what_the_others_have_spooled_in_order() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let holder = send(&world, "bob", "holder").env("THRONG_FAULT", "stop@signed").start();
    until_stopped(&holder);
    let calls: Vec<Running> =
        (0..5).map(|i| spooled(&world, &team, send(&world, "bob", &i.to_string()), i + 1)).collect();
    // None of them can write: all that they wait for is being told.
    calls.iter().for_each(|call| call.signal(Signal::SIGSTOP));
    calls.iter().for_each(until_stopped);
    holder.signal(Signal::SIGCONT);
    holder.wait().ok();
    assert_eq!(team.texts("bob"), ["0", "1", "2", "3", "4", "holder"]);
    calls.iter().for_each(|call| call.signal(Signal::SIGCONT));
    for call in calls {
        call.wait().ok();
    }
    assert_eq!(team.inbox("bob").len(), 6, "written once");
    world.assert_nothing_left();
}

/// A writer with others' entries in hand is killed at each step of its write.
#[test]
fn probe_q121_a_writer_killed_at_any_step_loses_and_doubles_nothing() {
    for step in ["signed", "prepared", "intended", "renamed", "acknowledged"] {
        let world = World::new();
        let team = our_team(&world, &["bob"]);
        let first = send(&world, "bob", "first").env("THRONG_FAULT", "stop@signed").start();
        until_stopped(&first);
        let victim = spooled(&world, &team, send(&world, "bob", "victim").env("THRONG_FAULT", step), 1);
        let others: Vec<Running> =
            (0..3).map(|i| spooled(&world, &team, send(&world, "bob", &i.to_string()), i + 2)).collect();
        others.iter().for_each(|call| call.signal(Signal::SIGSTOP));
        others.iter().for_each(until_stopped);
        // The victim has the turn next, and takes the others' entries along.
        first.signal(Signal::SIGKILL);
        victim.wait().signalled(Signal::SIGKILL);
        let bytes = fs::read(team.inbox_path("bob")).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|e| panic!("{step}: {e}"));
        others.iter().for_each(|call| call.signal(Signal::SIGCONT));
        for call in others {
            let outcome = call.wait();
            outcome.ok();
            assert!(outcome.took < Duration::from_secs(9), "{step}: the dead writer's lock went at once");
        }
        let mut texts = team.texts("bob");
        texts.sort();
        let expected: &[&str] = match step {
            "renamed" | "acknowledged" => &["0", "1", "2", "victim"],
            // Its entry stays in the spool without a writer, and is dropped.
            _ => &["0", "1", "2"],
        };
        assert_eq!(texts, expected, "{step}");
        send(&world, "bob", "last").run().ok();
        assert_eq!(spool(&team), Vec::<PathBuf>::new(), "{step}");
        assert_eq!(team.inbox("bob").len(), expected.len() + 1, "{step}");
        world.assert_nothing_left();
    }
}

/// Whoever finishes for a dead writer, or begins anew, may die of it as well: the third one finds all that is left.
#[test]
fn probe_q121_who_dies_while_clearing_up_leaves_that_to_the_next() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    team.plant_inbox("bob", "[]");
    let left = || {
        let names = fs::read_dir(team.dir().join("inboxes")).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().contains(".tmp.")).count()
    };
    for step in ["prepared", "recovering"] {
        send(&world, "bob", "lost").env("THRONG_FAULT", step).run().signalled(Signal::SIGKILL);
        assert_eq!(left(), 1, "{step}");
    }
    send(&world, "bob", "first").run().ok();
    assert_eq!(left(), 0);
    // Another program writes without the lock, so that the writer has to begin anew.
    let anew = send(&world, "bob", "lost").env("THRONG_FAULT", "stop@prepared,disclaimed").start();
    until_stopped(&anew);
    team.plant_inbox("bob", "[ ]");
    anew.signal(Signal::SIGCONT);
    anew.wait().signalled(Signal::SIGKILL);
    assert_eq!(left(), 1);
    let outcome = send(&world, "bob", "second").run();
    outcome.ok().check("at once", outcome.took < Duration::from_secs(9));
    assert_eq!(team.texts("bob"), ["second"]);
    world.assert_nothing_left();
}

/// Killed between making the lock directory and writing down that it is ours: it has to grow stale.
#[test]
fn case_c002_a_lock_without_a_record_is_waited_for_until_it_is_stale() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    send(&world, "bob", "lost").env("THRONG_FAULT", "locked").run().signalled(Signal::SIGKILL);
    let lock = team.inbox_path("bob").with_extension("json.lock");
    assert!(lock.is_dir());
    let nine_seconds_ago = SystemTime::now() - Duration::from_secs(9);
    File::open(&lock).unwrap().set_times(FileTimes::new().set_modified(nine_seconds_ago)).unwrap();
    send(&world, "bob", "arrives").run().ok();
    assert_eq!(team.texts("bob"), ["arrives"]);
    world.assert_nothing_left();
}

#[test]
fn a_writer_that_gives_up_was_not_written_and_says_who_held_it_up() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let holder = send(&world, "bob", "holder").env("THRONG_FAULT", "stop@signed").start();
    until_stopped(&holder);
    let outcome = send(&world, "bob", "impatient").env("THRONG_LOCK_BUDGET", "300ms").run();
    outcome.code(4).complains("was not free within").complains("last sign of life");
    assert_eq!(spool(&team), Vec::<PathBuf>::new());
    holder.signal(Signal::SIGCONT);
    holder.wait().ok();
    assert_eq!(team.texts("bob"), ["holder"]);
    world.assert_nothing_left();
}

/// The moment that decides: the writer gives up while another has its entry in hand, before and after the rename.
#[test]
fn giving_up_while_the_entry_is_being_written_tells_the_truth() {
    for (step, is_sent) in [("stop@intended", false), ("stop@renamed", true)] {
        let world = World::new();
        let team = our_team(&world, &["bob"]);
        let first = send(&world, "bob", "first").env("THRONG_FAULT", "stop@signed").start();
        until_stopped(&first);
        let holder = spooled(&world, &team, send(&world, "bob", "holder").env("THRONG_FAULT", step), 1);
        let impatient = send(&world, "bob", "impatient").env("THRONG_LOCK_BUDGET", "5s");
        let impatient = spooled(&world, &team, impatient, 2);
        impatient.signal(Signal::SIGSTOP);
        until_stopped(&impatient);
        first.signal(Signal::SIGKILL);
        until_stopped(&holder);
        impatient.signal(Signal::SIGCONT);
        until("it has given up", || {
            spool(&team).iter().any(|p| p.extension().is_some_and(|e| e == "withdrawn"))
        });
        holder.signal(Signal::SIGCONT);
        let outcome = impatient.wait();
        outcome.code(if is_sent { 0 } else { 4 });
        holder.wait().ok();
        let has_it = team.texts("bob").contains(&"impatient".to_owned());
        assert_eq!(has_it, is_sent, "{step}");
        assert_eq!(spool(&team), Vec::<PathBuf>::new());
        world.assert_nothing_left();
    }
}

#[test]
fn probe_q120_no_lock_never_means_an_empty_inbox() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    team.plant_inbox("bob", r#"[{"from":"lead","text":"a","timestamp":"2030-01-02T03:04:05.678Z"}]"#);
    let lock = team.inbox_path("bob").with_extension("json.lock");
    // A live holder: the lock is fresh.
    fs::create_dir(&lock).unwrap();
    let briefly = |call: Call| call.env("THRONG_LOCK_BUDGET", "200ms").run();
    briefly(send(&world, "bob", "b")).code(4).complains("bob.json.lock");
    world.throng(["inbox", "list", "bob", "--team", "demo"]).run().ok().says("a");
    // Delivered, not marked: it comes again, and that is said.
    let take = || world.throng(["inbox", "take", "--team", "demo"]).by("bob");
    briefly(take()).code(4).prints("a\n").complains("bob.json.lock");
    assert_eq!(team.inbox("bob").len(), 1);
    fs::remove_dir(&lock).unwrap();
    take().run().ok().prints("a\n");
    // A file of another program is waited for while it is fresh, and never removed.
    fs::write(&lock, "").unwrap();
    briefly(send(&world, "bob", "c")).code(4);
    let old = SystemTime::now() - Duration::from_secs(60);
    File::options().write(true).open(&lock).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    send(&world, "bob", "c")
        .run()
        .complains("bob.json.lock")
        .complains("not a lock directory")
        .check("not 0", true);
    assert!(lock.is_file());
}

/// Some of what the file may be like; the good ones come, the odd ones cost only themselves.
#[test]
fn probe_q113_case_c015_odd_entries_cost_only_themselves() {
    let world = World::new();
    let team = our_team(&world, &["bob"]);
    let good =
        |text: &str| format!(r#"{{"from":"lead","text":"{text}","timestamp":"2030-01-02T03:04:05.678Z"}}"#);
    let wrong = r#"{"from":"lead","text":"wrong types","timestamp":"2030-01-02T03:04:05.679Z","read":"no","summary":1,"msg_id":{}}"#;
    let half = good(r"half \ud83d pair");
    let file =
        format!("\u{feff}[{}, 42, {{\"from\":1}}, {half}, {wrong}, null, {}]", good("first"), good("last"));
    team.plant_inbox("bob", &file);
    let take = || world.throng(["inbox", "take", "--all", "--team", "demo"]).by("bob").run();
    let outcome = take();
    outcome.code(0).prints("first\nhalf \u{fffd} pair\nwrong types\nlast\n").complains("3 malformed entries");
    let text = fs::read_to_string(team.inbox_path("bob")).unwrap();
    assert_eq!(text.matches("\"read\": true").count(), 4, "{text}");
    assert!(
        text.contains(r"half \ud83d pair") && !text.contains("42"),
        "the malformed ones are put aside: {text}"
    );
    assert_eq!(fs::read(&team.quarantined()[0]).unwrap(), file.as_bytes());
    assert_eq!(team.quarantined().len(), 1);
    take().code(3);
    world.assert_nothing_left();
}

#[test]
fn probe_d25_two_teams_and_two_homes_do_not_cross() {
    let (world, other) = (World::new(), World::new());
    for world in [&world, &other] {
        for name in ["demo", "demo-2"] {
            world.plant_team(name, &["bob"]);
            fs::create_dir_all(world.team(name).state_dir()).unwrap();
        }
    }
    let places = [(&world, "demo"), (&world, "demo-2"), (&other, "demo"), (&other, "demo-2")];
    let waiting: Vec<Running> = places
        .iter()
        .map(|(world, name)| {
            let take = ["inbox", "take", "--wait", "--timeout", "60s", "--team", name];
            world.throng(take).by("bob").start()
        })
        .collect();
    for (i, (world, name)) in places.iter().enumerate() {
        world.throng(["send", "--team", name, "bob", &i.to_string()]).run().ok();
    }
    for (i, call) in waiting.into_iter().enumerate() {
        call.wait().ok().prints(&format!("{i}\n"));
    }
    for (world, name) in places {
        assert_eq!(world.team(name).inbox("bob").len(), 1);
    }
}

/// More processes than there are inotify instances wait; each is woken by its own message and by nobody else's.
#[test]
fn goal_p10_two_hundred_that_wait_are_all_woken() {
    let world = World::new();
    let names: Vec<String> = (0..200).map(|i| format!("w{i}")).collect();
    let team = our_team(&world, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let waiting: Vec<Running> = names
        .iter()
        .map(|name| {
            let take = ["inbox", "take", "--wait", "--timeout", "120s", "--team", "demo"];
            world.throng(take).by(name).timeout(Duration::from_secs(150)).start()
        })
        .collect();
    let sockets = || {
        let mut count = 0;
        crate::support::world::walk(&world.sockets(), &mut |_, is_dir| count += usize::from(!is_dir));
        count
    };
    until("all of them listen", || sockets() == names.len());
    // One of them is killed: its socket goes with the next poke.
    waiting[7].signal(Signal::SIGKILL);
    for (i, name) in names.iter().enumerate() {
        match i {
            // A program of another kind does not poke.
            0 => drop(team.plant_inbox(
                name,
                r#"[{"from":"lead","text":"for w0","timestamp":"2030-01-02T03:04:05.678Z"}]"#,
            )),
            _ => drop(send(&world, name, &format!("for {name}")).run().ok()),
        }
    }
    for (i, call) in waiting.into_iter().enumerate() {
        let outcome = call.wait();
        match i {
            7 => drop(outcome.signalled(Signal::SIGKILL)),
            _ => drop(outcome.ok().prints(&format!("for w{i}\n"))),
        }
    }
    assert_eq!(sockets(), 0);
    world.assert_nothing_left();
}
