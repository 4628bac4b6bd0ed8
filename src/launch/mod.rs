//! Spawning, watching and retiring teammates, and `tend`, the small role of our binary that stands between a place and
//! its agent.

pub mod control;
mod retire;
mod spawn;
pub mod tend;
mod watch;

pub use retire::{Retired, forget, retire};
pub use spawn::{Spawn, SpawnError, spawn};
pub use watch::{Life, MemberView, observe, observe_one};
