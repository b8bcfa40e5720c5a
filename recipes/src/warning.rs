//! Conditions that the owner of a lock should know before they cause failures.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use zoolet_client::Client;
use zoolet_client::internal::ClientExt as _;

/// Above this a directory's counter is near its end at 2^31: half of it is used.
pub(crate) const LOW: i64 = 1 << 30;

/// The settings of Apache's sample configuration, `tickTime=2000` and `syncLimit=5`, for ensembles that were not described.
const USUAL_TICK: Duration = Duration::from_secs(2);
const USUAL_SYNC_LIMIT: u32 = 5;

/// A condition that the owner of a lock should know before it causes failures; from
/// [`on_warning`](crate::LockBuilder::on_warning). Each is reported once per lock, and logged as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockWarning {
    /// More than half of the numbers that the directory can give its children are used. After the last one, at 2^31, other
    /// clients let in several holders at once (ZOOKEEPER-3249). This lock begins again with 0 when it is released while
    /// nobody waits. If somebody always waits, move to another directory in time.
    CounterLow {
        /// The directory of the lock.
        dir: String,
        /// How many numbers are left; 0 after the last one.
        left: u32,
    },
    /// The session timeout is so short that an ensemble may expire the session, and let the next contender in, before the
    /// server of this client notices: it answers pings by itself for up to `syncLimit` × `tickTime`. Ask for a longer
    /// session timeout, or rely on [`fenced`](crate::Guard::fenced) writes alone.
    TimeoutUnsafe {
        /// The session timeout that was granted.
        timeout: Duration,
        /// The shortest that is safe: `syncLimit` × `tickTime` and half a tick.
        least: Duration,
    },
}

impl fmt::Display for LockWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CounterLow { dir, left } => {
                write!(f, "lock {dir}: the counter of the directory has {left} numbers left")
            }
            Self::TimeoutUnsafe { timeout, least } => write!(
                f,
                "a session timeout of {timeout:?} is not safe for locks on this ensemble; the minimum is {least:?}"
            ),
        }
    }
}

pub(crate) type WarningCallback = Arc<dyn Fn(&LockWarning) + Send + Sync>;

/// Who receives warnings, and which were given. One for all handles of a lock.
#[derive(Default)]
pub(crate) struct Warnings {
    pub(crate) callback: Option<WarningCallback>,
    /// The shortest safe session timeout, if the servers were described.
    pub(crate) least_timeout: Option<Duration>,
    given: AtomicU8,
}

/// For the builder: a copy belongs to another lock and has given no warning.
impl Clone for Warnings {
    fn clone(&self) -> Self {
        let (callback, least_timeout) = (self.callback.clone(), self.least_timeout);
        Self { callback, least_timeout, given: AtomicU8::new(0) }
    }
}

impl Warnings {
    /// Checks whether the session timeout is safe.
    pub(crate) fn check_session(&self, client: &Client) {
        let assumed = || (client.hosts() > 1).then(|| least_timeout(USUAL_TICK, USUAL_SYNC_LIMIT));
        let Some(least) = self.least_timeout.or_else(assumed) else { return };
        let timeout = client.session_timeout();
        if timeout < least {
            self.give(1, || LockWarning::TimeoutUnsafe { timeout, least });
        }
    }

    /// Checks the number that a directory has given to a child.
    pub(crate) fn check_number(&self, dir: &str, number: i64) {
        if is_low(number) {
            let left = if number < 0 { 0 } else { i64::from(i32::MAX).saturating_sub(number) };
            self.give(2, || LockWarning::CounterLow {
                dir: dir.to_owned(),
                left: u32::try_from(left).unwrap_or(0),
            });
        }
    }

    fn give(&self, bit: u8, warning: impl FnOnce() -> LockWarning) {
        // A plain load first: this runs at every acquisition.
        if self.given.load(Relaxed) & bit != 0 || self.given.fetch_or(bit, Relaxed) & bit != 0 {
            return;
        }
        let warning = warning();
        tracing::warn!("{warning}");
        if let Some(callback) = &self.callback {
            // A panic must not abort the acquisition that this is a part of.
            if catch_unwind(AssertUnwindSafe(|| callback(&warning))).is_err() {
                tracing::error!(%warning, "warning callback panicked");
            }
        }
    }
}

/// Whether a directory that has given out this number is near the end of its counter, or past it.
pub(crate) fn is_low(number: i64) -> bool {
    !(0..=LOW).contains(&number)
}

/// The shortest session timeout with which no other member of an ensemble can let the next contender in while the member
/// that the holder is connected to still considers the session alive.
pub(crate) fn least_timeout(tick: Duration, sync_limit: u32) -> Duration {
    tick * sync_limit + tick / 2
}
