//! Inboxes: what is sent arrives once and whole, whatever the file was like before.

use crate::support::wait::SetOnDrop;
use crate::support::{World, fixture, until};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn case_c001_two_processes_send_the_first_message_at_once() {
    for _ in 0..5 {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        assert!(!team.dir().join("inboxes").exists());
        let send = |text| world.throng(["send", "--team", "demo", "bob", text]).start();
        for call in ["one", "two"].map(send) {
            call.wait().ok();
        }
        let mut texts = team.texts("bob");
        texts.sort();
        assert_eq!(texts, ["one", "two"]);
        world.assert_nothing_left();
    }
}

/// One row of `expected.tsv`, as our readers and writers take it.
fn damaged_inbox(file: &str, messages: &[&str]) {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let bytes = fs::read(fixture(&format!("C011/{file}"))).unwrap();
    let path = team.plant_inbox("bob", &bytes);

    let listed = world.throng(["inbox", "list", "bob", "--team", "demo", "--json"]).run();
    listed.code(0).complains(path.to_str().unwrap());
    let entries = listed.json()["messages"].as_array().unwrap().clone();
    let texts: Vec<&str> = entries.iter().map(|e| e["text"].as_str().unwrap()).collect();
    assert_eq!(texts, messages, "{file}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "{file}: a reading verb changes nothing");

    for message in messages {
        let taken = world.throng(["inbox", "take", "--team", "demo"]).by("bob").run();
        taken.code(0).prints(&format!("{message}\n"));
    }
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().code(3);
    world.throng(["send", "bob", "the next", "--team", "demo"]).run().ok();
    let now = team.texts("bob");
    assert_eq!(now.last().unwrap(), "the next", "{file}");
    assert_eq!(now.len(), messages.len() + 1, "{file}: {now:?}");

    let kept = team.quarantined();
    assert_eq!(kept.len(), 1, "{file}: one copy for one damage: {kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), bytes, "{file}: the copy is the file as it was");
}

#[test]
fn case_c011_a_damaged_inbox_is_kept_aside_once_and_the_next_message_arrives() {
    let table = fs::read_to_string(fixture("C011/expected.tsv")).unwrap();
    let inboxes: Vec<&str> =
        table.lines().map(|l| l.split('\t').next().unwrap()).filter(|f| f.starts_with("inbox-")).collect();
    assert_eq!(inboxes.len(), 9);
    for file in inboxes {
        let messages: &[&str] = if file == "inbox-array-with-odd.json" { &["ok", "last"] } else { &[] };
        damaged_inbox(file, messages);
    }
}

#[test]
fn case_c011_fields_of_strangers_survive_beside_odd_entries() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    team.plant_inbox("bob", fs::read(fixture("C011/inbox-array-with-odd.json")).unwrap());
    world.throng(["inbox", "take", "--all", "--team", "demo"]).by("bob").run().code(0).prints("ok\nlast\n");
    let last = team.inbox("bob").pop().unwrap();
    assert_eq!((&last["x_tool"], &last["read"]), (&json!({"n": 1}), &json!(true)));
}

#[test]
fn case_c011_an_empty_team_file_is_refused_and_left_alone() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let path = team.config_path();
    fs::copy(fixture("C011/config-empty.json"), &path).unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    world.write("t/team.toml", "[team]\nname = \"demo\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n");
    for args in [
        &["send", "bob", "x", "--team", "demo"][..],
        &["status", "--team", "demo"],
        &["inbox", "list", "bob", "--team", "demo"],
        &["spawn", "bob", "--team", "demo", "--", "true"],
        &["run", "t"],
        &["up", "t"],
        &["down", "demo"],
    ] {
        let outcome = world.throng(args).run();
        outcome.check("refused", outcome.code.is_some_and(|c| c != 0));
    }
    world.throng(["send", "bob", "x", "--team", "demo"]).run().code(2).complains(path.to_str().unwrap());
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.len(), meta.modified().unwrap()), (0, before), "untouched");
    assert!(team.quarantined().is_empty() && !team.dir().join("inboxes").exists());
}

