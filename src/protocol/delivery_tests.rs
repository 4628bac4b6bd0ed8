//! States of messages, idle members and state changes, from entries and journal lines alone.

use super::*;

const OURS: Recipient = Recipient { removes: false, has_ended: false };
const CLAUDE: Recipient = Recipient { removes: true, has_ended: false };
const ENDED: Recipient = Recipient { removes: false, has_ended: true };

fn at(second: u32) -> String {
    format!("2026-11-30T16:00:{second:02}.000Z")
}

fn entry(from: &str, text: &str, second: u32) -> Entry {
    Entry::new(from, text, &at(second), &format!("{from}{second}"))
}

fn reply(from: &str, to: &str, second: u32) -> Entry {
    let mut entry = entry(from, "an answer", second);
    entry.extra.insert(IN_REPLY_TO.to_owned(), to.into());
    entry
}

fn idle_notice(from: &str, second: u32, more: &str) -> Entry {
    let text = format!(
        r#"{{"type":"idle_notification","from":"{from}","timestamp":"{}","idleReason":"available"{more}}}"#,
        at(second)
    );
    entry(from, &text, second)
}

fn read(mut entry: Entry) -> Entry {
    entry.read = true;
    entry
}

fn inbox(owner: &str, entries: &[Entry]) -> (AgentName, Vec<Entry>) {
    (AgentName::new(owner).unwrap(), entries.to_vec())
}

fn queued(owner: &str, entry: &Entry) -> Line {
    Line::Queued(Sent::of(entry, &AgentName::new(owner).unwrap()))
}

fn delivered(by: &str, id: &str) -> Line {
    Line::Delivered { id: id.to_owned(), by: by.to_owned(), time: at(59) }
}

fn states(records: &[Record]) -> Vec<(&str, State)> {
    records.iter().map(|r| (r.sent.id.as_str(), r.state)).collect()
}

#[test]
fn files_alone_tell_queued_delivered_answered_and_dead() {
    let inboxes = [
        inbox("bob", &[entry("lead", "a", 1), read(entry("lead", "b", 2)), read(entry("lead", "c", 3))]),
        inbox("lead", &[reply("bob", "lead3", 4)]),
        inbox("carol", &[entry("lead", "d", 5), read(entry("lead", "e", 6))]),
    ];
    let records = records(&[], &inboxes, |name| if name == "carol" { ENDED } else { OURS });
    let expected = [
        ("lead1", State::Queued),
        ("lead2", State::Delivered),
        ("lead3", State::Answered),
        ("bob4", State::Queued),
        ("lead5", State::Dead),
        ("lead6", State::Delivered),
    ];
    assert_eq!(states(&records), expected);
    assert_eq!(records[2].answer.as_deref(), Some("bob4"));
    assert_eq!(records[0].since, Some(at(1)));
}

#[test]
fn the_journal_remembers_what_has_left_the_file() {
    let [a, b, c, d] = [1, 2, 3, 4].map(|s| entry("lead", "text", s));
    let journal = [
        queued("bob", &a),
        queued("bob", &b),
        queued("bob", &c),
        queued("claude", &d),
        delivered("bob", "lead1"),
        Line::Withdrawn { id: "lead3".into(), by: "bob".into(), time: at(9) },
    ];
    let recipient = |name: &str| if name == "claude" { CLAUDE } else { OURS };
    let gone = records(&journal, &[], recipient);
    assert_eq!(
        states(&gone),
        [("lead1", State::Delivered), ("lead2", State::Missing), ("lead4", State::Delivered)]
    );
    assert_eq!(gone[0].since, Some(at(59)));
    // The file goes before the journal.
    let waits = records(&journal[1..2], &[inbox("bob", &[b])], recipient);
    assert_eq!(states(&waits), [("lead2", State::Queued)]);
}

