//! The order of records.

use std::collections::BTreeMap;

use super::*;

const DRAWS: usize = 20_000;

fn record(priority: u16, weight: u16, target: &str) -> SrvRecord {
    SrvRecord { priority, weight, port: 2181, target: target.to_owned() }
}

/// How often each target is the first.
fn firsts(records: &[SrvRecord]) -> BTreeMap<String, usize> {
    let mut rng = StdRng::seed_from_u64(7);
    let mut firsts = BTreeMap::new();
    for _ in 0..DRAWS {
        let ordered = in_order(records.to_vec(), &mut rng);
        assert_eq!(ordered.len(), records.len());
        assert!(ordered.is_sorted_by_key(|record| record.priority));
        *firsts.entry(ordered[0].target.clone()).or_default() += 1;
    }
    firsts
}

#[test]
fn records_of_the_lowest_priority_come_first_as_often_as_their_weight_says() {
    let records = [record(2, 1000, "late"), record(1, 1, "light"), record(1, 3, "heavy")];
    let firsts = firsts(&records);
    // A draw from 0 to the sum of the weights, which the lighter one takes at 0 and 1 if it is the first in the list.
    let light = firsts["light"];
    assert!((DRAWS / 5..DRAWS * 2 / 5).contains(&light), "{firsts:?}");
    assert_eq!(light + firsts["heavy"], DRAWS);
}

#[test]
fn a_weight_of_zero_is_chosen_rarely_and_among_equals_everybody_is() {
    let firsts_of = |weights: [u16; 2]| firsts(&[record(1, weights[0], "a"), record(1, weights[1], "b")]);
    let rare = firsts_of([0, 99]);
    assert!((1..DRAWS / 50).contains(&rare["a"]), "{rare:?}");
    let equal = firsts_of([0, 0]);
    assert!(equal["a"].abs_diff(equal["b"]) < DRAWS / 20, "{equal:?}");
}
