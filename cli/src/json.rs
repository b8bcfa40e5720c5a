//! JSON objects in one line, with their keys in the order in which they are added.

use std::fmt::{Display, Write as _};

use serde_json::{Map, Value};

/// Joins objects into one. `null` adds nothing.
pub(crate) fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    let objects = parts.into_iter().filter_map(|part| match part {
        Value::Object(object) => Some(object),
        _ => None,
    });
    Value::Object(objects.flatten().collect::<Map<_, _>>())
}

/// A value in one line. Characters that end a line for some readers, or are not shown, are escaped.
pub(crate) fn line(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        match c {
            // Writing to a string cannot fail.
            '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => drop(write!(line, "\\u{:04x}", u32::from(c))),
            _ => line.push(c),
        }
    }
    line
}

/// An object.
#[derive(Debug)]
pub(crate) struct JsonObject(String);

impl JsonObject {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds text.
    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, quoted(value))
    }

    /// Adds the text of something, such as a zxid in hexadecimal: many readers of JSON lose the last digits of large numbers.
    pub(crate) fn display(self, key: &str, value: impl Display) -> Self {
        self.text(key, &value.to_string())
    }

    /// Adds a number.
    pub(crate) fn number(self, key: &str, value: impl Into<i128>) -> Self {
        self.raw(key, value.into())
    }

    /// Adds an array of values that are JSON already.
    pub(crate) fn array(self, key: &str, values: impl IntoIterator<Item = String>) -> Self {
        let values: Vec<_> = values.into_iter().collect();
        self.raw(key, format_args!("[{}]", values.join(",")))
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn raw(mut self, key: &str, value: impl Display) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{comma}{}:{value}", quoted(key));
        self
    }
}

/// Text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\n' => json.push_str("\\n"),
            '\t' => json.push_str("\\t"),
            '\r' => json.push_str("\\r"),
            // U+2028 and U+2029 end a line for some readers.
            '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            _ => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_one_line_with_its_keys_in_order() {
        let object = joined([
            json!({"path": "/a \"b\"\n", "version": 3, "length": None::<i32>, "ttl": Some(5)}),
            Value::Null,
            json!({"acl": ["x", {}], "big": u64::MAX.to_string()}),
        ]);
        assert_eq!(
            line(&object),
            r#"{"path":"/a \"b\"\n","version":3,"length":null,"ttl":5,"acl":["x",{}],"big":"18446744073709551615"}"#
        );
    }

    #[test]
    fn characters_that_break_a_line_or_a_string_are_escaped() {
        let escaped = "\"é\\u0001\\u0085\\u2028\\\\\\t\\r😀\"";
        assert_eq!(line(&json!("é\u{1}\u{85}\u{2028}\\\t\r😀")), escaped);
    }
}
