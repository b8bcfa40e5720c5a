//! The queue of a directory: who is in line, in which order, and who is in whose way.

use zoolet_client::{Error, Stat};

use crate::error::LockError;
use crate::name::{self, Kind};
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
    fn waits_for(self, other: &Queued) -> bool {
        self == Self::Exclusive || other.kind != Kind::Shared
    }
}

impl Setup {
    /// Who of `names`, the children of `dir`, is in line, first in line first.
    pub(crate) async fn queue(&self, dir: &str, names: Vec<String>) -> Result<Vec<Queued>, LockError> {
        let mut queue = Vec::with_capacity(names.len());
        for name in names {
            let parsed = name::parse(&name);
            let known = parsed.filter(|parsed| parsed.kind != Kind::Unknown);
            let counts = match self.foreign {
                ForeignPolicy::Exclusive => parsed,
                ForeignPolicy::Ignore => known,
                ForeignPolicy::Reject if known.is_some() => known,
                ForeignPolicy::Reject => return Err(LockError::Foreign { dir: dir.to_owned(), name }),
            };
            if let Some(parsed) = counts {
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

/// Whether the numbers of a sorted queue give the order of creation: each once, none negative. Near the end of a 32-bit
/// counter they do not: it sticks there on servers since 3.6 (ZOOKEEPER-3249), and turns negative on older ones.
fn is_ordered(queue: &[Queued]) -> bool {
    queue.first().is_none_or(|first| first.key >= 0)
        && queue.windows(2).all(|pair| pair[0].key != pair[1].key)
}

/// Those in front of the `at`-th of a queue for whom it waits, nearest last.
pub(crate) fn in_the_way(queue: &[Queued], at: usize, role: Role) -> impl Iterator<Item = &Queued> {
    queue[..at].iter().filter(move |other| role.waits_for(other))
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
        assert!(!is_ordered(&queue(&[5, 2_147_483_647, 2_147_483_647])));
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
