//! The input of a call: its JSON schema, made from the type that it is read into, and what a model is told of a wrong one.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The JSON schema of `T`, as a model gets it.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.remove("title");
        fields.remove("description");
    }
    schema
}

/// Takes out what says nothing to a model: that what may be left out may be null too, and the width of integers.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(format) = fields.get("format").and_then(Value::as_str)
                && (format.starts_with("uint") || format.starts_with("int"))
            {
                fields.remove("format");
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            without_null(fields);
            fields.values_mut().for_each(tidy);
        }
        Value::Array(all) => all.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn without_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if let Some(Value::Array(any)) = fields.get_mut("anyOf") {
        any.retain(|s| s.get("type").is_none_or(|t| t != "null"));
        if let [Value::Object(only)] = any.as_slice() {
            let only = only.clone();
            fields.remove("anyOf");
            for (key, value) in only {
                fields.entry(key).or_insert(value);
            }
        }
    }
}

/// Reads a call's input.
///
/// # Errors
/// Words for the model: the field, what is wrong with it, and all fields as they should be.
pub(super) fn read<T: JsonSchema + DeserializeOwned>(input: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(input).map_err(|e| {
        let path = e.path().to_string();
        let at = if path == "." { String::new() } else { format!(" in field '{path}'") };
        format!(
            "Wrong input{at}: {}.\nThe input is an object with these fields:{}",
            e.inner(),
            fields(&schema::<T>())
        )
    })
}

/// The fields of an object's schema, one a line.
fn fields(schema: &Value) -> String {
    let required = |name: &str| {
        let all = schema.get("required").and_then(Value::as_array);
        if all.is_some_and(|all| all.iter().any(|r| r == name)) { "required" } else { "optional" }
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let line = |(name, field): (&String, &Value)| {
        let about = field.get("description").and_then(Value::as_str).unwrap_or_default();
        format!("\n- {name} ({}, {}): {about}", kind(field), required(name))
    };
    properties.map(|p| p.iter().map(line).collect()).unwrap_or_default()
}

fn kind(field: &Value) -> String {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = values.iter().map(ToString::to_string).collect();
        return words.join(" or ");
    }
    match field.get("type").and_then(Value::as_str) {
        Some("array") => format!("array of {}", field.get("items").map_or("anything".to_owned(), kind)),
        Some(kind) => kind.to_owned(),
        None => "any JSON".to_owned(),
    }
}
