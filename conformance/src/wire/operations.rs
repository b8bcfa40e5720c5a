//! The operations that cases can name, and how their fields are encoded.

use bytes::{BufMut, BytesMut};

/// How a field is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Data,
    Int,
    Long,
    Bool,
    Acl,
    Texts,
}

/// An operation that cases can name: its opcode, and its fields with what they are if they are left out.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) code: i32,
    pub(crate) fields: &'static [(&'static str, Kind, Default)],
}

#[derive(Clone, Copy)]
pub(crate) enum Default {
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

pub(crate) fn put_count(count: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

pub(crate) fn put_bytes(bytes: &[u8], out: &mut BytesMut) {
    put_count(bytes.len(), out);
    out.put_slice(bytes);
}
