//! Launching on plain processes: what starts is exactly what was asked for, and a start that fails leaves nothing.

use crate::support::{World, fake, fixture, process, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Spawns one member in the team `demo` and waits until it has ended by itself.
fn spawn_and_wait(world: &World, args: &[&str]) {
    world.throng(["spawn", "a", "--team", "demo"]).args(args).run().ok();
    world.throng(["wait", "a", "--team", "demo", "--timeout", "20s"]).run().ok();
}

#[test]
fn probe_a16_q053_a_wrapper_starts_and_sees_the_callers_folder() {
    let world = World::new();
    let wrapper = world.write("dir/wrap.sh", "#!/bin/sh\necho \"$CLAUDE_CONFIG_DIR|$1\" > \"$2\"\n");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let other = world.path("th2");
    let args = ["spawn", "a", "--team", "demo", "--", "dir/wrap.sh", "arg", "seen"];
    world.throng(args).env("CLAUDE_CONFIG_DIR", &other).run().ok();
    until("it has written", || world.path("seen").metadata().is_ok_and(|m| m.len() > 0));
    assert_eq!(world.read("seen"), format!("{}|arg\n", other.display()));
    assert!(other.join("teams/demo/config.json").exists());
    assert!(!world.config_dir().join("teams").exists());
}

#[test]
fn probe_a17_an_agent_has_a_terminal_unless_it_is_told_otherwise() {
    let world = World::new();
    spawn_and_wait(&world, &["--", "sh", &fake("terminals.sh"), "with"]);
    assert_eq!(world.read("with"), "0:yes 1:yes 2:yes \n");
    spawn_and_wait(&world, &["--no-tty", "--", "sh", &fake("terminals.sh"), "without"]);
    assert_eq!(world.read("without"), "0:no 1:no 2:no \n");
    let member = |name: &str, tty: &str| {
        format!(
            "[[member]]\nname = \"{name}\"\ncommand = [\"sh\", '{}', \"{name}\"]\n{tty}\n",
            fake("terminals.sh")
        )
    };
    let team = format!("[team]\nname = \"t\"\n{}{}", member("yes", ""), member("no", "tty = false"));
    world.write("t/team.toml", team);
    world.throng(["run", "t"]).run().ok();
    assert_eq!(world.read("t/yes"), "0:yes 1:yes 2:yes \n");
    assert_eq!(world.read("t/no"), "0:no 1:no 2:no \n");
    world.assert_nothing_left();
}

#[test]
fn probe_a24_case_c026_the_working_directory_is_exactly_the_one_asked_for() {
    let world = World::new();
    let table = fs::read_to_string(fixture("C026/dirs.tsv")).unwrap();
    let mut dirs: Vec<String> =
        table.lines().skip(1).map(|l| l.split('\t').next().unwrap().to_owned()).collect();
    assert_eq!(dirs.len(), 10);
    // Probes A24, Q039, Q040, Q041.
    dirs.extend(
        ["a b/ü", "My Project/src", "p'$(touch PWNED)'q", "d\"ouble", "back\\slash", "`touch PWNED`"]
            .map(str::to_owned),
    );
    for dir in &dirs {
        let path = world.path(dir);
        fs::create_dir_all(&path).unwrap();
        let script = "printf '%s\\n' \"$PWD\" > pwd; pwd -P > real";
        spawn_and_wait(&world, &["--cwd", path.to_str().unwrap(), "--", "sh", "-c", script]);
        let shown = format!("{}\n", path.display());
        assert_eq!(fs::read_to_string(path.join("real")).unwrap(), shown, "{dir}");
        assert_eq!(fs::read_to_string(path.join("pwd")).unwrap(), shown, "{dir}");
        // Row, record and process agree (probe L03).
        let row = world.team("demo").config()["members"][1]["cwd"].clone();
        assert_eq!(row, json!(path), "{dir}");
        assert_eq!(world.team("demo").member("a")["cwd"], json!(path), "{dir}");
    }
    // The same by the team's and the member's `cwd` in a file, and by the caller's own directory.
    fs::create_dir_all(world.path("x#{session_name}/sub dir")).unwrap();
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\ncwd = \"../x#{session_name}\"\n[[member]]\nname = \"a\"\ncwd = \"sub dir\"\ncommand = [\"sh\", \"-c\", \"pwd -P > here\"]\n",
    );
    world.throng(["run", "t"]).run().ok();
    let expected = format!("{}\n", world.path("x#{session_name}/sub dir").display());
    assert_eq!(world.read("x#{session_name}/sub dir/here"), expected);
    let other = world.path("a b/ü");
    let spawn =
        world.throng(["spawn", "a", "--team", "demo", "--", "sh", "-c", "pwd -P > mine"]).cwd(&other).run();
    spawn.ok();
    world.throng(["wait", "a", "--team", "demo"]).run().ok();
    assert_eq!(world.read("a b/ü/mine"), format!("{}\n", other.display()));
    // A program that is no shell believes PWD; through a link, it is the path as it was asked for.
    std::os::unix::fs::symlink(world.path("a b"), world.path("link")).unwrap();
    spawn_and_wait(&world, &["--no-tty", "--cwd", "link/ü", "--", "env"]);
    let env = fs::read_to_string(world.team("demo").state_dir().join("logs/a.log")).unwrap();
    let pwd = format!("PWD={}", world.path("link/ü").display());
    assert!(env.lines().any(|l| l == pwd), "{pwd}\n{env}");
    let mut injected = Vec::new();
    crate::support::world::walk(world.root(), &mut |path, _| {
        if path.ends_with("PWNED") || path.ends_with("pwn") {
            injected.push(path.to_owned());
        }
    });
    assert!(injected.is_empty(), "{injected:?}");
}

