//! The calls of a session: those waiting for a connection, those in flight, and when each of them expires.

use std::collections::VecDeque;
use std::mem;

use tokio::time::Instant;
use zoolet_proto::{ErrorCode, OpCode, Request, Xid};

use crate::command::Submission;
use crate::context::ErrorContext;
use crate::error::Error;

/// How many connections may be lost under a read before it fails. A request that kills connections must not be retried
/// for ever.
const MAX_LOSSES: u8 = 3;

/// A request that has been sent.
#[derive(Debug)]
pub(crate) struct InFlight {
    xid: Xid,
    pub(crate) sent: Instant,
    pub(crate) call: Box<Submission>,
    /// Whether the server has answered that it did not execute it.
    unexecuted: bool,
}

/// A request that has not been sent, because there is no connection.
#[derive(Debug)]
struct QueuedCall {
    call: Box<Submission>,
    /// When to stop waiting for a connection.
    until: Instant,
}

/// Every unanswered call of a session.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Not sent yet, in order.
    waiting: VecDeque<QueuedCall>,
    /// Sent, in order.
    in_flight: VecDeque<InFlight>,
    last_xid: i32,
    /// Whether a connection was lost under a write, or a sync that nobody awaits was lost or not sent. Later reads must show
    /// its effect, which the next server may not have seen yet.
    owes_sync: bool,
    /// A lower bound of all deadlines. A call that is answered in time does not change it, so deadlines cost nothing until
    /// one of them may have passed.
    earliest: Option<Instant>,
}

impl Calls {
    /// Queues a call until there is a connection, but not past `until`.
    pub(crate) fn wait(&mut self, call: Box<Submission>, until: Instant) {
        self.note_deadline(call.deadline);
        self.note_deadline(Some(until));
        self.waiting.push_back(QueuedCall { call, until });
    }

