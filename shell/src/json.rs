//! JSON objects in one line. Zxids and session ids are text in hexadecimal, as many readers of JSON lose the last digits of large
//! numbers.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use zoolet_client::{Acl, Stat};

use crate::walk::Visit;

/// Joins objects into one. What is not an object adds nothing.
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

/// All eleven fields.
pub(crate) fn stat(stat: &Stat) -> Value {
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": stat.ephemeral_owner.to_string(),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
        "pzxid": stat.pzxid.to_string(),
    })
}

/// A znode by its path and the whole Stat.
pub(crate) fn znode(path: &str, of: &Stat) -> Value {
    joined([json!({"path": path}), stat(of)])
}

/// What a walk has read of a znode: its Stat, and why the rest could not be read (`error`).
pub(crate) fn visit(path: &str, visit: &Visit) -> Value {
    let stat = visit.stat.as_ref().map(stat).unwrap_or_default();
    let error = visit.error.as_ref().map(|error| match error.code() {
        Some(code) => code.to_string(),
        None => error.to_string(),
    });
    let error = error.map(|error| json!({"error": error})).unwrap_or_default();
    joined([json!({"path": path}), stat, error])
}

/// Data as text (`data`), or as base64 (`dataBase64`) if it is not text.
pub(crate) fn data(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"data": text}),
        Err(_) => json!({"dataBase64": BASE64.encode(bytes)}),
    }
}

/// The entries of an ACL.
pub(crate) fn acl(entries: &[Acl]) -> Value {
    let entry =
        |entry: &Acl| json!({"perms": format!("{:?}", entry.perms), "scheme": entry.scheme, "id": entry.id});
    entries.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_line_with_its_keys_in_order() {
        let object = joined([json!({"path": "/a \"b\"\n\u{2028}"}), Value::Null, json!({"a": 1})]);
        assert_eq!(line(&object), r#"{"path":"/a \"b\"\n\u2028","a":1}"#);
    }

    #[test]
    fn data_that_is_not_text_is_base64() {
        assert_eq!(data(b"x\ny"), json!({"data": "x\ny"}));
        assert_eq!(data(b"\xff\x00"), json!({"dataBase64": "/wA="}));
    }
}
