//! What differs between two runs of the same work and means the same: places, the session's id, the day. In a recording
//! each stands under its name, so that a replay elsewhere and on another day is the same. Pure.

use memchr::memmem;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The names that may stand in a recording, in braces. `{tmp:N}` is the N-th name under `{tmp}` that looks drawn by chance.
const NAMES: [&str; 8] = ["directory", "output", "config", "state", "home", "tmp", "session", "date"];
/// Keys of blocks whose texts are no words: signatures and bytes in base64.
const OPAQUE: [&str; 2] = ["signature", "data"];
/// Shortest value that is looked for: a home of `/` would be everywhere.
const VALUE_BYTES_MIN: usize = 2;
/// How many characters of a name of a temporary file may be drawn by chance.
const CHANCE_CHARS: std::ops::RangeInclusive<usize> = 6..=12;

/// The known values of a run.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Name and value, the longest value first: what lies in another place has its own name.
    values: Vec<(&'static str, String)>,
    /// The first value of each name: the one that is put back.
    first: BTreeMap<&'static str, String>,
    /// Temporary paths that were met, in the order in which they were.
    temporary: Vec<String>,
}

/// What stands at a place of a text.
enum At {
    /// A known value of this length, to be replaced by this.
    Value(usize, String),
    /// Text of this length that only looks like one of our names.
    Literal(usize),
    /// Nothing special.
    Nothing,
}

/// Whether temporary paths that were not met before get a number.
#[derive(Clone, Copy, PartialEq)]
enum New {
    Numbered,
    Left,
}

impl Known {
    /// Nothing is known.
    pub fn new() -> Known {
        Known::default()
    }

    /// A place.
    #[must_use]
    pub fn place(self, name: &'static str, path: &Path) -> Known {
        self.value(name, path.to_string_lossy().trim_end_matches('/'))
    }

    /// Any value. Of several values of one name the first is put back, of several names of one value the first is taken.
    #[must_use]
    pub fn value(mut self, name: &'static str, value: &str) -> Known {
        debug_assert!(NAMES.contains(&name), "{name}");
        if value.len() < VALUE_BYTES_MIN {
            return self;
        }
        self.first.entry(name).or_insert_with(|| value.to_owned());
        if !self.values.iter().any(|(_, known)| known == value) {
            self.values.push((name, value.to_owned()));
            self.values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        }
        self
    }

    /// These temporary paths were met before, in this order.
    #[must_use]
    pub(super) fn having_met(mut self, temporary: Vec<String>) -> Known {
        self.temporary = temporary;
        self
    }

    /// The temporary paths that were met, in their order.
    pub(super) fn met(&self) -> &[String] {
        &self.temporary
    }

    /// The text with names for values. Temporary paths get numbers as they are met.
    pub fn named(&mut self, text: &str) -> String {
        let mut temporary = std::mem::take(&mut self.temporary);
        let named = self.replaced(text, (&mut temporary, New::Numbered));
        self.temporary = temporary;
        named
    }

    /// The same, where no new temporary path gets a number: what a model says of its own is met when it has come back.
    pub fn named_as_met(&self, text: &str) -> String {
        self.replaced(text, (&mut self.temporary.clone(), New::Left))
    }

