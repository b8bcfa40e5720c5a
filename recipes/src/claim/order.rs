//! The order of a queue: which children of a directory are contenders, in which order, and which of them a contender
//! waits for.

use super::names::{self, ContenderKind};
use crate::config::ForeignPolicy;
use crate::error::LockError;

/// How a contender holds the lock, which decides which contenders it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Alone: it waits for all contenders in front.
    Exclusive,
    /// Shared with others: it waits for the contenders in front that are not shared.
    Shared,
}

/// A child of the directory that is in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueuedNode {
    pub(crate) name: String,
    kind: ContenderKind,
    number: i64,
    /// The transaction that created it, if the numbers in the directory do not give the whole order; else 0.
    pub(super) czxid: i64,
}

impl LockMode {
    fn waits_for(self, other: ContenderKind) -> bool {
        self == Self::Exclusive || other != ContenderKind::Shared
    }
}

impl QueuedNode {
    /// Whether it is in front of `other`. For the same two this is always the same, whatever else is in the queue: two
    /// reliable numbers decide even if some third child has none. Their transactions must not decide, because a writer
    /// that became a reader keeps its number but is created anew, which would move the writer after it to the front.
    fn is_before(&self, other: &Self) -> bool {
        let reliable = |number| !is_unreliable(number);
        if self.number != other.number && reliable(self.number) && reliable(other.number) {
            self.number < other.number
        } else {
            self.creation() < other.creation()
        }
    }

    fn creation(&self) -> (i64, &str) {
        (self.czxid, &self.name)
    }
}

/// The position of a contender in one directory.
#[derive(Debug, Default)]
pub(crate) struct DirPosition {
    /// Its own names: the first for each of its prefixes.
    pub(crate) own: Vec<String>,
    /// More names with the same prefixes, from a create that was sent twice.
    pub(crate) duplicates: Vec<String>,
    /// The znodes that it waits for: the guid of each contender, if the name has one.
    pub(crate) ahead: Vec<Option<u128>>,
    /// The nearest of them.
    pub(crate) nearest: Option<String>,
    /// Whether the companion exists.
    pub(crate) has_companion: bool,
}

/// The contenders among `names`, the children of `dir`, in no order.
pub(super) fn contenders(
    foreign: ForeignPolicy,
    dir: &str,
    names: Vec<String>,
) -> Result<Vec<QueuedNode>, LockError> {
    let mut queue = Vec::with_capacity(names.len());
    for name in names {
        let parsed = names::parse(&name);
        let known = parsed.filter(|parsed| parsed.kind != ContenderKind::Unknown);
        let contender = match foreign {
            ForeignPolicy::Exclusive => parsed,
            ForeignPolicy::Reject if known.is_none() => {
                return Err(LockError::Foreign { dir: dir.to_owned(), name });
            }
            ForeignPolicy::Ignore | ForeignPolicy::Reject => known,
        };
        if let Some(parsed) = contender {
            queue.push(QueuedNode { name, kind: parsed.kind, number: parsed.sequence, czxid: 0 });
        }
    }
    Ok(queue)
}

/// Whether the numbers alone give the place of the contender with these `prefixes`. Ties between others do not matter to it.
pub(super) fn numbers_decide(queue: &[QueuedNode], prefixes: &[&str]) -> bool {
    let is_own = |queued: &QueuedNode| prefixes.iter().any(|prefix| queued.name.starts_with(prefix));
    let number = queue.iter().filter(|queued| is_own(queued)).map(|queued| queued.number).min();
    let tied = |queued: &QueuedNode| Some(queued.number) == number && !is_own(queued);
    !queue.iter().any(|queued| is_unreliable(queued.number) || tied(queued))
}

/// Finds the contender with these `prefixes`; `None` if one of its znodes is missing. It never waits for the znode named
/// `companion`.
pub(super) fn find(
    queue: &[QueuedNode],
    prefixes: &[&str],
    mode: LockMode,
    companion: Option<&str>,
) -> Option<DirPosition> {
    let mut found = DirPosition::default();
    let mut first: Option<&QueuedNode> = None;
    for prefix in prefixes {
        let mut own: Vec<_> = queue.iter().filter(|queued| queued.name.starts_with(prefix)).collect();
        own.sort_unstable_by(|one, other| one.creation().cmp(&other.creation()));
        // Absent means evicted, and never "our turn".
        let (kept, more) = own.split_first()?;
        first = first.filter(|first| first.is_before(kept)).or(Some(*kept));
        found.own.push(kept.name.clone());
        found.duplicates.extend(more.iter().map(|queued| queued.name.clone()));
    }
    let mut nearest: Option<&QueuedNode> = None;
    for other in queue {
        if Some(other.name.as_str()) == companion {
            found.has_companion = true;
        } else if mode.waits_for(other.kind) && first.is_some_and(|first| other.is_before(first)) {
            found.ahead.push(names::guid_in(&other.name));
            nearest = nearest.filter(|nearest| other.is_before(nearest)).or(Some(other));
        }
    }
    found.nearest = nearest.map(|nearest| nearest.name.clone());
    Some(found)
}

