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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queued {
    key: i64,
    pub(crate) name: String,
    kind: Kind,
}

impl Role {
    fn waits_for(self, other: Kind) -> bool {
        self == Self::Exclusive || other != Kind::Shared
    }
}

impl Setup {
    /// Who of `names`, the children of `dir`, is in line, first in line first.
    pub(crate) async fn queue(&self, dir: &str, names: Vec<String>) -> Result<Vec<Queued>, LockError> {
        let mut queue = Vec::with_capacity(names.len());
        for name in names {
            if let Some(parsed) = self.counts(dir, &name)? {
                queue.push(Queued { key: parsed.sequence, name, kind: parsed.kind });
            }
        }
        queue.sort_unstable();
        if !is_ordered(&queue) {
            self.use_czxids(dir, &mut queue).await?;
            queue.sort_unstable();
        }
        Ok(queue)
    }

    /// Puts the transaction that made each znode in the place of its number, which does not tell the order any more.
    /// Contenders that are gone leave the queue.
    async fn use_czxids(&self, dir: &str, queue: &mut Vec<Queued>) -> Result<(), LockError> {
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
                queued.key = stat.czxid.0;
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
    /// How many are in its way.
    pub(crate) ahead: usize,
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
        let queue = self.queue(dir, names).await?;
        let mut found = Found::default();
        let mut first = queue.len();
        for prefix in prefixes {
            let mut mine = queue.iter().enumerate().filter(|(_, queued)| queued.name.starts_with(prefix));
            let Some((at, queued)) = mine.next() else { return Ok(None) };
            first = first.min(at);
            found.mine.push(queued.name.clone());
            found.duplicates.extend(mine.map(|(_, queued)| queued.name.clone()));
        }
        found.beside = queue.iter().any(|queued| Some(queued.name.as_str()) == beside);
        for other in in_the_way(&queue, first, role).filter(|other| Some(other.name.as_str()) != beside) {
            found.ahead += 1;
            found.nearest = Some(other.name.clone());
        }
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
                found.ahead += 1;
                nearest = nearest.max((number, name));
            }
        }
        found.nearest = (found.ahead > 0).then(|| nearest.1.to_owned());
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
    let unsure = |queued: &Queued| is_unsure(queued.key);
    !queue.iter().any(unsure) && queue.windows(2).all(|pair| pair[0].key != pair[1].key)
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

    fn queue(keys: &[i64]) -> Vec<Queued> {
        let queued = |key: &i64| Queued { key: *key, name: String::new(), kind: Kind::Exclusive };
        keys.iter().map(queued).collect()
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
        let keys = |role| in_the_way(&queue, 2, role).map(|queued| queued.key).collect::<Vec<_>>();
        assert_eq!(keys(Role::Shared), [1]);
        assert_eq!(keys(Role::Exclusive), [1, 2]);
    }
}
