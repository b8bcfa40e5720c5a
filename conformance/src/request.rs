//! [`Draft`]: a request as a case writes it, which may be one that no client sends.
//!
//! Bodies are encoded here and not by `zoolet-proto`, so that fields can be null or out of range, and so that a mistake there is found.

use bytes::{BufMut, BytesMut};

use crate::fields::{PERMS, Value};
use crate::lex::Token;
use crate::parse::Cursor;
use crate::pattern::Names;

/// A request before the names and paths in it are known.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) code: i32,
    pub(crate) xid: Option<i32>,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Fields(Vec<(Kind, Argument)>),
    Parts(Vec<Draft>),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

/// How a field is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Data,
    Int,
    Long,
    Bool,
    Acl,
    Texts,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    Null,
    Number(i64),
    /// The number of this name.
    Named(String),
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
}

/// An operation that cases can name: its opcode, and its fields with what they are if they are left out.
struct Operation {
    name: &'static str,
    code: i32,
    fields: &'static [(&'static str, Kind, Default)],
}

#[derive(Clone, Copy)]
enum Default {
    Required,
    Number(i64),
    Empty,
    Null,
    /// Everybody may do everything.
    Open,
}

const PATH: (&str, Kind, Default) = ("path", Kind::Text, Default::Required);
const DATA: (&str, Kind, Default) = ("data", Kind::Data, Default::Empty);
const ACL: (&str, Kind, Default) = ("acl", Kind::Acl, Default::Open);
const VERSION: (&str, Kind, Default) = ("version", Kind::Int, Default::Number(-1));
const WATCH: (&str, Kind, Default) = ("watch", Kind::Bool, Default::Number(0));
const SINCE: (&str, Kind, Default) = ("since", Kind::Long, Default::Required);

const fn flags(default: i64) -> (&'static str, Kind, Default) {
    ("flags", Kind::Int, Default::Number(default))
}
const fn texts(name: &'static str) -> (&'static str, Kind, Default) {
    (name, Kind::Texts, Default::Empty)
}
const fn text(name: &'static str) -> (&'static str, Kind, Default) {
    (name, Kind::Text, Default::Null)
}

/// What an operation is called, its opcode, and its fields in the order of the wire.
const OPERATIONS: &[Operation] = &[
    Operation { name: "create", code: 1, fields: &[PATH, DATA, ACL, flags(0)] },
    Operation { name: "create2", code: 15, fields: &[PATH, DATA, ACL, flags(0)] },
    Operation { name: "createContainer", code: 19, fields: &[PATH, DATA, ACL, flags(4)] },
    Operation {
        name: "createTTL",
        code: 21,
        fields: &[PATH, DATA, ACL, flags(5), ("ttl", Kind::Long, Default::Number(1000))],
    },
    Operation { name: "delete", code: 2, fields: &[PATH, VERSION] },
    Operation { name: "deleteContainer", code: 20, fields: &[PATH] },
    Operation { name: "exists", code: 3, fields: &[PATH, WATCH] },
    Operation { name: "getData", code: 4, fields: &[PATH, WATCH] },
    Operation { name: "setData", code: 5, fields: &[PATH, DATA, VERSION] },
    Operation { name: "getACL", code: 6, fields: &[PATH] },
    Operation { name: "setACL", code: 7, fields: &[PATH, ACL, VERSION] },
    Operation { name: "getChildren", code: 8, fields: &[PATH, WATCH] },
    Operation { name: "getChildren2", code: 12, fields: &[PATH, WATCH] },
    Operation { name: "getAllChildrenNumber", code: 104, fields: &[PATH] },
    Operation { name: "getEphemerals", code: 103, fields: &[text("prefix")] },
    Operation { name: "sync", code: 9, fields: &[PATH] },
    Operation { name: "check", code: 13, fields: &[PATH, VERSION] },
    Operation { name: "ping", code: 11, fields: &[] },
    Operation { name: "whoAmI", code: 107, fields: &[] },
    Operation { name: "closeSession", code: -11, fields: &[] },
    Operation { name: "addWatch", code: 106, fields: &[PATH, ("mode", Kind::Int, Default::Number(0))] },
    Operation { name: "checkWatches", code: 17, fields: &[PATH, ("kind", Kind::Int, Default::Number(3))] },
    Operation { name: "removeWatches", code: 18, fields: &[PATH, ("kind", Kind::Int, Default::Number(3))] },
    Operation {
        name: "setWatches",
        code: 101,
        fields: &[SINCE, texts("data"), texts("exist"), texts("child")],
    },
    Operation {
        name: "setWatches2",
        code: 105,
        fields: &[
            SINCE,
            texts("data"),
            texts("exist"),
            texts("child"),
            texts("persistent"),
            texts("recursive"),
        ],
    },
    Operation {
        name: "auth",
        code: 100,
        fields: &[
            ("scheme", Kind::Text, Default::Required),
            ("auth", Kind::Data, Default::Required),
            ("kind", Kind::Int, Default::Number(0)),
        ],
    },
    Operation { name: "sasl", code: 102, fields: &[("token", Kind::Data, Default::Required)] },
    Operation {
        name: "reconfig",
        code: 16,
        fields: &[
            text("joining"),
            text("leaving"),
            text("members"),
            ("config", Kind::Long, Default::Number(-1)),
        ],
    },
];

