//! The table of watches: their users, what the server has set, and when to remove a watch.
//!
//! Only the driver uses it, in the order of the wire, so there is no moment between a reply and its watch. Three things
//! keep an entry: local users, requests in flight that will set the watch (`registering`), and the watch at the server
//! (`registered`). A watch is removed when it is registered and has neither users nor such requests. Not earlier, because
//! the removal would remove what such a request has just set.
//!
//! The maps are sorted, so that the bytes that a client sends and the order of its wake-ups are reproducible.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zoolet_proto::{EventType, Request, WatcherType, path};

use super::stream::{UpdateQueue, WatchUpdate};
use super::{Watch, WatchEvent, WatchKind, WatchRegistration, WatchStream};
use crate::chroot::Chroot;
use crate::command::{DriverCommand, ReplyExtra};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::feed::FeedSink;
use crate::session::answer;

#[derive(Debug)]
struct WatchUser {
    id: u64,
    /// The user sees its paths below this.
    chroot: Chroot,
    sink: WatchSink,
}

#[derive(Debug)]
enum WatchSink {
    OneShot(oneshot::Sender<Result<WatchEvent, Error>>),
    Stream(Arc<UpdateQueue>),
    /// A feed, which sets its watches again by itself.
    Feed(FeedSink),
}

impl WatchUser {
    /// The event as this user sees it.
    fn seen(&self, event: &WatchEvent) -> WatchEvent {
        WatchEvent { path: self.chroot.strip(&event.path).to_owned(), ..*event }
    }

    fn is_feed(&self, feed: &FeedSink) -> bool {
        matches!(&self.sink, WatchSink::Feed(other) if other.is(feed))
    }

    /// Ends the watch on the server's `path`.
    fn end(self, path: &str, error: impl FnOnce(ErrorContext) -> Error) {
        let error = error(ErrorContext::local("watch", self.chroot.strip(path)));
        match self.sink {
            WatchSink::OneShot(user) => drop(user.send(Err(error))),
            WatchSink::Stream(user) => user.end(WatchUpdate::Ended(error)),
            WatchSink::Feed(feed) => feed.disarmed(),
        }
    }
}

/// A watch on one path.
#[derive(Debug, Default)]
pub(super) struct WatchEntry {
    /// Sorted by id.
    users: Vec<WatchUser>,
    registering: usize,
    registered: bool,
    /// The znode was absent when the watch was set, which only exists allows.
    pub(super) missing: bool,
}

/// By path as the server sees it.
pub(super) type WatchEntries = BTreeMap<String, WatchEntry>;

/// Every watch of a session.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    /// By [`WatchKind`].
    entries: [WatchEntries; WatchKind::ALL.len()],
    next_id: u64,
}

/// The reply to a request that sets a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchReply {
    /// The watch is set; `missing` if the znode is absent.
    Set { missing: bool },
    /// The watch is not set.
    Unset,
}

impl WatchTable {
    pub(super) fn entries(&self, kind: WatchKind) -> &WatchEntries {
        &self.entries[kind as usize]
    }

    fn entries_mut(&mut self, kind: WatchKind) -> &mut WatchEntries {
        &mut self.entries[kind as usize]
    }

    /// A request that sets this watch has been sent.
    pub(crate) fn registering(&mut self, kind: WatchKind, path: &str) {
        self.entries_mut(kind).entry(path.to_owned()).or_default().registering += 1;
    }

    /// Such a request was answered. A caller that still waits for it was added as a user before.
    /// Returns whether to remove the watch from the server.
    pub(crate) fn answered(&mut self, kind: WatchKind, path: &str, reply: WatchReply) -> bool {
        if let Some(entry) = self.entries_mut(kind).get_mut(path) {
            entry.registering = entry.registering.saturating_sub(1);
            if let WatchReply::Set { missing } = reply {
                entry.registered = true;
                entry.missing = missing;
            }
        }
        self.settle(kind, path)
    }

