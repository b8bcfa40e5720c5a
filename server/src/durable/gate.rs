//! [`Gate`]: which connections wait for which transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::{Core, CoreConfig, Millis, Txn};
use zoolet_storage::StorageError;
use zoolet_storage::disk::Disk;

use crate::durable::queue::CommitQueue;
use crate::durable::start::{DurableConfig, restore};
use crate::net::registry::Peer;

/// The way of transactions to the log, and of messages from it.
pub(crate) struct Gate {
    queue: Arc<CommitQueue>,
    config: DurableConfig,
    /// The last transaction whose messages may leave.
    durable: Zxid,
    /// The last transaction of the turns before this one: those of this turn are committed together.
    before: Zxid,
    /// The last transaction that was submitted.
    last: Zxid,
    /// Connections that wait, by the transaction that they wait for.
    waiting: BTreeMap<Zxid, Vec<Arc<Peer>>>,
}

/// What a message has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The last transaction whose messages may leave.
    durable: Zxid,
    before: Zxid,
    last: Zxid,
}

impl Hold {
    /// Of a server without a log: nothing waits.
    pub(crate) const NOTHING: Self =
        Self { durable: Zxid(i64::MAX), before: Zxid(i64::MAX), last: Zxid(i64::MAX) };

    /// With everything up to `durable` in the log, turns that have ended at `before`, and one that has come to `last`.
    pub(crate) fn new(durable: Zxid, before: Zxid, last: Zxid) -> Self {
        Self { durable, before, last }
    }

    /// The transaction that a message waits for if it names this one; `None` if it may leave.
    pub(crate) fn until(self, named: Zxid) -> Option<Zxid> {
        // Transactions of one turn become durable together, so that their replies are one piece of an outbox.
        (named > self.durable).then(|| if named > self.before { self.last } else { named })
    }

    /// The last transaction there is.
    pub(crate) fn last(self) -> Zxid {
        self.last
    }
}

impl Gate {
    /// A gate to a log that has everything.
    pub(crate) fn new(queue: Arc<CommitQueue>, config: DurableConfig) -> Self {
        let durable = queue.durable();
        Self { queue, config, durable, before: durable, last: durable, waiting: BTreeMap::new() }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.config.disk
    }

    /// Opens the directory again, after a crash of a simulated disk, and returns the state machine that goes on there. What
    /// waits is lost: its connections must be aborted.
    pub(crate) fn reopen(
        &mut self,
        core: CoreConfig,
        now: Millis,
        disk: Arc<dyn Disk>,
    ) -> Result<Core, StorageError> {
        self.config.disk = disk;
        let (storage, recovered) = self.config.load()?;
        let core = restore(core, recovered, now);
        let last = core.config().initial_zxid;
        (self.durable, self.before, self.last) = (last, last, last);
        self.waiting.clear();
        self.queue.reopen(storage, last);
        Ok(core)
    }

    /// Takes note of what has become durable, and lets its messages leave. Returns the new zxid, if there is one.
    pub(crate) fn advance(&mut self) -> Option<Zxid> {
        let durable = self.queue.durable();
        if durable <= self.durable {
            return None;
        }
        self.durable = durable;
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= durable) {
            first.remove().iter().for_each(|peer| peer.outbox.release(durable));
        }
        self.queue.note_released(durable);
        Some(durable)
    }

    /// Submits the transactions of a turn, or of a part of one.
    pub(crate) fn submit(&mut self, txns: impl ExactSizeIterator<Item = Txn>) {
        if txns.len() == 0 {
            return;
        }
        if let Some(last) = self.queue.submit(txns) {
            self.last = last;
        }
    }

    /// Ends a turn.
    pub(crate) fn end_turn(&mut self) {
        self.before = self.last;
    }

    /// What messages of this turn have to wait for.
    pub(crate) fn hold(&self) -> Hold {
        Hold::new(self.durable, self.before, self.last)
    }

    /// Notes that a connection waits for a transaction.
    pub(crate) fn wait(&mut self, until: Zxid, peer: &Arc<Peer>) {
        self.waiting.entry(until).or_default().push(Arc::clone(peer));
    }
}
