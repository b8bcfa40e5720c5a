//! What the machine's monotonic clock does not show: suspensions of the machine, and steps of its wall clock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Smaller differences between clocks are not counted: they are read one after another, and a paused tokio clock must stand
/// still.
const COARSE: Duration = Duration::from_millis(100);

/// Nanoseconds between two looks for a suspension, so that most readings of a clock read one clock of the machine.
const LOOK_EVERY: u64 = 1_000_000;

/// The clocks of the machine, compared with their values at the start.
#[derive(Debug)]
pub(crate) struct MachineTime {
    start: Instant,
    pub(crate) start_boot: Option<Duration>,
    pub(crate) start_wall: Duration,
    /// How long the machine was suspended, in nanoseconds.
    suspended: AtomicU64,
    /// When that was last looked at, in nanoseconds since the start by the source of the clock.
    looked: AtomicU64,
    /// How much more time has passed by the wall clock than by the monotonic clock, in milliseconds.
    stepped: AtomicI64,
}

impl MachineTime {
    pub(crate) fn begin() -> Self {
        let (start, start_wall) = (Instant::now(), wall_time());
        // Read last: if this thread pauses in between, that is never taken for a suspension.
        let start_boot = boot_time();
        let (suspended, looked, stepped) = Default::default();
        Self { start, start_boot, start_wall, suspended, looked, stepped }
    }

    /// How long the machine was suspended since the start. `elapsed` is the time since the start by the source of the caller's
    /// clock.
    pub(crate) fn suspended(&self, elapsed: Duration) -> Duration {
        let known = Duration::from_nanos(self.suspended.load(Relaxed));
        let now = nanos(elapsed);
        if now < self.looked.load(Relaxed).saturating_add(LOOK_EVERY) {
            return known;
        }
        self.looked.store(now, Relaxed);
        if self.counted() <= elapsed + known + COARSE {
            return known;
        }
        // Either the machine was suspended, or tokio's time is paused. The monotonic clock is read last, for the same reason as
        // at the start.
        let counted = self.counted();
        let suspended = counted.saturating_sub(self.start.elapsed());
        if suspended <= known + COARSE {
            return known;
        }
        let nanos = nanos(suspended);
        Duration::from_nanos(self.suspended.fetch_max(nanos, Relaxed).max(nanos))
    }

    /// The time since the start, with suspensions; zero if nothing counts them.
    fn counted(&self) -> Duration {
        boot_time().zip(self.start_boot).map_or(Duration::ZERO, |(boot, start)| boot.saturating_sub(start))
    }

    /// How many milliseconds more have passed since the start by the wall clock than by the monotonic clock; negative if the
    /// wall clock was set back.
    pub(crate) fn stepped(&self) -> i64 {
        let (before, wall, elapsed) = (self.start.elapsed(), wall_time(), self.start.elapsed());
        let stepped = millis(wall) - millis(self.start_wall) - millis(elapsed);
        let known = self.stepped.load(Relaxed);
        let is_known = stepped.abs_diff(known) <= COARSE.as_millis() as u64;
        // If this thread paused between the reads, they cannot be compared.
        if is_known || elapsed - before > COARSE / 2 {
            return known;
        }
        self.stepped.store(stepped, Relaxed);
        stepped
    }
}

/// The time since the boot, with suspensions. `None` if `Instant` counts them by itself, or nothing does.
fn boot_time() -> Option<Duration> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COUNTS: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    // `Instant` is CLOCK_UPTIME_RAW there.
    #[cfg(target_vendor = "apple")]
    const COUNTS: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    return rustix::time::clock_gettime(COUNTS).try_into().ok();
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    return None;
}

fn wall_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    #[test]
    fn a_suspension_counts_once_and_for_ever() {
        let mut time = MachineTime::begin();
        assert_eq!(time.suspended(SECOND), Duration::ZERO);
        time.start_boot = time.start_boot.map(|boot| boot.checked_sub(30 * SECOND).unwrap());
        assert_eq!(time.suspended(SECOND), Duration::ZERO, "less than a millisecond later");
        let slept = time.suspended(SECOND * 2);
        assert!(slept >= 29 * SECOND && slept < 60 * SECOND, "{slept:?}");
        assert_eq!(time.suspended(10 * SECOND), slept, "awake since");
        assert_eq!(time.suspended(Duration::ZERO), slept, "read before, used after");
    }

    #[test]
    fn a_clock_of_tokio_that_is_paused_or_moved_is_not_taken_for_a_suspension() {
        let mut time = MachineTime::begin();
        // A minute of real time has passed since the start.
        time.start -= 60 * SECOND;
        time.start_boot = time.start_boot.map(|boot| boot.saturating_sub(60 * SECOND));
        for elapsed in [SECOND, 3600 * SECOND] {
            assert_eq!(time.suspended(elapsed), Duration::ZERO, "{elapsed:?}");
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_counts_in_both_directions() {
        for step in [-7200 * SECOND.as_millis() as i64, 3_600_000] {
            let mut time = MachineTime::begin();
            assert_eq!(time.stepped(), 0);
            let start = millis(time.start_wall) - step;
            time.start_wall = Duration::from_millis(u64::try_from(start).unwrap());
            assert!(time.stepped().abs_diff(step) < 1_000);
            assert_eq!(time.stepped(), time.stepped.load(Relaxed));
        }
    }
}
