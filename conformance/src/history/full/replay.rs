//! Applies the writes to the model in their order, and compares replies and events with it.

use std::collections::HashMap;

use zoolet_proto::records::OpResult;
use zoolet_proto::{ErrorCode, Reply, Request, SessionId, Zxid};

use super::compare::TxnTimes;
use super::operations::{CheckedOp, Operations, shown};
use super::order::{self, Cause, Step};
use super::watches::Watches;
use crate::history::decided::{Decided, Decision};
use crate::history::model::{Model, Outcome};
use crate::history::verdict::{CheckError, Operation, Rule, Undecided, Verdict, broken};

pub(super) struct Replay<'a, 'h> {
    pub(super) all: &'a Operations<'h>,
    pub(super) model: Model,
    pub(super) watches: Watches,
    /// How many events of each connection are checked.
    pub(super) received: Vec<usize>,
    times: TxnTimes,
    /// The sessions that have ended, with the zxid and the operation.
    ended: HashMap<SessionId, (Zxid, Operation)>,
}

impl<'a, 'h> Replay<'a, 'h> {
    pub(super) fn new(all: &'a Operations<'h>, model: Model) -> Self {
        let received = vec![0; all.conns.len()];
        Self {
            all,
            model,
            watches: Watches::default(),
            received,
            times: TxnTimes::new(),
            ended: HashMap::new(),
        }
    }

