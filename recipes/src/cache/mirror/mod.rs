//! The algorithm of a cache as a state machine without I/O: items of a feed in, requests and snapshots out.
//!
//! Why a published snapshot is exact. A server executes reads between transactions, so a reply shows the state at the zxid
//! in its header, its *label*. An event comes before every reply whose label is its transaction or later. Let F be the highest
//! label on a connection whose watch is armed, and let no read be outstanding. A znode that the map has was read at some
//! r ≤ F; a change of it between r and F would have sent an event, and the event a read. A znode that the map lacks was not
//! in the listing of its parent at some s ≤ F, or its parent was created under the watch, when it had no children; a
//! creation after that would have sent an event. So the map is the subtree at F, by induction over its depth.
//!
//! A deletion is known from its event alone, so a label that comes after the event is needed all the same: F is not the
//! zxid of an event, as more events of its transaction may follow.
//!
//! Three rules make that induction hold, and each is easy to lose:
//!
//! - A znode that is known from a change of its data alone must be listed all the same, or the children that it had before
//!   are never found.
//! - After a lost connection, or lost events, the work begins from the last snapshot and not from the half-updated map:
//!   there a znode may be up to date whose children are known from events alone.
//! - What is compared is (czxid, mzxid), and pzxid for children, as the last snapshot has them. Versions begin anew with a new
//!   znode, and may be equal.

mod events;
mod reads;
mod step;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;
use zoolet_client::internal::NameList;
use zoolet_client::{Stat, Zxid};

use super::change::CacheChange;
use super::entry::{Undecodable, UnreadableReason};
use super::scope::Scope;
use super::snapshot::{Nodes, Snapshot};

/// How to make a value of the data of a znode.
pub(super) type Decoder<T> = Arc<dyn Fn(&str, &[u8]) -> Result<T, Undecodable> + Send + Sync>;

/// What a cache is of.
pub(super) struct MirrorConfig<T> {
    pub(super) scope: Scope,
    pub(super) decode: Decoder<T>,
    /// Whether to read the data, or the Stat alone.
    pub(super) reads_data: bool,
    pub(super) max_nodes: usize,
    pub(super) max_bytes: usize,
}

/// A snapshot, and what led to it from the one before.
pub(super) type Step<T> = (Arc<Snapshot<T>>, Vec<CacheChange<T>>);

/// How the server reports changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchStyle {
    /// One persistent recursive watch.
    Tree,
    /// A one-shot watch on the data and one on the children of each znode, set by the reads.
    OneShot,
}

/// A read to send.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Read {
    /// Data and Stat, or Stat alone if the cache keeps no data.
    Data(Arc<str>),
    /// The names of the children.
    List(Arc<str>),
    /// The Stat, to compare with what is known.
    Check(Arc<str>),
    /// Anything: only its label counts.
    Label(Arc<str>),
}

impl Read {
    pub(super) fn path(&self) -> &Arc<str> {
        match self {
            Self::Data(path) | Self::List(path) | Self::Check(path) | Self::Label(path) => path,
        }
    }
}

/// The reply to a [`Read`].
#[derive(Debug)]
pub(super) enum ReadReply<'r> {
    Data(&'r [u8], Stat),
    Stat(Stat),
    Children(&'r NameList, Stat),
    Absent,
    Unreadable(UnreadableReason),
}

/// The reads of a path that are queued or in flight. Never two of a kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outstanding {
    data: bool,
    list: bool,
    check: bool,
    /// The transaction of the latest event, if it named one: a read that shows less is repeated.
    event: Zxid,
}

pub(super) struct Mirror<T> {
    config: MirrorConfig<T>,
    style: WatchStyle,
    /// The last snapshot; what a connection begins with. `None` before the first.
    base: Option<Arc<Snapshot<T>>>,
    /// The pzxid of each znode of the base whose children had changed since its Stat was read; 0 if unknown.
    base_pzxids: HashMap<Arc<str>, Zxid>,
    nodes: Nodes<T>,
    bytes: usize,
    pass: Pass,
    epoch: u64,
    stale_since: Option<Instant>,
}

