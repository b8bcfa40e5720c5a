//! The queue of a directory: who is in line, in which order, and who is in whose way.

use zoolet_client::{Error, Stat};

use crate::error::LockError;
use crate::name::{self, Kind, Parsed};
use crate::setup::{ForeignPolicy, Setup};

/// What a contender wants, which says whom it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// To be alone: everybody in front is in the way.
    Exclusive,
    /// To share: those in front who want to be alone are in the way.
    Shared,
}

/// A child of the directory that is in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) name: String,
    kind: Kind,
    number: i64,
    /// The transaction that made it, where the numbers in the directory do not tell the whole order; else 0.
    czxid: i64,
}

impl Role {
    fn waits_for(self, other: Kind) -> bool {
        self == Self::Exclusive || other != Kind::Shared
    }
}

impl Queued {
    /// Whether it came before `other`. Of the same two always the same, whoever else is in line and whoever asks: two
    /// sure numbers decide also where some third child has none. Their transactions must not, as a writer that became a
    /// reader keeps its number but is made anew: the writer behind it would come to be in front.
    fn is_before(&self, other: &Self) -> bool {
        let told = self.number != other.number && !is_unsure(self.number) && !is_unsure(other.number);
        if told { self.number < other.number } else { self.made() < other.made() }
    }

    fn made(&self) -> (i64, &str) {
        (self.czxid, &self.name)
    }
}

impl Setup {
    /// Who of `names`, the children of `dir`, is in line, first in line first.
    pub(crate) async fn queue(&self, dir: &str, names: Vec<String>) -> Result<Vec<Queued>, LockError> {
        let queue = self.in_line(dir, names).await?;
        Ok(if is_ordered(&queue) { queue } else { ranked(queue) })
    }

    /// The same by their numbers, and where those do not tell the whole order with the transactions that do.
    async fn in_line(&self, dir: &str, names: Vec<String>) -> Result<Vec<Queued>, LockError> {
        let mut queue = Vec::with_capacity(names.len());
        for name in names {
            if let Some(parsed) = self.counts(dir, &name)? {
                queue.push(Queued { name, kind: parsed.kind, number: parsed.sequence, czxid: 0 });
            }
        }
        queue.sort_unstable_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
        if !is_ordered(&queue) {
            self.read_czxids(dir, &mut queue).await?;
        }
        Ok(queue)
    }

    /// Contenders that are gone leave the queue.
    async fn read_czxids(&self, dir: &str, queue: &mut Vec<Queued>) -> Result<(), LockError> {
        let replies: Vec<_> =
            queue.iter().map(|queued| self.client.exists(child(dir, &queued.name)).send()).collect();
        let mut stats: Vec<Option<Stat>> = Vec::with_capacity(replies.len());
        for (reply, queued) in replies.into_iter().zip(queue.iter()) {
            stats.push(match reply.await {
                Ok(stat) => stat,
                Err(error) if Error::is_retryable(&error) => self.stat(&child(dir, &queued.name)).await?,
                Err(error) => return Err(self.error(error)),
            });
        }
        let mut stats = stats.into_iter();
        queue.retain_mut(|queued| match stats.next().flatten() {
            Some(stat) => {
                queued.czxid = stat.czxid.0;
                true
            }
            None => false,
        });
        Ok(())
    }
}

/// Where a contender stands in one directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Its own names: the first by each of its prefixes.
    pub(crate) mine: Vec<String>,
    /// More of its own by the same prefixes, made by a create that was sent twice.
    pub(crate) duplicates: Vec<String>,
    /// The znodes in its way: of each the guid of the contender, if its name says that.
    pub(crate) ahead: Vec<Option<u128>>,
    /// The nearest of them.
    pub(crate) nearest: Option<String>,
    /// Whether the one is there that is never in its way.
    pub(crate) beside: bool,
}

