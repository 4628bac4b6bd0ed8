//! What the rules of settings files make of tool calls: the public tables and our own, asked of the real program.

use crate::support::call::Outcome;
use crate::support::{World, fixture};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

/// A world with no settings but its own: the administrator's are kept out.
struct Desk {
    world: World,
}

impl Desk {
    fn new() -> Desk {
        let world = World::new();
        world.write("src/main.rs", "x");
        Desk { world }
    }

    fn with_project_settings(text: &str) -> Desk {
        let desk = Desk::new();
        desk.world.write(".claude/settings.json", text);
        desk
    }

    fn run(&self, words: &[&str]) -> Outcome {
        let managed = self.world.root().join("managed/managed-settings.json");
        self.world.throng(["permissions"].iter().chain(words)).env("THRONG_MANAGED_SETTINGS", managed).run()
    }

    fn explain(&self, call: &str, more: &[&str]) -> Value {
        let words: Vec<&str> = ["explain", call, "--json"].iter().chain(more).copied().collect();
        let outcome = self.run(&words);
        let verdict = outcome.json();
        let code = match verdict["decision"].as_str() {
            Some("allow") => 0,
            Some("deny") => 1,
            _ => 7,
        };
        outcome.code(code).check("no complaint", outcome.stderr.is_empty());
        verdict
    }
}

/// The characters that a table writes with a backslash.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some(next)) => {
                chars.next();
                out.push(match next {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                });
            }
            _ => out.push(c),
        }
    }
    out
}

