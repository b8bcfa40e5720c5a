//! What `zoolet data --json` prints: an object in each line. Zxids and ids are text in hexadecimal, as many readers of JSON lose
//! the last digits of large numbers.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use zoolet_proto::{Acl, SessionId, Zxid};
use zoolet_server_core::{Owner, Txn, TxnOp, ZnodeRecord};
use zoolet_storage::log::LogEnd;
use zoolet_storage::{Inspection, LogSummary, SnapshotSummary, StorageError};

use super::print::{Detail, file_name, id_text, kind};
use crate::json::{joined, line};

/// A znode.
pub(super) fn znode(znode: &ZnodeRecord, detail: Detail) -> String {
    line(&joined([
        json!({"path": &*znode.path}),
        owner(znode.owner),
        json!({
            "version": znode.version,
            "aversion": znode.aversion,
            "creates": znode.creates,
            "czxid": znode.czxid.to_string(),
            "mzxid": znode.mzxid.to_string(),
            "pzxid": znode.pzxid.to_string(),
            "ctime": znode.ctime,
            "mtime": znode.mtime,
            "acl": acl(&znode.acl, detail),
        }),
        data(znode.data.as_deref(), detail),
    ]))
}

/// The first line of a dump: the last transaction, and the sessions with their timeouts.
pub(super) fn dump_header(zxid: Zxid, sessions: &[(SessionId, i32)]) -> String {
    let session = |(id, timeout): &(SessionId, i32)| json!({"id": id.to_string(), "timeout": timeout});
    let sessions: Vec<_> = sessions.iter().map(session).collect();
    line(&json!({"zxid": zxid.to_string(), "sessions": sessions}))
}

/// A transaction.
pub(super) fn txn(txn: &Txn, detail: Detail) -> String {
    line(&joined([
        json!({
            "zxid": txn.zxid.to_string(),
            "time": txn.time.0,
            "session": txn.session.to_string(),
            "xid": txn.xid.0,
        }),
        op(&txn.op, detail),
        txn.digest.map(|digest| json!({"digest": format!("{digest:#x}")})).unwrap_or_default(),
    ]))
}

pub(super) fn op(txn_op: &TxnOp, detail: Detail) -> Value {
    match txn_op {
        TxnOp::Create { path, data: bytes, acl: entries, owner: of, parent_creates } => joined([
            json!({"op": "create", "path": &**path}),
            owner(*of),
            json!({"parentCreates": parent_creates, "acl": acl(entries, detail)}),
            data(bytes.as_deref(), detail),
        ]),
        TxnOp::Delete { path } => json!({"op": "delete", "path": &**path}),
        TxnOp::SetData { path, data: bytes, version } => joined([
            json!({"op": "setData", "path": &**path, "version": version}),
            data(bytes.as_deref(), detail),
        ]),
        TxnOp::SetAcl { path, acl: entries, aversion } => {
            json!({"op": "setACL", "path": &**path, "aversion": aversion, "acl": acl(entries, detail)})
        }
        TxnOp::Check { path } => json!({"op": "check", "path": &**path}),
        TxnOp::Multi(ops) => {
            json!({"op": "multi", "ops": ops.iter().map(|one| op(one, detail)).collect::<Vec<_>>()})
        }
        TxnOp::CreateSession { timeout } => json!({"op": "createSession", "timeout": timeout}),
        TxnOp::CloseSession { ephemerals } => {
            let ephemerals: Vec<_> = ephemerals.iter().map(|path| &**path).collect();
            json!({"op": "closeSession", "ephemerals": ephemerals})
        }
        TxnOp::Error(code) => json!({"op": "error", "code": code.code(), "message": code.to_string()}),
    }
}

fn owner(owner: Owner) -> Value {
    match (owner.as_session(), owner.as_ttl()) {
        (Some(session), _) => json!({"kind": "ephemeral", "owner": session.to_string()}),
        (_, Some(ttl)) => json!({"kind": "ttl", "ttl": ttl}),
        _ => json!({"kind": kind(owner)}),
    }
}

fn acl(entries: &[Acl], detail: Detail) -> Vec<Value> {
    let entry = |entry: &Acl| {
        json!({
            "perms": format!("{:?}", entry.perms),
            "scheme": entry.scheme,
            "id": id_text(entry, detail),
        })
    };
    entries.iter().map(entry).collect()
}

