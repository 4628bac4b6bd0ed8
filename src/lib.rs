//! throng launches teams of coding agents, one operating-system process each, that coordinate only through files.
//!
//! The order of these lines is the law: a room may name only rooms above it (`tests/it/tidy.rs` holds it).

// Ground floor
pub mod sys;

pub mod protocol;

pub mod config;

// Files
pub mod store;

// Rules
pub mod permission;

pub mod hooks;

// The launching wing
pub mod backend;

pub mod driver;

pub mod launch;

// The agent wing
pub mod provider;

pub mod tools;

pub mod session;

// The team
pub mod leader;

// The front
pub mod cli;
