//! The example teams: what the documents promise of them is so.

use crate::support::{Outcome, World};
use std::fs;

fn copy_in(world: &World) {
    for team in ["checks", "checks-faulty"] {
        world.copy_in(&format!("teams-example/{team}"));
    }
}

fn report(world: &World, team: &str) -> String {
    let path = world.team(team).state_dir().join("out/report.md");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn run(world: &World, team: &str) -> Outcome {
    world
        .throng(["run", &format!("teams-example/{team}"), "--timeout", "5m"])
        .timeout(std::time::Duration::from_secs(300))
        .run()
}

fn assert_has_rows(report: &str, rows: &[&str]) {
    for row in rows {
        assert!(report.lines().any(|l| l == *row), "{row}\n{report}");
    }
}

#[test]
fn a_sound_crate_passes_all_checks() {
    let world = World::new();
    copy_in(&world);
    run(&world, "checks").ok().says("4 tasks completed, 0 failed").says("All checks passed.");
    assert_has_rows(
        &report(&world, "checks"),
        &["All checks passed.", "| fmt | PASS |", "| lint | PASS |", "| tests | PASS |"],
    );
    world.assert_nothing_left();
    assert!(
        !world.path("teams-example/checks/crate/target").exists(),
        "the crate's own target is left alone"
    );
}

#[test]
fn a_planted_fault_fails_the_run_and_the_report_names_it() {
    let world = World::new();
    copy_in(&world);
    let outcome = run(&world, "checks-faulty");
    outcome
        .code(1)
        .complains("'The tests pass' failed")
        .complains("and all checks passed' failed: Failed: tests.");
    let report = report(&world, "checks-faulty");
    assert_has_rows(&report, &["Failed: tests.", "| fmt | PASS |", "| lint | PASS |", "| tests | FAIL |"]);
    assert!(report.contains("total_counts_every_piece"), "{report}");
    world.assert_nothing_left();
}

#[test]
fn a_mail_that_was_never_sent_fails_the_run() {
    let world = World::new();
    copy_in(&world);
    let script = world.read("teams-example/checks/check.sh");
    let suppressed = script.replace(
        "} | throng send reporter -",
        "} | if [ \"$THRONG_AGENT\" = lint ]; then cat; else throng send reporter -; fi",
    );
    assert_ne!(script, suppressed);
    world.write("teams-example/checks/check.sh", suppressed);
    run(&world, "checks").code(1).complains("Failed: lint.");
    assert_has_rows(&report(&world, "checks"), &["| fmt | PASS |", "| lint | MISSING |", "| tests | PASS |"]);
    world.assert_nothing_left();
}
