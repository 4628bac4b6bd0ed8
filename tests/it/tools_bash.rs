//! The tool `Bash` with real shells: output, exit codes, directory, environment, and that nothing of a command outlives it.

use crate::support::tools::{Agent, is_error, text, until as tools_until};
use crate::support::wait;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use throng::sys::process;
use throng::tools::{Cancel, Effect, Tool};

/// Processes whose command line holds `mark`.
fn carrying(mark: &str) -> Vec<i32> {
    let holds = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(mark)
    };
    process::all().into_iter().filter(process::Process::is_alive).map(|p| p.pid).filter(holds).collect()
}

#[test]
fn goal_d2_bash_tells_output_and_exit_code() {
    let agent = Agent::new();
    let good = agent.run(Tool::Bash, &json!({"command": "echo out; echo err >&2"}));
    assert_eq!((text(&good).as_str(), is_error(&good)), ("out\nerr\n", false));
    let bad = agent.run(Tool::Bash, &json!({"command": "printf half; exit 3"}));
    assert_eq!((text(&bad).as_str(), is_error(&bad)), ("half\n[Exit code 3.]", true));
    let killed = agent.run(Tool::Bash, &json!({"command": "kill -9 $$"}));
    assert_eq!((text(&killed).as_str(), is_error(&killed)), ("[Ended by signal 9.]", true));
    let silent = agent.run(Tool::Bash, &json!({"command": ":"}));
    assert_eq!((text(&silent).as_str(), is_error(&silent)), ("It printed nothing.", false));
    let input = agent.run(Tool::Bash, &json!({"command": "cat; tty"}));
    assert!(text(&input).contains("not a tty"), "{}", text(&input));
    let odd = agent.run(Tool::Bash, &json!({"command": "printf 'a\\xff\\xfeb\\0c'"}));
    assert_eq!(text(&odd), "a\u{fffd}\u{fffd}b\0c");
    let syntax = agent.run(Tool::Bash, &json!({"command": "echo 'open"}));
    assert!(is_error(&syntax) && !text(&syntax).contains("trap"), "{}", text(&syntax));
}

#[test]
fn goal_d2_bash_keeps_the_directory_and_has_exactly_the_environment() {
    let mut agent = Agent::new();
    let sub = agent.dir().join("a 'b\" $c");
    std::fs::create_dir(&sub).unwrap();
    let moved = agent.run(Tool::Bash, &json!({"command": "cd a*; false"}));
    let real = std::fs::canonicalize(&sub).unwrap();
    assert_eq!(moved.effects, [Effect::Directory(real.clone())], "{}", text(&moved));
    assert!(is_error(&moved), "the exit code is the command's, not the trap's");
    agent.apply(&moved);
    let here = agent.run(Tool::Bash, &json!({"command": "pwd -P"}));
    assert_eq!(text(&here).trim_end(), real.to_str().unwrap());
    assert_eq!(here.effects, []);
    let exits = agent.run(Tool::Bash, &json!({"command": "cd /; exit 0"}));
    assert_eq!(exits.effects, [Effect::Directory("/".into())]);
    let below = agent.run(Tool::Bash, &json!({"command": "(cd /)"}));
    assert_eq!(below.effects, [], "a subshell's directory is its own");

    agent.view.environment = vec![("ONLY".into(), "this".into()), ("PATH".into(), "/usr/bin:/bin".into())];
    let env = agent.run(Tool::Bash, &json!({"command": "env -0 | cut -z -d= -f1 | sort -z | tr '\\0' ' '"}));
    assert_eq!(text(&env), "ONLY PATH PWD SHLVL _ ", "Bash itself adds three");
    let left = std::fs::read_dir(&agent.view.output).unwrap().count();
    assert_eq!(left, 0, "nothing stays of what nobody is told of");
    let mode = std::fs::metadata(&agent.view.output).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn case_c088_a_grandchild_that_holds_the_pipe_does_not_hold_the_call() {
    let agent = Agent::new();
    let begun = Instant::now();
    let said = agent.run(Tool::Bash, &json!({"command": "sleep 308801 & echo hi", "timeout": 60_000}));
    assert!(begun.elapsed() < Duration::from_secs(30), "it does not wait for the sleep");
    assert!(!is_error(&said), "{}", text(&said));
    assert_eq!(text(&said), "hi\n[What it started runs on in the background as bash_1.]");
    assert_eq!(carrying("sleep 308801").len(), 1);
    let listed = agent.view.background.list();
    assert_eq!(listed.len(), 1);
    agent.block_on(agent.view.background.stop_all());
    assert_eq!(carrying("sleep 308801"), Vec::<i32>::new(), "the end of the session is its end");
}

#[test]
fn case_c088_after_a_timeout_nothing_of_the_group_is_left() {
    let agent = Agent::new();
    let slow = "echo begun; sh -c 'sleep 308802; :' & trap '' TERM; sleep 308802; sleep 308802; sleep 308802";
    let said = agent.run(Tool::Bash, &json!({"command": slow, "timeout": 300}));
    assert!(is_error(&said));
    assert!(text(&said).starts_with("begun\n"), "{}", text(&said));
    assert!(text(&said).ends_with("[It was ended since it took longer than 300 ms.]"), "{}", text(&said));
    assert_eq!(carrying("sleep 308802"), Vec::<i32>::new());
    let zombies = process::Process::zombies_of_ours();
    assert!(
        zombies.iter().all(|z| Some(*z) != process::Process::of(z.pid) || !is_bash(z.pid)),
        "{zombies:?}"
    );
    assert!(agent.view.background.list().is_empty());
}

fn is_bash(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "bash")
}

