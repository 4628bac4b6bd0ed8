//! Inbox files (protocol II.3): an array of entries, kept as raw slices so that foreign entries stay byte for byte.

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// An empty inbox.
pub const EMPTY: &[u8] = b"[]";

/// One message. Sender, text and time are required, the rest is optional; unknown fields survive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the sender.
    pub from: String,
    /// The body: plain text, or one JSON object of a structured kind.
    pub text: String,
    /// One line for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// RFC 3339 with milliseconds and `Z`.
    pub timestamp: String,
    /// The sender's colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// Version of the entry's shape: 1.
    #[serde(default, rename = "msgV", skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// UUID of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// Always `message`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether its owner has it. Absent means no.
    #[serde(default)]
    pub read: bool,
    /// What other programs wrote.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Entry {
    /// A new, unread message.
    pub fn new(from: &str, text: &str, timestamp: &str, msg_id: &str) -> Entry {
        Entry {
            from: from.to_owned(),
            text: text.to_owned(),
            summary: None,
            timestamp: timestamp.to_owned(),
            color: None,
            version: Some(1),
            msg_id: Some(msg_id.to_owned()),
            kind: Some("message".to_owned()),
            read: false,
            extra: Map::new(),
        }
    }

    /// What tells this message from all others: its id, else sender, time and text (protocol I.3).
    pub fn identity(&self) -> String {
        self.msg_id.clone().unwrap_or_else(|| format!("{}|{}|{}", self.from, self.timestamp, self.text))
    }
}

/// Why a file is no inbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Nothing but blanks.
    #[error("the file is empty")]
    Blank,
    /// UTF-16 or another encoding that is not UTF-8.
    #[error("not UTF-8 text ({0})")]
    Encoding(&'static str),
    /// No JSON array.
    #[error("no JSON array: {0}")]
    Json(String),
}

/// The entries of one inbox file, as they stand in it.
#[derive(Debug, Default)]
pub struct Inbox<'a> {
    /// Every element of the array, well-formed or not.
    pub slices: Vec<&'a RawValue>,
}

/// The text of a JSON file: one leading byte-order mark is skipped.
///
/// # Errors
/// [`Damage::Encoding`], [`Damage::Blank`].
pub fn text(bytes: &[u8]) -> Result<&str, Damage> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Damage::Encoding("UTF-16; save it as UTF-8"));
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| Damage::Encoding("invalid bytes"))?;
    if text.trim().is_empty() { Err(Damage::Blank) } else { Ok(text) }
}

