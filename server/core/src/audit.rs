//! The audit log: who has changed what, and who was refused to. What is logged, and when, follows `AuditHelper` of Apache
//! ZooKeeper; the events have the target `audit`, and nothing is done for them unless [`CoreConfig::audit`] is set.
//!
//! [`CoreConfig::audit`]: crate::CoreConfig::audit

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use zoolet_proto::records::Op;
use zoolet_proto::{Acl, CreateMode, DecodeError, OpCode, Request, SessionId};

use crate::access::masked;
use crate::core::{Core, RequestContext};
use crate::txn::{Txn, TxnOp};

/// The longest value in a line, in bytes: a client must not hide what it does behind a line that is too long to be kept.
const LONGEST: usize = 4 << 10;

/// What a request asks for, if it is one that is audited.
pub(crate) struct Audited {
    operation: &'static str,
    znode: Option<String>,
    acl: Option<String>,
    /// The modes of its creates; of a multi, one for each operation.
    modes: Vec<Option<CreateMode>>,
}

impl Audited {
    /// `None` for a request that changes nothing.
    pub(crate) fn of(op: OpCode, body: &Result<Request, DecodeError>) -> Option<Self> {
        let operation = match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "create",
            OpCode::Delete | OpCode::DeleteContainer => "delete",
            OpCode::SetData => "setData",
            OpCode::SetAcl => "setAcl",
            OpCode::Multi => "multiOperation",
            OpCode::Reconfig => "reconfig",
            _ => return None,
        };
        let mut audited = Self { operation, znode: None, acl: None, modes: Vec::new() };
        // Of a request that does not decode, only that it has failed is known.
        let Ok(request) = body else { return Some(audited) };
        audited.znode = request.path().map(str::to_owned);
        match request {
            Request::Create(record) | Request::Create2(record) | Request::CreateContainer(record) => {
                audited.modes.push(CreateMode::from_code(record.flags));
            }
            Request::CreateTtl(record) => audited.modes.push(CreateMode::from_code(record.flags)),
            Request::SetAcl(record) => audited.acl = record.acl.as_ref().map(|acl| list(&masked(acl))),
            Request::Multi(ops) => audited.modes.extend(ops.iter().map(mode_of)),
            _ => {}
        }
        Some(audited)
    }
}

impl Core {
    /// Logs a request that was executed: the transactions that were there before it are the first `before`.
    pub(crate) fn audit(&self, call: RequestContext, audited: &Audited, before: usize) {
        let ids = self.ids(call.conn);
        let mut users: Vec<String> = Vec::with_capacity(ids.len());
        for id in ids {
            let user = id.info().user;
            if !user.is_empty() && !users.contains(&user) {
                users.push(user);
            }
        }
        let (session, users, ip) = (call.session, users.join(","), self.peer(call.conn));
        let user = clipped(&users);
        let success = |operation, znode: &Arc<str>, mode, acl: Option<&str>| {
            let (znode, acl) = (clipped(znode), acl.map(clipped));
            let (znode, acl, znode_type) = (&*znode, acl.as_deref(), Option::map(mode, name_of));
            tracing::info!(target: "audit", %session, %user, %ip, operation, znode, znode_type, acl, result = "success");
        };
        let log = |op: &TxnOp, mode| match op {
            TxnOp::Create { path, .. } => success("create", path, mode, None),
            TxnOp::Delete { path } => success("delete", path, None, None),
            TxnOp::SetData { path, .. } => success("setData", path, None, None),
            TxnOp::SetAcl { path, .. } => success("setAcl", path, None, audited.acl.as_deref()),
            _ => {}
        };
        let mode = |at: usize| audited.modes.get(at).copied().flatten();
        match self.effects.txns.get(before) {
            Some(Txn { op: TxnOp::Multi(ops), .. }) => {
                ops.iter().enumerate().for_each(|(at, op)| log(op, mode(at)));
            }
            Some(Txn { op, .. }) if !matches!(op, TxnOp::Error(_)) => log(op, mode(0)),
            // Refused, with a zxid or without.
            _ => {
                let Audited { operation, znode, acl, .. } = audited;
                let (znode, acl) = (znode.as_deref().map(clipped), acl.as_deref().map(clipped));
                let (znode, acl, znode_type) = (znode.as_deref(), acl.as_deref(), mode(0).map(name_of));
                // A multi has no mode of its own.
                let znode_type = znode_type.filter(|_| *operation == "create");
                tracing::error!(
                    target: "audit", %session, %user, %ip, operation, znode, znode_type, acl, result = "failure"
                );
            }
        }
    }

    /// Logs the ephemerals that end with their session, which the server deletes.
    pub(crate) fn audit_ephemerals(&self, session: SessionId, ephemerals: &[Arc<str>]) {
        let Some(user) = self.config.audit.as_deref() else { return };
        for znode in ephemerals {
            let (operation, znode) = ("ephemeralZNodeDeletionOnSessionCloseOrExpire", &*clipped(znode));
            tracing::info!(target: "audit", %session, user, operation, znode, result = "success");
        }
    }
}

fn mode_of(op: &Op) -> Option<CreateMode> {
    match op {
        Op::Create(record) | Op::Create2(record) | Op::CreateContainer(record) => {
            CreateMode::from_code(record.flags)
        }
        Op::CreateTtl(record) => CreateMode::from_code(record.flags),
        _ => None,
    }
}

/// `CreateMode.toString`, in lower case.
fn name_of(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::Persistent => "persistent",
        CreateMode::PersistentSequential => "persistent_sequential",
        CreateMode::Ephemeral => "ephemeral",
        CreateMode::EphemeralSequential => "ephemeral_sequential",
        CreateMode::Container => "container",
        CreateMode::PersistentWithTtl => "persistent_with_ttl",
        CreateMode::PersistentSequentialWithTtl => "persistent_sequential_with_ttl",
        _ => "unknown",
    }
}

/// The entries one after the other, as `ZKUtil.aclToString` writes them, up to a length that shows what they are.
fn list(acl: &[Acl]) -> String {
    let mut text = String::new();
    for Acl { perms, scheme, id } in acl {
        // Writing to a string cannot fail.
        let _ = write!(text, "{scheme}:{id}:{perms:?}");
        if text.len() > LONGEST {
            break;
        }
    }
    text
}

/// A value, cut off if it is too long.
fn clipped(value: &str) -> Cow<'_, str> {
    if value.len() <= LONGEST {
        return value.into();
    }
    let end = (0..=LONGEST).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &value[..end]).into()
}
