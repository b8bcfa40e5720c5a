//! How `zoolet data` prints znodes, access control lists and transactions.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zoolet_proto::{Acl, Zxid};
use zoolet_server_core::{Owner, Txn, TxnOp, ZnodeRecord};

use crate::size;
use crate::text::{counted, quoted};

/// What is printed beside the names and numbers that are always printed.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Detail {
    /// Print data: as quoted text if it is UTF-8, and otherwise in base64
    #[arg(long)]
    pub(super) data: bool,

    /// Print the password hashes in ACLs of the scheme digest
    #[arg(long)]
    pub(super) secrets: bool,
}

/// The columns of [`znode_line`].
pub(super) const ZNODE_COLUMNS: &str = "path\tkind\tversion\tczxid\tmzxid\tlength\tacl";

/// A znode in one line with tabs between the columns.
pub(super) fn znode_line(znode: &ZnodeRecord, detail: Detail) -> String {
    let mut line = format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}",
        quoted(&znode.path),
        kind(znode.owner),
        znode.version,
        znode.czxid,
        znode.mzxid,
        length(znode.data.as_deref()),
        acl_text(&znode.acl, detail),
    );
    if detail.data {
        line.push('\t');
        line.push_str(&data_text(znode.data.as_deref()));
    }
    line
}

/// A transaction in one line: zxid, time, session and xid with tabs between them, and then what it does.
pub(super) fn txn_line(txn: &Txn, detail: Detail) -> String {
    format!(
        "{}\t{}\t{}\t{}\t{}",
        txn.zxid,
        time_text(txn.time.0),
        txn.session,
        txn.xid,
        op_text(&txn.op, detail)
    )
}

fn op_text(op: &TxnOp, detail: Detail) -> String {
    let with_data = |text: String, data: Option<&[u8]>| match data {
        _ if detail.data => format!("{text} {}", data_text(data)),
        Some(data) => format!("{text} ({} bytes)", data.len()),
        None => format!("{text} (null)"),
    };
    match op {
        TxnOp::Create { path, data, acl, owner, .. } => {
            let text = format!("create {} {} {}", quoted(path), kind(*owner), acl_text(acl, detail));
            with_data(text, data.as_deref())
        }
        TxnOp::Delete { path } => format!("delete {}", quoted(path)),
        TxnOp::SetData { path, data, version } => {
            with_data(format!("setData {} version {version}", quoted(path)), data.as_deref())
        }
        TxnOp::SetAcl { path, acl, aversion } => {
            format!("setACL {} aversion {aversion} {}", quoted(path), acl_text(acl, detail))
        }
        TxnOp::Check { path } => format!("check {}", quoted(path)),
        TxnOp::Multi(ops) => {
            let ops: Vec<_> = ops.iter().map(|op| op_text(op, detail)).collect();
            format!("multi [{}]", ops.join("; "))
        }
        TxnOp::CreateSession { timeout } => format!("createSession {timeout} ms"),
        TxnOp::CloseSession { ephemerals } => {
            let paths: Vec<_> = ephemerals.iter().map(|path| quoted(path)).collect();
            format!("closeSession [{}]", paths.join(", "))
        }
        TxnOp::Error(code) => format!("error {} {code}", code.code()),
    }
}

/// What kind of znode has this owner: with its session, or its time to live in milliseconds.
pub(super) fn kind(owner: Owner) -> String {
    match (owner.as_session(), owner.as_ttl()) {
        (Some(session), _) => format!("ephemeral:{session}"),
        (_, Some(ttl)) => format!("ttl:{ttl}"),
        _ if owner == Owner::CONTAINER => "container".to_owned(),
        _ => "persistent".to_owned(),
    }
}

/// An access control list as `zkCli.sh` takes it.
fn acl_text(acl: &[Acl], detail: Detail) -> String {
    let mut text = String::new();
    for entry in acl {
        let comma = if text.is_empty() { "" } else { "," };
        let id = quoted(&id_text(entry, detail)).replace(',', "\\,");
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{}:{id}:{:?}", quoted(&entry.scheme), entry.perms);
    }
    text
}

/// An id, without the hash of a password unless secrets are asked for: it is enough to try passwords, and as the digest of
/// a super user it may be in a zoo.cfg.
pub(super) fn id_text(entry: &Acl, detail: Detail) -> String {
    match entry.id.rsplit_once(':') {
        Some((user, _)) if entry.scheme == "digest" && !detail.secrets => format!("{user}:(hidden)"),
        _ => entry.id.clone(),
    }
}

