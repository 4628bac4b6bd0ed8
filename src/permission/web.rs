//! Hosts of addresses, and the rules `WebFetch(domain:...)`.

use super::pattern;

/// The host of a plain http or https address, in small letters; none where programs could read the address in two ways.
pub(super) fn host(url: &str) -> Option<String> {
    let rest = strip_scheme(url)?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let is_odd = url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\');
    (!is_odd && !authority.is_empty() && authority.chars().all(is_plain)).then(|| without_port(authority))
}

fn strip_scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")).then_some(rest)
}

/// Hosts that an address may be read as having, for a no.
pub(super) fn possible_hosts(url: &str) -> Vec<String> {
    let plain: String = url.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    let plain = plain.replace('\\', "/");
    let behind_scheme = plain.split_once(':').map_or(plain.as_str(), |(_, rest)| rest);
    let starts = [behind_scheme, plain.as_str()];
    let authorities = starts.iter().map(|start| {
        let start = start.trim_start_matches('/');
        &start[..start.find(['/', '?', '#']).unwrap_or(start.len())]
    });
    authorities
        .flat_map(|authority| [authority, authority.rsplit('@').next().unwrap_or_default()])
        .map(|host| without_port(&unescaped(host)))
        .collect()
}

fn without_port(authority: &str) -> String {
    let host = authority.to_lowercase();
    let port = host.rsplit_once(':').filter(|(before, port)| {
        port.chars().all(|c| c.is_ascii_digit()) && (!before.contains(':') || before.ends_with(']'))
    });
    port.map_or(host.as_str(), |(before, _)| before).trim_end_matches('.').to_owned()
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code =
            rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii);
        out.push(code.map_or('%', char::from));
        rest = &rest[at + if code.is_some() { 3 } else { 1 }..];
    }
    out + rest
}

/// Whether a host is one that a rule names: `example.com`; `*.example.com` for all below it; `*` for all; elsewhere a star
/// stays between two dots.
pub(super) fn is_of_domain(specifier: &str, host: &str) -> bool {
    let Some(wanted) = specifier.trim().strip_prefix("domain:") else { return specifier.trim() == "*" };
    let wanted = without_port(wanted.trim());
    if wanted == "*" {
        return true;
    }
    if let Some(parent) = wanted.strip_prefix("*.") {
        return host.strip_suffix(parent).is_some_and(|below| below.len() > 1 && below.ends_with('.'));
    }
    let (wanted, host): (Vec<&str>, Vec<&str>) = (wanted.split('.').collect(), host.split('.').collect());
    wanted.len() == host.len() && wanted.iter().zip(host).all(|(wanted, part)| pattern::stars(wanted, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_addresses_have_a_host_for_a_yes() {
        assert_eq!(host("https://Docs.Example.com:443/x?y"), Some("docs.example.com".into()));
        assert_eq!(host("http://[::1]:80/"), Some("[::1]".into()));
        for url in [
            "ftp://a.org",
            "a.org",
            "https://a@b.org/",
            "https://a.org\\@b.org",
            "https://a .org",
            "https://",
            "",
        ] {
            assert_eq!(host(url), None, "{url}");
        }
    }

    #[test]
    fn a_no_sees_other_spellings() {
        let denied = |url: &str| possible_hosts(url).iter().any(|host| is_of_domain("domain:evil.org", host));
        for url in [
            "https://evil.org/x",
            "HTTPS://EVIL.org.",
            "https://a:b@evil.org:1/",
            "https:evil.org",
            "https:\\\\evil.org\\x",
            " https://ev\til.org",
            "https://%65vil.org",
            "evil.org/x",
        ] {
            assert!(denied(url), "{url}");
        }
        assert!(!denied("https://good.org/evil.org") && !denied("https://evil.org.good.org") && !denied(""));
    }

    #[test]
    fn stars_of_domains() {
        let of = |rule: &str, host: &str| is_of_domain(&format!("domain:{rule}"), host);
        assert!(of("example.com", "example.com") && of("Example.com.", "example.com") && of("*", "x.y"));
        assert!(of("*.example.com", "a.b.example.com") && !of("*.example.com", "example.com"));
        assert!(!of("*.example.com", "evilexample.com"));
        assert!(of("example.*", "example.org") && !of("example.*", "example.evil.com"));
    }
}
