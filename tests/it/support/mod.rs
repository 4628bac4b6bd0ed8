//! What tests stand on: a sealed world, waiting for conditions, processes as the system sees them.

pub mod call;
pub mod model;
pub mod normalise;
pub mod process;
pub mod service;
pub mod team;
pub mod terminal;
pub mod tmux;
pub mod tools;
pub mod wait;
pub mod world;

pub use call::{Call, Outcome, Running};
pub use team::Team;
pub use terminal::Terminal;
pub use wait::{until, until_some};
pub use world::World;

use std::path::{Path, PathBuf};

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A fake agent or program, as an argument.
pub fn fake(name: &str) -> String {
    let path = repository().join("tests/it/fakes").join(name);
    assert!(path.exists(), "no fake {}", path.display());
    path.to_string_lossy().into_owned()
}

/// A fixture's file.
pub fn fixture(name: &str) -> PathBuf {
    let path = repository().join("tests/it/fixtures").join(name);
    assert!(path.exists(), "no fixture {}", path.display());
    path
}

/// A word as the shell takes it.
pub fn quoted(word: &str) -> String {
    shlex::try_quote(word).expect("no NUL in a word").into_owned()
}
