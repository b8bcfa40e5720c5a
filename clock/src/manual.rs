//! The time of a manual clock, and the waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::wait::{ClockWait, WaitName};

/// Longer than any program runs. A wait for more than half of it is a wait for ever.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The range of a clock in multiples of [`FAR`], so that there is always a later time.
const LIFE: u32 = 1_000;

#[derive(Debug)]
pub(crate) struct Manual(Mutex<ManualState>);

#[derive(Debug)]
pub(crate) struct ManualState {
    /// The time without suspensions, in which waits count.
    now: Instant,
    end: Instant,
    suspended: Duration,
    sleepers: BTreeMap<(Instant, SleeperId), Sleeper>,
    activities: usize,
    /// Counts moves, and the begin and end of waits and activities.
    pub(crate) changes: u64,
    abandoned: Option<Abandoned>,
    /// The waits that were woken, until their task has seen it, or for an internal one until it continues or ends.
    woken: BTreeSet<SleeperId>,
    last_id: u64,
}

#[derive(Debug)]
struct Sleeper {
    waker: Waker,
    name: WaitName,
}

/// Why nobody moves the clock any more.
#[derive(Debug)]
struct Abandoned {
    reason: Arc<str>,
    /// Whether Zoolet's own timers fail as well.
    internal: bool,
}

/// Work in progress that does not wait for time, from [`Clock::begin_activity`](crate::Clock::begin_activity).
#[derive(Debug, Default)]
pub struct ActivityGuard(Option<Arc<Manual>>);

impl ActivityGuard {
    pub(crate) fn of(clock: Option<&Arc<Manual>>) -> Self {
        let clock = clock.cloned();
        if let Some(clock) = &clock {
            let mut state = clock.lock();
            state.activities += 1;
            state.changes += 1;
        }
        Self(clock)
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        if let Some(clock) = &self.0 {
            let mut state = clock.lock();
            state.activities -= 1;
            state.changes += 1;
        }
    }
}

/// One wait for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SleeperId(u64);

impl Manual {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(ManualState {
            now,
            end: now + FAR * LIFE,
            suspended: Duration::ZERO,
            activities: 0,
            changes: 0,
            abandoned: None,
            sleepers: BTreeMap::new(),
            woken: BTreeSet::new(),
            last_id: 0,
        }))
    }

    /// The time without suspensions, and how long those were.
    pub(crate) fn times(&self) -> (Instant, Duration) {
        let state = self.lock();
        (state.now, state.suspended)
    }

    pub(crate) fn suspend(&self, duration: Duration) {
        let mut state = self.lock();
        let possible = duration.min(state.end - state.now);
        state.suspended += possible;
        state.changes += 1;
        state.end -= possible;
    }

    pub(crate) fn advance(&self, duration: Duration) {
        let mut state = self.lock();
        let to = state.now.checked_add(duration).unwrap_or(state.end);
        let woken = state.move_to(to);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn advance_to_next(&self, limit: Duration) -> Option<Duration> {
        let mut state = self.lock();
        let (next, _) = *state.sleepers.first_key_value()?.0;
        let distance = next - state.now;
        if distance > limit.min(FAR / 2) || next > state.end {
            return None;
        }
        let woken = state.move_to(next);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Some(distance)
    }

    /// Lets the waits of callers fail, and with `internal` those of Zoolet itself too.
    pub(crate) fn abandon(&self, reason: &str, internal: bool) {
        let mut state = self.lock();
        state.abandoned = Some(Abandoned { reason: reason.into(), internal });
        let failing = state.sleepers.values().filter(|sleeper| internal || !sleeper.name.is_internal());
        let wakers: Vec<_> = failing.map(|sleeper| sleeper.waker.clone()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Polls the wait for `deadline`, and registers `waker` while it is pending. `id` is the wait to continue, if any.
    ///
    /// # Errors
    /// The reason why the clock is abandoned, if it is.
    pub(crate) fn wait(
        &self,
        deadline: Instant,
        id: &mut Option<SleeperId>,
        name: &WaitName,
        waker: &Waker,
    ) -> Poll<Result<(), Arc<str>>> {
        let mut state = self.lock();
        if state.now >= deadline {
            // A caller may keep a finished wait. A task of Zoolet's own has done what it was for when it sets the next one.
            if let Some(id) = id.take_if(|_| !name.is_internal()) {
                state.woken.remove(&id);
                state.changes += 1;
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(abandoned) = &state.abandoned {
            if abandoned.internal || !name.is_internal() {
                return Poll::Ready(Err(Arc::clone(&abandoned.reason)));
            }
        }
        let id = *id.get_or_insert_with(|| {
            state.last_id += 1;
            state.changes += 1;
            SleeperId(state.last_id)
        });
        state
            .sleepers
            .entry((deadline, id))
            .and_modify(|known| known.waker.clone_from(waker))
            .or_insert_with(|| Sleeper { waker: waker.clone(), name: name.clone() });
        Poll::Pending
    }

    /// Ends a wait, whether it was woken or not.
    pub(crate) fn forget(&self, deadline: Instant, id: SleeperId) {
        let mut state = self.lock();
        state.woken.remove(&id);
        state.changes += 1;
        let sleeper = state.sleepers.remove(&(deadline, id));
        // After the lock is released: dropping a waker may drop a task, and with it other waits.
        drop(state);
        drop(sleeper);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ManualState> {
        // Nothing panics under this lock, and every change leaves the state consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ManualState {
    /// What must finish before the clock moves on.
    pub(crate) fn pending_wakeups(&self) -> usize {
        self.woken.len() + self.activities
    }

    /// The waits that have not ended, the earliest first; none that waits for ever.
    pub(crate) fn waits(&self) -> impl Iterator<Item = ClockWait> {
        let waits = self.sleepers.iter().map(|((deadline, _), sleeper)| ClockWait {
            remaining: deadline.saturating_duration_since(self.now),
            what: sleeper.name.to_string(),
            is_internal: sleeper.name.is_internal(),
        });
        waits.take_while(|wait| wait.remaining <= FAR / 2)
    }

    fn move_to(&mut self, now: Instant) -> Vec<Waker> {
        let now = now.min(self.end);
        self.now = now;
        self.changes += 1;
        let mut wakers = Vec::new();
        while let Some(entry) = self.sleepers.first_entry() {
            let (deadline, id) = *entry.key();
            if deadline > now {
                break;
            }
            wakers.push(entry.remove().waker);
            self.woken.insert(id);
        }
        wakers
    }
}
