//! Finds the request of a transaction that no reply shows.

use std::collections::{HashMap, VecDeque};

use zoolet_proto::records::Op;
use zoolet_proto::{Request, SessionId, Xid};
use zoolet_server_core::{Txn, TxnOp};

use super::operations::{CheckedOp, Operations};

/// The writes without a reply, in the order of arrival.
///
/// Some clients number their requests from the start on each connection, so a session may have several with the same xid.
pub(super) struct Unanswered(HashMap<(SessionId, Xid), VecDeque<usize>>);

impl Unanswered {
    pub(super) fn of(all: &Operations<'_>) -> Self {
        let mut unanswered: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (op, it) in all.ops.iter().enumerate() {
            let write = it.is_write() || it.request.is_none();
            if write && it.answer.is_none() && !it.cannot_apply {
                unanswered.entry((all.session_of(op), it.xid)).or_default().push_back(op);
            }
        }
        Self(unanswered)
    }

    /// Removes and returns the first request that can have caused the transaction.
    pub(super) fn take(&mut self, all: &Operations<'_>, txn: &Txn) -> Option<usize> {
        let candidates = self.0.get_mut(&(txn.session, txn.xid))?;
        let at = match candidates.len() {
            // Only one: if it does not fit, the replay says what is wrong with it.
            1 => 0,
            _ => candidates.iter().position(|op| may_cause(&all.ops[*op], txn))?,
        };
        candidates.remove(at)
    }
}

fn may_cause(op: &CheckedOp<'_>, txn: &Txn) -> bool {
    // It began when a client had seen this or a later transaction.
    let too_late = op.floor.is_some_and(|observed| observed.zxid >= txn.zxid);
    !too_late && op.request.is_none_or(|request| may_become(request, &txn.op))
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
