//! [`Fields`]: what a server has sent, as named values that a case can name and a report can print.

use std::fmt;

use bytes::Bytes;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, OpResult, WatchedEvent};
use zoolet_proto::{DecodeError, ErrorCode, Reply, Stat, Zxid};

use crate::wire::acl;

/// Named values in the order in which they are printed.
pub(crate) type Fields = Vec<(&'static str, Value)>;

/// The value of this name, if there is one.
pub(crate) fn field<'f>(fields: &'f Fields, name: &str) -> Option<&'f Value> {
    fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Where quotas are.
pub(crate) const QUOTAS: &str = "/zookeeper/quota";

/// The names of what cases can judge, beside the result.
pub(crate) fn field_names() -> Vec<&'static str> {
    let mut names = vec![
        "zxid",
        "path",
        "data",
        "children",
        "acl",
        "ephemerals",
        "ids",
        "count",
        "token",
        "state",
        "protocol",
        "readOnly",
        "timeout",
        "session",
        "password",
    ];
    names.extend(of_stat(&Stat::default()).map(|(name, _)| name));
    names
}

/// A value of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    /// A name of the protocol, a path or an ACL entry.
    Text(String),
    Data(Option<Bytes>),
    /// In no order that means anything.
    Set(Vec<String>),
    /// In the order of the server.
    List(Vec<String>),
    /// The results of a multi.
    Results(Vec<Fields>),
}

/// The fields of a reply: `ok` or the name of its error as `result`, its zxid, and those of its body.
pub(crate) fn of_reply(error: Option<ErrorCode>, zxid: Zxid, reply: &Reply) -> Fields {
    let mut fields = vec![("result", result(error)), ("zxid", Value::Int(zxid.0))];
    let (content, stat) = match reply {
        Reply::Created(path) => (Some(("path", text(path))), None),
        Reply::Created2(path, stat) => (Some(("path", text(path))), Some(stat)),
        Reply::Stat(stat) => (None, Some(stat)),
        Reply::Data(data, stat) => (Some(("data", Value::Data(data.clone()))), Some(stat)),
        Reply::Acl(entries, stat) => {
            (Some(("acl", Value::List(entries.iter().map(acl::show).collect()))), Some(stat))
        }
        Reply::Children(names) => (Some(("children", Value::Set(names.iter().collect()))), None),
        Reply::Children2(names, stat) => (Some(("children", Value::Set(names.iter().collect()))), Some(stat)),
        Reply::Count(count) => (Some(("count", Value::Int((*count).into()))), None),
        Reply::Ephemerals(paths) => (Some(("ephemerals", Value::Set(paths.clone()))), None),
        Reply::Synced(path) => (Some(("path", text(path.as_deref().unwrap_or("null")))), None),
        Reply::WhoAmI(ids) => {
            let ids = ids.iter().map(|id| format!("{}:{}", id.scheme, id.user));
            (Some(("ids", Value::Set(ids.collect()))), None)
        }
        Reply::Sasl(token) => (Some(("token", Value::Data(token.clone()))), None),
        Reply::Multi(results) => {
            // Where cases write them.
            fields.insert(1, ("results", Value::Results(results.iter().map(of_result).collect())));
            (None, None)
        }
        // Without a body, or of an operation that is newer than this.
        _ => (None, None),
    };
    fields.extend(content);
    fields.extend(stat.into_iter().flat_map(of_stat));
    fields
}

/// The fields of a reply, of which the body may not decode.
pub(crate) fn reply_fields(error: i32, zxid: Zxid, reply: &Result<Reply, DecodeError>) -> Fields {
    let mut fields = of_reply(ErrorCode::from_code(error), zxid, reply.as_ref().unwrap_or(&Reply::Empty));
    if let Err(error) = reply {
        fields.push(("malformed", Value::Text(error.to_string())));
    }
    fields
}

/// The fields of a watch event.
pub(crate) fn of_event(zxid: Zxid, event: &WatchedEvent) -> Fields {
    vec![
        ("result", text(&format!("{:?}", event.kind))),
        ("zxid", Value::Int(zxid.0)),
        ("path", text(&event.path)),
        ("state", text(&format!("{:?}", event.state))),
    ]
}

/// The fields of the first frame of a client.
pub(crate) fn of_connect(request: &ConnectRequest) -> Fields {
    vec![
        ("result", text("connect")),
        ("timeout", Value::Int(request.timeout.into())),
        ("session", Value::Int(request.session.0)),
        ("zxid", Value::Int(request.last_zxid_seen.0)),
    ]
}

/// The fields of what a server answers to a handshake.
pub(crate) fn of_connected(response: &ConnectResponse) -> Fields {
    vec![
        ("result", text(if response.is_refusal() { "refused" } else { "ok" })),
        ("timeout", Value::Int(response.timeout.into())),
        ("session", Value::Int(response.session.0)),
        ("password", Value::Data(Some(response.password.clone()))),
    ]
}

