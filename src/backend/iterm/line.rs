//! The one line that is typed into a session's shell, and the launcher that it names. Pure.
//!
//! The line must mean the same to sh, bash, zsh, fish and tcsh, and be short: what is typed before a shell reads it waits
//! in the terminal, which keeps few bytes. So all that is long or has to be quoted stands in the launcher.

use super::super::{Error, Result};
use crate::protocol::AgentName;
use std::path::{Path, PathBuf};

/// Longest line, in bytes; terminals keep 255 at least (POSIX: `_POSIX_MAX_CANON`).
const LINE_BYTES_MAX: usize = 250;
/// Ctrl-U: what stands in the shell's input already is not ours.
pub(super) const CLEAR: &str = "\x15";

/// Path of a launch's launcher.
pub(super) fn launcher_path(runtime_dir: &Path, token: &str) -> PathBuf {
    let word: String = token.bytes().filter(u8::is_ascii_alphanumeric).take(16).map(char::from).collect();
    runtime_dir.join(format!("{word}.line"))
}

/// The line without what clears the input before it. The space keeps it out of the history of some shells; `exec` makes
/// the session end with `tend`.
pub(super) fn line(launcher: &Path) -> Result<String> {
    let unusable = |why: &str| {
        let path = launcher.display();
        Error::Unusable(format!(
            "iTerm2 types a line into a shell, and the path {path} {why}: set XDG_RUNTIME_DIR to a short plain path"
        ))
    };
    let path = launcher.to_str().ok_or_else(|| unusable("is not UTF-8"))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    let line = if path.chars().all(is_plain) {
        format!(" exec /bin/sh {path}")
    } else if path.chars().any(|c| c.is_control() || "'\\!".contains(c)) {
        // Within single quotes these three mean different things to fish and tcsh.
        return Err(unusable("cannot be quoted for every shell"));
    } else {
        format!(" exec /bin/sh '{path}'")
    };
    if line.len() > LINE_BYTES_MAX { Err(unusable("is too long")) } else { Ok(line) }
}

/// What the launcher is made of.
pub(super) struct Launcher<'a> {
    pub(super) program: &'a Path,
    pub(super) file: &'a Path,
    pub(super) session: &'a str,
    pub(super) agent: &'a AgentName,
    pub(super) color: &'a str,
}

impl Launcher<'_> {
    /// The script. It removes itself, so that a line that was typed twice starts one agent. Name, badge and tab colour
    /// are told by iTerm2's own escape sequences (<https://iterm2.com/documentation-escape-codes.html>).
    pub(super) fn script(&self) -> Result<String> {
        let quoted = |path: &Path| {
            let fail = || Error::Unusable(format!("the path {} cannot be given to a shell", path.display()));
            let word = path.to_str().and_then(|text| shlex::try_quote(text).ok()).ok_or_else(fail)?;
            Ok::<_, Error>(word.into_owned())
        };
        let [red, green, blue] = rgb(self.color);
        let (agent, badge) = (self.agent, base64(self.agent.as_str().as_bytes()));
        Ok(format!(
            "#!/bin/sh\n\
             /bin/rm -f -- \"$0\"\n\
             cd /\n\
             printf '\\033]1;{agent}\\007\\033]1337;SetBadgeFormat={badge}\\007'\n\
             printf '\\033]6;1;bg;red;brightness;{red}\\007\\033]6;1;bg;green;brightness;{green}\\007'\n\
             printf '\\033]6;1;bg;blue;brightness;{blue}\\007'\n\
             exec {} tend --session {} {}\n",
            quoted(self.program)?,
            self.session,
            quoted(self.file)?
        ))
    }
}

/// A colour of the protocol, as red, green and blue from 0 to 255.
fn rgb(color: &str) -> [u8; 3] {
    match color {
        "red" => [205, 49, 49],
        "green" => [70, 160, 80],
        "yellow" => [200, 160, 30],
        "purple" => [150, 90, 190],
        "orange" => [220, 130, 40],
        "pink" => [225, 120, 170],
        "cyan" => [60, 165, 180],
        _ => [60, 110, 200],
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, i| (word << 8) | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_short_and_means_the_same_to_every_shell() {
        let plain = launcher_path(Path::new("/tmp/throng-501"), "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0");
        assert_eq!(plain, Path::new("/tmp/throng-501/0b1c2d3e4f506172.line"));
        assert_eq!(line(&plain).unwrap(), " exec /bin/sh /tmp/throng-501/0b1c2d3e4f506172.line");
        assert_eq!(line(Path::new("/a b/ü$")).unwrap(), " exec /bin/sh '/a b/ü$'");
        for bad in ["/it's", "/a!b", "/a\\b", "/a\nb", &"/x".repeat(125)] {
            let error = line(Path::new(bad)).unwrap_err().to_string();
            assert!(error.contains("XDG_RUNTIME_DIR"), "{error}");
        }
    }

    #[test]
    fn the_launcher_quotes_its_paths_and_shows_the_name() {
        let launcher = Launcher {
            program: Path::new("/opt/a b/throng"),
            file: Path::new("/s/it's.json"),
            session: "AB-12",
            agent: &AgentName::new("bob").unwrap(),
            color: "green",
        };
        let script = launcher.script().unwrap();
        let last = "exec '/opt/a b/throng' tend --session AB-12 \"/s/it's.json\"\n";
        assert!(script.ends_with(last), "{script}");
        assert!(script.contains("SetBadgeFormat=Ym9i\\007"), "{script}");
    }

    #[test]
    fn base64_as_the_standard_has_it() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