/// Each line of a public case: a command and its decision, where some are a choice.
fn holds(case: &str) {
    let settings = fs::read_to_string(fixture(&format!("{case}/settings.json"))).unwrap();
    let desk = Desk::with_project_settings(&settings);
    let table = fs::read_to_string(fixture(&format!("{case}/commands.tsv"))).unwrap();
    let mut wrong = Vec::new();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert!(rows.len() >= 10, "{case}");
    for row in rows {
        let (command, expected) = row.split_once('\t').unwrap();
        let verdict = desk.explain(&format!("Bash({})", unescaped(command)), &[]);
        let decision = verdict["decision"].as_str().unwrap();
        if !expected.split(" or ").any(|word| word.split(' ').next() == Some(decision)) {
            wrong.push(format!("{command}: {expected}, not {verdict}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn case_c097_each_part_of_a_chained_command_must_be_allowed() {
    holds("C097");
}

#[test]
fn case_c099_a_substitution_is_never_allowed_by_what_surrounds_it() {
    holds("C099");
}

#[test]
fn case_c101_a_prefix_ends_at_a_word() {
    holds("C101");
    // The choice is documented: a word's boundary.
    let settings = fs::read_to_string(fixture("C101/settings.json")).unwrap();
    let desk = Desk::with_project_settings(&settings);
    assert_eq!(desk.explain("Bash(npm run test:unit)", &[])["decision"], "ask");
}

#[test]
fn case_c102_a_redirection_is_judged_as_an_edit() {
    holds("C102");
}

/// Settings of all four files, links, and what lies in places that rules name.
fn furnished() -> Desk {
    let desk = Desk::new();
    let world = &desk.world;
    let settings = |name: &str| fs::read_to_string(fixture(&format!("permissions/{name}.json"))).unwrap();
    fs::create_dir(world.root().join("managed")).unwrap();
    fs::write(world.root().join("managed/managed-settings.json"), settings("managed")).unwrap();
    fs::write(world.config_dir().join("settings.json"), settings("user")).unwrap();
    world.write(".claude/settings.json", settings("project"));
    world.write(".claude/settings.local.json", settings("local"));
    for file in [".env", "src/.env", "docs/x", "vendor/x", "notes/x"] {
        world.write(file, "x");
    }
    for dir in ["other", "outside"] {
        fs::create_dir(world.root().join(dir)).unwrap();
    }
    symlink(world.root().join("outside"), world.path("link")).unwrap();
    symlink(world.root().join("outside"), world.path("docs/link")).unwrap();
    symlink(".env", world.path("envlink")).unwrap();
    desk
}

#[test]
fn goal_f1_our_own_table_of_calls_with_the_deciding_rule() {
    let desk = furnished();
    let table = fs::read_to_string(fixture("permissions/commands.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    assert!(rows.len() >= 200, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let [mode, call, decision, decider] = row.as_slice() else { panic!("{row:?}") };
        let verdict = desk.explain(&unescaped(call), &["--mode", mode]);
        let reason = verdict["reason"].as_str().unwrap();
        let is_right = verdict["decision"] == *decision
            && match decider.strip_prefix('~') {
                Some(words) => verdict["rule"].is_null() && reason.contains(words),
                None => verdict["rule"]["text"] == *decider && verdict["rule"]["file"].is_string(),
            };
        if !is_right {
            wrong.push(format!("{}\n  {verdict}", row.join("  ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn the_reason_names_rule_file_and_part() {
    let desk = furnished();
    let outcome = desk.run(&["explain", "Bash(make && curl x > y)"]);
    let managed = desk.world.root().join("managed/managed-settings.json");
    let rule = format!("deny rule Bash(curl *) of {} (managed)", managed.display());
    outcome.code(1).says(&format!("deny  curl x: {rule}")).says("  allow  make").says("  ask    > y");
    let listed = desk.run(&["list"]);
    listed.ok().says("Bash(curl *)").says(&managed.display().to_string()).says("directory");
    let all = desk.run(&["list", "--json"]).json();
    let layers: Vec<&str> =
        all["files"].as_array().unwrap().iter().map(|file| file["layer"].as_str().unwrap()).collect();
    assert_eq!(layers, ["managed", "local", "project", "user"]);
    assert!(all["rules"].as_array().unwrap().len() > 30 && all["directories"].as_array().unwrap().len() == 2);
}

#[test]
fn a_bad_rule_or_field_is_an_error_that_names_it() {
    for (text, expected) in [
        (r#"{"permissions": {"deny": ["Bash(rm"]}}"#, "permissions.deny: \"Bash(rm\": its '(' is not closed"),
        (r#"{"permissions": {"deny": ["Bash(command:rm *)"]}}"#, "write Bash(...) without 'command:'"),
        (r#"{"permissions": {"ask": ["WebFetch(x.org)"]}}"#, "write WebFetch(domain:example.com)"),
        (r#"{"permissions": {"deny": "Bash"}}"#, "permissions.deny: it is a text, not a list of texts"),
        (r#"{"permissions": {"allow": [1]}}"#, "permissions.allow[0]: it is a number, not a text"),
        (r#"{"permissions": {"defaultMode": "bypas"}}"#, "permissions.defaultMode: \"bypas\": unknown"),
        ("{", "it is no JSON"),
        ("[]", "it is a list, not an object"),
    ] {
        let desk = Desk::with_project_settings(text);
        for words in [&["list"][..], &["explain", "Bash(ls)"]] {
            let outcome = desk.run(words);
            outcome.code(2).complains("here/.claude/settings.json").complains(expected);
        }
    }
    let desk = Desk::with_project_settings(
        "\u{feff}{\"hooks\": 3, \"permissions\": {\"new\": 1, \"allow\": [\"mcp__*\", \"Bash(command:x)\"]}}",
    );
    desk.run(&["list"]).ok().says("\"mcp__*\" allows nothing").says("\"Bash(command:x)\" allows nothing");
    assert_eq!(desk.explain("mcp__a__b", &[])["decision"], "ask");
}

#[test]
fn the_mode_is_that_of_the_files_unless_it_is_forbidden() {
    let desk = Desk::with_project_settings(r#"{"permissions": {"defaultMode": "acceptEdits"}}"#);
    assert_eq!(desk.explain("Edit(src/main.rs)", &[])["mode"], "acceptEdits");
    let user = desk.world.config_dir().join("settings.json");
    fs::write(&user, r#"{"permissions": {"defaultMode": "bypassPermissions"}}"#).unwrap();
    assert_eq!(desk.explain("Edit(src/main.rs)", &[])["mode"], "acceptEdits", "the project's goes before it");
    desk.world.write(".claude/settings.json", r#"{"permissions": {"defaultMode": "bypassPermissions"}}"#);
    desk.world.write(".claude/settings.local.json", r#"{"permissions": {"defaultMode": "auto"}}"#);
    assert_eq!(desk.explain("Bash(x)", &[])["mode"], "default", "auto is none of ours");
    desk.world.write(".claude/settings.local.json", "{}");
    assert_eq!(desk.explain("Bash(x)", &[])["mode"], "bypassPermissions", "the user's own word");
    fs::write(&user, "{}").unwrap();
    assert_eq!(desk.explain("Bash(x)", &[])["decision"], "ask", "not the project's");
    desk.run(&["list"]).ok().says("bypassPermissions does not count from here");
    fs::create_dir_all(desk.world.root().join("managed")).unwrap();
    let managed = desk.world.root().join("managed/managed-settings.json");
    fs::write(managed, r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#).unwrap();
    let verdict = desk.explain("Bash(x)", &["--mode", "bypassPermissions"]);
    assert_eq!((&verdict["mode"], &verdict["decision"]), (&"default".into(), &"ask".into()));
}

#[test]
fn managed_settings_may_be_in_pieces_and_may_be_the_only_ones_that_allow() {
    let desk = Desk::with_project_settings(
        r#"{"permissions": {"allow": ["Bash(x *)", "Bash(y *)"], "deny": ["Bash(z *)"]}}"#,
    );
    let dir = desk.world.root().join("managed/managed-settings.d");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("10-a.json"), r#"{"permissions": {"deny": ["Bash(x *)"], "allow": ["Bash(v *)"]}}"#)
        .unwrap();
    fs::write(dir.join(".hidden.json"), "not even JSON").unwrap();
    assert_eq!(desk.explain("Bash(x 1)", &[])["decision"], "deny");
    assert_eq!(desk.explain("Bash(y 1)", &[])["decision"], "allow");
    fs::write(dir.join("20-b.json"), r#"{"allowManagedPermissionRulesOnly": true}"#).unwrap();
    assert_eq!(desk.explain("Bash(y 1)", &[])["decision"], "ask");
    assert_eq!(desk.explain("Bash(v 1)", &[])["decision"], "allow");
    assert_eq!(desk.explain("Bash(z 1)", &[])["decision"], "deny", "a no of others stays");
}

#[test]
fn local_settings_of_the_main_checkout_bind_its_worktrees() {
    let desk = Desk::new();
    let git = |words: &[&str]| {
        let outcome =
            desk.world.program("git").args(["-c", "user.name=x", "-c", "user.email=x"]).args(words).run();
        outcome.code(0);
    };
    git(&["init", "-q", "."]);
    git(&["add", "src"]);
    git(&["commit", "-qm", "x"]);
    git(&["worktree", "add", "-q", "tree"]);
    desk.world.write(".claude/settings.local.json", r#"{"permissions": {"deny": ["Bash(x *)"]}}"#);
    let tree = desk.world.path("tree").to_string_lossy().into_owned();
    assert_eq!(desk.explain("Bash(x 1)", &["--cwd", &tree])["decision"], "deny");
    let below = desk.world.path("tree/src").to_string_lossy().into_owned();
    assert_eq!(desk.explain("Bash(x 1)", &["--cwd", &below])["decision"], "deny");
}

#[test]
fn a_call_that_is_none_is_said() {
    let desk = Desk::new();
    for (words, expected) in [
        (&["explain", "Bash(ls"][..], "has no ')' at its end"),
        (&["explain", "TodoWrite(x)"], "--input JSON"),
        (&["explain", "Bash", "--input", "{"], "--input is no JSON"),
        (&["explain", "Bash(ls)", "--input", "{}"], "either parentheses or --input"),
        (&["explain", "Bash(ls)", "--mode", "plam"], "known: default"),
        (&["explain", "Bash(ls)", "--cwd", "nowhere"], "there is no directory"),
    ] {
        desk.run(words).code(2).complains(expected);
    }
    let verdict =
        desk.explain("Bash", &["--input", r#"{"command": "ls", "dangerouslyDisableSandbox": true}"#]);
    assert_eq!(verdict["decision"], "ask");
}
