//! The names of the znodes of a queue.
//!
//! ```text
//! <path>/items/<priority>-<deliveries>-<number>           an item; <deliveries> are those before it got this name
//! <path>/taken/<name of the item>                         ephemeral: somebody holds the item
//! <path>/delayed/<due>-<priority>-<deliveries>-<number>   not before <due>: milliseconds since the Unix epoch, 16 hex digits
//! <path>/dead/<priority>-<deliveries>-<number>            given up
//! <path>/tickets                                          the records of puts
//! ```
//!
//! A priority has three digits, the lowest comes first. The numbers are those of sequential znodes.

use bytes::Bytes;
use zoolet_client::{Acl, Client, MultiWrite};

use crate::path::{child, digits};

/// The lowest priority.
pub(super) const LAST: u16 = 999;

/// The paths of a queue's directories, and the ACL of everything in them.
#[derive(Debug)]
pub(super) struct QueueDirs {
    pub(super) root: String,
    pub(super) items: String,
    pub(super) taken: String,
    pub(super) delayed: String,
    pub(super) dead: String,
    pub(super) tickets: String,
    pub(super) acl: Vec<Acl>,
}

impl QueueDirs {
    pub(super) fn of(root: String, acl: Vec<Acl>) -> Self {
        let [items, taken, delayed, dead, tickets] =
            ["items", "taken", "delayed", "dead", "tickets"].map(|name| child(&root, name));
        Self { root, items, taken, delayed, dead, tickets, acl }
    }

    /// The create of an item; `path` is that of its name without a number.
    pub(super) fn create(&self, client: &Client, path: String, data: Bytes) -> MultiWrite {
        client.create(path, data).sequential().acl(self.acl.clone()).into()
    }
}

/// What the name of an item says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemName {
    pub(super) priority: u16,
    number: i32,
    /// The deliveries before it got this name.
    pub(super) deliveries: u32,
}

impl ItemName {
    /// `None` for a name that is not of a queue.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (priority, rest) = name.split_at_checked(3)?;
        let (deliveries, number) = rest.strip_prefix('-')?.split_once('-')?;
        let number = number.parse().ok()?;
        Some(Self { priority: digits(priority)?, number, deliveries: digits(deliveries)? })
    }
}

/// What the name of a delayed item says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DelayedName {
    /// In milliseconds since the Unix epoch.
    pub(super) due: u64,
    pub(super) item: ItemName,
}

impl DelayedName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (due, item) = name.split_at_checked(16)?;
        let due = due.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(due)?;
        Some(Self {
            due: u64::from_str_radix(due, 16).ok()?,
            item: ItemName::parse(item.strip_prefix('-')?)?,
        })
    }
}

/// The path of an item, or a dead one, in `dir`, without its number.
pub(super) fn item_path(dir: &str, priority: u16, deliveries: u32) -> String {
    format!("{dir}/{:03}-{deliveries}-", priority.min(LAST))
}

/// The path of a delayed item without its number.
pub(super) fn delayed_path(dir: &str, due: u64, priority: u16, deliveries: u32) -> String {
    format!("{dir}/{due:016x}-{:03}-{deliveries}-", priority.min(LAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = format!("{}0000000017", &item_path("", 5, 12)[1..]);
        assert_eq!(name, "005-12-0000000017");
        let item = ItemName { priority: 5, number: 17, deliveries: 12 };
        assert_eq!(ItemName::parse(&name), Some(item));
        assert_eq!(item_path("", 1000, 0), "/999-0-");
        let name = format!("{}-2147483648", &delayed_path("", 0x1234, 5, 12)[1..]);
        assert_eq!(name, "0000000000001234-005-12--2147483648");
        let delayed = DelayedName::parse(&name).unwrap();
        assert_eq!((delayed.due, delayed.item.priority, delayed.item.number), (0x1234, 5, i32::MIN));
    }

    #[test]
    fn items_come_by_priority_and_then_by_number() {
        let mut names = ["100-0-0000000001", "005-0-0000000003", "005-9-0000000002"];
        names.sort_by_key(|name| ItemName::parse(name));
        assert_eq!(names, ["005-9-0000000002", "005-0-0000000003", "100-0-0000000001"]);
    }

    #[test]
    fn other_names_are_not_items() {
        for name in ["", "lock", "queue-0000000001", "100-0000000001", "1-0-0000000001", "+01-0-1", "äöü-0-1"]
        {
            assert_eq!(ItemName::parse(name), None, "{name}");
            assert_eq!(DelayedName::parse(name), None, "{name}");
        }
        assert_eq!(DelayedName::parse("+000000000001234-005-12-0000000000"), None);
    }
}