    /// Applies the transactions, and checks the reads that reflect each.
    ///
    /// # Errors
    /// The first broken rule; undecided if the model has no answer.
    pub(super) fn run(mut self, steps: &[Step<'_>]) -> Result<Verdict, CheckError> {
        let mut reads = self.reads().into_iter().peekable();
        for step in steps {
            self.step(*step)?;
            while let Some((_, op)) = reads.next_if(|(zxid, _)| *zxid <= step.zxid) {
                self.read(op)?;
            }
        }
        if let Some((zxid, op)) = reads.next() {
            let expected = format!("a transaction, but there are {}", steps.len());
            let seen = format!("zxid {zxid}");
            return Err(broken(Rule::Transactions, self.all.name(op), None, &expected, &seen));
        }
        (0..self.all.conns.len()).try_for_each(|conn| self.no_unexpected_event(conn, Zxid(i64::MAX)))?;
        if let Some([(zxid, time), (next, earlier)]) = self.times.first_decrease() {
            let [operation, other] = [next, zxid].map(|zxid| Operation::at(zxid, "transaction"));
            let expected = format!("a time no earlier than {time}");
            return Err(broken(Rule::Times, operation, Some(other), &expected, &earlier.to_string()));
        }
        Ok(self.verdict())
    }

    /// All other operations, with the zxid of the state that they reflect: the one of the reply or, if that was lost, the
    /// lowest possible.
    fn reads(&self) -> Vec<(Zxid, usize)> {
        let mut reads = Vec::new();
        for conn in &self.all.conns {
            let mut before = Zxid(0);
            for &op in &conn.ops {
                let CheckedOp { answer, floor, .. } = &self.all.ops[op];
                let shown = answer.as_ref().map(|answer| answer.zxid).filter(|zxid| zxid.0 > 0);
                before = shown.unwrap_or(before);
                if !self.all.ops[op].is_write() && (shown.is_some() || answer.is_none()) {
                    let floor = floor.map_or(Zxid(0), |observed| observed.zxid);
                    reads.push((shown.unwrap_or(before.max(floor)), op));
                }
            }
        }
        // Stable: on each connection they stay in their order.
        reads.sort_by_key(|(zxid, _)| *zxid);
        reads
    }

    fn step(&mut self, Step { zxid, txn, cause }: Step<'_>) -> Result<(), CheckError> {
        if let Some(txn) = txn {
            self.times.set(zxid, txn.time);
        }
        let time = txn.map_or(0, |txn| txn.time);
        let ends_session = match cause {
            Cause::NoChange => return Ok(()),
            Cause::Request(op) => {
                if !self.write(op, zxid, time, txn)? {
                    return Ok(());
                }
                self.all.ops[op].request == Some(&Request::CloseSession)
            }
            Cause::Cleanup(path) => {
                if let Err(code) = self.model.clean_up(path, zxid, time) {
                    let name = Operation::at(zxid, &format!("the server's delete of {path}"));
                    let expected = "such deletes only for empty containers and expired TTL znodes";
                    return Err(broken(Rule::Transactions, name, None, expected, &format!("{code:?}")));
                }
                false
            }
            Cause::Unrecorded(txn) => {
                let Decision::Applied(request) = &txn.decision else { return Ok(()) };
                let name = order::name(txn);
                let outcome = self.execute(txn.session, zxid, time, request, &name)?;
                if refusal(&outcome).is_some() {
                    return Err(broken(Rule::WriteResult, name, None, &shown(&outcome), "success"));
                }
                *request == Request::CloseSession
            }
        };
        self.check_events_of(zxid, ends_session)
    }

    /// Applies a write of the history; returns false if it was refused for a reason unrelated to the tree.
    fn write(&mut self, op: usize, zxid: Zxid, time: i64, txn: Option<&Decided>) -> Result<bool, CheckError> {
        let CheckedOp { request, answer, .. } = &self.all.ops[op];
        let Some(request) = request else { return Ok(false) };
        let (session, name) = (self.all.session_of(op), self.all.name(op));
        self.check_not_ended(session, op, zxid)?;
        let seen = answer.as_ref().map(|answer| answer.outcome);
        let logged = txn.map(|txn| txn.decision.refusal());
        let refusals = [seen.and_then(Result::err), logged.flatten()];
        if refusals.into_iter().flatten().any(is_unrelated_to_tree) || matches!(request, Request::Reconfig(_))
        {
            return Ok(false);
        }
        let model = self.execute(session, zxid, time, request, &name)?;
        let refused = refusal(&model);
        if let Some(seen) = seen {
            self.compare(Rule::WriteResult, op, model, seen)?;
        }
        if let (Some(txn), Some(logged)) = (txn, logged.filter(|logged| *logged != refused)) {
            let shown =
                |refused: Option<ErrorCode>| refused.map_or("success".into(), |code| format!("{code:?}"));
            let (other, expected, seen) = (Some(order::name(txn)), shown(refused), shown(logged));
            return Err(broken(Rule::Transactions, name, other, &expected, &seen));
        }
        Ok(true)
    }

    /// Checks the reply to a read against the state that it reflects, and sets its watch.
    fn read(&mut self, op: usize) -> Result<(), CheckError> {
        let CheckedOp { request, answer, .. } = &self.all.ops[op];
        let Some(answer) = answer else {
            self.assume_possible(op);
            return Ok(());
        };
        let session = self.all.session_of(op);
        self.check_not_ended(session, op, answer.zxid)?;
        let Some(request) = request else {
            if answer.outcome.is_ok() {
                return Err(broken(Rule::ReadResult, self.all.name(op), None, "an error", "success"));
            }
            return Ok(());
        };
        if matches!(answer.outcome, Err(code) if is_unrelated_to_tree(code))
            || self.check_watch_request(op, request, answer.outcome)?
        {
            return Ok(());
        }
        if let Ok(model) = self.model.read(session, request) {
            self.compare(Rule::ReadResult, op, model, answer.outcome)?;
            self.set_watch(op, request, answer.outcome);
        }
        Ok(())
    }

    pub(super) fn compare(
        &mut self,
        rule: Rule,
        op: usize,
        model: Outcome,
        seen: Result<&Reply, ErrorCode>,
    ) -> Result<(), CheckError> {
        self.times.compare(model, seen).map_err(|expected| {
            broken(rule, self.all.name(op), None, &shown(&expected), &shown(&seen.cloned()))
        })
    }

    fn execute(
        &mut self,
        session: SessionId,
        zxid: Zxid,
        time: i64,
        request: &Request,
        name: &Operation,
    ) -> Result<Outcome, CheckError> {
        if *request == Request::CloseSession {
            self.ended.insert(session, (zxid, name.clone()));
        }
        let outcome = self.model.write(session, zxid, time, request);
        outcome.map_err(|reason| Undecided::Unmodelled { operation: name.clone(), reason }.into())
    }

    /// Fails if the session has ended.
    fn check_not_ended(&self, session: SessionId, op: usize, zxid: Zxid) -> Result<(), CheckError> {
        let Some((end, by)) = self.ended.get(&session) else { return Ok(()) };
        let (operation, other) = (self.all.name(op), Some(by.clone()));
        let (expected, seen) = (format!("a zxid below {end}"), format!("zxid {zxid}"));
        Err(broken(Rule::SessionEnd, operation, other, &expected, &seen))
    }

    fn verdict(self) -> Verdict {
        let ops = &self.all.ops;
        let executed = |op: &&CheckedOp<'_>| op.answer.is_some() || op.zxid.is_some();
        let writes = ops.iter().filter(executed).filter(|op| op.is_write()).count();
        let answered = ops.iter().filter(executed).count();
        Verdict {
            writes,
            reads: answered - writes,
            unanswered: ops.len() - answered,
            events: self.received.iter().sum::<usize>()
                + ops.iter().map(|op| op.catch_up.len()).sum::<usize>(),
            model: self.model,
        }
    }
}

/// The error of a refused write; for a multi, that of the failed part.
fn refusal(outcome: &Outcome) -> Option<ErrorCode> {
    match outcome {
        Err(code) => Some(*code),
        Ok(Reply::Multi(parts)) => parts.iter().find_map(|part| match part {
            OpResult::Error(code) => *code,
            _ => None,
        }),
        Ok(_) => None,
    }
}

/// Whether an error is unrelated to the tree: the session moved to another server, or has too many watches.
pub(super) fn is_unrelated_to_tree(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::SessionMoved | ErrorCode::ThrottledOp)
}
