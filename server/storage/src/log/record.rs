//! The records of log entries: a [`TxnOp`] as ZooKeeper stores it, in both directions.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BufMut;
use zoolet_proto::{Acl, AclList, ErrorCode, OpCode, Perms, SessionId};
use zoolet_server_core::{Owner, TxnOp};

use super::fields::{Fields, Malformed, put_buffer, put_count, put_data};

/// The type of the record of a refused write. Every other one is the number of its operation.
const ERROR: i32 = -1;

/// Whether transactions of this type are stored.
pub(crate) fn is_known(kind: i32) -> bool {
    kind == ERROR || OpCode::from_code(kind).is_some_and(OpCode::takes_zxid)
}

const UNKNOWN: Malformed = "an unknown type of transaction";

fn operation(kind: i32) -> Result<OpCode, Malformed> {
    OpCode::from_code(kind).ok_or(UNKNOWN)
}

/// What a record that cannot be stored has wrong. The state machine makes none.
pub(crate) type Unstorable = &'static str;

/// The type under which a change is stored.
pub(crate) fn kind_of(op: &TxnOp, session: SessionId) -> i32 {
    let operation = match op {
        TxnOp::Create { owner, .. } if owner.code() == session.0 => OpCode::Create,
        TxnOp::Create { owner: Owner::CONTAINER, .. } => OpCode::CreateContainer,
        TxnOp::Create { owner, .. } if owner.as_ttl().is_some() => OpCode::CreateTtl,
        TxnOp::Create { .. } => OpCode::Create,
        // The server itself deletes only containers and what has outlived its time to live.
        TxnOp::Delete { .. } if session == SessionId(0) => OpCode::DeleteContainer,
        TxnOp::Delete { .. } => OpCode::Delete,
        TxnOp::SetData { .. } => OpCode::SetData,
        TxnOp::SetAcl { .. } => OpCode::SetAcl,
        TxnOp::Check { .. } => OpCode::Check,
        TxnOp::Multi(_) => OpCode::Multi,
        TxnOp::CreateSession { .. } => OpCode::CreateSession,
        TxnOp::CloseSession { .. } => OpCode::CloseSession,
        TxnOp::Error(_) => return ERROR,
    };
    operation.code()
}

/// Appends the record of a whole transaction. A closeSession names as many paths as `room` bytes hold: replay deletes everything
/// that the session owns, named or not.
pub(crate) fn put(op: &TxnOp, session: SessionId, room: usize, out: &mut Vec<u8>) -> Result<(), Unstorable> {
    match op {
        TxnOp::CreateSession { timeout } => out.put_i32(*timeout),
        TxnOp::CloseSession { ephemerals } => put_paths(ephemerals, room, out),
        TxnOp::Error(code) => out.put_i32(code.code()),
        TxnOp::Multi(ops) => {
            put_count(ops.len(), out);
            for op in ops {
                put_member(op, session, out)?;
            }
        }
        TxnOp::Check { .. } => return Err("a check outside of a multi"),
        TxnOp::Create { .. } | TxnOp::Delete { .. } | TxnOp::SetData { .. } | TxnOp::SetAcl { .. } => {
            put_change(op, session, out)?;
        }
    }
    Ok(())
}

