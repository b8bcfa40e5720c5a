//! [`Draft`]: a request as a case writes it, which may be one that no client sends.
//!
//! Bodies are encoded here and not by `zoolet-proto`, so that fields can be null or out of range, and so that a mistake there is found.

use bytes::{BufMut, BytesMut};

use crate::catalogue::lex::{Cursor, Token};
use crate::catalogue::pattern::Names;
use crate::wire::acl;
use crate::wire::encoding::{put_bytes, put_count};
use crate::wire::fields::{Value, with_root};
use crate::wire::operations::{AUTH, HANDSHAKE, Kind, OPERATIONS, OperationRow, RAW, operation};

/// A request before the names and paths in it are known.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) code: i32,
    pub(crate) xid: Option<i32>,
    /// The fields of the body, in the order of the wire.
    fields: Vec<(Kind, Argument)>,
    /// What is done to the bytes of the body.
    damage: Vec<Damage>,
}

/// A change to the bytes of a body.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// The last bytes are missing.
    Cut(usize),
    /// A byte is this one. It is counted from the end if the number is negative.
    Poke(i64, u8),
    /// So many zeros come after the body.
    Extra(usize),
}

/// The value of a field.
#[derive(Debug, Clone)]
enum Argument {
    Null,
    Number(i64),
    /// What has this name.
    Named(String),
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
    Parts(Vec<Draft>),
}

const PING: i32 = 11;

/// Flags of the create family as words.
const FLAGS: &[(&str, i64)] = &[("ephemeral", 1), ("sequential", 2)];

impl Draft {
    /// Reads a request up to `->`, `;`, `}` or the end.
    pub(crate) fn parse(cursor: &mut Cursor) -> Result<Self, String> {
        let name = cursor.word("the name of an operation")?;
        Self::of_operation(&name, cursor)
    }

    /// The same after the name of the operation.
    pub(crate) fn of_operation(name: &str, cursor: &mut Cursor) -> Result<Self, String> {
        if name == "raw" {
            let code = cursor.word("an opcode")?;
            let code = code.parse().map_err(|_| format!("`{code}` is not an opcode"))?;
            return Self::of(&OperationRow { name: "raw", code, fields: RAW }, cursor);
        }
        let operation = OPERATIONS.iter().find(|operation| operation.name == name);
        let unknown = || {
            let known: Vec<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
            format!("`{name}` is not an operation; known are raw, {}", known.join(", "))
        };
        Self::of(operation.ok_or_else(unknown)?, cursor)
    }

    /// Reads what is said of a handshake up to `->` or the end: its fields, or bytes that are sent in its place.
    pub(crate) fn handshake(cursor: &mut Cursor) -> Result<Self, String> {
        let fields = if cursor.has_key("bytes") { RAW } else { HANDSHAKE.fields };
        Self::of(&OperationRow { fields, ..HANDSHAKE }, cursor)
    }

    /// Whether its bytes are sent as they are.
    pub(crate) fn is_raw(&self) -> bool {
        matches!(self.fields[..], [(Kind::Raw, _)])
    }

