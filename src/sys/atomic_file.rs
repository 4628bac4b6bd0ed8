//! Files that are either the old or the new version, never half of one.

use super::{Result, failed};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::{NamedTempFile, TempPath};

/// Mode of a new file that other programs share (before the umask).
pub const SHARED: u32 = 0o666;
/// Mode of a new file that is ours alone.
pub const PRIVATE: u32 = 0o600;

/// Inode, size and mtime of a file: what every writer changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size: u64,
    mtime: (i64, i64),
}

impl Stamp {
    /// Of the file at `path`, if there is one.
    pub fn of(path: &Path) -> Option<Stamp> {
        let meta = fs::metadata(path).ok()?;
        Some(Stamp { inode: meta.ino(), size: meta.size(), mtime: (meta.mtime(), meta.mtime_nsec()) })
    }

    /// Whether the mtime lies further back than `age`. One in the future does not.
    pub fn is_older_than(&self, age: Duration) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        now.saturating_sub(self.mtime.0) > age
    }
}

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
    prepare_at(&beside(target), target, bytes, mode)
}

/// As [`prepare`], at a path that [`beside`] gave.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_at(path: &Path, target: &Path, bytes: &[u8], mode: u32) -> Result<Pending> {
    let pending = stage(path, target, bytes, mode)?;
    pending.file.as_file().sync_data().map_err(failed("write", target))?;
    Ok(pending)
}

/// A path for new content of `target`: in the same folder, named as the original names such files.
pub fn beside(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp.{:08x}", fastrand::u32(..)));
    target.with_file_name(name)
}

/// Writes a whole file in one visible step, without waiting for the disk: for what is void after a crash of the
/// machine anyway, such as records of running processes.
///
/// # Errors
/// As [`write()`].
pub fn write_unsynced(target: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    stage(&beside(target), target, bytes, mode)?.commit()
}

fn stage(path: &Path, target: &Path, bytes: &[u8], mode: u32) -> Result<Pending> {
    let wrote = (|| {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        let mut file = NamedTempFile::from_parts(file, TempPath::try_from_path(path)?);
        if let Ok(old) = fs::metadata(target) {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.as_file_mut().write_all(bytes)?;
        Ok(file)
    })();
    let file = wrote.map_err(failed("write", target))?;
    Ok(Pending { file, target: target.to_owned() })
}

impl Pending {
    /// Makes the new content visible in one step.
    ///
    /// # Errors
    /// The rename's; the target is untouched and the new content still beside it then.
    pub fn commit(&mut self) -> Result<()> {
        // Dropping it later finds nothing to remove.
        fs::rename(self.file.path(), &self.target).map_err(failed("replace", &self.target))
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
    use std::os::unix::fs::PermissionsExt;

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