#[test]
fn an_answer_counts_from_its_recipient_alone() {
    let asked = inbox("bob", &[read(entry("lead", "?", 1))]);
    let from_another = [asked.clone(), inbox("lead", &[reply("carol", "lead1", 2)])];
    assert_eq!(records(&[], &from_another, |_| OURS)[0].state, State::Delivered);
    let journaled = [queued("lead", &reply("bob", "lead1", 2)), delivered("lead", "bob2")];
    assert_eq!(records(&journaled, &[asked], |_| OURS)[0].state, State::Answered);
}

fn idle_now(to_bob: &[Entry], to_lead: &[Entry]) -> Option<Idle> {
    let inboxes = [inbox("bob", to_bob), inbox("lead", to_lead)];
    idle("bob", "lead", &records(&[], &inboxes, |_| OURS))
}

#[test]
fn probe_e04_an_idle_member_owes_what_it_did_not_answer() {
    let asked = || read(entry("lead", "what is 6 x 7?", 1));
    let idle = |to_lead: &[Entry]| idle_now(&[asked()], to_lead).unwrap();
    assert_eq!(
        idle(&[idle_notice("bob", 2, "")]),
        Idle { since: at(2), owes: vec!["lead1".into()], failure: None }
    );
    assert_eq!(idle(&[entry("bob", "42", 2), idle_notice("bob", 3, "")]).owes, [""; 0], "plain words answer");
    assert_eq!(idle(&[reply("bob", "lead1", 2), idle_notice("bob", 3, "")]).owes, [""; 0]);
    assert_eq!(idle(&[reply("bob", "another", 2), idle_notice("bob", 3, "")]).owes, ["lead1"]);
    assert_eq!(idle(&[idle_notice("bob", 2, r#","result":"42""#)]).owes, [""; 0], "the notice brings it");
    assert_eq!(idle(&[idle_notice("bob", 2, r#","result":" ""#)]).owes, ["lead1"]);
    assert_eq!(idle(&[idle_notice("carol", 2, ""), idle_notice("bob", 3, "")]).owes, ["lead1"]);
    let early = [entry("bob", "hello", 0), idle_notice("bob", 2, "")];
    assert_eq!(idle(&early).owes, ["lead1"], "what was said before is no answer");
    assert_eq!(idle_now(&[asked()], &[]), None);
}

#[test]
fn probe_e04_an_idle_stamped_before_a_later_message_is_over() {
    let notice = [idle_notice("bob", 5, "")];
    assert_eq!(idle_now(&[entry("lead", "go on", 6)], &notice), None);
    let assignment = entry("lead", r#"{"type":"task_assignment","taskId":"1"}"#, 6);
    assert_eq!(idle_now(&[assignment], &notice), None);
    let early = entry("lead", r#"{"type":"task_assignment","taskId":"1"}"#, 4);
    let idle = idle_now(std::slice::from_ref(&early), &notice).unwrap();
    assert_eq!(idle.owes, [""; 0], "an assignment is answered by its task");
    // Notices that come late do not count twice, nor do they make it idle again.
    assert_eq!(
        idle_now(&[entry("lead", "go on", 6)], &[idle_notice("bob", 5, ""), idle_notice("bob", 4, "")]),
        None
    );
    assert!(
        idle_now(&[entry("lead", "go on", 6)], &[idle_notice("bob", 7, ""), notice[0].clone()]).is_some()
    );
}

#[test]
fn probe_e01_ten_idle_notices_in_a_row_are_one_state_change() {
    let news = |entries: &[Entry]| {
        let mut changes = StateChanges::default();
        entries.iter().map(|e| changes.is_news(e)).collect::<Vec<bool>>()
    };
    let ten: Vec<Entry> = (0..10).map(|s| idle_notice("bob", s, "")).collect();
    assert_eq!(news(&ten).iter().filter(|is_news| **is_news).count(), 1);
    let mixed = [
        idle_notice("bob", 1, ""),
        idle_notice("carol", 2, ""),
        idle_notice("bob", 3, ""),
        idle_notice("carol", 4, r#","result":"done""#),
        entry("bob", "hello", 5),
        idle_notice("bob", 6, ""),
        idle_notice("bob", 7, r#","failureReason":"x""#),
    ];
    assert_eq!(news(&mixed), [true, true, false, true, true, true, true]);
}
