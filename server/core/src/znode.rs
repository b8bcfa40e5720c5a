//! [`Znode`], and who owns it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{Acl, AclList, NameList, SessionId, Stat, WeakNameList, Zxid, path};

use crate::nodes::NodeIndex;
use crate::paths::paths_after;

/// The owner of a znode, which decides when it is deleted, in the form that ZooKeeper stores (`EphemeralType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner(i64);

impl Owner {
    /// None: the znode stays until a client deletes it.
    pub const PERSISTENT: Self = Self(0);
    /// None, for a container: it is deleted some time after its last child.
    pub const CONTAINER: Self = Self(i64::MIN);
    /// The longest time to live, in milliseconds: five bytes are stored.
    pub const MAX_TTL: i64 = 0xff_ffff_ffff;

    const TTL_MARK: i64 = 0xff << 56;

    /// The owner that is stored as `code` (`ephemeralOwner` on disk).
    pub const fn from_code(code: i64) -> Self {
        Self(code)
    }

    /// What is stored for it.
    pub const fn code(self) -> i64 {
        self.0
    }

    /// A session: the znode is deleted with it.
    pub fn session(id: SessionId) -> Self {
        Self(id.0)
    }

    /// None, for a TTL znode: it is deleted after `ttl` milliseconds without a child or a setData.
    ///
    /// `None` unless `ttl` is between 1 and [`Owner::MAX_TTL`].
    pub fn ttl(ttl: i64) -> Option<Self> {
        (1..=Self::MAX_TTL).contains(&ttl).then_some(Self(Self::TTL_MARK | ttl))
    }

    /// The time to live in milliseconds, of a TTL znode.
    pub fn as_ttl(self) -> Option<i64> {
        (self.0 & !Self::MAX_TTL == Self::TTL_MARK).then_some(self.0 & Self::MAX_TTL)
    }

    /// The session, of an ephemeral.
    pub fn as_session(self) -> Option<SessionId> {
        let ordinary = self != Self::PERSISTENT && self != Self::CONTAINER && self.as_ttl().is_none();
        ordinary.then_some(SessionId(self.0))
    }
}

/// What is below a znode.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// The full paths of the children, each shared with the child.
    pub(crate) paths: BTreeSet<Arc<str>>,
    /// How many descendants there are.
    pub(crate) descendants: usize,
    /// The bytes of their data.
    pub(crate) bytes: usize,
    /// The bytes of the names of the children.
    name_bytes: usize,
    /// The last list of the names, as long as a reply with it is on its way and no child comes or goes.
    names: WeakNameList,
    /// The zxid of the last change of the list; at first that of the znode's creation.
    pub(crate) pzxid: Zxid,
    /// How many children were ever created: the counter of sequential names. It is wider than ZooKeeper's, which saturates and
    /// then yields equal names.
    pub(crate) creates: i64,
}

impl Children {
    /// Keeps a list of the names for later replies.
    pub(crate) fn keep(&mut self, names: &NameList) {
        self.names = names.downgrade();
    }

    pub(crate) fn insert(&mut self, path: &Arc<str>) {
        self.names = WeakNameList::default();
        if self.paths.insert(Arc::clone(path)) {
            self.name_bytes += path::name(path).len();
        }
    }

    /// Inserts paths that it does not have, sorted.
    pub(crate) fn insert_sorted(&mut self, paths: Vec<Arc<str>>) {
        self.names = WeakNameList::default();
        self.name_bytes += paths.iter().map(|path| path::name(path).len()).sum::<usize>();
        self.paths.append(&mut paths.into_iter().collect());
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.names = WeakNameList::default();
        if self.paths.remove(path) {
            self.name_bytes -= path::name(path).len();
        }
        if self.paths.is_empty() {
            // An empty tree that had an element keeps memory for others.
            self.paths = BTreeSet::new();
        }
    }
}

/// A znode. 128 bytes, aligned to cache lines: one that is in no cache costs two lines and not three.
#[derive(Debug)]
#[repr(align(64))]
pub struct Znode {
    pub(crate) path: Arc<str>,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: AclList,
    /// Boxed, as most znodes never have any. Stays after the last child.
    pub(crate) children: Option<Box<Children>>,
    pub(crate) parent: NodeIndex,
    /// The checksum of path and data, if the tree keeps a digest. It takes four bytes that were padding.
    pub(crate) checksum: u32,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: Owner,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Option<Znode>>() == 128);

