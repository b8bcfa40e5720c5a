//! [`DurabilityGate`]: which connections wait for which transaction.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use tokio::time::Instant;
use zoolet_proto::Zxid;
use zoolet_server_core::{Core, CoreConfig, Millis, Txn};
use zoolet_storage::StorageError;
use zoolet_storage::disk::Disk;

use crate::durable::queue::{CommitQueue, RestoredState};
use crate::durable::start::{DurableConfig, restore};
use crate::net::flow::queue::ReleaseRule;
use crate::net::registry::Peer;
use crate::net::stats::Executed;

/// The way of transactions to the log, and of messages from it.
pub(crate) struct DurabilityGate {
    queue: Arc<CommitQueue>,
    pub(crate) config: DurableConfig,
    /// What messages of this turn have to wait for.
    pub(crate) rule: ReleaseRule,
    /// Connections and requests, by the transaction that they wait for.
    waiting: BTreeMap<Zxid, Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Connections whose first held messages leave then.
    peers: Vec<Arc<Peer>>,
    /// Requests that are answered then.
    executed: Vec<Executed>,
}

impl DurabilityGate {
    /// A gate to a log that has everything.
    pub(crate) fn new(queue: Arc<CommitQueue>, config: DurableConfig) -> Self {
        let rule = ReleaseRule::all_durable(queue.durable());
        Self { queue, config, rule, waiting: BTreeMap::new() }
    }

    /// Opens the directory again after a crash of a simulated disk. Returns the state machine that goes on there, and the number of
    /// requests that were not answered. Held messages are lost: their connections must be aborted.
    pub(crate) fn reopen(
        &mut self,
        core: CoreConfig,
        now: Millis,
        disk: Arc<dyn Disk>,
    ) -> Result<(Core, u64), StorageError> {
        self.config.disk = disk;
        let (storage, recovered) = self.config.load()?;
        let core = restore(core, recovered, now);
        let last = core.config().initial_zxid;
        self.rule = ReleaseRule::all_durable(last);
        let waiting = mem::take(&mut self.waiting).into_values();
        let lost = waiting.flat_map(|waiting| waiting.executed).map(|executed| executed.requests).sum();
        self.queue.reopen(storage, last);
        Ok((core, lost))
    }

    /// Takes note of what has become durable, and lets its messages leave. Returns the new zxid, if there is one, and adds the
    /// requests that are answered thereby.
    pub(crate) fn advance(&mut self, answered: &mut Vec<Executed>) -> Option<Zxid> {
        let durable = self.queue.durable();
        if durable <= self.rule.durable {
            return None;
        }
        self.rule.durable = durable;
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= durable) {
            let Waiting { peers, mut executed } = first.remove();
            for peer in peers {
                if let Some(next) = peer.outbox.release(durable) {
                    self.wait(next, peer);
                }
            }
            answered.append(&mut executed);
        }
        self.queue.note_released(durable);
        Some(durable)
    }

    /// Submits the transactions of a turn, or of a part of one; with the time at which the turn began, if that is measured.
    pub(crate) fn submit(&mut self, txns: impl Iterator<Item = Txn>, at: Option<Instant>) {
        if let Some(last) = self.queue.submit(txns, at) {
            self.rule.last = last;
        }
    }

    /// Submits another state than what the transactions before lead to.
    pub(crate) fn restore(&mut self, restored: RestoredState) {
        self.rule.last = restored.header.zxid;
        self.queue.restore(restored);
    }

    /// Ends a turn.
    pub(crate) fn end_turn(&mut self) {
        self.rule.before = self.rule.last;
    }

    /// Notes that a connection waits for a transaction, and perhaps for later ones.
    pub(crate) fn wait(&mut self, first: Zxid, peer: Arc<Peer>) {
        self.waiting.entry(first).or_default().peers.push(peer);
    }

    /// Has requests counted as answered when the transaction is durable that the last of their replies waits for.
    pub(crate) fn count_when_durable(&mut self, until: Zxid, executed: Executed) {
        self.waiting.entry(until).or_default().executed.push(executed);
    }
}

#[cfg(test)]
mod tests {
    use zoolet_server_core::ConnId;
    use zoolet_simdisk::SimulatedDisk;
    use zoolet_storage::StorageOptions;

    use super::*;

    #[test]
    fn what_a_crash_has_taken_is_no_longer_outstanding() {
        let disk = SimulatedDisk::new(1);
        let config = DurableConfig { disk: Arc::new(disk.clone()), options: StorageOptions::new("/data") };
        let mut gate = DurabilityGate::new(CommitQueue::new(Zxid(0)).0, config);
        for (until, requests) in [(1, 2), (3, 5)] {
            let executed = Executed {
                conn: ConnId(1),
                read: Instant::now(),
                requests,
                writes: requests,
                reads: 0,
                last: None,
                zxid: Zxid(until),
            };
            gate.count_when_durable(Zxid(until), executed);
        }
        let reopen = |gate: &mut DurabilityGate, disk: SimulatedDisk| {
            gate.reopen(CoreConfig::default(), Millis(0), Arc::new(disk)).expect("an empty directory").1
        };
        assert_eq!(reopen(&mut gate, disk.clone()), 7);
        assert_eq!(reopen(&mut gate, disk.kill()), 0);
        assert_eq!(gate.advance(&mut Vec::new()), None);
    }
}
