//! [`Clock`]: the time, and waits for a time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::machine::{MachineTime, millis};
use crate::manual::{ActivityGuard, FAR, Manual};
use crate::sleep::Sleep;

/// The start of a manual clock: 2026-01-01, so that the output of a test does not depend on the day.
const MANUAL_START: Duration = Duration::from_secs(1_767_225_600);

/// A clock. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock {
    pub(crate) source: ClockSource,
    start: Instant,
    unix_start: Duration,
    /// Whether [`Clock::wall_millis`] follows the machine's wall clock.
    follows_wall: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum ClockSource {
    System(Arc<MachineTime>),
    Tokio(Arc<MachineTime>),
    Manual(Arc<Manual>),
}

/// One look at a clock.
struct Times {
    /// By the source, which does not count suspensions. It may be before the start, in a runtime other than that of the start.
    awake: Instant,
    /// Since the start.
    elapsed: Duration,
    /// How long the machine was suspended.
    suspended: Duration,
}

/// An attempt to move a clock that is not manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {clock} clock cannot be moved{}; start with `Clock::manual()` to move time by hand",
    hint(clock)
)]
pub struct NotManual {
    /// The kind of the clock.
    pub clock: &'static str,
}

/// A deadline has elapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deadline has elapsed")]
pub struct Elapsed;

impl Clock {
    /// The machine's clock. It is right under a paused tokio clock too, but keeps a core busy there while something waits for
    /// it.
    pub fn system() -> Self {
        let machine = MachineTime::begin();
        let (start, unix_start) = (Instant::from_std(std::time::Instant::now()), machine.start_wall);
        Self { source: ClockSource::System(Arc::new(machine)), start, unix_start, follows_wall: true }
    }

    /// tokio's clock: the machine's unless the runtime's time is paused.
    pub fn tokio() -> Self {
        let machine = MachineTime::begin();
        let (start, unix_start) = (Instant::now(), machine.start_wall);
        Self { source: ClockSource::Tokio(Arc::new(machine)), start, unix_start, follows_wall: true }
    }

    /// A clock that stands still until [`Clock::advance`] moves it. It starts at 2026-01-01 00:00:00 UTC.
    pub fn manual() -> Self {
        let (start, unix_start) = (Instant::now(), MANUAL_START);
        let source = ClockSource::Manual(Arc::new(Manual::new(start)));
        Self { source, start, unix_start, follows_wall: false }
    }

    /// This clock, with [`Clock::unix_millis`] and [`Clock::wall_millis`] starting at `unix`, the time since the Unix epoch,
    /// instead of at the machine's wall-clock time, which is not read again, and without suspensions of the machine. A repeatable
    /// simulation needs this.
    ///
    /// Earlier clones keep their own count.
    #[must_use]
    pub fn starting_at(mut self, unix: Duration) -> Self {
        self.unix_start = unix;
        self.follows_wall = false;
        self
    }

    /// The time. It never goes back, and includes the time for which the machine was suspended: what has to happen by a
    /// deadline is late after the suspension, as it is to every other machine. A [`Sleep`] stands still meanwhile, so code
    /// that must not rely on something after its deadline compares the deadline with this time.
    ///
    /// Suspensions are counted on Linux and Android by `CLOCK_BOOTTIME`, on Apple's systems by `CLOCK_MONOTONIC`, and on
    /// Windows, where they always count; those of less than 100 ms may not be, nor others in the first
    /// millisecond after them. On other systems they count only if
    /// `std::time::Instant` counts them. No clock of a virtual machine counts the time for which its host has paused it,
    /// unless the host sets the clock right.
    pub fn now(&self) -> Instant {
        let Times { awake, suspended, .. } = self.times();
        awake + suspended
    }

    /// [`Clock::now`] and [`Clock::unix_millis`] by one look at the clock.
    pub fn now_and_unix_millis(&self) -> (Instant, i64) {
        let Times { awake, elapsed, suspended } = self.times();
        (awake + suspended, millis(self.unix_start.saturating_add(elapsed)))
    }

    /// The time in milliseconds since the Unix epoch, for deadlines. The wall clock is read only when this clock is created,
    /// and the time for which the machine is suspended does not count, as on Apache ZooKeeper: a step of the wall clock
    /// expires no session, and after a suspension of the server each has as much time left as before. Never decreases.
    pub fn unix_millis(&self) -> i64 {
        millis(self.unix_time())
    }

