//! The time of a server.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::{Duration, Instant};
use zoolet_core::Millis;

/// Longer than any server runs.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Milliseconds since the Unix epoch: read from the wall clock once, then counted by tokio's clock. So it never goes
/// back, no step of the wall clock expires a session, and under tokio's paused time it is the test's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    epoch: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), epoch: millis(since_epoch) }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.epoch + millis(self.start.elapsed()))
    }

    /// When [`Clock::now`] will be `at`; a time beyond all clocks is one in the far future.
    pub(crate) fn instant(&self, at: Millis) -> Instant {
        let ahead = u64::try_from(at.0 - self.epoch).unwrap_or(0);
        self.start.checked_add(Duration::from_millis(ahead)).unwrap_or_else(|| Instant::now() + FAR)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