    /// Reads another xid, or damage to the body. False if `name` is neither.
    fn take_change(&mut self, name: &str, cursor: &mut Cursor) -> Result<bool, String> {
        match name {
            "xid" => {
                let text = cursor.word("a number")?;
                self.xid = Some(text.parse().map_err(|_| format!("`{text}` is not an xid"))?);
            }
            "cut" | "poke" | "extra" => self.damage.push(Damage::parse(name, cursor)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the fields of an operation: by name, by a word that stands for a flag, or else the first one that is not given yet.
    fn of(operation: &OperationRow, cursor: &mut Cursor) -> Result<Self, String> {
        let mut draft = Self { code: operation.code, xid: None, fields: Vec::new(), damage: Vec::new() };
        let mut given: Vec<Option<Argument>> = vec![None; operation.fields.len()];
        let field = |at: usize, cursor: &mut Cursor| {
            let (name, kind, _) = operation.fields[at];
            argument(kind, cursor).map_err(|reason| format!("`{name}` of {}: {reason}", operation.name))
        };
        let place = |name: &str| operation.fields.iter().position(|(field, ..)| *field == name);
        while !cursor.is_at_end_of_request() {
            if let Some(name) = cursor.key() {
                if !draft.take_change(&name, cursor)? {
                    let at = place(&name).ok_or_else(|| {
                        let known: Vec<_> = operation.fields.iter().map(|(name, ..)| *name).collect();
                        format!("{} has no `{name}`; it has {}", operation.name, known.join(", "))
                    })?;
                    given[at] = Some(field(at, cursor)?);
                }
                continue;
            }
            // `ephemeral sequential` adds up; a path of that name has to be in quotes.
            if let Some((at, bit)) = cursor.peek().and_then(|token| flag(token, place)) {
                let before = match &given[at] {
                    Some(Argument::Number(number)) => *number,
                    _ => 0,
                };
                given[at] = Some(Argument::Number(before | bit));
                cursor.skip();
                continue;
            }
            let at = given
                .iter()
                .position(Option::is_none)
                .ok_or_else(|| format!("{} takes no more than that", operation.name))?;
            given[at] = Some(field(at, cursor)?);
        }
        let mut fields = Vec::new();
        for ((name, kind, default), given) in operation.fields.iter().zip(given) {
            let argument = match (given, default) {
                (Some(given), _) => given,
                (None, Some(default)) => argument(*kind, &mut Cursor::new(default)?)?,
                (None, None) => return Err(format!("{} requires `{name}`", operation.name)),
            };
            fields.push((*kind, argument));
        }
        draft.fields = operation.wire_order().map(|at| fields[at].clone()).collect();
        Ok(draft)
    }

    /// The name of the operation; `unknown` if the opcode has none.
    pub(crate) fn operation(&self) -> &'static str {
        operation(self.code).map_or("unknown", |operation| operation.name)
    }

    /// The names of values that it has.
    pub(crate) fn names(&self) -> Vec<&str> {
        let arguments = self.fields.iter().map(|(_, argument)| argument);
        let names = arguments.flat_map(|argument| match argument {
            Argument::Named(name) => vec![name.as_str()],
            Argument::Parts(parts) => parts.iter().flat_map(Self::names).collect(),
            _ => Vec::new(),
        });
        names.collect()
    }

    /// The parts of a multi.
    pub(crate) fn parts(&self) -> &[Self] {
        match &self.fields[..] {
            [(_, Argument::Parts(parts))] => parts,
            _ => &[],
        }
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
        let start = out.len();
        for (kind, argument) in &self.fields {
            put(*kind, argument, root, names, out)?;
        }
        self.damage.iter().for_each(|damage| damage.apply(start, out));
        Ok(())
    }
}

/// The place of the field that a word stands for, and its bit there: a flag of a create, or `watch`.
fn flag(token: &Token, place: impl Fn(&str) -> Option<usize>) -> Option<(usize, i64)> {
    let Token::Word(word) = token else { return None };
    match FLAGS.iter().find(|(name, _)| name == word) {
        Some((_, bit)) => Some((place("flags")?, *bit)),
        None => Some((place("watch").filter(|_| word == "watch")?, 1)),
    }
}

impl Damage {
    /// `cut=3`, `poke=-1:255` or `extra=3`, whose name is read.
    fn parse(name: &str, cursor: &mut Cursor) -> Result<Self, String> {
        let text = cursor.word("a number")?;
        let poke = |(at, byte): (&str, &str)| Some(Self::Poke(at.parse().ok()?, byte.parse().ok()?));
        let damage = match name {
            "cut" => text.parse().ok().map(Self::Cut),
            "extra" => text.parse().ok().map(Self::Extra),
            _ => text.split_once(':').and_then(poke),
        };
        damage.ok_or_else(|| format!("`{name}={text}` is none; there are cut=3, poke=-1:255 and extra=3"))
    }

    /// Changes what begins at `start`.
    fn apply(self, start: usize, out: &mut BytesMut) {
        let length = out.len() - start;
        match self {
            Self::Cut(count) => out.truncate(start + length.saturating_sub(count)),
            Self::Poke(at, byte) => {
                let at = if at < 0 { length as i64 + at } else { at };
                if let Some(place) = usize::try_from(at).ok().and_then(|at| out.get_mut(start + at)) {
                    *place = byte;
                }
            }
            Self::Extra(count) => out.put_bytes(0, count),
        }
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
    match kind {
        Kind::Parts => parts(cursor).map(Argument::Parts),
        Kind::Raw => cursor.text("bytes in quotes").map(Argument::Bytes),
        _ if cursor.take_token(&Token::Word("null".to_owned())) => Ok(Argument::Null),
        Kind::Text | Kind::Data | Kind::Secret => match cursor.peek() {
            Some(Token::Word(word)) if word.starts_with('$') => {
                let name = word[1..].to_owned();
                if kind != Kind::Secret {
                    return Err(format!("`${name}` is not a text; put it in quotes if it is meant as one"));
                }
                cursor.skip();
                Ok(Argument::Named(name))
            }
            _ => Ok(Argument::Bytes(cursor.word_or_text("a text")?)),
        },
        Kind::Texts => Ok(Argument::List(cursor.list()?)),
        Kind::Acl => {
            let entries = cursor.list()?;
            entries.iter().try_for_each(|entry| acl::parse(entry).map(drop))?;
            Ok(Argument::List(entries))
        }
        Kind::Int | Kind::Long | Kind::Bool | Kind::OptionalBool => {
            let word = cursor.word("a number")?;
            match word.strip_prefix('$') {
                Some(name) => Ok(Argument::Named(name.to_owned())),
                None => word.parse().map(Argument::Number).map_err(|_| format!("`{word}` is not a number")),
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
        other => Err(format!("{other:?} is not a number")),
    };
    match (kind, argument) {
        (Kind::Int, argument) => {
            let number = number(argument)?;
            out.put_i32(i32::try_from(number).map_err(|_| format!("{number} does not fit into 32 bits"))?);
        }
        (Kind::Long, argument) => out.put_i64(number(argument)?),
        (Kind::OptionalBool, Argument::Null) => {}
        (Kind::Bool | Kind::OptionalBool, argument) => out.put_u8(u8::from(number(argument)? != 0)),
        (Kind::Raw, Argument::Bytes(bytes)) => out.put_slice(bytes),
        (Kind::Parts, Argument::Parts(parts)) => {
            for part in parts {
                header(part.code, false, out);
                part.encode(root, names, out)?;
            }
            header(-1, true, out);
        }
        (_, Argument::Null) => out.put_i32(-1),
        (Kind::Text, Argument::Bytes(bytes)) => put_bytes(&with_root(bytes, root), out),
        (Kind::Data | Kind::Secret, Argument::Bytes(bytes)) => put_bytes(bytes, out),
        (Kind::Secret, Argument::Named(name)) => match names.get(name) {
            Some(Value::Data(Some(bytes))) => put_bytes(bytes, out),
            _ => return Err(format!("no step before has named a password ${name}")),
        },
        (Kind::Texts, Argument::List(texts)) => {
            put_count(texts.len(), out);
            texts.iter().for_each(|text| put_bytes(&with_root(text, root), out));
        }
        (Kind::Acl, Argument::List(entries)) => {
            put_count(entries.len(), out);
            for entry in entries {
                acl::encode(&acl::parse(entry)?, out);
            }
        }
        (kind, argument) => return Err(format!("{argument:?} is not of the kind {kind:?}")),
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use zoolet_proto::records::ConnectRequest;
    use zoolet_proto::{Incoming, OpCode, jute};

    use super::*;
    use crate::wire::connection::{NO_SESSION, SESSION_TIMEOUT};
    use crate::wire::fields::show;
    use crate::wire::requests::of_incoming;

    /// The frame of a request that a case writes so, which has to decode.
    fn encoded(text: &str) -> Bytes {
        let draft =
            Draft::parse(&mut Cursor::new(text).unwrap()).unwrap_or_else(|why| panic!("{text}: {why}"));
        let mut frame = BytesMut::from(&[0, 0, 0, 1][..]);
        frame.extend_from_slice(&draft.code.to_be_bytes());
        draft.encode("/root", &Names::new(), &mut frame).unwrap();
        if let Err(why) = Incoming::parse(&frame).unwrap().body {
            panic!("{text}: {why}");
        }
        frame.freeze()
    }

    #[test]
    fn what_is_printed_of_a_request_is_that_request_in_a_case() {
        let mut printed = BTreeSet::new();
        for text in [
            "create /a \"x y\" [world:anyone:cdrwa \"digest:bob:xyz=:r\"] ephemeral",
            "create2 /a null null flags=2",
            "createContainer /a",
            "createTTL /a x ttl=77",
            "delete /a 3",
            "deleteContainer /a",
            "exists /a watch",
            "getData \"/a b\"",
            "setData /a \"\\x00\\xff\" 2",
            "getACL /a",
            "setACL /a [ip:10.0.0.0/8:64] 1",
            "getChildren /a watch",
            "getChildren2 /a",
            "getAllChildrenNumber /",
            "getEphemerals null",
            "sync /a",
            "ping",
            "whoAmI",
            "check /a 1",
            "createSession 5000",
            "closeSession",
            "addWatch /a 1",
            "checkWatches /a 2",
            "removeWatches /a 3",
            "setWatches 5 [/a /b] [] [/c]",
            "setWatches2 5 [/a] [/b] [/c] [/d] [/e \"/f g\"]",
            "auth digest \"bob:\\x00\\x00\"",
            "sasl \"t\"",
            "reconfig null \"1,2\" null config=-1",
            "multi { create /a x; delete /b 1; setData /c \"\" 2; check /d 3; createTTL /e }",
            "multi { }",
            "multiRead { getData /a; getChildren /b }",
        ] {
            let frame = encoded(text);
            let shown = show(&of_incoming(&Incoming::parse(&frame).unwrap(), &frame));
            assert_eq!(encoded(&shown), frame, "{text} was printed as {shown}");
            printed.insert(text.split(' ').next().unwrap().to_owned());
        }
        // An operation that is new has to be added above, and to the table.
        let all: BTreeSet<_> = OpCode::ALL.iter().map(|op| op.name().to_owned()).collect();
        assert_eq!(printed, all);
    }

    #[test]
    fn a_handshake_asks_for_what_any_new_session_asks_for() {
        let mut bytes = BytesMut::new();
        let draft = Draft::handshake(&mut Cursor::new("").unwrap()).unwrap();
        draft.encode("/root", &Names::new(), &mut bytes).unwrap();
        let request: ConnectRequest = jute::parse(&bytes).unwrap();
        assert_eq!(request.timeout, SESSION_TIMEOUT);
        assert_eq!((request.session.0, request.password.unwrap()), NO_SESSION);
    }

    #[test]
    fn cases_can_name_every_operation_by_its_opcode() {
        for op in OpCode::ALL {
            assert_eq!(operation(op.code()).map(|operation| operation.name), Some(op.name()));
        }
        assert_eq!(OPERATIONS.len(), OpCode::ALL.len());
    }
}
