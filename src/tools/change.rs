//! What `Edit`, `Write` and `NotebookEdit` share: a file is changed only if it is as the agent last saw it, in one
//! visible step, where it was judged to be.

use super::read::WHOLE_BYTES_MAX;
use super::target::{self, cannot};
use super::{Effect, Stamp, View};
use crate::sys::atomic_file;
use crate::sys::folder::{self, Folder, Missing};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A file that is about to be changed.
pub(super) struct Change {
    /// Its resolved path.
    pub(super) path: PathBuf,
    /// What is in it; `None` if there is no such file.
    pub(super) before: Option<Vec<u8>>,
    folder: Option<Folder>,
}

impl Change {
    /// Looks at the file that a call names.
    ///
    /// # Errors
    /// Words: it is no file, too large, or cannot be read.
    pub(super) fn of(given: &str, view: &View) -> Result<Change, String> {
        let path = target::find(view, given)?;
        let fail = cannot("change", &path);
        if path.file_name().is_none() || given.ends_with('/') {
            return Err(format!("{} is a folder, no file.", path.display()));
        }
        let folder = match Folder::of(&path, Missing::Fail) {
            Ok(folder) => folder,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Change { path, before: None, folder: None });
            }
            Err(e) => return Err(fail(e)),
        };
        let file = match folder::open_in(&folder, name(&path)) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Change { path, before: None, folder: Some(folder) });
            }
            Err(e) => return Err(fail(e)),
        };
        let meta = file.metadata().map_err(&fail)?;
        if meta.is_dir() {
            return Err(format!("{} is a folder, no file.", path.display()));
        }
        if meta.len() > WHOLE_BYTES_MAX {
            return Err(format!("{} is larger than {WHOLE_BYTES_MAX} bytes.", path.display()));
        }
        // A rename would replace what may not be written.
        File::options().append(true).open(folder.path_of(name(&path))).map_err(&fail)?;
        let mut bytes = Vec::new();
        file.take(WHOLE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(&fail)?;
        Ok(Change { path, before: Some(bytes), folder: Some(folder) })
    }

    /// Refuses what the agent has not seen as it is now.
    ///
    /// # Errors
    /// Words that say so.
    pub(super) fn was_seen(&self, view: &View) -> Result<(), String> {
        let (Some(before), path) = (&self.before, self.path.display()) else { return Ok(()) };
        match view.seen.get(&self.path) {
            None => Err(format!("{path} is there and you have not read it yet. Read it first.")),
            Some(stamp) if stamp.digest != digest(before) => {
                Err(format!("{path} has changed since you last read it. Read it again first."))
            }
            Some(_) => Ok(()),
        }
    }

    /// Gives the file its new content.
    ///
    /// # Errors
    /// Words: the file has changed a moment ago, or the file system says no; it is untouched then.
    pub(super) fn write(self, bytes: &[u8]) -> Result<Effect, String> {
        let fail = cannot("write", &self.path);
        if bytes.len() as u64 > WHOLE_BYTES_MAX {
            return Err(format!("{} would be larger than {WHOLE_BYTES_MAX} bytes.", self.path.display()));
        }
        let folder = match self.folder {
            Some(folder) => folder,
            None => Folder::of(&self.path, Missing::Make).map_err(&fail)?,
        };
        let name = name(&self.path);
        let at = folder.path_of(name);
        let fail_at = |e| match e {
            crate::sys::Error::Io { source, .. } => fail(source),
            other => other.to_string(),
        };
        let mut pending = atomic_file::prepare(&at, bytes, atomic_file::SHARED).map_err(fail_at)?;
        let now = match folder::open_in(&folder, name) {
            Ok(file) => {
                let mut now = Vec::new();
                file.take(WHOLE_BYTES_MAX + 1).read_to_end(&mut now).map_err(&fail)?;
                Some(now)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(fail(e)),
        };
        if now != self.before {
            return Err(format!("{} has changed a moment ago. Read it again first.", self.path.display()));
        }
        pending.commit().map_err(fail_at)?;
        let modified = fs::symlink_metadata(&at).and_then(|meta| meta.modified()).ok();
        Ok(Effect::Saw(self.path, Stamp { modified, digest: digest(bytes) }))
    }
}

fn name(path: &Path) -> &Path {
    Path::new(path.file_name().unwrap_or_default())
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
