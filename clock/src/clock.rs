//! [`Clock`]: the time, and waits for a time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::manual::{ActivityGuard, FAR, Manual};
use crate::sleep::Sleep;

/// The start of a manual clock: 2026-01-01, so that the output of a test does not depend on the day.
const MANUAL_START: Duration = Duration::from_secs(1_767_225_600);

/// A clock. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock {
    source: ClockSource,
    start: Instant,
    unix_start: Duration,
}

#[derive(Debug, Clone)]
enum ClockSource {
    System,
    Tokio,
    Manual(Arc<Manual>),
}

/// An attempt to move a clock that is not manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {clock} clock cannot be moved; start with `Clock::manual()` to move time by hand")]
pub struct NotManual {
    /// The kind of the clock.
    pub clock: &'static str,
}

/// A deadline has elapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deadline has elapsed")]
pub struct Elapsed;

impl Clock {
    /// The machine's monotonic clock. It is right under a paused tokio clock too, but keeps a core busy there while something
    /// waits for it.
    pub fn system() -> Self {
        Self::begin(ClockSource::System, Instant::from_std(std::time::Instant::now()))
    }

    /// tokio's clock: the machine's unless the runtime's time is paused.
    pub fn tokio() -> Self {
        Self::begin(ClockSource::Tokio, Instant::now())
    }

    /// A clock that stands still until [`Clock::advance`] moves it. It starts at 2026-01-01 00:00:00 UTC.
    pub fn manual() -> Self {
        let start = Instant::now();
        Self::begin(ClockSource::Manual(Arc::new(Manual::new(start))), start).starting_at(MANUAL_START)
    }

    /// This clock, with [`Clock::unix_millis`] starting at `unix`, the time since the Unix epoch, instead of at the machine's
    /// wall-clock time. A repeatable simulation needs this.
    ///
    /// Earlier clones keep their own count.
    #[must_use]
    pub fn starting_at(mut self, unix: Duration) -> Self {
        self.unix_start = unix;
        self
    }

    fn begin(source: ClockSource, start: Instant) -> Self {
        let unix_start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { source, start, unix_start }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        match &self.source {
            ClockSource::System => Instant::from_std(std::time::Instant::now()),
            ClockSource::Tokio => Instant::now(),
            ClockSource::Manual(manual) => manual.now(),
        }
    }

    /// The time in milliseconds since the Unix epoch. The wall clock is read only when this clock is created: a step of it
    /// expires no session, and this time never decreases.
    pub fn unix_millis(&self) -> i64 {
        millis(self.unix_start).saturating_add(millis(self.now().saturating_duration_since(self.start)))
    }

    /// The instant at which [`Clock::unix_millis`] is `at`; an instant in the far future if there is none.
    pub fn instant_of(&self, at: i64) -> Instant {
        let ahead = u64::try_from(at.saturating_sub(millis(self.unix_start))).unwrap_or(0);
        self.start.checked_add(Duration::from_millis(ahead)).unwrap_or_else(|| self.start + FAR)
    }

    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        match &self.source {
            ClockSource::System => Sleep::system(deadline),
            ClockSource::Tokio => Sleep::tokio(deadline),
            ClockSource::Manual(manual) => Sleep::manual(Arc::clone(manual), deadline),
        }
    }

    /// Waits for `duration`, counted from now.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let now = self.now();
        self.sleep_until(now.checked_add(duration).unwrap_or_else(|| now + FAR))
    }

    /// The output of `future`, or [`Elapsed`] if it is not ready by `deadline`.
    pub async fn timeout_at<F: Future>(&self, deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
        let (mut future, mut sleep) = (pin!(future), self.sleep_until(deadline));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| Err(Elapsed)),
        })
        .await
    }

    /// The output of `future`, or [`Elapsed`] if it is not ready in `duration`, counted from now.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        let now = self.now();
        self.timeout_at(now.checked_add(duration).unwrap_or_else(|| now + FAR), future).await
    }

    /// Whether this is a manual clock.
    pub fn is_manual(&self) -> bool {
        matches!(self.source, ClockSource::Manual(_))
    }

    /// Moves a manual clock in one step, and wakes the tasks whose deadlines have passed, the earliest first. None of them runs
    /// before the caller yields, so a task with a deadline in between sees the later time. The clock saturates about 30,000
    /// years after its start.
    ///
    /// # Errors
    /// `NotManual` for every other clock.
    pub fn advance(&self, duration: Duration) -> Result<(), NotManual> {
        self.as_manual()?.advance(duration);
        Ok(())
    }

    /// Moves a manual clock to the earliest deadline that a task waits for, if that is at most `limit` from now. Returns the
    /// distance; `None`, and the clock does not move, if there is no such deadline. Waits of more than fifteen years do not
    /// count.
    ///
    /// # Errors
    /// `NotManual` for every other clock.
    pub fn advance_to_next_timeout(&self, limit: Duration) -> Result<Option<Duration>, NotManual> {
        Ok(self.as_manual()?.advance_to_next(limit))
    }

    /// Reports to the owner of a manual clock, until the guard is dropped, that work is in progress which does not wait for
    /// time. No effect on every other clock.
    pub fn begin_activity(&self) -> ActivityGuard {
        ActivityGuard::of(self.as_manual().ok())
    }

    /// What must finish before a manual clock moves on: the waits that it woke, until their task waits for another time or
    /// drops them, and the [activity guards](Clock::begin_activity). 0 for every other clock.
    pub fn pending_wakeups(&self) -> usize {
        self.as_manual().map_or(0, |manual| manual.pending_wakeups())
    }

    fn as_manual(&self) -> Result<&Arc<Manual>, NotManual> {
        match &self.source {
            ClockSource::System => Err(NotManual { clock: "system" }),
            ClockSource::Tokio => Err(NotManual { clock: "tokio" }),
            ClockSource::Manual(manual) => Ok(manual),
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
