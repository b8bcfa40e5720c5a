//! The requests about watches, and the events of changes.

use hashbrown::{HashMap, HashSet};
use zoolet_proto::records::{AddWatch, SetWatches2, WatchedEvent};
use zoolet_proto::{
    Acl, AddWatchMode, ErrorCode, EventType, KeeperState, Perms, Reply, ReplyHeader, WatcherType, Xid, Zxid,
    path,
};

use crate::access::allows;
use crate::core::{ConnState, Core, RequestContext};
use crate::message::{ConnId, Message};
use crate::tree::{Change, Tree};
use crate::watch::{Aspect, Modes, WatchTable};
use crate::znode::Znode;

impl Core {
    pub(crate) fn add_watch(&mut self, call: RequestContext, record: &AddWatch) {
        let mode = match AddWatchMode::from_code(record.mode) {
            Some(AddWatchMode::Persistent) => Modes::PERSISTENT,
            Some(AddWatchMode::PersistentRecursive) => Modes::RECURSIVE,
            None => return self.answer(call, Err(ErrorCode::MarshallingError)),
        };
        // A null path can be watched too; no event ever has it.
        let path = record.path.as_deref().unwrap_or_default();
        let allowed = self.check_watch_limit(call.conn, [path].into_iter());
        if allowed.is_ok() {
            self.watches.add(call.conn, path, mode);
        }
        self.answer(call, allowed.map(|()| Reply::WatchAdded));
    }

    /// checkWatches and, with `remove`, removeWatches.
    pub(crate) fn find_watch(&mut self, call: RequestContext, path: Option<&str>, kind: i32, remove: bool) {
        let path = path.unwrap_or_default();
        let found = match WatcherType::from_code(kind) {
            None => Err(ErrorCode::MarshallingError),
            Some(kind) if remove => Ok(self.watches.remove(call.conn, path, kind)),
            Some(kind) => Ok(self.watches.contains(call.conn, path, kind)),
        };
        let outcome = found.and_then(|found| found.then_some(Reply::Empty).ok_or(ErrorCode::NoWatcher));
        self.answer(call, outcome);
    }

    /// Sets the watches of an earlier connection again (`DataTree.setWatches`). A watch whose znode has changed since the
    /// client last saw it is not set: its event is sent at once.
    pub(crate) fn set_watches(&mut self, call: RequestContext, record: SetWatches2) {
        let SetWatches2 { relative_zxid, data, exist, child, persistent, recursive } = record;
        let wanted =
            [&data, &exist, &child, &persistent, &recursive].into_iter().flatten().map(String::as_str);
        if let Err(code) = self.check_watch_limit(call.conn, wanted) {
            return self.refuse(call, self.tree.last_zxid(), code);
        }
        for path in data {
            match self.tree.get(&path).map(|node| node.mzxid > relative_zxid) {
                None => self.catch_up(call.conn, EventType::NodeDeleted, path),
                Some(true) => self.catch_up(call.conn, EventType::NodeDataChanged, path),
                Some(false) => self.watches.add(call.conn, &path, Modes::DATA),
            }
        }
        for path in exist {
            match self.tree.get(&path) {
                Some(_) => self.catch_up(call.conn, EventType::NodeCreated, path),
                None => self.watches.add(call.conn, &path, Modes::DATA),
            }
        }
        for path in child {
            match self.tree.get(&path).map(|node| node.pzxid > relative_zxid) {
                None => self.catch_up(call.conn, EventType::NodeDeleted, path),
                Some(true) => self.catch_up(call.conn, EventType::NodeChildrenChanged, path),
                Some(false) => self.watches.add(call.conn, &path, Modes::CHILD),
            }
        }
        for path in persistent {
            self.watches.add(call.conn, &path, Modes::PERSISTENT);
        }
        for path in recursive {
            self.watches.add(call.conn, &path, Modes::RECURSIVE);
        }
        self.reply(call, self.tree.last_zxid(), Reply::Empty);
    }

    /// Checks that `conn` may watch these paths as well. A path counts once, whatever its watches are, so that watches that were
    /// set one by one can be set again after a lost connection.
    pub(crate) fn check_watch_limit<'p>(
        &self,
        conn: ConnId,
        paths: impl Iterator<Item = &'p str>,
    ) -> Result<(), ErrorCode> {
        let Some(max) = self.config.max_watches_per_connection else { return Ok(()) };
        let more: HashSet<_> = paths.filter(|path| !self.watches.watches(conn, path)).collect();
        if self.watches.count(conn) + more.len() > max { Err(ErrorCode::ThrottledOp) } else { Ok(()) }
    }

    fn catch_up(&mut self, conn: ConnId, kind: EventType, path: String) {
        self.effects.outbound.push((conn, event(Zxid(-1), kind, path)));
    }
}

/// Queues events for connections.
pub(crate) struct EventSender<'c> {
    pub(crate) conns: &'c HashMap<ConnId, ConnState>,
    pub(crate) skip_acl: bool,
    /// The transaction that causes the events.
    pub(crate) zxid: Zxid,
    pub(crate) outbound: &'c mut Vec<(ConnId, Message)>,
}

impl EventSender<'_> {
    /// Queues an event for those `watchers` that may read the znode. One that may not learns nothing, although its one-shot
    /// watch is used up.
    fn send(&mut self, watchers: &[ConnId], kind: EventType, path: &str, acl: Option<&[Acl]>) {
        for conn in watchers {
            let Some(state) = self.conns.get(conn) else { continue };
            if self.skip_acl || acl.is_some_and(|acl| allows(acl, Perms::READ, &state.ids)) {
                self.outbound.push((*conn, event(self.zxid, kind, path.to_owned())));
            }
        }
    }
}

/// Queues the events of one change, in the order of `DataTree`: the znode's own watchers, then its parent's.
pub(crate) fn notify_watchers(
    tree: &Tree,
    watches: &mut WatchTable,
    change: &Change,
    events: &mut EventSender<'_>,
) {
    if watches.is_empty() {
        return;
    }
    let acl_of = |path: &str| tree.get(path).map(Znode::acl);
    let path = match change {
        Change::Created { path, .. } => {
            events.send(&watches.trigger(path, Aspect::Data), EventType::NodeCreated, path, acl_of(path));
            path
        }
        Change::Deleted { path, acl } => {
            let notified = watches.trigger(path, Aspect::Data);
            events.send(&notified, EventType::NodeDeleted, path, Some(acl));
            let mut others = watches.trigger(path, Aspect::Children);
            others.retain(|conn| !notified.contains(conn));
            events.send(&others, EventType::NodeDeleted, path, Some(acl));
            path
        }
        Change::DataSet { path, .. } => {
            events.send(&watches.trigger(path, Aspect::Data), EventType::NodeDataChanged, path, acl_of(path));
            return;
        }
        Change::AclSet { .. } | Change::Checked => return,
    };
    let parent = path::parent(path);
    let watchers = watches.trigger(parent, Aspect::Children);
    events.send(&watchers, EventType::NodeChildrenChanged, parent, acl_of(parent));
}

fn event(zxid: Zxid, kind: EventType, path: String) -> Message {
    let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path };
    Message::Reply(ReplyHeader::ok(Xid::EVENT, zxid), Reply::Event(event))
}
