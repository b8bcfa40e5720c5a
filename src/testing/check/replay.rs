//! The writes once more, on the model, in their order: what was answered and told must be what the model says.

use std::collections::HashMap;

use zoolet_proto::records::OpResult;
use zoolet_proto::{ErrorCode, Reply, Request, SessionId, Zxid};
use zoolet_server_core::{Txn, TxnOp};

use super::Verdict;
use super::compare::Times;
use super::foreign;
use super::operations::{Op, Operations, broken, shown};
use super::order::{self, Cause, Step};
use super::violation::{CheckError, Operation, Rule, Undecided};
use super::watches::Watches;
use crate::testing::model::{Model, Outcome};

pub(super) struct Replay<'a, 'h> {
    pub(super) all: &'a Operations<'h>,
    pub(super) model: Model,
    pub(super) watches: Watches,
    /// How many events of each connection are accounted for.
    pub(super) told: Vec<usize>,
    times: Times,
    /// Sessions that have ended: by which transaction, and what that was.
    ended: HashMap<SessionId, (Zxid, Operation)>,
}

impl<'a, 'h> Replay<'a, 'h> {
    pub(super) fn new(all: &'a Operations<'h>, model: Model) -> Self {
        let told = vec![0; all.lines.len()];
        Self { all, model, watches: Watches::default(), told, times: Times::new(), ended: HashMap::new() }
    }

