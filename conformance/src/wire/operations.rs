//! [`OPERATIONS`]: the operations that cases can name, with their fields. How a case writes a request and how a request is
//! printed follow from it.

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
    /// The operations of a multi.
    Parts,
    /// All bytes of the body.
    Raw,
}

/// An operation that cases can name: its opcode, and its fields.
pub(crate) struct OperationRow {
    pub(crate) name: &'static str,
    pub(crate) code: i32,
    pub(crate) fields: &'static [Field],
}

/// A field of an operation: its name, how it is encoded, and what it is if it is left out, as a case would write it; none if it may
/// not be left out.
type Field = (&'static str, Kind, Option<&'static str>);

const PATH: Field = ("path", Kind::Text, None);
const DATA: Field = ("data", Kind::Data, Some("\"\""));
const ACL: Field = ("acl", Kind::Acl, Some("[world:anyone:cdrwa]"));
const VERSION: Field = int("version", "-1");
const WATCH: Field = ("watch", Kind::Bool, Some("0"));
const SINCE: Field = ("since", Kind::Long, None);
/// Printed in the place of the results in a reply.
const PARTS: Field = ("results", Kind::Parts, None);
const NO_PASSWORD: &str = r#""\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00""#;

const fn int(name: &'static str, default: &'static str) -> Field {
    (name, Kind::Int, Some(default))
}
const fn long(name: &'static str, default: &'static str) -> Field {
    (name, Kind::Long, Some(default))
}
const fn texts(name: &'static str) -> Field {
    (name, Kind::Texts, Some("[]"))
}
const fn text(name: &'static str) -> Field {
    (name, Kind::Text, Some("null"))
}

const fn row(name: &'static str, code: i32, fields: &'static [Field]) -> OperationRow {
    OperationRow { name, code, fields }
}

/// The handshake, which cases write like an operation, though it has no opcode.
pub(crate) const HANDSHAKE: OperationRow = OperationRow {
    name: "open",
    code: 0,
    fields: &[
        int("protocol", "0"),
        long("lastZxid", "0"),
        int("timeout", "30000"),
        long("session", "0"),
        ("password", Kind::Secret, Some(NO_PASSWORD)),
        ("readOnly", Kind::OptionalBool, Some("0")),
    ],
};

/// Bytes in the place of a body, or of a handshake.
pub(crate) const RAW: &[Field] = &[("bytes", Kind::Raw, None)];

/// What an operation is called, its opcode, and its fields in the order of the wire.
pub(crate) const OPERATIONS: &[OperationRow] = &[
    row("create", 1, &[PATH, DATA, ACL, int("flags", "0")]),
    row("create2", 15, &[PATH, DATA, ACL, int("flags", "0")]),
    row("createContainer", 19, &[PATH, DATA, ACL, int("flags", "4")]),
    row("createTTL", 21, &[PATH, DATA, ACL, int("flags", "5"), long("ttl", "1000")]),
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
    row("multi", 14, &[PARTS]),
    row("multiRead", 22, &[PARTS]),
    row("ping", 11, &[]),
    row("whoAmI", 107, &[]),
    row("closeSession", -11, &[]),
    row("createSession", -10, &[("timeout", Kind::Int, None)]),
    row("addWatch", 106, &[PATH, int("mode", "0")]),
    row("checkWatches", 17, &[PATH, int("kind", "3")]),
    row("removeWatches", 18, &[PATH, int("kind", "3")]),
    row("setWatches", 101, &[SINCE, texts("data"), texts("exist"), texts("child")]),
    row(
        "setWatches2",
        105,
        &[SINCE, texts("data"), texts("exist"), texts("child"), texts("persistent"), texts("recursive")],
    ),
    row("auth", 100, &[("scheme", Kind::Text, None), ("auth", Kind::Secret, None), int("kind", "0")]),
    row("sasl", 102, &[("token", Kind::Data, None)]),
    row("reconfig", 16, &[text("joining"), text("leaving"), text("members"), long("config", "-1")]),
];

impl OperationRow {
    /// The places of its fields in the order of the wire, which is that of cases for all operations but one.
    pub(crate) fn wire_order(&self) -> impl Iterator<Item = usize> + use<> {
        let count = self.fields.len();
        // Cases have the kind of an auth last, where it can be left out.
        let first = if self.code == AUTH { count - 1 } else { 0 };
        (0..count).map(move |at| (at + first) % count)
    }
}

/// The operation with this opcode; none if there is no such opcode.
pub(crate) fn operation(code: i32) -> Option<&'static OperationRow> {
    OPERATIONS.iter().find(|operation| operation.code == code)
}
