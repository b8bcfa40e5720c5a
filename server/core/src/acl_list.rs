//! [`AclList`]: an access control list that znodes, transactions and snapshots share.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use zoolet_proto::Acl;

/// An access control list. A clone is the same allocation.
///
/// The open list, which gives everybody everything, is no allocation: nearly all znodes have it, and the threads that serve,
/// log and write snapshots would all change its count.
#[derive(Clone, PartialEq, Eq)]
pub struct AclList(
    /// `None` is the open list; no other value equals it.
    Option<Arc<[Acl]>>,
);

impl AclList {
    /// The open list: `world:anyone` with all permissions.
    pub const OPEN: Self = Self(None);

    /// Whether it is the open list.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Its address. As long as a list is held, only its clones have the same.
    pub fn address(&self) -> usize {
        self.as_ptr().addr()
    }
}

impl Deref for AclList {
    type Target = [Acl];

    fn deref(&self) -> &[Acl] {
        static OPEN: LazyLock<Vec<Acl>> = LazyLock::new(Acl::open);
        self.0.as_deref().unwrap_or(&OPEN)
    }
}

impl From<Vec<Acl>> for AclList {
    fn from(list: Vec<Acl>) -> Self {
        Self((*list != *Self::OPEN).then(|| list.into()))
    }
}

impl Borrow<[Acl]> for AclList {
    fn borrow(&self) -> &[Acl] {
        self
    }
}

impl fmt::Debug for AclList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// As that of the entries, by which tables look it up.
impl Hash for AclList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::Perms;

    use super::*;

    #[test]
    fn the_open_list_is_one_however_it_is_made() {
        let made = AclList::from(Acl::open());
        assert!(made.is_open());
        assert_eq!(*made, *Acl::open());
        assert_eq!(made.address(), AclList::OPEN.address());
        for other in [Acl::read_only(), Vec::new(), vec![Acl::new(Perms::ALL, "world", "")]] {
            let list = AclList::from(other.clone());
            assert!(!list.is_open());
            assert_eq!(*list, *other);
            assert_eq!(list.address(), list.clone().address());
            assert_ne!(list, AclList::OPEN);
        }
    }
}
