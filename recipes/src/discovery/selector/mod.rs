//! [`Selector`]: chooses an instance for each call.

mod choice;
mod health;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet_client::Clock;
use zoolet_client::internal::locked;

use super::instance::Instance;
use super::services::{InstanceCache, instance_of};
use crate::cache::Snapshot;
use choice::{Candidate, Choice};
use health::{DownPolicy, Load};

/// How a [`Selector`] chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// One after the other, in the order of their znodes' names. It goes on after the one that was chosen last, whatever comes
    /// and goes meanwhile, so each has its turn.
    RoundRobin,
    /// The one of two, drawn at random, that has fewer calls of this selector in flight for its weight.
    LeastLoaded,
    /// At random, in proportion to the weights.
    Random,
    /// The same one as long as it can be chosen, and then the next.
    Sticky,
}

/// The weight of an instance.
type Weight = Arc<dyn Fn(&Instance) -> f64 + Send + Sync>;

/// Chooses an instance of a service for each call, from [`Services::selector`](super::Services::selector). A clone is another
/// handle: calls in flight and errors are counted together.
///
/// Instances that are disabled are never chosen. One whose calls [fail](Selected::note_error) is left out for a while, and then
/// tried by one call: if that succeeds, it is back. If all are left out, all are chosen from: that every instance is down is
/// less likely than that the cause is here.
#[derive(Clone)]
pub struct Selector(Arc<SelectorShared>);

struct SelectorShared {
    cache: InstanceCache,
    /// The path of the service.
    dir: String,
    clock: Clock,
    weight: Weight,
    down: DownPolicy,
    progress: Mutex<Progress>,
}

struct Progress {
    /// The snapshot of the candidates.
    snapshot: Option<Arc<Snapshot<Option<Arc<Instance>>>>>,
    candidates: Vec<Candidate>,
    choice: Choice,
}

/// A selector that is not built yet, from [`Services::selector`](super::Services::selector).
#[must_use = "a selector is made by `.build()`"]
pub struct SelectorBuilder(SelectorShared);

impl SelectorBuilder {
    pub(super) fn new(
        cache: InstanceCache,
        dir: String,
        clock: Clock,
        seed: u64,
        strategy: Strategy,
    ) -> Self {
        let choice = Choice::new(strategy, seed);
        let progress = Mutex::new(Progress { snapshot: None, candidates: Vec::new(), choice });
        let (weight, down): (Weight, _) = (Arc::new(|_| 1.0), DownPolicy::default());
        Self(SelectorShared { cache, dir, clock, weight, down, progress })
    }

    /// The weight of an instance, for [`Strategy::LeastLoaded`] and [`Strategy::Random`]; most often a field of its payload. It is
    /// asked again whenever the cache has changed. An instance whose weight is 0 or less is chosen only if all are.
    ///
    /// Default: 1.
    pub fn weight(mut self, weight: impl Fn(&Instance) -> f64 + Send + Sync + 'static) -> Self {
        self.0.weight = Arc::new(weight);
        self
    }

    /// Leaves an instance out after this number of errors within this time.
    ///
    /// Default: 2 in 30 seconds, as Curator.
    pub fn down_after(mut self, errors: u32, within: Duration) -> Self {
        self.0.down.errors = errors.max(1);
        self.0.down.within = within;
        self
    }

    /// How long an instance is left out before it is tried again.
    ///
    /// Default: 30 seconds.
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.0.down.pause = pause;
        self
    }

    /// Makes the selector.
    pub fn build(self) -> Selector {
        Selector(Arc::new(self.0))
    }
}

impl Selector {
    /// Chooses an instance for a call; `None` if none is registered and enabled. The call is in flight until the result is
    /// dropped.
    pub fn select(&self) -> Option<Selected> {
        let shared = &*self.0;
        let now = shared.clock.now();
        let mut progress = locked(&shared.progress);
        progress.update(shared);
        let Progress { candidates, choice, .. } = &mut *progress;
        let chosen = &candidates[choice.choose(candidates, now)?];
        let has_recovered = chosen.load.begin(now, &shared.down);
        let (instance, load) = (Arc::clone(&chosen.instance), Arc::clone(&chosen.load));
        Some(Selected { instance, load, has_recovered, shared: Arc::clone(&self.0) })
    }
}

impl Progress {
    /// Follows the cache.
    fn update(&mut self, shared: &SelectorShared) {
        let latest = shared.cache.snapshot();
        if self.snapshot.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &latest)) {
            return;
        }
        let before = std::mem::take(&mut self.candidates);
        for entry in latest.children(&shared.dir) {
            let Some(instance) = instance_of(entry).filter(|instance| instance.enabled) else { continue };
            let registered = (latest.epoch(), entry.stat().czxid);
            let known = before.binary_search_by(|candidate| candidate.node.as_str().cmp(entry.name()));
            // A new registration under an old name has nothing to do with the errors of the old one.
            let known = known.ok().map(|at| &before[at]).filter(|known| known.registered == registered);
            self.candidates.push(Candidate {
                node: entry.name().to_owned(),
                registered,
                instance: Arc::clone(instance),
                weight: (shared.weight)(instance),
                load: known.map(|known| Arc::clone(&known.load)).unwrap_or_default(),
            });
        }
        self.snapshot = Some(latest);
    }
}

/// An instance that was chosen for a call, which is in flight until this is dropped. Dereferences to the [`Instance`].
#[must_use = "the call counts as in flight until this is dropped"]
pub struct Selected {
    instance: Arc<Instance>,
    load: Arc<Load>,
    /// Whether the instance was left out before, and the call has not failed.
    has_recovered: bool,
    shared: Arc<SelectorShared>,
}

impl Selected {
    /// Ends the call with an error of the instance.
    pub fn note_error(mut self) {
        self.has_recovered = false;
        self.load.note_error(self.shared.clock.now(), &self.shared.down);
    }
}

impl Deref for Selected {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        self.load.end(self.has_recovered);
    }
}

impl fmt::Debug for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Selected").field(&self.instance).finish()
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector").field("dir", &self.0.dir).finish_non_exhaustive()
    }
}

impl fmt::Debug for SelectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectorBuilder").field("dir", &self.0.dir).finish_non_exhaustive()
    }
}