    /// [`Clock::unix_millis`] with the resolution of the clock.
    pub fn unix_time(&self) -> Duration {
        self.unix_start.saturating_add(self.elapsed())
    }

    /// The time in milliseconds since the Unix epoch, to show and to store. It follows steps of the machine's wall clock, also
    /// backwards, to 100 ms, unless this is a manual clock or has a [given start](Clock::starting_at). It includes the
    /// time for which the machine was suspended.
    pub fn wall_millis(&self) -> i64 {
        self.unix_millis().saturating_add(self.wall_ahead())
    }

    /// How many milliseconds [`Clock::wall_millis`] is ahead of [`Clock::unix_millis`]; negative if the wall clock was set
    /// back.
    pub fn wall_ahead(&self) -> i64 {
        match &self.source {
            ClockSource::System(machine) | ClockSource::Tokio(machine) if self.follows_wall => {
                machine.stepped()
            }
            _ => millis(self.times().suspended),
        }
    }

    /// The instant at which [`Clock::unix_millis`] is `at`, if the machine is not suspended before; an instant in the far
    /// future if there is none.
    pub fn instant_of(&self, at: i64) -> Instant {
        let ahead = u64::try_from(at.saturating_sub(millis(self.unix_start))).unwrap_or(0);
        later(self.start + self.times().suspended, Duration::from_millis(ahead))
    }

