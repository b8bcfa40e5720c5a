//! Finds the request of a transaction that no reply shows.

use std::collections::{HashMap, VecDeque};

use zoolet_proto::records::Op;
use zoolet_proto::{Request, SessionId, Xid, Zxid};
use zoolet_server_core::{Txn, TxnOp};

use super::operations::{CheckedOp, Operations};

/// The writes without a reply, in the order of arrival.
///
/// Some clients number their requests from the start on each connection, so a session may have several with the same xid.
pub(super) struct Unanswered {
    by_xid: HashMap<(SessionId, Xid), VecDeque<usize>>,
    /// For each session its connections, in order, with the zxid of their first reply.
    replied: HashMap<SessionId, Vec<(usize, Zxid)>>,
}

/// The cause of a transaction among the writes without a reply.
pub(super) enum Suspect {
    /// None of them can be the cause.
    None,
    /// This one.
    Op(usize),
    /// A refused write that several can have caused. It does not matter which one.
    Several,
}

impl Unanswered {
    pub(super) fn of(all: &Operations<'_>) -> Self {
        let mut by_xid: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (op, it) in all.ops.iter().enumerate() {
            let write = it.is_write() || it.request.is_none();
            if write && it.answer.is_none() && !it.cannot_apply {
                by_xid.entry((all.session_of(op), it.xid)).or_default().push_back(op);
            }
        }
        let mut replied: HashMap<_, Vec<_>> = HashMap::new();
        for (number, conn) in all.conns.iter().enumerate() {
            let zxids = conn.ops.iter().filter_map(|op| Some(all.ops[*op].answer.as_ref()?.zxid));
            if let (Some(session), Some(first)) = (conn.session, zxids.filter(|zxid| zxid.0 > 0).min()) {
                replied.entry(session).or_default().push((number, first));
            }
        }
        Self { by_xid, replied }
    }

    /// Removes and returns the request that has caused the transaction.
    pub(super) fn take(&mut self, all: &Operations<'_>, txn: &Txn) -> Suspect {
        let Some(candidates) = self.by_xid.get_mut(&(txn.session, txn.xid)) else { return Suspect::None };
        let replied = self.replied.get(&txn.session).map_or(&[][..], Vec::as_slice);
        let mut fitting = (0..candidates.len()).filter(|at| {
            // If there is only one that does not fit, the replay reports what is wrong with it.
            candidates.len() == 1 || may_cause(&all.ops[candidates[*at]], txn, replied)
        });
        let (first, second) = (fitting.next(), fitting.next());
        if second.is_some() && matches!(txn.op, TxnOp::Error(_)) {
            return Suspect::Several;
        }
        first.and_then(|at| candidates.remove(at)).map_or(Suspect::None, Suspect::Op)
    }
}

fn may_cause(op: &CheckedOp<'_>, txn: &Txn, replied: &[(usize, Zxid)]) -> bool {
    // It began when a client had seen this or a later transaction.
    let too_late = op.floor.is_some_and(|observed| observed.zxid >= txn.zxid);
    // A later connection of the session had a reply before this transaction.
    let too_early = replied.iter().any(|(conn, first)| *conn > op.conn && *first < txn.zxid);
    !too_late && !too_early && op.request.is_none_or(|request| may_become(request, &txn.op))
}

/// Whether the request can be executed as `op`, in some state of the tree.
fn may_become(request: &Request, op: &TxnOp) -> bool {
    match (request, op) {
        (_, TxnOp::Error(_)) => true,
        (Request::Multi(parts), TxnOp::Multi(ops)) => {
            parts.len() == ops.len() && parts.iter().zip(ops).all(|(part, op)| part_may_become(part, op))
        }
        (Request::Create(new) | Request::Create2(new) | Request::CreateContainer(new), _) => {
            creates(&new.path, &new.data, op)
        }
        (Request::CreateTtl(new), _) => creates(&new.path, &new.data, op),
        (Request::Delete(delete), TxnOp::Delete { path }) => *delete.path == **path,
        (Request::DeleteContainer(delete), TxnOp::Delete { path }) => *delete.path == **path,
        (Request::SetData(set), TxnOp::SetData { path, data, .. }) => {
            *set.path == **path && set.data == *data
        }
        (Request::SetAcl(set), TxnOp::SetAcl { path, .. }) => *set.path == **path,
        (Request::CloseSession, TxnOp::CloseSession { .. }) => true,
        _ => false,
    }
}

fn part_may_become(part: &Op, op: &TxnOp) -> bool {
    match (part, op) {
        (Op::Create(new) | Op::Create2(new) | Op::CreateContainer(new), _) => {
            creates(&new.path, &new.data, op)
        }
        (Op::CreateTtl(new), _) => creates(&new.path, &new.data, op),
        (Op::Delete(delete), TxnOp::Delete { path }) => *delete.path == **path,
        (Op::SetData(set), TxnOp::SetData { path, data, .. }) => *set.path == **path && set.data == *data,
        (Op::Check(check), TxnOp::Check { path }) => *check.path == **path,
        _ => false,
    }
}

fn creates(prefix: &str, wanted: &Option<bytes::Bytes>, op: &TxnOp) -> bool {
    // A sequential znode has a number after its path.
    matches!(op, TxnOp::Create { path, data, .. } if path.starts_with(prefix) && data == wanted)
}
