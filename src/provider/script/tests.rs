//! Scripts, stepped through without a process.

use super::*;
use std::sync::Arc;

fn script(text: &str) -> Result<Script, Error> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bob.toml"), text).unwrap();
    Script::new(dir.path(), "bob").map(|script| script.within(Path::new("/w")))
}

/// A conversation with a script.
struct Talk {
    script: Script,
    messages: Vec<Message>,
}

impl Talk {
    fn new(text: &str) -> Talk {
        Talk { script: script(text).unwrap(), messages: Vec::new() }
    }

    fn hear(&mut self, content: Vec<Block>) -> Result<Answer, Error> {
        self.messages.push(Message { role: Role::User, content });
        let request = Request {
            model: "m".to_owned(),
            tokens_max: 1,
            thinking_tokens: None,
            system: Arc::new([]),
            tools: Arc::new([]),
            messages: Arc::new(self.messages.clone()),
        };
        let answer = self.script.answer(&request)?;
        self.messages.push(Message { role: Role::Assistant, content: answer.content.clone() });
        Ok(answer)
    }

    fn say(&mut self, text: &str) -> Result<Answer, Error> {
        self.hear(vec![Block::text(text)])
    }

    fn result(&mut self, text: &str, is_error: super::super::IsError) -> Result<Answer, Error> {
        let calls: Vec<_> = self.messages.last().unwrap().content.iter().filter_map(Block::as_call).collect();
        let content = super::super::Content::Text(text.to_owned());
        self.hear(calls.iter().map(|call| Block::result(&call.id, &content, is_error)).collect())
    }
}

use super::super::IsError::{No, Yes};

fn mail(from: &str, text: &str) -> String {
    format!("<teammate-message teammate_id=\"{from}\" summary=\"x\">\n{text}\n</teammate-message>")
}

fn difference(answer: Result<Answer, Error>) -> String {
    match answer {
        Err(Error::Differs { difference }) => difference,
        other => panic!("{other:?}"),
    }
}

const BOTH: &str = r#"
[[turn]]
on = "task"
contains = "Look"
[[turn.step]]
calls = [{ tool = "Bash", input = { command = "throng task claim {task}; echo ${x} {directory} {agent}", n = 1 } }]
[[turn.step]]
expect = { matches = "found (?<count>\\d+)", not_contains = "nothing", is_error = false }
say = "It is {count}."
calls = [{ tool = "Bash", input = { command = "echo {count}" } }]

[[turn]]
on = "mail"
from = "ann"
[[turn.step]]
expect = { contains = "{count}", not_contains = "&" }
say = "Thanks, {from}."
"#;

#[test]
fn probe_d10_turns_steps_and_placeholders() {
    let mut talk = Talk::new(BOTH);
    let answer = talk.say(&mail("team-lead", "Task 7 is yours: Look at it\nBegin with: x")).unwrap();
    let call = answer.content[0].as_call().unwrap();
    assert_eq!(call.input, json!({"command": "throng task claim 7; echo ${x} /w bob", "n": 1}));
    assert_eq!((answer.stop_reason.as_str(), call.id.as_str()), ("tool_use", "call_1_1"));
    let answer = talk.result("found 42", No).unwrap();
    assert_eq!(answer.content[0].as_text(), Some("It is 42."));
    assert!(talk.script.end().is_err());
    // The calls of the last step end the turn, and the script says nothing more.
    let answer = talk.result("whatever", Yes).unwrap();
    assert_eq!((answer.stop_reason.as_str(), answer.content[0].as_text()), ("end_turn", Some(SILENCE)));
    let left = talk.script.end().unwrap_err().to_string();
    assert!(
        left.contains("bob.toml:13: the session is over, and turn 2 (on mail from ann) never began"),
        "{left}"
    );
    let answer = talk.say(&mail("ann", "is it &gt; 42?")).unwrap();
    assert_eq!(answer.content[0].as_text(), Some("Thanks, ann."));
    talk.script.end().unwrap();
    // A reminder of a task that has begun is none of the author's business; another task is.
    let task = |id: u32| mail("team-lead", &format!("Task {id} is yours: Look"));
    assert_eq!(talk.say(&task(7)).unwrap().content[0].as_text(), Some(SILENCE));
    let none = difference(talk.say(&task(8)));
    assert!(none.contains("no turn is left for task 8"), "{none}");
    talk.messages.pop();
    let none = difference(talk.say(&mail("ann", "again")));
    assert!(none.contains("no turn is left for the mail of ann: \"again\""), "{none}");
}

