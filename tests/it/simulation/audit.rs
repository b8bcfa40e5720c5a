//! What the transactions of a server prove about a lock: they are one order, and no contender had a hand in it.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet::server::{Txn, TxnOp};

use crate::simulation::contender::{COUNTER, Claim, DIR, parse_counter};
use crate::simulation::world::EPOCH;

/// When a contender was first in the queue, by the server's list.
#[derive(Debug)]
pub struct Reign {
    pub token: u64,
    pub from: Duration,
    /// When its znode went; `None` if it never did.
    pub until: Option<Duration>,
}

/// What one life of a server shows of the lock.
#[derive(Debug, Default)]
pub struct Audit {
    /// By the path of the znode.
    pub reigns: BTreeMap<String, Reign>,
    /// Which client opened a session, and when.
    pub sessions: BTreeMap<i64, Duration>,
    /// How often the counter was raised.
    pub counted: u64,
    /// The queue: the path of each znode by the transaction that created it.
    queue: BTreeMap<i64, String>,
    /// The highest token of a write so far.
    token: u64,
}

impl Audit {
    /// Goes through every transaction of a server from its start.
    ///
    /// # Panics
    /// If the counter was written by anybody but the first in the queue, under a token that is not its own or lower than
    /// one before, or with anything but the next number.
    pub fn of(transactions: &[Txn]) -> Self {
        let mut audit = Self::default();
        let first = transactions.first().map_or(0, |txn| txn.zxid.0);
        for (txn, zxid) in transactions.iter().zip(first..) {
            assert_eq!(txn.zxid.0, zxid, "a gap in the list");
            audit.take(txn);
        }
        audit
    }

    /// The tokens of the lock in the order in which it was held.
    pub fn tokens(&self) -> impl Iterator<Item = u64> {
        let mut tokens: Vec<_> = self.reigns.values().map(|reign| (reign.from, reign.token)).collect();
        tokens.sort_unstable();
        tokens.into_iter().map(|(_, token)| token)
    }

    fn take(&mut self, txn: &Txn) {
        let at = time_of(txn);
        match &txn.op {
            TxnOp::Create { path, .. } if path.starts_with(DIR) && **path != *DIR => {
                self.queue.insert(txn.zxid.0, path.to_string());
            }
            TxnOp::Delete { path } => self.remove(at, path),
            TxnOp::CloseSession { ephemerals } => ephemerals.iter().for_each(|path| self.remove(at, path)),
            TxnOp::CreateSession { .. } => _ = self.sessions.insert(txn.session.0, at),
            TxnOp::SetData { path, .. } => assert_ne!(**path, *COUNTER, "{at:?}: written without the lock"),
            TxnOp::Multi(parts) => self.count(at, parts),
            _ => {}
        }
        // The first in the queue now holds, from now on if it did not before.
        if let Some((token, path)) = self.queue.first_key_value() {
            let reign = Reign { token: token.unsigned_abs(), from: at, until: None };
            self.reigns.entry(path.clone()).or_insert(reign);
        }
    }

    fn remove(&mut self, at: Duration, path: &str) {
        self.queue.retain(|_, queued| queued != path);
        if let Some(reign) = self.reigns.get_mut(path) {
            reign.until = Some(at);
        }
    }

    fn count(&mut self, at: Duration, parts: &[TxnOp]) {
        let [TxnOp::Check { path: node }, TxnOp::SetData { path, data: Some(data), .. }] = parts else {
            panic!("{at:?}: a multi that no client here sends: {parts:?}");
        };
        assert_eq!(**path, *COUNTER);
        let (count, token) = parse_counter(data);
        let (first, reigning) = self.queue.first_key_value().expect("a contender in the queue");
        assert_eq!(reigning, &**node, "{at:?}: written by a client that is not first");
        assert_eq!(first.unsigned_abs(), token, "{at:?}: written under another's token");
        assert!(token >= self.token, "{at:?}: token {token} follows {}", self.token);
        assert_eq!(count, self.counted + 1, "{at:?}: a count was lost");
        (self.counted, self.token) = (count, token);
    }

    /// Whether a contender was right all the time: what it believed to hold was first in the queue, from before it
    /// believed so until after; or until `end`, where its znode never went because the server did.
    pub fn judge(&self, claim: &Claim, end: Option<Duration>) {
        let Some(reign) = self.reigns.get(&claim.node) else {
            panic!("the server knows nothing of this: {claim:?}");
        };
        assert_eq!(reign.token, claim.token, "{claim:?}");
        assert!(reign.from <= claim.from, "believed too early: {claim:?}, but {reign:?}");
        let end = reign.until.or(end);
        assert!(end.is_none_or(|end| claim.until <= end), "believed too long: {claim:?}, but {reign:?}");
    }
}

/// When a transaction was decided, as hosts see the time.
pub fn time_of(txn: &Txn) -> Duration {
    Duration::from_millis(u64::try_from(txn.time.0).unwrap()) - EPOCH
}
