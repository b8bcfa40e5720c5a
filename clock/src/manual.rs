//! The time of a manual clock, and those who wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

/// Longer than any program runs: who waits for half of it waits for no time at all.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// So many times [`FAR`] a clock goes on from its start, so that there is always a later time.
const LIFE: u32 = 1_000;

#[derive(Debug)]
pub(crate) struct Manual(Mutex<State>);

#[derive(Debug)]
struct State {
    now: Instant,
    end: Instant,
    sleepers: BTreeMap<(Instant, SleeperId), Waker>,
    holds: usize,
    /// Those who were woken and wait for nothing else yet.
    woken: BTreeSet<SleeperId>,
    last_id: u64,
}

/// Something under way that takes no time, from [`Clock::hold`](crate::Clock::hold).
#[derive(Debug, Default)]
pub struct Hold(Option<Arc<Manual>>);

impl Hold {
    pub(crate) fn of(clock: Option<&Arc<Manual>>) -> Self {
        let clock = clock.cloned();
        if let Some(clock) = &clock {
            clock.lock().holds += 1;
        }
        Self(clock)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(clock) = &self.0 {
            clock.lock().holds -= 1;
        }
    }
}

/// One wait for one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SleeperId(u64);

impl Manual {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            now,
            end: now + FAR * LIFE,
            holds: 0,
            sleepers: BTreeMap::new(),
            woken: BTreeSet::new(),
            last_id: 0,
        }))
    }

    pub(crate) fn now(&self) -> Instant {
        self.lock().now
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

    pub(crate) fn unattended(&self) -> usize {
        let state = self.lock();
        state.woken.len() + state.holds
    }

    /// Has `waker` woken at `deadline`; false if that is past. `id` is the wait to go on with, if there is one.
    pub(crate) fn wait(&self, deadline: Instant, id: &mut Option<SleeperId>, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.now >= deadline {
            return false;
        }
        let id = *id.get_or_insert_with(|| {
            state.last_id += 1;
            SleeperId(state.last_id)
        });
        state
            .sleepers
            .entry((deadline, id))
            .and_modify(|known| known.clone_from(waker))
            .or_insert_with(|| waker.clone());
        true
    }

    /// Ends a wait, whether it was woken or not.
    pub(crate) fn forget(&self, deadline: Instant, id: SleeperId) {
        let mut state = self.lock();
        state.woken.remove(&id);
        let waker = state.sleepers.remove(&(deadline, id));
        // Behind the lock: with a waker a task may go, and with that other waits.
        drop(state);
        drop(waker);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if something did, the state is still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn move_to(&mut self, now: Instant) -> Vec<Waker> {
        let now = now.min(self.end);
        self.now = now;
        let mut wakers = Vec::new();
        while let Some(entry) = self.sleepers.first_entry() {
            let (deadline, id) = *entry.key();
            if deadline > now {
                break;
            }
            wakers.push(entry.remove());
            self.woken.insert(id);
        }
        wakers
    }
}
