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

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;
use zoolet_client::internal::{FeedRequest, NameList};
use zoolet_client::{EventType, Stat, WatchEvent, Zxid, path as znode_path};

use super::change::{CacheChange, between};
use super::entry::{Entry, Undecodable, UnreadableReason};
use super::error::CacheError;
use super::scope::{Scope, child_path};
use super::snapshot::{Nodes, Snapshot, below, children};

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
    nodes: Nodes<T>,
    bytes: usize,
    /// Paths that may differ from the base.
    touched: BTreeSet<Arc<str>>,
    outstanding: HashMap<Arc<str>, Outstanding>,
    queue: VecDeque<Read>,
    /// Znodes whose children were neither listed nor announced by events since their creation.
    unlisted: BTreeSet<Arc<str>>,
    unreadable: BTreeMap<Arc<str>, UnreadableReason>,
    unreadable_changed: bool,
    /// The next znode of the base to compare comes after this. `None` if all are.
    cursor: Option<Bound<Arc<str>>>,
    /// The pzxid of each znode whose children have changed since its Stat was read; 0 if unknown. Those as of the base, and
    /// those since: they go back with it.
    base_pzxids: HashMap<Arc<str>, Zxid>,
    pzxids: HashMap<Arc<str>, Zxid>,
    /// The highest label on this connection.
    frontier: Zxid,
    /// An event has come, and no label since: the frontier is from before its transaction, of which more events may come.
    unlabelled: bool,
    /// A read for its label alone is in flight.
    asks_label: bool,
    /// The watches of this connection are set.
    armed: bool,
    epoch: u64,
    stale_since: Option<Instant>,
}

impl<T> Mirror<T> {
    pub(super) fn new(config: MirrorConfig<T>, epoch: u64) -> Self {
        Self {
            config,
            style: WatchStyle::Tree,
            base: None,
            nodes: Nodes::new_sync(),
            bytes: 0,
            touched: BTreeSet::new(),
            outstanding: HashMap::new(),
            queue: VecDeque::new(),
            unlisted: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            unreadable_changed: false,
            cursor: None,
            base_pzxids: HashMap::new(),
            pzxids: HashMap::new(),
            frontier: Zxid(0),
            unlabelled: false,
            asks_label: false,
            armed: false,
            epoch,
            stale_since: None,
        }
    }

    // The life of a connection.

    /// The servers went back to an older state: what is known is void. The last snapshot is kept to tell what went, and never
    /// worked from, as its epoch is another one.
    pub(super) fn reset(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.base_pzxids.clear();
    }

    /// Begins to compare with the server of a new connection, or after events were lost: from the last snapshot, in the order
    /// of its paths. Before the first one, from the root.
    pub(super) fn begin(&mut self, style: WatchStyle) {
        let base = self.working_base().cloned();
        self.style = style;
        self.armed = false;
        self.frontier = Zxid(0);
        (self.unlabelled, self.asks_label) = (false, false);
        self.nodes = base.as_ref().map_or_else(Nodes::new_sync, |base| base.nodes.clone());
        self.bytes = base.as_ref().map_or(0, |base| base.bytes);
        self.unreadable = base.as_ref().map_or_else(BTreeMap::new, |base| (*base.unreadable).clone());
        self.unreadable_changed = false;
        self.touched.clear();
        self.outstanding.clear();
        self.queue.clear();
        self.unlisted.clear();
        self.pzxids.clear();
        // One-shot watches are set anew by a request that also tells what has changed.
        self.cursor = (style == WatchStyle::Tree).then_some(Bound::Unbounded);
        if !self.nodes.contains_key(&*self.config.scope.root) {
            self.find(Arc::clone(&self.config.scope.root));
        }
        self.ask_for_unreadable();
    }

    /// The watches of this connection are set.
    pub(super) fn armed(&mut self) {
        self.armed = true;
    }

    /// The snapshot to work from.
    fn working_base(&self) -> Option<&Arc<Snapshot<T>>> {
        self.base.as_ref().filter(|base| base.epoch == self.epoch)
    }

    /// Reads again what could not be read: nobody reports that an ACL has changed.
    pub(super) fn ask_for_unreadable(&mut self) {
        for path in self.unreadable.keys().cloned().collect::<Vec<_>>() {
            self.find(path);
        }
    }

    pub(super) fn has_unreadable(&self) -> bool {
        !self.unreadable.is_empty()
    }

