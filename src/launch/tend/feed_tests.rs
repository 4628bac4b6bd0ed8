//! Steps through the feeding of a program.

use super::*;

const MARK_AT: &str = "[mail";

/// A program as it is seen, step by step.
struct Scene {
    feed: Feed,
    now: Instant,
    is_bracketed: bool,
}

impl Scene {
    fn new(keys: &str) -> Scene {
        let entry: DriverEntry =
            toml::from_str(&format!("program = \"p\"\nsettle_ms = 1000\n{keys}")).unwrap();
        let me = AgentName::new("bob").unwrap();
        let feed = Feed::new(&me, "WHO".to_owned(), (&entry, PathBuf::from("/letters")));
        Scene { feed, now: Instant::now(), is_bracketed: true }
    }

    /// One look, `ms` after the last: what it does, and its screen, on whose last row the cursor stands.
    fn look(&mut self, ms: u64, doing: Doing, screen: &str) -> Vec<Act> {
        self.now += Duration::from_millis(ms);
        let lowest: Vec<&str> = screen.lines().collect();
        self.feed.step(&View {
            now: self.now,
            doing: Some(doing),
            screen,
            lowest: &lowest,
            cursor: lowest.len().saturating_sub(1),
            idle_row: None,
            shows_paste: screen.contains("[Pasted"),
            is_bracketed: self.is_bracketed,
        })
    }

    /// Looks until it pastes, and answers the keys.
    fn until_pasted(&mut self) -> String {
        self.look(0, Doing::Idle, ">");
        let acts = self.look(1000, Doing::Idle, ">");
        self.pasted_after(&acts)
    }

    /// The input was emptied; then it pastes.
    fn pasted_after(&mut self, acts: &[Act]) -> String {
        let cleared = keys(acts);
        assert!(is_clear(&cleared) && cleared.len() >= CLEARS_MIN, "{cleared:?}");
        assert_eq!(self.look(199, Doing::Idle, ">"), []);
        keys(&self.look(1, Doing::Idle, ">"))
    }
}

fn mail(texts: &[&str]) -> Vec<Entry> {
    texts
        .iter()
        .map(|text| Entry::new(crate::protocol::names::LEAD, text, "t", &format!("id-{text}")))
        .collect()
}

fn keys(acts: &[Act]) -> String {
    match acts {
        [Act::Keys(bytes)] => String::from_utf8(bytes.clone()).unwrap(),
        acts => panic!("no keys but {acts:?}"),
    }
}

/// Keys that only empty the input.
fn is_clear(keys: &str) -> bool {
    keys.chars().all(|c| c == '\u{15}')
}

/// The mark that a paste ends with.
fn mark(pasted: &str) -> String {
    let at = pasted.rfind(MARK_AT).unwrap();
    pasted[at..].trim_end_matches("\x1b[201~").to_owned()
}

#[test]
fn a_message_is_pasted_seen_sent_taken_and_its_end_told_in_this_order() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one", "two"]));
    assert_eq!(scene.look(0, Doing::Working, "w"), [], "never into a turn");
    assert_eq!(scene.look(500, Doing::Idle, ">"), []);
    assert_eq!(scene.look(999, Doing::Idle, ">"), [], "it might only look idle");
    assert_eq!(
        scene.look(1, Doing::Idle, ">"),
        [Act::TurnEnded(">".to_owned())],
        "that turn was none of ours"
    );
    let acts = scene.look(150, Doing::Idle, ">");
    let pasted = scene.pasted_after(&acts);
    assert!(pasted.starts_with("\x1b[200~WHO\r\r<teammate-message"), "{pasted:?}");
    let shown = format!("> one {}", mark(&pasted));
    assert_eq!(scene.look(100, Doing::Idle, ">"), [], "not seen yet");
    assert_eq!(scene.look(100, Doing::Idle, &shown), []);
    assert_eq!(keys(&scene.look(250, Doing::Idle, &shown)), "\r");
    assert_eq!(scene.look(100, Doing::Idle, &shown), [], "still in its input");
    assert_eq!(scene.look(100, Doing::Working, &shown), [Act::Taken("id-one".to_owned())]);
    // What the watcher still finds unread is not given again.
    scene.feed.has_mail(mail(&["one", "two"]));
    assert_eq!(scene.look(100, Doing::Idle, "said\n>"), []);
    let screen = format!("{shown}\nthe answer\n>");
    assert_eq!(scene.look(1000, Doing::Idle, &screen), [Act::TurnEnded("the answer\n>".to_owned())]);
    let acts = scene.look(150, Doing::Idle, ">");
    let second = scene.pasted_after(&acts);
    assert!(second.starts_with("\x1b[200~<teammate-message"), "told once who it is: {second:?}");
    assert_ne!(mark(&second), mark(&pasted));
}

