//! Teams of agents of ours whose models are scripts written by hand (D10): real processes, no network.

use crate::support::{Call, Outcome, World, repository};
use std::fs;

/// An address at which nobody answers.
const NOBODY: &str = "http://127.0.0.1:9";

const TEAM: &str = r#"
[team]
name = "t"
backend = "process"

[[member]]
name = "ann"
driver = "throng"
permission_mode = "acceptEdits"
args = ["--replay", "{dir}/model", "--allow", "Bash"]
prompt = "Find the number and tell bob."

[[member]]
name = "bob"
driver = "throng"
permission_mode = "acceptEdits"
args = ["--replay", "{dir}/model", "--allow", "Bash"]

[[task]]
key = "find"
subject = "Find the number"
owner = "ann"

[[task]]
key = "write"
subject = "Write it down"
owner = "bob"
blocked_by = ["find"]
"#;

const ANN: &str = r#"
[[turn]]
on = "prompt"
contains = "Find the number"
[[turn.step]]
say = "I wait for the task."

[[turn]]
on = "task"
contains = "Find the number"
[[turn.step]]
calls = [{ tool = "Bash", input = { command = "throng task claim {task} && cat number.txt" } }]
[[turn.step]]
expect = { matches = "number: (?<number>\\d+)", is_error = false }
say = "It is {number}."
calls = [{ tool = "Bash", input = { command = "throng send bob 'the number is {number}' && throng task done {task} && echo told" } }]
[[turn.step]]
expect = { contains = "told" }
say = "Bob knows it."

[[turn]]
on = "mail"
from = "bob"
contains = "thanks"
[[turn.step]]
say = "You are welcome."
"#;

const BOB: &str = r#"
[[turn]]
on = "mail"
from = "ann"
matches = "the number is (?<number>\\d+)"
[[turn.step]]
calls = [{ tool = "Bash", input = { command = "throng send ann 'thanks, {from}' && echo sent" } }]
[[turn.step]]
expect = { contains = "sent", not_contains = "no such" }
say = "I have it."

[[turn]]
on = "task"
contains = "Write it down"
[[turn.step]]
calls = [{ tool = "Bash", input = { command = "throng task claim {task} && pwd > where.txt && echo {number} > written.txt && throng task done {task} && echo \"in $(pwd)\"" } }]
[[turn.step]]
expect = { contains = "in {directory}" }
say = "Written."
"#;

fn without_network(call: Call) -> Call {
    call.env("ANTHROPIC_BASE_URL", NOBODY)
}

fn team(ann: &str, bob: &str) -> World {
    let world = World::new();
    world.write("t/team.toml", TEAM);
    world.write("t/number.txt", "number: 42\n");
    world.write("t/model/ann.toml", ann);
    world.write("t/model/bob.toml", bob);
    world
}

fn run(world: &World) -> Outcome {
    without_network(world.throng(["run", "t"])).run()
}

#[test]
fn probe_d10_a_team_of_scripts_exchanges_mail_and_does_its_tasks_without_a_network() {
    let world = team(ANN, BOB);
    let outcome = run(&world);
    outcome.ok().says("2 tasks completed, 0 failed");
    assert_eq!(world.read("t/written.txt"), "42\n");
    world.assert_nothing_left();
}

#[test]
fn probe_d10_an_unmet_expectation_of_a_member_makes_the_run_6() {
    let world = team(ANN, BOB);
    world.write("t/number.txt", "number: none\n");
    let outcome = run(&world);
    outcome
        .code(6)
        .complains("ann exited 6")
        .complains("ann.toml:14: turn 2 (on task), step 2: expected a match of");
    outcome.complains("number: none");
    // What bob did not come to follows from that.
    outcome.check("bob is not blamed", !outcome.stderr.contains("bob exited"));
    world.assert_nothing_left();
}