#[test]
fn case_c014_fields_of_strangers_survive() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let stranger = r#"{"from":"lead","text":"a","timestamp":"2030-01-02T03:04:05.678Z","x_tool":{"n":1,"big":12345678901234567890123}}"#;
    team.plant_inbox("bob", format!("[ {stranger} ]"));
    world.throng(["send", "--team", "demo", "bob", "b"]).run().ok();
    let text = fs::read_to_string(team.inbox_path("bob")).unwrap();
    assert!(text.contains(stranger), "an entry that is not touched stays byte for byte: {text}");
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok().prints("a\n");
    let marked = &team.inbox("bob")[0];
    assert_eq!((&marked["read"], &marked["x_tool"]["n"]), (&json!(true), &json!(1)));
    let text = fs::read_to_string(team.inbox_path("bob")).unwrap();
    assert!(text.contains("12345678901234567890123"), "{text}");
}

#[test]
fn case_c014_fields_of_strangers_in_the_team_file_survive_a_spawn_and_a_stop() {
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    let team = world.team("demo");
    let mut config = team.config();
    config["teamAllowedPaths"] = json!(["x"]);
    config["members"][1]["isActive"] = json!(false);
    config["members"].as_array_mut().unwrap().push(json!({"agentId": "z@demo", "name": "z", "y": {"a": 1}}));
    fs::write(team.config_path(), config.to_string()).unwrap();
    world.spawn_sleeper("demo", "carol");
    world.throng(["stop", "carol", "--team", "demo", "--grace", "5s"]).run().ok();
    let now = team.config();
    assert_eq!(now["teamAllowedPaths"], json!(["x"]));
    assert_eq!(now["members"][1]["isActive"], json!(false));
    assert_eq!(now["members"][2]["y"]["a"], 1);
    assert_eq!(team.roster(), ["team-lead", "bob", "z"]);
}

#[test]
fn case_c015_a_byte_order_mark_is_skipped_and_not_written_back() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    for (file, texts) in [("inbox-bom.json", &["first", "second"][..]), ("inbox-crlf.json", &["a"])] {
        let path = team.plant_inbox("bob", fs::read(fixture(&format!("C015/{file}"))).unwrap());
        let take = || world.throng(["inbox", "take", "--team", "demo"]).by("bob").run();
        take().ok().prints(&format!("{}\n", texts[0]));
        assert!(!fs::read(&path).unwrap().starts_with(b"\xef\xbb\xbf"));
        fs::copy(fixture(&format!("C015/{file}")), &path).unwrap();
        world.throng(["send", "bob", "more", "--team", "demo"]).run().ok();
        let mut expected = texts.to_vec();
        expected.push("more");
        assert_eq!(team.texts("bob"), expected, "{file}");
    }
    assert!(team.quarantined().is_empty(), "neither file is damaged");
}

#[test]
fn case_c015_utf_16_is_named_and_kept_aside() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let bytes = fs::read(fixture("C015/inbox-utf16le.json")).unwrap();
    team.plant_inbox("bob", &bytes);
    world.throng(["inbox", "list", "bob", "--team", "demo"]).run().code(0).complains("UTF-16");
    world.throng(["send", "bob", "x", "--team", "demo"]).run().ok();
    assert_eq!(team.texts("bob"), ["x"]);
    let kept = team.quarantined();
    assert_eq!((kept.len(), fs::read(&kept[0]).unwrap()), (1, bytes));
}

#[test]
fn case_c018_many_readers_of_one_damage_make_one_copy() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    team.plant_inbox("bob", "[{\"from\":");
    for _ in 0..3 {
        let list = || world.throng(["inbox", "list", "bob", "--team", "demo"]).start();
        for call in [list(), list(), list(), list()] {
            call.wait().code(0);
        }
    }
    assert_eq!(team.quarantined().len(), 1);
    team.plant_inbox("bob", "[{\"other\":");
    world.throng(["send", "bob", "x", "--team", "demo"]).run().ok();
    assert_eq!(team.quarantined().len(), 2, "another damage is another copy");
}

#[test]
fn case_c018_a_follower_warns_once_and_goes_on() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    team.plant_inbox("bob", "[{\"from\":");
    let follow = world.throng(["inbox", "follow", "bob", "--team", "demo"]).start();
    until("it has warned", || follow.stderr().contains("is damaged"));
    // Each of these wakes it, and the damage is still there.
    for i in 0..3 {
        team.plant_inbox("carol", format!("[{i}]"));
        team.plant_inbox("bob", "[{\"from\":");
    }
    world.throng(["send", "bob", "mended", "--team", "demo"]).run().ok();
    follow.until_says("mended");
    assert_eq!(follow.stderr().matches("is damaged").count(), 1, "{}", follow.stderr());
}

