//! The writes of a session: the meaning of opcode and flags, and the path from a decided change to its reply.

use zoolet_proto::records::{Create, CreateTtl, Op, OpResult};
use zoolet_proto::{CreateMode, ErrorCode, OpCode, Reply, SessionId, Xid, Zxid};

use crate::core::{Core, RequestContext};
use crate::message::Millis;
use crate::pending::Pending;
use crate::prepare::{Actor, Write, decide};
use crate::tree::Change;
use crate::txn::{Txn, TxnOp};
use crate::znode::Owner;

/// A multi that is refused as a whole because one operation is malformed.
pub(crate) struct Refused {
    takes_zxid: bool,
}

impl Core {
    pub(crate) fn create(&mut self, call: RequestContext, op: OpCode, record: Create) {
        let Create { path, data, acl, flags } = record;
        let write = self.create_mode(flags).map(|mode| {
            // Only the opcode creates a container; the flag for one is ignored.
            let owner = owner_of(mode, op == OpCode::CreateContainer, call.session);
            Write::Create { path, data, acl, owner, sequential: mode.is_sequential() }
        });
        self.write(call, write, op != OpCode::Create);
    }

    pub(crate) fn create_ttl(&mut self, call: RequestContext, record: CreateTtl) {
        let CreateTtl { path, data, acl, flags, ttl } = record;
        let mode = self.ttl_mode(flags, ttl);
        let write = mode.map(|(owner, sequential)| Write::Create { path, data, acl, owner, sequential });
        self.write(call, write, true);
    }

    /// Decides, applies and answers one write. `with_stat` matters for creates only.
    pub(crate) fn write(&mut self, call: RequestContext, write: Result<Write, ErrorCode>, with_stat: bool) {
        let decided = write.and_then(|write| decide(&Pending::new(&self.tree), &mut self.actor(call), write));
        match decided {
            Ok(op) => {
                let mut outcome = None;
                let zxid = self.commit(call.now, call.session, call.xid, op, |change| {
                    outcome = Some(single_reply(change, with_stat));
                });
                self.reply(call, zxid, outcome.unwrap_or(Reply::Empty));
            }
            Err(code) => self.refuse_write(call, code),
        }
    }

    /// Refuses a write, which still takes a zxid.
    pub(crate) fn refuse_write(&mut self, call: RequestContext, code: ErrorCode) {
        let zxid = self.commit(call.now, call.session, call.xid, TxnOp::Error(code), |_| {});
        self.refuse(call, zxid, code);
    }

    pub(crate) fn multi(&mut self, call: RequestContext, ops: Vec<Op>) {
        let count = ops.len();
        let mut writes = Vec::with_capacity(count);
        for op in ops {
            match self.multi_write(call.session, op) {
                Ok(write) => writes.push(write),
                Err(Refused { takes_zxid: true }) => {
                    return self.refuse_write(call, ErrorCode::MarshallingError);
                }
                Err(Refused { takes_zxid: false }) => {
                    return self.refuse(call, self.tree.last_zxid(), ErrorCode::MarshallingError);
                }
            }
        }
        // Each operation is decided on the tree as the ones before it leave it; nothing is applied until all are decided.
        let mut with_stat = Vec::with_capacity(count);
        let mut steps = Vec::with_capacity(count);
        let mut failure = None;
        let (mut view, mut actor) = (Pending::new(&self.tree), self.actor(call));
        for (write, stat) in writes {
            match write.and_then(|write| decide(&view, &mut actor, write)) {
                Ok(step) => {
                    view.record(&step);
                    steps.push(step);
                    with_stat.push(stat);
                }
                Err(code) => {
                    failure = Some(code);
                    break;
                }
            }
        }
        drop((view, actor));
        let mut results = Vec::with_capacity(count);
        let zxid = match failure {
            None => self.commit(call.now, call.session, call.xid, TxnOp::Multi(steps), |change| {
                let stat = with_stat.get(results.len()).copied().unwrap_or_default();
                results.push(multi_result(change, stat));
            }),
            // All or none: those before the failed one are reported as undone, those after it as not tried.
            Some(code) => {
                results.resize(steps.len(), OpResult::Error(None));
                results.push(OpResult::Error(Some(code)));
                results.resize(count, OpResult::Error(Some(ErrorCode::RuntimeInconsistency)));
                self.commit(call.now, call.session, call.xid, TxnOp::Error(code), |_| {})
            }
        };
        // The header of a failed multi has no error either: the codes are in the results.
        self.reply(call, zxid, Reply::Multi(results));
    }

    /// Resolves the flags of a top-level create.
    fn create_mode(&self, flags: i32) -> Result<CreateMode, ErrorCode> {
        let mode = CreateMode::from_code(flags).ok_or(ErrorCode::BadArguments)?;
        if mode.is_ttl() {
            let extended = self.config.extended_types;
            return Err(if extended { ErrorCode::BadArguments } else { ErrorCode::Unimplemented });
        }
        Ok(mode)
    }

