//! The strategies, as functions of the candidates.

use std::sync::Arc;

use tokio::time::Instant;
use zoolet_client::Zxid;

use super::health::Load;
use super::{Instance, Strategy};

/// An instance that may be chosen.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The name of the znode, by which candidates are sorted.
    pub(super) node: String,
    /// The epoch and the transaction of the registration.
    pub(super) registered: (u64, Zxid),
    pub(super) instance: Arc<Instance>,
    pub(super) weight: f64,
    pub(super) load: Arc<Load>,
}

impl Candidate {
    /// A weight that can be added up.
    fn weight(&self) -> f64 {
        if self.weight.is_finite() { self.weight.max(0.0) } else { 0.0 }
    }
}

/// What a strategy remembers between two choices.
#[derive(Debug)]
pub(super) struct Choice {
    strategy: Strategy,
    /// The name of the one that was chosen last.
    last: Option<String>,
    random: u64,
}

impl Choice {
    pub(super) fn new(strategy: Strategy, seed: u64) -> Self {
        Self { strategy, last: None, random: seed }
    }

    /// The index of the chosen one.
    pub(super) fn choose(&mut self, candidates: &[Candidate], now: Instant) -> Option<usize> {
        let all = || 0..candidates.len();
        let mut from: Vec<usize> = all().filter(|&at| candidates[at].load.is_available(now)).collect();
        if from.is_empty() {
            from = all().collect();
        }
        let chosen = match self.strategy {
            Strategy::RoundRobin => self.after_last(candidates, &from, false),
            Strategy::Sticky => self.after_last(candidates, &from, true),
            Strategy::Random => self.by_weight(candidates, &from),
            Strategy::LeastLoaded => {
                let one = self.by_weight(candidates, &from)?;
                let others: Vec<_> = from.into_iter().filter(|&at| at != one).collect();
                let other = self.by_weight(candidates, &others).unwrap_or(one);
                Some(less_loaded(candidates, one, other))
            }
        }?;
        self.last = Some(candidates[chosen].node.clone());
        Some(chosen)
    }

    /// The first after the last, or the last itself if it `may_stay`; in a circle.
    fn after_last(&self, candidates: &[Candidate], from: &[usize], may_stay: bool) -> Option<usize> {
        let is_later = |at: usize| match &self.last {
            Some(last) if may_stay => candidates[at].node >= *last,
            Some(last) => candidates[at].node > *last,
            None => true,
        };
        from.iter().copied().find(|&at| is_later(at)).or_else(|| from.first().copied())
    }

    /// One at random, in proportion to the weights; or of all, if they have none.
    fn by_weight(&mut self, candidates: &[Candidate], from: &[usize]) -> Option<usize> {
        let total: f64 = from.iter().map(|&at| candidates[at].weight()).sum();
        if !(total > 0.0 && total.is_finite()) {
            let count = from.len() as f64;
            return from.get((self.next_random() * count) as usize).copied();
        }
        let mut left = self.next_random() * total;
        let weighty = || from.iter().copied().filter(|&at| candidates[at].weight() > 0.0);
        let chosen = weighty().find(|&at| {
            left -= candidates[at].weight();
            left < 0.0
        });
        // Rounding may leave a rest.
        chosen.or_else(|| weighty().next_back())
    }

