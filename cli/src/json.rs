//! JSON objects in one line, with their keys in the order in which they are written.

use std::fmt::Write as _;

use serde_json::Value;

/// Joins objects into one. `null` adds nothing.
pub(crate) fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    let objects = parts.into_iter().filter_map(|part| match part {
        Value::Object(object) => Some(object),
        _ => None,
    });
    Value::Object(objects.flatten().collect())
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
