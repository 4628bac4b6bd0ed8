//! Random bytes fit for keys.

use super::{Result, failed};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The system's source of them.
const SOURCE: &str = "/dev/urandom";

/// 32 bytes that nobody can guess.
///
/// # Errors
/// The system gives none.
pub fn bytes() -> Result<[u8; 32]> {
    let path = Path::new(SOURCE);
    let mut bytes = [0; 32];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(failed("read", path))
}
