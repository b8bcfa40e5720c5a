//! Frames of different servers, made comparable.

use crate::wire::fields::{Fields, Value};

/// The fields without what must differ: zxids and sessions have other names, passwords are their lengths, of times only counts whether there is
/// one, and what has no order is sorted. The zxids −1 and 0 and the session 0 mean something of their own, and stay.
pub(crate) fn normal(
    fields: &Fields,
    zxid: &dyn Fn(i64) -> String,
    session: &dyn Fn(i64) -> Option<String>,
) -> Fields {
    let changed = |name: &str, value: &Value| match (name, value) {
        ("zxid" | "czxid" | "mzxid" | "pzxid", Value::Int(number)) if *number > 0 => {
            Value::Text(zxid(*number))
        }
        ("session" | "ephemeralOwner", Value::Int(number)) if *number != 0 => {
            session(*number).map_or_else(|| value.clone(), Value::Text)
        }
        ("ctime" | "mtime", Value::Int(time)) => Value::Text(if *time == 0 { "0" } else { "set" }.to_owned()),
        ("password", Value::Data(Some(password))) => Value::Int(password.len() as i64),
        (_, Value::Set(names)) => Value::Set(sorted(names)),
        // What replaces `auth` in an ACL has no order.
        (_, Value::List(acl)) if acl.iter().filter(|entry| entry.starts_with("digest:")).count() > 1 => {
            Value::List(sorted(acl))
        }
        (_, Value::Results(results)) => {
            Value::Results(results.iter().map(|fields| normal(fields, zxid, session)).collect())
        }
        (_, value) => value.clone(),
    };
    fields.iter().map(|(name, value)| (*name, changed(name, value))).collect()
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort();
    texts
}
