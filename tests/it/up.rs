//! `throng up` and the verbs that find a team running: they act on the files alone, from any process.

use crate::support::normalise::normalise;
use crate::support::{World, process, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

/// A team of two: one works on a task until it gets mail, one sleeps.
fn up(world: &World) {
    world.write(
        "t/team.toml",
        r#"
        [team]
        name = "t"
        [[member]]
        name = "worker"
        command = ["sh", "-c", "throng task claim first; echo begun; throng inbox take --wait; throng task done first; exec sleep 600"]
        [[member]]
        name = "idle"
        command = ["sleep", "600"]
        [[task]]
        key = "first"
        subject = "First"
        [[task]]
        key = "second"
        subject = "Second"
        owner = "idle"
        blocked_by = ["first"]
        "#,
    );
    world.throng(["up", "t"]).run().ok().says("team t is up").says("throng down t");
}

#[test]
fn it_returns_when_all_are_ready_and_leaves_one_leader() {
    let world = World::new();
    up(&world);
    let team = world.team("t");
    assert_eq!(
        (team.member_state("worker").as_str(), team.member_state("idle").as_str()),
        ("ready", "ready")
    );
    let status = team.status();
    assert_eq!((&status["state"], &status["mode"]), (&json!("led"), &json!("up")));
    let leaders = world.processes_with("lead");
    assert_eq!(leaders.len(), 1, "{leaders:?}");
    assert_eq!(team.leader(), leaders[0].pid);
    for (name, pid) in [("worker", team.pid("worker")), ("idle", team.pid("idle"))] {
        assert!(process::is_running(pid), "{name}");
    }
    // Nothing of the agents or their keepers is a child of who called.
    let ours = std::process::id().cast_signed();
    assert!(world.processes().iter().all(|p| p.parent != ours));
    world.throng(["down"]).run().ok().says("its leader, process").says("team t is down");
    world.assert_nothing_left();
}

#[test]
fn every_verb_works_on_it_from_another_process() {
    let world = World::new();
    up(&world);
    let team = world.team("t");
    // A team that is the only one needs no name.
    until("the task is begun", || team.task("1")["status"] == "in_progress");
    assert_eq!(team.task("1")["owner"], "worker");
    let expected = "team t: led by process PID, for N s, process\n\
         worker  working  N s  process PID  N MB in 2 processes  0 unread\n\
         idle  blocked  N s  process PID  N MB  0 unread\n\
         tasks: 0 of 2 completed";
    until("the worker waits for mail", || {
        let now = normalise(&world.throng(["status"]).run().ok().stdout, &world);
        // Between two of its programs it is one process.
        assert_eq!(now.replace(" in 2 processes", ""), expected.replace(" in 2 processes", ""));
        now == expected
    });
    until("it has said so", || world.throng(["logs", "worker"]).run().ok().stdout.contains("begun"));
    let follow = world.throng(["logs", "worker", "-f"]).start();
    follow.until_says("begun");
    let mail = world.throng(["inbox", "follow", "worker"]).start();
    world.throng(["send", "worker", "go on", "--from", "idle"]).run().ok();
    mail.until_says("idle: go on");
    follow.until_says("go on");
    world.throng(["screen", "worker"]).run().ok().says("go on");
    until("the first task is done", || team.task("1")["status"] == "completed");
    until("both show it", || {
        world.throng(["status"]).run().ok().stdout.lines().any(|l| l.starts_with("idle    ready"))
    });
    world.throng(["task", "claim", "second", "--wait"]).by("idle").run().ok();
    world.throng(["task", "done", "second", "--failed", "no reason"]).by("idle").run().ok();
    let list = world.throng(["task", "list"]).run();
    assert_eq!(list.ok().stdout, "1  completed  worker  First\n2  failed     idle    Second: no reason\n");
    let status = team.status();
    for (key, count) in [("all", 2), ("completed", 1), ("failed", 1)] {
        assert_eq!(status["tasks"][key], count, "{key}");
    }
    // The leader's mail is the person's.
    world.throng(["send", "lead", "question?"]).by("worker").run().ok();
    assert_eq!(team.status()["lead_unread"], 1);
    world.throng(["status"]).run().ok().says("mail for you: 1 unread");
    world.throng(["inbox", "list"]).run().ok().says("question?");
    world.throng(["inbox", "take"]).run().ok().prints("question?\n");
    world.throng(["wait", "--timeout", "100ms"]).run().code(124).complains("still running: worker, idle");
    world.throng(["stop", "worker"]).run().ok();
    let log = follow.wait();
    log.ok().says("begun");
    world.throng(["spawn", "third", "--", "sleep", "600"]).run().ok();
    assert_eq!(team.roster(), ["team-lead", "idle", "third"]);
    world.throng(["down", "t"]).run().ok();
    mail.wait().ok();
    world.assert_nothing_left();
    let gone = world.throng(["send", "idle", "x", "--team", "t"]).run();
    gone.code(3);
    world.throng(["down", "t"]).run().code(3).complains("has ended already");
}

#[test]
fn a_dead_members_tasks_are_freed_by_the_leader() {
    let world = World::new();
    up(&world);
    let team = world.team("t");
    until("the task is begun", || team.task("1")["status"] == "in_progress");
    process::signal(team.pid("worker"), Signal::SIGKILL);
    until("its task is nobody's", || team.task("1")["owner"] == Value::Null);
    let task = team.task("1");
    assert_eq!(
        (&task["status"], &task["metadata"]["throng"]["freed_from"]),
        (&json!("pending"), &json!("worker"))
    );
    // Somebody else may take it, and it counts as theirs.
    world.throng(["task", "claim", "first", "--as", "idle"]).run().ok();
    assert_eq!(team.task("1")["metadata"]["throng"]["freed_from"], Value::Null);
    world.throng(["send", "worker", "x", "--team", "t"]).run().code(3).complains("kept");
    world.throng(["down"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn probe_f09_m01_the_team_goes_on_without_its_leader() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let world = World::new();
        up(&world);
        let team = world.team("t");
        let (leader, pid) = (team.leader(), team.pid("idle"));
        process::signal(leader, signal);
        until("the leader is gone", || !process::is_running(leader));
        // Its lock goes with its last thread.
        until("it is without a leader", || team.status()["state"] == "without a leader");
        assert!(process::is_running(pid));
        world.throng(["send", "worker", "go on"]).run().ok();
        until("the work goes on", || team.task("1")["status"] == "completed");
        world.throng(["up", "t"]).run().code(2).complains("without a leader");
        world.throng(["down", "t"]).run().ok();
        assert!(!process::is_running(pid));
        world.assert_nothing_left();
        // And its name is free.
        up(&world);
    }
}

#[test]
fn a_leader_in_the_foreground_ends_with_its_team() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n",
    );
    let running = world.throng(["up", "t", "--foreground"]).start();
    running.until_says("team t is up");
    assert_eq!(world.team("t").leader(), running.pid());
    world.throng(["down", "t"]).run().ok();
    running.wait();
    world.assert_nothing_left();
}