#[test]
fn a_working_directory_that_is_not_there_is_a_loud_failure() {
    let world = World::new();
    world.spawn_sleeper("demo", "other");
    world
        .throng(["spawn", "a", "--cwd", "no/such", "--team", "demo", "--", "true"])
        .run()
        .code(5)
        .complains("no/such");
    assert_eq!(world.team("demo").roster(), ["team-lead", "other"]);
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\ncwd = \"gone\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n",
    );
    world.throng(["run", "t"]).run().code(2).complains("gone");
    assert!(!world.team("t").dir().exists());
}

#[test]
fn probe_a02_a27_arguments_arrive_byte_for_byte() {
    let world = World::new();
    let odd = [
        "",
        " ",
        "two words",
        "it's",
        "\"x\"",
        "$HOME",
        "`id`",
        "$(id)",
        "a\nb",
        "back\\",
        ";",
        "a;",
        "-rf",
        "--",
        "ünï",
        "#{x}",
        "%s",
        "*",
        "\t",
    ];
    for size in [0, 4 * 1024, 100 * 1024] {
        let large = "ab c".repeat(size / 4);
        let mut args: Vec<&str> = odd.to_vec();
        args.push(&large);
        let out = world.path(format!("argv-{size}"));
        let setting = format!("ARGV_OUT={}", out.display());
        let script = fake("argv.sh");
        let mut spawn = vec!["--env", &setting, "--", "sh", &script];
        spawn.extend(&args);
        spawn_and_wait(&world, &spawn);
        let got = fs::read(&out).unwrap();
        let got: Vec<&[u8]> = got.strip_suffix(b"\0").unwrap().split(|b| *b == 0).collect();
        assert_eq!(got.len(), args.len(), "{size}");
        assert!(got.iter().zip(&args).all(|(got, sent)| *got == sent.as_bytes()), "{size}");
    }
    // A program finds its own name as it was written.
    spawn_and_wait(&world, &["--", "sh", "-c", "tr '\\0' '\\n' < /proc/$$/cmdline | head -n 1 > zero"]);
    assert_eq!(world.read("zero"), "sh\n");
}