    /// The zxid since which to ask for changes, and the znodes that were known then: what one-shot watches are set on.
    pub(super) fn known(&self) -> Option<(Zxid, &Nodes<T>)> {
        self.working_base().map(|base| (base.as_of, &base.nodes))
    }

    pub(super) fn style(&self) -> WatchStyle {
        self.style
    }

    pub(super) fn root(&self) -> &str {
        &self.config.scope.root
    }

    // Reads.

    /// The request that a read is.
    pub(super) fn request_of(&self, read: &Read) -> FeedRequest {
        let watch = self.style == WatchStyle::OneShot;
        let path = (**read.path()).to_owned();
        match read {
            Read::Data(_) if self.config.reads_data => FeedRequest::GetData { path, watch },
            Read::Data(_) | Read::Check(_) => FeedRequest::Exists { path, watch },
            Read::Label(_) => FeedRequest::Exists { path, watch: false },
            Read::List(_) => FeedRequest::GetChildren { path, watch },
        }
    }

    /// The next read to send.
    pub(super) fn next_read(&mut self) -> Option<Read> {
        if let Some(read) = self.queue.pop_front() {
            return Some(read);
        }
        // A deletion needs no read. Without one, its label would come with the next ping.
        if self.unlabelled && self.outstanding.is_empty() && self.cursor.is_none() && !self.asks_label {
            self.asks_label = true;
            return Some(Read::Label(Arc::clone(&self.config.scope.root)));
        }
        let after = self.cursor.take()?;
        let base = self.working_base()?;
        let bound = after.as_ref().map(|path| &**path);
        let (path, _) = base.nodes.range::<str, _>((bound, Bound::Unbounded)).next()?;
        let path = Arc::clone(path);
        self.cursor = Some(Bound::Excluded(Arc::clone(&path)));
        // Also if its data is being read because of an event: only this compares its children.
        self.ask(&path).check = true;
        Some(Read::Check(path))
    }

    /// A read that the server did not execute is to be sent again.
    pub(super) fn send_again(&mut self, read: Read) {
        self.queue.push_back(read);
    }

    fn ask(&mut self, path: &Arc<str>) -> &mut Outstanding {
        self.outstanding.entry(Arc::clone(path)).or_default()
    }

    fn ask_data(&mut self, path: &Arc<str>) {
        if !std::mem::replace(&mut self.ask(path).data, true) {
            self.queue.push_back(Read::Data(Arc::clone(path)));
        }
    }

    fn ask_list(&mut self, path: &Arc<str>) {
        self.unlisted.remove(path);
        if self.config.scope.lists(path) && !std::mem::replace(&mut self.ask(path).list, true) {
            self.queue.push_back(Read::List(Arc::clone(path)));
        }
    }

    /// Reads a znode that is not known, and then its children.
    fn find(&mut self, path: Arc<str>) {
        self.unlisted.insert(Arc::clone(&path));
        self.ask_data(&path);
    }

    /// Whether a znode is known, or will be by a read that is outstanding.
    fn is_known(&self, path: &str) -> bool {
        let will_be = self.outstanding.get(path).is_some_and(|reads| reads.data || reads.check);
        will_be || self.nodes.contains_key(path)
    }

    /// Applies the reply to a read.
    ///
    /// # Errors
    /// The subtree is larger than the cache may be.
    pub(super) fn reply(
        &mut self,
        read: &Read,
        label: Option<Zxid>,
        reply: ReadReply<'_>,
    ) -> Result<(), CacheError> {
        let path = read.path();
        self.reached(label);
        if let Read::Label(_) = read {
            self.asks_label = false;
            return Ok(());
        }
        let event = self.answered(read);
        match (read, reply) {
            (Read::Data(_), ReadReply::Data(data, stat)) => self.put(path, stat, data),
            (Read::Data(_), ReadReply::Stat(stat)) => self.put(path, stat, &[]),
            (Read::Check(_), ReadReply::Stat(stat)) => self.compare(path, &stat),
            (Read::List(_), ReadReply::Children(names, stat)) => self.list(path, names, &stat),
            (_, ReadReply::Absent) => self.absent(path, read),
            (_, ReadReply::Unreadable(reason)) => self.cannot_read(path, read, reason),
            // The feed pairs replies with requests.
            _ => {}
        }
        // From 3.9.0 events name their transaction. The order of arrival says the same.
        if !matches!(read, Read::List(_)) && label.is_some_and(|label| label < event) {
            self.ask(path).event = event;
            self.ask_data(path);
        }
        self.check_limits()
    }

