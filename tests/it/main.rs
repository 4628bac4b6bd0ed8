//! The one integration-test binary. Every test drives the real program with real processes and files in a sealed
//! [`support::World`]; a test's name carries the id of the public case or probe that it answers.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]
#![allow(
    clippy::fn_params_excessive_bools,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation
)]

mod support;

mod agent;
mod approvals;
mod approvals_kept;
mod approvals_policy;
mod attach;
mod bodies;
mod chaos;
mod claude;
mod claude_mail;
mod claude_team;
mod corners;
mod delivery;
mod disk;
mod driver_turns;
mod drivers;
mod ending;
mod errors;
mod example;
mod faults;
mod fuzz;
mod help;
mod inbox;
mod iterm;
mod keys;
mod launch;
mod lock;
mod lock_model;
mod mail;
mod names;
mod npm_lock;
mod output;
mod owner;
mod permissions;
mod properties;
mod provider;
mod provider_faults;
mod readme;
mod replay;
mod retire;
mod rows;
mod run;
mod script;
mod states;
mod task_list;
mod tasks;
mod teammates;
mod tidy;
mod tmux;
mod tmux_calls;
mod tmux_ends;
mod tools_bash;
mod tools_beside;
mod tools_files;
mod tools_search;
mod up;
