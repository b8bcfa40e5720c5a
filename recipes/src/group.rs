//! [`Group`]: programs that know of each other.

use bytes::Bytes;
use zoolet_client::{Error, SessionId, Sessions, Zxid};

use crate::cache::{Cache, CacheError, Entry};
use crate::keep_node::{KeepNode, KeepNodeBuilder};
use crate::path::child;
use crate::unique::unique_number;

/// A group of programs: each has a znode in a directory as long as it is a member, and each can see the others.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::Group;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let group = Group::new(&sessions, "/workers");
/// let membership = group.member("worker-7").await?.data("10.0.0.7:80").start()?;
/// let members = group.members().await?;
/// membership.present().await?;
/// members.cache().fresh().await?;                              // this program is among them now
/// for member in members.list() {
///     println!("{} at {:?} since {}", member.id, member.data, member.joined);
/// }
/// membership.close().await?;
/// # Ok(()) }
/// ```
///
/// A member is a [`KeepNode`], which joins again after an expiry. The members are a [`Cache`]: its snapshots show who was a member at one
/// moment, so that programs that decide by a snapshot of the same zxid decide alike.
#[derive(Debug, Clone)]
pub struct Group {
    sessions: Sessions,
    dir: String,
    layout: GroupLayout,
}

/// How the members of a [`Group`] are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupLayout {
    /// The znode is named after the id, as by Curator's `GroupMember`. Two programs with one id are one member: the second joins
    /// when the first is gone.
    #[default]
    Named,
    /// A random name and `__party__`, with the id as the data, as by kazoo's `Party`. Others in the directory are not members. Every
    /// program is a member of its own.
    Party,
    /// A random name, `-` and the id, as by kazoo's `ShallowParty`. Everything in the directory is a member. Every program is
    /// a member of its own.
    ShallowParty,
}

/// The members of a [`Group`], in memory.
#[derive(Debug, Clone)]
pub struct Members {
    cache: Cache,
    dir: String,
    layout: GroupLayout,
}

/// A member of a [`Group`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its id.
    pub id: String,
    /// The data of its znode; in the layouts of kazoo, the id.
    pub data: Bytes,
    /// The transaction by which it has joined.
    pub joined: Zxid,
    /// Its session.
    pub session: SessionId,
}

impl Group {
    /// The group in the directory `dir`, with the layout [`Named`](GroupLayout::Named).
    pub fn new(sessions: &Sessions, dir: impl Into<String>) -> Self {
        Self { sessions: sessions.clone(), dir: dir.into(), layout: GroupLayout::default() }
    }

    /// The same with another layout. All members must have the same.
    pub fn layout(mut self, layout: GroupLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Begins to configure a membership under this id: the group is joined by [`start`](KeepNodeBuilder::start), and left when the
    /// [`KeepNode`] is closed. Waits for a session, as a random name must be unique among sessions.
    ///
    /// # Errors
    /// There will be no other session.
    pub async fn member(&self, id: impl Into<String>) -> Result<KeepNodeBuilder, Error> {
        let id = id.into();
        let (node, data) = match self.layout {
            GroupLayout::Named => (id, Bytes::new()),
            GroupLayout::Party => (format!("{}__party__", self.random_name().await?), id.into()),
            GroupLayout::ShallowParty => (format!("{}-{id}", self.random_name().await?), id.into()),
        };
        Ok(KeepNode::builder(&self.sessions, child(&self.dir, &node)).data(data))
    }

    async fn random_name(&self) -> Result<String, Error> {
        let client = self.sessions.client().await?;
        Ok(format!("{:032x}", unique_number(&client)))
    }

    /// Reads who is a member, and follows the changes. Without a connection it waits for one.
    ///
    /// # Errors
    /// As [`CacheBuilder::open`](crate::CacheBuilder::open).
    pub async fn members(&self) -> Result<Members, CacheError> {
        let cache = Cache::builder(&self.sessions, &self.dir).max_depth(1).open().await?;
        Ok(Members { cache, dir: self.dir.clone(), layout: self.layout })
    }
}

impl Members {
    /// The members at present, sorted by id. It has its own program only if that has joined, by the server's word.
    pub fn list(&self) -> Vec<Member> {
        let snapshot = self.cache.snapshot();
        let mut members: Vec<_> =
            snapshot.children(&self.dir).filter_map(|entry| self.layout.member(entry)).collect();
        members.sort_by(|one, other| (&one.id, one.joined).cmp(&(&other.id, other.joined)));
        members
    }

    /// The cache: its [changes](Cache::changes), and how [fresh](Cache::fresh) it is.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

impl GroupLayout {
    /// The member in a znode; `None` if that is not one.
    fn member(self, entry: &Entry<Bytes>) -> Option<Member> {
        // Bytes are always decoded.
        let data = entry.value().ok()?.clone();
        let id = match self {
            Self::Named => entry.name().to_owned(),
            Self::Party if !entry.name().contains("__party__") => return None,
            Self::Party => String::from_utf8_lossy(&data).into_owned(),
            Self::ShallowParty => entry.name().split_once('-').map_or(entry.name(), |(_, id)| id).to_owned(),
        };
        let stat = entry.stat();
        Some(Member { id, data, joined: stat.czxid, session: stat.ephemeral_owner })
    }
}
