//! The requests about watches, and the events of changes.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use zoolet_proto::records::{AddWatch, CheckWatches, SetWatches2};
use zoolet_proto::{AclList, AddWatchMode, ErrorCode, EventType, Perms, Reply, WatcherType, Zxid, path};

use crate::access::{Granted, allows};
use crate::core::{ConnState, Core, RequestContext};
use crate::message::{ConnId, Effects, Output, Recipients, SharedEvent, event_message};
use crate::tree::{Change, Tree};
use crate::txn::Txn;
use crate::watch::{Aspect, Modes, WatchTable};
use crate::watchers::Lists;

/// A null path can be watched too; no event ever has it. The empty path is another one: an alias of the root.
const NULL_PATH: &str = "null";

impl Core {
    pub(crate) fn add_watch(&mut self, call: RequestContext, record: &AddWatch) {
        let mode = match AddWatchMode::from_code(record.mode) {
            Some(AddWatchMode::Persistent) => Modes::PERSISTENT,
            Some(AddWatchMode::PersistentRecursive) => Modes::RECURSIVE,
            None => return self.answer(call, self.durable_zxid(), Err(ErrorCode::MarshallingError)),
        };
        let path = record.path.as_deref().unwrap_or(NULL_PATH);
        let allowed = self.check_watch_limit(call.conn, [path].into_iter());
        if allowed.is_ok() {
            self.watches.add(call.conn, path, mode);
        }
        let zxid = if mode == Modes::RECURSIVE { self.tree.last_zxid() } else { self.unchanged_since(path) };
        self.answer(call, zxid, allowed.map(|()| Reply::WatchAdded));
    }

    /// checkWatches and, with `remove`, removeWatches.
    pub(crate) fn find_watch(&mut self, call: RequestContext, record: &CheckWatches, remove: bool) {
        let path = record.path.as_deref().unwrap_or(NULL_PATH);
        let found = match WatcherType::from_code(record.kind) {
            None => Err(ErrorCode::MarshallingError),
            Some(kind) if remove => Ok(self.watches.remove(call.conn, path, kind)),
            Some(kind) => Ok(self.watches.contains(call.conn, path, kind)),
        };
        let outcome = found.and_then(|found| found.then_some(Reply::Empty).ok_or(ErrorCode::NoWatcher));
        self.answer(call, self.tree.last_zxid(), outcome);
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
        // A tree that was restored may have become older: whatever was seen of the former one, the client has to look again.
        let is_foreign = self.tree.restored_at.is_some_and(|restored| relative_zxid < restored);
        for path in data {
            match self.tree.get(&path).map(|node| is_foreign || node.mzxid > relative_zxid) {
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
            match self.tree.get(&path).map(|node| is_foreign || node.pzxid() > relative_zxid) {
                None => self.catch_up(call.conn, EventType::NodeDeleted, path),
                Some(true) => self.catch_up(call.conn, EventType::NodeChildrenChanged, path),
                Some(false) => self.watches.add(call.conn, &path, Modes::CHILD),
            }
        }
        // Persistent watches miss what has happened meanwhile, as on a real server: their clients read again.
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
        self.send(conn, event_message(Zxid(-1), kind, path));
    }

    /// Applies a transaction. For each change, calls `seen` and notifies the watchers.
    pub(crate) fn apply(&mut self, txn: &Txn, mut seen: impl FnMut(&Change)) {
        let Self { tree, watches, conns, effects: Effects { outbound, .. }, config, .. } = self;
        let (skip_acl, zxid) = (config.skip_acl, txn.zxid);
        let mut events = EventSender { conns, skip_acl, zxid, outbound, readers: None };
        tree.apply(txn, &mut |tree, change| {
            seen(&change);
            events.notify_watchers(tree, watches, &change);
        });
    }
}

/// Queues the events of one transaction.
struct EventSender<'c> {
    conns: &'c HashMap<ConnId, ConnState>,
    skip_acl: bool,
    zxid: Zxid,
    outbound: &'c mut Vec<Output>,
    /// The readers among the connections of a list, by the list and by the address of an ACL.
    readers: Option<HashMap<(ListKey, usize), Readers>>,
}