impl<'a> Inbox<'a> {
    /// Reads an inbox file's bytes.
    ///
    /// # Errors
    /// The file's damage. Malformed *entries* are none: see [`Inbox::entries`].
    pub fn parse(bytes: &'a [u8]) -> Result<Inbox<'a>, Damage> {
        let slices = serde_json::from_str(text(bytes)?).map_err(|e| Damage::Json(e.to_string()))?;
        Ok(Inbox { slices })
    }

    /// The well-formed entries with their index; the others are somebody's mistake and are passed over.
    pub fn entries(&self) -> impl Iterator<Item = (usize, Entry)> {
        self.slices.iter().enumerate().filter_map(|(i, raw)| Some((i, entry_of(raw.get())?)))
    }

    /// How many elements are no entries.
    pub fn malformed(&self) -> usize {
        self.slices.len() - self.entries().count()
    }
}

/// The entry that a slice holds. What is odd about it costs only itself: half a surrogate pair becomes U+FFFD, an optional
/// field of the wrong type counts as absent. `None`: a required field is missing, or it is no object.
fn entry_of(slice: &str) -> Option<Entry> {
    serde_json::from_str(slice).ok().or_else(|| {
        let mut fields: Map<String, Value> = serde_json::from_str(&whole_surrogates(slice)).ok()?;
        for key in ["summary", "color", "msg_id", "type"] {
            drop_unless(&mut fields, key, Value::is_string);
        }
        drop_unless(&mut fields, "msgV", Value::is_u64);
        drop_unless(&mut fields, "read", Value::is_boolean);
        serde_json::from_value(Value::Object(fields)).ok()
    })
}

fn drop_unless(fields: &mut Map<String, Value>, key: &str, is_right: fn(&Value) -> bool) {
    if fields.get(key).is_some_and(|value| !is_right(value)) {
        fields.shift_remove(key);
    }
}

/// JSON text in which every escaped half of a surrogate pair that stands alone is `\ufffd`.
pub(super) fn whole_surrogates(json: &str) -> Cow<'_, str> {
    // Backslashes stand only in strings, and after one comes a character that is no part of another escape.
    let mut out = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let unit = |text: &str| {
            let digits = text.strip_prefix("\\u")?.get(..4)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let length = match unit(escape) {
            Some(0xd800..0xdc00) if matches!(escape.get(6..).and_then(unit), Some(0xdc00..0xe000)) => 12,
            Some(0xd800..0xe000) => {
                out.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length);
        out.push_str(kept);
        rest = after;
    }
    if out.is_empty() {
        return Cow::Borrowed(json);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The file with more entries, each as [`rendered`]: what stood in it is not touched.
///
/// # Errors
/// The file's damage.
pub fn with_entries(bytes: &[u8], entries: &[String]) -> Result<Vec<u8>, Damage> {
    let inbox = Inbox::parse(bytes)?;
    if inbox.slices.is_empty() {
        return Ok(render(entries));
    }
    let text = text(bytes)?.trim_end();
    let head = text.strip_suffix(']').unwrap_or(text).trim_end();
    let added: usize = entries.iter().map(|e| e.len() + 4).sum();
    let mut new = Vec::with_capacity(head.len() + added + 2);
    new.extend_from_slice(head.as_bytes());
    for entry in entries {
        new.extend_from_slice(b",\n  ");
        new.extend_from_slice(entry.as_bytes());
    }
    new.extend_from_slice(b"\n]");
    Ok(new)
}

/// Drops from `entries`, each as [`rendered`], what is in the file already.
pub fn drop_present(bytes: &[u8], entries: &mut Vec<String>) {
    let Ok(inbox) = Inbox::parse(bytes) else { return };
    let present: HashSet<String> = inbox.entries().map(|(_, entry)| entry.identity()).collect();
    let is_there = |text: &str| entry_of(text).is_some_and(|entry| present.contains(&entry.identity()));
    entries.retain(|text| !is_there(text));
}

/// An entry as it stands in a file.
pub fn rendered(entry: &Entry) -> String {
    pretty(entry)
}

/// An array of slices in the original's form: indented by two, no newline at the end.
pub fn render(slices: &[String]) -> Vec<u8> {
    if slices.is_empty() { EMPTY.to_vec() } else { format!("[\n  {}\n]", slices.join(",\n  ")).into_bytes() }
}

/// The slice with `"read": true`; its other fields stay as they are.
pub fn marked_read(slice: &RawValue) -> String {
    let whole = whole_surrogates(slice.get());
    // A field's name with half a surrogate pair is the one thing that has to be changed.
    let parsed = serde_json::from_str(slice.get()).or_else(|_| serde_json::from_str(&whole));
    let Ok(mut fields): Result<Fields<'_>, _> = parsed else { return slice.get().to_owned() };
    let Ok(truth) = RawValue::from_string("true".to_owned()) else { return slice.get().to_owned() };
    // All of them: of a field that stands there twice, the last one counts.
    let mut marks = fields.0.iter_mut().filter(|(key, _)| key == "read").map(|(_, value)| *value = &truth);
    if marks.by_ref().count() == 0 {
        fields.0.push(("read".to_owned(), &truth));
    }
    pretty(&fields)
}

/// Pretty JSON as it stands inside the array.
fn pretty(value: &impl Serialize) -> String {
    // Serialising plain data to memory cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', "\n  ")
}

/// A JSON object as a list of raw fields, in order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields<'a>, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Collect)
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_appended_entry_has_the_observed_shape() {
        let mut entry = Entry::new("alpha", "Peer DM body.", "2026-11-30T16:00:10.853Z", "id-1");
        entry.summary = Some("hi".into());
        entry.color = Some("blue".into());
        let first = with_entries(EMPTY, &[rendered(&entry)]).unwrap();
        let expected = "[\n  {\n    \"from\": \"alpha\",\n    \"text\": \"Peer DM body.\",\n    \"summary\": \"hi\",\n    \"timestamp\": \"2026-11-30T16:00:10.853Z\",\n    \"color\": \"blue\",\n    \"msgV\": 1,\n    \"msg_id\": \"id-1\",\n    \"type\": \"message\",\n    \"read\": false\n  }\n]";
        assert_eq!(String::from_utf8(first.clone()).unwrap(), expected);
        let second = with_entries(&first, &[rendered(&entry)]).unwrap();
        assert_eq!(Inbox::parse(&second).unwrap().entries().count(), 2);
        assert!(second.starts_with(&first[..first.len() - 2]));
    }

    #[test]
    fn foreign_entries_stay_byte_for_byte_and_odd_ones_are_passed_over() {
        let file = br#"[ {"from":"x","text":"a","timestamp":"t","big":12345678901234567890123,"s":"\ud800"} , 42,{"from":1}, {"from":"y","text":"b","timestamp":"t"}]"#;
        let entry = Entry::new("z", "c", "t", "id");
        let file = with_entries(file, &[rendered(&entry)]).unwrap();
        let text = String::from_utf8(file.clone()).unwrap();
        assert!(text.contains(
            r#"{"from":"x","text":"a","timestamp":"t","big":12345678901234567890123,"s":"\ud800"} , 42"#
        ));
        let inbox = Inbox::parse(&file).unwrap();
        assert_eq!(inbox.slices.len(), 5);
        let marked = marked_read(inbox.slices[3]);
        assert!(serde_json::from_str::<Entry>(&marked).unwrap().read);
        let big = RawValue::from_string(r#"{"n":12345678901234567890123,"read":false}"#.into()).unwrap();
        assert_eq!(
            marked_read(&big).replace(char::is_whitespace, ""),
            r#"{"n":12345678901234567890123,"read":true}"#
        );
    }

    #[test]
    fn an_array_as_last_element_keeps_its_bracket() {
        let file = with_entries(b"[1,[2]]", &[rendered(&Entry::new("z", "c", "t", "id"))]).unwrap();
        assert_eq!(Inbox::parse(&file).unwrap().slices[1].get(), "[2]");
    }

    #[test]
    fn odd_entries_are_read_leniently() {
        let read = |slice: &str| entry_of(slice).unwrap();
        let half = r#"{"from":"x","text":"a\ud83d b \ude00 \ud83d\ude00 \\ud800 \\\ud800","timestamp":"t"}"#;
        assert_eq!(read(half).text, "a\u{fffd} b \u{fffd} \u{1f600} \\ud800 \\\u{fffd}");
        let wrong = read(
            r#"{"from":"x","text":"a","timestamp":"t","read":"yes","summary":3,"color":[],"msgV":"1","msg_id":7,"type":null}"#,
        );
        assert_eq!((wrong.read, &wrong.summary, &wrong.msg_id, wrong.version), (false, &None, &None, None));
        for bad in ["42", r#"{"from":1,"text":"a","timestamp":"t"}"#, r#"{"from":"x","text":"a"}"#, "[]"] {
            assert_eq!(entry_of(bad), None, "{bad}");
        }
        for slice in [
            half,
            r#"{"read":true,"from":"x","read":false,"text":"a","timestamp":"t"}"#,
            r#"{"from":"x","text":"a","timestamp":"t","read":"yes"}"#,
            r#"{"\ud800":1,"from":"x","text":"a","timestamp":"t"}"#,
        ] {
            let marked = marked_read(&RawValue::from_string(slice.to_owned()).unwrap());
            assert!(read(&marked).read, "{marked}");
        }
        let kept = marked_read(&RawValue::from_string(half.to_owned()).unwrap());
        assert!(kept.contains(r"a\ud83d b"), "what can stay as it is does: {kept}");
    }

    #[test]
    fn damage_is_told_apart() {
        assert_eq!(Inbox::parse(b" \n").unwrap_err(), Damage::Blank);
        assert!(matches!(Inbox::parse(b"{}").unwrap_err(), Damage::Json(_)));
        assert!(matches!(Inbox::parse(b"[][]").unwrap_err(), Damage::Json(_)));
        assert!(matches!(Inbox::parse(&[0xff, 0xfe, b'[', 0]).unwrap_err(), Damage::Encoding(_)));
        assert!(Inbox::parse(b"\xef\xbb\xbf[]").unwrap().slices.is_empty());
    }
}
