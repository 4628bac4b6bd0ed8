//! Whether a glob fits an argument. In a glob `*` is any text and `?` any one character; it fits the whole or not at all.
//! For a yes that is not enough: text that a shell, a file system or a URL reads as something else than it looks must not
//! slip through, so each kind of argument has its own rule.

use super::forms::{Fit, line_may_run};
use super::pattern::backtracking;

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// A shell's command line.
    Command,
    /// A file.
    Path,
    /// A URL.
    Url,
    /// A host's name.
    Host,
    /// Words for people.
    Words,
    /// Not even a text.
    Odd,
}

impl Argument {
    /// Whether the glob fits whatever the reader of the argument makes of it: for a yes.
    pub(super) fn fits_surely(self, pattern: &str, text: &str) -> bool {
        match self {
            Argument::Odd => false,
            _ if pattern == text => true,
            Argument::Command => is_simple(text) && glob(pattern, text),
            // `..` leaves the folder that the glob names.
            Argument::Path => !text.split('/').any(|part| part == "..") && glob(pattern, text),
            Argument::Url => fits_url(pattern, text),
            Argument::Host => is_host(text) && glob(&pattern.to_lowercase(), &text.to_lowercase()),
            Argument::Words => glob(pattern, text),
        }
    }

    /// Whether the glob may be meant: for a no, or for asking. Each command of a compound one counts.
    pub(super) fn may_fit(self, pattern: &str, text: &str) -> bool {
        if pattern == text || glob(pattern, text) {
            return true;
        }
        match self {
            Argument::Command => {
                let is_end = |c: char| ";&|<>`$(){}\n\r\"'".contains(c);
                text.split(is_end).any(|piece| glob(pattern, piece.trim()))
                    || line_may_run(text, &|form| glob(pattern, form)) != Fit::No
            }
            Argument::Path => may_lead_to(pattern, text),
            Argument::Host => glob(&plain_host(pattern), &plain_host(text)),
            Argument::Url => may_fit_url(&pattern.to_lowercase(), &text.to_lowercase()),
            Argument::Words | Argument::Odd => false,
        }
    }
}

/// Whether the glob fits the whole text.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    backtracking(&pattern, &text, |c| *c == '*', |c, t| *c == '?' || c == t)
}

/// Whether a command line is one command whose words a shell takes as they stand: outside quotes nothing that joins,
/// redirects, substitutes or groups, in double quotes no substitution, and all quotes closed.
fn is_simple(command: &str) -> bool {
    let mut chars = command.chars().peekable();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            // Line ends within quotes are text, but nobody expects them there.
            (_, '\n' | '\r' | '\0') => return false,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some('\''), _) => {}
            (_, '$' | '`') => return false,
            (Some(_), '\\') => {
                // Outside these four a backslash in double quotes is a plain one.
                if chars.peek().is_some_and(|next| "$`\"\\".contains(*next)) {
                    chars.next();
                }
            }
            (Some(_), _) => {}
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' | '!' | '\\' | '#') => return false,
            (None, c) if c.is_control() && c != '\t' => return false,
            (None, _) => {}
        }
    }
    quote.is_none()
}

/// Scheme and host are judged apart from the rest: a star in the host must not reach into the path of another host.
fn fits_url(pattern: &str, url: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (Some((pattern_head, pattern_tail)), Some((head, tail))) = (split_url(pattern), split_url(url))
    else {
        return false;
    };
    let is_plain = !url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\');
    let has_no_user = !head.contains('@');
    let climbs = tail.split(['/', '?', '#']).any(|part| part.to_lowercase().replace("%2e", ".") == "..");
    let fits_head = glob(&pattern_head.to_lowercase(), &head.to_lowercase());
    is_plain && has_no_user && !climbs && fits_head && glob(pattern_tail, tail)
}

/// `https://host:1` and the rest.
fn split_url(url: &str) -> Option<(&str, &str)> {
    let host = url.find("://")? + 3;
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    // A glob's question mark is none of a URL's, but in a host nobody needs one.
    Some(url.split_at(end))
}

/// Whether a path may lead to what the glob names, as far as can be told without looking: links are not followed.
fn may_lead_to(pattern: &str, path: &str) -> bool {
    let plain = normalised(path);
    // From where it climbs, or whose home it is, is not known.
    let is_unsure = plain.starts_with("../") || plain == ".." || path.starts_with('~');
    let of_any_home = pattern.strip_prefix('~').map(|rest| format!("*{rest}"));
    // A folder may stand for what is in it.
    let fits = |pattern: &str| glob(pattern, &plain) || glob(pattern, &format!("{plain}/"));
    (is_unsure && pattern.starts_with('/'))
        || fits(pattern)
        || of_any_home.is_some_and(|pattern| fits(&pattern))
}

