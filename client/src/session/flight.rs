//! Calls on their way: those waiting for a connection, those in flight, and when any of them must be given up.

use std::collections::VecDeque;
use std::mem;

use tokio::time::Instant;
use zoolet_proto::{ErrorCode, OpCode, Xid};

use crate::call::Submission;

/// How many connections may be lost under a read before its caller is told: one that kills connections must not be
/// sent for ever.
const MAX_LOSSES: u8 = 3;

/// A request that has been sent.
#[derive(Debug)]
pub(crate) struct InFlight {
    xid: Xid,
    pub(crate) sent: Instant,
    pub(crate) call: Submission,
}

/// A request that has not been sent, as there is no connection.
#[derive(Debug)]
struct Waiting {
    call: Submission,
    /// When to stop waiting for a connection.
    until: Instant,
}

/// Why a call was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// Its time was up when it had been sent.
    InFlight,
    /// Its time was up before it could be sent.
    Unsent,
    /// There was no connection for too long.
    NoConnection,
}

/// Every call of a session that is not answered.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Not sent yet, in order.
    waiting: VecDeque<Waiting>,
    /// Sent, in order.
    in_flight: VecDeque<InFlight>,
    last_xid: i32,
    /// Whether a connection was lost under a write, or under a sync that nobody awaits. Reads that come behind it are to show
    /// what it did, and the next server may not have seen that yet.
    owes_sync: bool,
    /// No deadline is earlier. A lower bound: a call that is answered in time leaves it as it is, so that deadlines
    /// cost nothing until one of them may have passed.
    earliest: Option<Instant>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            last_xid: 0,
            owes_sync: false,
            earliest: None,
        }
    }

    /// Keeps a call until there is a connection, but not past `until`.
    pub(crate) fn wait(&mut self, call: Submission, until: Instant) {
        self.note(call.deadline);
        self.note(Some(until));
        self.waiting.push_back(Waiting { call, until });
    }

    /// The calls that have waited, in order.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = Submission> + use<> {
        mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.call)
    }

    /// The number for the next request of this kind.
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

    /// Enters a call that has just been sent.
    pub(crate) fn sent(&mut self, xid: Xid, sent: Instant, call: Submission) {
        self.note(call.deadline);
        self.in_flight.push_back(InFlight { xid, sent, call });
    }

    /// The call that `xid` answers. It is the oldest one, save that a server may answer an auth packet, and a request
    /// it does not know, ahead of others. For any other the replies before it have got lost, and whoever waits for them
    /// would wait for ever.
    pub(crate) fn answered(&mut self, xid: Xid, error: Option<ErrorCode>) -> Option<InFlight> {
        if self.in_flight.front()?.xid == xid {
            return self.in_flight.pop_front();
        }
        let may_be_ahead = xid == Xid::AUTH || error == Some(ErrorCode::Unimplemented);
        let at = self.in_flight.iter().position(|call| call.xid == xid).filter(|_| may_be_ahead)?;
        self.in_flight.remove(at)
    }

    /// Whether watches are still to be set again: nothing but identities is sent before that.
    pub(crate) fn restores_watches(&self) -> bool {
        let first = self.in_flight.iter().find(|call| call.xid != Xid::AUTH);
        first.is_some_and(|call| call.xid == Xid::SET_WATCHES)
    }

    #[cfg(test)]
    pub(crate) fn last_xid(&self) -> i32 {
        self.last_xid
    }

    /// Whether the next connection is to begin with a sync.
    pub(crate) fn owes_sync(&self) -> bool {
        self.owes_sync
    }

    /// A server has answered a sync, and with it whatever was lost before.
    pub(crate) fn synced(&mut self) {
        self.owes_sync = false;
    }

    /// The connection is gone. Reads that somebody awaits go back to the head of the line, in order, to wait until
    /// `until`, and so does what a caller asked to be done and is as well done twice; writes are given out. What the session
    /// itself has sent it makes anew.
    pub(crate) fn lose_connection(&mut self, until: Instant) -> Vec<Submission> {
        let (mut lost, mut again) = (Vec::new(), VecDeque::new());
        for InFlight { mut call, .. } in mem::take(&mut self.in_flight) {
            call.losses += 1;
            let op = call.request.op();
            let awaited = call.reply_to.is_awaited();
            self.owes_sync |= op.takes_zxid() || (op == OpCode::Sync && !awaited);
            if op.takes_zxid() || call.losses >= MAX_LOSSES {
                lost.push(call);
            } else if awaited || (op == OpCode::RemoveWatches && call.reply_to.is_a_callers()) {
                again.push_back(Waiting { call, until });
            }
        }
        if !again.is_empty() {
            self.note(Some(until));
            again.append(&mut self.waiting);
            self.waiting = again;
        }
        lost
    }

    /// Everything, as nothing will be answered any more: what was sent, what was not.
    pub(crate) fn end(&mut self) -> (Vec<Submission>, Vec<Submission>) {
        let sent = mem::take(&mut self.in_flight).into_iter().map(|in_flight| in_flight.call).collect();
        (sent, self.take_waiting().collect())
    }

    /// When to call [`Calls::handle_timeout`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// Tells `expire` of every call whose time is up. One that was sent stays in its place without a caller, as its
    /// reply may yet come.
    pub(crate) fn handle_timeout(&mut self, now: Instant, mut expire: impl FnMut(&mut Submission, Lapse)) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let is_due = |call: &Submission| call.deadline.is_some_and(|deadline| deadline <= now);
        for InFlight { call, .. } in &mut self.in_flight {
            if is_due(call) {
                call.deadline = None;
                expire(call, Lapse::InFlight);
            }
        }
        self.waiting.retain_mut(|Waiting { call, until }| {
            let lapse = match () {
                () if is_due(call) => Lapse::Unsent,
                () if *until <= now => Lapse::NoConnection,
                () => return true,
            };
            expire(call, lapse);
            false
        });
        let sent = self.in_flight.iter().filter_map(|in_flight| in_flight.call.deadline);
        let waiting = self.waiting.iter().map(|waiting| {
            waiting.call.deadline.map_or(waiting.until, |deadline| deadline.min(waiting.until))
        });
        self.earliest = sent.chain(waiting).min();
    }

    fn note(&mut self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        }
    }
}