#[test]
fn a_watcher_sees_each_change_and_the_end() {
    let world = World::new();
    up(&world);
    let watch = world.throng(["status", "--watch", "--json"]).start();
    watch.until_says("\"state\":\"led\"");
    world.throng(["stop", "idle"]).run().ok();
    until("it has seen the change", || watch.stdout().contains("\"signal\":15"));
    world.throng(["down"]).run().ok();
    let lines = watch.wait().ok().json_lines();
    assert!(lines.len() >= 3 && lines.windows(2).all(|w| w[0] != w[1]), "each line is news");
}

#[test]
fn probe_h04_tasks_are_kept_when_they_shall_be() {
    let world = World::new();
    up(&world);
    let team = world.team("t");
    world.throng(["task", "add", "By hand"]).run().ok();
    world.throng(["down", "t", "--keep-tasks"]).run().ok();
    assert!(!team.dir().exists());
    assert_eq!(team.task("3")["subject"], "By hand");
    // The next team of the name finds them, and nothing of them is lost on the way.
    let again = world.throng(["up", "t"]).run();
    assert!(team.task_path("3").exists(), "{again:?}");
    again.ok();
    assert_eq!(team.task("3")["subject"], "By hand");
    let list = world.throng(["task", "list", "--json"]).run();
    let subjects: Vec<String> = list.ok().json()["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["subject"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(subjects.iter().filter(|s| *s == "By hand").count(), 1);
    world.throng(["down", "t"]).run().ok();
    assert!(!team.tasks_dir().exists(), "otherwise they go with the team");
    assert!(team.state_dir().join("final/tasks/3.json").exists(), "to a place where they can be found");
}

#[test]
fn probe_q019_a_member_can_end_its_own_team() {
    let world = World::new();
    world.write(
        "t/team.toml",
        "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"throng inbox take --wait; throng down; sleep 600\"]\n[[member]]\nname = \"b\"\ncommand = [\"sleep\", \"600\"]\n",
    );
    world.throng(["up", "t"]).run().ok();
    world.throng(["send", "a", "end it"]).run().ok();
    until("all have ended", || world.processes().is_empty());
    assert_eq!(world.team("t").status()["state"], "ended");
    world.assert_nothing_left();
}

#[test]
fn probe_d25_two_teams_do_not_meet() {
    let world = World::new();
    for team in ["one", "two"] {
        world.spawn_sleeper(team, "bob");
    }
    world.throng(["status"]).run().code(2).complains("several teams run: say --team NAME (one, two)");
    world.throng(["send", "bob", "x", "--team", "one"]).run().ok();
    world.throng(["task", "add", "x", "--team", "one"]).run().ok();
    assert!(world.team("two").inbox("bob").is_empty() && !world.team("two").task_path("1").exists());
    world.throng(["down", "one"]).run().ok();
    assert_eq!(world.team("two").member_state("bob"), "ready");
    world.throng(["down"]).run().ok().says("team two is down");
    world.assert_nothing_left();
}

#[test]
fn probe_f12_gc_removes_what_ended_and_crashed_teams_left_and_nothing_else() {
    let world = World::new();
    world.throng(["gc"]).run().ok().prints("nothing to remove\n");
    world.write("t/team.toml", "[team]\nname = \"t\"\n[[member]]\nname = \"a\"\ncommand = [\"true\"]\n");
    world.throng(["run", "t"]).run().ok();
    world.throng(["run", "t"]).run().ok();
    world.spawn_sleeper("alive", "a");
    world.spawn_sleeper("crashed", "a");
    world.plant_team("foreign", &["x"]);
    let crashed = world.team("crashed");
    let (agent, tend) = (crashed.pid("a"), crashed.tend("a"));
    process::signal(tend, Signal::SIGKILL);
    until("agent and keeper are gone", || !process::is_running(agent));
    let dry = world.throng(["gc", "--dry-run"]).run();
    dry.ok()
        .says("would remove team t, ended")
        .says("would remove team crashed, crashed")
        .says("would remove earlier team t-");
    dry.check(
        "not what lives or is another's",
        !dry.stdout.contains("alive") && !dry.stdout.contains("foreign"),
    );
    assert!(world.team("t").state_dir().exists() && crashed.dir().exists(), "nothing was removed");
    world.throng(["gc"]).run().ok().says("removed team crashed");
    for team in ["t", "crashed"] {
        assert!(!world.team(team).state_dir().exists() && !world.team(team).dir().exists(), "{team}");
    }
    assert_eq!(fs::read_dir(world.state_dir().join("ended")).map_or(0, Iterator::count), 0);
    let births = fs::read_dir(world.state_dir().join("births")).unwrap();
    let births: Vec<_> = births.map(|e| e.unwrap().file_name()).collect();
    assert_eq!(births, ["alive.lock"], "names that no team has need no lock");
    assert_eq!(world.team("alive").member_state("a"), "ready");
    assert!(world.team("foreign").config_path().exists());
    world.throng(["gc"]).run().ok().prints("nothing to remove\n");
}

#[test]
fn probe_f12_gc_leaves_alone_what_still_runs_and_down_ends_it() {
    let world = World::new();
    let stubborn = crate::support::fake("stubborn.sh");
    world.throng(["spawn", "a", "--team", "t", "--", "sh", &stubborn]).run().ok();
    let team = world.team("t");
    let log = team.state_dir().join("logs/a.log");
    until("it is deaf", || fs::read_to_string(&log).is_ok_and(|l| l.contains("deaf")));
    let (agent, tend) = (team.pid("a"), team.tend("a"));
    process::signal(tend, Signal::SIGKILL);
    team.until_member("a", "lost");
    assert!(process::is_running(agent));
    world.throng(["gc"]).run().ok();
    assert!(process::is_running(agent) && team.dir().exists(), "it may still be at work");
    world.throng(["down", "t"]).run().ok();
    assert!(!process::is_running(agent), "a stray of ours is ended");
    world.throng(["gc"]).run().ok().says("removed team t");
    world.assert_nothing_left();
}

#[test]
fn bare_throng_shows_what_runs_and_the_next_step() {
    let world = World::new();
    world.throng::<&str>([]).run().ok().says("no teams yet").says("throng run FILE").says("throng doctor");
    up(&world);
    world.throng::<&str>([]).run().ok().says("t  led").says("2 alive").says("throng status --team NAME");
    world.throng(["down"]).run().ok();
    world.throng::<&str>([]).run().ok().says("t  ended");
}

#[test]
fn what_a_killed_writer_was_about_to_rename_is_not_kept() {
    let world = World::new();
    world.throng(["spawn", "a", "--team", "t", "--", "sleep", "600"]).run().ok();
    let team = world.team("t");
    let temporary = team.inbox_path("a").with_extension("json.tmp.0123abcd");
    let other = team.inbox_path("a").with_extension("json.tmp.mine");
    fs::write(&temporary, "[").unwrap();
    fs::write(&other, "a user's").unwrap();
    world.throng(["down", "t"]).run().ok();
    let kept = team.state_dir().join("final/team/inboxes");
    assert!(kept.join("a.json").exists() && kept.join("a.json.tmp.mine").exists());
    assert!(!kept.join("a.json.tmp.0123abcd").exists());
}
