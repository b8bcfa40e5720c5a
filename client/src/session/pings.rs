//! Pings without a reply, and what each reply proves.

use std::collections::VecDeque;

use tokio::time::Instant;

/// How many are told apart. A server that leaves more than these unanswered proves nothing until it has answered all.
const TOLD_APART: usize = 16;

/// The pings of a connection that are not answered. They all have one xid, so it is their order that says which one a
/// reply belongs to.
#[derive(Debug, Default)]
pub(super) struct Pings {
    /// When they were sent, the oldest first.
    sent: VecDeque<Instant>,
    /// Those behind them, of which nothing is known but that there are so many.
    untold: usize,
}

impl Pings {
    pub(super) fn sent(&mut self, now: Instant) {
        if self.untold > 0 || self.sent.len() == TOLD_APART {
            self.untold += 1;
        } else {
            self.sent.push_back(now);
        }
    }

    /// When the ping that is answered now was sent, if that is known.
    pub(super) fn answered(&mut self) -> Option<Instant> {
        let sent = self.sent.pop_front();
        if sent.is_none() {
            self.untold = self.untold.saturating_sub(1);
        }
        sent
    }
}
