//! Digests that tie a verdict to what was asked (protocol II.3.1). Other programs compute them in JavaScript, so numbers
//! and key order are as `JSON.stringify` has them.

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Deepest nesting that has a digest.
const DEPTH_MAX: usize = 32;
/// Largest integer that a double holds exactly.
const SAFE_INTEGER_MAX: u64 = 1 << 53;

/// `planDigest`: SHA-256 of a plan, in lower-case hexadecimal.
pub fn plan_digest(plan: &str) -> String {
    hex(&Sha256::digest(plan.as_bytes()))
}

/// `input_digest`: SHA-256 of the tool's name, a zero byte, and its input as compact JSON with sorted keys, in
/// lower-case hexadecimal. `None` for an input nested deeper than 32.
pub fn input_digest(tool: &str, input: &Value) -> Option<String> {
    let mut json = String::new();
    write_sorted(input, &mut json, 0)?;
    let mut hash = Sha256::new();
    hash.update(tool.as_bytes());
    hash.update([0]);
    hash.update(json.as_bytes());
    Some(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn write_sorted(value: &Value, json: &mut String, depth: usize) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    match value {
        Value::Number(number) => json.push_str(&number_text(number)),
        Value::Array(items) => {
            json.push('[');
            for (i, item) in items.iter().enumerate() {
                json.push_str(if i > 0 { "," } else { "" });
                write_sorted(item, json, depth + 1)?;
            }
            json.push(']');
        }
        Value::Object(fields) => {
            json.push('{');
            for (i, (key, item)) in sorted(fields).into_iter().enumerate() {
                json.push_str(if i > 0 { "," } else { "" });
                json.push_str(&Value::from(key).to_string());
                json.push(':');
                write_sorted(item, json, depth + 1)?;
            }
            json.push('}');
        }
        plain => json.push_str(&plain.to_string()),
    }
    Some(())
}

/// JavaScript compares texts by their UTF-16 units.
fn sorted(fields: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let mut fields: Vec<(&str, &Value)> = fields.iter().map(|(k, v)| (k.as_str(), v)).collect();
    fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    fields
}

/// A number as JavaScript writes it, which knows doubles only.
fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(n), _) if n.unsigned_abs() <= SAFE_INTEGER_MAX => n.to_string(),
        (_, Some(double)) => double_text(double),
        (_, None) => number.to_string(),
    }
}

/// ECMA-262, Number::toString with radix 10.
fn double_text(double: f64) -> String {
    if double == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that give the same double, as in `1.25e-7`.
    let shortest = format!("{:e}", double.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // The decimal point stands behind the n-th digit.
    let n: i32 = exponent.parse::<i32>().unwrap_or(0) + 1;
    let k = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let text = match n {
        _ if k <= n && n <= 21 => digits + &zeros(n - k),
        1..=21 => {
            let (whole, part) = digits.split_at(usize::try_from(n).unwrap_or(0));
            format!("{whole}.{part}")
        }
        -5..=0 => format!("0.{}{digits}", zeros(-n)),
        _ => {
            let sign = if n > 0 { '+' } else { '-' };
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            format!("{first}{point}{rest}e{sign}{}", (n - 1).abs())
        }
    };
    if double < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: node's `createHash('sha256')` over `JSON.stringify` with sorted keys.
    #[test]
    fn digests_are_those_of_another_implementation() {
        assert_eq!(
            plan_digest("1. look\n2. do"),
            "97a8229487b20df9847ed706279e0f3e447e9c31196872ce9dd5ff320a7682c3"
        );
        let input = serde_json::json!({"b": 1.0, "a": {"z": [1, 2.5, 1e21, 1e-7, 0.000_001], "ä": "é\n\u{7f}"}, "\u{1f600}": null, "\u{ffff}": true});
        assert_eq!(
            input_digest("Bash", &input).unwrap(),
            "719e6a9216dfc74f2f6670f613344871106a062da0e2881f8308e6baf594caf3"
        );
    }

    #[test]
    fn numbers_are_written_as_in_javascript() {
        for (double, text) in [
            (1.0, "1"),
            (-0.0, "0"),
            (-1.5, "-1.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (123_456_789_012.345, "123456789012.345"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-7, "1.25e-7"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(double_text(double), text);
        }
        let large: Value = serde_json::from_str("[9007199254740993, 12345678901234567890123]").unwrap();
        let text = |i: usize| number_text(large[i].as_number().unwrap());
        assert_eq!((text(0).as_str(), text(1).as_str()), ("9007199254740992", "1.2345678901234568e+22"));
    }

    #[test]
    fn what_is_nested_too_deep_has_no_digest() {
        let nested = |depth| (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(input_digest("x", &nested(32)).is_some());
        assert!(input_digest("x", &nested(33)).is_none());
    }
}