    /// Does the transactions, and behind each the reads that reflect it.
    ///
    /// # Errors
    /// The first rule that is broken; undecided where the model has no answer.
    pub(super) fn run(mut self, steps: &[Step<'_>]) -> Result<Verdict, CheckError> {
        let mut reads = self.reads().into_iter().peekable();
        for step in steps {
            self.step(*step)?;
            while let Some((_, op)) = reads.next_if(|(zxid, _)| *zxid <= step.zxid) {
                self.read(op)?;
            }
        }
        if let Some((zxid, op)) = reads.next() {
            let expected = format!("a transaction, of which {} is the last", steps.len());
            let seen = format!("zxid {zxid}");
            return Err(broken(Rule::Transactions, self.all.name(op), None, &expected, &seen));
        }
        (0..self.all.lines.len()).try_for_each(|line| self.nothing_unasked(line, Zxid(i64::MAX)))?;
        if let Some([(zxid, time), (next, earlier)]) = self.times.backwards() {
            let what = "the transaction".to_owned();
            let operation = Operation { zxid: Some(next), ..Operation::nameless(&what) };
            let other = Operation { zxid: Some(zxid), ..Operation::nameless(&what) };
            let expected = format!("a time not before {time}");
            return Err(broken(Rule::Times, operation, Some(other), &expected, &earlier.to_string()));
        }
        Ok(self.verdict())
    }

    /// What is no write, with the zxid behind which it belongs: the one it shows or, where the reply is lost, the lowest
    /// it can have.
    fn reads(&self) -> Vec<(Zxid, usize)> {
        let mut reads = Vec::new();
        for line in &self.all.lines {
            let mut before = Zxid(0);
            for &op in &line.ops {
                let Op { answer, floor, .. } = &self.all.ops[op];
                let shown = answer.as_ref().map(|answer| answer.zxid).filter(|zxid| zxid.0 > 0);
                before = shown.unwrap_or(before);
                if !self.all.ops[op].is_write() && (shown.is_some() || answer.is_none()) {
                    let floor = floor.map_or(Zxid(0), |sight| sight.zxid);
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
            self.times.know(zxid, txn.time.0);
        }
        let time = txn.map_or(0, |txn| txn.time.0);
        let ends_session = match cause {
            Cause::Nothing => return Ok(()),
            Cause::Request(op) => {
                if !self.write(op, zxid, time, txn)? {
                    return Ok(());
                }
                self.all.ops[op].request == Some(&Request::CloseSession)
            }
            Cause::Expiry(session) => {
                let name =
                    Operation { session: Some(session), zxid: Some(zxid), ..Operation::nameless("expiry") };
                self.execute(session, zxid, time, &Request::CloseSession, &name)?.ok();
                self.ended.insert(session, (zxid, name));
                true
            }
            Cause::Sweep(path) => {
                if let Err(code) = self.model.sweep(path, zxid, time) {
                    let name = Operation {
                        zxid: Some(zxid),
                        ..Operation::nameless(&format!("the server's own delete of {path}"))
                    };
                    let expected = "it only for empty containers and TTL znodes past their time";
                    return Err(broken(Rule::Transactions, name, None, expected, &format!("{code:?}")));
                }
                false
            }
            Cause::Other(txn) => {
                let Some(request) = foreign::request(&txn.op) else { return Ok(()) };
                let name = order::name(txn);
                let outcome = self.execute(txn.session, zxid, time, &request, &name)?;
                if refusal(&outcome).is_some() {
                    return Err(broken(Rule::WriteResult, name, None, &shown(&outcome), "it was done"));
                }
                request == Request::CloseSession
            }
        };
        self.tell(zxid, ends_session)
    }

    /// Does a write of the history; false if it changes nothing for a reason outside of the tree.
    fn write(&mut self, op: usize, zxid: Zxid, time: i64, txn: Option<&Txn>) -> Result<bool, CheckError> {
        let Op { request, answer, .. } = &self.all.ops[op];
        let Some(request) = request else { return Ok(false) };
        let (session, name) = (self.all.session_of(op), self.all.name(op));
        self.lives(session, op, zxid)?;
        let seen = answer.as_ref().map(|answer| answer.outcome);
        let logged = txn.map(|txn| refusal_of(&txn.op));
        let refusals = [seen.and_then(Result::err), logged.flatten()];
        if refusals.into_iter().flatten().any(is_outside) || matches!(request, Request::Reconfig(_)) {
            return Ok(false);
        }
        let model = self.execute(session, zxid, time, request, &name)?;
        let refused = refusal(&model);
        if let Some(seen) = seen {
            self.compare(Rule::WriteResult, op, model, seen)?;
        }
        if let (Some(txn), Some(logged)) = (txn, logged.filter(|logged| *logged != refused)) {
            let told =
                |refused: Option<ErrorCode>| refused.map_or("it is done".into(), |code| format!("{code:?}"));
            let (other, expected, seen) = (Some(order::name(txn)), told(refused), told(logged));
            return Err(broken(Rule::Transactions, name, other, &expected, &seen));
        }
        if **request == Request::CloseSession {
            self.ended.insert(session, (zxid, name));
        }
        Ok(true)
    }

    /// Holds the answer to a read against the state it shows, and sets the watch it leaves.
    fn read(&mut self, op: usize) -> Result<(), CheckError> {
        let Op { request, answer, .. } = &self.all.ops[op];
        let Some(answer) = answer else {
            self.doubt(op);
            return Ok(());
        };
        let session = self.all.session_of(op);
        self.lives(session, op, answer.zxid)?;
        let Some(request) = request else {
            if answer.outcome.is_ok() {
                let seen = "that it was done";
                return Err(broken(Rule::ReadResult, self.all.name(op), None, "an error", seen));
            }
            return Ok(());
        };
        if matches!(answer.outcome, Err(code) if is_outside(code)) || self.concerns_watches(op)? {
            return Ok(());
        }
        if let Ok(model) = self.model.read(session, request) {
            self.compare(Rule::ReadResult, op, model, answer.outcome)?;
            self.leave_watch(op, false);
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
        let outcome = self.model.write(session, zxid, time, request);
        outcome.map_err(|what| Undecided::Unmodelled { operation: name.clone(), what }.into())
    }

    /// A session that has ended does and gets nothing more.
    fn lives(&self, session: SessionId, op: usize, zxid: Zxid) -> Result<(), CheckError> {
        match self.ended.get(&session) {
            Some((end, by)) => {
                let (operation, other) = (self.all.name(op), Some(by.clone()));
                let (expected, seen) = (format!("a zxid below {end}"), format!("zxid {zxid}"));
                Err(broken(Rule::SessionEnd, operation, other, &expected, &seen))
            }
            None => Ok(()),
        }
    }

    fn verdict(self) -> Verdict {
        let ops = &self.all.ops;
        let executed = |op: &&Op<'_>| op.answer.is_some() || op.zxid.is_some();
        let writes = ops.iter().filter(executed).filter(|op| op.is_write()).count();
        let answered = ops.iter().filter(executed).count();
        Verdict {
            writes,
            reads: answered - writes,
            unanswered: ops.len() - answered,
            events: self.told.iter().sum::<usize>() + ops.iter().map(|op| op.catch_up.len()).sum::<usize>(),
            model: self.model,
        }
    }
}

/// What a write was refused with: of a multi, the part that could not be.
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

fn refusal_of(op: &TxnOp) -> Option<ErrorCode> {
    match op {
        TxnOp::Error(code) => Some(*code),
        _ => None,
    }
}

/// Refusals that have nothing to do with the tree: of a session that another server has, or has too many watches.
pub(super) fn is_outside(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::SessionMoved | ErrorCode::ThrottledOp)
}
