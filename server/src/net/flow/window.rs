//! The requests in flight of one connection: submitted to a turn and not answered yet.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Counted without a lock: by the connection that submits, and by the turns that answer.
#[derive(Debug, Default)]
pub(crate) struct Window {
    unanswered: AtomicUsize,
    /// Requests that the last turn did not reach. The connection submits them again.
    unprocessed: AtomicUsize,
    /// Whether the read loop sleeps until it may go on.
    reader_waits: AtomicBool,
}

impl Window {
    pub(crate) fn begin(&self, requests: usize) {
        self.unanswered.fetch_add(requests, SeqCst);
    }

    pub(crate) fn finish(&self, requests: usize) {
        // An update that does not fail.
        let _ = self.unanswered.fetch_update(SeqCst, SeqCst, |now| Some(now.saturating_sub(requests)));
    }

    pub(crate) fn return_unprocessed(&self, requests: usize) {
        self.unprocessed.fetch_add(requests, SeqCst);
        self.finish(requests);
    }

    pub(crate) fn take_unprocessed(&self) -> usize {
        if self.unprocessed.load(Relaxed) == 0 { 0 } else { self.unprocessed.swap(0, SeqCst) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unanswered.load(SeqCst) == 0
    }

    pub(crate) fn set_reader_waits(&self, waits: bool) {
        self.reader_waits.store(waits, SeqCst);
    }

    pub(crate) fn reader_waits(&self) -> bool {
        self.reader_waits.load(SeqCst)
    }
}
