//! Transactions of the server, as a check of a history takes them.

use zoolet_conformance::{Decided, Decision};
use zoolet_proto::records::{CheckVersion, Create, CreateTtl, Delete, Op, SetAcl, SetData};
use zoolet_proto::{CreateMode, Request};
use zoolet_server_core::{Owner, Txn, TxnOp};

/// Matches any version.
const ANY: i32 = -1;

/// The transactions of a server of this library, as a [`Checker`](super::Checker) takes them.
pub fn decided(txns: &[Txn]) -> Vec<Decided> {
    let decided = |Txn { session, xid, zxid, time, op, .. }: &Txn| {
        let (session, xid, zxid, time) = (*session, *xid, *zxid, time.0);
        Decided { zxid, time, session, xid, decision: decision(op) }
    };
    txns.iter().map(decided).collect()
}

fn decision(op: &TxnOp) -> Decision {
    Decision::Applied(match op {
        TxnOp::CreateSession { .. } => return Decision::Opened,
        TxnOp::Error(code) => return Decision::Refused(*code),
        TxnOp::CloseSession { .. } => Request::CloseSession,
        TxnOp::SetAcl { path, acl, .. } => {
            Request::SetAcl(SetAcl { path: path.to_string(), acl: Some(acl.clone()), version: ANY })
        }
        TxnOp::Multi(ops) => Request::Multi(ops.iter().filter_map(part).collect()),
        single => match part(single) {
            Some(Op::Create(create)) => Request::Create(create),
            Some(Op::CreateContainer(create)) => Request::CreateContainer(create),
            Some(Op::CreateTtl(create)) => Request::CreateTtl(create),
            Some(Op::Delete(delete)) => Request::Delete(delete),
            Some(Op::SetData(set)) => Request::SetData(set),
            // A check is no write by itself.
            part => Request::Multi(part.into_iter().collect()),
        },
    })
}

fn part(op: &TxnOp) -> Option<Op> {
    Some(match op {
        TxnOp::Create { path, data, acl, owner, .. } => {
            let mode = match *owner {
                Owner::CONTAINER => CreateMode::Container,
                owner if owner.as_ttl().is_some() => CreateMode::PersistentWithTtl,
                owner if owner.as_session().is_some() => CreateMode::Ephemeral,
                _ => CreateMode::Persistent,
            };
            let (path, data, acl, flags) = (path.to_string(), data.clone(), Some(acl.clone()), mode.code());
            match owner.as_ttl() {
                Some(ttl) => Op::CreateTtl(CreateTtl { path, data, acl, flags, ttl }),
                None if mode == CreateMode::Container => {
                    Op::CreateContainer(Create { path, data, acl, flags })
                }
                None => Op::Create(Create { path, data, acl, flags }),
            }
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