#[test]
fn probe_d10_a_turn_that_never_comes_makes_the_run_6() {
    let never = "\n[[turn]]\non = \"mail\"\nfrom = \"eve\"\n[[turn.step]]\nsay = \"Who are you?\"\n";
    let world = team(ANN, &format!("{BOB}{never}"));
    let outcome = run(&world);
    outcome.code(6).complains("bob exited 6").complains("turn 3 (on mail from eve) never began");
    assert_eq!(world.read("t/written.txt"), "42\n");
    world.assert_nothing_left();
}

#[test]
fn probe_d10_a_script_for_one_agent() {
    let world = World::new();
    let turn = "[[turn]]\non = \"prompt\"\n[[turn.step]]\nsay = \"I look.\"\n\
                calls = [{ tool = \"Bash\", input = { command = \"cat a.txt\" } }]\n\
                [[turn.step]]\nexpect = { contains = \"seven\", is_error = false }\nsay = \"Seven.\"\n";
    world.write("model/main.toml", turn);
    world.write("a.txt", "seven\n");
    let play = || {
        without_network(
            world.throng(["agent", "run", "--allow", "Bash", "--prompt", "Look", "--replay", "model"]),
        )
        .run()
    };
    assert_eq!(play().ok().stdout, "Seven.\n");
    world.write("a.txt", "eight\n");
    play()
        .code(6)
        .complains("model/main.toml:7: turn 1 (on prompt), step 2: expected to find \"seven\"; came: Bash");
    world.write("model/main.toml", turn.replace("say =", "says ="));
    play().code(2).complains("main.toml:4: unknown key of [[turn.step]] 'says': did you mean 'say'?");
    world.write("model/main.jsonl", "");
    play().code(2).complains("there are a recording and a script").complains("remove one of them");
    let nothing =
        without_network(world.throng(["agent", "run", "--prompt", "Look", "--replay", "nowhere"])).run();
    nothing.code(2).complains("nothing to replay in nowhere").complains("main.toml").complains("--record");
}

/// The fenced block of `docs/replay.md` that follows a line with this file's name.
fn shown(file: &str) -> String {
    let page = fs::read_to_string(repository().join("docs/replay.md")).unwrap();
    let (_, rest) = page.split_once(&format!("as `{file}`:")).unwrap_or_else(|| panic!("no {file}"));
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_page_on_replay_shows_a_team_that_runs() {
    let world = World::new();
    for file in ["numbers/team.toml", "numbers/model/ann.toml", "numbers/model/bob.toml"] {
        world.write(file, shown(file));
    }
    let run = || without_network(world.throng(["run", "numbers"])).run();
    run().ok().says("2 tasks completed, 0 failed");
    assert_eq!(world.read("numbers/number.txt"), "42\n");
    world.write(
        "numbers/model/ann.toml",
        shown("numbers/model/ann.toml").replace("is (?<number>", "is 43(?<number>"),
    );
    run().code(6).complains("ann.toml:9: turn 1 (on task), step 2: expected a match of");
    world.assert_nothing_left();
}

#[test]
fn d10_limits_are_tried_with_the_tokens_that_a_script_names() {
    let world = World::new();
    let turn =
        "[[turn]]\non = \"prompt\"\n[[turn.step]]\nusage = { input_tokens = 900, output_tokens = 50 }\n";
    world.write(
        "model/main.toml",
        format!("{turn}calls = [{{ tool = \"Bash\", input = {{ command = \"echo hi\" }} }}]\n"),
    );
    let run = |tokens: &str| {
        let words = [
            "agent",
            "run",
            "--allow",
            "Bash",
            "--replay",
            "model",
            "--prompt",
            "go",
            "--max-tokens",
            tokens,
        ];
        world.throng(words).env("ANTHROPIC_BASE_URL", NOBODY).run()
    };
    run("949").code(1).complains("the limit of 949 tokens is reached (950 used)");
    assert_eq!(run("951").ok().stdout, "Done.\n");
}