const MULTI: i32 = 14;
const MULTI_READ: i32 = 22;
const PING: i32 = 11;
const AUTH: i32 = 100;

/// Flags of the create family as words.
const FLAGS: &[(&str, i64)] = &[("ephemeral", 1), ("sequential", 2)];

impl Draft {
    /// Reads a request up to `->`, `;`, `}` or the end.
    pub(crate) fn parse(cursor: &mut Cursor) -> Result<Self, String> {
        let name = cursor.word("the name of an operation")?;
        match name.as_str() {
            "multi" => Ok(Self { code: MULTI, xid: None, body: Body::Parts(parts(cursor)?) }),
            "multiRead" => Ok(Self { code: MULTI_READ, xid: None, body: Body::Parts(parts(cursor)?) }),
            "raw" => {
                let code = cursor.word("an opcode")?;
                let code = code.parse().map_err(|_| format!("`{code}` is no opcode"))?;
                Ok(Self {
                    code,
                    xid: None,
                    body: Body::Raw(cursor.text("the bytes of the body, in quotes")?),
                })
            }
            _ => {
                let operation =
                    OPERATIONS.iter().find(|operation| operation.name == name).ok_or_else(|| {
                        let known: Vec<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
                        format!(
                            "`{name}` is no operation; known are multi, multiRead, raw, {}",
                            known.join(", ")
                        )
                    })?;
                Self::of(operation, cursor)
            }
        }
    }

    fn of(operation: &Operation, cursor: &mut Cursor) -> Result<Self, String> {
        let mut given: Vec<Option<Argument>> = vec![None; operation.fields.len()];
        let mut xid = None;
        let place = |name: &str| operation.fields.iter().position(|(field, ..)| *field == name);
        while !cursor.is_at_end_of_request() {
            if let Some(name) = cursor.key() {
                if name == "xid" {
                    let text = cursor.word("a number")?;
                    xid = Some(text.parse().map_err(|_| format!("`{text}` is no xid"))?);
                    continue;
                }
                let at = place(&name).ok_or_else(|| {
                    let known: Vec<_> = operation.fields.iter().map(|(name, ..)| *name).collect();
                    format!("{} has no `{name}`; it has {}", operation.name, known.join(", "))
                })?;
                given[at] = Some(argument(operation.fields[at].1, cursor)?);
                continue;
            }
            if let Some(Token::Word(word)) = cursor.peek() {
                let flag = FLAGS.iter().find(|(name, _)| name == word);
                if let (Some((_, bit)), Some(at)) = (flag, place("flags")) {
                    let before = match &given[at] {
                        Some(Argument::Number(number)) => *number,
                        _ => 0,
                    };
                    given[at] = Some(Argument::Number(before | bit));
                    cursor.skip();
                    continue;
                }
                if let (true, Some(at)) = (word == "watch", place("watch")) {
                    given[at] = Some(Argument::Number(1));
                    cursor.skip();
                    continue;
                }
            }
            let at = given
                .iter()
                .position(Option::is_none)
                .ok_or_else(|| format!("{} takes no more than that", operation.name))?;
            given[at] = Some(argument(operation.fields[at].1, cursor)?);
        }
        let mut fields = Vec::new();
        for ((name, kind, default), given) in operation.fields.iter().zip(given) {
            let argument = match (given, default) {
                (Some(given), _) => given,
                (None, Default::Required) => return Err(format!("{} requires `{name}`", operation.name)),
                (None, Default::Number(number)) => Argument::Number(*number),
                (None, Default::Empty) if *kind == Kind::Data => Argument::Bytes(Vec::new()),
                (None, Default::Empty) => Argument::List(Vec::new()),
                (None, Default::Null) => Argument::Null,
                (None, Default::Open) => Argument::List(vec![b"world:anyone:cdrwa".to_vec()]),
            };
            fields.push((*kind, argument));
        }
        if operation.code == AUTH {
            // The wire has its kind first.
            fields.rotate_right(1);
        }
        Ok(Self { code: operation.code, xid, body: Body::Fields(fields) })
    }

    /// The xid that clients give such a request, if it is always the same.
    pub(crate) fn usual_xid(&self) -> Option<i32> {
        self.xid.or(match self.code {
            PING => Some(-2),
            AUTH => Some(-4),
            _ => None,
        })
    }