    /// Makes a handle on a watch and adds it as a user.
    pub(crate) fn open(
        &mut self,
        kind: WatchKind,
        path: &str,
        chroot: &Chroot,
        commands: &mpsc::WeakUnboundedSender<DriverCommand>,
    ) -> ReplyExtra {
        self.next_id += 1;
        let (id, path, chroot) = (self.next_id, path.to_owned(), chroot.clone());
        let registration = WatchRegistration {
            kind,
            path: path.clone(),
            chroot: chroot.clone(),
            id,
            commands: Some(commands.clone()),
        };
        let (sink, handle) = match kind {
            WatchKind::Data | WatchKind::Child => {
                let (user, changed) = oneshot::channel();
                (WatchSink::OneShot(user), ReplyExtra::Watch(Watch { changed, registration }))
            }
            WatchKind::Persistent | WatchKind::Recursive => {
                let queue = Arc::<UpdateQueue>::default();
                let sink = WatchSink::Stream(Arc::clone(&queue));
                (sink, ReplyExtra::WatchStream(WatchStream { queue, _registration: registration }))
            }
        };
        self.entries_mut(kind).entry(path).or_default().users.push(WatchUser { id, chroot, sink });
        handle
    }

    /// A feed has sent a request. The changes since its zxid that a setWatches reports come before its reply.
    pub(crate) fn feed_asks(&mut self, request: &Request, chroot: &Chroot, feed: &FeedSink) {
        for (kind, _, path) in restored_watches(request) {
            self.add_feed(kind, path, chroot, feed);
        }
    }

    /// The request of a feed has set its watches. A feed has at most one watch of a kind on a path.
    pub(crate) fn feed_answered(&mut self, request: &Request, chroot: &Chroot, feed: &FeedSink) {
        for (kind, missing, path) in restored_watches(request) {
            // An event that came before this reply has used the watch up.
            let entry = self.entries_mut(kind).get_mut(path);
            if let Some(entry) = entry.filter(|entry| entry.users.iter().any(|user| user.is_feed(feed))) {
                (entry.registered, entry.missing) = (true, missing);
            }
        }
        if let Some((kind, path)) = answer::watch_of(request) {
            self.add_feed(kind, path, chroot, feed);
        }
    }

    fn add_feed(&mut self, kind: WatchKind, path: &str, chroot: &Chroot, feed: &FeedSink) {
        self.next_id += 1;
        let (id, chroot) = (self.next_id, chroot.clone());
        let entry = self.entries_mut(kind).entry(path.to_owned()).or_default();
        if !entry.users.iter().any(|user| user.is_feed(feed)) {
            entry.users.push(WatchUser { id, chroot, sink: WatchSink::Feed(feed.clone()) });
        }
    }

    /// A feed is gone. Returns the persistent watches to remove from the server.
    pub(crate) fn leave_feed(&mut self, feed: &FeedSink) -> Vec<(WatchKind, String)> {
        let mut unused = Vec::new();
        for kind in WatchKind::ALL {
            self.entries_mut(kind).retain(|path, entry| {
                let users = entry.users.len();
                entry.users.retain(|user| !user.is_feed(feed));
                let is_left = users > entry.users.len() && entry.users.is_empty() && entry.registering == 0;
                if is_left && matches!(kind, WatchKind::Persistent | WatchKind::Recursive) {
                    unused.push((kind, path.clone()));
                }
                !is_left
            });
        }
        unused
    }

    /// A user is gone. Returns whether to remove the watch from the server.
    pub(crate) fn leave(&mut self, kind: WatchKind, path: &str, id: u64) -> bool {
        if let Some(entry) = self.entries_mut(kind).get_mut(path) {
            if let Ok(at) = entry.users.binary_search_by_key(&id, |user| user.id) {
                entry.users.remove(at);
            }
        }
        self.settle(kind, path)
    }

    /// Notifies the users of every watch that a change concerns. `event` has the path as the server sees it.
    pub(crate) fn fire(&mut self, event: &WatchEvent) {
        use EventType::*;
        let (kind, path) = (event.kind, event.path.as_str());
        // The one-shot watches that a change removes at the server. A deletion removes both, but is reported once.
        if matches!(kind, NodeCreated | NodeDeleted | NodeDataChanged) {
            self.fire_once(WatchKind::Data, path, event);
        }
        if matches!(kind, NodeDeleted | NodeChildrenChanged) {
            self.fire_once(WatchKind::Child, path, event);
        }
        self.push_event(WatchKind::Persistent, path, event);
        if kind != NodeChildrenChanged && !self.entries(WatchKind::Recursive).is_empty() {
            let mut above = path;
            loop {
                self.push_event(WatchKind::Recursive, above, event);
                if above == "/" {
                    break;
                }
                above = path::parent(above);
            }
        }
    }

