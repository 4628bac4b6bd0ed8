//! What is asked of tmux in one call, seen by a program that stands before the real one.

use crate::support::tmux::{Tmux, search_path, sleepers};
use crate::support::{Call, World};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

/// Puts a script before tmux, in which `$tmux` is the real one and which goes on with it; answers the search path.
fn before_tmux(world: &World, script: &str) -> std::ffi::OsString {
    let real =
        std::env::split_paths(&search_path()).map(|dir| dir.join("tmux")).find(|p| p.exists()).unwrap();
    let fakes = world.path("fakes");
    let script = format!("#!/bin/sh\ntmux={}\n{script}\nexec \"$tmux\" \"$@\"\n", real.display());
    let fake = world.write("fakes/tmux", script);
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::env::join_paths(std::iter::once(fakes).chain(std::env::split_paths(&search_path()))).unwrap()
}

fn calls(log: &PathBuf) -> Vec<String> {
    fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect()
}

fn are_all_ready(world: &World, count: usize) {
    let status = world.team("t").status();
    let members = status["members"].as_array().unwrap();
    assert_eq!(members.len(), count);
    assert!(members.iter().all(|m| m["state"] == "ready"), "{status:#}");
    let pane = |m: &serde_json::Value| m["place"]["pane"].to_string();
    assert_eq!(members.iter().map(pane).collect::<HashSet<_>>().len(), count, "each has its own pane");
}

fn up(call: Call, path: &std::ffi::OsStr) {
    call.env("PATH", path).run().ok();
}

#[test]
fn goal_p3_members_that_wait_are_placed_in_one_call_and_dressed_with_others() {
    let world = World::new();
    let log = world.path("calls");
    // The first call that opens a pane waits until all twelve members have their rows.
    let team = world.team("t").dir().join("config.json");
    let script = format!(
        "case \"$*\" in *' new-session '*) until [ \"$(grep -c agentId '{}')\" -ge 12 ]; do sleep 0.02; done;; esac\n\
         echo \"$*\" >> '{}'",
        team.display(),
        log.display()
    );
    let path = before_tmux(&world, &script);
    world.write("t.toml", sleepers(12));
    up(world.throng(["up", "t.toml", "--backend", "tmux"]), &path);
    are_all_ready(&world, 12);
    let calls = calls(&log);
    let opened = |call: &String| {
        ["new-session", "new-window", "split-window"]
            .iter()
            .map(|word| call.matches(word).count())
            .sum::<usize>()
    };
    assert_eq!(calls.iter().map(opened).sum::<usize>(), 12);
    let opening = calls.iter().filter(|call| opened(call) > 0).count();
    assert!(opening <= 6, "{opening} calls for 12 panes: {calls:#?}");
    // Every pane has its token, whichever call brought it.
    let tokens: usize = calls.iter().map(|call| call.matches("@throng_token").count()).sum();
    assert_eq!(tokens, 12);
    world.throng(["down", "t"]).run().ok();
    world.assert_nothing_left();
}

#[test]
fn goal_p3_case_c044_a_spot_that_goes_away_in_the_middle_of_a_call_costs_nobody_his_pane() {
    let world = World::new();
    let tmux = Tmux::start(&world, (240, 60), "");
    // A user's split makes %1, which no call of ours may touch. Once, the last pane that a call splits is closed before it.
    tmux.ask(&["split-window", "-d", "-t", "%0", "--", "sleep", "600"]);
    let users = "#{pane_id} #{pane_pid} #{pane_active}";
    let before = tmux.panes(users);
    let (once, gone) = (world.path("once"), world.path("gone"));
    let team = world.team("t").dir().join("config.json");
    let script = format!(
        "case \"$*\" in *' split-window '*) until [ \"$(grep -c agentId '{}')\" -ge 16 ]; do sleep 0.02; done;; esac\n\
         first= last= flag=\nfor word; do\n  [ \"$word\" != list-panes ] || break\n  case \"$flag $word\" in '-t %'*) first=${{first:-$word}} last=$word;; esac\n  flag=$word\ndone\n\
         case \"$*\" in *split-window*split-window*)\n  if [ \"$first\" != \"$last\" ] && mkdir '{}' 2>/dev/null; then\n    \
         \"$tmux\" -S '{}' kill-pane -t \"$last\"; echo \"$last\" > '{}'\n  fi;; esac",
        team.display(),
        once.display(),
        world.tmux_socket().display(),
        gone.display()
    );
    let path = before_tmux(&world, &script);
    world.write("t.toml", sleepers(16));
    up(tmux.throng(&["up", "t.toml"]), &path);
    let status = world.team("t").status();
    let members = status["members"].as_array().unwrap();
    let closed = fs::read_to_string(&gone).unwrap().trim().to_owned();
    let (lost, ready): (Vec<_>, Vec<_>) = members.iter().partition(|m| m["place"]["pane"] == closed.as_str());
    assert_eq!((lost.len(), ready.len()), (1, 15), "{closed}: {status:#}");
    assert!(ready.iter().all(|m| m["state"] == "ready"), "{status:#}");
    let after = tmux.panes(users);
    assert!(before.iter().all(|pane| after.contains(pane)), "{before:#?}\n{after:#?}");
    world.throng(["down", "t"]).run().ok();
    assert_eq!(tmux.panes(users), before);
}
