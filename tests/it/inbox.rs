//! Inboxes: what is sent arrives once and whole, whatever the file was like before.

use crate::support::World;
use serde_json::json;

#[test]
fn case_c001_two_processes_send_the_first_message_at_once() {
    for _ in 0..5 {
        let world = World::new();
        let team = world.plant_team("demo", &["bob"]);
        assert!(!team.dir().join("inboxes").exists());
        let calls: Vec<_> =
            ["one", "two"].map(|text| world.throng(["send", "--team", "demo", "bob", text]).start()).into();
        for call in calls {
            call.wait().ok();
        }
        let mut texts = team.texts("bob");
        texts.sort();
        assert_eq!(texts, ["one", "two"]);
        world.assert_nothing_left();
    }
}

#[test]
fn case_c014_fields_of_strangers_survive() {
    let world = World::new();
    let team = world.plant_team("demo", &["bob"]);
    let stranger = r#"{"from":"lead","text":"a","timestamp":"2030-01-02T03:04:05.678Z","x_tool":{"n":1,"big":12345678901234567890123}}"#;
    team.plant_inbox("bob", format!("[ {stranger} ]"));
    world.throng(["send", "--team", "demo", "bob", "b"]).run().ok();
    let text = std::fs::read_to_string(team.inbox_path("bob")).unwrap();
    assert!(text.contains(stranger), "an entry that is not touched stays byte for byte: {text}");
    world.throng(["inbox", "take", "--team", "demo"]).by("bob").run().ok().prints("a\n");
    let marked = &team.inbox("bob")[0];
    assert_eq!((&marked["read"], &marked["x_tool"]["n"]), (&json!(true), &json!(1)));
    let text = std::fs::read_to_string(team.inbox_path("bob")).unwrap();
    assert!(text.contains("12345678901234567890123"), "{text}");
}