/// A member of a multi: its type, and its record as a buffer.
fn put_member(op: &TxnOp, session: SessionId, out: &mut Vec<u8>) -> Result<(), Unstorable> {
    out.put_i32(kind_of(op, session));
    let len_at = out.len();
    out.put_i32(0);
    put_change(op, session, out)?;
    let len = u32::try_from(out.len() - len_at - 4).unwrap_or(u32::MAX);
    out[len_at..len_at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// The record of a change of one znode.
fn put_change(op: &TxnOp, session: SessionId, out: &mut Vec<u8>) -> Result<(), Unstorable> {
    match op {
        TxnOp::Create { path, data, acl, owner, parent_creates } => {
            put_buffer(path.as_bytes(), out);
            put_data(data.as_ref(), out);
            put_acl(acl, out);
            let kind = kind_of(op, session);
            if kind == OpCode::Create.code() {
                let ephemeral = *owner != Owner::PERSISTENT;
                if ephemeral && owner.code() != session.0 {
                    return Err("an ephemeral of another session");
                }
                out.push(u8::from(ephemeral));
            }
            // The count of children that ever were has 32 bits on disk, and wraps.
            out.put_i32(*parent_creates as i32);
            if kind == OpCode::CreateTtl.code() {
                out.put_i64(owner.as_ttl().unwrap_or_default());
            }
        }
        TxnOp::Delete { path } => put_buffer(path.as_bytes(), out),
        TxnOp::SetData { path, data, version } => {
            put_buffer(path.as_bytes(), out);
            put_data(data.as_ref(), out);
            out.put_i32(*version);
        }
        TxnOp::SetAcl { path, acl, aversion } => {
            put_buffer(path.as_bytes(), out);
            put_acl(acl, out);
            out.put_i32(*aversion);
        }
        // The version that it expected is not kept, and no reader looks at it.
        TxnOp::Check { path } => {
            put_buffer(path.as_bytes(), out);
            out.put_i32(-1);
        }
        TxnOp::Multi(_) | TxnOp::CreateSession { .. } | TxnOp::CloseSession { .. } | TxnOp::Error(_) => {
            return Err("a multi with a member that is not a change of a znode");
        }
    }
    Ok(())
}

fn put_acl(acl: &[Acl], out: &mut Vec<u8>) {
    put_count(acl.len(), out);
    for entry in acl {
        out.put_i32(entry.perms.0);
        put_buffer(entry.scheme.as_bytes(), out);
        put_buffer(entry.id.as_bytes(), out);
    }
}

fn put_paths(paths: &[Arc<str>], room: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_i32(0);
    let mut count = 0;
    for path in paths {
        if out.len() - start + 4 + path.len() > room {
            break;
        }
        put_buffer(path.as_bytes(), out);
        count += 1;
    }
    let count: u32 = count;
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
}

/// Parses records. Keeps the access control lists that it has seen, as a log repeats few of them.
#[derive(Debug, Default)]
pub(crate) struct RecordParser {
    acls: HashMap<Vec<u8>, AclList>,
}

/// The most elements that are reserved for a count, which may be wrong.
const MAX_RESERVED: usize = 1024;

/// A parser that has more lists forgets them.
const MAX_KEPT_ACLS: usize = 1024;

impl RecordParser {
    /// Parses the record of a transaction, and leaves what follows it.
    pub(crate) fn parse(
        &mut self,
        kind: i32,
        session: SessionId,
        fields: &mut Fields<'_>,
    ) -> Result<TxnOp, Malformed> {
        if kind == ERROR {
            return parse_error(fields);
        }
        match operation(kind)? {
            OpCode::CreateSession => Ok(TxnOp::CreateSession { timeout: fields.int()? }),
            OpCode::CloseSession => parse_close_session(fields),
            OpCode::Multi => self.parse_multi(session, fields),
            OpCode::SetAcl => {
                let (path, acl, aversion) = (fields.path()?, self.parse_acl(fields)?, fields.int()?);
                Ok(TxnOp::SetAcl { path, acl, aversion })
            }
            OpCode::Reconfig => self.parse_change(OpCode::SetData, session, fields),
            OpCode::Check => Err("a check outside of a multi"),
            operation => self.parse_change(operation, session, fields),
        }
    }

    /// A multi. A failed one has members of type error, and changes nothing.
    fn parse_multi(&mut self, session: SessionId, fields: &mut Fields<'_>) -> Result<TxnOp, Malformed> {
        const MEMBER: usize = 8;
        const CODE: usize = 4;
        let count = fields.count(MEMBER)?.ok_or("a multi without members")?;
        let mut ops = Vec::with_capacity(count.min(MAX_RESERVED));
        let (mut failure, mut has_failed) = (None, false);
        for _ in 0..count {
            let kind = fields.int()?;
            let mut record = Fields(fields.buffer()?.ok_or("a member of a multi without a record")?);
            if kind == ERROR && record.len() > CODE {
                // Before the member that failed. A leader that has executed the multi gives followers which come later this
                // type with the record of the change: `DataTree.processTxn` has set the one and not the other.
                has_failed = true;
                continue;
            }
            let op = match kind {
                ERROR => parse_error(&mut record)?,
                kind => self.parse_change(operation(kind)?, session, &mut record)?,
            };
            if record.len() > 0 {
                return Err("a member of a multi longer than its fields");
            }
            match op {
                TxnOp::Error(code) => failure = failure.or(Some(code)),
                op => ops.push(op),
            }
        }
        match failure {
            Some(code) => Ok(TxnOp::Error(code)),
            None if has_failed => Ok(TxnOp::Error(ErrorCode::RuntimeInconsistency)),
            None => Ok(TxnOp::Multi(ops)),
        }
    }

    /// The record of a change of one znode, which may be a member of a multi.
    fn parse_change(
        &mut self,
        operation: OpCode,
        session: SessionId,
        fields: &mut Fields<'_>,
    ) -> Result<TxnOp, Malformed> {
        match operation {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                let (path, data, acl) = (fields.path()?, fields.data()?, self.parse_acl(fields)?);
                let mut owner = match operation {
                    OpCode::CreateContainer => Owner::CONTAINER,
                    OpCode::Create | OpCode::Create2 if fields.bool()? => Owner::session(session),
                    _ => Owner::PERSISTENT,
                };
                let parent_creates = match fields.len() {
                    // A record of ZooKeeper 3.3: without the counter, which replay computes.
                    0 if operation == OpCode::Create => -1,
                    _ => parse_creates(fields)?,
                };
                if operation == OpCode::CreateTtl {
                    owner = Owner::ttl(fields.long()?).ok_or("a time to live out of range")?;
                }
                Ok(TxnOp::Create { path, data, acl, owner, parent_creates })
            }
            OpCode::Delete | OpCode::DeleteContainer => Ok(TxnOp::Delete { path: fields.path()? }),
            OpCode::SetData => {
                let (path, data, version) = (fields.path()?, fields.data()?, fields.int()?);
                Ok(TxnOp::SetData { path, data, version })
            }
            OpCode::Check => {
                let (path, _version) = (fields.path()?, fields.int()?);
                Ok(TxnOp::Check { path })
            }
            _ => Err(UNKNOWN),
        }
    }

    fn parse_acl(&mut self, fields: &mut Fields<'_>) -> Result<AclList, Malformed> {
        const ENTRY: usize = 12;
        let whole = fields.0;
        let Some(count) = fields.count(ENTRY)? else {
            // Everybody may do everything (`ReferenceCountedACLCache.convertAcls`).
            return Ok(AclList::OPEN);
        };
        let entries = *fields;
        for _ in 0..count {
            fields.int()?;
            fields.buffer()?;
            fields.buffer()?;
        }
        let bytes = &whole[..whole.len() - fields.len()];
        if let Some(acl) = self.acls.get(bytes) {
            return Ok(acl.clone());
        }
        let mut entries = entries;
        let mut acl = Vec::with_capacity(count);
        for _ in 0..count {
            acl.push(Acl::new(Perms(entries.int()?), entries.text()?, entries.text()?));
        }
        let acl: AclList = acl.into();
        if self.acls.len() >= MAX_KEPT_ACLS {
            self.acls.clear();
        }
        self.acls.insert(bytes.to_vec(), acl.clone());
        Ok(acl)
    }
}

/// The count of children that ever were, of which the format has the low 32 bits; −1 if replay is to compute it, as it does for a
/// record of ZooKeeper 3.3.
fn parse_creates(fields: &mut Fields<'_>) -> Result<i64, Malformed> {
    let creates = fields.int()?;
    Ok(if creates == -1 { -1 } else { i64::from(creates as u32) })
}

fn parse_error(fields: &mut Fields<'_>) -> Result<TxnOp, Malformed> {
    let code = fields.int()?;
    Ok(TxnOp::Error(ErrorCode::from_code(code).unwrap_or(ErrorCode::Unknown(code))))
}

/// A closeSession. Before 3.6, and with `closeSessionTxn.enabled=false`, it has no list of paths; a digest may follow even then.
fn parse_close_session(fields: &mut Fields<'_>) -> Result<TxnOp, Malformed> {
    let start = *fields;
    match parse_paths(fields) {
        Ok(ephemerals) => Ok(TxnOp::CloseSession { ephemerals }),
        Err(_) if matches!(start.0, [] | [0, 0, 0, 2, _, _, _, _, _, _, _, _]) => {
            *fields = start;
            Ok(TxnOp::CloseSession { ephemerals: Vec::new() })
        }
        Err(reason) => Err(reason),
    }
}

fn parse_paths(fields: &mut Fields<'_>) -> Result<Vec<Arc<str>>, Malformed> {
    const PATH: usize = 5;
    let count = fields.count(PATH)?.unwrap_or(0);
    let mut paths = Vec::with_capacity(count.min(MAX_RESERVED));
    for _ in 0..count {
        paths.push(fields.path()?);
    }
    Ok(paths)
}
