//! The reads. One that leaves a watch leaves it in the same call that takes the value.

use std::collections::HashMap;

use zoolet_proto::records::{ClientInfo, Exists, GetChildren, GetData, Op, OpResult};
use zoolet_proto::{ErrorCode, NameList, Perms, Reply, SessionId};

use crate::access::{Identity, masked};
use crate::machine::{Call, Core};
use crate::message::ConnId;
use crate::watch::Modes;
use crate::znode::Znode;

impl Core {
    pub(crate) fn exists(&mut self, call: Call, record: &Exists) {
        let found = if record.path.contains('\0') {
            Err(ErrorCode::BadArguments)
        } else {
            self.room_for(call, &record.path, record.watch).map(|()| self.tree.get(&record.path))
        };
        let outcome = match found {
            Ok(Some(node)) => self.may_read(call.conn, node).map(|()| Reply::Stat(node.stat())),
            Ok(None) => Err(ErrorCode::NoNode),
            Err(code) => Err(code),
        };
        // The only read that leaves a watch where there is no znode.
        if record.watch && matches!(outcome, Ok(_) | Err(ErrorCode::NoNode)) {
            self.watches.add(call.conn, &record.path, Modes::DATA);
        }
        self.answer(call, outcome);
    }

    pub(crate) fn get_data(&mut self, call: Call, record: &GetData) {
        let outcome = self
            .room_for(call, &record.path, record.watch)
            .and_then(|()| self.readable(call.conn, &record.path))
            .map(|node| Reply::Data(node.data().cloned(), node.stat()));
        if record.watch && outcome.is_ok() {
            self.watches.add(call.conn, &record.path, Modes::DATA);
        }
        self.answer(call, outcome);
    }

    pub(crate) fn get_children(&mut self, call: Call, record: &GetChildren, with_stat: bool) {
        let outcome = self
            .room_for(call, &record.path, record.watch)
            .and_then(|()| self.readable(call.conn, &record.path))
            .map(|node| {
                let names = names(node);
                if with_stat { Reply::Children2(names, node.stat()) } else { Reply::Children(names) }
            });
        if record.watch && outcome.is_ok() {
            self.watches.add(call.conn, &record.path, Modes::CHILD);
        }
        self.answer(call, outcome);
    }

    pub(crate) fn get_acl(&mut self, call: Call, path: &str) {
        let outcome = self.tree.get(path).ok_or(ErrorCode::NoNode).and_then(|node| {
            if self.may(call.conn, node, Perms::ADMIN) {
                Ok(Reply::Acl(node.acl().to_vec(), node.stat()))
            } else if self.may(call.conn, node, Perms::READ) {
                Ok(Reply::Acl(masked(node.acl()), node.stat()))
            } else {
                Err(ErrorCode::NoAuth)
            }
        });
        self.answer(call, outcome);
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "int on the wire")]
    pub(crate) fn get_all_children_number(&mut self, call: Call, path: &str) {
        let outcome = self.readable(call.conn, path).map(|_| {
            // Under its alias the root is counted as a znode below itself.
            let count = self.tree.descendants(path) + usize::from(path.is_empty());
            Reply::Count(count as i32)
        });
        self.answer(call, outcome);
    }

    pub(crate) fn get_ephemerals(&mut self, call: Call, prefix: Option<&str>) {
        // As Java's `trim` sees it: spaces of other scripts are characters like any other.
        let means_all = |prefix: &str| ["", "/"].contains(&prefix.trim_matches(|c| c <= ' '));
        let prefix = prefix.filter(|prefix| !means_all(prefix)).unwrap_or_default();
        let paths = ephemerals(self, call.session, prefix);
        self.reply(call, self.tree.last_zxid(), Reply::Ephemerals(paths));
    }

    pub(crate) fn who_am_i(&mut self, call: Call) {
        let ids: Vec<ClientInfo> = self.ids(call.conn).iter().map(Identity::info).collect();
        self.reply(call, self.tree.last_zxid(), Reply::WhoAmI(ids));
    }

    pub(crate) fn multi_read(&mut self, call: Call, ops: &[Op]) {
        let mut results = Vec::with_capacity(ops.len());
        // A request of a megabyte may ask tens of thousands of times for one long list: all get the same one.
        let mut lists: HashMap<&str, NameList> = HashMap::new();
        for op in ops {
            results.push(match op {
                Op::GetData(record) => match self.readable(call.conn, &record.path) {
                    Ok(node) => OpResult::GetData(node.data().cloned(), node.stat()),
                    Err(code) => OpResult::Error(Some(code)),
                },
                Op::GetChildren(record) => match self.readable(call.conn, &record.path) {
                    Ok(node) => {
                        let list = lists.entry(&record.path).or_insert_with(|| names(node));
                        OpResult::GetChildren(list.clone())
                    }
                    Err(code) => OpResult::Error(Some(code)),
                },
                _ => return self.refuse_multi_read(call, ops),
            });
        }
        self.reply(call, self.tree.last_zxid(), Reply::Multi(results));
    }

    /// Refuses a multiRead of writes. A real server then sends an error in the header and the results so far behind it,
    /// which are none: a list that mixes reads and writes does not decode, nor does one with parts that a multi would
    /// refuse as a whole, and for those the header is all.
    fn refuse_multi_read(&mut self, call: Call, ops: &[Op]) {
        if ops.iter().all(|op| self.multi_write(call.session, op.clone()).is_ok()) {
            self.refuse_with_body(call, ErrorCode::MarshallingError, Reply::Multi(Vec::new()));
        } else {
            self.refuse(call, self.tree.last_zxid(), ErrorCode::MarshallingError);
        }
    }

    /// The znode at `path`, if it is there and `conn` may read it.
    fn readable(&self, conn: ConnId, path: &str) -> Result<&Znode, ErrorCode> {
        let node = self.tree.get(path).ok_or(ErrorCode::NoNode)?;
        self.may_read(conn, node)?;
        Ok(node)
    }

    fn may_read(&self, conn: ConnId, node: &Znode) -> Result<(), ErrorCode> {
        if self.may(conn, node, Perms::READ) { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    fn may(&self, conn: ConnId, node: &Znode, perms: Perms) -> bool {
        self.config.skip_acl || self.verdicts.allows(node.shared_acl(), perms, self.ids(conn))
    }

    fn ids(&self, conn: ConnId) -> &[Identity] {
        self.links.get(&conn).map_or(&[], |link| &link.ids)
    }

    fn room_for(&self, call: Call, path: &str, watch: bool) -> Result<(), ErrorCode> {
        self.room_for_watches(call.conn, watch.then_some(path).into_iter())
    }

    fn answer(&mut self, call: Call, outcome: Result<Reply, ErrorCode>) {
        let zxid = self.tree.last_zxid();
        match outcome {
            Ok(reply) => self.reply(call, zxid, reply),
            Err(code) => self.refuse(call, zxid, code),
        }
    }
}

/// The names of the children of a znode, sorted: what follows the last slash of their paths, which is at the same place
/// in all.
fn names(node: &Znode) -> NameList {
    let above = node.children().next().and_then(|path| path.rfind('/')).map_or(0, |slash| slash + 1);
    node.children().map(|path| path.get(above..).unwrap_or_default()).collect()
}

fn ephemerals(core: &Core, session: SessionId, prefix: &str) -> Vec<String> {
    core.tree.ephemerals(session).filter(|path| path.starts_with(prefix)).map(ToString::to_string).collect()
}