impl Znode {
    pub(crate) fn new(
        path: Arc<str>,
        data: Option<Bytes>,
        acl: AclList,
        owner: Owner,
        zxid: Zxid,
        time: i64,
    ) -> Self {
        Self {
            path,
            data,
            acl,
            children: None,
            parent: NodeIndex::NONE,
            checksum: 0,
            czxid: zxid,
            mzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            owner,
        }
    }

    /// The full path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The data; null is not empty.
    pub fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// The access control list.
    pub fn acl(&self) -> &[Acl] {
        &self.acl
    }

    /// Its owner, which decides when it is deleted.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The full paths of the children, sorted.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        static NONE: BTreeSet<Arc<str>> = BTreeSet::new();
        self.children.as_ref().map_or(&NONE, |children| &children.paths).iter()
    }

    /// The full paths of the children after a path, sorted.
    pub fn children_after(&self, after: Option<&str>) -> impl Iterator<Item = &Arc<str>> {
        self.children.iter().flat_map(move |children| paths_after(&children.paths, after))
    }

    pub(crate) fn has_children(&self) -> bool {
        self.children.as_ref().is_some_and(|children| !children.paths.is_empty())
    }

    /// The names of the children, sorted, and whether they are worth keeping: they are many, and not kept yet.
    pub(crate) fn names(&self) -> (NameList, bool) {
        const MANY: usize = 64;
        const LENGTH: usize = 4;
        let Some(children) = self.children.as_deref() else { return Default::default() };
        if let Some(names) = children.names.upgrade() {
            return (names, false);
        }
        let Children { paths, name_bytes, .. } = children;
        // The position of the last slash is the same in all paths.
        let above = paths.first().map_or(0, |path| path.len() - path::name(path).len());
        let names = paths.iter().map(|path| path.get(above..).unwrap_or_default());
        (NameList::with_encoded_len(name_bytes + LENGTH * paths.len(), names), paths.len() >= MANY)
    }

    /// The number of descendants.
    pub fn descendants(&self) -> usize {
        self.children.as_ref().map_or(0, |children| children.descendants)
    }

    /// The bytes of its data and that of its descendants.
    pub fn subtree_bytes(&self) -> usize {
        self.data_len() + self.children.as_ref().map_or(0, |children| children.bytes)
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }

    /// Its children. Makes the box if it has none yet.
    pub(crate) fn children_mut(&mut self) -> &mut Children {
        let pzxid = self.czxid;
        self.children.get_or_insert_with(|| Box::new(Children { pzxid, ..Children::default() }))
    }

    /// How many children were ever created.
    pub(crate) fn creates(&self) -> i64 {
        self.children.as_ref().map_or(0, |children| children.creates)
    }

    /// The last change of the list of children, or its own creation.
    pub(crate) fn pzxid(&self) -> Zxid {
        self.children.as_ref().map_or(self.czxid, |children| children.pzxid)
    }

    /// The metadata that clients see (`DataNode.copyStat`). Its counters have 32 bits and wrap.
    pub fn stat(&self) -> Stat {
        let children = self.children().len() as i32;
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: (self.creates() as i32).wrapping_mul(2).wrapping_sub(children),
            aversion: self.aversion,
            ephemeral_owner: self.owner.as_session().unwrap_or_default(),
            data_length: self.data_len() as i32,
            num_children: children,
            pzxid: self.pzxid(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_stored_as_zookeeper_stores_it() {
        assert_eq!(Owner::CONTAINER.0, i64::MIN);
        assert_eq!(Owner::ttl(5_000).unwrap().0, -0x0100_0000_0000_0000 | 5_000);
        assert_eq!(Owner::ttl(Owner::MAX_TTL).unwrap().as_ttl(), Some(Owner::MAX_TTL));
        assert_eq!((Owner::ttl(0), Owner::ttl(Owner::MAX_TTL + 1)), (None, None));
        let session = SessionId(0x0100_0016_3e86_0000);
        assert_eq!(Owner::session(session).as_session(), Some(session));
        assert_eq!(Owner::CONTAINER.as_session(), None);
        let of_server_255 = SessionId(-0x0100_0000_0000_0000 | 0x16_3e86_0000_0000);
        assert_eq!(
            Owner::session(of_server_255).as_session(),
            Some(of_server_255),
            "the bytes between are in use"
        );
    }
}
