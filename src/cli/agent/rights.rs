//! What an agent may do, from the settings files and from flags (F1).

use crate::cli::context::Context;
use crate::cli::error::{Failure, Result};
use crate::config::Settings;
use crate::config::settings::Layer;
use crate::permission::{Decision, Mode, Rules, Source};
use crate::session::{Approver, Permits};
use std::path::Path;
use std::sync::Arc;

/// Verbs of throng with which a member takes part in its team: it need not ask for them.
const MEMBERS_VERBS: [&str; 4] = ["send", "task", "inbox", "status"];

/// Rights of one agent, on top of those of the settings files.
#[derive(Debug, Clone, clap::Args)]
pub struct Rights {
    /// What it may do without asking: default, acceptEdits, plan, dontAsk, bypassPermissions (default: the settings')
    #[arg(long, value_name = "MODE", value_parser = mode)]
    permission_mode: Option<Mode>,
    /// Allow this without asking, besides what the settings allow: 'Bash(cargo test:*)'
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Refuse this, whatever else allows it
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
}

/// A permission mode.
pub fn mode(word: &str) -> std::result::Result<Mode, String> {
    Mode::parse(word).ok_or_else(|| {
        let words: Vec<&str> = Mode::WORDS.iter().map(|(word, _)| *word).collect();
        format!("known: {}", words.join(", "))
    })
}

impl Rights {
    /// What an agent may do that works in `directory`.
    ///
    /// # Errors
    /// A settings file or a rule that cannot be read.
    pub fn permits(&self, context: &Context, directory: &Path, approver: Approver) -> Result<Permits> {
        let settings = Settings::read(&context.config.environment, &context.config.layout, directory)?;
        let bad = |e: crate::permission::RuleError| Failure::usage(e.to_string());
        let mut rules = Rules::new(&settings).map_err(bad)?;
        let source = Source { layer: Layer::Session, file: None, anchor: rules.place.start.clone() };
        for (decision, texts) in [(Decision::Allow, &self.allow), (Decision::Deny, &self.deny)] {
            for text in texts {
                rules.add(decision, text, &source).map_err(bad)?;
            }
        }
        if matches!(approver, Approver::Leader(_)) {
            let source = Source { layer: Layer::Team, ..source };
            for verb in MEMBERS_VERBS {
                rules.add(Decision::Allow, &format!("Bash(throng {verb}:*)"), &source).map_err(bad)?;
            }
        }
        let mode = rules.effective(self.permission_mode.unwrap_or(rules.default_mode));
        Ok(Permits { rules: Arc::new(rules), mode, approver })
    }
}
