//! What the owner of a lock should know before it becomes trouble.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use zoolet_client::Client;
use zoolet_client::internal::ClientExt as _;

/// From here on a directory's counter is near its end at 2^31: half of it is used.
pub(crate) const LOW: i64 = 1 << 30;

/// What Apache's sample configuration says, for ensembles that were not described: `tickTime=2000`, `syncLimit=5`.
const USUAL_TICK: Duration = Duration::from_secs(2);
const USUAL_SYNC_LIMIT: u32 = 5;

/// What the owner of a lock should know before it becomes trouble; from
/// [`on_warning`](crate::LockBuilder::on_warning). Each is told once per lock and logged as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// More than half of the numbers that the directory can give its children are used. At the end, at 2^31, clients other
    /// than this one let in several at once (ZOOKEEPER-3249). This lock begins again with 0 when it is released with
    /// nobody waiting; if there always is somebody, move to another directory in time.
    CounterLow {
        /// The directory of the lock.
        dir: String,
        /// How many numbers are left; 0 behind the end.
        left: u32,
    },
    /// The session timeout is so short that an ensemble may expire the session, and let the next one in, while the server
    /// this client is connected to does not know: it answers pings by itself for as long as `syncLimit` × `tickTime`.
    /// Ask for a longer session timeout, or count on [`fenced`](crate::Guard::fenced) writes alone.
    TimeoutUnsafe {
        /// The session timeout that was granted.
        timeout: Duration,
        /// The shortest that is safe: `syncLimit` × `tickTime` and half a tick.
        least: Duration,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CounterLow { dir, left } => {
                write!(f, "lock {dir}: the counter of the directory has {left} numbers left")
            }
            Self::TimeoutUnsafe { timeout, least } => write!(
                f,
                "a session timeout of {timeout:?} is not safe for locks on this ensemble; it takes {least:?}"
            ),
        }
    }
}

pub(crate) type Notice = Arc<dyn Fn(&Warning) + Send + Sync>;

/// Who is warned, and of what that was done. One for all handles of a lock.
#[derive(Default)]
pub(crate) struct Warnings {
    pub(crate) notice: Option<Notice>,
    /// The least session timeout that is safe, where the servers were described.
    pub(crate) least_timeout: Option<Duration>,
    given: AtomicU8,
}

impl Warnings {
    pub(crate) fn new(notice: Option<Notice>, least_timeout: Option<Duration>) -> Self {
        Self { notice, least_timeout, given: AtomicU8::new(0) }
    }

    /// Looks at the session, as far as it matters to locks.
    pub(crate) fn look_at_session(&self, client: &Client) {
        let described = self.least_timeout;
        let assumed = || (client.hosts() > 1).then(|| least_timeout(USUAL_TICK, USUAL_SYNC_LIMIT));
        let Some(least) = described.or_else(assumed) else { return };
        let timeout = client.session_timeout();
        if timeout < least {
            self.give(1, || Warning::TimeoutUnsafe { timeout, least });
        }
    }

    /// Looks at the number that a directory has given out.
    pub(crate) fn look_at_number(&self, dir: &str, number: i64) {
        if is_low(number) {
            let left = if number < 0 { 0 } else { i64::from(i32::MAX).saturating_sub(number) };
            self.give(2, || Warning::CounterLow {
                dir: dir.to_owned(),
                left: u32::try_from(left).unwrap_or(0),
            });
        }
    }

    fn give(&self, bit: u8, warning: impl FnOnce() -> Warning) {
        // Looked at first, as it is asked at every acquisition.
        if self.given.load(Relaxed) & bit != 0 || self.given.fetch_or(bit, Relaxed) & bit != 0 {
            return;
        }
        let warning = warning();
        tracing::warn!("{warning}");
        if let Some(notice) = &self.notice {
            // It runs in the middle of an acquisition, which must not be left where it is.
            let told = catch_unwind(AssertUnwindSafe(|| notice(&warning)));
            if told.is_err() {
                tracing::error!(%warning, "whoever is told of warnings has panicked");
            }
        }
    }
}

/// Whether a directory that has given out this number is near the end of its counter, or past it.
pub(crate) fn is_low(number: i64) -> bool {
    !(0..=LOW).contains(&number)
}

/// The shortest session timeout with which no other member of an ensemble can let the next one in while the member that
/// the holder is connected to takes the session for alive.
pub(crate) fn least_timeout(tick: Duration, sync_limit: u32) -> Duration {
    tick * sync_limit + tick / 2
}