/// Sorts the queue by number. Whether that is the order of creation.
pub(super) fn sort(queue: &mut [QueuedNode]) -> bool {
    queue.sort_unstable_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
    is_ordered(queue)
}

/// Whether a number does not show when its znode was created. After the end of the 32-bit counter, servers since 3.6
/// give every child the last number (ZOOKEEPER-3249), and older ones give negative numbers.
fn is_unreliable(number: i64) -> bool {
    number < 0 || number == i64::from(i32::MAX)
}

/// Whether the numbers of a sorted queue give the order of creation.
fn is_ordered(queue: &[QueuedNode]) -> bool {
    !queue.iter().any(|queued| is_unreliable(queued.number))
        && queue.windows(2).all(|pair| pair[0].number != pair[1].number)
}

/// The queue, sorted by how many came before each. There can be a cycle: a reader that was a writer, the writer after
/// it, and a contender without a reliable number whose transaction is between theirs. Then the reader is first.
pub(super) fn ranked(queue: Vec<QueuedNode>) -> Vec<QueuedNode> {
    let before = |queued: &QueuedNode| queue.iter().filter(|other| other.is_before(queued)).count();
    let ranks: Vec<_> = queue.iter().map(before).collect();
    let mut ranked: Vec<_> = ranks.into_iter().zip(queue).collect();
    ranked.sort_by(|(rank, one), (other_rank, other)| {
        (rank, one.kind, one.creation()).cmp(&(other_rank, other.kind, other.creation()))
    });
    ranked.into_iter().map(|(_, queued)| queued).collect()
}

/// How many contenders have these znodes. One contender may have several: under two names, and in several directories.
pub(crate) fn count(mut znodes: Vec<Option<u128>>) -> usize {
    znodes.sort_unstable();
    znodes.dedup_by(|one, other| one.is_some() && one == other);
    znodes.len()
}

/// The contenders in a queue, or in a part of it, that one in this mode waits for.
pub(crate) fn blockers(queue: &[QueuedNode], mode: LockMode) -> impl Iterator<Item = &QueuedNode> {
    queue.iter().filter(move |other| mode.waits_for(other.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(numbers: &[i64]) -> Vec<QueuedNode> {
        let queued = |number: &i64| queued(ContenderKind::Exclusive, *number, 0);
        numbers.iter().map(queued).collect()
    }

    fn queued(kind: ContenderKind, number: i64, czxid: i64) -> QueuedNode {
        QueuedNode { name: String::new(), kind, number, czxid }
    }

    #[test]
    fn numbers_give_the_order_only_if_they_are_unique_and_reliable() {
        assert!(is_ordered(&queue(&[])));
        assert!(is_ordered(&queue(&[1, 2, 3])));
        assert!(!is_ordered(&queue(&[5, 5])));
        assert!(!is_ordered(&queue(&[5, 2_147_483_647])), "one created later may be gone");
        assert!(is_ordered(&queue(&[2_147_483_646, 2_147_483_648])));
        assert!(!is_ordered(&queue(&[-5, 1])));
    }

    #[test]
    fn a_reader_waits_for_writers_and_a_writer_for_all() {
        let mut queue = queue(&[1, 2, 3]);
        queue[1].kind = ContenderKind::Shared;
        let numbers = |mode| blockers(&queue[..2], mode).map(|queued| queued.number).collect::<Vec<_>>();
        assert_eq!(numbers(LockMode::Shared), [1]);
        assert_eq!(numbers(LockMode::Exclusive), [1, 2]);
    }

    #[test]
    fn reliable_numbers_decide_between_two_contenders_and_otherwise_their_transactions() {
        let before = |one: (i64, i64), other: (i64, i64)| {
            let queued = |(number, czxid)| queued(ContenderKind::Shared, number, czxid);
            (queued(one).is_before(&queued(other)), queued(other).is_before(&queued(one)))
        };
        assert_eq!(before((0, 9), (1, 5)), (true, false), "a writer that became a reader");
        assert_eq!(before((4, 5), (4, 9)), (true, false), "equal numbers");
        assert_eq!(before((-5, 9), (4, 5)), (false, true), "no reliable number");
        assert_eq!(before((4, 9), (2_147_483_647, 5)), (false, true), "the last number");
    }

    #[test]
    fn in_a_cycle_the_reader_is_first() {
        let reader = queued(ContenderKind::Shared, 0, 9);
        let (writer, odd) = (queued(ContenderKind::Exclusive, 1, 5), queued(ContenderKind::Unknown, -7, 6));
        let late = queued(ContenderKind::Exclusive, 3, 12);
        let list = ranked(vec![late.clone(), odd.clone(), writer.clone(), reader.clone()]);
        assert_eq!(list, [reader, writer, odd, late]);
    }
}