impl Setup {
    /// Finds the contender that has `prefixes` among `names`, the children of `dir`; `None` if one of its znodes is
    /// missing. `beside` is the name of one that is never in its way.
    pub(crate) async fn find(
        &self,
        dir: &str,
        names: Vec<String>,
        prefixes: &[&str],
        role: Role,
        beside: Option<&str>,
    ) -> Result<Option<Found>, LockError> {
        // Most often the numbers alone tell, and one look at each name is enough.
        if let Some(found) = self.find_by_numbers(dir, &names, prefixes, role, beside)? {
            return Ok(Some(found));
        }
        let queue = self.in_line(dir, names).await?;
        let mut found = Found::default();
        let mut first: Option<&Queued> = None;
        for prefix in prefixes {
            let mut mine: Vec<_> = queue.iter().filter(|queued| queued.name.starts_with(prefix)).collect();
            mine.sort_unstable_by(|one, other| one.made().cmp(&other.made()));
            let Some((kept, more)) = mine.split_first() else { return Ok(None) };
            first = first.filter(|first| first.is_before(kept)).or(Some(*kept));
            found.mine.push(kept.name.clone());
            found.duplicates.extend(more.iter().map(|queued| queued.name.clone()));
        }
        let mut nearest: Option<&Queued> = None;
        for other in &queue {
            if Some(other.name.as_str()) == beside {
                found.beside = true;
            } else if role.waits_for(other.kind) && first.is_some_and(|first| other.is_before(first)) {
                found.ahead.push(name::guid_in(&other.name));
                nearest = nearest.filter(|nearest| other.is_before(nearest)).or(Some(other));
            }
        }
        found.nearest = nearest.map(|nearest| nearest.name.clone());
        Ok(Some(found))
    }

    /// The same by the numbers of the names alone; `None` where they do not tell, or the contender is missing.
    fn find_by_numbers(
        &self,
        dir: &str,
        names: &[String],
        prefixes: &[&str],
        role: Role,
        beside: Option<&str>,
    ) -> Result<Option<Found>, LockError> {
        let mut found = Found::default();
        let mut own = i64::MAX;
        for prefix in prefixes {
            let mut mine: Vec<_> = names
                .iter()
                .filter(|name| name.starts_with(prefix))
                .filter_map(|name| Some((name::parse(name)?.sequence, name)))
                .collect();
            mine.sort_unstable();
            let Some(((number, first), more)) = mine.split_first() else { return Ok(None) };
            own = own.min(*number);
            found.mine.push((*first).clone());
            found.duplicates.extend(more.iter().map(|(_, name)| (*name).clone()));
        }
        let mut nearest = (i64::MIN, "");
        for name in names {
            let Some(parsed) = self.counts(dir, name)? else { continue };
            let number = parsed.sequence;
            let tied = number == own && !prefixes.iter().any(|prefix| name.starts_with(prefix));
            if is_unsure(number) || tied {
                return Ok(None);
            }
            if Some(name.as_str()) == beside {
                found.beside = true;
            } else if number < own && role.waits_for(parsed.kind) {
                found.ahead.push(name::guid_in(name));
                nearest = nearest.max((number, name));
            }
        }
        found.nearest = (!found.ahead.is_empty()).then(|| nearest.1.to_owned());
        Ok(Some(found))
    }

    /// What `name`, a child of `dir`, says if it is a contender by the policy of this lock.
    fn counts(&self, dir: &str, name: &str) -> Result<Option<Parsed>, LockError> {
        let parsed = name::parse(name);
        let known = parsed.filter(|parsed| parsed.kind != Kind::Unknown);
        match self.foreign {
            ForeignPolicy::Exclusive => Ok(parsed),
            ForeignPolicy::Reject if known.is_none() => {
                Err(LockError::Foreign { dir: dir.to_owned(), name: name.to_owned() })
            }
            ForeignPolicy::Ignore | ForeignPolicy::Reject => Ok(known),
        }
    }
}

/// Whether a number does not tell when its znode was created. At the end of a 32-bit counter all get the last number on
/// servers since 3.6 (ZOOKEEPER-3249), and negative ones on older ones.
fn is_unsure(number: i64) -> bool {
    number < 0 || number == i64::from(i32::MAX)
}

/// Whether the numbers of a sorted queue give the order of creation.
fn is_ordered(queue: &[Queued]) -> bool {
    let unsure = |queued: &Queued| is_unsure(queued.number);
    !queue.iter().any(unsure) && queue.windows(2).all(|pair| pair[0].number != pair[1].number)
}