    /// Waits for `duration`, counted from now.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(later(self.now(), duration))
    }

    /// The output of `future`, or [`Elapsed`] if it is not ready by `deadline`.
    #[track_caller]
    pub fn timeout_at<F: Future>(
        &self,
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> {
        let sleep = self.sleep_until(deadline);
        async move {
            let (mut future, mut sleep) = (pin!(future), sleep);
            poll_fn(|cx| match future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| Err(Elapsed)),
            })
            .await
        }
    }

    /// The output of `future`, or [`Elapsed`] if it is not ready in `duration`, counted from now.
    #[track_caller]
    pub fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> {
        self.timeout_at(later(self.now(), duration), future)
    }

    /// Whether this clock shows the machine's time: not if it is manual or has a [given start](Clock::starting_at), as for runs
    /// that repeat.
    pub fn is_real(&self) -> bool {
        self.follows_wall
    }

    /// Whether this is a manual clock.
    pub fn is_manual(&self) -> bool {
        matches!(self.source, ClockSource::Manual(_))
    }

    /// Whether this is tokio's clock and the time of the current runtime is paused, so that it moves by itself while the
    /// runtime is idle.
    pub fn is_paused(&self) -> bool {
        matches!(self.source, ClockSource::Tokio(_)) && tokio_is_paused()
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

    /// Simulates that the machine is suspended for `duration`, on a manual clock: [`Clock::now`] and [`Clock::wall_millis`] are
    /// later by that, while [`Clock::unix_millis`] and all waits stand still. No task is woken.
    ///
    /// # Errors
    /// `NotManual` for every other clock.
    pub fn suspend(&self, duration: Duration) -> Result<(), NotManual> {
        self.as_manual()?.suspend(duration);
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

    /// What must finish before a manual clock moves on: the waits that it woke, until their task polls or drops them, or if they
    /// are [internal](Sleep::internal) waits for another time; and the [activity guards](Clock::begin_activity). 0 for every other
    /// clock.
    pub fn pending_wakeups(&self) -> usize {
        self.as_manual().map_or(0, |manual| manual.lock().pending_wakeups())
    }

    /// The instant at which a wait for `deadline` ends if the machine is not suspended before, by the source of this clock.
    pub(crate) fn awake_at(&self, deadline: Instant) -> Instant {
        deadline.checked_sub(self.times().suspended).unwrap_or(self.start)
    }

    /// How far the clock has moved since it was created, without suspensions.
    pub fn elapsed(&self) -> Duration {
        self.times().elapsed
    }

    fn times(&self) -> Times {
        let since_start = |awake: Instant| awake.saturating_duration_since(self.start);
        let (awake, machine) = match &self.source {
            ClockSource::System(machine) => (Instant::from_std(std::time::Instant::now()), machine),
            ClockSource::Tokio(machine) => (Instant::now(), machine),
            ClockSource::Manual(manual) => {
                let (awake, suspended) = manual.times();
                return Times { awake, elapsed: since_start(awake), suspended };
            }
        };
        let elapsed = since_start(awake);
        let suspended = if self.follows_wall { machine.suspended(elapsed) } else { Duration::ZERO };
        Times { awake, elapsed, suspended }
    }

    pub(crate) fn as_manual(&self) -> Result<&Arc<Manual>, NotManual> {
        match &self.source {
            ClockSource::System(_) => Err(NotManual { clock: "system" }),
            ClockSource::Tokio(_) => Err(NotManual { clock: "tokio" }),
            ClockSource::Manual(manual) => Ok(manual),
        }
    }
}

/// `duration` after `instant`, or far in the future.
fn later(instant: Instant, duration: Duration) -> Instant {
    instant.checked_add(duration).unwrap_or_else(|| instant + FAR)
}

/// Whether the time of the current runtime is paused. tokio does not tell; but a paused time does not move in a task that runs.
pub fn tokio_is_paused() -> bool {
    stands_still(|| Instant::now().into_std(), std::time::Instant::now)
}

/// Most readings of the machine's clock that wait for its next tick: some 25 µs. Most clocks tick between two readings.
const MAX_READINGS: usize = 1000;

/// Whether `time` does not move while `machine` does, which it otherwise follows.
fn stands_still<T: PartialOrd>(time: impl Fn() -> T, machine: impl Fn() -> T) -> bool {
    let (start, then, end) = (machine(), time(), machine());
    // A time that was never paused is the machine's: the usual case, in which a program must not wait for a coarse clock. Then one
    // that has just stopped, in the present tick of such a clock, is taken for one that runs.
    let readings = if start <= then && then <= end { MAX_READINGS } else { usize::MAX };
    let ticked = (0..readings).any(|_| machine() > end);
    ticked && time() == then
}

fn hint(clock: &str) -> &'static str {
    match clock {
        "tokio" => {
            " unless it is paused: write `#[tokio::test(start_paused = true)]` if the program under test sleeps with tokio"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    #[test]
    fn a_suspension_of_the_machine_does_not_count_on_a_clock_with_a_given_start() {
        let mut machine = MachineTime::begin();
        machine.start_boot =
            machine.start_boot.map(|boot| boot.checked_sub(Duration::from_secs(30)).unwrap());
        let start = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let source = ClockSource::Tokio(Arc::new(machine));
        let clock = Clock { source, start, unix_start: Duration::ZERO, follows_wall: true };
        let soon = start + Duration::from_secs(25);
        assert!(clock.now() > soon);
        let given = clock.starting_at(Duration::ZERO);
        assert!(given.now() < soon && given.wall_ahead() == 0);
    }

    /// As one that was made in a runtime whose paused time was ahead.
    #[test]
    fn a_clock_that_begins_in_the_future_moves() {
        let (source, start) = (ClockSource::Tokio(Arc::new(MachineTime::begin())), Instant::now() + FAR);
        let clock = Clock { source, start, unix_start: Duration::ZERO, follows_wall: false };
        let (before, machine) = (clock.now(), Instant::now());
        while Instant::now() == machine {}
        assert!(clock.now() > before && clock.now() < start);
    }

    #[test]
    fn a_time_that_stands_still_is_told_from_one_that_runs_and_the_question_ends() {
        let reads = Cell::new(0u32);
        let machine = |ticks_every: u32| {
            reads.set(reads.get() + 1);
            100 + reads.get() / ticks_every
        };
        for ticks_every in [1, 3, 500] {
            for stopped in [1, 100, 101, 5_000] {
                reads.set(0);
                assert!(stands_still(|| stopped, || machine(ticks_every)), "{ticks_every}, {stopped}");
            }
            for behind in [0, 50] {
                reads.set(0);
                let resumed = || machine(ticks_every) - behind;
                assert!(!stands_still(resumed, || machine(ticks_every)), "{ticks_every}, {behind}");
            }
        }
        reads.set(0);
        assert!(!stands_still(|| machine(u32::MAX), || machine(u32::MAX)), "a clock that does not tick");
        assert!(reads.get() < 2_000, "{} reads", reads.get());
    }
}
