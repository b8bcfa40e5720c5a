//! Watch events in a row: each is encoded once, however many connections get it.

use std::mem;
use std::sync::Arc;

use bytes::BytesMut;
use zoolet_server_core::{ConnId, SharedEvent};

/// How many lists of connections are kept apart at once. A change has one for each path at which it is watched.
const LISTS: usize = 8;

/// Events that are not delivered yet.
#[derive(Default)]
pub(crate) struct EventRuns(Vec<EventRun>);

/// Events for the same connections.
pub(crate) struct EventRun {
    pub(crate) to: Arc<[ConnId]>,
    pub(crate) count: u64,
    pub(crate) bytes: BytesMut,
}

impl EventRuns {
    /// Adds an event to those for the same connections. False if all that were added must be delivered first: one of
    /// these connections gets some of them as well, and in their order.
    pub(crate) fn add(&mut self, to: &Arc<[ConnId]>, event: &SharedEvent) -> bool {
        let runs = &mut self.0;
        let at = match runs.iter().position(|run| Arc::ptr_eq(&run.to, to)) {
            Some(at) => at,
            None if runs.len() < LISTS && runs.iter().all(|run| are_disjoint(&run.to, to)) => {
                runs.push(EventRun { to: Arc::clone(to), count: 0, bytes: BytesMut::new() });
                runs.len() - 1
            }
            None => return false,
        };
        event.encode_frame(&mut runs[at].bytes);
        runs[at].count += 1;
        true
    }

    pub(crate) fn take(&mut self) -> Vec<EventRun> {
        mem::take(&mut self.0)
    }
}

/// Whether two sorted lists have no connection in common.
fn are_disjoint(one: &[ConnId], other: &[ConnId]) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    short.iter().all(|conn| long.binary_search(conn).is_err())
}

#[cfg(test)]
mod tests {
    use zoolet_proto::{EventType, Zxid};

    use super::*;

    #[test]
    fn events_for_the_same_connections_are_one_run_unless_their_order_would_change() {
        let list = |ids: &[u64]| -> Arc<[ConnId]> { ids.iter().copied().map(ConnId).collect() };
        let (all, one, first) = (list(&[1, 2, 3]), list(&[4]), list(&[1]));
        let event = |to: &Arc<[ConnId]>| {
            let (to, kind, path) = (to.into(), EventType::NodeDataChanged, "/a".into());
            SharedEvent { to, zxid: Zxid(1), kind, path }
        };
        let add = |runs: &mut EventRuns, to: &Arc<[ConnId]>| runs.add(to, &event(to));
        let mut runs = EventRuns::default();
        for to in [&all, &one, &all, &one, &all] {
            assert!(add(&mut runs, to));
        }
        assert!(!add(&mut runs, &first), "it comes after three others of the same connection");
        let counts: Vec<_> = runs.take().into_iter().map(|run| (run.to.len(), run.count)).collect();
        assert_eq!(counts, [(3, 3), (1, 2)]);
        assert!(add(&mut runs, &first) && add(&mut runs, &one) && !add(&mut runs, &all));
    }
}