#[test]
fn probe_d10_an_expectation_that_is_not_met_is_named_with_what_came() {
    let begin = || {
        let mut talk = Talk::new(BOTH);
        talk.say(&mail("team-lead", "Task 7 is yours: Look")).unwrap();
        talk
    };
    let place = "bob.toml:8: turn 1 (on task), step 2: expected";
    for (said, is_error, expected) in [
        ("found 1", Yes, "is_error = false; came: Bash {"),
        ("nothing found 1", No, "not to find \"nothing\"; came: Bash {"),
        ("I see", No, "a match of 'found (?<count>\\d+)'; came: Bash {"),
    ] {
        let text = difference(begin().result(said, is_error));
        assert!(
            text.contains(&format!("{place} {expected}")) && text.contains(&format!("{said:?}")),
            "{text}"
        );
    }
    let mut talk = begin();
    talk.result("found 5", No).unwrap();
    talk.result("", No).unwrap();
    let text = difference(talk.say(&mail("ann", "is it 42?")));
    assert!(
        text.contains("turn 2 (on mail from ann), step 1: expected to find \"5\"; came: the mail of ann"),
        "{text}"
    );
}

#[test]
fn probe_d10_several_mails_at_once_are_answered_in_one_go() {
    let turn = |on: &str, say: &str| format!("[[turn]]\n{on}\n[[turn.step]]\nsay = \"{say}\"\n");
    let text = [
        turn("on = \"prompt\"", "begun"),
        turn("on = \"mail\"\nfrom = \"ann\"", "for ann"),
        turn("on = \"mail\"\nrepeat = true", "for {from}"),
    ]
    .concat();
    let mut talk = Talk::new(&text);
    // A member's prompt is its leader's mail; reminders are nobody's words.
    let all = [mail("eve", "1"), mail("team-lead", "go"), mail("ann", "2"), mail("ann", "3")];
    let mut blocks: Vec<Block> = all.iter().map(Block::text).collect();
    blocks.push(Block::text("<system-reminder>\nx\n</system-reminder>"));
    let answer = talk.hear(blocks).unwrap();
    let said: Vec<_> = answer.content.iter().filter_map(Block::as_text).collect();
    assert_eq!(said, ["for eve", "begun", "for ann", "for ann"]);
    talk.script.end().unwrap();
}

