//! Files that are either the old or the new version, never half of one.

use super::{Result, failed};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Mode of a new file that other programs share (before the umask).
pub const SHARED: u32 = 0o666;
/// Mode of a new file that is ours alone.
pub const PRIVATE: u32 = 0o600;

/// New content, written and synced next to its target, not yet visible. Dropping it removes it.
#[derive(Debug)]
pub struct Pending {
    file: NamedTempFile,
    target: PathBuf,
}

/// Writes `bytes` beside `target` and syncs them. An existing target's mode is kept, else `mode` applies.
///
/// # Errors
/// Whatever the file system answers, a full disk among it; the target is untouched then.
pub fn prepare(target: &Path, bytes: &[u8], mode: u32) -> Result<Pending> {
    let pending = stage(target, bytes, mode)?;
    pending.file.as_file().sync_data().map_err(failed("write", target))?;
    Ok(pending)
}

/// Writes a whole file in one visible step, without waiting for the disk: for what is void after a crash of the
/// machine anyway, such as records of running processes.
///
/// # Errors
/// As [`write()`].
pub fn write_unsynced(target: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    stage(target, bytes, mode)?.commit()
}

fn stage(target: &Path, bytes: &[u8], mode: u32) -> Result<Pending> {
    let dir = target.parent().unwrap_or(Path::new("."));
    let mut prefix = target.file_name().unwrap_or_default().to_owned();
    prefix.push(".tmp.");
    let wrote = (|| {
        let mut file = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(8)
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(dir)?;
        if let Ok(old) = fs::metadata(target) {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        Ok(file)
    })();
    let file = wrote.map_err(failed("write", target))?;
    Ok(Pending { file, target: target.to_owned() })
}

impl Pending {
    /// Makes the new content visible in one step.
    ///
    /// # Errors
    /// The rename's; the target is untouched then.
    pub fn commit(self) -> Result<()> {
        let target = self.target;
        self.file.persist(&target).map_err(|e| failed("replace", &target)(e.error))?;
        Ok(())
    }
}

/// Writes a whole file in one visible step.
///
/// # Errors
/// As [`prepare`] and [`Pending::commit`].
pub fn write(target: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    prepare(target, bytes, mode)?.commit()
}

/// Creates a file that must not exist yet. Answers whether it was made.
///
/// # Errors
/// Anything but its being there already.
pub fn create_new(target: &Path, bytes: &[u8], mode: u32) -> Result<bool> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(target) {
        Ok(mut file) => file.write_all(bytes).map(|()| true).map_err(failed("write", target)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(failed("create", target)(e)),
    }
}

/// A file's bytes, or `None` where there is no such file.
///
/// # Errors
/// Anything but its absence.
pub fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("read", path)(e)),
    }
}

/// Removes a file; its absence is fine.
///
/// # Errors
/// Anything but its absence.
pub fn remove_optional(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Appends one line in a single write, creating the file with mode [`PRIVATE`].
///
/// # Errors
/// The file system's.
pub fn append_line(path: &Path, line: &str) -> Result<()> {
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(line);
    text.push('\n');
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(PRIVATE)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed("append to", path))
}

/// Makes a directory and its parents.
///
/// # Errors
/// The file system's.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed("create directory", path))
}

/// Makes a directory of ours (0700) and its parents.
///
/// # Errors
/// The file system's.
pub fn make_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create directory", path))
}

/// Moves a file or folder, copying where a rename cannot (another file system).
///
/// # Errors
/// The file system's; the source is removed only after the copy is whole.
pub fn move_tree(from: &Path, to: &Path) -> Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
            copy_tree(from, to).map_err(failed("copy", from))?;
            fs::remove_dir_all(from).map_err(failed("remove", from))
        }
        Err(e) => Err(failed("move", from)(e)),
        Ok(()) => Ok(()),
    }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_keeps_its_mode_and_no_temporary_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        write(&path, b"1", PRIVATE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"2", SHARED).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        drop(prepare(&path, b"3", SHARED).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
