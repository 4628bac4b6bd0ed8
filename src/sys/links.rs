//! Where a path leads to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Links that are followed at most, as Linux does.
const LINKS_MAX: usize = 40;

/// Where an absolute path leads to once every link on it is followed, the last one too. What is not there is taken as it
/// is written, so that a file that is to be made has an answer, also behind a link that leads to nothing.
/// Links in a circle end where they were met the last time.
pub fn followed(path: &Path) -> PathBuf {
    walked(path).0
}

/// As [`followed`], for whoever is going to use the path.
///
/// # Errors
/// Too many links; a path that is not absolute.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    }
    match walked(path) {
        (reached, links) if links <= LINKS_MAX => Ok(reached),
        _ => Err(nix::errno::Errno::ELOOP.into()),
    }
}

/// Where a path leads to, and how many links it met on the way; of more than [`LINKS_MAX`] the rest is not followed.
fn walked(path: &Path) -> (PathBuf, usize) {
    let mut rest: VecDeque<OsString> = parts(path);
    let mut reached = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&part);
        let target = std::fs::read_link(&next);
        links += usize::from(target.is_ok());
        match target {
            Ok(target) if links <= LINKS_MAX => {
                if target.is_absolute() {
                    reached = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
            _ => reached = next,
        }
    }
    (reached, links)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_is_followed_also_to_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = |below: &str| root.join(below);
        std::fs::create_dir_all(path("a/b")).unwrap();
        symlink("a/b", path("link")).unwrap();
        symlink("/nowhere/at/all", path("dangling")).unwrap();
        symlink("round", path("round")).unwrap();
        assert_eq!(followed(&path("a/./b/x")), path("a/b/x"));
        assert_eq!(followed(&path("link/new/file")), path("a/b/new/file"));
        assert_eq!(followed(&path("link/../x")), path("a/x"), "as the system goes, not as the text reads");
        assert_eq!(followed(&path("dangling")), PathBuf::from("/nowhere/at/all"));
        assert_eq!(followed(&path("dangling/x")), PathBuf::from("/nowhere/at/all/x"));
        assert_eq!(followed(&path("round")), path("round"));
        assert_eq!(followed(Path::new("/../x")), PathBuf::from("/x"));
        assert_eq!(followed(&path("a/b")), path("a/b").canonicalize().unwrap());
    }

    #[test]
    fn links_are_resolved_even_where_nothing_is() {
        let dir = tempfile::tempdir().unwrap();
        let dir = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        symlink("a/b", dir.join("link")).unwrap();
        symlink("../new/file", dir.join("a/dangling")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        for (given, resolved) in [
            ("link/../x", "a/x"),
            ("link/y/z", "a/b/y/z"),
            ("a/dangling", "new/file"),
            ("./a//b/.", "a/b"),
            ("none/../q", "q"),
        ] {
            assert_eq!(resolve(&dir.join(given)).unwrap(), dir.join(resolved), "{given}");
        }
        assert!(resolve(&dir.join("loop")).is_err());
        assert!(resolve(Path::new("a")).is_err());
        assert_eq!(resolve(Path::new("/../..")).unwrap(), Path::new("/"));
    }
}