#[test]
fn probe_k05_an_agent_knows_who_it_is_and_has_throng_on_its_path() {
    let world = World::new();
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        cwd = ".."
        inherit_env = ["NAMED", "MINE_*"]
        [[member]]
        name = "a"
        env = { LEVEL = "strict", SCRIPT = "{dir}/x.sh" }
        command = ["sh", "-c", "{ env; command -v throng; readlink -f \"$(command -v throng)\"; } > seen; touch \"$THRONG_OUT/product\""]
        "#,
    );
    let run = world.throng(["run", "t"]).env("LEVEL", "lax").env("NAMED", "kept").env("MINE_X", "kept");
    let run = run
        .env("LC_ALL", "C.UTF-8")
        .env("PLAIN", "of the caller")
        .env("GIT_DIR", "/x")
        .env("TMUX_PANE", "%9");
    run.run().ok();
    let seen = world.read("seen");
    let has = |line: String| assert!(seen.lines().any(|l| l == line), "{line}\n{seen}");
    let state = world.team("t").state_dir();
    has("THRONG_TEAM=t".to_owned());
    has("THRONG_AGENT=a".to_owned());
    has(format!("THRONG_DIR={}", world.path("t").display()));
    has(format!("THRONG_OUT={}", state.join("out").display()));
    has("LEVEL=strict".to_owned());
    for inherited in ["NAMED=kept", "MINE_X=kept", "LC_ALL=C.UTF-8"] {
        has(inherited.to_owned());
    }
    has(format!("SCRIPT={}/x.sh", world.path("t").display()));
    has(format!("{}", state.join("bin/throng").display()));
    has(format!("{}", Path::new(env!("CARGO_BIN_EXE_throng")).canonicalize().unwrap().display()));
    // What nobody named might be a secret, or describe the caller's own place (case C056).
    assert!(!["PLAIN=", "GIT_DIR=", "TMUX_PANE="].iter().any(|key| seen.contains(key)), "{seen}");
    assert!(state.join("out/product").exists(), "products stay");
    world.throng(["run", "t", "--out", "made"]).run().ok();
    assert!(world.path("made/product").exists());
}

#[test]
fn probe_k04_a_spawn_names_what_shall_be_inherited() {
    let world = World::new();
    let args = [
        "spawn",
        "a",
        "--team",
        "demo",
        "--env",
        "GIVEN=here",
        "--env",
        "NAMED",
        "--",
        "sh",
        "-c",
        "env > seen",
    ];
    world.throng(args).env("NAMED", "there").env("PLAIN", "x").run().ok();
    world.throng(["wait", "a", "--team", "demo"]).run().ok();
    let seen = world.read("seen");
    assert!(
        seen.contains("GIVEN=here\n") && seen.contains("NAMED=there\n") && !seen.contains("PLAIN="),
        "{seen}"
    );
}

#[test]
fn case_c036_secrets_stand_in_no_command_line_and_no_file_for_others() {
    let world = World::new();
    let secret = "s3cret-0f-the-w0rld";
    world
        .throng(["spawn", "a", "--team", "demo", "--", "sleep", "600"])
        .env("ANTHROPIC_API_KEY", secret)
        .run()
        .ok();
    let processes = world.processes();
    let agent = world.team("demo").pid("a");
    let agent = processes.iter().find(|p| p.pid == agent).expect("it runs");
    assert!(agent.carries(&format!("ANTHROPIC_API_KEY={secret}")), "the agent has it");
    assert!(processes.len() >= 2, "agent and tend: {processes:?}");
    assert!(processes.iter().all(|p| !p.command_line().join(" ").contains(secret)));
    let mut open = Vec::new();
    crate::support::world::walk(&world.state_dir(), &mut |path, _| {
        let meta = fs::symlink_metadata(path).unwrap();
        if !meta.is_symlink() && meta.permissions().mode() & 0o077 != 0 {
            open.push(path.to_owned());
        }
        if meta.is_file() && fs::read_to_string(path).is_ok_and(|text| text.contains(secret)) {
            assert!(path.ends_with("launch/a.json"), "{} holds the secret", path.display());
        }
    });
    assert!(open.is_empty(), "others may look into {open:?}");
    world.throng(["stop", "a", "--team", "demo"]).run().ok();
    assert!(!world.team("demo").state_dir().join("launch/a.json").exists(), "it goes with the member");
}