#[test]
fn probe_q113_malformed_entries_do_not_block_the_good_ones() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let good = |text: &str| json!({"from": "lead", "text": text, "timestamp": "2030-01-02T03:04:05.678Z"});
    let entries = json!([good("one"), 42, {"from": 1}, good("two")]);
    team.plant_inbox("bob", entries.to_string());
    world
        .throng(["inbox", "take", "--team", "demo"])
        .by("bob")
        .run()
        .code(0)
        .prints("one\n")
        .complains("2 malformed");
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok().prints("two\n");
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().code(3);
    assert_eq!(team.texts("bob"), ["one", "two"], "the bad ones are out of the way");
    let kept: Value = serde_json::from_slice(&fs::read(&team.quarantined()[0]).unwrap()).unwrap();
    assert_eq!(kept, entries, "and not lost");
}

#[test]
fn probe_d18_many_writers_at_once_lose_nothing() {
    const WRITERS: usize = 8;
    const MESSAGES: usize = 25;
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    let team = world.team("demo");
    let path = team.inbox_path("bob");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = SetOnDrop(&is_over);
        // Whoever reads without a lock sees a whole file at every moment.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = fs::read(&path).unwrap();
                assert!(serde_json::from_slice::<Vec<Value>>(&bytes).is_ok(), "a torn file");
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let world = &world;
                scope.spawn(move || {
                    for m in 0..MESSAGES {
                        // One in five is long (probe Q106).
                        let text = format!("{w}.{m} {}", "x".repeat(if m % 5 == 0 { 64_000 } else { 10 }));
                        world.throng(["send", "bob", "-", "--team", "demo"]).stdin(&text).run().ok();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        drop(over);
    });
    let texts = team.texts("bob");
    assert_eq!(texts.len(), WRITERS * MESSAGES);
    for w in 0..WRITERS {
        let of_one: Vec<&str> =
            texts.iter().filter(|t| t.starts_with(&format!("{w}."))).map(|t| &t[..4]).collect();
        assert_eq!(of_one.len(), MESSAGES, "writer {w}");
        let numbers: Vec<usize> = of_one.iter().map(|t| t[2..].trim().parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "each writer's messages are in its order: {numbers:?}");
    }
    world.throng(["down", "demo"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_o06_reading_verbs_leave_the_inbox_alone() {
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    let team = world.team("demo");
    world.throng(["send", "bob", "hello", "--team", "demo"]).run().ok();
    let stamp = || {
        let meta = fs::metadata(team.inbox_path("bob")).unwrap();
        (meta.modified().unwrap(), meta.len(), std::os::unix::fs::MetadataExt::ino(&meta))
    };
    let before = stamp();
    for args in [
        &["inbox", "list", "bob", "--team", "demo"][..],
        &["inbox", "list", "bob", "--all", "--json", "--team", "demo"],
        &["status", "--team", "demo"],
        &["status", "--json", "--team", "demo"],
        &["task", "list", "--team", "demo"],
        &["logs", "bob", "--team", "demo"],
        &[],
    ] {
        world.throng(args).run().code(0);
        assert_eq!(stamp(), before, "{args:?}");
    }
    let follow = world.throng(["inbox", "follow", "bob", "--team", "demo"]).start();
    follow.until_says("team-lead: hello");
    assert_eq!(stamp(), before, "follow");
}

#[test]
fn a_message_is_taken_once_in_order_and_by_sender() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob", "ann"]);
    for (from, text) in [("ann", "1"), ("lead", "2"), ("ann", "3")] {
        world.throng(["send", "bob", text, "--team", "demo", "--from", from]).run().ok();
    }
    let take = |args: &[&str]| world.throng(["inbox", "take", "--team", "demo"]).args(args).by("bob").run();
    take(&["--from", "lead"]).ok().prints("2\n");
    assert_eq!(take(&["--json"]).ok().json()["from"], "ann");
    take(&[]).ok().prints("3\n");
    take(&[]).code(3).complains("no unread message for bob").prints("");
    take(&["--wait", "--timeout", "100ms"]).code(124);
    let waiting = world.throng(["inbox", "take", "--wait", "--team", "demo"]).by("bob").start();
    world.throng(["send", "bob", "4", "--team", "demo"]).run().ok();
    waiting.wait().ok().prints("4\n");
    assert!(team.inbox("bob").iter().all(|e| e["read"] == true));
    world.throng(["send", "bob", "  ", "--team", "demo"]).run().code(2).complains("empty");
}

#[test]
fn case_c110_a_long_text_comes_by_stdin_or_file() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let long = "ü0123456789\n".repeat(300_000 / 13);
    // The last line end of a pipe is the pipe's, as with `$(...)`; a file's is the file's.
    world.throng(["send", "bob", "-", "--team", "demo"]).stdin(&long).run().ok();
    world.write("long.txt", &long);
    world.throng(["send", "bob", "@long.txt", "--team", "demo"]).run().ok();
    world.throng(["send", "bob", "--team", "demo", "--", "-rf x;"]).run().ok();
    let texts = team.texts("bob");
    assert!(
        texts[0] == long[..long.len() - 1] && texts[1] == long,
        "{} and {} bytes",
        texts[0].len(),
        texts[1].len()
    );
    assert_eq!(texts[2], "-rf x;");
    let taken = world.throng(["inbox", "take", "--team", "demo"]).by("bob").run();
    assert!(taken.ok().stdout == long, "printed as it was piped in");
    world.throng(["send", "bob", "@no-such.txt", "--team", "demo"]).run().code(2).complains("no-such.txt");
}

#[test]
fn probe_q105_reading_and_writing_at_once_loses_nothing_and_gives_nothing_twice() {
    const WRITERS: usize = 3;
    const MESSAGES: usize = 15;
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    let mut taken: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        for w in 0..WRITERS {
            let world = &world;
            scope.spawn(move || {
                for m in 0..MESSAGES {
                    world.throng(["send", "bob", &format!("{w}.{m}"), "--team", "demo"]).run().ok();
                }
            });
        }
        while taken.len() < WRITERS * MESSAGES {
            let take = world.throng(["inbox", "take", "--wait", "--timeout", "20s", "--team", "demo"]);
            taken.extend(take.by("bob").run().ok().stdout.lines().map(str::to_owned));
        }
    });
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().code(3);
    taken.sort();
    let mut expected: Vec<String> =
        (0..WRITERS).flat_map(|w| (0..MESSAGES).map(move |m| format!("{w}.{m}"))).collect();
    expected.sort();
    assert_eq!(taken, expected);
}

