//! Output without what differs between two runs.

use super::World;

/// Replaces the world's folder, process ids, spans of time and sizes.
pub fn normalise(text: &str, world: &World) -> String {
    let text = text.replace(&*world.root().to_string_lossy(), "WORLD");
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut out = String::new();
        let mut previous = "";
        for piece in line.split_inclusive(' ') {
            let word = piece.trim_end_matches([' ', ',', ')', ':']);
            let tail = &piece[word.len()..];
            let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let next_is_unit = |unit: &str| {
                let at = piece.as_ptr() as usize - line.as_ptr() as usize + piece.len();
                let rest = &line[at..];
                rest == unit || rest.strip_prefix(unit).is_some_and(|r| r.starts_with([' ', ',', ':']))
            };
            let shown = match previous {
                "process" if is_number => "PID",
                _ if is_number && (next_is_unit("s") || next_is_unit("MB")) => "N",
                _ => word,
            };
            out.push_str(shown);
            out.push_str(tail);
            previous = word;
        }
        // Columns are as wide as what was replaced.
        while out.contains("   ") {
            out = out.replace("   ", "  ");
        }
        lines.push(out);
    }
    lines.join("\n")
}
