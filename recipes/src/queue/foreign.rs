//! Queues of Curator and kazoo: their items are moved into ours.

use bytes::{Buf as _, Bytes};

use super::Queue;
use super::error::QueueError;
use super::names::item_path;
use super::put::PRIORITY;
use crate::path::child;
use crate::requests::if_exists;
use crate::tickets::{TicketError, TicketTxn};

/// The queues of others whose items [`Queue::drain_from`] moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueLayout {
    /// `SimpleDistributedQueue` of Curator, and `DistributedQueue` of Apache ZooKeeper's recipes: `qn-<number>`.
    CuratorSimple,
    /// `DistributedQueue` of Curator: `queue-<number>`, with any number of items in a znode.
    CuratorDistributed,
    /// `Queue` of kazoo: `entry-<priority>-<number>`.
    Kazoo,
}

/// What [`Queue::drain_from`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Drained {
    /// How many items were moved.
    pub moved: usize,
    /// The znodes that could not be decoded; they are left as they are.
    pub left: Vec<UndecodableItem>,
}

/// A znode whose name is that of an item, and its data is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {bytes} bytes that are not items: {reason}")]
#[non_exhaustive]
pub struct UndecodableItem {
    /// The path of the znode.
    pub path: String,
    /// The length of its data.
    pub bytes: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A znode of a foreign queue.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ForeignName {
    priority: u16,
    number: i32,
}

impl QueueLayout {
    fn parse(self, name: &str) -> Option<ForeignName> {
        let (priority, number) = match self {
            Self::CuratorSimple => (PRIORITY, name.strip_prefix("qn-")?),
            Self::CuratorDistributed => (PRIORITY, name.strip_prefix("queue-")?),
            Self::Kazoo => {
                let (priority, number) = name.strip_prefix("entry-")?.split_at_checked(3)?;
                (priority.parse().ok()?, number.strip_prefix('-')?)
            }
        };
        Some(ForeignName { priority, number: number.parse().ok()? })
    }

    /// The items in the data of a znode, or what is wrong with it.
    fn decode(self, data: Bytes) -> Result<Vec<Bytes>, &'static str> {
        match self {
            Self::CuratorSimple | Self::Kazoo => Ok(vec![data]),
            Self::CuratorDistributed => decode_frames(data),
        }
    }
}

/// The items of Curator's `ItemSerializer`: the version 00 01 00 01; for each item 01, its length in four bytes and its
/// bytes; 02 at the end.
fn decode_frames(mut data: Bytes) -> Result<Vec<Bytes>, &'static str> {
    const CUT: &str = "it is cut short";
    fn split(data: &mut Bytes, len: usize) -> Result<Bytes, &'static str> {
        (len <= data.len()).then(|| data.split_to(len)).ok_or(CUT)
    }
    if split(&mut data, 4)?[..] != [0, 1, 0, 1] {
        return Err("it does not begin with 00 01 00 01");
    }
    let mut items = Vec::new();
    loop {
        match data.try_get_u8().map_err(|_| CUT)? {
            1 => {
                let len = data.try_get_i32().map_err(|_| CUT)?;
                let len = usize::try_from(len).map_err(|_| "an item has a negative length")?;
                items.push(split(&mut data, len)?);
            }
            2 if data.is_empty() => return Ok(items),
            2 => return Err("there are bytes after the end"),
            _ => return Err("there is neither an item nor the end where one is expected"),
        }
    }
}