#[test]
fn case_c021_probe_q108_a_message_that_was_not_printed_comes_again() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let long = "x".repeat(1 << 20);
    world.throng(["send", "bob", "-", "--team", "demo"]).stdin(&long).run().ok();
    // A reader that reads nothing: the pipe is full, and the taker killed in the middle of its print.
    let (ours, theirs) = std::io::pipe().unwrap();
    let taker = world.throng(["inbox", "take", "--team", "demo"]).by("bob").stdout(theirs).start();
    until("it waits for its reader", || {
        fs::read_to_string(format!("/proc/{}/wchan", taker.pid())).is_ok_and(|w| w.contains("pipe_write"))
            || fs::read_to_string(format!("/proc/{}/stat", taker.pid())).is_ok_and(|s| s.contains(") S "))
    });
    taker.signal(nix::sys::signal::Signal::SIGKILL);
    taker.wait();
    drop(ours);
    assert_eq!(team.inbox("bob")[0]["read"], false);
    let again = world.throng(["inbox", "take", "--team", "demo"]).by("bob").run();
    assert!(again.ok().stdout.len() == long.len() + 1);
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().code(3);
}

#[test]
fn read_messages_are_pruned_by_number_and_size() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let entry = |i: usize| json!({"from": "lead", "text": format!("old {i}"), "timestamp": "2030-01-02T03:04:05.678Z", "msg_id": i.to_string(), "read": true});
    let mut entries: Vec<Value> = (0..1500).map(entry).collect();
    entries.insert(3, json!({"from": "lead", "text": "unread", "timestamp": "2030-01-02T03:04:05.678Z"}));
    team.plant_inbox("bob", Value::from(entries).to_string());
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok().prints("unread\n");
    let kept = team.texts("bob");
    assert!(kept.len() <= 101, "{} are kept", kept.len());
    assert_eq!(kept.last().unwrap(), "old 1499", "the newest stay");
}
