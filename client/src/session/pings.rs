//! Pings without a reply, and what each reply proves.

use std::collections::VecDeque;

use tokio::time::Instant;

/// Most pings whose times are kept. If a server leaves more unanswered, its replies prove nothing until it has answered
/// all of them.
const MAX_TRACKED: usize = 16;

/// The unanswered pings of a connection. All have the same xid, so replies are matched by order.
#[derive(Debug, Default)]
pub(super) struct Pings {
    /// When they were sent, oldest first.
    sent: VecDeque<Instant>,
    /// The number of later pings, whose times are not kept.
    untracked: usize,
}

impl Pings {
    pub(super) fn sent(&mut self, now: Instant) {
        if self.untracked > 0 || self.sent.len() == MAX_TRACKED {
            self.untracked += 1;
        } else {
            self.sent.push_back(now);
        }
    }

    /// A ping is answered. Returns when it was sent, if that is known.
    pub(super) fn answered(&mut self) -> Option<Instant> {
        let sent = self.sent.pop_front();
        if sent.is_none() {
            self.untracked = self.untracked.saturating_sub(1);
        }
        sent
    }
}
