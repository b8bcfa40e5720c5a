//! [`Lead`]: a commit by the one who took the turn.
//!
//! A transaction on its way to the log's thread and its reply on the way back wake a thread each, which together take about half as
//! long as a sync. A connection that is the only one, on a runtime that is for the server alone, spares both: its task does
//! the log's work itself. No other client is held up, as there is none, and the order is that of the queue, as only one has the log.

use crate::durable::log::Log;
use crate::durable::queue::CommitQueue;

/// The log, in other hands than those of its thread, which gets it back when this is dropped.
pub(crate) struct Lead<'q> {
    queue: &'q CommitQueue,
    log: Option<Box<Log>>,
}

impl<'q> Lead<'q> {
    /// Takes the log. `None` if it has work already, or somebody else has it.
    pub(crate) fn take(queue: &'q CommitQueue) -> Option<Self> {
        let log = queue.take_idle()?;
        Some(Self { queue, log: Some(log) })
    }

    /// Commits what was queued since, and gives the log back.
    pub(crate) fn commit(mut self) {
        // If the log panics, it is dropped and not put back, and the server stops.
        if let Some(mut log) = self.log.take() {
            log.handle();
            self.log = Some(log);
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if let Some(log) = self.log.take() {
            self.queue.put_back(log);
        }
    }
}
