//! [`OPERATIONS`]: the operations that cases can name, with their fields. How a case writes a request and how a request is
//! printed follow from it.

use zoolet_proto::records::PASSWORD_LEN;

use crate::wire::connection::SESSION_TIMEOUT;

/// The operations that have parts, each of which is an operation.
pub(crate) const MULTI: i32 = 14;
pub(crate) const MULTI_READ: i32 = 22;
pub(crate) const AUTH: i32 = 100;

/// How a field is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Data,
    /// Data that a case may give by a name: a password, or credentials.
    Secret,
    Int,
    Long,
    Bool,
    /// A flag that is not there if it is null.
    OptionalBool,
    Acl,
    Texts,
}

/// An operation that cases can name: its opcode, and its fields with what they are if they are left out.
pub(crate) struct OperationRow {
    pub(crate) name: &'static str,
    pub(crate) code: i32,
    pub(crate) fields: &'static [Field],
}

#[derive(Clone, Copy)]
pub(crate) enum FieldDefault {
    Required,
    Number(i64),
    Bytes(&'static [u8]),
    Empty,
    Null,
    /// Everybody may do everything.
    Open,
}

const PATH: Field = required("path", Kind::Text);
const DATA: Field = ("data", Kind::Data, FieldDefault::Bytes(b""));
const ACL: Field = ("acl", Kind::Acl, FieldDefault::Open);
const VERSION: Field = int("version", -1);
const WATCH: Field = ("watch", Kind::Bool, FieldDefault::Number(0));
const SINCE: Field = required("since", Kind::Long);

const fn required(name: &'static str, kind: Kind) -> Field {
    (name, kind, FieldDefault::Required)
}
const fn int(name: &'static str, default: i64) -> Field {
    (name, Kind::Int, FieldDefault::Number(default))
}
const fn long(name: &'static str, default: i64) -> Field {
    (name, Kind::Long, FieldDefault::Number(default))
}
const fn texts(name: &'static str) -> Field {
    (name, Kind::Texts, FieldDefault::Empty)
}
const fn text(name: &'static str) -> Field {
    (name, Kind::Text, FieldDefault::Null)
}

const fn row(name: &'static str, code: i32, fields: &'static [Field]) -> OperationRow {
    OperationRow { name, code, fields }
}

/// The handshake, which cases write like an operation, though it has no opcode.
pub(crate) const HANDSHAKE: OperationRow = OperationRow {
    name: "open",
    code: 0,
    fields: &[
        int("protocol", 0),
        long("lastZxid", 0),
        int("timeout", SESSION_TIMEOUT as i64),
        long("session", 0),
        ("password", Kind::Secret, FieldDefault::Bytes(&[0; PASSWORD_LEN])),
        ("readOnly", Kind::OptionalBool, FieldDefault::Number(0)),
    ],
};

/// What an operation is called, its opcode, and its fields in the order of the wire.
pub(crate) const OPERATIONS: &[OperationRow] = &[
    row("create", 1, &[PATH, DATA, ACL, int("flags", 0)]),
    row("create2", 15, &[PATH, DATA, ACL, int("flags", 0)]),
    row("createContainer", 19, &[PATH, DATA, ACL, int("flags", 4)]),
    row("createTTL", 21, &[PATH, DATA, ACL, int("flags", 5), long("ttl", 1000)]),
    row("delete", 2, &[PATH, VERSION]),
    row("deleteContainer", 20, &[PATH]),
    row("exists", 3, &[PATH, WATCH]),
    row("getData", 4, &[PATH, WATCH]),
    row("setData", 5, &[PATH, DATA, VERSION]),
    row("getACL", 6, &[PATH]),
    row("setACL", 7, &[PATH, ACL, VERSION]),
    row("getChildren", 8, &[PATH, WATCH]),
    row("getChildren2", 12, &[PATH, WATCH]),
    row("getAllChildrenNumber", 104, &[PATH]),
    row("getEphemerals", 103, &[text("prefix")]),
    row("sync", 9, &[PATH]),
    row("check", 13, &[PATH, VERSION]),
    row("ping", 11, &[]),
    row("whoAmI", 107, &[]),
    row("closeSession", -11, &[]),
    row("createSession", -10, &[required("timeout", Kind::Int)]),
    row("addWatch", 106, &[PATH, int("mode", 0)]),
    row("checkWatches", 17, &[PATH, int("kind", 3)]),
    row("removeWatches", 18, &[PATH, int("kind", 3)]),
    row("setWatches", 101, &[SINCE, texts("data"), texts("exist"), texts("child")]),
    row(
        "setWatches2",
        105,
        &[SINCE, texts("data"), texts("exist"), texts("child"), texts("persistent"), texts("recursive")],
    ),
    row("auth", 100, &[required("scheme", Kind::Text), required("auth", Kind::Secret), int("kind", 0)]),
    row("sasl", 102, &[required("token", Kind::Data)]),
    row("reconfig", 16, &[text("joining"), text("leaving"), text("members"), long("config", -1)]),
];

/// A field of an operation: its name, how it is encoded, and what it is if it is left out.
type Field = (&'static str, Kind, FieldDefault);

impl OperationRow {
    /// The places of its fields in the order of the wire, which is that of cases for all operations but one.
    pub(crate) fn wire_order(&self) -> impl Iterator<Item = usize> + use<> {
        let count = self.fields.len();
        // Cases have the kind of an auth last, where it can be left out.
        let first = if self.code == AUTH { count - 1 } else { 0 };
        (0..count).map(move |at| (at + first) % count)
    }
}

/// The name of an operation; none if there is no such opcode.
pub(crate) fn operation_name(code: i32) -> Option<&'static str> {
    match code {
        MULTI => Some("multi"),
        MULTI_READ => Some("multiRead"),
        _ => OPERATIONS.iter().find(|operation| operation.code == code).map(|operation| operation.name),
    }
}
