//! How many schedules ran, and what happened in them.

use std::collections::BTreeMap;
use std::time::Instant;

use zoolet::LockError;
use zoolet::recipes::Released;

use crate::locks::contender::End;
use crate::locks::sweep::Outcome;

/// A count of schedules, which is printed when it goes.
pub struct Schedules {
    name: &'static str,
    began: Instant,
    sweeps: u64,
    run: u64,
    pub fired: u64,
    ends: BTreeMap<&'static str, u64>,
}

impl Schedules {
    pub fn new(name: &'static str) -> Self {
        Self { name, began: Instant::now(), sweeps: 0, run: 0, fired: 0, ends: BTreeMap::new() }
    }

    /// Whether to run the next sweep: in a debug build, which takes ten times as long, one of so many.
    pub fn runs_next(&mut self, one_of: u64) -> bool {
        self.sweeps += 1;
        !cfg!(debug_assertions) || self.sweeps % one_of == 0
    }

    pub fn count(&mut self, outcome: &Outcome) {
        self.run += 1;
        self.fired += u64::from(outcome.fired);
        *self.ends.entry(outcome.victim.name()).or_default() += 1;
    }
}

impl End {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Released(Released::Deleted) => "released",
            Self::Released(Released::AlreadyGone) => "lost before it was released",
            Self::Released(_) => "still held",
            Self::LeftAlone => "left alone",
            Self::GivenUp => "dropped",
            Self::Busy => "found it taken",
            Self::Failed(LockError::Timeout { .. }) => "timed out",
            Self::Failed(LockError::SessionOver { .. }) => "session over",
            Self::Failed(LockError::NodeDeleted { .. }) => "evicted",
            Self::Failed(_) => "failed",
        }
    }
}

impl Drop for Schedules {
    #[allow(clippy::print_stdout, reason = "reports how much was tried")]
    fn drop(&mut self) {
        let Self { name, run, fired, ends, .. } = self;
        println!("{name}: {run} schedules, {fired} with a fault, {ends:?}, {:.1?}", self.began.elapsed());
    }
}
