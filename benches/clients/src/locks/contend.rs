//! Contenders for one lock, and their measurements.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;

use crate::cpu::CpuTime;
use crate::locker::{Locker, Outcome, Release};

/// The measurements.
pub(crate) struct Found {
    elapsed: Duration,
    /// The CPU time of this process.
    cpu: Duration,
    /// The number of turns of each contender.
    turns: Vec<u64>,
    /// With one contender, the time from acquire to the end of the release. With several, the time from the call that
    /// releases to the next grant.
    took: Vec<Duration>,
}

impl Found {
    pub(crate) fn to_json(&self) -> String {
        let mut took = self.took.clone();
        took.sort_unstable();
        let micros = |percent: usize| {
            let at = (took.len() * percent / 100).min(took.len().saturating_sub(1));
            took.get(at).map_or(0.0, |took| took.as_secs_f64() * 1e6)
        };
        let (turns, seconds) = (&self.turns, self.elapsed.as_secs_f64());
        let (p50, p99, cpu) = (micros(50), micros(99), self.cpu.as_secs_f64() * 1e6);
        format!(
            r#"{{"turns": {turns:?}, "seconds": {seconds:.6}, "p50": {p50:.2}, "p99": {p99:.2}, "cpu": {cpu:.1}}}"#
        )
    }
}

/// Every locker acquires and releases the lock repeatedly until the deadline.
pub(crate) async fn contend(lockers: &[Locker], release: Release, time: Duration) -> Outcome<Found> {
    let alone = lockers.len() == 1;
    let took = Rc::new(RefCell::new(Vec::new()));
    // When the last holder called release; none while the lock is held.
    let released = Rc::new(Cell::new(Some(Instant::now())));
    let (began, cpu) = (Instant::now(), CpuTime::of(std::process::id())?);
    let mut tasks = Vec::with_capacity(lockers.len());
    for locker in lockers {
        let (locker, took, released) = (locker.clone(), Rc::clone(&took), Rc::clone(&released));
        tasks.push(spawn_local(async move {
            let mut turns = 0;
            let mut now = Instant::now();
            while now - began < time {
                let before = now;
                let held = || {
                    let now = Instant::now();
                    let passed_on = released.take().map(|since| now - since);
                    assert!(passed_on.is_some(), "two hold the lock");
                    released.set(Some(now));
                    took.borrow_mut().extend(passed_on.filter(|_| !alone));
                };
                locker.turn(release, held).await.map_err(|error| error.to_string())?;
                turns += 1;
                now = Instant::now();
                if alone {
                    took.borrow_mut().push(now - before);
                }
            }
            Ok::<_, String>(turns)
        }));
    }
    let mut turns = Vec::with_capacity(tasks.len());
    for task in tasks {
        turns.push(task.await??);
    }
    let (elapsed, cpu) = (began.elapsed(), CpuTime::of(std::process::id())?.since(&cpu).time);
    Ok(Found { elapsed, cpu, turns, took: took.take() })
}