    /// Notes that a read is answered; returns the latest event of its path.
    fn answered(&mut self, read: &Read) -> Zxid {
        let path = read.path();
        let Some(reads) = self.outstanding.get_mut(path) else { return Zxid(0) };
        match read {
            Read::Data(_) => reads.data = false,
            Read::List(_) => reads.list = false,
            Read::Check(_) => reads.check = false,
            Read::Label(_) => {}
        }
        let event = reads.event;
        if !matches!(read, Read::List(_)) {
            reads.event = Zxid(0);
        }
        if *reads == Outstanding::default() {
            self.outstanding.remove(path);
        }
        event
    }

    /// A reply, or a ping, shows that the server has applied this.
    pub(super) fn reached(&mut self, label: Option<Zxid>) {
        if let Some(label) = label {
            self.frontier = self.frontier.max(label);
            self.unlabelled = false;
        }
    }

    /// A znode and its data.
    fn put(&mut self, path: &Arc<str>, stat: Stat, data: &[u8]) {
        let old = self.nodes.get(path).cloned();
        let is_new = old.as_ref().is_none_or(|old| old.stat().czxid != stat.czxid);
        if is_new && old.is_some() {
            self.drop_older_below(path, stat.czxid);
        }
        // A znode that is as it was keeps its entry, and its value.
        let is_same = !is_new && old.as_ref().is_some_and(|old| old.stat().mzxid == stat.mzxid);
        if !is_same {
            let value = (self.config.decode)(path, data);
            self.bytes = self.bytes + data.len() - old.map_or(0, |old| old.size());
            let entry = Entry::new(Arc::clone(path), stat, value, data.len());
            self.nodes.insert_mut(Arc::clone(path), Arc::new(entry));
            self.touch(path);
        }
        if is_same || self.base_pzxids.contains_key(path) {
            self.pzxids.insert(Arc::clone(path), stat.pzxid);
        } else {
            self.pzxids.remove(path);
        }
        if self.unreadable.remove(path).is_some() {
            self.unreadable_changed = true;
        }
        // With one watch per znode, a child watch is set by listing, also where there is no child. Under a recursive watch the
        // children of a znode that was created under it come by events.
        let lists = match self.style {
            WatchStyle::OneShot => is_new || self.unlisted.contains(path),
            WatchStyle::Tree => self.unlisted.contains(path) && stat.num_children > 0,
        };
        if lists {
            self.ask_list(path);
        } else {
            self.unlisted.remove(path);
        }
    }

    /// A Stat, beside what the base has: not beside the map, where an event or a read of this connection may have moved
    /// pzxid already, and hides that children came or went before the watch was set.
    fn compare(&mut self, path: &Arc<str>, stat: &Stat) {
        let old = self.working_base().and_then(|base| base.nodes.get(path)).map(|old| *old.stat());
        let Some(old) = old else {
            // The root, which was absent.
            return self.find(Arc::clone(path));
        };
        // Another znode in its place has a later mzxid and a later pzxid, too.
        if self.nodes.get(path).is_none_or(|now| now.stat().mzxid != stat.mzxid) {
            self.ask_data(path);
        }
        let pzxid = self.base_pzxids.get(path).copied().unwrap_or(old.pzxid);
        if pzxid != stat.pzxid {
            self.ask_list(path);
        }
    }

    /// The children of a znode.
    fn list(&mut self, path: &Arc<str>, names: &NameList, stat: &Stat) {
        self.pzxids.insert(Arc::clone(path), stat.pzxid);
        let mut listed: BTreeSet<Arc<str>> = names.iter().map(|name| child_path(path, &name)).collect();
        let known: Vec<_> = children(&self.nodes, path).map(|child| child.shared_path()).collect();
        for child in known.iter().filter(|child| !listed.contains(*child)) {
            self.remove(child);
        }
        let (prefix, end) = bounds_below(path);
        let gone: Vec<_> = self
            .unreadable
            .range::<str, _>(all_below(&prefix, &end))
            .map(|(child, _)| child)
            .filter(|child| znode_path::parent(child) == &**path && !listed.contains(*child))
            .cloned()
            .collect();
        for child in gone {
            self.remove(&child);
        }
        listed.retain(|child| self.config.scope.contains_child(child));
        for child in listed {
            if !self.is_known(&child) {
                self.find(child);
            }
        }
    }