    /// Resolves flags and ttl of a createTTL: an owner, and whether the name is sequential.
    ///
    /// Flags without a ttl are refused, whatever the ttl: a negative one crashes a real server.
    fn ttl_mode(&self, flags: i32, ttl: i64) -> Result<(Owner, bool), ErrorCode> {
        let mode = CreateMode::from_code(flags).ok_or(ErrorCode::BadArguments)?;
        if !mode.is_ttl() {
            return Err(ErrorCode::BadArguments);
        }
        if !self.config.extended_types {
            return Err(ErrorCode::Unimplemented);
        }
        let owner = Owner::ttl(ttl).ok_or(ErrorCode::BadArguments)?;
        Ok((owner, mode.is_sequential()))
    }

    /// Resolves an operation of a multi, whose meaning may differ from the same request outside (`Op.create`), and whether
    /// its result has a Stat. The inner error fails the operation, the outer one the whole multi.
    #[allow(clippy::type_complexity, reason = "two failures of different reach")]
    pub(crate) fn multi_write(
        &self,
        session: SessionId,
        op: Op,
    ) -> Result<(Result<Write, ErrorCode>, bool), Refused> {
        let create_op = op.op();
        let record = match op {
            Op::Create(record) | Op::Create2(record) | Op::CreateContainer(record) => record,
            Op::CreateTtl(record) => return Ok(self.multi_create_ttl(session, record)),
            Op::Delete(record) => return Ok((Ok(Write::Delete(record)), false)),
            Op::SetData(record) => return Ok((Ok(Write::SetData(record)), false)),
            Op::Check(record) => return Ok((Ok(Write::Check(record)), false)),
            Op::GetData(_) | Op::GetChildren(_) => return Err(Refused { takes_zxid: true }),
        };
        let Some(mode) = CreateMode::from_code(record.flags) else {
            return Err(Refused { takes_zxid: true });
        };
        if record.acl.is_none() {
            return Err(Refused { takes_zxid: false });
        }
        if mode.is_ttl() {
            return Err(Refused { takes_zxid: true });
        }
        let container = create_op == OpCode::CreateContainer || mode == CreateMode::Container;
        let owner = owner_of(mode, container, session);
        let Create { path, data, acl, .. } = record;
        let write = Write::Create { path, data, acl, owner, sequential: mode.is_sequential() };
        Ok((Ok(write), container || create_op == OpCode::Create2))
    }

    fn multi_create_ttl(&self, session: SessionId, record: CreateTtl) -> (Result<Write, ErrorCode>, bool) {
        let CreateTtl { path, data, acl, flags, ttl } = record;
        let (mode, with_stat) = match CreateMode::from_code(flags) {
            Some(mode) if mode.is_ttl() => (self.ttl_mode(flags, ttl), true),
            Some(mode) => {
                let container = mode == CreateMode::Container;
                (Ok((owner_of(mode, container, session), mode.is_sequential())), container)
            }
            None => (Err(ErrorCode::BadArguments), false),
        };
        let write = mode.map(|(owner, sequential)| Write::Create { path, data, acl, owner, sequential });
        (write, with_stat)
    }

    fn actor(&self, call: RequestContext) -> Actor<'_> {
        Actor::new(self.ids(call.conn), &self.config)
    }

    /// Gives `op` the next zxid and applies it. For each change, notifies the watchers and calls `seen`.
    pub(crate) fn commit(
        &mut self,
        now: Millis,
        session: SessionId,
        xid: Xid,
        op: TxnOp,
        seen: impl FnMut(&Change),
    ) -> Zxid {
        let zxid = self.tree.last_zxid().next();
        let mut txn = Txn { session, xid, zxid, time: now.plus(self.wall_ahead), op, digest: None };
        let events = self.effects.outbound.len();
        self.apply(&txn, seen);
        if self.undurable.is_some() {
            self.prepare_for_log(&mut txn, events);
        }
        self.effects.txns.push(txn);
        zxid
    }
}

/// The owner of a new znode without a time to live.
fn owner_of(mode: CreateMode, container: bool, session: SessionId) -> Owner {
    match mode {
        _ if container => Owner::CONTAINER,
        mode if mode.is_ephemeral() => Owner::session(session),
        _ => Owner::PERSISTENT,
    }
}

fn single_reply(change: &Change, with_stat: bool) -> Reply {
    match change {
        Change::Created { path, stat } if with_stat => Reply::Created2(path.to_string(), *stat),
        Change::Created { path, .. } => Reply::Created(path.to_string()),
        Change::DataSet { stat, .. } | Change::AclSet { stat } => Reply::Stat(*stat),
        Change::Deleted { .. } | Change::Checked => Reply::Empty,
    }
}

fn multi_result(change: &Change, with_stat: bool) -> OpResult {
    match change {
        Change::Created { path, stat } if with_stat => OpResult::Create2(path.to_string(), *stat),
        Change::Created { path, .. } => OpResult::Create(path.to_string()),
        Change::DataSet { stat, .. } => OpResult::SetData(*stat),
        Change::Deleted { .. } => OpResult::Delete,
        Change::Checked | Change::AclSet { .. } => OpResult::Check,
    }
}
