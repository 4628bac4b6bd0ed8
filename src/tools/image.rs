//! Images as a model takes them.

use crate::provider::{Block, Content};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::path::Path;

/// Largest image in bytes: the service takes 5 MB of Base64.
pub(super) const BYTES_MAX: usize = 3_750_000;

/// The media type of an image of a kind that models see, by its first bytes.
pub(super) fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The image as content.
pub(super) fn content(kind: &str, bytes: &[u8], path: &Path) -> Result<Content, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!(
            "{} is an image of {} bytes; {BYTES_MAX} is the most. Make a smaller copy first.",
            path.display(),
            bytes.len()
        ));
    }
    let block = json!({
        "type": "image",
        "source": {"type": "base64", "media_type": kind, "data": STANDARD.encode(bytes)},
    });
    let serde_json::Value::Object(block) = block else { return Ok(Content::Text(String::new())) };
    Ok(Content::Blocks(vec![Block(block)]))
}
