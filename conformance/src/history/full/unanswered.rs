//! Finds the request of a transaction that no reply shows.

use std::collections::{HashMap, VecDeque};

use zoolet_proto::records::Op;
use zoolet_proto::{Request, SessionId, Xid, Zxid};

use super::operations::{CheckedOp, Operations};
use super::order::Cause;
use crate::history::decided::{Decided, Decision};
use crate::history::model::as_part;

/// The writes without a reply, in the order of arrival.
///
/// Some clients number their requests from the start on each connection, so a session may have several with the same xid.
pub(super) struct Unanswered {
    by_xid: HashMap<(SessionId, Xid), VecDeque<usize>>,
    /// For each session its connections, in order, with the zxid of their first reply.
    replied: HashMap<SessionId, Vec<(usize, Zxid)>>,
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

    /// Removes and returns the request that has caused the transaction; none if none of them can be the cause.
    pub(super) fn take<'t>(&mut self, all: &Operations<'_>, txn: &Decided) -> Option<Cause<'t>> {
        let candidates = self.by_xid.get_mut(&(txn.session, txn.xid))?;
        let replied = self.replied.get(&txn.session).map_or(&[][..], Vec::as_slice);
        let mut fitting = (0..candidates.len()).filter(|at| {
            // If there is only one that does not fit, the replay reports what is wrong with it.
            candidates.len() == 1 || may_cause(&all.ops[candidates[*at]], txn, replied)
        });
        let (first, second) = (fitting.next(), fitting.next());
        if second.is_some() && matches!(txn.decision, Decision::Refused(_)) {
            // It does not matter which of them was refused.
            return Some(Cause::NoChange);
        }
        candidates.remove(first?).map(Cause::Request)
    }
}

fn may_cause(op: &CheckedOp<'_>, txn: &Decided, replied: &[(usize, Zxid)]) -> bool {
    // It began when a client had seen this or a later transaction.
    let too_late = op.floor.is_some_and(|observed| observed.zxid >= txn.zxid);
    // A later connection of the session had a reply before this transaction.
    let too_early = replied.iter().any(|(conn, first)| *conn > op.conn && *first < txn.zxid);
    !too_late && !too_early && op.request.is_none_or(|request| may_become(request, &txn.decision))
}

/// Whether the request can have this effect, in some state of the tree.
fn may_become(request: &Request, decision: &Decision) -> bool {
    let done = match decision {
        Decision::Refused(_) => return true,
        Decision::Opened => return false,
        Decision::Applied(done) => done,
    };
    match (request, done) {
        (Request::Multi(parts), Request::Multi(done)) => {
            parts.len() == done.len()
                && parts.iter().zip(done).all(|(part, done)| part_may_become(part, done))
        }
        (Request::DeleteContainer(delete), Request::Delete(done)) => delete.path == done.path,
        (Request::SetAcl(set), Request::SetAcl(done)) => set.path == done.path,
        (Request::CloseSession, Request::CloseSession) => true,
        _ => as_part(request).zip(as_part(done)).is_some_and(|(part, done)| part_may_become(&part, &done)),
    }
}

fn part_may_become(part: &Op, done: &Op) -> bool {
    match (part, done) {
        (Op::Delete(_), Op::Delete(_)) | (Op::Check(_), Op::Check(_)) => part.path() == done.path(),
        (Op::SetData(set), Op::SetData(done)) => set.path == done.path && set.data == done.data,
        // A sequential znode has a number after its path.
        _ => created_data(part)
            .zip(created_data(done))
            .is_some_and(|(new, made)| new == made && done.path().starts_with(part.path())),
    }
}

fn created_data(part: &Op) -> Option<&Option<bytes::Bytes>> {
    match part {
        Op::Create(new) | Op::Create2(new) | Op::CreateContainer(new) => Some(&new.data),
        Op::CreateTtl(new) => Some(&new.data),
        _ => None,
    }
}
