//! Which member an item belongs to: rendezvous hashing, which every member computes by itself from the same names.

use sha2::{Digest as _, Sha256};

/// The number of a name: the first eight bytes of its SHA-256, big-endian.
fn number_of(name: &str) -> u64 {
    let digest = Sha256::digest(name);
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The weight of a member for an item: the finalizer of SplitMix64 on the exclusive or of their numbers. It maps numbers to
/// numbers one to one, so two members weigh the same only if their numbers are equal.
fn weight(member: u64, item: u64) -> u64 {
    let mut bits = member ^ item;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// The members of a partition, prepared for many questions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MemberWeights(Vec<(u64, String)>);

impl MemberWeights {
    /// The order and the repetition of names make no difference.
    pub(super) fn new(members: impl IntoIterator<Item = String>) -> Self {
        let mut members: Vec<_> = members.into_iter().map(|name| (number_of(&name), name)).collect();
        // By name, so that members with equal numbers are in the same order for all.
        members.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        members.dedup();
        Self(members)
    }

    /// The member to which `item` belongs; `None` if there are none.
    pub(super) fn owner(&self, item: &str) -> Option<&str> {
        let item = number_of(item);
        let owner = self.0.iter().max_by_key(|(member, _)| weight(*member, item));
        owner.map(|(_, name)| name.as_str())
    }

    /// The names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{MemberWeights, number_of, weight};

    fn members(names: &[&str]) -> MemberWeights {
        MemberWeights::new(names.iter().map(|name| (*name).to_owned()))
    }

    fn items(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("shard-{number}")).collect()
    }

    fn owners<'m>(members: &'m MemberWeights, items: &[String]) -> Vec<&'m str> {
        items.iter().map(|item| members.owner(item).unwrap()).collect()
    }

    /// The numbers come from the same rules in Python, so that programs in other languages can compute them.
    #[test]
    fn the_hash_is_the_documented_one_on_every_machine_and_in_every_release() {
        assert_eq!(number_of("shard-0"), 0x27f7_53da_3d1d_0280);
        assert_eq!(weight(number_of("a"), number_of("shard-0")), 0x4280_98de_7150_9c3d);
        let three = members(&["a", "b", "c"]);
        assert_eq!(owners(&three, &items(12)), ["b", "c", "a", "c", "a", "a", "a", "c", "c", "c", "a", "a"]);
    }

    #[test]
    fn the_order_and_the_repetition_of_members_make_no_difference() {
        let one = members(&["a", "b", "c"]);
        assert_eq!(one, members(&["c", "a", "b", "a"]));
        assert_eq!(one.names().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(members(&[]).owner("x"), None);
    }

    #[test]
    fn only_the_items_of_a_member_that_leaves_move_and_only_to_a_member_that_comes() {
        let items = items(2_000);
        for count in 2..12 {
            let names: Vec<_> = (0..=count).map(|number| format!("host-{number}:2181")).collect();
            let fewer = MemberWeights::new(names[..count].iter().cloned());
            let more = MemberWeights::new(names.iter().cloned());
            let mut moved = 0_usize;
            for (before, after) in owners(&fewer, &items).into_iter().zip(owners(&more, &items)) {
                if before != after {
                    assert_eq!(after, names[count], "an item moved between members that stay");
                    moved += 1;
                }
            }
            let expected = items.len() / (count + 1);
            assert!(
                moved.abs_diff(expected) < expected / 3,
                "{moved} of {} moved to one of {count}",
                items.len()
            );
        }
    }

    #[test]
    fn the_shares_are_as_even_as_random_ones() {
        let items = items(10_000);
        let members = MemberWeights::new((0..10).map(|number| format!("{number}")));
        let mut shares = BTreeMap::new();
        for owner in owners(&members, &items) {
            *shares.entry(owner).or_insert(0_usize) += 1;
        }
        assert_eq!(shares.len(), 10);
        // The standard deviation is 30.
        assert!(shares.values().all(|share| share.abs_diff(1_000) < 120), "{shares:?}");
    }
}