    /// The text with values for names: the reverse.
    pub fn put_back(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = memchr::memchr(b'{', rest.as_bytes()) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(name) = name_at(rest) else {
                out.push('{');
                rest = &rest[1..];
                continue;
            };
            match name.word.strip_prefix('=') {
                Some(literal) => {
                    out.push('{');
                    out.push_str(literal);
                    out.push('}');
                }
                None => out.push_str(self.value_of(name.word).unwrap_or(&rest[..name.length])),
            }
            rest = &rest[name.length..];
        }
        out.push_str(rest);
        out
    }

    /// All texts in a value, by the given way; keys stay.
    pub fn each(value: &mut Value, change: &mut dyn FnMut(&str) -> String) {
        match value {
            Value::String(text) => *text = change(text),
            Value::Array(items) => items.iter_mut().for_each(|item| Known::each(item, change)),
            Value::Object(object) => {
                let words = object.iter_mut().filter(|(key, _)| !OPAQUE.contains(&key.as_str()));
                words.for_each(|(_, item)| Known::each(item, change));
            }
            _ => {}
        }
    }

    fn value_of(&self, word: &str) -> Option<&str> {
        if let Some(number) = word.strip_prefix("tmp:") {
            let at = number.parse::<usize>().ok()?.checked_sub(1)?;
            return self.temporary.get(at).map(String::as_str);
        }
        self.first.get(word).map(String::as_str)
    }

    fn replaced(&self, text: &str, (temporary, new): (&mut Vec<String>, New)) -> String {
        let may_concern =
            |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some() && !word.is_empty();
        if !self.values.iter().any(|(_, value)| may_concern(value)) && !text.contains('{') {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            match self.at(text, at, (temporary, new)) {
                At::Value(length, name) => {
                    out.push_str(&name);
                    at += length;
                }
                At::Literal(length) => {
                    out.push_str("{=");
                    out.push_str(&text[at + 1..at + length]);
                    at += length;
                }
                At::Nothing => {
                    out.push(next);
                    at += next.len_utf8();
                }
            }
        }
        out
    }

    fn at(&self, text: &str, at: usize, (temporary, new): (&mut Vec<String>, New)) -> At {
        let rest = &text[at..];
        if rest.starts_with('{') {
            return name_at(rest).map_or(At::Nothing, |name| At::Literal(name.length));
        }
        let before = text[..at].chars().next_back();
        for (name, value) in &self.values {
            let Some(after) = rest.strip_prefix(value.as_str()) else { continue };
            if !stands_alone(value, before, after) {
                continue;
            }
            if *name == "tmp"
                && let Some(segment) = after.strip_prefix('/').and_then(drawn_by_chance)
            {
                let path = &rest[..value.len() + 1 + segment.len()];
                let known = temporary.iter().position(|known| known == path);
                if known.is_none() && new == New::Numbered {
                    temporary.push(path.to_owned());
                }
                if let Some(number) = known.or_else(|| (new == New::Numbered).then(|| temporary.len() - 1)) {
                    return At::Value(path.len(), format!("{{tmp:{}}}", number + 1));
                }
            }
            return At::Value(value.len(), format!("{{{name}}}"));
        }
        At::Nothing
    }
}

/// One of our names at the beginning of a text.
struct Name<'t> {
    /// What stands between the braces.
    word: &'t str,
    /// All of it in bytes.
    length: usize,
}

fn name_at(text: &str) -> Option<Name<'_>> {
    let end = text.bytes().take(40).position(|b| b == b'}')?;
    let word = text.get(1..end)?;
    let bare = word.trim_start_matches('=');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_name = NAMES.contains(&bare) || bare.strip_prefix("tmp:").is_some_and(is_number);
    is_name.then_some(Name { word, length: end + 1 })
}

/// Whether a value is no part of a longer word: `/home/ann` is not in `/home/anna`, `2026-12-01` not in `12026-12-01`.
fn stands_alone(value: &str, before: Option<char>, after: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut next = after.chars();
    let goes_on = match next.next() {
        Some('.') => next.next().is_some_and(is_word),
        // A day may be followed by its time.
        Some('T') if !value.starts_with('/') => false,
        c => c.is_some_and(is_word),
    };
    let comes_from = before.is_some_and(|c| is_word(c) || value.starts_with('/') && matches!(c, '.' | '~'));
    !goes_on && !comes_from
}

