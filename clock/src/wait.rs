//! [`ClockWait`]: a wait for a manual clock, as a report shows it.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;

/// A wait for a manual clock, from [`Clock::waits`](crate::Clock::waits).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockWait {
    /// How far the clock has to move.
    pub remaining: Duration,
    /// What waits, and where it began to.
    pub what: String,
    /// Whether this is a timer of Zoolet's own, such as that of a ping, and not one that a caller waits for.
    pub is_internal: bool,
}

impl Clock {
    /// What waits for a manual clock, the earliest first, without waits of more than fifteen years. Empty for every other
    /// clock.
    pub fn waits(&self) -> Vec<ClockWait> {
        self.as_manual().map_or_else(|_| Vec::new(), |manual| manual.lock().waits().collect())
    }

    /// The first of [`Clock::waits`].
    pub fn next_wait(&self) -> Option<ClockWait> {
        self.as_manual().ok()?.lock().waits().next()
    }

    /// Counts what happens to a manual clock: moves, and the begin and end of waits and of activity guards. 0 for every other
    /// clock.
    pub fn changes(&self) -> u64 {
        self.as_manual().map_or(0, |manual| manual.lock().changes)
    }

    /// Lets every wait for a manual clock that has not ended panic with `reason`, those that begin later as well: for a test
    /// that waits for a clock that nobody moves. Waits that are [internal](crate::Sleep::internal) panic only if `internal` is set.
    /// No effect on every other clock.
    pub fn abandon(&self, reason: &str, internal: bool) {
        if let Ok(manual) = self.as_manual() {
            manual.abandon(reason, internal);
        }
    }
}

/// What a wait is called.
#[derive(Debug, Clone)]
pub(crate) enum WaitName {
    /// It was begun here.
    At(&'static Location<'static>),
    /// It was given this name.
    Text(Arc<str>),
    /// A timer of Zoolet's own.
    Internal(&'static str),
}

impl WaitName {
    pub(crate) fn is_internal(&self) -> bool {
        matches!(self, Self::Internal(_))
    }
}

impl fmt::Display for WaitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(place) => write!(f, "a wait at {}:{}", place.file(), place.line()),
            Self::Text(text) => f.write_str(text),
            Self::Internal(name) => f.write_str(name),
        }
    }
}
