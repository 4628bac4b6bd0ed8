//! What lies on disk, as plain data: names, paths, team file, inboxes, tasks. The facts are those of protocol part II;
//! the decisions are part I. No input or output happens here and no clock is read.
//!
//! Other programs own these files too, so every shape keeps the fields that it does not know.

pub mod approval;
pub mod body;
pub mod delivery;
pub mod inbox;
pub mod layout;
pub mod names;
pub mod signature;
pub mod task;
pub mod team;
pub mod timestamp;

pub use body::Body;
pub use inbox::{Damage, Entry, Inbox};
pub use layout::Layout;
pub use names::{AgentName, NameError, TeamName};
pub use task::{Status, Task};
pub use team::{Member, Team};