#[test]
fn probe_q025_g06_case_c041_an_agent_that_fails_is_shown_with_code_and_last_lines() {
    let world = World::new();
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        command = ["sh", "-c", "echo working; echo no model key found >&2; exit 7"]
        [[member]]
        name = "b"
        tty = false
        command = ["sh", "-c", "echo nor here >&2; kill -9 $$"]
        "#,
    );
    let outcome = world.throng(["run", "t"]).run();
    outcome.code(1).complains("a exited 7").complains("b killed by signal 9");
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    outcome.check(
        "the last lines of who failed",
        all.contains("no model key found") && all.contains("nor here"),
    );
    let status = world.team("t").status();
    let exit = |name: &str| {
        let member = status["members"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap();
        assert_eq!(member["state"], "exited");
        member["exit"].clone()
    };
    assert_eq!((exit("a"), exit("b")), (json!({"code": 7}), json!({"signal": 9})));
    world.throng(["status", "--team", "t"]).run().ok().says("exited 7").says("killed by signal 9");
}

#[test]
fn case_c041_exit_codes_and_signals_are_in_the_status() {
    let world = World::new();
    let team = world.team("demo");
    for (name, script, exit) in [
        ("zero", "exit 0", json!({"code": 0})),
        ("seven", "exit 7", json!({"code": 7})),
        ("high", "exit 255", json!({"code": 255})),
        ("killed", "kill -9 $$", json!({"signal": 9})),
        ("term", "kill -TERM $$", json!({"signal": 15})),
    ] {
        world.throng(["spawn", name, "--team", "demo", "--", "sh", "-c", script]).run().ok();
        let member = team.until_member(name, "exited");
        assert_eq!(member["exit"], exit, "{name}");
        assert_eq!(member["pid"], json!(null), "{name}");
    }
    world.throng(["wait", "zero", "--team", "demo"]).run().ok();
    let wait = world.throng(["wait", "--team", "demo"]).run();
    wait.code(1).complains("seven exited 7").complains("killed killed by signal 9");
    wait.check("the good one is not blamed", !wait.stderr.contains("zero"));
}

/// Everything that a member could leave.
fn assert_nothing_of(world: &World, team: &str, name: &str) {
    let team = world.team(team);
    assert!(!team.roster().contains(&name.to_owned()), "no row");
    assert!(!team.inbox_path(name).exists(), "no inbox");
    assert!(!team.state_dir().join(format!("launch/{name}.json")).exists(), "no launch file");
    assert!(!team.state_dir().join(format!("members/{name}.json")).exists(), "no record");
    assert_eq!(team.member(name), json!(null), "no member in the status");
    assert!(world.processes_with(&format!("launch/{name}.json")).is_empty(), "no process");
}