#[test]
fn a_lost_paste_comes_again_a_few_times_and_then_the_state_says_why() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    let first = scene.until_pasted();
    let mut pastes = vec![first.clone()];
    while scene.feed.trouble().is_none() {
        let acts = scene.look(500, Doing::Idle, ">");
        if !acts.is_empty() {
            pastes.push(keys(&acts));
        }
        assert!(pastes.len() < 20);
    }
    assert!(is_clear(pastes.last().unwrap()), "nothing is left in its input");
    pastes.retain(|keys| !is_clear(keys));
    assert_eq!(pastes, vec![first; 3]);
    assert!(scene.feed.trouble().unwrap().contains("does not show"), "{:?}", scene.feed.trouble());
    assert_eq!(scene.feed.due(scene.now), None);
    // A person has done something about it.
    scene.feed.person_typed(scene.now);
    assert_eq!(scene.look(4000, Doing::Idle, ">"), [], "who may go on");
    let acts = scene.look(1000, Doing::Idle, ">");
    assert!(scene.pasted_after(&acts).contains("one"));
}

#[test]
fn keys_that_send_nothing_come_again_and_then_the_message_stays_unread() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    let shown = format!("> {}", mark(&scene.until_pasted()));
    scene.look(100, Doing::Idle, &shown);
    let mut sent = 0;
    while scene.feed.trouble().is_none() {
        let acts = scene.look(500, Doing::Idle, &shown);
        assert!(!acts.contains(&Act::Taken("id-one".to_owned())));
        sent += usize::from(acts == [Act::Keys(b"\r".to_vec())]);
        assert!(sent < 20);
    }
    assert_eq!(sent, 4);
    // Its next process gets it.
    scene.feed.begin_anew();
    assert!(scene.until_pasted().contains("WHO"));
}

#[test]
fn a_line_wise_program_has_taken_it_when_the_cursor_has_gone_on() {
    let mut scene = Scene::new("");
    scene.is_bracketed = false;
    scene.feed.has_mail(mail(&["a\nb"]));
    let typed = scene.until_pasted();
    assert!(
        typed.starts_with("WHO  <teammate-message") && !typed.contains(['\n', '\r', '\x1b']),
        "{typed:?}"
    );
    let shown = format!("> {}", mark(&typed));
    scene.look(100, Doing::Idle, &shown);
    assert_eq!(keys(&scene.look(250, Doing::Idle, &shown)), "\r");
    assert_eq!(scene.look(100, Doing::Idle, &format!("{shown}\n")), [], "an empty row is no row yet");
    assert_eq!(scene.look(100, Doing::Idle, &format!("{shown}\n>")), [], "one look may be wrong");
    assert_eq!(scene.look(150, Doing::Idle, &format!("{shown}\n>")), [Act::Taken("id-a\nb".to_owned())]);
}

