//! What holds for any bytes in a file or a message: no panic, nothing foreign lost, writing is stable. Each property answers
//! a word for how the bytes were taken, so that a mutator can keep what leads somewhere new. Run by `tests/it/fuzz.rs`,
//! on any toolchain.

use serde_json::Value;
use std::path::Path;
use throng::config::Drivers;
use throng::config::plan::Plan;
use throng::permission::shell;
use throng::protocol::inbox::{self, Inbox};
use throng::protocol::{Body, Entry, Task, Team, body};

/// An inbox file.
pub fn inbox(bytes: &[u8]) -> String {
    let added = inbox::rendered(&Entry::new("a\"b", "t\n\u{1f600}", "2030-01-02T03:04:05.678Z", "id"));
    let old = match Inbox::parse(bytes) {
        Ok(old) => old,
        Err(damage) => {
            assert_eq!(inbox::with_entries(bytes, std::slice::from_ref(&added)).unwrap_err(), damage);
            return format!("{damage:?}").chars().take(24).collect();
        }
    };
    let new = inbox::with_entries(bytes, &[added.clone(), added.clone()]).unwrap();
    let read = Inbox::parse(&new).unwrap();
    let (before, after) = read.slices.split_at(old.slices.len());
    assert!(before.iter().zip(&old.slices).all(|(a, b)| a.get() == b.get()), "old entries are touched");
    assert!(after.len() == 2 && after.iter().all(|slice| slice.get() == added), "{after:?}");
    let mut present = vec![added];
    inbox::drop_present(&new, &mut present);
    assert!(present.is_empty(), "what is there is found");
    let rendered = inbox::render(&old.slices.iter().map(|s| s.get().to_owned()).collect::<Vec<_>>());
    let again = Inbox::parse(&rendered).unwrap();
    assert!(again.slices.len() == old.slices.len());
    for (i, entry) in old.entries() {
        let marked = inbox::marked_read(old.slices[i]);
        let file = inbox::render(std::slice::from_ref(&marked));
        let marked_file = Inbox::parse(&file).unwrap();
        let (_, read) = marked_file.entries().next().unwrap();
        assert_eq!(read.identity(), entry.identity());
        assert_eq!(read, Entry { read: true, ..entry }, "only the mark differs");
        assert_eq!(inbox::marked_read(marked_file.slices[0]), marked, "marking twice is marking once");
    }
    format!("{} of {}", old.entries().count().min(5), old.slices.len().min(5))
}

/// Every field of `old` is in `new` as it was, unless `may_change` names it. A field without a value counts as none.
fn assert_kept(old: &Value, new: &Value, may_change: &[&str]) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return };
    for (key, value) in
        old.iter().filter(|(key, value)| !value.is_null() && !may_change.contains(&key.as_str()))
    {
        assert_eq!(new.get(key), Some(value), "{key}");
    }
}

fn written(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).unwrap()
}

/// A team's `config.json`.
pub fn team(bytes: &[u8]) -> String {
    let Ok(team) = serde_json::from_slice::<Team>(bytes) else { return "no team".to_owned() };
    let text = written(&team);
    let again: Team = serde_json::from_slice(&text).unwrap();
    assert_eq!(again, team);
    assert_eq!(written(&again), text);
    let (old, new): (Value, Value) =
        (serde_json::from_slice(bytes).unwrap(), serde_json::from_slice(&text).unwrap());
    assert_kept(&old, &new, &["members", "teamName"]);
    if let (Some(Value::Array(old)), Some(Value::Array(new))) = (old.get("members"), new.get("members")) {
        assert_eq!(old.len(), new.len());
        old.iter().zip(new).for_each(|(old, new)| assert_kept(old, new, &[]));
    }
    for (name, row) in team.teammates() {
        assert!(team.member(name.as_str()).is_some() && row.name == name.as_str());
    }
    format!(
        "{} of {} {}",
        team.teammates().count().min(3),
        team.members.len().min(3),
        team.leader_name().len() > 9
    )
}

/// A task's file.
pub fn task(bytes: &[u8]) -> String {
    let Ok(task) = serde_json::from_slice::<Task>(bytes) else { return "no task".to_owned() };
    let text = written(&task);
    let again: Task = serde_json::from_slice(&text).unwrap();
    assert_eq!(again, task);
    assert_eq!(written(&again), text);
    let (old, new): (Value, Value) =
        (serde_json::from_slice(bytes).unwrap(), serde_json::from_slice(&text).unwrap());
    assert_kept(&old, &new, &[]);
    let mut changed = task.clone();
    changed.set_key("k");
    changed.complete(Some("why"));
    assert_eq!((changed.failure(), changed.key()), (Some("why"), Some("k")));
    changed.free();
    assert!(changed.owner_name().is_none());
    let changed = serde_json::to_value(&changed).unwrap();
    assert_kept(&old, &changed, &["status", "owner", "metadata"]);
    if let (Some(old), Some(new)) = (old.get("metadata"), changed.get("metadata")) {
        assert_kept(old, new, &["throng"]);
    }
    format!("{:?} {} {}", task.status, task.owner_name().is_some(), task.number() > 0)
}

