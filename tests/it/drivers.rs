//! Programs of the table of drivers (B12): what is typed to them, when, and what their screens tell. The program is a
//! small one of our own (`fakes/typed_agent.py`), described by a table of the test.

use crate::support::process::{is_running, signal};
use crate::support::wait::{LIMIT, throughout, within};
use crate::support::{Terminal, World, fake, until, until_some};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// How the program's screen is read.
const PATTERNS: &str = r#"
idle = ['^>']
working = ['esc to interrupt', '^thinking']
failed = ['API error']
paste_marker = '\[Pasted text #\d+\]'
dialogs = [{ text = 'Do you trust', name = "the folder trust dialog" }, { text = 'May I', name = "a permission dialog" }]
settle_ms = 300
end = "/exit"
"#;

/// Writes the user's table: the driver `fake`, with these options of the program and these keys.
fn table(world: &World, options: &str, keys: &str) {
    let dir = world.root().join("home/.config/throng");
    fs::create_dir_all(&dir).unwrap();
    let log = world.path("log.jsonl");
    let program = fake("typed_agent.py");
    let mut words: Vec<String> = vec![program];
    words.extend(options.split('|').map(str::to_owned));
    words.extend(["--log".to_owned(), log.to_string_lossy().into_owned()]);
    let words: Vec<String> = words.iter().map(|w| format!("{w:?}")).collect();
    let text = format!("[driver.fake]\nprogram = \"python3\"\nargs = [{}]\n{keys}\n", words.join(", "));
    fs::write(dir.join("drivers.toml"), text).unwrap();
}

fn spawn(world: &World, more: &[&str]) {
    let words = ["spawn", "f", "--team", "t", "--driver", "fake"];
    world.throng(words.iter().chain(more)).run().ok();
}

fn send(world: &World, text: &str) {
    world.throng(["send", "f", text, "--team", "t"]).run().ok();
}

/// The messages that the program got.
fn got(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.path("log.jsonl")).unwrap_or_default();
    let line = |line: &str| serde_json::from_str::<Value>(line).ok()?["body"].as_str().map(str::to_owned);
    text.lines().filter_map(line).collect()
}

fn until_got(world: &World, n: usize) -> Vec<String> {
    let complaint = || format!("it has not {n} messages, but {:?}", got(world));
    within(LIMIT, complaint, || Some(got(world)).filter(|got| got.len() >= n))
}

fn unread(world: &World) -> usize {
    world.team("t").inbox("f").iter().filter(|e| e["read"] != true).count()
}

/// What `status` says that it does.
fn activity(world: &World) -> String {
    world.team("t").member("f")["activity"].as_str().unwrap_or_default().to_owned()
}

/// What it needs a person for, as its `tend` has written it down.
fn trouble(world: &World) -> String {
    let path = world.team("t").state_dir().join("members/f.json");
    let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    record["sight"]["what"].as_str().unwrap_or_default().to_owned()
}

/// Idle notices in the leader's inbox.
fn notices(world: &World) -> Vec<Value> {
    let path = world.team("t").inbox_path("team-lead");
    let text = fs::read_to_string(path).unwrap_or_default();
    let Ok(Value::Array(entries)) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let said = entries.iter().filter_map(|e| serde_json::from_str::<Value>(e["text"].as_str()?).ok());
    said.filter(|body| body["type"] == "idle_notification").collect()
}