#[test]
fn what_is_shown_instead_of_a_long_paste_counts_and_so_does_its_going() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    scene.until_pasted();
    scene.look(100, Doing::Idle, "> [Pasted text]");
    assert_eq!(keys(&scene.look(250, Doing::Idle, "> [Pasted text]")), "\r");
    assert_eq!(scene.look(100, Doing::Idle, "> [Pasted text]"), []);
    assert_eq!(scene.look(100, Doing::Idle, ">"), []);
    assert_eq!(scene.look(150, Doing::Idle, ">"), [Act::Taken("id-one".to_owned())]);
}

#[test]
fn no_key_is_pressed_while_something_asks() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    let pasted = scene.until_pasted();
    let shown = format!("> {}", mark(&pasted));
    scene.look(100, Doing::Idle, &shown);
    for _ in 0..100 {
        assert_eq!(scene.look(250, Doing::NeedsHuman, &shown), [], "neither sent nor emptied");
    }
    assert_eq!(keys(&scene.look(250, Doing::Idle, &shown)), "\r");
    for _ in 0..100 {
        assert_eq!(scene.look(250, Doing::NeedsHuman, &shown), [], "not sent again");
        assert_eq!(scene.look(250, Doing::NeedsHuman, "May I?"), [], "covered is not taken");
    }
    assert_eq!(scene.feed.trouble(), None);
    // It stands there still: the dialog had the key.
    scene.look(250, Doing::Idle, &shown);
    assert_eq!(keys(&scene.look(2000, Doing::Idle, &shown)), "\r");
    assert_eq!(scene.look(100, Doing::Working, &shown), [Act::Taken("id-one".to_owned())]);
}

#[test]
fn one_look_without_the_mark_proves_nothing() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    let shown = format!("> {}", mark(&scene.until_pasted()));
    scene.look(100, Doing::Idle, &shown);
    assert_eq!(keys(&scene.look(250, Doing::Idle, &shown)), "\r");
    for _ in 0..3 {
        assert_eq!(scene.look(150, Doing::Idle, ">"), [], "it is being painted");
        assert_eq!(scene.look(150, Doing::Idle, &shown), []);
    }
    assert_eq!(scene.look(150, Doing::Idle, ">"), []);
    assert_eq!(scene.look(150, Doing::Idle, ">"), [Act::Taken("id-one".to_owned())]);
}

#[test]
fn what_was_sent_is_what_is_marked_whatever_the_inbox_has_become() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one", "two"]));
    let shown = format!("> {}", mark(&scene.until_pasted()));
    scene.look(100, Doing::Idle, &shown);
    assert_eq!(keys(&scene.look(250, Doing::Idle, &shown)), "\r");
    // Somebody takes the first by another way.
    scene.feed.has_mail(mail(&["two"]));
    assert_eq!(scene.look(100, Doing::Working, &shown), [Act::Taken("id-one".to_owned())]);
    // Before it is sent, it is withdrawn.
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one", "two"]));
    let shown = format!("> {}", mark(&scene.until_pasted()));
    scene.feed.has_mail(mail(&["two"]));
    assert!(is_clear(&keys(&scene.look(300, Doing::Idle, &shown))));
    let acts = scene.look(150, Doing::Idle, ">");
    assert!(scene.pasted_after(&acts).contains("two"));
}

#[test]
fn a_person_who_types_into_what_was_sent_makes_it_come_again() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    let pasted = scene.until_pasted();
    let shown = format!("> {}", mark(&pasted));
    scene.look(100, Doing::Idle, &shown);
    assert_eq!(keys(&scene.look(250, Doing::Idle, &shown)), "\r");
    // The key was lost; a person empties the input and begins a turn of his own.
    scene.feed.person_typed(scene.now + Duration::from_millis(1));
    assert_eq!(scene.look(100, Doing::Idle, "> my"), []);
    assert_eq!(scene.look(300, Doing::Idle, "> my own"), []);
    assert_eq!(scene.look(100, Doing::Working, "my own\n>"), [], "that is not its work");
    assert_eq!(scene.look(3000, Doing::Working, "my own\n>"), []);
    scene.look(100, Doing::Idle, ">");
    let acts = scene.look(2000, Doing::Idle, ">");
    assert_eq!(scene.pasted_after(&acts), pasted);
}

