//! Spawning, watching and retiring teammates, and `tend`, the small role of our binary that stands between a place and
//! its agent.

pub mod control;
mod request;
mod respawn;
mod retire;
mod spawn;
mod start;
mod strays;
pub mod tend;
pub mod turns;
mod watch;

pub use request::{GRACE, default_grace};
pub use respawn::{Respawned, respawn};
pub use retire::{Retired, forget, retire};
pub use spawn::{Spawn, SpawnError, last_lines, spawn};
pub use watch::{Activity, Life, MemberView, activity, is_at_rest, observe, observe_all, observe_one};