fn length(data: Option<&[u8]>) -> String {
    data.map_or_else(|| "null".to_owned(), |data| data.len().to_string())
}

/// Data as quoted text if it is UTF-8, and otherwise in base64.
fn data_text(data: Option<&[u8]>) -> String {
    match data.map(|data| (std::str::from_utf8(data), data)) {
        None => "null".to_owned(),
        Some((Ok(text), _)) => format!("\"{}\"", quoted(text)),
        Some((Err(_), data)) => format!("base64:{}", BASE64.encode(data)),
    }
}

/// A time of the wall clock in milliseconds since 1970, in UTC. Any number can be in a file.
pub(super) fn time_text(millis: i64) -> String {
    // Until the year 9999.
    const LAST: u64 = 253_402_300_799_999;
    match u64::try_from(millis) {
        Ok(millis @ ..=LAST) => {
            humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)).to_string()
        }
        _ => format!("{millis}ms"),
    }
}

/// A snapshot that was written.
pub(super) fn written_text(path: &Path, zxid: Zxid, znodes: u64, sessions: u64, len: u64) -> String {
    format!(
        "{}: zxid {zxid}, {}, {}, {}",
        path.display(),
        counted(znodes, "znode"),
        counted(sessions, "session"),
        size::text(len)
    )
}