#[test]
fn a_message_whose_file_cannot_be_written_stays_and_is_tried_again() {
    let mut scene = Scene::new("text_bytes_max = 200");
    scene.feed.has_mail(mail(&[&"x".repeat(1000)]));
    scene.look(0, Doing::Idle, ">");
    for _ in 0..2 {
        let acts = scene.look(1000, Doing::Idle, ">");
        assert!(matches!(acts.as_slice(), [Act::Put(..), Act::Keys(_)]), "{acts:?}");
        scene.feed.could_not_put("the disk is full", scene.now);
        assert_eq!(scene.feed.trouble(), Some("its mail stays unread: the disk is full"));
        assert_eq!(scene.feed.due(scene.now), Some(scene.now + PUT_AGAIN));
        assert_eq!(scene.look(9000, Doing::Idle, ">"), []);
    }
    let acts = scene.look(1000, Doing::Idle, ">");
    scene.feed.has_put();
    assert_eq!(scene.feed.trouble(), None);
    assert!(scene.pasted_after(&acts[1..]).contains("is in the file"));
}

#[test]
fn nothing_is_typed_while_a_person_types_and_a_mixed_input_is_begun_anew() {
    let mut scene = Scene::new("");
    scene.feed.has_mail(mail(&["one"]));
    scene.feed.person_typed(scene.now);
    assert_eq!(scene.look(0, Doing::Idle, ">"), []);
    assert_eq!(scene.look(4999, Doing::Idle, "> dra"), []);
    let acts = scene.look(1, Doing::Idle, "> draft");
    let pasted = scene.pasted_after(&acts);
    let shown = format!("> x{}", mark(&pasted));
    scene.feed.person_typed(scene.now + Duration::from_millis(1));
    assert_eq!(scene.look(300, Doing::Idle, &shown), []);
    assert_eq!(scene.look(300, Doing::Idle, &shown), [], "seen, but not sent");
    let acts = scene.look(5000, Doing::Idle, &shown);
    assert_eq!(scene.pasted_after(&acts), pasted);
}

#[test]
fn a_long_message_is_put_into_a_file_of_which_one_line_tells() {
    let mut scene = Scene::new("text_bytes_max = 2000");
    let long = "x".repeat(200_000);
    scene.feed.has_mail(mail(&[&long]));
    scene.look(0, Doing::Idle, ">");
    let acts = scene.look(1000, Doing::Idle, ">");
    let [Act::Put(path, text), cleared] = acts.as_slice() else { panic!("{acts:?}") };
    let typed = scene.pasted_after(std::slice::from_ref(cleared));
    assert!(text.ends_with(&long) && text.contains("a message from team-lead") && text.starts_with("WHO"));
    assert!(typed.len() < 300 && typed.contains(&*path.to_string_lossy()), "{typed}");
}

#[test]
fn the_leader_alone_ends_it_by_a_request() {
    let mut scene = Scene::new("");
    let request = r#"{"type":"shutdown_request","requestId":"shutdown-1@bob","from":"team-lead"}"#;
    let from = |name: &str| vec![Entry { from: name.to_owned(), ..mail(&[request]).remove(0) }];
    scene.feed.has_mail(from("carl"));
    assert!(scene.until_pasted().contains("asks you to shut down"), "to others it is a sentence");
    let mut scene = Scene::new("");
    scene.feed.has_mail(from("team-lead"));
    scene.look(0, Doing::Idle, ">");
    let acts = scene.look(1000, Doing::Idle, ">");
    assert!(matches!(acts.as_slice(), [Act::Taken(_), Act::ShutDown(text)] if text == request), "{acts:?}");
}