#[test]
fn a_program_that_cannot_be_executed_is_exit_code_5_and_leaves_nothing() {
    let world = World::new();
    world.spawn_sleeper("demo", "other");
    let bad_interpreter = world.write("interpreter", "#!/no/such/interpreter\n");
    let no_program = world.write("garbage", [0x7f, b'E', b'L', b'F', 0, 0, 1]);
    for path in [&bad_interpreter, &no_program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir(world.path("folder")).unwrap();
    world.write("plain", "#!/bin/sh\n");
    for program in
        ["no-such-program", "./no-such-program", "./folder", "./plain", "./interpreter", "./garbage", ""]
    {
        let outcome =
            world.throng(["spawn", "bad", "--team", "demo", "--prompt", "hello", "--", program]).run();
        outcome.code(5).complains("bad was not started").complains(program).prints("");
        assert_nothing_of(&world, "demo", "bad");
    }
    assert_eq!(world.team("demo").member_state("other"), "ready", "the others go on");
    // The name is free.
    world.spawn_sleeper("demo", "bad");
    world.throng(["down", "demo"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_q027_g04_one_missing_program_makes_a_run_fail_with_5_and_leaves_nothing() {
    let world = World::new();
    let sleepers: String =
        (0..9).map(|n| format!("[[member]]\nname = \"m{n}\"\ncommand = [\"sleep\", \"600\"]\n")).collect();
    let bad = "[[member]]\nname = \"bad\"\ncommand = [\"no-such-program\", \"x\"]\n";
    world.write("t/team.toml", format!("[team]\nname = \"t\"\n{sleepers}{bad}"));
    let outcome = world.throng(["run", "t"]).run();
    outcome.code(5).complains("bad was not started").complains("no-such-program");
    world.assert_nothing_left();
    assert!(!world.team("t").dir().exists());
    // In JSON too.
    let events = world.throng(["run", "t", "--json"]).run().code(5).json_lines();
    let failed = events.iter().find(|e| e["event"] == "spawn_failed").expect("an event says why");
    assert!(failed["why"].as_str().unwrap().contains("no-such-program"), "{failed}");
    // And for a team that is to stay.
    world.throng(["up", "t"]).run().code(5).complains("no-such-program");
    world.assert_nothing_left();
    assert!(!world.team("t").dir().exists());
}

#[test]
fn a_spawn_that_fails_in_a_new_team_leaves_no_team_that_runs() {
    let world = World::new();
    world.throng(["spawn", "a", "--team", "new", "--", "no-such-program"]).run().code(5);
    world.assert_nothing_left();
    world.throng(["spawn", "a", "--team", "new", "--", "sleep", "600"]).run().ok();
    assert_eq!(world.team("new").roster(), ["team-lead", "a"]);
}

#[test]
fn probe_d21_q126_a_living_members_name_is_taken() {
    let world = World::new();
    world.spawn_sleeper("demo", "bob");
    let pid = world.team("demo").pid("bob");
    for name in ["bob", "BOB"] {
        let again = world.throng(["spawn", name, "--team", "demo", "--", "sleep", "600"]).run();
        again.code(2).complains("bob");
    }
    assert_eq!(world.team("demo").roster(), ["team-lead", "bob"]);
    assert_eq!(world.team("demo").pid("bob"), pid);
    assert!(process::is_running(pid));
    // Two at once: one wins.
    let spawn = || world.throng(["spawn", "ann", "--team", "demo", "--", "sleep", "600"]).start();
    let mut codes: Vec<i32> = [spawn(), spawn(), spawn()].map(|call| call.wait().code.unwrap()).into();
    codes.sort_unstable();
    assert_eq!(codes, [0, 2, 2]);
    assert_eq!(world.team("demo").roster(), ["team-lead", "bob", "ann"]);
    assert_eq!(world.processes_with("launch/ann.json").len(), 1, "one tend");
}

#[test]
fn probe_h05_a_name_is_free_again_when_its_member_has_ended() {
    let world = World::new();
    let team = world.team("demo");
    world.throng(["spawn", "bob", "--team", "demo", "--", "sh", "-c", "echo first"]).run().ok();
    team.until_member("bob", "exited");
    world.throng(["spawn", "bob", "--team", "demo", "--", "sleep", "600"]).run().ok();
    assert_eq!(team.member_state("bob"), "ready");
    assert_eq!(team.roster(), ["team-lead", "bob"], "no bob-2");
    // Killed with its tend, it is gone as well, and nothing is repaired by hand.
    let (agent, tend) = (team.pid("bob"), team.tend("bob"));
    process::signal(tend, Signal::SIGKILL);
    until("its terminal's end has ended the agent too", || !process::is_running(agent));
    team.until_member("bob", "lost");
    world.throng(["spawn", "bob", "--team", "demo", "--", "sleep", "600"]).run().ok();
    assert_eq!((team.member_state("bob"), team.roster().len()), ("ready".to_owned(), 2));
}

#[test]
fn probe_q077_the_cap_holds_for_later_spawns_too() {
    let world = World::new();
    world.write("t/team.toml", "[team]\nname = \"t\"\n[limits]\nagents = 2\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    world.throng(["up", "t"]).run().ok();
    let spawn = |name: &str| world.throng(["spawn", name, "--team", "t", "--", "sleep", "600"]).run();
    spawn("b").ok();
    spawn("c").code(5).complains("limits.agents is 2");
    assert_nothing_of(&world, "t", "c");
    world.throng(["stop", "b", "--team", "t"]).run().ok();
    spawn("c").ok();
    // More than the cap in a file is refused before anything starts.
    let many: String =
        (0..200).map(|n| format!("[[member]]\nname = \"m{n}\"\ncommand = [\"true\"]\n")).collect();
    world.write("u/team.toml", format!("[team]\nname = \"u\"\n{many}"));
    world.throng(["run", "u"]).run().code(2).complains("200 members, but limits.agents is 16");
    assert!(!world.team("u").state_dir().exists());
}

#[test]
fn probe_o01_starts_are_spread_by_their_rate() {
    let world = World::new();
    let members: String =
        (0..4).map(|n| format!("[[member]]\nname = \"m{n}\"\ncommand = [\"true\"]\n")).collect();
    world.write("t/team.toml", format!("[team]\nname = \"t\"\n[limits]\nstart_rate_per_s = 5\n{members}"));
    let outcome = world.throng(["run", "t", "--json"]).run();
    let events = outcome.ok().json_lines();
    let times = |kind: &str| -> Vec<i64> {
        let time =
            |e: &Value| e["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let mut times: Vec<i64> = events.iter().filter(|e| e["event"] == kind).map(time).collect();
        times.sort_unstable();
        times
    };
    let (begun, ready) = (times("team_started")[0], times("member_ready"));
    assert_eq!(ready.len(), 4);
    // Each is begun 200 ms after the one before; being ready takes a little more each time.
    for (n, ready) in (0..).zip(&ready) {
        assert!(ready - begun >= n * 200 - 1, "member {n} was ready {} ms after the start", ready - begun);
    }
    outcome.check("three pauses", outcome.took >= Duration::from_millis(600));
}

#[test]
fn restart_on_failure_starts_it_again_and_counts() {
    let world = World::new();
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        [[member]]
        name = "a"
        restart = "on-failure"
        command = ["sh", "-c", "echo x >> tries; [ $(wc -l < tries) -ge 2 ] || exit 3"]
        [[member]]
        name = "never"
        command = ["sh", "-c", "echo x >> once"]
        "#,
    );
    let outcome = world.throng(["run", "t"]).run();
    outcome.ok().says("exited 3, will be started again");
    assert_eq!((world.read("t/tries").as_str(), world.read("t/once").as_str()), ("x\nx\n", "x\n"));
    let status = world.team("t").status();
    let member = status["members"].as_array().unwrap().iter().find(|m| m["name"] == "a").unwrap().clone();
    assert_eq!((&member["restarts"], &member["exit"]), (&json!(1), &json!({"code": 0})));
    world.assert_nothing_left();
    // A killed one too, in the same place and under the same name.
    world.throng(["spawn", "b", "--team", "demo", "--restart", "always", "--", "sleep", "600"]).run().ok();
    let team = world.team("demo");
    let (first, tend) = (team.pid("b"), team.tend("b"));
    process::signal(first, Signal::SIGKILL);
    until("it runs again", || team.member("b")["pid"].as_i64().is_some_and(|pid| pid != i64::from(first)));
    assert_eq!((team.member("b")["restarts"].as_i64(), team.tend("b")), (Some(1), tend));
    world.throng(["stop", "b", "--team", "demo"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_j11_the_three_line_teammate_of_the_help_works() {
    let world = World::new();
    let help = world.throng(["help", "protocol"]).run();
    let lines: Vec<&str> =
        help.ok().stdout.lines().skip_while(|l| !l.trim_start().starts_with("task=$(")).take(3).collect();
    assert!(lines.len() == 3 && lines[2].contains("throng send lead -"), "{lines:?}");
    let script = format!("do_the_work() {{ echo \"did: $1\"; }}\n{}\n", lines.join("\n"));
    world.write("mate.sh", script);
    world.throng(["spawn", "mate", "--team", "demo", "--", "sh", "mate.sh"]).run().ok();
    world.throng(["send", "mate", "count to three", "--team", "demo"]).run().ok();
    let answer =
        world.throng(["inbox", "take", "--wait", "--timeout", "20s", "--team", "demo", "--json"]).run();
    let answer = answer.ok().json();
    assert_eq!(
        (answer["from"].as_str(), answer["text"].as_str()),
        (Some("mate"), Some("did: count to three"))
    );
    assert_eq!(world.team("demo").until_member("mate", "exited")["exit"], json!({"code": 0}));
}

#[test]
fn a_prompt_is_the_first_message() {
    let world = World::new();
    let long = "é".repeat(200_000);
    world.write("prompt.txt", &long);
    spawn_and_wait(&world, &["--prompt", "@prompt.txt", "--", "sh", "-c", "throng inbox take > got"]);
    assert_eq!(world.read("got"), format!("{long}\n"));
    world.write("t/team.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\nprompt = \"do it\"\ncommand = [\"sh\", \"-c\", \"throng inbox take --json > got\"]\n");
    world.throng(["run", "t"]).run().ok();
    let got: Value = serde_json::from_str(&world.read("t/got")).unwrap();
    assert_eq!((got["from"].as_str(), got["text"].as_str()), (Some("team-lead"), Some("do it")));
}

#[test]
fn spawns_at_once_into_a_team_that_is_not_there_make_one_team() {
    let world = World::new();
    for round in 0..5 {
        let team = format!("t{round}");
        let spawn = |name: &str| world.throng(["spawn", name, "--team", &team, "--", "sleep", "600"]).start();
        let spawns: Vec<_> = ["a", "b", "c", "d", "e", "f"].into_iter().map(spawn).collect();
        for spawn in spawns {
            spawn.wait().ok();
        }
        assert_eq!(world.team(&team).status()["members"].as_array().unwrap().len(), 6);
        world.throng(["down", &team, "--force"]).run().ok();
    }
    world.assert_nothing_left();
}

#[test]
fn a_team_that_was_made_for_a_member_that_does_not_start_goes_with_it() {
    let world = World::new();
    let program = world.write("broken", "no program\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    world.throng(["spawn", "a", "--team", "new", "--", program.to_str().unwrap()]).run().code(5);
    assert!(!world.team("new").dir().exists());
    world.throng(["spawn", "b", "--team", "new", "--", "sleep", "600"]).run().ok();
    world.throng(["spawn", "a", "--team", "new", "--", program.to_str().unwrap()]).run().code(5);
    assert_eq!(world.team("new").roster(), ["team-lead", "b"]);
    world.throng(["down", "new", "--force"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn a_respawn_of_a_stopped_member_leaves_its_record_as_it_is() {
    let world = World::new();
    world.throng(["spawn", "a", "--team", "t", "--", "sh", "-c", "echo a word; exec sleep 600"]).run().ok();
    until("it has printed", || world.throng(["screen", "a", "--team", "t"]).run().stdout.contains("a word"));
    world.throng(["stop", "a", "--team", "t"]).run().ok();
    world.throng(["respawn", "a", "--team", "t"]).run().code(5).complains("spawn it anew");
    world.throng(["logs", "a", "--team", "t"]).run().ok().says("a word");
    world.throng(["screen", "a", "--team", "t"]).run().ok().says("a word");
    assert_eq!(world.team("t").member("a")["exit"], json!({"signal": 15}));
    world.throng(["down", "t"]).run().ok();
}
