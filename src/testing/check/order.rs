//! The one order: which transaction has which zxid, and what caused it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use zoolet_proto::{OpCode, SessionId, Xid, Zxid};
use zoolet_server_core::{Txn, TxnOp};

use super::operations::{Operations, broken};
use super::violation::{CheckError, Operation, Rule, Undecided};

/// A transaction.
#[derive(Clone, Copy)]
pub(super) struct Step<'t> {
    pub(super) zxid: Zxid,
    /// What the server says of it, if it was asked.
    pub(super) txn: Option<&'t Txn>,
    pub(super) cause: Cause<'t>,
}

/// What a transaction came of.
#[derive(Clone, Copy)]
pub(super) enum Cause<'t> {
    /// A request of the history.
    Request(usize),
    /// The end of a session that nobody asked for.
    Expiry(SessionId),
    /// The server deletes a znode that nobody needs.
    Sweep(&'t str),
    /// Somebody whose requests are not in the history.
    Other(&'t Txn),
    /// Nothing that changes a znode: a session was opened, or something refused.
    Nothing,
}

/// The zxids that replies show to be taken.
struct Taken {
    /// By which write.
    writes: HashMap<Zxid, usize>,
    /// Perhaps by a request that does not decode: servers give some of those one.
    perhaps: BTreeSet<Zxid>,
}

impl Taken {
    fn of(all: &Operations<'_>) -> Result<Self, CheckError> {
        let (mut writes, mut perhaps) = (HashMap::new(), BTreeSet::new());
        for (op, answer) in all.ops.iter().enumerate().filter_map(|(op, it)| Some((op, it.answer.as_ref()?)))
        {
            if all.ops[op].is_write() {
                if let Some(other) = writes.insert(answer.zxid, op) {
                    let (operation, other) = (all.name(op), Some(all.name(other)));
                    let seen = "the same for both";
                    return Err(broken(Rule::OwnZxid, operation, other, "two zxids", seen));
                }
            } else if all.ops[op].request.is_none() {
                perhaps.insert(answer.zxid);
            }
        }
        perhaps.retain(|zxid| zxid.0 > 0 && !writes.contains_key(zxid));
        Ok(Self { writes, perhaps })
    }
}

/// Puts the writes of a history in the order of their zxids, as far as the history itself tells.
///
/// # Errors
/// A broken rule; undecided if a write has no reply, or zxids were taken that nothing explains.
pub(super) fn by_replies(all: &Operations<'_>) -> Result<Vec<Step<'static>>, CheckError> {
    let Taken { writes, perhaps } = Taken::of(all)?;
    let is_unknown = |op: &usize| {
        let op = &all.ops[*op];
        op.answer.is_none() && op.is_write() && !op.void
    };
    if let Some(op) = (0..all.ops.len()).find(is_unknown) {
        return Err(Undecided::UnknownOutcome(all.name(op)).into());
    }
    // Every session was opened under a zxid that no reply shows. If it was served, that is one of those below.
    let (mut served, mut opened) = (HashSet::new(), HashSet::new());
    for line in &all.lines {
        opened.extend(line.session.filter(|_| line.opened));
        served.extend(line.session.filter(|_| line.opened && line.replied.is_some()));
    }
    let last = all.last_zxid();
    let free = || (1..=last.0).map(Zxid).filter(|zxid| !writes.contains_key(zxid));
    let count = usize::try_from(last.0).unwrap_or(usize::MAX).saturating_sub(writes.len());
    if count < served.len() {
        let operation = Operation::nameless("the sessions of this history");
        let expected = format!("a zxid for each of the {} that were opened", served.len());
        let seen = format!("{count} that no other request has, up to {last}");
        return Err(broken(Rule::DenseZxids, operation, None, &expected, &seen));
    }
    // The others may be of sessions that were not served and the like, unless one may have expired instead.
    let others = if may_have_expired(all) { 0 } else { opened.len() - served.len() + perhaps.len() };
    if count > served.len() + others {
        let first = free().next().unwrap_or(last);
        return Err(Undecided::UnknownTransactions { count: count - served.len(), first }.into());
    }
    let cause = |zxid| writes.get(&zxid).map_or(Cause::Nothing, |op| Cause::Request(*op));
    Ok((1..=last.0).map(|zxid| Step { zxid: Zxid(zxid), txn: None, cause: cause(Zxid(zxid)) }).collect())
}

/// Whether the server may have ended a session by itself: its last connection is gone, and it was not closed.
fn may_have_expired(all: &Operations<'_>) -> bool {
    let mut lost = HashMap::new();
    for line in &all.lines {
        let closed =
            |op: &usize| all.ops[*op].opcode == OpCode::CloseSession.code() && all.ops[*op].answer.is_some();
        if let Some(session) = line.session {
            lost.insert(session, line.ended && !line.ops.iter().any(closed));
        }
    }
    lost.into_values().any(|lost| lost)
}

/// Puts the writes of a history in the order of the server's transactions, those without a reply among them.
///
/// # Errors
/// A broken rule; undecided if the transactions do not begin at the first.
pub(super) fn by_transactions<'t>(
    all: &mut Operations<'_>,
    txns: &'t [Txn],
) -> Result<Vec<Step<'t>>, CheckError> {
    let Taken { writes, perhaps } = Taken::of(all)?;
    let mut unknown: HashMap<(SessionId, Xid), VecDeque<usize>> = HashMap::new();
    for (op, it) in all.ops.iter().enumerate() {
        let write = it.is_write() || it.request.is_none();
        if write && it.answer.is_none() && !it.void {
            unknown.entry((all.session_of(op), it.xid)).or_default().push_back(op);
        }
    }
    let known: HashSet<SessionId> = all.lines.iter().filter_map(|line| line.session).collect();
    let mut steps = Vec::with_capacity(txns.len());
    for txn in txns {
        let expected = Zxid(steps.len() as i64 + 1);
        if txn.zxid != expected {
            if steps.is_empty() {
                return Err(Undecided::LateStart(txn.zxid).into());
            }
            let expected = format!("zxid {expected}");
            return Err(broken(Rule::DenseZxids, name(txn), None, &expected, &format!("zxid {}", txn.zxid)));
        }
        let asked = writes.get(&txn.zxid).copied();
        if let Some(op) = asked.filter(|op| (all.session_of(*op), all.ops[*op].xid) != (txn.session, txn.xid))
        {
            let (operation, other) = (all.name(op), Some(name(txn)));
            return Err(broken(Rule::Transactions, operation, other, "its own", "that of another request"));
        }
        let mut unanswered = || unknown.get_mut(&(txn.session, txn.xid))?.pop_front();
        let cause = match (&txn.op, asked) {
            (_, Some(op)) => Cause::Request(op),
            (TxnOp::CreateSession { .. }, _) => Cause::Nothing,
            (TxnOp::CloseSession { .. }, _) => {
                unanswered().map_or(Cause::Expiry(txn.session), Cause::Request)
            }
            (TxnOp::Delete { path }, _) if txn.session == SessionId(0) => Cause::Sweep(path),
            (TxnOp::Error(_), _) if txn.session == SessionId(0) || perhaps.contains(&txn.zxid) => {
                Cause::Nothing
            }
            _ => match unanswered() {
                Some(op) => Cause::Request(op),
                None if known.contains(&txn.session) => {
                    let expected = "a request of that session and that xid, once";
                    return Err(broken(Rule::Transactions, name(txn), None, expected, "none is left"));
                }
                None => Cause::Other(txn),
            },
        };
        if let Cause::Request(op) = cause {
            all.ops[op].zxid = Some(txn.zxid);
        }
        steps.push(Step { zxid: txn.zxid, txn: Some(txn), cause });
    }
    let last = Zxid(steps.len() as i64);
    if let Some((_, op)) = writes.into_iter().find(|(zxid, _)| *zxid > last) {
        let expected = format!("a transaction, of which {last} is the last");
        return Err(broken(Rule::Transactions, all.name(op), None, &expected, "none"));
    }
    all.in_request_order()?;
    Ok(steps)
}

/// How a violation names a transaction.
pub(super) fn name(txn: &Txn) -> Operation {
    let what = match &txn.op {
        TxnOp::Error(code) => format!("transaction: {code:?}"),
        op => format!("transaction {op:?}"),
    };
    Operation { conn: None, session: Some(txn.session), xid: Some(txn.xid), zxid: Some(txn.zxid), what }
}
