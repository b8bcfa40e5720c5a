//! [`OPERATIONS`]: the operations that cases can name, with their fields. How a case writes a request and how a request is
//! printed follow from it.

use zoolet_proto::records::PASSWORD_LEN;

use crate::wire::connection::SESSION_TIMEOUT;

/// The operations that have parts, each of which is an operation.
pub(crate) const MULTI: i32 = 14;
pub(crate) const MULTI_READ: i32 = 22;
const AUTH: i32 = 100;

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

const PATH: Field = ("path", Kind::Text, FieldDefault::Required);
const DATA: Field = ("data", Kind::Data, FieldDefault::Bytes(b""));
const ACL: Field = ("acl", Kind::Acl, FieldDefault::Open);
const VERSION: Field = ("version", Kind::Int, FieldDefault::Number(-1));
const WATCH: Field = ("watch", Kind::Bool, FieldDefault::Number(0));
const SINCE: Field = ("since", Kind::Long, FieldDefault::Required);

const fn flags(default: i64) -> Field {
    ("flags", Kind::Int, FieldDefault::Number(default))
}
const fn texts(name: &'static str) -> Field {
    (name, Kind::Texts, FieldDefault::Empty)
}
const fn text(name: &'static str) -> Field {
    (name, Kind::Text, FieldDefault::Null)
}

/// The handshake, which cases write like an operation, though it has no opcode.
pub(crate) const HANDSHAKE: OperationRow = OperationRow {
    name: "open",
    code: 0,
    fields: &[
        ("protocol", Kind::Int, FieldDefault::Number(0)),
        ("lastZxid", Kind::Long, FieldDefault::Number(0)),
        ("timeout", Kind::Int, FieldDefault::Number(SESSION_TIMEOUT as i64)),
        ("session", Kind::Long, FieldDefault::Number(0)),
        ("password", Kind::Secret, FieldDefault::Bytes(&[0; PASSWORD_LEN])),
        ("readOnly", Kind::OptionalBool, FieldDefault::Number(0)),
    ],
};

/// What an operation is called, its opcode, and its fields in the order of the wire.
pub(crate) const OPERATIONS: &[OperationRow] = &[
    OperationRow { name: "create", code: 1, fields: &[PATH, DATA, ACL, flags(0)] },
    OperationRow { name: "create2", code: 15, fields: &[PATH, DATA, ACL, flags(0)] },
    OperationRow { name: "createContainer", code: 19, fields: &[PATH, DATA, ACL, flags(4)] },
    OperationRow {
        name: "createTTL",
        code: 21,
        fields: &[PATH, DATA, ACL, flags(5), ("ttl", Kind::Long, FieldDefault::Number(1000))],
    },
    OperationRow { name: "delete", code: 2, fields: &[PATH, VERSION] },
    OperationRow { name: "deleteContainer", code: 20, fields: &[PATH] },
    OperationRow { name: "exists", code: 3, fields: &[PATH, WATCH] },
    OperationRow { name: "getData", code: 4, fields: &[PATH, WATCH] },
    OperationRow { name: "setData", code: 5, fields: &[PATH, DATA, VERSION] },
    OperationRow { name: "getACL", code: 6, fields: &[PATH] },
    OperationRow { name: "setACL", code: 7, fields: &[PATH, ACL, VERSION] },
    OperationRow { name: "getChildren", code: 8, fields: &[PATH, WATCH] },
    OperationRow { name: "getChildren2", code: 12, fields: &[PATH, WATCH] },
    OperationRow { name: "getAllChildrenNumber", code: 104, fields: &[PATH] },
    OperationRow { name: "getEphemerals", code: 103, fields: &[text("prefix")] },
    OperationRow { name: "sync", code: 9, fields: &[PATH] },
    OperationRow { name: "check", code: 13, fields: &[PATH, VERSION] },
    OperationRow { name: "ping", code: 11, fields: &[] },
    OperationRow { name: "whoAmI", code: 107, fields: &[] },
    OperationRow { name: "closeSession", code: -11, fields: &[] },
    OperationRow {
        name: "createSession",
        code: -10,
        fields: &[("timeout", Kind::Int, FieldDefault::Required)],
    },
    OperationRow {
        name: "addWatch",
        code: 106,
        fields: &[PATH, ("mode", Kind::Int, FieldDefault::Number(0))],
    },
    OperationRow {
        name: "checkWatches",
        code: 17,
        fields: &[PATH, ("kind", Kind::Int, FieldDefault::Number(3))],
    },
    OperationRow {
        name: "removeWatches",
        code: 18,
        fields: &[PATH, ("kind", Kind::Int, FieldDefault::Number(3))],
    },
    OperationRow {
        name: "setWatches",
        code: 101,
        fields: &[SINCE, texts("data"), texts("exist"), texts("child")],
    },
    OperationRow {
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
    OperationRow {
        name: "auth",
        code: 100,
        fields: &[
            ("scheme", Kind::Text, FieldDefault::Required),
            ("auth", Kind::Secret, FieldDefault::Required),
            ("kind", Kind::Int, FieldDefault::Number(0)),
        ],
    },
    OperationRow { name: "sasl", code: 102, fields: &[("token", Kind::Data, FieldDefault::Required)] },
    OperationRow {
        name: "reconfig",
        code: 16,
        fields: &[
            text("joining"),
            text("leaving"),
            text("members"),
            ("config", Kind::Long, FieldDefault::Number(-1)),
        ],
    },
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
