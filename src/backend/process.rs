//! Plain processes (B4): no terminal needed. The headless backend.

use super::{Backend, Launch, Result};
use crate::store::{HomeRecord, PlaceRecord};
use crate::sys::run;
use std::process::{Command, Stdio};

/// The backend of plain processes.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Backend for Plain {
    fn name(&self) -> &'static str {
        "process"
    }

    fn open(&self, launch: &Launch<'_>) -> Result<PlaceRecord> {
        let mut command = Command::new(launch.program);
        command.arg("tend").arg(launch.file);
        // What it needs stands in the launch file; it holds no directory and none of our environment.
        command.env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        run::start_detached(command, None)?;
        Ok(PlaceRecord::Process)
    }

    fn home(&self) -> HomeRecord {
        HomeRecord { backend: self.name().to_owned(), socket: None, anchor: None, attach: None }
    }

    fn close(&self, _place: &PlaceRecord, _token: &str) -> Result<()> {
        Ok(())
    }
}