    fn absent(&mut self, path: &Arc<str>, read: &Read) {
        self.remove(path);
        // A one-shot watch on an absent znode is set by exists alone; only the root is waited for.
        let watches = *path == self.config.scope.root && self.style == WatchStyle::OneShot;
        let is_watched = matches!(read, Read::Check(_));
        if watches && !is_watched && !std::mem::replace(&mut self.ask(path).check, true) {
            self.queue.push_back(Read::Check(Arc::clone(path)));
        }
    }

    fn cannot_read(&mut self, path: &Arc<str>, read: &Read, reason: UnreadableReason) {
        if self.unreadable.insert(Arc::clone(path), reason) != Some(reason) {
            self.unreadable_changed = true;
        }
        if matches!(read, Read::List(_)) {
            return;
        }
        // What it was may not be what it is. Its children are listed when it can be read.
        if let Some(old) = self.nodes.get(path) {
            self.bytes -= old.size();
            self.nodes.remove_mut(path);
            self.touch(path);
        }
        self.unlisted.insert(Arc::clone(path));
    }

    /// Drops a znode with everything below it.
    fn remove(&mut self, path: &Arc<str>) {
        for gone in below(&self.nodes, path).iter().chain([path]) {
            self.remove_one(gone);
        }
        self.unlisted.remove(path);
        self.unreadable_changed |= self.unreadable.remove(path).is_some();
        let (prefix, end) = bounds_below(path);
        let unlisted: Vec<_> = self.unlisted.range::<str, _>(all_below(&prefix, &end)).cloned().collect();
        for path in unlisted {
            self.unlisted.remove(&path);
        }
        let unreadable: Vec<_> = self
            .unreadable
            .range::<str, _>(all_below(&prefix, &end))
            .map(|(path, _)| path)
            .cloned()
            .collect();
        self.unreadable_changed |= !unreadable.is_empty();
        for path in unreadable {
            self.unreadable.remove(&path);
        }
    }

    fn touch(&mut self, path: &Arc<str>) {
        // Readers compare the first snapshot with nothing.
        if self.base.is_some() {
            self.touched.insert(Arc::clone(path));
        }
    }

    fn remove_one(&mut self, path: &Arc<str>) {
        if let Some(old) = self.nodes.get(path) {
            self.bytes -= old.size();
            self.nodes.remove_mut(path);
            self.touch(path);
        }
        self.pzxids.remove(path);
    }

    /// Another znode took the place of the one at `path`, at `czxid`: what was below the old one is gone.
    fn drop_older_below(&mut self, path: &str, czxid: Zxid) {
        for child in below(&self.nodes, path) {
            if self.nodes.get(&child).is_some_and(|entry| entry.stat().czxid < czxid) {
                self.remove_one(&child);
                self.unlisted.remove(&child);
            }
        }
    }

    // Events.

    /// Applies an event.
    pub(super) fn event(&mut self, event: &WatchEvent) {
        if !self.config.scope.contains(&event.path) {
            return;
        }
        let path: Arc<str> = event.path.as_str().into();
        self.unlabelled = true;
        if matches!(event.kind, EventType::NodeCreated | EventType::NodeDeleted) {
            let parent = znode_path::parent(&path);
            if parent.len() < path.len() {
                self.pzxids.insert(parent.into(), event.zxid.unwrap_or(Zxid(0)));
            }
        }
        match event.kind {
            EventType::NodeCreated => {
                if self.style == WatchStyle::Tree {
                    // It has no children yet; theirs will be events.
                    self.unlisted.remove(&path);
                    self.dirty(path, event.zxid);
                } else {
                    // The root, which was absent.
                    self.find(path);
                }
            }
            EventType::NodeDataChanged => {
                // Its children may be as old as it is: it must be listed, though a listing of its parent no longer finds it new.
                if !self.is_known(&path) {
                    self.unlisted.insert(Arc::clone(&path));
                }
                self.dirty(path, event.zxid);
            }
            EventType::NodeDeleted => {
                self.remove(&path);
                if self.style == WatchStyle::OneShot && path == self.config.scope.root {
                    self.absent(&path, &Read::Data(Arc::clone(&path)));
                }
            }
            EventType::NodeChildrenChanged
                if self.style == WatchStyle::OneShot && self.nodes.contains_key(&path) =>
            {
                self.ask_list(&path);
            }
            _ => {}
        }
    }