    /// The queued calls, in order.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = Box<Submission>> + use<> {
        mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.call)
    }

    /// The xid for the next request of this kind.
    pub(crate) fn next_xid(&mut self, op: OpCode) -> Xid {
        match op {
            OpCode::Auth => Xid::AUTH,
            OpCode::SetWatches | OpCode::SetWatches2 => Xid::SET_WATCHES,
            _ => {
                self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
                Xid(self.last_xid)
            }
        }
    }

    /// Registers a call that has just been sent.
    pub(crate) fn sent(&mut self, xid: Xid, sent: Instant, call: Box<Submission>) {
        self.note_deadline(call.deadline);
        self.in_flight.push_back(InFlight { xid, sent, call, unexecuted: false });
    }

    /// Removes the call that `xid` answers. This is the oldest one, except that a server may answer an auth packet, and a
    /// request it does not know, ahead of others: of those that restore watches, a setWatches2. `None` otherwise: replies have
    /// been lost, and their callers would wait for ever. With its place, for [`Calls::put_back`].
    pub(crate) fn answered(&mut self, xid: Xid, error: Option<ErrorCode>) -> Option<(usize, InFlight)> {
        let is_unknown = error == Some(ErrorCode::Unimplemented);
        let mut at = self.in_flight.iter().position(|sent| sent.xid == xid)?;
        if is_unknown && xid == Xid::SET_WATCHES {
            let is_newer = |sent: &InFlight| matches!(sent.call.request, Request::SetWatches2(_));
            at = self.in_flight.iter().position(is_newer).unwrap_or(at);
        }
        let may_be_ahead = xid == Xid::AUTH || is_unknown;
        if at > 0 && !may_be_ahead {
            return None;
        }
        Some((at, self.in_flight.remove(at)?))
    }

    /// Returns a call to its place, which is sent again after the connection is lost, because it was not executed.
    pub(crate) fn put_back(&mut self, (at, in_flight): (usize, InFlight)) {
        self.in_flight.insert(at, InFlight { unexecuted: true, ..in_flight });
    }

    /// Whether watches are still being restored. Only identities are sent before that.
    pub(crate) fn restores_watches(&self) -> bool {
        let first = self.in_flight.iter().find(|call| call.xid != Xid::AUTH);
        first.is_some_and(|call| call.xid == Xid::SET_WATCHES)
    }

    /// How many a server has yet to answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether a server has yet to answer an identity.
    pub(crate) fn awaits_auth(&self) -> bool {
        self.in_flight.iter().any(|call| call.xid == Xid::AUTH)
    }

    #[cfg(test)]
    pub(crate) fn last_xid(&self) -> i32 {
        self.last_xid
    }

    /// Whether the next connection must begin with a sync.
    pub(crate) fn owes_sync(&self) -> bool {
        self.owes_sync
    }

    /// A server has answered a sync: it shows the effect of every write that was lost before.
    pub(crate) fn synced(&mut self) {
        self.owes_sync = false;
    }

    /// The connection is lost. Reads that are awaited return to the head of the queue, in order, to wait until `until`. So
    /// does removeWatches if a caller sent it, because it is idempotent. Writes are failed by `fail`. The session sends its
    /// own requests anew, and so does a feed.
    pub(crate) fn lose_connection(&mut self, until: Instant, mut fail: impl FnMut(&mut Submission)) {
        // Not empty if a server was to be left. Those that return were sent before.
        let mut later = mem::take(&mut self.waiting);
        for InFlight { mut call, unexecuted, .. } in mem::take(&mut self.in_flight) {
            if unexecuted {
                self.wait(call, until);
                continue;
            }
            call.losses += 1;
            let op = call.request.op();
            // A feed reads anew on the next connection, after it has set its watches there.
            if call.reply_to.ticket().is_some() {
                continue;
            }
            let awaited = call.reply_to.is_awaited();
            self.owes_sync |= op.takes_zxid() || (op == OpCode::Sync && !awaited);
            if op.takes_zxid() || call.losses >= MAX_LOSSES {
                fail(&mut call);
            } else if awaited || (op == OpCode::RemoveWatches && call.reply_to.has_caller()) {
                self.wait(call, until);
            }
        }
        self.waiting.append(&mut later);
    }

    /// Removes everything, because nothing will be answered: each call with whether it was sent.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = (Box<Submission>, bool)> + use<> {
        let sent = mem::take(&mut self.in_flight).into_iter().map(|in_flight| (in_flight.call, true));
        sent.chain(self.take_waiting().map(|call| {
            let sent = call.losses > 0;
            (call, sent)
        }))
    }

    /// When to call [`Calls::handle_timeout`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// Calls `expire` for every call whose deadline has passed, with whether it was sent, and its error. A call that was sent
    /// stays in its place without a caller, because its reply may still arrive.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        mut expire: impl FnMut(&mut Submission, bool, fn(ErrorContext) -> Error),
    ) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let is_due = |call: &Submission| call.deadline.is_some_and(|deadline| deadline <= now);
        for InFlight { call, .. } in &mut self.in_flight {
            if is_due(call) {
                call.deadline = None;
                expire(call, true, Error::Timeout);
            }
        }
        self.waiting.retain_mut(|QueuedCall { call, until }| {
            let error = match () {
                () if is_due(call) => Error::Timeout,
                () if *until <= now => Error::ConnectionLoss,
                () => return true,
            };
            self.owes_sync |= call.request.op() == OpCode::Sync && !call.reply_to.is_awaited();
            expire(call, call.losses > 0, error);
            false
        });
        let sent = self.in_flight.iter().filter_map(|in_flight| in_flight.call.deadline);
        let waiting = self.waiting.iter().map(|waiting| {
            waiting.call.deadline.map_or(waiting.until, |deadline| deadline.min(waiting.until))
        });
        self.earliest = sent.chain(waiting).min();
    }

    fn note_deadline(&mut self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        }
    }
}