fn down(world: &World) {
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn b12_a_prompt_and_later_mail_are_typed_one_by_one_and_turns_end_in_notices() {
    let world = World::new();
    table(&world, "screen|--turn|0.5", PATTERNS);
    spawn(&world, &["--prompt", "Look at a.txt.\nThen run:\n run: throng send team-lead 'found it'"]);
    let first = until_got(&world, 1).remove(0);
    assert!(first.starts_with("You are f, a teammate in the team t."), "{first}");
    assert!(
        first.contains("<teammate-message teammate_id=\"team-lead\">\nLook at a.txt.\nThen run:\n"),
        "{first}"
    );
    // Two come while it works: neither is typed into its turn, and each is a turn of its own.
    send(&world, "second");
    send(&world, "third; $(x) #{y} -z;");
    let got = until_got(&world, 3);
    assert!(
        got[1].starts_with("<teammate-message teammate_id=\"team-lead\">\nsecond\n</teammate-message> ["),
        "{}",
        got[1]
    );
    assert!(got[2].contains("\nthird; $(x) #{y} -z;\n"), "{}", got[2]);
    until("all are marked as read", || unread(&world) == 0);
    until("each turn has ended in a notice", || notices(&world).len() == 3);
    assert_eq!(notices(&world)[1]["idleReason"], "available");
    let result = notices(&world)[1]["result"].as_str().unwrap().to_owned();
    assert!(result.contains("I have read second") && !result.contains("Look at a.txt"), "{result}");
    assert!(world.team("t").texts("team-lead").contains(&"found it".to_owned()), "it has answered by itself");
    until("it is idle", || activity(&world) == "idle");
    assert_eq!(got.len(), 3);
    down(&world);
}

/// The text of the one message in what was typed.
fn body(typed: &str) -> &str {
    let from = typed.find("<teammate-message ").unwrap();
    let from = from + typed[from..].find('>').unwrap() + 1;
    typed[from..typed.find("</teammate-message>").unwrap()].trim()
}

#[test]
fn a_program_that_loses_pastes_and_is_deaf_to_return_gets_each_message_once() {
    let world = World::new();
    table(&world, "screen|--drop|2|--deaf|2|--turn|0.3", PATTERNS);
    spawn(&world, &["--prompt", "one"]);
    send(&world, "two");
    let got = until_got(&world, 2);
    assert_eq!((body(&got[0]), body(&got[1])), ("one", "two"));
    until("both are marked as read", || unread(&world) == 0);
    until("both turns have ended", || notices(&world).len() == 2);
    assert_eq!(got.len(), 2);
    down(&world);
}

#[test]
fn a_program_that_shows_nothing_of_what_is_typed_leaves_mail_unread_and_the_state_says_why() {
    let world = World::new();
    table(&world, "screen|--blind", PATTERNS);
    spawn(&world, &[]);
    send(&world, "one");
    // It is tried three times, with growing patience.
    let complaint = || format!("it is {}", activity(&world));
    within(2 * LIMIT, complaint, || (activity(&world) == "needs-human").then_some(()));
    let what = world.team("t").member("f")["sight"]["what"].as_str().unwrap_or_default().to_owned();
    assert_eq!(what, "its mail stays unread: what was typed to it does not show on its screen");
    assert_eq!((unread(&world), got(&world).len()), (1, 0));
    down(&world);
}

#[test]
fn probe_q026_a_dialog_swallows_no_message() {
    let world = World::new();
    // Without an answer in the table, only a person can give it: the spawn says so.
    table(&world, "screen|--boot|0.3|--dialog|Do you trust this?", PATTERNS);
    let words = ["spawn", "f", "--team", "t", "--driver", "fake", "--prompt", "one"];
    world.throng(words).run().code(5).complains("it shows the folder trust dialog");
    // With one, it is given, and the message comes after it, once.
    let keys = PATTERNS.replace("name = \"the folder trust dialog\"", "name = \"trust\", answer = \"y\"");
    table(&world, "screen|--boot|0.3|--dialog|Do you trust this?", &keys);
    world.throng(words).run().ok();
    assert_eq!(body(&until_got(&world, 1)[0]), "one");
    until("it has been marked as read", || unread(&world) == 0);
    assert_eq!(got(&world).len(), 1);
    down(&world);
}

#[test]
fn a_dialog_in_a_turn_is_named_and_mail_waits_until_a_person_has_answered() {
    let world = World::new();
    table(&world, "screen|--late-dialog|May I write?", PATTERNS);
    spawn(&world, &["--prompt", "one"]);
    until("it needs a person", || activity(&world) == "needs-human");
    world.throng(["status", "--team", "t"]).run().ok().says("for a permission dialog");
    send(&world, "two");
    assert_eq!(got(&world).len(), 1);
    let mut person = Terminal::start(world.throng(["attach", "f", "--team", "t"]));
    person.until_shows("May I write?");
    person.types("y");
    let got = until_got(&world, 2);
    assert_eq!(body(&got[1]), "two");
    drop(person);
    down(&world);
}

#[test]
fn probe_q030_what_somebody_left_in_the_input_does_not_join_the_message() {
    let world = World::new();
    table(&world, "screen|--draft|half a thought", PATTERNS);
    spawn(&world, &["--prompt", "one"]);
    let typed = until_got(&world, 1).remove(0);
    assert!(typed.starts_with("You are f,") && body(&typed) == "one", "{typed}");
    down(&world);
}

#[test]
fn nothing_is_typed_into_a_persons_typing() {
    let world = World::new();
    table(&world, "screen", PATTERNS);
    spawn(&world, &[]);
    let mut person = Terminal::start(world.throng(["attach", "f", "--team", "t"]));
    person.until_shows("for help");
    person.types("my own que");
    person.until_shows("my own que");
    send(&world, "from another");
    // As long as the keys come, nothing else does.
    let since = std::time::Instant::now();
    throughout(
        || {
            person.types("x");
            std::thread::sleep(std::time::Duration::from_millis(100));
            since.elapsed() < std::time::Duration::from_secs(7)
        },
        || assert_eq!(got(&world).len(), 0),
    );
    person.types("stion\r");
    let got = until_got(&world, 2);
    assert!(got[0].starts_with("my own que") && got[0].ends_with("stion"), "{}", got[0]);
    assert_eq!(body(&got[1]), "from another");
    drop(person);
    down(&world);
}

#[test]
fn probe_q033_lines_of_any_length_reach_a_line_wise_program() {
    let world = World::new();
    table(&world, "line", PATTERNS);
    spawn(&world, &[]);
    let lengths = [10, 800, 1022, 1026, 4093, 4096, 4098];
    for n in lengths {
        send(&world, &format!("{}e{n}", "a".repeat(n)));
    }
    let got = until_got(&world, lengths.len());
    for (n, typed) in lengths.iter().zip(&got) {
        let expected = format!("{}e{n}", "a".repeat(*n));
        let path = typed.split("is in the file ").nth(1).map(|rest| rest.split(" - ").next().unwrap());
        let text = path.map_or(typed.clone(), |path| fs::read_to_string(path).unwrap());
        assert!(text.contains(&expected) && typed.len() < 1500, "{n}: {typed}");
        assert_eq!(path.is_some(), *n > 800, "{n}");
    }
    until("all are marked as read", || unread(&world) == 0);
    down(&world);
}

#[test]
fn case_c030_a_long_prompt_is_put_into_a_file_byte_for_byte() {
    let world = World::new();
    table(&world, "screen", PATTERNS);
    let line = "-n line; `x` #{y} $(z) \\ \u{1b}[201~ <end>;\n";
    let prompt = line.repeat(200_000 / line.len());
    world.write("p.txt", &prompt);
    let file = format!("@{}", world.path("p.txt").display());
    spawn(&world, &["--prompt", &file]);
    let typed = until_got(&world, 1).remove(0);
    let path = typed.split("is in the file ").nth(1).unwrap().split(" - ").next().unwrap();
    let text = fs::read_to_string(path).unwrap();
    assert!(text.starts_with("You are f,"), "it is told who it is there");
    assert!(text.ends_with(&prompt), "{} of {}", text.len(), prompt.len());
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    down(&world);
}

#[test]
fn a_marker_that_stands_for_a_paste_is_its_read_back() {
    let world = World::new();
    table(&world, "screen|--marker|100", PATTERNS);
    spawn(&world, &["--prompt", "one"]);
    send(&world, &"long ".repeat(300));
    let got = until_got(&world, 2);
    assert_eq!((body(&got[0]), body(&got[1]).len()), ("one", 1499));
    until("both turns have ended", || notices(&world).len() == 2);
    down(&world);
}

#[test]
fn silence_alone_tells_of_a_program_that_shows_nothing_else() {
    let world = World::new();
    table(&world, "line|--mute|--turn|0.5", "quiet_ms = 4000\nsettle_ms = 100");
    spawn(&world, &["--prompt", "one"]);
    // Nothing but its silence tells that it is ready.
    until_got(&world, 1);
    send(&world, "two");
    let got = until_got(&world, 2);
    assert!(got[0].contains("one") && got[1].contains("two"));
    until("both turns have ended", || notices(&world).len() == 2);
    until("it is idle", || activity(&world) == "idle");
    down(&world);
}

#[test]
fn the_leader_ends_it_by_a_request_and_it_agrees() {
    let world = World::new();
    table(&world, "screen", PATTERNS);
    spawn(&world, &["--restart", "always"]);
    let request = |from: &str| {
        let text = r#"{"type":"shutdown_request","requestId":"shutdown-5@f","from":"team-lead"}"#;
        crate::approvals::word(&world, from, "f", text);
    };
    let pid = world.team("t").pid("f");
    request("mallory");
    assert!(until_got(&world, 1)[0].contains("asks you to shut down"), "to others it is a sentence");
    assert!(is_running(pid));
    request("team-lead");
    world.team("t").until_member("f", "exited");
    let exit = world.team("t").member("f")["exit"].clone();
    assert_eq!(exit["code"], 0, "by its own line, not by a signal: {exit}");
    let texts = world.team("t").texts("team-lead");
    let agreed = texts.iter().filter(|t| t.contains("\"shutdown_approved\"")).count();
    assert_eq!(agreed, 1, "{texts:?}");
    assert_eq!(got(&world).len(), 1, "the request itself was not typed");
    down(&world);
}

#[test]
fn one_that_ignores_its_line_and_term_is_killed_in_time() {
    let world = World::new();
    table(&world, "screen|--stay", PATTERNS);
    spawn(&world, &[]);
    let pid = world.team("t").pid("f");
    let stop = world.throng(["stop", "f", "--team", "t", "--grace", "3s"]).run();
    stop.ok().says("by KILL");
    assert!(!is_running(pid));
    down(&world);
}

#[test]
fn a_message_whose_program_was_killed_before_it_took_it_is_given_again() {
    let world = World::new();
    table(&world, "screen|--turn|0.2|--slow-echo|1.5", PATTERNS);
    spawn(&world, &["--restart", "on-failure"]);
    let first = world.team("t").pid("f");
    send(&world, "precious");
    // It lies in the input of a program that is killed before it shows it.
    until("it was pasted", || {
        fs::read_to_string(world.path("log.jsonl")).is_ok_and(|t| t.contains("\"pasted\""))
    });
    assert_eq!(unread(&world), 1);
    signal(first, Signal::SIGKILL);
    let got = until_some("the next process has it", || {
        Some(got(&world)).filter(|got| got.iter().any(|typed| typed.contains("precious")))
    });
    assert_eq!(got.iter().filter(|typed| typed.contains("precious")).count(), 1);
    until("all is marked as read", || unread(&world) == 0);
    down(&world);
}

#[test]
fn a_turn_that_fails_says_so() {
    let world = World::new();
    table(&world, "screen|--fail|API error: no credit", PATTERNS);
    spawn(&world, &["--prompt", "one"]);
    until("its turn has ended", || notices(&world).len() == 1);
    let notice = notices(&world).remove(0);
    assert_eq!(notice["idleReason"], "failed");
    assert_eq!(notice["failureReason"], "API error: no credit");
    down(&world);
}

#[test]
fn an_assigned_task_is_typed_as_a_sentence() {
    let world = World::new();
    table(&world, "screen", PATTERNS);
    spawn(&world, &[]);
    world
        .throng(["task", "add", "Look at it", "--description", "All of it.", "--owner", "f", "--team", "t"])
        .run()
        .ok();
    let typed = until_got(&world, 1).remove(0);
    let expected = "Task 1 is yours: Look at it\nAll of it.\nBegin with: throng task claim 1; when it is done: throng task done 1";
    assert_eq!(body(&typed), expected);
    down(&world);
}

#[test]
fn many_messages_arrive_each_once_and_in_order() {
    let world = World::new();
    table(&world, "screen", &PATTERNS.replace("settle_ms = 300", "settle_ms = 50"));
    spawn(&world, &[]);
    std::thread::scope(|scope| {
        for sender in 0..2 {
            let world = &world;
            scope.spawn(move || {
                for i in 0..4 {
                    send(world, &format!("s{sender} m{i}"));
                }
            });
        }
    });
    let got = until_got(&world, 8);
    for sender in 0..2 {
        let own: Vec<&str> =
            got.iter().map(|t| body(t)).filter(|b| b.starts_with(&format!("s{sender}"))).collect();
        let expected: Vec<String> = (0..4).map(|i| format!("s{sender} m{i}")).collect();
        assert_eq!(own, expected);
    }
    until("all are marked as read", || unread(&world) == 0);
    assert_eq!(got.len(), 8);
    down(&world);
}

#[test]
fn b12_a_run_ends_when_its_programs_wait_and_all_tasks_are_done() {
    let world = World::new();
    table(&world, "screen|--turn|0.5", PATTERNS);
    let team = r#"
[team]
name = "t"
backend = "process"
[[member]]
name = "f"
driver = "mine"
prompt = """
Do task 1.
 run: throng task claim 1; throng task done 1
"""
[[task]]
key = "k"
subject = "s"
owner = "f"
[driver.mine]
program = "python3"
args = ["TYPED", "screen", "--turn", "0.5", "--log", "LOG"]
idle = ['^>']
working = ['esc to interrupt']
settle_ms = 300
end = "/exit"
"#;
    let log = world.path("log.jsonl");
    let team = team.replace("TYPED", &fake("typed_agent.py")).replace("LOG", &log.to_string_lossy());
    world.write("team.toml", team);
    world.throng(["run", "team.toml", "--timeout", "50s"]).run().ok().says("done");
    assert!(got(&world)[0].contains("Do task 1."));
    world.assert_nothing_left();
}

#[test]
fn a_member_that_is_added_may_have_a_driver_of_the_teams_file() {
    let world = World::new();
    let log = world.path("log.jsonl");
    let mine = format!(
        "[driver.mine]\nprogram = \"python3\"\nargs = [{:?}, \"screen\", \"--log\", {log:?}]\nidle = ['^>']\nworking = ['esc to interrupt']\n",
        fake("typed_agent.py")
    );
    let member = "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n";
    let file = world.write("team.toml", format!("{member}{mine}"));
    world.throng(["up", "team.toml", "--backend", "process"]).run().ok();
    // It is the team's own, whatever becomes of the file.
    fs::remove_file(file).unwrap();
    world.throng(["spawn", "f", "--team", "t", "--driver", "mine", "--prompt", "hello"]).run().ok();
    assert!(until_got(&world, 1)[0].contains("hello"));
    let launch = fs::read_to_string(world.team("t").state_dir().join("launch/f.json")).unwrap();
    assert!(launch.contains("esc to interrupt"));
    let other = world.throng(["spawn", "g", "--team", "t", "--driver", "mien", "--prompt", "hello"]).run();
    other.code(2).complains("did you mean 'mine'?");
    world
        .throng(["spawn", "g", "--team", "u", "--driver", "mine"])
        .run()
        .code(2)
        .complains("unknown driver 'mine'");
    world.throng(["down", "t"]).run().ok();
    world.throng(["spawn", "f", "--team", "t", "--driver", "mine"]).run().code(2).complains("unknown driver");
    world.assert_nothing_left();
}

#[test]
fn the_table_is_listed_and_shown_and_mistakes_in_it_are_named() {
    let world = World::new();
    world.throng(["drivers"]).run().ok().says("codex").says("built-in").says("claude");
    let dir = world.root().join("home/.config/throng");
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("drivers.toml");
    let wrong = |text: &str, expected: &str| {
        fs::write(&file, text).unwrap();
        let place = format!("drivers.toml:{expected}");
        world.throng(["drivers"]).run().code(2).complains(&place);
        world.throng(["spawn", "f", "--team", "t", "--driver", "x"]).run().code(2).complains(&place);
    };
    wrong("[driver.x]\nprogramm = \"a\"", "2: unknown key of a driver 'programm': did you mean 'program'?");
    wrong("[driver.x]\nidle = ['a']", "1: driver 'x' has no program: add program = \"...\"");
    wrong("[driver.x]\nprogram = \"a\"", "1: driver 'x' does not say when it is idle");
    wrong("[driver.x]\nprogram = \"a\"\nidle = ['(']", "3: idle: ");
    wrong(
        "[driver.x]\nprogram = \"a\"\nargs = ['{modle}']",
        "3: unknown place in the arguments '{modle}': did you mean '{model}'?",
    );
    wrong("[driver.claude]\nprogram = \"a\"", "1: 'claude' is no name for a driver");
    wrong("[drivers.x]\n", "1: unknown key 'drivers': did you mean 'driver'?");
    wrong(
        "[driver.x]\nprogram = \"a\"\nmail = \"resume\"",
        "1: driver 'x' needs {prompt} in args and in resume",
    );
    // A row is changed key by key.
    fs::write(&file, "[driver.codex]\nprogram = \"/opt/my-codex\"").unwrap();
    let shown = world.throng(["drivers", "show", "codex"]).run();
    shown.ok().says("program = \"/opt/my-codex\"").says("esc to interrupt").says("drivers.toml");
    world.throng(["drivers"]).run().ok().says("/opt/my-codex not found");
    world.throng(["drivers", "show", "codxe"]).run().code(3).complains("did you mean 'codex'?");
    let spawn = |more: &[&str]| world.throng(["spawn", "f", "--team", "t"].iter().chain(more)).run();
    spawn(&["--driver", "codxe"]).code(2).complains("unknown driver 'codxe': did you mean 'codex'?");
    spawn(&["--driver", "codex"]).code(5).complains("/opt/my-codex").complains("program of [driver.codex]");
    spawn(&["--driver", "codex", "--effort", "low"]).code(2).complains("has no place for --effort");
    world.assert_nothing_left();
}

#[test]
fn b12_a_program_that_runs_one_turn_is_started_for_each_message_in_one_conversation() {
    let world = World::new();
    let dir = world.root().join("home/.config/throng");
    fs::create_dir_all(&dir).unwrap();
    // It writes down its arguments, and names the conversation.
    let script = r#"all="$* $(cat)"; printf '%s|' "$@" "$all" >> turns.log; echo >> turns.log; echo "session id: s-7"; echo "answer of $1"; case $all in *break*) exit 3;; esac"#;
    let table = format!(
        "[driver.once]\nprogram = \"sh\"\nmail = \"resume\"\nstdin = true\nsession = 'session id: (\\S+)'\n\
         args = [\"-c\", {script:?}, \"once\", \"first\", [\"--model\", \"{{model}}\"], [\"--effort\", \"{{effort}}\"], \"{{args}}\"]\n\
         resume = [\"-c\", {script:?}, \"once\", \"later\", \"{{session}}\", [\"--model\", \"{{model}}\"]]\n"
    );
    fs::write(dir.join("drivers.toml"), table).unwrap();
    let words = ["spawn", "f", "--team", "t", "--driver", "once", "--model", "m", "--prompt", "one"];
    world.throng(words.iter().chain(&["--restart", "always", "--", "--more"])).run().ok();
    until("the first turn has ended", || notices(&world).len() == 1);
    until("it is idle", || activity(&world) == "idle");
    send(&world, "two\nlines");
    until("the second turn has ended", || notices(&world).len() == 2);
    send(&world, "break");
    until("the third turn has ended", || notices(&world).len() == 3);
    until("all are marked as read", || unread(&world) == 0);
    let log = world.read("turns.log");
    assert!(
        log.starts_with("first|--model|m|--more|first --model m --more You are f, a teammate in the team t."),
        "{log}"
    );
    assert!(
        log.contains("\nlater|s-7|--model|m|--more|later s-7 --model m --more <teammate-message teammate_id=\"team-lead\">\ntwo\nlines\n"),
        "{log}"
    );
    let told = notices(&world);
    assert_eq!(told[0]["result"], "session id: s-7\nanswer of first");
    assert_eq!(
        (told[1]["idleReason"].as_str(), told[2]["idleReason"].as_str()),
        (Some("available"), Some("failed"))
    );
    assert!(told[2]["failureReason"].as_str().unwrap().contains("exit status: 3"), "{}", told[2]);
    let text = r#"{"type":"shutdown_request","requestId":"shutdown-5@f","from":"team-lead"}"#;
    crate::approvals::word(&world, "team-lead", "f", text);
    // For good, though it is restarted always.
    world.team("t").until_member("f", "exited");
    assert!(world.team("t").texts("team-lead").iter().any(|t| t.contains("shutdown_approved")));
    assert!(world.team("t").events().iter().all(|e| e["event"] != "member_restarting"));
    down(&world);
}

#[test]
fn an_inbox_that_cannot_be_read_is_named_and_read_again() {
    let world = World::new();
    table(&world, "screen", PATTERNS);
    spawn(&world, &["--prompt", "one"]);
    until("its turn has ended", || notices(&world).len() == 1);
    let inbox = world.team("t").inbox_path("f");
    let away = inbox.with_extension("away");
    fs::rename(&inbox, &away).unwrap();
    fs::create_dir(&inbox).unwrap();
    until("it says so", || trouble(&world).starts_with("its mail stays unread: its inbox cannot be read: "));
    fs::remove_dir(&inbox).unwrap();
    fs::rename(&away, &inbox).unwrap();
    until("it is idle", || activity(&world) == "idle");
    send(&world, "two");
    assert_eq!(body(&until_got(&world, 2)[1]), "two");
    down(&world);
}

#[test]
fn a_long_message_that_cannot_be_put_into_its_file_stays_unread() {
    let world = World::new();
    table(&world, "screen", PATTERNS);
    spawn(&world, &[]);
    let letters = world.team("t").state_dir().join("letters");
    fs::write(&letters, "in the way").unwrap();
    send(&world, &"long ".repeat(2000));
    until("it says so", || trouble(&world).starts_with("its mail stays unread: cannot write "));
    assert_eq!((unread(&world), got(&world).len()), (1, 0));
    fs::remove_file(&letters).unwrap();
    assert!(until_got(&world, 1)[0].contains("is in the file"));
    until("it is marked as read", || unread(&world) == 0);
    down(&world);
}
