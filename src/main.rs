//! The program.

use std::process::ExitCode;

fn main() -> ExitCode {
    throng::cli::main(std::env::args_os())
}
