//! [`AclList`]: an access control list that requests, znodes, transactions and snapshots share.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use nom::Parser;

use crate::acl::Acl;
use crate::codec::{ByteSink, Codec, Parsed, put_items};

/// The open list on the wire.
const OPEN: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";

/// An access control list. A clone is the same allocation.
///
/// The open list, which gives everybody everything, needs no allocation: nearly all znodes have it, and threads of a server that
/// serve, log and write snapshots would all change its count.
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

impl Codec for Option<AclList> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        match i.strip_prefix(OPEN) {
            Some(i) => Ok((i, Some(AclList::OPEN))),
            None => Option::<Vec<Acl>>::parse.map(|list| list.map(AclList::from)).parse(i),
        }
    }

    fn put(&self, out: &mut impl ByteSink) {
        match self {
            Some(list) => put_items(list, out),
            None => (-1).put(out),
        }
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
    use bytes::BytesMut;

    use super::*;
    use crate::acl::Perms;

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

    #[test]
    fn a_list_travels_as_its_entries() {
        let lists = [AclList::OPEN, Acl::read_only().into(), Acl::creator_all().into(), Vec::new().into()];
        for list in lists.map(Some).into_iter().chain([None]) {
            let (mut wire, mut entries) = (BytesMut::new(), BytesMut::new());
            list.put(&mut wire);
            list.as_ref().map(|list| list.to_vec()).put(&mut entries);
            assert_eq!(wire, entries, "{list:?}");
            wire.extend([7]);
            let (rest, parsed) = Option::<AclList>::parse(&wire).unwrap();
            assert_eq!((rest, &parsed), (&[7][..], &list));
            assert_eq!(parsed.is_some_and(|list| list.is_open()), wire.starts_with(OPEN));
        }
    }
}
