//! Jupyter notebooks: how a model sees them.

use super::text;
use serde_json::Value;

/// Bytes of one output that are shown.
const OUTPUT_BYTES_MAX: usize = 10_000;

/// A notebook's cells as text; `None` if the bytes are no notebook.
pub(super) fn shown(bytes: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    let mut all = String::new();
    for (i, cell) in notebook.get("cells")?.as_array()?.iter().enumerate() {
        let word = |key: &str| cell.get(key).and_then(Value::as_str);
        let id = word("id").map_or(String::new(), |id| format!(", id {id}"));
        all.push_str(&format!("[Cell {i}{id}, {}]\n", word("cell_type").unwrap_or("of no type")));
        all.push_str(&joined(cell.get("source")));
        all.push('\n');
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            all.push_str(&format!("[Output of cell {i}]\n{}\n", text::cut(&said(output), OUTPUT_BYTES_MAX)));
        }
    }
    Some(if all.is_empty() { "[The notebook has no cells.]".to_owned() } else { all })
}

/// A text that may be in pieces.
fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(pieces)) => pieces.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn said(output: &Value) -> String {
    if let Some(name) = output.get("ename").and_then(Value::as_str) {
        return format!("{name}: {}", output.get("evalue").and_then(Value::as_str).unwrap_or_default());
    }
    let data = output.get("data").and_then(Value::as_object);
    let plain = data.and_then(|data| data.get("text/plain"));
    let text = joined(output.get("text").or(plain));
    let others =
        data.into_iter().flatten().map(|(kind, _)| kind.as_str()).filter(|kind| *kind != "text/plain");
    let others: Vec<&str> = others.collect();
    if others.is_empty() { text } else { format!("{text}\n[also: {}]", others.join(", ")) }
}