#[test]
fn a_script_that_is_none_is_refused_with_its_line() {
    let step = "\n[[turn.step]]\nsay = \"x\"\n";
    for (text, expected) in [
        ("# nothing", "bob.toml:1: a script needs at least one [[turn]]"),
        ("[[turns]]", "bob.toml:1: unknown key of a script 'turns': did you mean 'turn'?"),
        ("[[turn]]\non = \"prompt\"", "bob.toml:2: the turn has no [[turn.step]]"),
        (&format!("[[turn]]{step}"), "a turn needs on = \"prompt\", \"mail\" or \"task\""),
        (
            &format!("[[turn]]\non = \"mial\"{step}"),
            "bob.toml:2: unknown kind of turn 'mial': did you mean 'mail'?",
        ),
        (&format!("[[turn]]\non = \"prompt\"\nfrom = \"x\"{step}"), "bob.toml:2: a prompt has no 'from'"),
        (&format!("[[turn]]\non = \"prompt\"{step}{step}"), "bob.toml:2: step 1 of this turn calls nothing"),
        (&format!("[[turn]]\non = \"mail\"\nmatches = \"(\"{step}"), "bob.toml:3: matches is no pattern"),
        (
            &format!("[[turn]]\non = \"mail\"{step}expect = {{ contain = \"x\" }}"),
            "bob.toml:5: unknown key of expect 'contain': did you mean 'contains'?",
        ),
        (
            &format!("[[turn]]\non = \"mail\"{step}calls = [{{ tool = \"Bash\", imput = {{}} }}]"),
            "bob.toml:5: unknown key of a call 'imput': did you mean 'input'?",
        ),
    ] {
        let error = script(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn a_placeholder_without_a_value_is_not_passed_on() {
    let mut talk = Talk::new(
        "[[turn]]\non = \"prompt\"\n[[turn.step]]\nsay = \"{id}\"\n[[turn]]\non = \"mail\"\nmatches = \"(?<id>x)\"\n\
         [[turn.step]]\nsay = \"{id} {other}\"\n",
    );
    assert!(difference(talk.say("go")).contains("{id} has no value yet: it was not found by any pattern"));
    talk.messages.clear();
    assert_eq!(talk.say(&mail("a", "x")).unwrap().content[0].as_text(), Some("x {other}"));
}

#[test]
fn d10_the_last_result_is_a_placeholder() {
    let step = |say: &str| format!("[[turn]]\non = \"prompt\"\n[[turn.step]]\nsay = \"{say}\"\n");
    let calls = "calls = [{ tool = \"Read\" }, { tool = \"Bash\" }]\n[[turn.step]]\nsay = \"It gave {last_result}!\"\n";
    let mut talk = Talk::new(&format!("{}{calls}", step("I call.")));
    assert_eq!(talk.say("go").unwrap().content.len(), 3);
    assert_eq!(talk.result("a\nb", No).unwrap().content[0].as_text(), Some("It gave a\nb\na\nb!"));
    let too_early = difference(Talk::new(&step("{last_result}")).say("go"));
    assert!(too_early.ends_with("step 1: {last_result} has no value yet: nothing was called"), "{too_early}");
}

#[test]
fn d10_a_step_takes_the_tokens_that_it_names() {
    let text = |usage: &str| {
        let call = "calls = [{ tool = \"Read\" }]\nusage = { input_tokens = 7, output_tokens = 2 }";
        let mail = "[[turn]]\non = \"mail\"\n[[turn.step]]\nsay = \"y\"\nusage = { output_tokens = 1 }\n";
        format!(
            "[[turn]]\non = \"prompt\"\n[[turn.step]]\n{call}\n[[turn.step]]\nsay = \"x\"\n{usage}\n{mail}"
        )
    };
    let mut talk = Talk::new(&text("usage = { cache_read_input_tokens = 30 }"));
    let first = talk.say("go").unwrap().usage;
    assert_eq!(first, Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    // Each answer its own, and one that goes on with the next turn takes what both take.
    assert_eq!(
        talk.result("a", No).unwrap().usage,
        Usage { cache_read_input_tokens: 30, ..Usage::default() }
    );
    let mut talk = Talk::new(&text("usage = { cache_read_input_tokens = 30 }"));
    talk.say("go").unwrap();
    let mut both = vec![Block::result("call_1_1", &super::super::Content::Text("a".to_owned()), No)];
    both.push(Block::text(mail("ann", "hi")));
    let usage = talk.hear(both).unwrap().usage;
    assert_eq!(usage, Usage { cache_read_input_tokens: 30, output_tokens: 1, ..Usage::default() });
    let error = script(&text("usage = { tokens = 3 }")).unwrap_err().to_string();
    assert!(error.contains("bob.toml:8: unknown key of usage 'tokens'"), "{error}");
}
