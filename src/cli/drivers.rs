//! `throng drivers`: which agent programs throng can drive, and how.

use super::context::Context;
use super::error::{Failure, Result};
use crate::config::drivers::{Drivers, MailForm, user_file};
use crate::config::plan::CLAUDE;
use crate::driver;
use serde_json::json;

/// List the agent programs that throng can drive
#[derive(Debug, clap::Args)]
#[command(
    after_help = "One's own stand in drivers.toml in $XDG_CONFIG_HOME/throng (or ~/.config/throng), or as
[driver.NAME] in a team file; what they leave out of a known row stays as it was.

Example:
  throng drivers show codex"
)]
pub struct List {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Show a row of the table, as a file would have it
    Show {
        /// Which
        name: String,
    },
}

/// Dispatches.
pub fn drivers(verb: &List, context: &mut Context) -> Result {
    let drivers = Drivers::read(&context.config.environment)?;
    match &verb.verb {
        None => list(&drivers, context),
        Some(Verb::Show { name }) => show(name, &drivers, context),
    }
}

fn list(drivers: &Drivers, context: &mut Context) -> Result {
    let environment = &context.config.environment;
    let mut rows = Vec::new();
    let mut all = Vec::new();
    let claude = environment.get(driver::claude::PROGRAM).unwrap_or(CLAUDE).to_owned();
    let own = (
        CLAUDE,
        "throng's own".to_owned(),
        claude,
        Some(driver::claude::MEASURED.to_owned()),
        "reads itself",
    );
    let way = |mail| if mail == MailForm::Type { "typed" } else { "resumed" };
    let table = drivers
        .rows()
        .map(|(name, origin, row)| (name, origin.to_string(), row.program, row.tried, way(row.mail)));
    for (name, origin, program, tried, mail) in std::iter::once(own).chain(table) {
        let path = driver::locate(&program, &environment.cwd, environment).ok();
        let found = path.as_ref().map_or(format!("{program} not found"), |path| path.display().to_string());
        let short = tried.as_deref().map_or("untried", |text| text.lines().next().unwrap_or_default());
        rows.push(vec![name.to_owned(), origin.clone(), mail.to_owned(), found, short.to_owned()]);
        all.push(json!({"name": name, "source": origin, "mail": mail, "program": program, "path": path, "tried": tried}));
    }
    if context.out.json {
        return context.out.json(&json!({"drivers": all, "user_file": user_file(environment)}));
    }
    context.out.table(&rows)
}

fn show(name: &str, drivers: &Drivers, context: &mut Context) -> Result {
    let Some((text, origin)) = drivers.text(name) else {
        return Err(Failure::missing(match drivers.words().contains(&name) {
            true => format!("'{name}' is throng's own and stands in no table"),
            false => drivers.unknown(name),
        }));
    };
    if context.out.json {
        return context
            .out
            .json(&json!({"name": name, "source": origin.to_string(), "driver": drivers.find(name)}));
    }
    context.out.line(format!("# {origin}\n{}", text.trim_end()))
}
