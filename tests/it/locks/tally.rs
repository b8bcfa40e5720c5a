//! What happened in random schedules, all together.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet::testing::fixture::RecordedEvent;

use crate::locks::stage::{Stage, locked};

/// What happened, by kind.
#[derive(Debug, Default)]
pub struct Tally {
    schedules: u64,
    recipes: BTreeMap<String, u64>,
    faults: BTreeMap<String, u64>,
    ends: BTreeMap<String, u64>,
    grants: u64,
    writes: u64,
    refused: u64,
    calms: u64,
    transactions: u64,
    requests: u64,
    /// What one schedule came to, step by step.
    pub story: String,
}

impl Tally {
    /// What one schedule came to.
    pub fn of(stage: &Stage) -> Self {
        let mut tally = Self { schedules: 1, ..Self::default() };
        tally.recipes.insert(format!("{:?}", stage.recipe), 1);
        for entry in stage.zk.faults().fired() {
            let name = match entry.event {
                RecordedEvent::Fault { action, .. } => format!("{action:?}"),
                RecordedEvent::ControlAction(action) => format!("{action:?}"),
                _ => "Refused".to_owned(),
            };
            let kind = name.split(['(', ' ']).next().unwrap_or_default().to_owned();
            *tally.faults.entry(kind).or_default() += 1;
        }
        let counters = stage.zk.counters();
        (tally.transactions, tally.requests) = (counters.transactions, counters.requests_but_pings());
        tally.grants = locked(&stage.claims).len() as u64;
        tally.writes = stage.audit().written;
        tally.refused = locked(&stage.outside).refused;
        tally.calms = stage.calms();
        let told = stage.told();
        for line in &told {
            let end = line.split_once(": ").map_or(line.as_str(), |(_, end)| end);
            *tally.ends.entry(end.to_owned()).or_default() += 1;
        }
        let txns: Vec<_> = stage.zk.transactions().iter().map(|txn| format!("{txn:?}")).collect();
        tally.story = format!("{told:#?}\n{}", txns.join("\n"));
        tally
    }

    pub fn add(&mut self, one: &Self) {
        self.schedules += one.schedules;
        self.grants += one.grants;
        self.writes += one.writes;
        self.refused += one.refused;
        self.calms += one.calms;
        self.transactions += one.transactions;
        self.requests += one.requests;
        let kinds =
            [(&mut self.recipes, &one.recipes), (&mut self.faults, &one.faults), (&mut self.ends, &one.ends)];
        for (sum, one) in kinds {
            one.iter().for_each(|(kind, count)| *sum.entry(kind.clone()).or_default() += count);
        }
    }

    /// Whether enough went wrong, and enough right all the same.
    pub fn is_worth_something(&self) -> bool {
        let many = self.schedules;
        self.faults.values().sum::<u64>() > many && self.grants > many && self.calms > many
    }

    #[allow(clippy::print_stdout, reason = "reports how much was tried")]
    pub fn print(&self, first: u64, elapsed: Duration) {
        let list = |kinds: &BTreeMap<String, u64>| {
            let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            kinds.join(", ")
        };
        let Self { schedules, grants, writes, refused, calms, transactions, requests, .. } = self;
        println!("random schedules of locks: {schedules} from seed {first}, in {elapsed:.1?}");
        println!(
            "  {requests} requests, {transactions} transactions, {grants} grants, {writes} fenced writes"
        );
        println!("  {refused} tokens refused by the store outside, {calms} calms looked at");
        println!("  recipes: {}", list(&self.recipes));
        println!("  faults: {}", list(&self.faults));
        println!("  acquisitions: {}", list(&self.ends));
    }
}