/// A path without empty parts, `.`, and `..` behind a name.
fn normalised(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", None) if path.starts_with('/') => {}
            _ => parts.push(part),
        }
    }
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, parts.join("/"))
}

/// A host in lower case, without its port and the dot of the root.
fn plain_host(host: &str) -> String {
    let host = host.trim().to_lowercase();
    let port = host.rsplit_once(':').filter(|(before, port)| {
        // An IPv6 address has colons of its own.
        port.chars().all(|c| c.is_ascii_digit()) && (!before.contains(':') || before.ends_with(']'))
    });
    port.map_or(host.as_str(), |(before, _)| before).trim_end_matches('.').to_owned()
}

/// Whether a URL in lower case may be what the glob names, as browsers read it: blanks and user dropped, backslashes as
/// slashes, any number of these before the host.
fn may_fit_url(pattern: &str, url: &str) -> bool {
    let url: String = url.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    let url = url.replace('\\', "/");
    let Some((scheme, rest)) = url.split_once(':') else { return glob(pattern, &url) };
    let rest = rest.trim_start_matches('/');
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (path, end) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
    let plain = normalised(&format!("/{}", unescaped(path)));
    let tails = [tail.to_owned(), format!("{plain}{end}"), format!("{plain}/{end}")];
    let hosts = [host.to_owned(), plain_host(host)];
    hosts.iter().any(|host| tails.iter().any(|tail| glob(pattern, &format!("{scheme}://{host}{tail}"))))
}

/// A text with its `%XX` as the characters that they mean, as far as these are ASCII.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (c, length) = code.filter(u8::is_ascii).map_or(('%', 1), |code| (char::from(code), 3));
        out.push(c);
        rest = &rest[at + length..];
    }
    out + rest
}

