//! Converts transactions of clients outside of the history to requests with the same effect.

use zoolet_proto::records::{CheckVersion, Create, CreateTtl, Delete, Op, SetAcl, SetData};
use zoolet_proto::{AclList, CreateMode, Request};
use zoolet_server_core::{Owner, TxnOp};

/// Matches any version.
const ANY: i32 = -1;

/// A request with the effect of `op`; `None` if it does not change the tree.
pub(super) fn request(op: &TxnOp) -> Option<Request> {
    Some(match op {
        TxnOp::Multi(ops) => Request::Multi(ops.iter().filter_map(part).collect()),
        TxnOp::SetAcl { path, acl, .. } => {
            Request::SetAcl(SetAcl { path: path.to_string(), acl: Some(acl.clone()), version: ANY })
        }
        TxnOp::CloseSession { .. } => Request::CloseSession,
        // A multi of one part also takes parts that are not requests of their own, such as a check.
        single => Request::Multi(vec![part(single)?]),
    })
}

fn part(op: &TxnOp) -> Option<Op> {
    Some(match op {
        TxnOp::Create { path, data, acl, owner, .. } => {
            create(path.to_string(), data.clone(), Some(acl.clone()), *owner)
        }
        TxnOp::Delete { path } => Op::Delete(Delete { path: path.to_string(), version: ANY }),
        TxnOp::SetData { path, data, .. } => {
            Op::SetData(SetData { path: path.to_string(), data: data.clone(), version: ANY })
        }
        TxnOp::Check { path } => Op::Check(CheckVersion { path: path.to_string(), version: ANY }),
        TxnOp::SetAcl { .. }
        | TxnOp::Multi(_)
        | TxnOp::CreateSession { .. }
        | TxnOp::CloseSession { .. }
        | TxnOp::Error(_) => return None,
    })
}

fn create(path: String, data: Option<bytes::Bytes>, acl: Option<AclList>, owner: Owner) -> Op {
    if let Some(ttl) = owner.as_ttl() {
        let flags = CreateMode::PersistentWithTtl.code();
        return Op::CreateTtl(CreateTtl { path, data, acl, flags, ttl });
    }
    let mode = match owner {
        Owner::CONTAINER => CreateMode::Container,
        owner if owner.as_session().is_some() => CreateMode::Ephemeral,
        _ => CreateMode::Persistent,
    };
    Op::Create(Create { path, data, acl, flags: mode.code() })
}