/// The name of a file without its directory.
pub(super) fn file_name(path: &Path) -> String {
    quoted(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use zoolet_proto::{AclList, ErrorCode, Perms, SessionId, Xid};
    use zoolet_server_core::Millis;

    use super::super::json;
    use super::*;
    use crate::json::line;

    const ALL: Detail = Detail { data: true, secrets: true };
    const NOTHING: Detail = Detail { data: false, secrets: false };

    fn znode(data: Option<&'static [u8]>, owner: Owner, acl: Vec<Acl>) -> ZnodeRecord {
        ZnodeRecord {
            path: "/a\n\"b\"".into(),
            data: data.map(Bytes::from_static),
            acl: acl.into(),
            czxid: Zxid(0x1f),
            mzxid: Zxid(0x2f),
            pzxid: Zxid(0x3f),
            ctime: 1_000,
            mtime: 2_000,
            version: 3,
            creates: 4,
            aversion: 5,
            owner,
        }
    }

    fn secret() -> Vec<Acl> {
        vec![Acl::new(Perms::ALL, "digest", "bob:hash="), Acl::new(Perms::READ, "x509", "CN=a,O=b")]
    }

    #[test]
    fn a_znode_is_one_line_without_its_data_and_secrets_unless_they_are_asked_for() {
        let znode = znode(Some(b"x\ty"), Owner::PERSISTENT, secret());
        assert_eq!(
            znode_line(&znode, NOTHING),
            "/a\\n\\\"b\\\"\tpersistent\t3\t0x1f\t0x2f\t3\tdigest:bob:(hidden):cdrwa,x509:CN=a\\,O=b:r"
        );
        assert_eq!(
            znode_line(&znode, ALL),
            "/a\\n\\\"b\\\"\tpersistent\t3\t0x1f\t0x2f\t3\tdigest:bob:hash=:cdrwa,x509:CN=a\\,O=b:r\t\"x\\ty\""
        );
    }

    #[test]
    fn a_znode_is_a_json_object_without_its_data_and_secrets_unless_they_are_asked_for() {
        let znode = znode(Some(&[0xff]), Owner::ttl(60_000).unwrap(), secret());
        assert_eq!(
            json::znode(&znode, NOTHING),
            r#"{"path":"/a\n\"b\"","kind":"ttl","ttl":60000,"version":3,"aversion":5,"creates":4,"czxid":"0x1f","mzxid":"0x2f","pzxid":"0x3f","ctime":1000,"mtime":2000,"acl":[{"perms":"cdrwa","scheme":"digest","id":"bob:(hidden)"},{"perms":"r","scheme":"x509","id":"CN=a,O=b"}],"length":1}"#
        );
        let json = json::znode(&znode, ALL);
        assert!(
            json.contains(r#""id":"bob:hash=""#) && json.ends_with(r#""length":1,"data":"/w=="}"#),
            "{json}"
        );
    }

    #[test]
    fn data_is_quoted_text_or_base64_and_null_is_not_empty() {
        let shown = |data| znode_line(&znode(data, Owner::CONTAINER, Vec::new()), ALL);
        assert!(shown(None).ends_with("\tcontainer\t3\t0x1f\t0x2f\tnull\t\tnull"));
        assert!(shown(Some(b"")).ends_with("\t0\t\t\"\""));
        assert!(shown(Some(b"base64:")).ends_with("\t7\t\t\"base64:\""));
        assert!(shown(Some(&[0xff, 0xfe])).ends_with("\t2\t\tbase64://4="));
        assert!(json::znode(&znode(None, Owner::CONTAINER, Vec::new()), ALL).ends_with(r#""length":null}"#));
    }

    fn txn(op: TxnOp) -> Txn {
        Txn { session: SessionId(0x10), xid: Xid(7), zxid: Zxid(0x2b), time: Millis(1_500), op, digest: None }
    }

    fn ops() -> Vec<TxnOp> {
        let path: Arc<str> = "/a".into();
        let acl = AclList::OPEN;
        let data = Some(Bytes::from_static(b"xy"));
        let owner = Owner::session(SessionId(0x10));
        vec![
            TxnOp::Create {
                path: path.clone(),
                data: data.clone(),
                acl: acl.clone(),
                owner,
                parent_creates: 9,
            },
            TxnOp::SetData { path: path.clone(), data, version: 1 },
            TxnOp::SetAcl { path: path.clone(), acl, aversion: 2 },
            TxnOp::Check { path: path.clone() },
            TxnOp::Delete { path: path.clone() },
            TxnOp::CreateSession { timeout: 4_000 },
            TxnOp::CloseSession { ephemerals: vec![path, "/b".into()] },
            TxnOp::Error(ErrorCode::NoNode),
        ]
    }

    #[test]
    fn a_transaction_is_one_line() {
        let lines: Vec<_> = ops().into_iter().map(|op| op_text(&op, NOTHING)).collect();
        assert_eq!(
            lines,
            [
                "create /a ephemeral:0x10 world:anyone:cdrwa (2 bytes)",
                "setData /a version 1 (2 bytes)",
                "setACL /a aversion 2 world:anyone:cdrwa",
                "check /a",
                "delete /a",
                "createSession 4000 ms",
                "closeSession [/a, /b]",
                "error -101 no such znode",
            ]
        );
        let two = TxnOp::Multi(vec![TxnOp::Delete { path: "/c".into() }, ops().remove(1)]);
        assert_eq!(
            txn_line(&txn(two), ALL),
            "0x2b\t1970-01-01T00:00:01.500Z\t0x10\t7\tmulti [delete /c; setData /a version 1 \"xy\"]"
        );
    }

    #[test]
    fn a_transaction_is_a_json_object() {
        let json: Vec<_> = ops().into_iter().map(|op| line(&json::op(&op, NOTHING))).collect();
        assert_eq!(
            json,
            [
                r#"{"op":"create","path":"/a","kind":"ephemeral","owner":"0x10","parentCreates":9,"acl":[{"perms":"cdrwa","scheme":"world","id":"anyone"}],"length":2}"#,
                r#"{"op":"setData","path":"/a","version":1,"length":2}"#,
                r#"{"op":"setACL","path":"/a","aversion":2,"acl":[{"perms":"cdrwa","scheme":"world","id":"anyone"}]}"#,
                r#"{"op":"check","path":"/a"}"#,
                r#"{"op":"delete","path":"/a"}"#,
                r#"{"op":"createSession","timeout":4000}"#,
                r#"{"op":"closeSession","ephemerals":["/a","/b"]}"#,
                r#"{"op":"error","code":-101,"message":"no such znode"}"#,
            ]
        );
        let two = Txn { digest: Some(0xab), ..txn(TxnOp::Multi(vec![ops().remove(4)])) };
        assert_eq!(
            json::txn(&two, ALL),
            r#"{"zxid":"0x2b","time":1500,"session":"0x10","xid":7,"op":"multi","ops":[{"op":"delete","path":"/a"}],"digest":"0xab"}"#
        );
    }

    #[test]
    fn any_time_in_a_file_can_be_printed() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_text(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(time_text(253_402_300_800_000), "253402300800000ms");
        assert_eq!([time_text(-1), time_text(i64::MIN)], ["-1ms", "-9223372036854775808ms"]);
    }
}