    /// Reads a znode that has changed, unless a read is outstanding: its reply comes after the event, so it shows the change.
    fn dirty(&mut self, path: Arc<str>, zxid: Option<Zxid>) {
        let reads = self.ask(&path);
        reads.event = reads.event.max(zxid.unwrap_or(Zxid(0)));
        // A Stat that differs leads to a read.
        if !reads.check || self.style == WatchStyle::OneShot {
            self.ask_data(&path);
        }
    }

    // Snapshots.

    /// The subtree at the frontier, if nothing is outstanding, with what has changed since the last snapshot.
    pub(super) fn snapshot(&mut self) -> Option<Step<T>> {
        let is_settled = self.armed
            && !self.unlabelled
            && self.outstanding.is_empty()
            && self.queue.is_empty()
            && self.cursor.is_none();
        // A session begins with the zxid of the one before, so a server that is behind does not serve it.
        let is_behind = self.working_base().is_some_and(|base| base.as_of > self.frontier);
        if !is_settled || is_behind {
            return None;
        }
        let is_unchanged = self.touched.is_empty() && !self.unreadable_changed && self.stale_since.is_none();
        if self
            .base
            .as_ref()
            .is_some_and(|base| is_unchanged && base.as_of == self.frontier && base.epoch == self.epoch)
        {
            return None;
        }
        let unreadable = match self.working_base() {
            Some(base) if !self.unreadable_changed => Arc::clone(&base.unreadable),
            _ => Arc::new(self.unreadable.clone()),
        };
        let new = Arc::new(Snapshot {
            nodes: self.nodes.clone(),
            as_of: self.frontier,
            epoch: self.epoch,
            stale_since: None,
            unreadable,
            bytes: self.bytes,
        });
        let changes = match &self.base {
            Some(base) => {
                let mut old = (**base).clone();
                old.stale_since = self.stale_since;
                between(&old, &new, &self.touched)
            }
            // Readers compare with nothing.
            None => Vec::new(),
        };
        for (path, pzxid) in self.pzxids.drain() {
            // The Stat says it, or the znode is gone.
            match self.nodes.get(&path) {
                Some(entry) if entry.stat().pzxid != pzxid => drop(self.base_pzxids.insert(path, pzxid)),
                _ => drop(self.base_pzxids.remove(&path)),
            }
        }
        for path in std::mem::take(&mut self.touched) {
            if !self.nodes.contains_key(&path) {
                self.base_pzxids.remove(&path);
            }
        }
        self.unreadable_changed = false;
        self.stale_since = None;
        self.base = Some(Arc::clone(&new));
        Some((new, changes))
    }

    /// CacheChanges no longer arrive. The last snapshot, marked so, unless it is already or there is none.
    pub(super) fn stale(&mut self, now: Instant) -> Option<Step<T>> {
        self.armed = false;
        let base = self.base.as_ref().filter(|_| self.stale_since.is_none())?;
        let mut stale = (**base).clone();
        stale.stale_since = Some(now);
        self.stale_since = Some(now);
        let changes = between(base, &stale, []);
        Some((Arc::new(stale), changes))
    }

    fn check_limits(&self) -> Result<(), CacheError> {
        let MirrorConfig { scope, max_nodes, max_bytes, .. } = &self.config;
        let root = || scope.root.as_ref().to_owned();
        if self.nodes.size() + self.unlisted.len() > *max_nodes {
            return Err(CacheError::TooManyNodes { root: root(), max: *max_nodes });
        }
        if self.bytes > *max_bytes {
            return Err(CacheError::TooMuchData { root: root(), max: *max_bytes });
        }
        Ok(())
    }
}

/// What is below `path` is between these: '0' follows '/'.
fn bounds_below(path: &str) -> (Arc<str>, String) {
    let prefix = child_path(path, "");
    let end = [prefix.trim_end_matches('/'), "0"].concat();
    (prefix, end)
}

fn all_below<'b>(prefix: &'b str, end: &'b str) -> (Bound<&'b str>, Bound<&'b str>) {
    (Bound::Excluded(prefix), Bound::Excluded(end))
}

#[cfg(test)]
mod tests;
