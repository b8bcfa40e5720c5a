//! How much memory all outboxes of a server may take together.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::{Bytes, BytesMut};

use super::limits::{ALL_MARKS, ALL_OUTBOXES, CHARGE_STEP, LEAST_MARK, MOST_MARK};

/// The bytes that are queued on all connections, and how many each may queue.
#[derive(Debug)]
pub(crate) struct SendBudget {
    used: AtomicUsize,
    connections: AtomicUsize,
    mark: AtomicUsize,
}

impl Default for SendBudget {
    fn default() -> Self {
        Self { used: 0.into(), connections: 0.into(), mark: MOST_MARK.into() }
    }
}

impl SendBudget {
    /// Above this many unsent bytes a connection is not read any more: fewer if there are many connections.
    pub(crate) fn mark(&self) -> usize {
        self.mark.load(Relaxed)
    }

    /// Bytes that are queued, as far as they are counted.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Whether connections that do not read are to be closed.
    pub(crate) fn is_spent(&self) -> bool {
        self.used.load(Relaxed) > ALL_OUTBOXES
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.set_mark(self.connections.fetch_add(1, Relaxed) + 1);
    }

    pub(crate) fn leave(&self) {
        self.set_mark(self.connections.fetch_sub(1, Relaxed) - 1);
    }

    fn set_mark(&self, connections: usize) {
        self.mark.store((ALL_MARKS / connections.max(1)).clamp(LEAST_MARK, MOST_MARK), Relaxed);
    }

    /// Bytes that several outboxes are to share, and that count once.
    pub(crate) fn shared(self: &Arc<Self>, bytes: BytesMut) -> Bytes {
        if bytes.len() < CHARGE_STEP {
            return bytes.freeze();
        }
        let charge = Charge { charged: bytes.len(), budget: Arc::clone(self) };
        self.used.fetch_add(bytes.len(), Relaxed);
        Bytes::from_owner(Charged { bytes, _charge: charge })
    }
}

struct Charged {
    bytes: BytesMut,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a budget is charged for one queue, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    charged: usize,
    budget: Arc<SendBudget>,
}

impl Charge {
    pub(crate) fn new(budget: &Arc<SendBudget>) -> Self {
        Self { charged: 0, budget: Arc::clone(budget) }
    }

    /// Charges for `bytes` bytes, within a step.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.charged + CHARGE_STEP {
            self.budget.used.fetch_add(bytes - self.charged, Relaxed);
            self.charged = bytes;
        } else if bytes + CHARGE_STEP < self.charged || (bytes == 0 && self.charged > 0) {
            self.budget.used.fetch_sub(self.charged - bytes, Relaxed);
            self.charged = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.charged, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_of_many_connections_take_no_more_memory_than_those_of_some() {
        let budget = SendBudget::default();
        let mut most = 0;
        for connections in 1..=4_096 {
            budget.enter();
            assert!((LEAST_MARK..=MOST_MARK).contains(&budget.mark()));
            most = most.max(connections * budget.mark());
        }
        assert!(most <= ALL_MARKS, "{most} bytes");
        (0..4_096).for_each(|_| budget.leave());
        assert_eq!(budget.mark(), MOST_MARK);
    }

    #[test]
    fn what_is_charged_is_given_back() {
        let budget = Arc::<SendBudget>::default();
        let mut charge = Charge::new(&budget);
        for (bytes, charged) in [
            (CHARGE_STEP, 0),
            (CHARGE_STEP + 1, CHARGE_STEP + 1),
            (2, CHARGE_STEP + 1),
            (0, 0),
            (ALL_OUTBOXES + 1, ALL_OUTBOXES + 1),
        ] {
            charge.set(bytes);
            assert_eq!(budget.used.load(Relaxed), charged, "{bytes} bytes");
        }
        assert!(budget.is_spent());
        drop(charge);
        let shared = budget.shared(BytesMut::zeroed(CHARGE_STEP));
        let clone = shared.clone();
        drop(shared);
        assert_eq!(budget.used.load(Relaxed), CHARGE_STEP);
        drop(clone);
        assert_eq!(budget.used.load(Relaxed), 0);
    }
}
