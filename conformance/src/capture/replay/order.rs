//! [`Order`]: the order in which the server did what was captured.
//!
//! Requests of several connections overlap, but a server executes them one after the other, and zxids tell in which order: a write
//! comes where its zxid is, a read after the write whose zxid it shows. What has no zxid comes where it was captured. The creation
//! of a session takes a zxid that its client is not told: the first one in its time that nothing else has. The requests of one
//! connection stay in their order.

use std::collections::{BTreeSet, HashMap};

use zoolet_proto::{Incoming, OpCode};

use super::reading::Draft;
use super::step::{Action, Awaited};

/// What steps are sorted by. The zxids are those of the captured server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepKey {
    zxid: i64,
    /// Whether the step comes after the transaction of that zxid, and is not the transaction itself.
    is_after: bool,
    /// The number of the record.
    at: usize,
}

impl StepKey {
    pub(super) fn transaction(zxid: i64, at: usize) -> Self {
        Self { zxid, is_after: false, at }
    }

    pub(super) fn after(zxid: i64, at: usize) -> Self {
        Self { zxid, is_after: true, at }
    }

    /// The zxid that the server had reached before the step.
    pub(super) fn reached(self) -> i64 {
        self.zxid - i64::from(!self.is_after)
    }
}

/// Upper bounds, exclusive, of zxids that no reply names: those of new sessions, and of writes whose reply was lost.
pub(super) struct UpperBounds {
    /// The zxids of all transactions that replies name.
    known: BTreeSet<i64>,
    /// The records of their requests, in this order as drafts are, each with the smallest zxid of its request and all later ones.
    later: Vec<(usize, i64)>,
    /// By the connection: the zxid before which its session was opened, as the first reply with a zxid shows it.
    opened: HashMap<u32, i64>,
}

impl UpperBounds {
    pub(super) fn of(drafts: &[Draft]) -> Self {
        let (mut known, mut later, mut opened) = (BTreeSet::new(), Vec::new(), HashMap::new());
        for draft in drafts {
            let transaction = draft.transaction();
            known.extend(transaction);
            later.extend(transaction.map(|zxid| (draft.moment.at, zxid)));
            if let Some(bound) = transaction.or(draft.zxid.map(|zxid| zxid + 1)) {
                opened.entry(draft.moment.connection).or_insert(bound);
            }
        }
        let mut smallest = i64::MAX;
        for (_, zxid) in later.iter_mut().rev() {
            smallest = smallest.min(*zxid);
            *zxid = smallest;
        }
        Self { known, later, opened }
    }

    /// The zxid before which a draft was executed, if it was. A request that was sent only after the draft was done has a larger one.
    fn bound(&self, draft: &Draft) -> i64 {
        let next = self.later.partition_point(|(at, _)| draft.done.is_none_or(|done| *at < done));
        let next = self.later.get(next).map_or(i64::MAX, |(_, zxid)| *zxid);
        let opened = self.opened.get(&draft.moment.connection).filter(|_| draft.opens_session());
        opened.map_or(next, |opened| next.min(*opened))
    }

    /// The drafts with a zxid that no reply names, and their bounds, in the order of these.
    fn hiding<'d>(&self, drafts: &'d [Draft]) -> Vec<(i64, &'d Draft)> {
        let hiding = drafts.iter().filter(|draft| draft.has_hidden_zxid());
        let mut hiding: Vec<_> = hiding.map(|draft| (self.bound(draft), draft)).collect();
        hiding.sort_by_key(|(bound, draft)| (*bound, draft.moment.at));
        hiding
    }

    /// The zxid of the server when the capture began: the guess, or a smaller one if that leaves too few zxids for the sessions.
    pub(super) fn base(&self, drafts: &[Draft], guess: i64) -> i64 {
        let known: Vec<_> = self.known.iter().collect();
        let hiding = self.hiding(drafts);
        let bounds = hiding.iter().filter(|(_, draft)| draft.opens_session()).map(|(bound, _)| *bound);
        let bases = bounds.zip(1..).map(|(bound, sessions)| {
            let transactions = known.partition_point(|zxid| **zxid < bound) as i64;
            // All of them, and all sessions up to this one, have zxids in base + 1..bound.
            bound - 1 - transactions - sessions
        });
        bases.fold(guess, i64::min)
    }
}