/// A queue with the first in line first: the fewest came before it. In a circle, as of a reader that was a writer, the
/// writer behind that, and somebody without a sure number who came between their transactions, the reader is the first.
fn ranked(queue: Vec<Queued>) -> Vec<Queued> {
    let before = |queued: &Queued| queue.iter().filter(|other| other.is_before(queued)).count();
    let ranks: Vec<_> = queue.iter().map(before).collect();
    let mut ranked: Vec<_> = ranks.into_iter().zip(queue).collect();
    ranked.sort_by(|(rank, one), (other_rank, other)| {
        (rank, one.kind, one.made()).cmp(&(other_rank, other.kind, other.made()))
    });
    ranked.into_iter().map(|(_, queued)| queued).collect()
}

/// How many contenders have these znodes, each of which may have several: under two names, and in several directories.
pub(crate) fn count(mut znodes: Vec<Option<u128>>) -> usize {
    znodes.sort_unstable();
    znodes.dedup_by(|one, other| one.is_some() && one == other);
    znodes.len()
}

/// Those in front of the `at`-th of a queue for whom it waits, nearest last.
pub(crate) fn in_the_way(queue: &[Queued], at: usize, role: Role) -> impl Iterator<Item = &Queued> {
    queue[..at].iter().filter(move |other| role.waits_for(other.kind))
}

/// The path of a child of `dir`.
pub(crate) fn child(dir: &str, name: &str) -> String {
    if dir == "/" { format!("/{name}") } else { format!("{dir}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(numbers: &[i64]) -> Vec<Queued> {
        let queued = |number: &i64| queued(Kind::Exclusive, *number, 0);
        numbers.iter().map(queued).collect()
    }

    fn queued(kind: Kind, number: i64, czxid: i64) -> Queued {
        Queued { name: String::new(), kind, number, czxid }
    }

    #[test]
    fn numbers_order_contenders_only_while_each_is_there_once_and_none_is_negative() {
        assert!(is_ordered(&queue(&[])));
        assert!(is_ordered(&queue(&[1, 2, 3])));
        assert!(!is_ordered(&queue(&[5, 5])));
        assert!(!is_ordered(&queue(&[5, 2_147_483_647])), "one created later may be gone");
        assert!(is_ordered(&queue(&[2_147_483_646, 2_147_483_648])));
        assert!(!is_ordered(&queue(&[-5, 1])));
    }

    #[test]
    fn a_reader_waits_for_writers_and_a_writer_for_everybody() {
        let mut queue = queue(&[1, 2, 3]);
        queue[1].kind = Kind::Shared;
        let numbers = |role| in_the_way(&queue, 2, role).map(|queued| queued.number).collect::<Vec<_>>();
        assert_eq!(numbers(Role::Shared), [1]);
        assert_eq!(numbers(Role::Exclusive), [1, 2]);
    }

    #[test]
    fn of_two_contenders_sure_numbers_decide_and_else_their_transactions() {
        let before = |one: (i64, i64), other: (i64, i64)| {
            let queued = |(number, czxid)| queued(Kind::Shared, number, czxid);
            (queued(one).is_before(&queued(other)), queued(other).is_before(&queued(one)))
        };
        assert_eq!(before((0, 9), (1, 5)), (true, false), "a writer that became a reader");
        assert_eq!(before((4, 5), (4, 9)), (true, false), "equal numbers");
        assert_eq!(before((-5, 9), (4, 5)), (false, true), "no sure number");
        assert_eq!(before((4, 9), (2_147_483_647, 5)), (false, true), "the last number");
    }

    #[test]
    fn a_list_begins_with_those_before_whom_nobody_is_and_in_a_circle_with_the_reader() {
        let reader = queued(Kind::Shared, 0, 9);
        let (writer, odd) = (queued(Kind::Exclusive, 1, 5), queued(Kind::Unknown, -7, 6));
        let late = queued(Kind::Exclusive, 3, 12);
        let list = ranked(vec![late.clone(), odd.clone(), writer.clone(), reader.clone()]);
        assert_eq!(list, [reader, writer, odd, late]);
    }
}