fn of_result(result: &OpResult) -> Fields {
    let (content, stat) = match result {
        OpResult::Create(path) => (Some(("path", text(path))), None),
        OpResult::Create2(path, stat) => (Some(("path", text(path))), Some(stat)),
        OpResult::Delete | OpResult::Check => (None, None),
        OpResult::SetData(stat) => (None, Some(stat)),
        OpResult::GetData(data, stat) => (Some(("data", Value::Data(data.clone()))), Some(stat)),
        OpResult::GetChildren(names) => (Some(("children", Value::Set(names.iter().collect()))), None),
        OpResult::Error(Some(code)) => return vec![("result", self::result(Some(*code)))],
        // That of an operation before the one that failed has code 0.
        OpResult::Error(None) => return named("undone"),
    };
    let mut fields = named("ok");
    fields.extend(content);
    fields.extend(stat.into_iter().flat_map(of_stat));
    fields
}

fn result(error: Option<ErrorCode>) -> Value {
    text(&error.map_or_else(|| "ok".to_owned(), |code| format!("{code:?}")))
}

/// Something of which there is only the name, or the begin of more.
pub(crate) fn named(name: &str) -> Fields {
    vec![("result", text(name))]
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn of_stat(stat: &Stat) -> [(&'static str, Value); 11] {
    [
        ("czxid", Value::Int(stat.czxid.0)),
        ("mzxid", Value::Int(stat.mzxid.0)),
        ("ctime", Value::Int(stat.ctime)),
        ("mtime", Value::Int(stat.mtime)),
        ("version", Value::Int(stat.version.into())),
        ("cversion", Value::Int(stat.cversion.into())),
        ("aversion", Value::Int(stat.aversion.into())),
        ("ephemeralOwner", Value::Int(stat.ephemeral_owner.0)),
        ("dataLength", Value::Int(stat.data_length.into())),
        ("numChildren", Value::Int(stat.num_children.into())),
        ("pzxid", Value::Int(stat.pzxid.0)),
    ]
}

impl Value {
    /// Puts `to` in the place of `from` where a path begins with it, or that of its quota does.
    pub(crate) fn replace_root(&mut self, from: &str, to: &str) {
        let replace = |text: &mut String| {
            let (quotas, path) = text.strip_prefix(QUOTAS).map_or(("", &text[..]), |path| (QUOTAS, path));
            if let Some(rest) =
                path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'))
            {
                *text = format!("{quotas}{to}{rest}");
            }
        };
        match self {
            Self::Text(text) => replace(text),
            Self::Set(texts) | Self::List(texts) => texts.iter_mut().for_each(replace),
            Self::Results(results) => {
                results.iter_mut().flatten().for_each(|(_, value)| value.replace_root(from, to));
            }
            Self::Int(_) | Self::Data(_) => {}
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&word(text)),
            Self::Data(None) => f.write_str("null"),
            Self::Data(Some(data)) => f.write_str(&quoted(data)),
            Self::Set(texts) | Self::List(texts) => {
                let words: Vec<_> = texts.iter().map(|text| word(text)).collect();
                write!(f, "[{}]", words.join(" "))
            }
            Self::Results(results) => {
                let shown: Vec<_> = results.iter().map(|fields| show(fields)).collect();
                write!(f, "{{ {} }}", shown.join("; "))
            }
        }
    }
}

/// A text as a word, quoted only where it has to be.
fn word(text: &str) -> String {
    let is_plain =
        !text.is_empty() && text.chars().all(|sign| sign.is_ascii_graphic() && !"{}[];=\"".contains(sign));
    if is_plain { text.to_owned() } else { quoted(text.as_bytes()) }
}

/// Fields as a case writes them.
pub(crate) fn show(fields: &[(&'static str, Value)]) -> String {
    let shown: Vec<_> = fields
        .iter()
        .map(|(name, value)| match (*name, value) {
            ("result" | "results", value) => value.to_string(),
            (name, value) => format!("{name}={value}"),
        })
        .collect();
    shown.join(" ")
}

/// Writes bytes so that they are read again as they were, and so that each of them can be seen.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// `~` is the znode of the case, also in the path of its quota.
pub(crate) fn with_root(text: &[u8], root: &str) -> Vec<u8> {
    if let Some(below @ [b'~', ..]) = text.strip_prefix(QUOTAS.as_bytes()) {
        return [QUOTAS.as_bytes(), &with_root(below, root)].concat();
    }
    match text.strip_prefix(b"~") {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => [root.as_bytes(), rest].concat(),
        _ => text.to_vec(),
    }
}