/// A host as it may stand in a rule: letters, digits, dots, hyphens, a port, an IPv6 address.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_the_whole_text() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "x"),
            ("a*c", "abbc"),
            ("a?c", "abc"),
            ("*a*b*", "xaxbx"),
            ("ü*", "üx"),
            ("", ""),
        ] {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*c", "ab"), ("a?c", "ac"), ("?", ""), ("", "x"), ("*a", "ab")]
        {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
        // One that would take for ever if every star were tried again.
        assert!(!glob(
            &"*a".repeat(40),
            &"a".repeat(20_000).replace("aaaa", "aaab")[..15_000].replace('a', "b")
        ));
    }

    #[test]
    fn a_second_command_never_slips_through_a_yes() {
        let fits = |text: &str| Argument::Command.fits_surely("python3 *", text);
        for good in [
            "python3 x.py",
            "python3 -c 'print(1); print(2)'",
            "python3 \"a; b\" 'c | d'",
            r#"python3 "say \"hi\"""#,
            "python3 *.py [a-z]?",
            "python3 --x=1 ~/y",
        ] {
            assert!(fits(good), "{good}");
        }
        for bad in [
            "python3 x; rm -rf /",
            "python3 x && rm -rf /",
            "python3 x & rm -rf /",
            "python3 x | sh",
            "python3 x > /etc/passwd",
            "python3 <(rm -rf /)",
            "python3 $(rm -rf /)",
            "python3 \"$(rm -rf /)\"",
            "python3 `rm -rf /`",
            "python3 \"`rm -rf /`\"",
            "python3 x\nrm -rf /",
            "python3 x\rrm -rf /",
            "python3 'a\nrm'",
            "python3 $HOME",
            "python3 'unclosed; rm",
            "python3 \"unclosed",
            r"python3 'a'\''; rm -rf /'",
            r"python3 \; rm",
            r#"python3 "a\\"; rm -rf /"#,
            "python3 'a' 'b'; rm -rf /",
            "python3 $'a\\'; rm'",
            "python3 {a,b}",
            "python3 x # y",
            "python3 x\0; rm",
            "python3",
            " python3 x",
        ] {
            assert!(!fits(bad), "{bad}");
        }
        let exact = "cd /x && cargo test | tee log";
        assert!(Argument::Command.fits_surely(exact, exact), "a pattern that is exactly the text");
        assert!(!Argument::Command.fits_surely("cd /x && *", exact));
        assert!(!Argument::Command.fits_surely("*", "a; b"), "not even for a star");
    }

    #[test]
    fn a_no_sees_each_command_of_a_compound_one() {
        let fits = |text: &str| Argument::Command.may_fit("rm *", text);
        for bad in
            ["rm -rf /", "cd /x; rm -rf .", "true&&rm x", "echo $(rm x)", "sh -c 'rm x'", "a | rm -f b"]
        {
            assert!(fits(bad), "{bad}");
        }
        assert!(!fits("cargo rm") && !fits("ls"));
    }

    #[test]
    fn a_no_sees_through_other_spellings_of_paths_hosts_and_urls() {
        let path = |text: &str| Argument::Path.may_fit("/etc/*", text);
        for bad in [
            "/etc/x",
            "/tmp/../etc/x",
            "//etc/x",
            "/./etc/x",
            "/etc/./y/../x",
            "/../etc/x",
            "/etc//x",
            "/etc",
            "../../etc/x",
            "a/../../etc/x",
            "~root/x",
        ] {
            assert!(path(bad), "{bad}");
        }
        assert!(
            !path("/tmp/x") && !path("/etc/../tmp/x/../y") || path("/etc/../tmp/x"),
            "its raw text fits too"
        );
        assert!(!path("/etcetera/x") && !path("etc/x") && !path("/tmp/etc/x") && !path("a/../b"));
        assert!(
            !Argument::Path.may_fit("*.env", "../src/main.rs") && Argument::Path.may_fit("*.env", "../.env")
        );
        assert!(Argument::Path.may_fit("~/.ssh/*", "/home/u/.ssh/id") && !path("x"));

        let host = |text: &str| Argument::Host.may_fit("evil.org", text);
        assert!(["evil.org", "evil.org.", "EVIL.org", "evil.org:443", "Evil.Org.:80"].into_iter().all(host));
        assert!(!host("evil.org.uk") && !host("notevil.org") && !host(""));
        assert!(Argument::Host.may_fit("Evil.Org.", "evil.org") && Argument::Host.may_fit("::1", "::1"));

        let url = |text: &str| Argument::Url.may_fit("https://evil.org/*", text);
        for bad in [
            "https://evil.org/x",
            "HTTPS://Evil.org/x",
            "https://evil.org",
            "https://evil.org./x",
            "https://evil.org:443/x",
            "https://u:p@evil.org/x",
            "https:evil.org/x",
            "https:/evil.org/x",
            "https:\\\\evil.org\\x",
            " https://ev\til.org/x",
            "https://evil.org?x",
        ] {
            assert!(url(bad), "{bad}");
        }
        assert!(!url("https://good.org/evil.org/") && !url("https://evil.org.good.org/") && !url("x"));
        let deep = |text: &str| Argument::Url.may_fit("https://a.org/private/*", text);
        assert!(
            deep("https://a.org/x/../private/y")
                && deep("https://a.org/%70rivate/y")
                && !deep("https://a.org/x%")
        );
    }

    #[test]
    fn paths_and_urls_that_lead_elsewhere_do_not_fit_a_yes() {
        let path = |text: &str| Argument::Path.fits_surely("/proj/*", text);
        assert!(path("/proj/a/b..c") && path("/proj/..a"));
        assert!(!path("/proj/../etc/passwd") && !path("/proj/a/..") && !path("proj/x") && !path("/projects"));
        assert!(Argument::Path.fits_surely("../x", "../x"), "a pattern that is exactly the text");
        let url = |text: &str| Argument::Url.fits_surely("https://*.example.com/*", text);
        assert!(url("https://docs.example.com/x/y?z=../a") && url("HTTPS://Docs.Example.com/"));
        for bad in [
            "https://evil.org/.example.com/",
            "https://evil.org?.example.com/",
            "https://evil.org#.example.com/",
            "https://x@evil.org/.example.com/",
            "https://docs.example.com@evil.org/",
            "https://evil.org\\.example.com/",
            "https://docs.example.com.evil.org/",
            "http://docs.example.com/",
            "https://docs.example.com/a/../b",
            "https://docs.example.com/a/%2E./b",
            "https://docs.example.com/ x",
            "docs.example.com/x",
        ] {
            assert!(!url(bad), "{bad}");
        }
        assert!(Argument::Url.fits_surely("*", "https://any.org/"));
        assert!(!Argument::Url.fits_surely("*example.com*", "https://example.com.evil.org/"));
    }
}
