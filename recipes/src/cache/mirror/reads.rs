//! The reads of a mirror: which are sent, and what their replies change.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use zoolet_client::internal::records::{Exists, GetChildren, GetData};
use zoolet_client::internal::{FeedRequest, NameList};
use zoolet_client::{Stat, Zxid, path as znode_path};

use super::{Mirror, MirrorConfig, Outstanding, Read, ReadReply, WatchStyle};
use crate::cache::entry::{Entry, UnreadableReason};
use crate::cache::error::CacheError;
use crate::cache::scope::{child_path, range_below};
use crate::cache::snapshot::{below, children};

impl<T> Mirror<T> {
    /// The request that a read is.
    pub(in crate::cache) fn request_of(&self, read: &Read) -> FeedRequest {
        let watch = self.style == WatchStyle::OneShot;
        let path = (**read.path()).to_owned();
        match read {
            Read::Data(_) if self.config.reads_data => FeedRequest::GetData(GetData { path, watch }),
            Read::Data(_) | Read::Check(_) => FeedRequest::Exists(Exists { path, watch }),
            Read::Label(_) => FeedRequest::Exists(Exists { path, watch: false }),
            Read::List(_) => FeedRequest::GetChildren(GetChildren { path, watch }),
        }
    }

    /// The next read to send.
    pub(in crate::cache) fn next_read(&mut self) -> Option<Read> {
        let pass = &mut self.pass;
        if let Some(read) = pass.queue.pop_front() {
            return Some(read);
        }
        // A deletion needs no read. Without one, its label would come with the next ping.
        if pass.unlabelled && pass.outstanding.is_empty() && pass.cursor.is_none() && !pass.asks_label {
            pass.asks_label = true;
            return Some(Read::Label(Arc::clone(&self.config.scope.root)));
        }
        let after = pass.cursor.take()?;
        let base = self.working_base()?;
        let bound = after.as_ref().map(|path| &**path);
        let (path, _) = base.nodes.range::<str, _>((bound, Bound::Unbounded)).next()?;
        let path = Arc::clone(path);
        self.pass.cursor = Some(Bound::Excluded(Arc::clone(&path)));
        // Also if its data is being read because of an event: only this compares its children.
        self.ask(&path).check = true;
        Some(Read::Check(path))
    }

    /// A read that the server did not execute is to be sent again.
    pub(in crate::cache) fn send_again(&mut self, read: Read) {
        self.pass.queue.push_back(read);
    }

    pub(super) fn ask(&mut self, path: &Arc<str>) -> &mut Outstanding {
        self.pass.outstanding.entry(Arc::clone(path)).or_default()
    }

    pub(super) fn ask_data(&mut self, path: &Arc<str>) {
        if !std::mem::replace(&mut self.ask(path).data, true) {
            self.pass.queue.push_back(Read::Data(Arc::clone(path)));
        }
    }

    pub(super) fn ask_list(&mut self, path: &Arc<str>) {
        self.pass.unlisted.remove(path);
        if self.config.scope.lists(path) && !std::mem::replace(&mut self.ask(path).list, true) {
            self.pass.queue.push_back(Read::List(Arc::clone(path)));
        }
    }

    /// Reads a znode that is not known, and then its children.
    pub(super) fn find(&mut self, path: Arc<str>) {
        self.pass.unlisted.insert(Arc::clone(&path));
        self.ask_data(&path);
    }

    /// Whether a znode is known, or will be by a read that is outstanding.
    pub(super) fn is_known(&self, path: &str) -> bool {
        let will_be = self.pass.outstanding.get(path).is_some_and(|reads| reads.data || reads.check);
        will_be || self.nodes.contains_key(path)
    }

    /// Applies the reply to a read.
    ///
    /// # Errors
    /// The subtree is larger than the cache may be.
    pub(in crate::cache) fn reply(
        &mut self,
        read: &Read,
        label: Option<Zxid>,
        reply: ReadReply<'_>,
    ) -> Result<(), CacheError> {
        let path = read.path();
        self.reached(label);
        if let Read::Label(_) = read {
            self.pass.asks_label = false;
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
        let Some(reads) = self.pass.outstanding.get_mut(path) else { return Zxid(0) };
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
            self.pass.outstanding.remove(path);
        }
        event
    }

