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
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) code: i32,
    pub(crate) fields: &'static [Field],
}

#[derive(Clone, Copy)]
pub(crate) enum Default {
    Required,
    Number(i64),
    Bytes(&'static [u8]),
    Empty,
    Null,
    /// Everybody may do everything.
    Open,
}

const PATH: Field = ("path", Kind::Text, Default::Required);
const DATA: Field = ("data", Kind::Data, Default::Bytes(b""));
const ACL: Field = ("acl", Kind::Acl, Default::Open);
const VERSION: Field = ("version", Kind::Int, Default::Number(-1));
const WATCH: Field = ("watch", Kind::Bool, Default::Number(0));
const SINCE: Field = ("since", Kind::Long, Default::Required);

const fn flags(default: i64) -> Field {
    ("flags", Kind::Int, Default::Number(default))
}
const fn texts(name: &'static str) -> Field {
    (name, Kind::Texts, Default::Empty)
}
const fn text(name: &'static str) -> Field {
    (name, Kind::Text, Default::Null)
}

/// The handshake, which cases write like an operation, though it has no opcode.
pub(crate) const HANDSHAKE: Operation = Operation {
    name: "open",
    code: 0,
    fields: &[
        ("protocol", Kind::Int, Default::Number(0)),
        ("lastZxid", Kind::Long, Default::Number(0)),
        ("timeout", Kind::Int, Default::Number(SESSION_TIMEOUT as i64)),
        ("session", Kind::Long, Default::Number(0)),
        ("password", Kind::Secret, Default::Bytes(&[0; PASSWORD_LEN])),
        ("readOnly", Kind::OptionalBool, Default::Number(0)),
    ],
};

/// What an operation is called, its opcode, and its fields in the order of the wire.
pub(crate) const OPERATIONS: &[Operation] = &[
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
    Operation { name: "createSession", code: -10, fields: &[("timeout", Kind::Int, Default::Required)] },
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
            ("auth", Kind::Secret, Default::Required),
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

/// A field of an operation: its name, how it is encoded, and what it is if it is left out.
type Field = (&'static str, Kind, Default);

impl Operation {
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