    /// In 0..1. SplitMix64: what it must be is fast and the same for a seed.
    fn next_random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The one of two with fewer calls in flight for its weight.
fn less_loaded(candidates: &[Candidate], one: usize, other: usize) -> usize {
    let load = |at: usize| (f64::from(candidates[at].load.in_flight()) + 1.0) / candidates[at].weight();
    if load(other) < load(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::super::health::DownPolicy;
    use super::*;

    fn candidates(nodes: &[(&str, f64)]) -> Vec<Candidate> {
        let candidate = |&(node, weight): &(&str, f64)| Candidate {
            node: node.to_owned(),
            registered: (0, Zxid(1)),
            instance: Arc::new(Instance::new("s", node, "h")),
            weight,
            load: Arc::default(),
        };
        nodes.iter().map(candidate).collect()
    }

    fn choose(choice: &mut Choice, candidates: &[Candidate], times: usize) -> Vec<String> {
        let now = Instant::now();
        let mut chosen =
            || choice.choose(candidates, now).map(|at| candidates[at].node.clone()).unwrap_or_default();
        (0..times).map(|_| chosen()).collect()
    }

    fn counts(chosen: Vec<String>) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        chosen.into_iter().for_each(|node| *counts.entry(node).or_default() += 1);
        counts
    }

    #[test]
    fn round_robin_goes_on_after_the_last_one_while_instances_come_and_go() {
        let mut choice = Choice::new(Strategy::RoundRobin, 7);
        assert_eq!(
            choose(&mut choice, &candidates(&[("a", 1.0), ("b", 1.0), ("d", 1.0)]), 4),
            ["a", "b", "d", "a"]
        );
        // The last one is gone, and one has come after it.
        assert_eq!(
            choose(&mut choice, &candidates(&[("b", 1.0), ("c", 1.0), ("d", 1.0)]), 4),
            ["b", "c", "d", "b"]
        );
        assert_eq!(choose(&mut choice, &candidates(&[("a", 1.0)]), 2), ["a", "a"]);
        assert_eq!(choice.choose(&[], Instant::now()), None);
    }

    #[test]
    fn sticky_stays_until_its_instance_is_gone_or_down() {
        let mut choice = Choice::new(Strategy::Sticky, 7);
        let all = candidates(&[("a", 1.0), ("b", 1.0), ("c", 1.0)]);
        assert_eq!(choose(&mut choice, &all, 3), ["a", "a", "a"]);
        let policy = DownPolicy { errors: 1, ..DownPolicy::default() };
        all[0].load.note_error(Instant::now(), &policy);
        assert_eq!(choose(&mut choice, &all, 2), ["b", "b"]);
        assert_eq!(choose(&mut choice, &candidates(&[("a", 1.0), ("c", 1.0)]), 2), ["c", "c"]);
    }

    #[test]
    fn random_is_in_proportion_to_the_weights_and_an_invalid_weight_is_none() {
        let mut choice = Choice::new(Strategy::Random, 7);
        let all = candidates(&[("a", 1.0), ("b", 3.0), ("c", 0.0), ("d", -1.0), ("e", f64::NAN)]);
        let counts = counts(choose(&mut choice, &all, 4_000));
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert!((900..1_100).contains(&counts["a"]), "{counts:?}");
    }

    #[test]
    fn without_any_weight_all_are_chosen_from() {
        let mut choice = Choice::new(Strategy::Random, 7);
        let all = candidates(&[("a", 0.0), ("b", 0.0)]);
        let counts = counts(choose(&mut choice, &all, 1_000));
        assert!((400..600).contains(&counts["a"]), "{counts:?}");
    }

    #[test]
    fn the_less_loaded_of_two_gets_the_call_by_its_weight() {
        let mut choice = Choice::new(Strategy::LeastLoaded, 7);
        let two = candidates(&[("a", 1.0), ("b", 1.0)]);
        for _ in 0..5 {
            two[0].load.begin(Instant::now(), &DownPolicy::default());
        }
        assert_eq!(counts(choose(&mut choice, &two, 100)), [("b".to_owned(), 100)].into());
        // Calls that stay in flight spread by weight.
        let weighted = candidates(&[("a", 1.0), ("b", 3.0)]);
        for _ in 0..400 {
            let chosen = choice.choose(&weighted, Instant::now()).expect("a candidate");
            weighted[chosen].load.begin(Instant::now(), &DownPolicy::default());
        }
        assert_eq!(weighted.iter().map(|one| one.load.in_flight()).collect::<Vec<_>>(), [100, 300]);
    }

    #[test]
    fn those_that_are_down_are_left_out_unless_all_are() {
        let policy = DownPolicy { errors: 1, ..DownPolicy::default() };
        let two = candidates(&[("a", 1.0), ("b", 1.0)]);
        let mut choice = Choice::new(Strategy::RoundRobin, 7);
        let now = Instant::now();
        two[0].load.note_error(now, &policy);
        assert_eq!(choose(&mut choice, &two, 2), ["b", "b"]);
        two[1].load.note_error(now, &policy);
        assert_eq!(choose(&mut choice, &two, 2), ["a", "b"]);
        // The pause is over for the first.
        two[1].load.note_error(now + Duration::from_secs(20), &policy);
        let chosen = choice.choose(&two, now + Duration::from_secs(31));
        assert_eq!(chosen, Some(0));
    }
}
