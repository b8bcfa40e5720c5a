//! [`Clock`]: what time it is, and who is to be woken when.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::manual::{FAR, Hold, Manual};
use crate::sleep::Sleep;

/// Where a manual clock starts: 2026-01-01, so that what a test prints is the same on every day.
const MANUAL_START: Duration = Duration::from_secs(1_767_225_600);

/// A clock. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
    start: Instant,
    unix_start: Duration,
}

#[derive(Debug, Clone)]
enum Source {
    System,
    Tokio,
    Manual(Arc<Manual>),
}

/// A clock that is not a test's own was to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {clock} clock cannot be moved; start with `Clock::manual()` to move time by hand")]
pub struct NotManual {
    /// Which clock it is.
    pub clock: &'static str,
}

/// The time that something was given is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its time is over")]
pub struct Elapsed;

impl Clock {
    /// The machine's monotonic clock. Right also under a paused tokio clock, at the price of a busy core while
    /// something waits for it.
    pub fn system() -> Self {
        Self::begin(Source::System, Instant::from_std(std::time::Instant::now()))
    }

    /// tokio's clock: the machine's unless the runtime's time is paused.
    pub fn tokio() -> Self {
        Self::begin(Source::Tokio, Instant::now())
    }

    /// A clock that stands still until [`Clock::advance`] moves it. It starts at the midnight that began the year 2026
    /// in UTC.
    pub fn manual() -> Self {
        let start = Instant::now();
        Self::begin(Source::Manual(Arc::new(Manual::new(start))), start).starting_at(MANUAL_START)
    }

    /// This clock, with [`Clock::unix_millis`] counted from `unix`, the time since the Unix epoch, instead of from
    /// what the machine believes: a simulation that is to repeat needs that.
    ///
    /// A clone of the clock as it was keeps its own count.
    #[must_use]
    pub fn starting_at(mut self, unix: Duration) -> Self {
        self.unix_start = unix;
        self
    }

    fn begin(source: Source, start: Instant) -> Self {
        let unix_start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { source, start, unix_start }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        match &self.source {
            Source::System => Instant::from_std(std::time::Instant::now()),
            Source::Tokio => Instant::now(),
            Source::Manual(manual) => manual.now(),
        }
    }

    /// The time in milliseconds since the Unix epoch. The wall clock was read when this clock was made and is not
    /// looked at again: a step of it expires nobody, and this never goes back.
    pub fn unix_millis(&self) -> i64 {
        millis(self.unix_start).saturating_add(millis(self.now().saturating_duration_since(self.start)))
    }

    /// When [`Clock::unix_millis`] will be `at`; a time beyond all clocks is one in the far future.
    pub fn instant_of(&self, at: i64) -> Instant {
        let ahead = u64::try_from(at.saturating_sub(millis(self.unix_start))).unwrap_or(0);
        self.start.checked_add(Duration::from_millis(ahead)).unwrap_or_else(|| self.start + FAR)
    }

    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        match &self.source {
            Source::System => Sleep::system(deadline),
            Source::Tokio => Sleep::tokio(deadline),
            Source::Manual(manual) => Sleep::manual(Arc::clone(manual), deadline),
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

    /// Whether a test moves it.
    pub fn is_manual(&self) -> bool {
        matches!(self.source, Source::Manual(_))
    }

    /// Moves a manual clock at one go, and wakes everybody who is due by then, the earliest first. Nobody runs before the
    /// caller waits for something: whoever was to act in between finds that it is later than that. Thirty thousand years
    /// behind its start the clock goes no further.
    ///
    /// # Errors
    /// `NotManual` for every other clock.
    pub fn advance(&self, duration: Duration) -> Result<(), NotManual> {
        self.as_manual()?.advance(duration);
        Ok(())
    }

    /// Moves a manual clock to the time that somebody waits for first, if that is not later than `limit` from now.
    /// Gives how far it went; `None`, and the clock stands, if nobody waits for such a time. Who waits for more than fifteen
    /// years waits for none.
    ///
    /// # Errors
    /// `NotManual` for every other clock.
    pub fn advance_to_next_timeout(&self, limit: Duration) -> Result<Option<Duration>, NotManual> {
        Ok(self.as_manual()?.advance_to_next(limit))
    }

    /// Tells whoever moves a manual clock that something is under way that takes no time, for as long as the hold lives.
    /// Nothing for every other clock.
    pub fn hold(&self) -> Hold {
        Hold::of(self.as_manual().ok())
    }

    /// What is to be waited for before a manual clock moves on: those that it woke and that have not acted on it, each
    /// until it waits for another time or for none any more, and the [holds](Clock::hold). 0 for every other clock.
    pub fn unattended(&self) -> usize {
        self.as_manual().map_or(0, |manual| manual.unattended())
    }

    fn as_manual(&self) -> Result<&Arc<Manual>, NotManual> {
        match &self.source {
            Source::System => Err(NotManual { clock: "system" }),
            Source::Tokio => Err(NotManual { clock: "tokio" }),
            Source::Manual(manual) => Ok(manual),
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