impl Queue {
    /// Moves the items that are now in the queue of another library at `dir`, in their order, each exactly once: the delete
    /// of theirs and the create of ours are one transaction. Programs may put and take there meanwhile; items that they take
    /// first are theirs. Call it again until nothing puts there any more.
    ///
    /// Consumers with locks (`lockPath` of Curator, `LockingQueue` of kazoo) must have stopped: an item that one of them holds
    /// is moved all the same.
    ///
    /// # Errors
    /// `Ticket`, `Client`; what was moved by then is moved. A znode that cannot be decoded is not an error, and is
    /// [left](Drained::left).
    /// # Ordering and cancel safety
    /// May be dropped anywhere; the next call continues.
    pub async fn drain_from(&self, dir: &str, layout: QueueLayout) -> Result<Drained, QueueError> {
        let listed = self.0.once.ask(|client| async move { client.get_children(dir).await }).await;
        let names = if_exists(listed)?.map_or_else(Vec::new, |(names, _)| names);
        let mut names: Vec<_> = names.iter().filter_map(|name| Some((layout.parse(name)?, name))).collect();
        names.sort();
        let mut drained = Drained::default();
        for (parsed, name) in names {
            match self.move_foreign(child(dir, name), parsed.priority, layout).await {
                Ok(moved) => drained.moved += moved,
                Err(TicketError::Work { ticket, cause }) => match cause.downcast_ref::<UndecodableItem>() {
                    Some(item) => drained.left.push(item.clone()),
                    None => return Err(TicketError::Work { ticket, cause }.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(drained)
    }

    /// How many items there were in the znode.
    async fn move_foreign(
        &self,
        path: String,
        priority: u16,
        layout: QueueLayout,
    ) -> Result<usize, TicketError> {
        let (path, to) = (&path, &item_path(&self.0.dirs.items, priority, 0));
        let work = |mut txn: TicketTxn| async move {
            let Some((data, _)) = txn.get_data(path).await? else { return Ok(txn.refuse("")) };
            let bytes = data.len();
            let items = layout.decode(data).map_err(|reason| UndecodableItem {
                path: path.clone(),
                bytes,
                reason,
            })?;
            let count = items.len().to_string();
            let client = txn.client().clone();
            let moved = items
                .into_iter()
                .fold(txn.delete(path), |txn, data| txn.add(self.0.dirs.create(&client, to.clone(), data)));
            Ok(moved.done(count))
        };
        let outcome = self.0.once.run(None, path.as_bytes(), work).await?;
        // Another has taken it before.
        let Ok(count) = outcome.value else { return Ok(0) };
        Ok(std::str::from_utf8(&count).ok().and_then(|count| count.parse().ok()).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(hex: &[u8]) -> Result<Vec<Bytes>, &'static str> {
        decode_frames(Bytes::copy_from_slice(hex))
    }

    #[test]
    fn items_are_read_from_the_frames_of_curator() {
        assert_eq!(frames(b"\0\x01\0\x01\x01\0\0\0\x03one\x02"), Ok(vec!["one".into()]));
        let two = b"\0\x01\0\x01\x01\0\0\0\x03one\x01\0\0\0\0\x02";
        assert_eq!(frames(two), Ok(vec!["one".into(), Bytes::new()]));
        assert_eq!(frames(b"\0\x01\0\x01\x02"), Ok(vec![]));
        for cut in 0..two.len() {
            assert!(frames(&two[..cut]).is_err(), "{cut}");
        }
        for wrong in [
            &b"\0\x01\0\x02\x02"[..],
            b"\0\x01\0\x01\x01\xff\xff\xff\xff\x02",
            b"\0\x01\0\x01\x01\x7f\xff\xff\xffone\x02",
            b"\0\x01\0\x01\x02\x02",
            b"\0\x01\0\x01\x03",
        ] {
            assert!(frames(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_of_others_are_read_with_their_priority() {
        let parsed = |layout: QueueLayout, name| layout.parse(name).map(|name| (name.priority, name.number));
        assert_eq!(parsed(QueueLayout::CuratorSimple, "qn-0000000007"), Some((100, 7)));
        assert_eq!(parsed(QueueLayout::CuratorDistributed, "queue-0000000007"), Some((100, 7)));
        assert_eq!(parsed(QueueLayout::Kazoo, "entry-005-0000000007"), Some((5, 7)));
        for name in ["qn-", "queue-|id|0000000007", "entry-5-0000000007", "lock"] {
            for layout in [QueueLayout::CuratorSimple, QueueLayout::CuratorDistributed, QueueLayout::Kazoo] {
                assert_eq!(parsed(layout, name), None, "{name}");
            }
        }
    }
}