/// Data by its length, which is null if there is none, and in base64 if it is asked for.
fn data(data: Option<&[u8]>, detail: Detail) -> Value {
    match data {
        Some(bytes) if detail.data => json!({"length": bytes.len(), "data": BASE64.encode(bytes)}),
        _ => json!({"length": data.map(<[u8]>::len)}),
    }
}

/// The files of a directory, one in each line.
pub(super) fn files(found: &Inspection) -> Vec<String> {
    let snapshots = found.snapshots.iter().map(|snapshot| {
        file(
            "snapshot",
            &snapshot.file.path,
            Some(snapshot.file.len),
            content(&snapshot.content, of_snapshot),
        )
    });
    let logs = found
        .logs
        .iter()
        .map(|log| file("log", &log.file.path, Some(log.file.len), content(&log.content, of_log)));
    let epochs = [("currentEpoch", &found.current_epoch), ("acceptedEpoch", &found.accepted_epoch)];
    let epochs = epochs.into_iter().filter(|(_, epoch)| !matches!(epoch, Ok(None)));
    let of_epoch = |epoch: &Option<i64>| json!({"epoch": epoch});
    let epochs = epochs.map(|(name, epoch)| file("epoch", Path::new(name), None, content(epoch, of_epoch)));
    let foreign = found.foreign.iter().map(|path| file("foreign", path, None, Value::Null));
    let leftovers = found.leftovers.iter().map(|path| file("leftover", path, None, Value::Null));
    let damage = found.damage.iter().map(|damage| json!({"kind": "directory", "damage": damage.to_string()}));
    let files = snapshots.chain(logs).chain(epochs).chain(foreign).chain(leftovers).chain(damage);
    files.map(|file| line(&file)).collect()
}

fn file(kind: &str, path: &Path, length: Option<u64>, content: Value) -> Value {
    let length = length.map(|length| json!({"length": length})).unwrap_or_default();
    joined([json!({"kind": kind, "file": file_name(path)}), length, content])
}

fn content<T>(content: &Result<T, StorageError>, json: impl Fn(&T) -> Value) -> Value {
    content.as_ref().map_or_else(|error| json!({"damage": error.to_string()}), json)
}

fn of_snapshot(summary: &SnapshotSummary) -> Value {
    let digest = summary.digest.and_then(|digest| Some((digest.zxid.to_string(), digest.digest?)));
    let digest = digest.map(|(zxid, digest)| json!({"digestZxid": zxid, "digest": format!("{digest:#x}")}));
    let missing: Vec<_> = summary.missing_acls.iter().map(|missing| &*missing.path).collect();
    joined([
        json!({
            "znodes": summary.znodes,
            "ephemerals": summary.ephemerals,
            "dataLength": summary.data_len,
            "sessions": summary.sessions,
            "acls": summary.acls,
        }),
        digest.unwrap_or_default(),
        summary.last_zxid.map(|last| json!({"lastZxid": last.to_string()})).unwrap_or_default(),
        json!({"missingAcls": missing}),
    ])
}

fn of_log(summary: &LogSummary) -> Value {
    let (first, last) = (summary.first, summary.last);
    let first = first.map(|(zxid, time)| json!({"first": zxid.to_string(), "firstTime": time}));
    let last = last.map(|(zxid, time)| json!({"last": zxid.to_string(), "lastTime": time}));
    let (end, fault) = match summary.end {
        LogEnd::Torn { fault, .. } => ("torn", Some(fault)),
        LogEnd::Damaged { fault, .. } => ("damaged", Some(fault)),
        _ => ("complete", None),
    };
    joined([
        json!({"transactions": summary.txns, "refused": summary.refused}),
        first.unwrap_or_default(),
        last.unwrap_or_default(),
        json!({
            "sessionsOpened": summary.sessions_opened,
            "sessionsClosed": summary.sessions_closed,
            "used": summary.used,
            "end": end,
            "endOffset": summary.end.offset(),
        }),
        fault.map(|fault| json!({"fault": fault.to_string()})).unwrap_or_default(),
    ])
}