    /// A reply, or a ping, shows that the server has applied this.
    pub(in crate::cache) fn reached(&mut self, label: Option<Zxid>) {
        if let Some(label) = label {
            self.pass.frontier = self.pass.frontier.max(label);
            self.pass.unlabelled = false;
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
            self.pass.pzxids.insert(Arc::clone(path), stat.pzxid);
        } else {
            self.pass.pzxids.remove(path);
        }
        if self.pass.unreadable.remove(path).is_some() {
            // Nor are its children known.
            self.pass.unlisted.insert(Arc::clone(path));
        }
        // With one watch per znode, a child watch is set by listing, also where there is no child. Under a recursive watch the
        // children of a znode that was created under it come by events.
        let lists = match self.style {
            WatchStyle::OneShot => is_new || self.pass.unlisted.contains(path),
            WatchStyle::Tree => self.pass.unlisted.contains(path) && stat.num_children > 0,
        };
        if lists {
            self.ask_list(path);
        } else {
            self.pass.unlisted.remove(path);
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
        self.pass.pzxids.insert(Arc::clone(path), stat.pzxid);
        let mut listed: BTreeSet<Arc<str>> = names.iter().map(|name| child_path(path, &name)).collect();
        let known: Vec<_> = children(&self.nodes, path).map(|child| child.shared_path()).collect();
        for child in known.iter().filter(|child| !listed.contains(*child)) {
            self.remove(child);
        }
        let unreadable = self.pass.unreadable.range(range_below(path)).map(|(below, _)| below);
        let is_gone = |below: &&Arc<str>| znode_path::parent(below) == &**path && !listed.contains(*below);
        for child in unreadable.filter(is_gone).cloned().collect::<Vec<_>>() {
            self.remove(&child);
        }
        listed.retain(|child| self.config.scope.contains_child(child));
        for child in listed {
            if !self.is_known(&child) {
                self.find(child);
            }
        }
    }

    pub(super) fn absent(&mut self, path: &Arc<str>, read: &Read) {
        self.remove(path);
        // A one-shot watch on an absent znode is set by exists alone; only the root is waited for.
        let watches = *path == self.config.scope.root && self.style == WatchStyle::OneShot;
        let is_watched = matches!(read, Read::Check(_));
        if watches && !is_watched && !std::mem::replace(&mut self.ask(path).check, true) {
            self.pass.queue.push_back(Read::Check(Arc::clone(path)));
        }
    }

    fn cannot_read(&mut self, path: &Arc<str>, read: &Read, reason: UnreadableReason) {
        self.pass.unreadable.insert(Arc::clone(path), reason);
        if !matches!(read, Read::List(_)) {
            // What it was may not be what it is. It counts all the same.
            self.remove_one(path);
            self.pass.unlisted.insert(Arc::clone(path));
        }
    }

    /// Drops a znode with everything below it.
    pub(super) fn remove(&mut self, path: &Arc<str>) {
        for gone in below(&self.nodes, path).iter().chain([path]) {
            self.remove_one(gone);
        }
        self.pass.unlisted.remove(path);
        self.pass.unreadable.remove(path);
        let below = range_below(path);
        for path in self.pass.unlisted.range(below.clone()).cloned().collect::<Vec<_>>() {
            self.pass.unlisted.remove(&path);
        }
        for path in self.pass.unreadable.range(below).map(|(path, _)| Arc::clone(path)).collect::<Vec<_>>() {
            self.pass.unreadable.remove(&path);
        }
    }

    fn touch(&mut self, path: &Arc<str>) {
        // Readers compare the first snapshot with nothing.
        if self.base.is_some() {
            self.pass.touched.insert(Arc::clone(path));
        }
    }

    fn remove_one(&mut self, path: &Arc<str>) {
        if let Some(old) = self.nodes.get(path) {
            self.bytes -= old.size();
            self.nodes.remove_mut(path);
            self.touch(path);
        }
        self.pass.pzxids.remove(path);
    }

    /// Another znode took the place of the one at `path`, at `czxid`: what was below the old one is gone.
    fn drop_older_below(&mut self, path: &str, czxid: Zxid) {
        for child in below(&self.nodes, path) {
            if self.nodes.get(&child).is_some_and(|entry| entry.stat().czxid < czxid) {
                self.remove_one(&child);
                self.pass.unlisted.remove(&child);
            }
        }
    }

    fn check_limits(&self) -> Result<(), CacheError> {
        let MirrorConfig { scope, max_nodes, max_bytes, .. } = &self.config;
        let root = || scope.root.as_ref().to_owned();
        if self.nodes.size() + self.pass.unlisted.len() > *max_nodes {
            return Err(CacheError::TooManyNodes { root: root(), max: *max_nodes });
        }
        if self.bytes > *max_bytes {
            return Err(CacheError::TooMuchData { root: root(), max: *max_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;
    use crate::cache::scope::Scope;

    #[test]
    fn a_znode_whose_children_cannot_be_listed_counts_once() {
        let scope = Scope { root: "/r".into(), max_depth: usize::MAX, filter: None, skip_system: false };
        let decode: Decoder<()> = Arc::new(|_, _| Ok(()));
        let config = MirrorConfig { scope, decode, reads_data: true, max_nodes: 1, max_bytes: 0 };
        let mut mirror = Mirror::new(config);
        mirror.begin(WatchStyle::Tree);
        mirror.armed();
        for zxid in 1..3 {
            while let Some(read) = mirror.next_read() {
                let reply = match read {
                    Read::List(_) => ReadReply::Unreadable(UnreadableReason::TooLarge),
                    _ => ReadReply::Data(&[], Stat { num_children: 1, ..Stat::default() }),
                };
                mirror.reply(&read, Some(Zxid(zxid)), reply).expect("one znode");
            }
            let (snapshot, _) = mirror.snapshot().expect("all is read");
            assert_eq!((snapshot.len(), snapshot.unreadable().count()), (1, 1));
            mirror.ask_for_unreadable();
        }
    }
}