/// What tells lists of connections apart: the only one, or the address.
#[derive(PartialEq, Eq, Hash)]
enum ListKey {
    One(ConnId),
    At(usize),
}

/// The result for a list of connections and an ACL. It holds both, so that no others get their addresses.
struct Readers {
    _of: (Recipients, AclList),
    readers: Option<Recipients>,
}

impl EventSender<'_> {
    /// Queues the events of one change, in the order of `DataTree`: the znode's own watchers, then its parent's.
    fn notify_watchers(&mut self, tree: &Tree, watches: &mut WatchTable, change: &Change) {
        if watches.is_empty() {
            return;
        }
        let acl_of = |path: &str| tree.get(path).map(|node| &node.acl);
        let (path, aspect, kind, acl) = match change {
            Change::Created { path, .. } => (path, Aspect::Data, EventType::NodeCreated, acl_of(path)),
            Change::Deleted { path, acl } => (path, Aspect::Deleted, EventType::NodeDeleted, Some(acl)),
            Change::DataSet { path, .. } => (path, Aspect::Data, EventType::NodeDataChanged, acl_of(path)),
            Change::AclSet { .. } | Change::Checked => return,
        };
        self.send(watches.trigger(path, aspect), kind, path, acl);
        if kind == EventType::NodeDataChanged {
            return;
        }
        let watchers = watches.trigger(path::parent(path), Aspect::Children);
        if let Some(parent) = tree.get(path::parent(path)).filter(|_| !watchers.is_empty()) {
            self.send(watchers, EventType::NodeChildrenChanged, &parent.path, Some(&parent.acl));
        }
    }

    /// Queues an event for those watchers that may read the znode. One that may not learns nothing, although its one-shot
    /// watch is used up.
    fn send(&mut self, watchers: Lists, kind: EventType, path: &Arc<str>, acl: Option<&AclList>) {
        for list in watchers {
            if let Some(to) = self.readers(list, acl) {
                let event = SharedEvent { to, zxid: self.zxid, kind, path: Arc::clone(path) };
                self.outbound.push(Output::Event(event));
            }
        }
    }

    /// The connections of a list that may read a znode with this ACL, if there are any. A znode that does not exist has none.
    fn readers(&mut self, list: Recipients, acl: Option<&AclList>) -> Option<Recipients> {
        /// The results of more checks than this are kept: the changes of one multi may need the same ones.
        const FEW: usize = 16;
        if self.skip_acl {
            return Some(list);
        }
        let acl = acl?;
        let Self { conns, readers, .. } = self;
        let check_all = || {
            // Not by each connection, if there are many entries.
            let granted = (acl.len() > FEW && list.len() > 1).then(|| Granted::by(acl, Perms::READ));
            let may_read = |conn: &ConnId| {
                conns.get(conn).is_some_and(|state| match &granted {
                    Some(granted) => granted.includes(&state.ids),
                    None => allows(acl, Perms::READ, &state.ids),
                })
            };
            match list.iter().copied().filter(may_read).collect::<Vec<_>>() {
                none if none.is_empty() => None,
                all if all.len() == list.len() => Some(list.clone()),
                some => Some(some.into()),
            }
        };
        let is_open = || allows(acl, Perms::READ, &[]);
        if acl.len() <= FEW && is_open() {
            return Some(list);
        }
        if list.len() * acl.len() <= FEW {
            return check_all();
        }
        let key = match &list {
            Recipients::One(conn) => ListKey::One(*conn),
            Recipients::Shared(list) => ListKey::At(list.as_ptr().addr()),
        };
        let kept = readers.get_or_insert_default().entry((key, acl.address())).or_insert_with(|| {
            let readers = if is_open() { Some(list.clone()) } else { check_all() };
            Readers { _of: (list.clone(), acl.clone()), readers }
        });
        kept.readers.clone()
    }
}
