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

/// A zxid, whether the step comes after the transaction of that zxid, and the number of its record.
pub(super) type Key = (i64, bool, usize);

/// Before which zxids drafts were executed whose own zxids are unknown.
pub(super) struct Ends {
    /// The zxids of all transactions that replies name.
    known: BTreeSet<i64>,
    /// The records of their requests, each with the smallest zxid of its request and all later ones.
    later: Vec<(usize, i64)>,
    /// By the connection: the zxid before which its session was opened, as the first reply with a zxid shows it.
    opened: HashMap<u32, i64>,
}

impl Ends {
    pub(super) fn of(drafts: &[Draft]) -> Self {
        let (mut known, mut later, mut opened) = (BTreeSet::new(), Vec::new(), HashMap::new());
        for draft in drafts {
            let transaction = draft.transaction();
            known.extend(transaction);
            later.extend(transaction.map(|zxid| (draft.moment.at, zxid)));
            if let Some(end) = transaction.or(draft.zxid.map(|zxid| zxid + 1)) {
                opened.entry(draft.moment.connection).or_insert(end);
            }
        }
        let mut smallest = i64::MAX;
        for (_, zxid) in later.iter_mut().rev() {
            smallest = smallest.min(*zxid);
            *zxid = smallest;
        }
        Self { known, later, opened }
    }

    /// The zxid before which a draft was executed, if it was.
    fn end(&self, draft: &Draft) -> i64 {
        let next = self.later.partition_point(|(at, _)| draft.done.is_none_or(|done| *at < done));
        let next = self.later.get(next).map_or(i64::MAX, |(_, zxid)| *zxid);
        let opened = self.opened.get(&draft.moment.connection).filter(|_| draft.opens_session());
        opened.map_or(next, |opened| next.min(*opened))
    }

    /// The drafts with a zxid that no reply names, and their ends, in the order of these.
    fn hiding<'d>(&self, drafts: &'d [Draft]) -> Vec<(i64, &'d Draft)> {
        let hiding = drafts.iter().filter(|draft| draft.has_hidden_zxid());
        let mut hiding: Vec<_> = hiding.map(|draft| (self.end(draft), draft)).collect();
        hiding.sort_by_key(|(end, draft)| (*end, draft.moment.at));
        hiding
    }

    /// The zxid of the server when the capture began: the guess, or a smaller one if that leaves too few zxids for the sessions.
    pub(super) fn base(&self, drafts: &[Draft], guess: i64) -> i64 {
        let known: Vec<_> = self.known.iter().collect();
        let hiding = self.hiding(drafts);
        let ends = hiding.iter().filter(|(_, draft)| draft.opens_session()).map(|(end, _)| *end);
        let bases = ends.zip(1..).map(|(end, sessions)| {
            let transactions = known.partition_point(|zxid| **zxid < end) as i64;
            end - 1 - transactions - sessions
        });
        bases.fold(guess, i64::min)
    }
}

/// The zxids of all transactions that are known.
pub(super) struct Order {
    /// Those that requests explain, of the requests that are placed.
    pub(super) known: BTreeSet<i64>,
    /// The zxids that no reply names, by the records of their requests.
    hidden: HashMap<usize, i64>,
    /// The records by which they were given, and the zxids, sorted so that `pop` gives the earliest.
    given: Vec<(usize, i64)>,
    /// The largest of them that was given before the step that is placed.
    floor: i64,
}

impl Order {
    /// `changed` are zxids of changes that replies show, which no session has.
    pub(super) fn of(drafts: &[Draft], changed: &BTreeSet<i64>, ends: Ends) -> Self {
        // Zxids that a request has taken if nothing else has.
        let possible: BTreeSet<_> = drafts.iter().filter_map(Draft::possible_zxid).collect();
        let hiding = ends.hiding(drafts);
        let (mut known, mut hidden, mut given) = (ends.known, HashMap::new(), Vec::new());
        for (end, draft) in hiding {
            let mut free = (draft.seen + 1..end).filter(|zxid| !known.contains(zxid));
            let is_likely =
                |zxid: &i64| !(possible.contains(zxid) || draft.opens_session() && changed.contains(zxid));
            let zxid = free.clone().find(is_likely).or_else(|| free.next());
            if let Some(zxid) = zxid {
                known.insert(zxid);
                hidden.insert(draft.moment.at, zxid);
                given.extend(draft.done.map(|done| (done, zxid)));
            }
        }
        given.sort_unstable_by(|one, other| other.cmp(one));
        Self { known, hidden, given, floor: 0 }
    }

    /// The place of a step, and up to where the server must have come before. None if it has not been executed. To be asked in
    /// the order of the records.
    pub(super) fn place(&mut self, draft: &Draft) -> Option<(Key, i64)> {
        let at = draft.moment.at;
        while let Some((_, zxid)) = self.given.last().filter(|(done, _)| *done < at) {
            self.floor = self.floor.max(*zxid);
            self.given.pop();
        }
        let seen = draft.seen.max(self.floor);
        let here = ((seen, true, at), seen);
        let transaction = |zxid| ((zxid, false, at), zxid - 1);
        if let Some(zxid) = draft.transaction().or(self.hidden.get(&at).copied()) {
            return Some(transaction(zxid));
        }
        Some(match &draft.action {
            Action::Request { reply: Awaited::Lost, .. } => return None,
            Action::Request { .. } => match (draft.possible_zxid(), draft.zxid) {
                (Some(zxid), _) if self.known.insert(zxid) => transaction(zxid),
                (_, Some(zxid)) => ((zxid, true, at), zxid),
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
        self.zxid.filter(|zxid| is_write && !takes_zxid(request) && *zxid > self.seen)
    }

    /// Whether it has taken a zxid of which its client was not told: that of a new session, or of a transaction whose reply was
    /// lost, which may have been executed.
    fn has_hidden_zxid(&self) -> bool {
        match &self.action {
            Action::Request { request, reply: Awaited::Lost, .. } => takes_zxid(request),
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

/// Whether a server makes a transaction of it.
pub(super) fn takes_zxid(request: &Incoming) -> bool {
    request.op != OpCode::Reconfig.code() && request.body.as_ref().is_ok_and(|body| body.op().takes_zxid())
}