    /// Appends the body. Paths that begin with `~` are below `root`.
    pub(crate) fn encode(&self, root: &str, names: &Names, out: &mut BytesMut) -> Result<(), String> {
        match &self.body {
            Body::Raw(bytes) => out.put_slice(bytes),
            Body::Parts(parts) => {
                for part in parts {
                    header(part.code, false, out);
                    part.encode(root, names, out)?;
                }
                header(-1, true, out);
            }
            Body::Fields(fields) => {
                for (kind, argument) in fields {
                    put(*kind, argument, root, names, out)?;
                }
            }
        }
        Ok(())
    }
}

/// The header of an operation in a multi, or its end.
fn header(kind: i32, done: bool, out: &mut BytesMut) {
    out.put_i32(kind);
    out.put_u8(done.into());
    out.put_i32(-1);
}

fn parts(cursor: &mut Cursor) -> Result<Vec<Draft>, String> {
    cursor.sign('{')?;
    let mut parts = Vec::new();
    loop {
        if cursor.take_sign('}') {
            return Ok(parts);
        }
        parts.push(Draft::parse(cursor)?);
        if !cursor.take_sign(';') && cursor.peek() != Some(&Token::Sign('}')) {
            return Err("a `;` or a `}` is missing".to_owned());
        }
    }
}

fn argument(kind: Kind, cursor: &mut Cursor) -> Result<Argument, String> {
    if cursor.peek() == Some(&Token::Word("null".to_owned())) {
        cursor.skip();
        return Ok(Argument::Null);
    }
    match kind {
        Kind::Text | Kind::Data => Ok(Argument::Bytes(cursor.word_or_text("a text")?)),
        Kind::Acl | Kind::Texts => Ok(Argument::List(cursor.list()?)),
        Kind::Int | Kind::Long | Kind::Bool => {
            let word = cursor.word("a number")?;
            match word.strip_prefix('$') {
                Some(name) => Ok(Argument::Named(name.to_owned())),
                None => word.parse().map(Argument::Number).map_err(|_| format!("`{word}` is no number")),
            }
        }
    }
}

fn put(kind: Kind, argument: &Argument, root: &str, names: &Names, out: &mut BytesMut) -> Result<(), String> {
    let number = |argument: &Argument| match argument {
        Argument::Number(number) => Ok(*number),
        Argument::Named(name) => match names.get(name) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(format!("no step before has named a number ${name}")),
        },
        other => Err(format!("{other:?} is no number")),
    };
    match (kind, argument) {
        (Kind::Int, argument) => {
            let number = number(argument)?;
            out.put_i32(i32::try_from(number).map_err(|_| format!("{number} does not fit into 32 bits"))?);
        }
        (Kind::Long, argument) => out.put_i64(number(argument)?),
        (Kind::Bool, argument) => out.put_u8(u8::from(number(argument)? != 0)),
        (_, Argument::Null) => out.put_i32(-1),
        (Kind::Text, Argument::Bytes(bytes)) => put_bytes(&with_root(bytes, root), out),
        (Kind::Data, Argument::Bytes(bytes)) => put_bytes(bytes, out),
        (Kind::Texts, Argument::List(texts)) => {
            put_count(texts.len(), out);
            texts.iter().for_each(|text| put_bytes(&with_root(text, root), out));
        }
        (Kind::Acl, Argument::List(entries)) => {
            put_count(entries.len(), out);
            for entry in entries {
                put_acl(entry, out)?;
            }
        }
        (kind, argument) => return Err(format!("{argument:?} is not of the kind {kind:?}")),
    }
    Ok(())
}

/// An entry `scheme:id:perms`.
fn put_acl(entry: &[u8], out: &mut BytesMut) -> Result<(), String> {
    let text = String::from_utf8_lossy(entry);
    let parts = text.split_once(':').and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
    let Some((scheme, (id, perms))) = parts else {
        return Err(format!("`{text}` is no ACL entry; one is scheme:id:perms"));
    };
    let bit = |letter| PERMS.iter().find(|(known, _)| *known == letter).map(|(_, bit)| bit);
    let letters: Option<i32> = perms.chars().map(bit).sum();
    let perms = perms.parse().ok().or(letters).ok_or_else(|| format!("`{perms}` are no permissions"))?;
    out.put_i32(perms);
    for text in [scheme, id] {
        if text == "null" { out.put_i32(-1) } else { put_bytes(text.as_bytes(), out) }
    }
    Ok(())
}

fn put_count(count: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

fn put_bytes(bytes: &[u8], out: &mut BytesMut) {
    put_count(bytes.len(), out);
    out.put_slice(bytes);
}

/// `~` is the znode of the case.
pub(crate) fn with_root(text: &[u8], root: &str) -> Vec<u8> {
    match text.strip_prefix(b"~") {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => [root.as_bytes(), rest].concat(),
        _ => text.to_vec(),
    }
}
