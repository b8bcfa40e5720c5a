//! The requests about watches, and the events that changes make.

use hashbrown::{HashMap, HashSet};
use zoolet_proto::records::{AddWatch, SetWatches2, WatchedEvent};
use zoolet_proto::{
    AddWatchMode, ErrorCode, EventType, KeeperState, Perms, Reply, ReplyHeader, WatcherType, Xid, Zxid,
    parent_of,
};

use crate::access::allows;
use crate::machine::{Call, Core, Link};
use crate::message::{ConnId, Message};
use crate::tree::{Change, Tree};
use crate::watch::{Aspect, Modes, WatchTable};
use crate::znode::Znode;

impl Core {
    pub(crate) fn add_watch(&mut self, call: Call, record: &AddWatch) {
        let mode = match AddWatchMode::from_code(record.mode) {
            Some(AddWatchMode::Persistent) => Modes::PERSISTENT,
            Some(AddWatchMode::PersistentRecursive) => Modes::RECURSIVE,
            None => return self.refuse(call, self.tree.last_zxid(), ErrorCode::MarshallingError),
        };
        // A null path can be watched too, and nothing will ever happen to it.
        let path = record.path.as_deref().unwrap_or_default();
        if let Err(code) = self.room_for_watches(call.conn, [path].into_iter()) {
            return self.refuse(call, self.tree.last_zxid(), code);
        }
        self.watches.add(call.conn, path, mode);
        self.reply(call, self.tree.last_zxid(), Reply::WatchAdded);
    }

    /// checkWatches and, with `remove`, removeWatches.
    pub(crate) fn find_watch(&mut self, call: Call, path: Option<&str>, kind: i32, remove: bool) {
        let path = path.unwrap_or_default();
        let code = match WatcherType::from_code(kind) {
            None => Some(ErrorCode::MarshallingError),
            Some(kind) => {
                let found = if remove {
                    self.watches.remove(call.conn, path, kind)
                } else {
                    self.watches.contains(call.conn, path, kind)
                };
                (!found).then_some(ErrorCode::NoWatcher)
            }
        };
        match code {
            Some(code) => self.refuse(call, self.tree.last_zxid(), code),
            None => self.reply(call, self.tree.last_zxid(), Reply::Empty),
        }
    }

    /// Sets the watches of an earlier connection again (`DataTree.setWatches`). What has changed since the client
    /// last looked is told at once, and its watch is not set.
    pub(crate) fn set_watches(&mut self, call: Call, record: SetWatches2) {
        let SetWatches2 { relative_zxid, data, exist, child, persistent, recursive } = record;
        let wanted =
            [&data, &exist, &child, &persistent, &recursive].into_iter().flatten().map(String::as_str);
        if let Err(code) = self.room_for_watches(call.conn, wanted) {
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

    /// Whether `conn` may watch these paths as well. A path counts once, however it is watched: what was let in one by
    /// one is let in again behind a lost connection.
    pub(crate) fn room_for_watches<'p>(
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

/// Queues the events of one change, in the order of `DataTree`: the znode's own watchers, then its parent's.
pub(crate) fn tell(
    tree: &Tree,
    watches: &mut WatchTable,
    links: &HashMap<ConnId, Link>,
    skip_acl: bool,
    zxid: Zxid,
    change: &Change,
    outbound: &mut Vec<(ConnId, Message)>,
) {
    if watches.is_empty() {
        return;
    }
    let mut send = |conns: &[ConnId], kind: EventType, path: &str, acl: Option<&[zoolet_proto::Acl]>| {
        for conn in conns {
            let Some(link) = links.get(conn) else { continue };
            // Who may not read the znode learns nothing of it, though a one-shot watch is used up.
            if skip_acl || acl.is_some_and(|acl| allows(acl, Perms::READ, &link.ids)) {
                outbound.push((*conn, event(zxid, kind, path.to_owned())));
            }
        }
    };
    let acl_of = |path: &str| tree.get(path).map(Znode::acl);
    let path = match change {
        Change::Created { path, .. } => {
            send(&watches.trigger(path, Aspect::Data), EventType::NodeCreated, path, acl_of(path));
            path
        }
        Change::Deleted { path, acl } => {
            let told = watches.trigger(path, Aspect::Data);
            send(&told, EventType::NodeDeleted, path, Some(acl));
            let mut rest = watches.trigger(path, Aspect::Children);
            rest.retain(|conn| !told.contains(conn));
            send(&rest, EventType::NodeDeleted, path, Some(acl));
            path
        }
        Change::DataSet { path, .. } => {
            send(&watches.trigger(path, Aspect::Data), EventType::NodeDataChanged, path, acl_of(path));
            return;
        }
        Change::AclSet { .. } | Change::Checked => return,
    };
    let parent = parent_of(path);
    send(&watches.trigger(parent, Aspect::Children), EventType::NodeChildrenChanged, parent, acl_of(parent));
}

fn event(zxid: Zxid, kind: EventType, path: String) -> Message {
    let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path };
    Message::Reply(ReplyHeader::ok(Xid::EVENT, zxid), Reply::Event(event))
}