#[test]
fn goal_d2_bash_ends_when_cancelled_or_dropped() {
    let agent = Agent::new();
    let cancel = Cancel::default();
    let input = json!({"command": "touch begun; sleep 308803"});
    let said = agent.block_on(async {
        let call = throng::tools::run(Tool::Bash, input.clone(), agent.view.clone(), cancel.clone());
        let stop = async {
            tools_until("it runs", || agent.dir().join("begun").exists()).await;
            cancel.set();
        };
        tokio::join!(call, stop).0
    });
    assert!(is_error(&said) && text(&said).contains("cancelled"), "{}", text(&said));
    assert_eq!(carrying("sleep 308803"), Vec::<i32>::new());

    std::fs::remove_file(agent.dir().join("begun")).unwrap();
    agent.block_on(async {
        tokio::select! {
            _ = throng::tools::run(Tool::Bash, input, agent.view.clone(), Cancel::default()) => panic!("it sleeps"),
            () = tools_until("it runs", || agent.dir().join("begun").exists()) => {}
        }
    });
    wait::until("a dropped call ends its command", || carrying("sleep 308803").is_empty());
}

#[test]
fn goal_d2_bash_output_is_bounded_and_the_rest_is_in_a_file() {
    let agent = Agent::new();
    let said = agent.run(Tool::Bash, &json!({"command": "seq 1 100000"}));
    let told = text(&said);
    assert!(told.len() < 32_000, "{}", told.len());
    assert!(told.starts_with("1\n2\n") && told.ends_with("\n100000\n"));
    let path = told.split("all output is in ").nth(1).unwrap().split(' ').next().unwrap();
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);

    let endless = agent.run(Tool::Bash, &json!({"command": "yes", "timeout": 2000}));
    let told = text(&endless);
    assert!(told.len() < 32_000 && told.contains("took longer"), "{}", told.len());
    let path = Path::new(told.split("all output is in ").nth(1).unwrap().split(' ').next().unwrap());
    assert!(std::fs::metadata(path).unwrap().len() <= 64 << 20);
}

#[test]
fn goal_d2_bash_in_the_background_goes_on_and_is_ended() {
    let agent = Agent::new();
    let input = json!({"command": "trap '' TERM; echo begun; while :; do sleep 0.1; done", "run_in_background": true});
    let said = agent.run(Tool::Bash, &input);
    assert!(!is_error(&said) && text(&said).contains("bash_1"), "{}", text(&said));
    let running = agent.view.background.find("bash_1").unwrap();
    wait::until("it has spoken", || running.told() == "begun\n");
    assert_eq!(std::fs::read_to_string(&running.path).unwrap(), "begun\n");
    assert!(!running.has_ended());
    agent.block_on(agent.view.background.stop_all());
    assert!(running.has_ended(), "KILL ends what ignores TERM");
}

#[test]
fn goal_d2_wrong_input_is_answered_with_what_is_right() {
    let agent = Agent::new();
    for (input, words) in [
        (
            json!({}),
            vec!["missing field `command`", "- command (string, required)", "- timeout (integer, optional)"],
        ),
        (json!({"command": 5}), vec!["in field 'command'", "expected a string"]),
        (json!({"command": "ls", "timeout": "soon"}), vec!["in field 'timeout'", "expected u64"]),
        (json!({"command": "ls", "timeout": 0}), vec!["in field 'timeout'", "between 1 and 600000"]),
        (json!({"command": "ls", "timeout": 600_001}), vec!["in field 'timeout'", "between 1 and 600000"]),
        (json!({"command": "ls", "cmd": 1}), vec!["unknown field `cmd`", "`command`"]),
        (json!({"command": " "}), vec!["in field 'command'", "not empty"]),
        (json!({"command": "a\u{0}b"}), vec!["in field 'command'", "NUL"]),
        (json!("ls"), vec!["expected struct"]),
    ] {
        let said = agent.run(Tool::Bash, &input);
        assert!(is_error(&said), "{input}");
        for word in words {
            assert!(text(&said).contains(word), "{input}: {word}: {}", text(&said));
        }
    }
}