/// The first part of a path, if it looks as `mktemp` and its kin make it.
fn drawn_by_chance(path: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let segment = path.split(|c| !is_part(c)).next().unwrap_or_default().trim_end_matches('.');
    let drawn = segment.rsplit(['.', '-']).next().unwrap_or_default();
    let is_drawn = |word: &str| {
        CHANCE_CHARS.contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let after_tmp = segment.trim_start_matches('.').strip_prefix("tmp");
    let is_temporary = after_tmp.is_some_and(|rest| is_drawn(rest.trim_start_matches(['.', '-', '_'])))
        || drawn.len() < segment.len() && is_drawn(drawn);
    is_temporary.then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn known(directory: &str, home: &str, date: &str) -> Known {
        let known = Known::new().value("tmp", "/tmp").value("session", "1f0c-77").value("date", date);
        known.value("home", home).value("directory", directory)
    }

    #[test]
    fn d10_places_have_names_and_longer_words_are_left() {
        let mut known = known("/home/ann/w", "/home/ann", "2026-12-01");
        let text = "/home/ann/w/a /home/ann/.x /home/anna /x/home/ann /home/ann. 1f0c-77 2026-12-01T10 /tmp/x 12026-12-01";
        let named =
            "{directory}/a {home}/.x /home/anna /x/home/ann {home}. {session} {date}T10 {tmp}/x 12026-12-01";
        assert_eq!(known.named(text), named);
        assert_eq!(known.put_back(named), text);
        let other = self::known("/w", "/h", "2027-01-02");
        assert_eq!(
            other.put_back(named),
            "/w/a /h/.x /home/anna /x/home/ann /h. 1f0c-77 2027-01-02T10 /tmp/x 12026-12-01"
        );
    }

    #[test]
    fn d10_temporary_names_are_numbered_as_they_are_met() {
        let mut known = known("/w", "/h", "2026-12-01");
        let (a, b) = ("/tmp/tmp.Ab3dEf9hIj", "/tmp/throng-it.xY12zZ");
        let text = format!("{a}/x {b} {a}. /tmp/notes.txt /tmp/tmpab_d1234 /tmp/.tmpQwErTy");
        let named = "{tmp:1}/x {tmp:2} {tmp:1}. {tmp}/notes.txt {tmp:3} {tmp:4}";
        assert_eq!(known.named(&text), named);
        assert_eq!(known.put_back(named), text);
        // What the model invents has no number yet.
        assert_eq!(known.named_as_met(&format!("{a} /tmp/my-script1")), "{tmp:1} {tmp}/my-script1");
        assert_eq!(known.put_back("{tmp:9}"), "{tmp:9}");
    }

    #[test]
    fn d10_text_that_looks_like_a_name_comes_back_as_it_was() {
        let mut known = known("/w", "/h", "2026-12-01");
        let text = "println!(\"{directory} {=home} {tmp:3} {other} {\") /w/x";
        let named = known.named(text);
        assert_eq!(named, "println!(\"{=directory} {==home} {=tmp:3} {other} {\") {directory}/x");
        assert_eq!(known.put_back(&named), text);
    }

    #[test]
    fn signatures_and_keys_are_left() {
        let mut known = known("/w/x", "/h", "2026-12-01");
        let mut value = json!({"/w/x": ["/w/x", {"signature": "/w/x"}], "n": 1});
        Known::each(&mut value, &mut |text| known.named(text));
        assert_eq!(value, json!({"/w/x": ["{directory}", {"signature": "/w/x"}], "n": 1}));
    }

    #[test]
    fn of_two_days_the_first_is_put_back() {
        let mut known = Known::new().value("date", "2026-12-01").value("date", "2027-01-02");
        assert_eq!(known.named("2026-12-01 2027-01-02"), "{date} {date}");
        assert_eq!(known.put_back("{date}"), "2026-12-01");
    }

    proptest! {
        #[test]
        fn d10_what_is_named_comes_back(
            words in prop::collection::vec(prop::sample::select(vec![
                "/w", "/w/x", "/h", "/tmp", "/tmp/tmp.Ab3dEf9hIj", "/tmp/", "tmp.AAAAAA", "{", "}", "{directory}", "{=tmp:1}",
                "directory", "=", "2026-12-01", "1f0c-77", " ", "-", "é", "\"", ".", "T", "x",
            ]), 0..12)
        ) {
            let text = words.concat();
            let mut known = known("/w/x", "/h/ann", "2026-12-01");
            let named = known.named(&text);
            prop_assert_eq!(known.put_back(&named), text.clone());
            prop_assert_eq!(known.named(&text), named);
        }
    }
}
