//! Two hundred messages each way between throng and a real, busy Claude Code, while both write and a third party holds the
//! locks: each arrives once (A2, A3, C3; protocol I.3, I.4).

use crate::claude::Stage;
use crate::support::model::{Part, load, send};
use crate::support::until;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Messages each way, and how many its model sends in one answer.
const COUNT: usize = 200;
const AT_ONCE: usize = 10;
const SENDERS: usize = 4;

fn to_ann(i: usize) -> String {
    format!("to-ann-{i:03}.")
}

fn from_ann(i: usize) -> String {
    format!("from-ann-{i:03}.")
}

/// Holds a lock as a program does that was suspended: without renewing it.
fn hold(inbox: &Path, time: Duration) {
    let lock = inbox.with_extension("json.lock");
    until("the lock is free for the third party", || fs::create_dir(&lock).is_ok());
    // How long it is held is the subject here.
    std::thread::sleep(time);
    // One that went stale may be another's by now.
    if time < Duration::from_secs(9) {
        fs::remove_dir(&lock).unwrap();
    }
}

/// How often each of these words stands in a text.
fn counted(text: &str, word: fn(usize) -> String) -> Vec<usize> {
    (0..COUNT).map(|i| text.matches(&word(i)).count()).collect()
}

#[test]
fn a2_a3_c3_a_busy_teammate_and_throng_exchange_two_hundred_messages_each_way() {
    let mut steps = vec![load("SendMessage")];
    for start in (0..COUNT).step_by(AT_ONCE) {
        steps.push((start..start + AT_ONCE).map(|i| send("team-lead", &from_ann(i))).collect());
    }
    let Some(stage) = Stage::new(vec![Part::new("write to me", steps)]) else { return };
    let flags = ["--permission-mode", "bypassPermissions", "--prompt", "write to me, two hundred times"];
    stage.spawn_ann(&flags).run().ok();
    let team = stage.world.team("t");
    let is_sent = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let stage = &stage;
                scope.spawn(move || {
                    for i in (sender..COUNT).step_by(SENDERS) {
                        stage.throng(&["send", "--team", "t", "ann", &to_ann(i)]).run().ok();
                    }
                })
            })
            .collect();
        let taker = scope.spawn(|| {
            let mut taken = String::new();
            loop {
                let is_last = is_sent.load(Ordering::SeqCst);
                let take = stage.throng(&["inbox", "take", "--all", "--json", "--team", "t"]).run();
                taken.push_str(&take.stdout);
                if is_last {
                    return taken;
                }
            }
        });
        hold(&team.inbox_path("ann"), Duration::from_secs(2));
        hold(&team.inbox_path("team-lead"), Duration::from_secs(2));
        hold(&team.inbox_path("ann"), Duration::from_secs(12));
        for sender in senders {
            sender.join().unwrap();
        }
        until("it has had all of its mail", || team.inbox("ann").is_empty());
        until("it is idle", || team.member("ann")["activity"] == "idle");
        // Its last words are in the file when its turn has ended.
        is_sent.store(true, Ordering::SeqCst);
        taker.join().unwrap()
    });
    // What its model has read, in the end, is its whole conversation.
    let requests = stage.model.requests();
    let conversation = requests.iter().max_by_key(|r| r["messages"].as_array().map_or(0, Vec::len)).unwrap();
    let users = conversation["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "user");
    let read: String = users.map(|m| m["content"].to_string()).collect();
    assert_eq!(counted(&read, to_ann), [1; COUNT], "what we sent, as its model read it");
    // It gives up a write after 0.7 s of a held lock, and says so to its model: told is not lost.
    let refused = read.matches("nothing was sent").count();
    let came = counted(&taken, from_ann);
    assert!(came.iter().all(|count| *count <= 1), "doubled: {came:?}");
    let landed: usize = came.iter().sum();
    let told = sends_that_succeeded(conversation);
    assert_eq!((landed, COUNT - landed), (told, refused), "what it sent: {came:?}");
    eprintln!(
        "to it: {COUNT} of {COUNT}, each once; from it: {landed} landed, each once, {refused} told to its model as not sent"
    );
    stage.throng(&["down", "t"]).run().ok();
    stage.world.assert_nothing_left();
}

/// How many of its calls were answered with success.
fn sends_that_succeeded(conversation: &Value) -> usize {
    let mut is_send: HashMap<&str, bool> = HashMap::new();
    let mut succeeded = 0;
    for block in
        conversation["messages"].as_array().unwrap().iter().flat_map(|m| m["content"].as_array()).flatten()
    {
        if block["type"] == "tool_use" {
            is_send.insert(block["id"].as_str().unwrap(), block["name"] == "SendMessage");
        } else if block["type"] == "tool_result" && is_send[block["tool_use_id"].as_str().unwrap()] {
            succeeded +=
                usize::from(block["content"].to_string().replace('\\', "").contains("\"success\":true"));
        }
    }
    succeeded
}