/// The comparison with the server of one connection: what is given up if events are lost, and begun anew from the base.
#[derive(Default)]
struct Pass {
    /// Paths that may differ from the base.
    touched: BTreeSet<Arc<str>>,
    outstanding: HashMap<Arc<str>, Outstanding>,
    queue: VecDeque<Read>,
    /// Znodes whose children were neither listed nor announced by events since their creation.
    unlisted: BTreeSet<Arc<str>>,
    unreadable: BTreeMap<Arc<str>, UnreadableReason>,
    /// The next znode of the base to compare comes after this. `None` if all are.
    cursor: Option<Bound<Arc<str>>>,
    /// The pzxid of each znode whose children have changed since its Stat was read, as of now; 0 if unknown. That of the base is
    /// in [`Mirror`], as it outlives a connection.
    pzxids: HashMap<Arc<str>, Zxid>,
    /// The highest label on this connection.
    frontier: Zxid,
    /// An event has come, and no label since: the frontier is from before its transaction, of which more events may come.
    unlabelled: bool,
    /// A read for its label alone is in flight.
    asks_label: bool,
    /// The watches of this connection are set.
    armed: bool,
}

impl<T> Mirror<T> {
    pub(super) fn new(config: MirrorConfig<T>) -> Self {
        Self {
            config,
            style: WatchStyle::Tree,
            base: None,
            base_pzxids: HashMap::new(),
            nodes: Nodes::new_sync(),
            bytes: 0,
            pass: Pass::default(),
            epoch: 0,
            stale_since: None,
        }
    }

    /// The servers went back to an older state: what is known is void. The last snapshot is kept to tell what went, and never
    /// worked from, as its epoch is another one.
    pub(super) fn reset(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.base_pzxids.clear();
    }

    /// Begins to compare with the server of a new connection, or after events were lost: from the last snapshot, in the order
    /// of its paths. Before the first one, from the root.
    pub(super) fn begin(&mut self, style: WatchStyle) {
        let base = self.working_base();
        let base = base.map_or_else(|| Snapshot::empty(self.epoch), |base| (**base).clone());
        self.style = style;
        (self.nodes, self.bytes) = (base.nodes, base.bytes);
        self.pass = Pass {
            unreadable: (*base.unreadable).clone(),
            // One-shot watches are set anew by a request that also tells what has changed.
            cursor: (style == WatchStyle::Tree).then_some(Bound::Unbounded),
            ..Pass::default()
        };
        if !self.nodes.contains_key(&*self.config.scope.root) {
            self.find(Arc::clone(&self.config.scope.root));
        }
        self.ask_for_unreadable();
    }

    /// The watches of this connection are set.
    pub(super) fn armed(&mut self) {
        self.pass.armed = true;
    }

    /// The snapshot to work from.
    fn working_base(&self) -> Option<&Arc<Snapshot<T>>> {
        self.base.as_ref().filter(|base| base.epoch == self.epoch)
    }

    /// Reads again what could not be read.
    pub(super) fn ask_for_unreadable(&mut self) {
        for path in self.pass.unreadable.keys().cloned().collect::<Vec<_>>() {
            self.ask_data(&path);
        }
    }

    pub(super) fn has_unreadable(&self) -> bool {
        !self.pass.unreadable.is_empty()
    }

    /// The zxid since which to ask for changes, and the znodes that were known then: what one-shot watches are set on.
    pub(super) fn known(&self) -> Option<(Zxid, &Nodes<T>)> {
        self.working_base().map(|base| (base.as_of, &base.nodes))
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn style(&self) -> WatchStyle {
        self.style
    }

    pub(super) fn root(&self) -> &str {
        &self.config.scope.root
    }
}

#[cfg(test)]
mod tests;
