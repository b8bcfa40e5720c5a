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
    pub(super) fn of(drafts: &[Draft], changed: &BTreeSet<i64>) -> Self {
        let mut known = BTreeSet::new();
        let mut later = Vec::new();
        for draft in drafts {
            if let Action::Request { reply: Awaited::Reply { transaction: Some(zxid), .. }, .. } =
                draft.step.action
            {
                known.insert(zxid);
                later.push((draft.step.moment.at, zxid));
            }
        }
        // The smallest zxid of a request and all later ones.
        let mut smallest = i64::MAX;
        for (_, zxid) in later.iter_mut().rev() {
            smallest = smallest.min(*zxid);
            *zxid = smallest;
        }
        let end = |draft: &&Draft| {
            let next = later.partition_point(|(at, _)| draft.done.is_none_or(|done| *at < done));
            later.get(next).map_or(i64::MAX, |(_, zxid)| *zxid)
        };
        // Zxids that a request has taken if nothing else has.
        let possible: BTreeSet<_> = drafts.iter().filter_map(Draft::possible_zxid).collect();
        let mut hiding: Vec<_> = drafts.iter().filter(|draft| draft.has_hidden_zxid()).collect();
        hiding.sort_by_key(|draft| (end(draft), draft.step.moment.at));
        let (mut hidden, mut given) = (HashMap::new(), Vec::new());
        for draft in hiding {
            let mut free = (draft.seen + 1..end(&draft)).filter(|zxid| !known.contains(zxid));
            let opens = matches!(draft.step.action, Action::Connect { .. });
            let is_likely = |zxid: &i64| !(possible.contains(zxid) || opens && changed.contains(zxid));
            let zxid = free.clone().find(is_likely).or_else(|| free.next());
            if let Some(zxid) = zxid {
                known.insert(zxid);
                hidden.insert(draft.step.moment.at, zxid);
                given.extend(draft.done.map(|done| (done, zxid)));
            }
        }
        given.sort_unstable_by(|one, other| other.cmp(one));
        Self { known, hidden, given, floor: 0 }
    }

    /// The place of a step, and up to where the server must have come before. None if it has not been executed. To be asked in
    /// the order of the records.
    pub(super) fn place(&mut self, draft: &Draft) -> Option<(Key, i64)> {
        let at = draft.step.moment.at;
        while let Some((_, zxid)) = self.given.last().filter(|(done, _)| *done < at) {
            self.floor = self.floor.max(*zxid);
            self.given.pop();
        }
        let seen = draft.seen.max(self.floor);
        let here = ((seen, true, at), seen);
        let transaction = |zxid| ((zxid, false, at), zxid - 1);
        Some(match (&draft.step.action, self.hidden.get(&at)) {
            (_, Some(zxid)) => transaction(*zxid),
            (Action::Request { reply: Awaited::Reply { transaction: Some(zxid), .. }, .. }, _) => {
                transaction(*zxid)
            }
            (Action::Request { reply: Awaited::Lost, .. }, None) => return None,
            (Action::Request { .. }, None) => match (draft.possible_zxid(), draft.zxid) {
                (Some(zxid), _) if self.known.insert(zxid) => transaction(zxid),
                (_, Some(zxid)) => ((zxid, true, at), zxid),
                (_, None) => here,
            },
            _ => here,
        })
    }
}

impl Draft {
    /// The zxid of a request of which servers make a transaction or not: one that does not decode, or a reconfig.
    fn possible_zxid(&self) -> Option<i64> {
        let Action::Request { request, .. } = &self.step.action else { return None };
        let is_write = OpCode::from_code(request.op).is_some_and(OpCode::takes_zxid);
        self.zxid.filter(|zxid| is_write && !takes_zxid(request) && *zxid > self.seen)
    }

    /// Whether it has taken a zxid of which its client was not told: that of a new session, or of a transaction whose reply was
    /// lost, which may have been executed.
    fn has_hidden_zxid(&self) -> bool {
        match &self.step.action {
            Action::Connect { request, response: Some(response), .. } => {
                request.session.0 == 0 && !response.is_refusal()
            }
            Action::Request { request, reply: Awaited::Lost, .. } => takes_zxid(request),
            _ => false,
        }
    }
}

/// Whether a server makes a transaction of it.
pub(super) fn takes_zxid(request: &Incoming) -> bool {
    request.op != OpCode::Reconfig.code() && request.body.as_ref().is_ok_and(|body| body.op().takes_zxid())
}
