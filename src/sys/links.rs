//! Where a path leads to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links that are followed at most, as Linux does.
const LINKS_MAX: usize = 40;

/// Where an absolute path leads to once every link on it is followed, the last one too. What is not there is taken as it
/// is written, so that a file that is to be made has an answer, also behind a link that leads to nothing.
/// Links in a circle end where they were met the last time.
pub fn followed(path: &Path) -> PathBuf {
    let mut rest: VecDeque<OsString> = parts(path);
    let mut reached = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
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
    reached
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
}
