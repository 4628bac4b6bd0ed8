//! Files by paths whose links were resolved before: a link that appears in such a path afterwards is not followed, so
//! that what was judged is what is opened.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// What to do about a folder that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Make it.
    Make,
    /// Fail.
    Fail,
}

/// The open folder of a file.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of `file`, a resolved path, link by link.
    ///
    /// # Errors
    /// `NotADirectory` if a link or a file is in the way.
    pub fn of(file: &Path, missing: Missing) -> io::Result<Folder> {
        let path = file.parent().unwrap_or(Path::new("/"));
        #[cfg(target_os = "linux")]
        let how = OFlag::O_PATH;
        #[cfg(not(target_os = "linux"))]
        let how = OFlag::O_RDONLY;
        let flags = how | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut fd: OwnedFd =
            File::options().read(true).custom_flags(flags.bits()).open("/").map(OwnedFd::from)?;
        for piece in path.components() {
            let Component::Normal(name) = piece else { continue };
            let opened = openat(fd.as_fd(), name, flags, Mode::empty());
            fd = match opened {
                Err(nix::errno::Errno::ENOENT) if missing == Missing::Make => {
                    match mkdirat(fd.as_fd(), name, Mode::from_bits_truncate(0o777)) {
                        Err(e) if e != nix::errno::Errno::EEXIST => return Err(e.into()),
                        _ => openat(fd.as_fd(), name, flags, Mode::empty())?,
                    }
                }
                opened => opened?,
            };
        }
        Ok(Folder { fd, path: path.to_owned() })
    }

    /// A path for `name` in this folder that leads there whatever becomes of the folder's own path; on systems that have
    /// none, the ordinary path.
    pub fn path_of(&self, name: &Path) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).join(name)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = &self.fd;
            self.path.join(name)
        }
    }

    /// The folder's path, for people.
    pub fn shown(&self) -> &Path {
        &self.path
    }
}

/// Opens a file for reading by its resolved path without waiting and without following a link; what is no file or folder
/// is not opened.
///
/// # Errors
/// The system's; `InvalidInput` with its kind for a pipe, socket or device.
pub fn open(path: &Path) -> io::Result<File> {
    let Some(name) = path.file_name() else { return File::open(path) };
    let folder = Folder::of(path, Missing::Fail)?;
    open_in(&folder, Path::new(name))
}

/// As [`open`], in a folder.
///
/// # Errors
/// As [`open`].
pub fn open_in(folder: &Folder, name: &Path) -> io::Result<File> {
    let path = folder.path_of(name);
    is_plain(&fs::symlink_metadata(&path)?)?;
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    // It may have been another a moment ago.
    is_plain(&file.metadata()?)?;
    Ok(file)
}

fn is_plain(meta: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let kind = meta.file_type();
    let what = match () {
        () if kind.is_file() || kind.is_dir() => return Ok(()),
        () if kind.is_symlink() => "it became a link after its path was looked at",
        () if kind.is_fifo() => "it is a named pipe, no file",
        () if kind.is_socket() => "it is a socket, no file",
        () => "it is a device, no file",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

#[cfg(test)]
mod tests {
    use super::super::links::resolve;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_that_appears_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(dir.join("safe")).unwrap();
        fs::create_dir_all(dir.join("secret")).unwrap();
        fs::write(dir.join("secret/f"), "s").unwrap();
        fs::write(dir.join("safe/f"), "x").unwrap();
        let judged = resolve(&dir.join("safe/f")).unwrap();
        open(&judged).unwrap();
        fs::rename(dir.join("safe"), dir.join("old")).unwrap();
        symlink("secret", dir.join("safe")).unwrap();
        assert!(open(&judged).is_err());
        assert!(Folder::of(&judged, Missing::Make).is_err());
        symlink("f", dir.join("secret/g")).unwrap();
        assert!(open(&dir.join("secret/g")).is_err());
    }

    #[test]
    fn folders_are_made_and_reached_though_they_move() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        assert!(Folder::of(&dir.join("a/b/f"), Missing::Fail).is_err());
        let folder = Folder::of(&dir.join("a/b/f"), Missing::Make).unwrap();
        fs::rename(dir.join("a"), dir.join("c")).unwrap();
        super::super::atomic_file::write(&folder.path_of(Path::new("f")), b"1", 0o600).unwrap();
        assert_eq!(fs::read(dir.join("c/b/f")).unwrap(), b"1");
        assert_eq!(folder.shown(), dir.join("a/b"));
    }
}