/// The zxids of all transactions that are known.
pub(super) struct Order {
    /// Those of requests and new sessions. [`place`](Self::place) adds the possible ones that it places as transactions.
    pub(super) known: BTreeSet<i64>,
    /// The zxids that no reply names, by the records of their requests.
    hidden: HashMap<usize, i64>,
    /// The hidden zxids with the records by which their requests were done, sorted so that `pop` gives the earliest.
    done: Vec<(usize, i64)>,
    /// The largest hidden zxid whose request was done before the record of the step that is placed.
    floor: i64,
}

impl Order {
    /// `changed` are zxids of changes that replies show, which no session has.
    pub(super) fn of(drafts: &[Draft], changed: &BTreeSet<i64>, bounds: UpperBounds) -> Self {
        // Zxids that a request has taken if nothing else has.
        let possible: BTreeSet<_> = drafts.iter().filter_map(Draft::possible_zxid).collect();
        let hiding = bounds.hiding(drafts);
        let (mut known, mut hidden, mut done) = (bounds.known, HashMap::new(), Vec::new());
        for (bound, draft) in hiding {
            let mut free = (draft.seen + 1..bound).filter(|zxid| !known.contains(zxid));
            let is_likely =
                |zxid: &i64| !(possible.contains(zxid) || draft.opens_session() && changed.contains(zxid));
            let zxid = free.clone().find(is_likely).or_else(|| free.next());
            if let Some(zxid) = zxid {
                known.insert(zxid);
                hidden.insert(draft.moment.at, zxid);
                done.extend(draft.done.map(|at| (at, zxid)));
            }
        }
        done.sort_unstable_by(|one, other| other.cmp(one));
        Self { known, hidden, done, floor: 0 }
    }

    /// The place of a step. None if it has not been executed. To be called in the order of the records.
    pub(super) fn place(&mut self, draft: &Draft) -> Option<StepKey> {
        let at = draft.moment.at;
        while let Some((_, zxid)) = self.done.last().filter(|(done, _)| *done < at) {
            self.floor = self.floor.max(*zxid);
            self.done.pop();
        }
        let here = StepKey::after(draft.seen.max(self.floor), at);
        if let Some(zxid) = draft.transaction().or(self.hidden.get(&at).copied()) {
            return Some(StepKey::transaction(zxid, at));
        }
        Some(match &draft.action {
            // It changes nothing, as a read does, or there is no zxid for it.
            Action::Request { reply: Awaited::Lost, .. } => return None,
            Action::Request { .. } => match (draft.possible_zxid(), draft.zxid) {
                (Some(zxid), _) if self.known.insert(zxid) => StepKey::transaction(zxid, at),
                (_, Some(zxid)) => StepKey::after(zxid, at),
                (_, None) => here,
            },
            _ => here,
        })
    }
}

impl Draft {
    /// The zxid of a transaction, if its reply names it.
    fn transaction(&self) -> Option<i64> {
        match self.action {
            Action::Request { reply: Awaited::Reply { transaction, .. }, .. } => transaction,
            _ => None,
        }
    }

    /// The zxid of a request of which servers make a transaction or not: one that does not decode, or a reconfig.
    fn possible_zxid(&self) -> Option<i64> {
        let Action::Request { request, .. } = &self.action else { return None };
        let is_write = OpCode::from_code(request.op).is_some_and(OpCode::takes_zxid);
        self.zxid.filter(|zxid| is_write && !certainly_takes_zxid(request) && *zxid > self.seen)
    }

    /// Whether it has taken a zxid of which its client was not told: that of a new session, or of a transaction whose reply was
    /// lost, which may have been executed.
    fn has_hidden_zxid(&self) -> bool {
        match &self.action {
            Action::Request { request, reply: Awaited::Lost, .. } => certainly_takes_zxid(request),
            _ => self.opens_session(),
        }
    }

    fn opens_session(&self) -> bool {
        match &self.action {
            Action::Connect { request, response: Some(response), .. } => {
                request.session.0 == 0 && !response.is_refusal()
            }
            _ => false,
        }
    }
}

/// Whether every server makes a transaction of it. Not so of a reconfig, or of a request that does not decode.
pub(super) fn certainly_takes_zxid(request: &Incoming) -> bool {
    request.op != OpCode::Reconfig.code() && request.body.as_ref().is_ok_and(|body| body.op().takes_zxid())
}
