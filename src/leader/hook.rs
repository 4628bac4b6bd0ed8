//! The team file's approval hook: how it is asked, and what it means.

use super::Led;
use super::approvals::{Asked, about};
use crate::hooks::{self, Hook, Said};
use crate::protocol::approval::{Kind, MODES, Terms, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest feedback that is taken from a hook's complaint, in characters.
const FEEDBACK_CHARS_MAX: usize = 4000;
/// What a hook may print on its standard output.
const HOOK_KEYS: [&str; 3] = ["mode", "feedback", "updated_input"];
/// Exit code of a hook that says no.
const NO: i32 = 2;

/// The verdict of a hook that ended, or what is wrong with it.
pub(super) fn meant(kind: Kind, code: Option<i32>, stdout: &str, stderr: &str) -> Result<Verdict, String> {
    let complaint = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
    let terms = match code {
        None => return Err(format!("was ended by a signal{complaint}")),
        Some(0 | NO) => terms(stdout)?,
        Some(code) => return Err(format!("failed with exit code {code}{complaint}")),
    };
    let text = |key: &str| match terms.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("printed a '{key}' that is no text")),
    };
    let (mode, feedback) = (text("mode")?, text("feedback")?);
    if code == Some(NO) {
        let said = feedback.unwrap_or_else(|| stderr.chars().take(FEEDBACK_CHARS_MAX).collect());
        let said = if said.is_empty() { "denied by the approval hook".to_owned() } else { said };
        return Ok(Verdict::Deny(said));
    }
    if let Some(mode) = mode.as_ref().filter(|mode| !MODES.contains(&mode.as_str())) {
        return Err(format!("printed an unknown mode '{mode}': known are {}", MODES.join(", ")));
    }
    let input = terms.get("updated_input").filter(|input| !input.is_null()).cloned();
    match &input {
        Some(_) if kind != Kind::Permission => {
            return Err("printed an updated_input for what has no input".to_owned());
        }
        Some(input) if !input.is_object() => {
            return Err("printed an updated_input that is no JSON object".to_owned());
        }
        _ => {}
    }
    Ok(Verdict::Allow(Terms { mode, input, updates: Vec::new() }))
}

/// What a hook printed. A yes that cannot be read whole might have meant something else.
fn terms(stdout: &str) -> Result<Map<String, Value>, String> {
    if stdout.trim().is_empty() {
        return Ok(Map::new());
    }
    let terms: Map<String, Value> = serde_json::from_str(stdout)
        .map_err(|_| "printed what is no JSON object: it belongs on standard error".to_owned())?;
    match terms.keys().find(|key| !HOOK_KEYS.contains(&key.as_str())) {
        Some(key) => Err(format!("printed an unknown key '{key}': known are {}", HOOK_KEYS.join(", "))),
        None => Ok(terms),
    }
}

/// Asks the team file's hook, beside the loop.
pub(super) fn ask_hook(led: &Led, asked: &Asked, is_wanted: &dyn Fn() -> bool) -> Said {
    let Some(hook) = &led.manifest.approvals.hook else {
        return Said::NotRun("the team file has none".to_owned());
    };
    let (layout, environment) = (led.store.layout(), &led.config.environment);
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let mut env = BTreeMap::from([
        ("THRONG_TEAM".to_owned(), led.store.name().to_string()),
        ("THRONG_DIR".to_owned(), text(&led.manifest.dir)),
        ("THRONG_STATE_DIR".to_owned(), text(&layout.state_dir)),
        ("PATH".to_owned(), format!("{}:{}", text(&led.store.state().bin()), environment.search_path())),
    ]);
    // Naming it makes Claude Code look for its settings and its login elsewhere, even where it is the usual one.
    if environment.names_config_dir() {
        env.insert("CLAUDE_CONFIG_DIR".to_owned(), text(&layout.config_dir));
    }
    let timeout = Duration::from_millis(hook.timeout_ms);
    let hook = Hook { event: "approval", command: &hook.command, cwd: &hook.cwd, env: &env, timeout };
    let mut input = about(asked);
    input["team"] = json!(led.store.name());
    hooks::run(&hook, &input, is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hook_means() {
        let yes = |stdout: &str| meant(Kind::Permission, Some(0), stdout, "");
        assert_eq!(yes(" \n"), Ok(Verdict::allow()));
        let terms = Terms { input: Some(json!({"command": "ls"})), ..Terms::default() };
        assert_eq!(yes(r#"{"updated_input": {"command": "ls"}}"#), Ok(Verdict::Allow(terms)));
        let mode = Terms { mode: Some("acceptEdits".into()), ..Terms::default() };
        let plan = meant(Kind::Plan, Some(0), r#"{"mode": "acceptEdits"}"#, "chatter");
        assert_eq!(plan, Ok(Verdict::Allow(mode)));
        for bad in [
            "ok",
            "{\"updated_input\": {\"comm",
            "[]",
            "{} {}",
            r#"{"allow": true}"#,
            r#"{"mode": "yolo"}"#,
            r#"{"mode": 3}"#,
            r#"{"updated_input": "ls"}"#,
        ] {
            assert!(yes(bad).is_err(), "{bad}");
        }
        assert!(meant(Kind::Plan, Some(0), r#"{"updated_input": {}}"#, "").is_err());
        let no = |stdout: &str, stderr: &str| meant(Kind::Permission, Some(2), stdout, stderr).unwrap();
        assert_eq!(no("", "not on Fridays"), Verdict::Deny("not on Fridays".into()));
        assert_eq!(no(r#"{"feedback": "f"}"#, "chatter"), Verdict::Deny("f".into()));
        assert_eq!(no("", ""), Verdict::Deny("denied by the approval hook".into()));
        let failed = meant(Kind::Permission, Some(1), "", "oops").unwrap_err();
        assert_eq!(failed, "failed with exit code 1: oops");
        assert!(
            meant(Kind::Permission, None, "", "").is_err() && meant(Kind::Plan, Some(126), "", "").is_err()
        );
    }
}