/// A message's text.
pub fn body(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parsed = Body::parse(&text);
    let kind = parsed.kind().unwrap_or("text").to_owned();
    if parsed.kind().is_none() {
        assert_eq!(parsed.to_text(), text);
    }
    let again = Body::parse(&parsed.to_text());
    assert_eq!(again, parsed);
    assert_eq!(again.to_text(), parsed.to_text());
    let _ = (parsed.to_text_answering(&text), parsed.request_id());
    let mut entry = Entry::new(&text, &text, "2030-01-02T03:04:05.678Z", "id");
    entry.color = Some(text.clone().into_owned());
    for summary in [None, Some(text.clone().into_owned())] {
        entry.summary = summary;
        let line = body::line(&entry);
        assert!(!line.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{line:?}");
        assert!(line.lines().skip(1).all(|line| line.starts_with("  ")), "{line:?}");
        let short = body::one_line(&entry, 40);
        assert!(short.chars().count() <= 40 && !short.contains('\n'), "{short:?}");
        let quoted = body::quoted(&entry, body::Standing::Unverified);
        assert_eq!((quoted.matches('<').count(), quoted.matches('>').count()), (2, 2), "{quoted}");
    }
    if matches!(parsed, Body::Unknown { .. }) { "unknown".to_owned() } else { kind }
}

/// A `team.toml`, written to `scratch`.
pub fn plan(bytes: &[u8], scratch: &Path) -> String {
    std::fs::write(scratch, bytes).unwrap();
    let Ok(drivers) = Drivers::built_in() else { panic!("the built-in table of drivers is damaged") };
    let (once, twice) = (Plan::read(scratch, &drivers), Plan::read(scratch, &drivers));
    assert_eq!(format!("{once:?}"), format!("{twice:?}"));
    match once {
        Ok(plan) => {
            assert!(plan.members.len() <= plan.limits.agents);
            format!("{} {}", plan.members.len().min(4), plan.tasks.len().min(4))
        }
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains(&scratch.display().to_string()), "it names the file: {text}");
            // Without what is quoted from the file, and without its line.
            let kind = text.split(['\'', '`', '"']).next().unwrap_or_default();
            kind.rsplit(':')
                .next()
                .unwrap_or_default()
                .chars()
                .filter(|c| !c.is_ascii_digit())
                .take(40)
                .collect()
        }
    }
}

/// A command line. `refused` says whether `bash -n` refuses a text; it is asked only where the answer matters.
pub fn shell_line(bytes: &[u8], refused: impl Fn(&str) -> bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    let script = shell::parse(&text);
    assert_eq!(shell::parse(&text), script);
    if script.unsure.is_none() {
        assert!(!refused(&text), "bash -n refuses it, and it counts as certain: {text:?}");
    }
    for command in &script.commands {
        let words: Option<Vec<&str>> =
            command.words.iter().map(|word| word.is_literal().then_some(word.text.as_str())).collect();
        let Some(words) = words.filter(|words| !words.is_empty()) else { continue };
        // Quoted by somebody else, the same words come out.
        let Ok(quoted) = shlex::try_join(words.iter().copied()) else { continue };
        // In the first place some words are none: `if`, `A=b`.
        let quoted = format!("x {quoted}");
        let again = shell::parse(&quoted);
        let [only] = again.commands.as_slice() else { panic!("one command: {quoted}") };
        let read: Vec<&str> = only.words.iter().map(|word| word.text.as_str()).collect();
        assert!(
            read[1..] == words && only.assignments.is_empty() && only.redirects.is_empty(),
            "{quoted}: {read:?}"
        );
        // Split by somebody else, the same words come out, where nothing but quotes and blanks has a meaning.
        let raw = command.raw();
        if !raw.contains(['$', '\n', '`', '{', '~']) {
            assert_eq!(
                shlex::split(&raw),
                Some(words.iter().map(|word| (*word).to_owned()).collect()),
                "{raw}"
            );
        }
    }
    let kinds = script
        .commands
        .iter()
        .map(|c| (c.words.len().min(3), c.assignments.len().min(1), c.redirects.len().min(2)));
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    let why: String =
        script.unsure.unwrap_or_default().split('\'').next().unwrap_or_default().chars().take(30).collect();
    format!("{kinds:?} {} {why}", script.functions.len().min(1))
}