    fn fire_once(&mut self, kind: WatchKind, path: &str, event: &WatchEvent) {
        let Some(entry) = self.entries_mut(kind).get_mut(path) else { return };
        entry.registered = false;
        for user in entry.users.drain(..) {
            let event = user.seen(event);
            match user.sink {
                WatchSink::OneShot(user) => drop(user.send(Ok(event))),
                WatchSink::Feed(feed) => feed.event(event),
                WatchSink::Stream(_) => {}
            }
        }
        self.settle(kind, path);
    }

    fn push_event(&self, kind: WatchKind, path: &str, event: &WatchEvent) {
        for user in self.entries(kind).get(path).into_iter().flat_map(|entry| &entry.users) {
            match &user.sink {
                WatchSink::Stream(queue) => queue.push_event(user.seen(event)),
                WatchSink::Feed(feed) => feed.event(user.seen(event)),
                WatchSink::OneShot(_) => {}
            }
        }
    }

    /// The connection is lost, and with it every watch at the server. Those with users are kept, to be restored.
    pub(crate) fn lose_connection(&mut self) {
        for entries in &mut self.entries {
            entries.retain(|_, entry| {
                entry.registering = 0;
                entry.registered = false;
                entry.users.retain(|user| !matches!(user.sink, WatchSink::Feed(_)));
                !entry.users.is_empty()
            });
        }
    }

    /// Every watch is being restored on a new connection. Persistent ones may have missed changes.
    pub(crate) fn restored(&mut self) {
        for entry in self.entries.iter_mut().flat_map(BTreeMap::values_mut) {
            entry.registered = true;
            for user in &entry.users {
                if let WatchSink::Stream(queue) = &user.sink {
                    queue.push_missed();
                }
            }
        }
    }

    /// The server has removed watches; their users get an error.
    pub(crate) fn removed(&mut self, path: &str, kind: WatcherType) {
        let is_removed = |watch: &WatchKind| kind == WatcherType::Any || kind == watch.watcher_type();
        for watch in WatchKind::ALL.into_iter().filter(is_removed) {
            let Some(entry) = self.entries_mut(watch).get_mut(path) else { continue };
            entry.registered = false;
            entry.users.drain(..).for_each(|user| user.end(path, Error::WatchRemoved));
            self.settle(watch, path);
        }
    }

    /// The session is over: every user gets the error that `end` makes.
    pub(crate) fn end(&mut self, end: impl Fn(ErrorContext) -> Error) {
        for (path, entry) in mem::take(&mut self.entries).into_iter().flatten() {
            entry.users.into_iter().for_each(|user| user.end(&path, &end));
        }
    }

    /// Drops an entry that nothing needs. Returns whether the server still has its watch.
    fn settle(&mut self, kind: WatchKind, path: &str) -> bool {
        let entries = self.entries_mut(kind);
        match entries.get(path) {
            Some(entry) if entry.users.is_empty() && entry.registering == 0 => {
                let registered = entry.registered;
                entries.remove(path);
                registered
            }
            _ => false,
        }
    }
}

/// The watches that a setWatches or a setWatches2 sets: each with its kind, whether the znode was absent, and its path.
pub(crate) fn restored_watches(request: &Request) -> impl Iterator<Item = (WatchKind, bool, &str)> {
    let none = &[][..];
    let (data, absent, children, persistent, recursive) = match request {
        Request::SetWatches(set) => (&set.data[..], &set.exist[..], &set.child[..], none, none),
        Request::SetWatches2(set) => {
            (&set.data[..], &set.exist[..], &set.child[..], &set.persistent[..], &set.recursive[..])
        }
        _ => (none, none, none, none, none),
    };
    let lists = [
        (WatchKind::Data, false, data),
        (WatchKind::Data, true, absent),
        (WatchKind::Child, false, children),
        (WatchKind::Persistent, false, persistent),
        (WatchKind::Recursive, false, recursive),
    ];
    lists
        .into_iter()
        .flat_map(|(kind, absent, paths)| paths.iter().map(move |path| (kind, absent, path.as_str())))
}
