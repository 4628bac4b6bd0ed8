//! Any program at all (B12). It is ready once it runs, and done once it has ended.

use super::{Error, Prepared};
use crate::config::{Environment, plan::MemberPlan};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) fn prepare(
    plan: &MemberPlan,
    cwd: &Path,
    environment: &Environment,
    given: &BTreeMap<String, String>,
) -> Result<Prepared, Error> {
    let cwd = cwd.join(&plan.cwd);
    let cwd: PathBuf = std::path::absolute(&cwd).unwrap_or(cwd).components().collect();
    if !cwd.is_dir() {
        return Err(Error::NoDirectory(cwd));
    }
    // Through links as the user wrote them, unless only the system can say where `..` leads.
    let has_parent = cwd.components().any(|c| c == std::path::Component::ParentDir);
    let cwd = if has_parent { cwd.canonicalize().unwrap_or(cwd) } else { cwd };
    let mut env = environment.for_member(&plan.inherit);
    env.extend(plan.env.clone());
    env.extend(given.clone());
    let bin = given.get("PATH").cloned();
    let path = plan.env.get("PATH").map_or(environment.search_path(), String::as_str);
    env.insert("PATH".to_owned(), bin.map_or(path.to_owned(), |bin| format!("{bin}:{path}")));
    let word = plan.command.first().map_or("", String::as_str);
    let program = find(word, &cwd, &env["PATH"])?;
    Ok(Prepared { program, argv: plan.command.clone(), env, cwd })
}

/// Finds a program as a shell would.
fn find(word: &str, cwd: &Path, path: &str) -> Result<PathBuf, Error> {
    let missing = |hint: String| Error::NoProgram { program: word.to_owned(), hint };
    if word.contains('/') {
        let program = cwd.join(word);
        return match program.metadata() {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(program),
            Ok(_) => Err(missing(": it is there, but cannot be executed".to_owned())),
            Err(_) => Err(missing(format!(" in {}", cwd.display()))),
        };
    }
    let is_program =
        |p: &PathBuf| p.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let found = std::env::split_paths(path).map(|dir| cwd.join(dir).join(word)).find(is_program);
    found.ok_or_else(|| missing(format!(" on the member's PATH ({path})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_q027_a_missing_program_is_told_before_anything_starts() {
        assert!(find("sh", Path::new("/"), "/usr/bin:/bin").unwrap().is_absolute());
        let error = find("no-such-program", Path::new("/"), "/usr/bin:/bin").unwrap_err().to_string();
        assert_eq!(error, "there is no program 'no-such-program' on the member's PATH (/usr/bin:/bin)");
        assert!(find("./x", Path::new("/"), "/bin").unwrap_err().to_string().contains("in /"));
        assert!(
            find("/etc/passwd", Path::new("/"), "/bin")
                .unwrap_err()
                .to_string()
                .contains("cannot be executed")
        );
    }
}
