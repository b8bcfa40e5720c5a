//! The order of transactions: the zxid and the cause of each.

use std::collections::{BTreeSet, HashMap, HashSet};

use zoolet_proto::{OpCode, Request, SessionId, Zxid};

use super::operations::Operations;
use super::unanswered::Unanswered;
use crate::history::decided::{Decided, Decision};
use crate::history::verdict::{CheckError, Operation, Rule, Undecided, broken};

/// A transaction.
#[derive(Clone, Copy)]
pub(super) struct Step<'t> {
    pub(super) zxid: Zxid,
    /// As the server reports it, if its transactions are given.
    pub(super) txn: Option<&'t Decided>,
    pub(super) cause: Cause<'t>,
}

/// The cause of a transaction.
#[derive(Clone, Copy)]
pub(super) enum Cause<'t> {
    /// A request of the history.
    Request(usize),
    /// The server deleted an empty container or an expired TTL znode.
    Cleanup(&'t str),
    /// A client outside of the history, or the end of a session that expired.
    Unrecorded(&'t Decided),
    /// It changes no znode: a session was opened, or a request refused.
    NoChange,
}

/// The zxids that replies show to be in use.
struct TakenZxids {
    /// The write of each.
    writes: HashMap<Zxid, usize>,
    /// Zxids shown by requests that do not decode: some of these take one.
    possible: BTreeSet<Zxid>,
}

impl TakenZxids {
    fn of(all: &Operations<'_>) -> Result<Self, CheckError> {
        let (mut writes, mut possible) = (HashMap::new(), BTreeSet::new());
        for (op, answer) in all.ops.iter().enumerate().filter_map(|(op, it)| Some((op, it.answer.as_ref()?)))
        {
            if all.ops[op].is_write() {
                if let Some(other) = writes.insert(answer.zxid, op) {
                    let (operation, other) = (all.name(op), Some(all.name(other)));
                    let seen = "the same for both";
                    return Err(broken(Rule::OwnZxid, operation, other, "two zxids", seen));
                }
            } else if all.ops[op].request.is_none() {
                possible.insert(answer.zxid);
            }
        }
        possible.retain(|zxid| zxid.0 > 0 && !writes.contains_key(zxid));
        Ok(Self { writes, possible })
    }
}

/// Orders the writes of a history by their zxids, from the history alone.
///
/// # Errors
/// A broken rule; undecided if a write has no reply, or nothing explains a zxid.
pub(super) fn by_replies(all: &Operations<'_>, initial: Zxid) -> Result<Vec<Step<'static>>, CheckError> {
    let TakenZxids { writes, possible } = TakenZxids::of(all)?;
    let is_unknown = |op: &usize| {
        let op = &all.ops[*op];
        op.answer.is_none() && op.is_write() && !op.cannot_apply
    };
    if let Some(op) = (0..all.ops.len()).find(is_unknown) {
        return Err(Undecided::UnknownOutcome(all.name(op)).into());
    }
    // Opening a session takes a zxid that no reply shows. If the session got a reply, its zxid is at most the latest.
    let (mut served, mut opened) = (HashSet::new(), HashSet::new());
    for conn in &all.conns {
        opened.extend(conn.session.filter(|_| conn.opened));
        served.extend(conn.session.filter(|_| conn.opened && conn.replied.is_some()));
    }
    let last = all.last_zxid();
    let first = initial.next();
    let free = || (first.0..=last.0).map(Zxid).filter(|zxid| !writes.contains_key(zxid));
    let used = usize::try_from(last.0.saturating_sub(initial.0)).unwrap_or(0);
    let count = used.saturating_sub(writes.len());
    if count < served.len() {
        let operation = Operation::unidentified("the sessions of this history");
        let expected = format!("a zxid for each of {} opened sessions", served.len());
        let seen = format!("{count} without a request, up to {last}");
        return Err(broken(Rule::DenseZxids, operation, None, &expected, &seen));
    }
    // The rest may belong to sessions without a reply and to undecodable requests, unless a session may have expired.
    let others = if may_have_expired(all) { 0 } else { opened.len() - served.len() + possible.len() };
    if count > served.len() + others {
        let first = free().next().unwrap_or(last);
        return Err(Undecided::UnknownTransactions { count: count - served.len(), first }.into());
    }
    let cause = |zxid| writes.get(&zxid).map_or(Cause::NoChange, |op| Cause::Request(*op));
    Ok((first.0..=last.0).map(Zxid).map(|zxid| Step { zxid, txn: None, cause: cause(zxid) }).collect())
}

/// Whether a session may have expired: it lost its last connection without being closed.
fn may_have_expired(all: &Operations<'_>) -> bool {
    let mut lost = HashMap::new();
    for conn in &all.conns {
        let closed =
            |op: &usize| all.ops[*op].opcode == OpCode::CloseSession.code() && all.ops[*op].answer.is_some();
        if let Some(session) = conn.session {
            lost.insert(session, conn.ended && !conn.ops.iter().any(closed));
        }
    }
    lost.into_values().any(|lost| lost)
}

/// Orders the writes of a history by the server's transactions, including those without a reply.
///
/// # Errors
/// A broken rule; undecided if the transactions do not begin after the `initial` zxid.
pub(super) fn by_transactions<'t>(
    all: &mut Operations<'_>,
    initial: Zxid,
    txns: &'t [Decided],
) -> Result<Vec<Step<'t>>, CheckError> {
    let TakenZxids { writes, possible } = TakenZxids::of(all)?;
    let mut unknown = Unanswered::of(all);
    let known: HashSet<SessionId> = all.conns.iter().filter_map(|conn| conn.session).collect();
    let mut steps = Vec::with_capacity(txns.len());
    for txn in txns {
        let expected = Zxid(initial.0 + steps.len() as i64 + 1);
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
            let (expected, seen) = ("its own transaction", "that of another request");
            return Err(broken(Rule::Transactions, all.name(op), Some(name(txn)), expected, seen));
        }
        let cause = match (&txn.decision, asked) {
            (_, Some(op)) => Cause::Request(op),
            (Decision::Opened, _) => Cause::NoChange,
            (Decision::Applied(Request::Delete(delete)), _) if txn.session == SessionId(0) => {
                Cause::Cleanup(&delete.path)
            }
            (Decision::Refused(_), _) if txn.session == SessionId(0) || possible.contains(&txn.zxid) => {
                Cause::NoChange
            }
            _ => match unknown.take(all, txn) {
                Some(cause) => cause,
                // The session of a client of the history may expire.
                None if known.contains(&txn.session) && !ends_session(txn) => {
                    let expected = "one request of that session with that xid";
                    return Err(broken(Rule::Transactions, name(txn), None, expected, "none"));
                }
                None => Cause::Unrecorded(txn),
            },
        };
        if let Cause::Request(op) = cause {
            all.ops[op].zxid = Some(txn.zxid);
        }
        steps.push(Step { zxid: txn.zxid, txn: Some(txn), cause });
    }
    let last = Zxid(initial.0 + steps.len() as i64);
    if let Some((_, op)) = writes.into_iter().find(|(zxid, _)| *zxid > last) {
        let expected = format!("a transaction, but the last one is {last}");
        return Err(broken(Rule::Transactions, all.name(op), None, &expected, "none"));
    }
    all.check_request_order()?;
    Ok(steps)
}

fn ends_session(txn: &Decided) -> bool {
    txn.decision == Decision::Applied(Request::CloseSession)
}

/// A transaction as a violation names it.
pub(super) fn name(txn: &Decided) -> Operation {
    let description = match &txn.decision {
        Decision::Opened => "transaction: a new session".to_owned(),
        Decision::Refused(code) => format!("transaction: {code:?}"),
        Decision::Applied(Request::CloseSession) => "transaction: the end of a session".to_owned(),
        Decision::Applied(request) => format!("transaction {request:?}"),
    };
    let (session, xid, zxid) = (Some(txn.session), Some(txn.xid), Some(txn.zxid));
    Operation { session, xid, zxid, ..Operation::unidentified(&description) }
}
