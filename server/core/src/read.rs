//! The reads. One that sets a watch sets it in the same call that reads the value.

use std::collections::HashMap;

use zoolet_proto::records::{ClientInfo, Exists, GetChildren, GetData, Op, OpResult};
use zoolet_proto::{ErrorCode, NameList, Perms, Reply, Zxid};

use crate::access::AclCheckCache;
use crate::core::{Core, RequestContext};
use crate::identity::Identity;
use crate::message::ConnId;
use crate::watch::Modes;
use crate::znode::Znode;

impl Core {
    pub(crate) fn exists(&mut self, call: RequestContext, record: &Exists) {
        let outcome = if record.path.contains('\0') {
            Err(ErrorCode::BadArguments)
        } else {
            self.read(call, &record.path, record.watch).map(|node| Reply::Stat(node.stat()))
        };
        // The only read that sets a watch on a missing znode.
        if record.watch && matches!(outcome, Ok(_) | Err(ErrorCode::NoNode)) {
            self.watches.add(call.conn, &record.path, Modes::DATA);
        }
        let zxid = self.unchanged_since(&record.path);
        self.answer(call, zxid, outcome);
    }

    pub(crate) fn get_data(&mut self, call: RequestContext, record: &GetData) {
        let node = self.read(call, &record.path, record.watch);
        let outcome = node.map(|node| Reply::Data(node.data().cloned(), node.stat()));
        if record.watch && outcome.is_ok() {
            self.watches.add(call.conn, &record.path, Modes::DATA);
        }
        let zxid = self.unchanged_since(&record.path);
        self.answer(call, zxid, outcome);
    }

    pub(crate) fn get_children(&mut self, call: RequestContext, record: &GetChildren, with_stat: bool) {
        let node = self.read(call, &record.path, record.watch);
        let found = node.map(|node| (node.names(), with_stat.then(|| node.stat())));
        let outcome = found.map(|((names, keep), stat)| {
            if keep {
                self.tree.keep_names(&record.path, &names);
            }
            match stat {
                Some(stat) => Reply::Children2(names, stat),
                None => Reply::Children(names),
            }
        });
        if record.watch && outcome.is_ok() {
            self.watches.add(call.conn, &record.path, Modes::CHILD);
        }
        let zxid = self.unchanged_since(&record.path);
        self.answer(call, zxid, outcome);
    }

    pub(crate) fn get_acl(&mut self, call: RequestContext, path: &str) {
        let outcome = self.tree.get(path).ok_or(ErrorCode::NoNode).and_then(|node| {
            let acl = self.visible_acl(self.ids(call.conn), node)?;
            Ok(Reply::Acl(acl, node.stat()))
        });
        let zxid = self.unchanged_since(path);
        self.answer(call, zxid, outcome);
    }

    pub(crate) fn get_all_children_number(&mut self, call: RequestContext, path: &str) {
        let outcome = self.readable(self.ids(call.conn), path).map(|node| {
            // The root counts as its own descendant under its alias.
            let count = node.descendants() + usize::from(path.is_empty());
            // An int on the wire.
            Reply::Count(count as i32)
        });
        self.answer(call, self.tree.last_zxid(), outcome);
    }

    pub(crate) fn get_ephemerals(&mut self, call: RequestContext, prefix: Option<&str>) {
        // As Java's `trim`, which keeps the spaces of other scripts.
        let means_all = |prefix: &str| ["", "/"].contains(&prefix.trim_matches(|c| c <= ' '));
        let prefix = prefix.filter(|prefix| !means_all(prefix)).unwrap_or_default();
        let paths = self.tree.ephemerals(call.session).filter(|path| path.starts_with(prefix));
        let paths = paths.map(ToString::to_string).collect();
        self.reply(call, self.tree.last_zxid(), Reply::Ephemerals(paths));
    }

    pub(crate) fn who_am_i(&mut self, call: RequestContext) {
        let ids: Vec<ClientInfo> = self.ids(call.conn).iter().map(Identity::info).collect();
        self.reply(call, self.durable_zxid(), Reply::WhoAmI(ids));
    }

    pub(crate) fn multi_read(&mut self, call: RequestContext, ops: &[Op]) {
        let mut results = Vec::with_capacity(ops.len());
        // A request of a megabyte can read one long list tens of thousands of times: all results share it.
        let mut lists: HashMap<&str, NameList> = HashMap::new();
        let (ids, mut acl_checks) = (self.ids(call.conn), AclCheckCache::default());
        let mut readable = |path: &str| {
            let node = self.tree.get(path).ok_or(ErrorCode::NoNode)?;
            let allowed = self.config.skip_acl || acl_checks.allows(&node.acl, Perms::READ, ids);
            if allowed { Ok(node) } else { Err(ErrorCode::NoAuth) }
        };
        for op in ops {
            let result = match op {
                Op::GetData(record) => {
                    readable(&record.path).map(|node| OpResult::GetData(node.data().cloned(), node.stat()))
                }
                Op::GetChildren(record) => readable(&record.path).map(|node| {
                    let list = lists.entry(&record.path).or_insert_with(|| node.names().0);
                    OpResult::GetChildren(list.clone())
                }),
                Op::Create(_)
                | Op::Create2(_)
                | Op::CreateContainer(_)
                | Op::CreateTtl(_)
                | Op::Delete(_)
                | Op::SetData(_)
                | Op::Check(_) => return self.refuse_multi_read(call, ops),
            };
            results.push(result.unwrap_or_else(|code| OpResult::Error(Some(code))));
        }
        let zxid = self.unchanged_since_all(ops.iter().map(Op::path));
        self.reply(call, zxid, Reply::Multi(results));
    }

    /// Refuses a multiRead of writes. A real server sends an error in the header and then an empty list of results.
    /// It sends only the header if the list mixes reads and writes, which does not decode, or has an operation for which a
    /// multi would be refused as a whole.
    fn refuse_multi_read(&mut self, call: RequestContext, ops: &[Op]) {
        if ops.iter().all(|op| self.multi_write(call.session, op.clone()).is_ok()) {
            let zxid = self.raised(call.conn, self.tree.last_zxid());
            self.send_refusal(call, zxid, ErrorCode::MarshallingError, Reply::Multi(Vec::new()));
        } else {
            self.refuse(call, self.tree.last_zxid(), ErrorCode::MarshallingError);
        }
    }

    /// The znode at `path`, if it exists and the client may read it, and may watch the path too if it asks for that.
    fn read(&self, call: RequestContext, path: &str, watch: bool) -> Result<&Znode, ErrorCode> {
        self.check_watch_limit(call.conn, watch.then_some(path).into_iter())?;
        self.readable(self.ids(call.conn), path)
    }

    /// The znode at `path`, if it exists and somebody with these identities may read it.
    pub(crate) fn readable(&self, ids: &[Identity], path: &str) -> Result<&Znode, ErrorCode> {
        let node = self.tree.get(path).ok_or(ErrorCode::NoNode)?;
        if self.may(ids, node, Perms::READ) { Ok(node) } else { Err(ErrorCode::NoAuth) }
    }

    pub(crate) fn ids(&self, conn: ConnId) -> &[Identity] {
        self.conns.get(&conn).map_or(&[], |state| &state.ids)
    }

    pub(crate) fn answer(&mut self, call: RequestContext, zxid: Zxid, outcome: Result<Reply, ErrorCode>) {
        match outcome {
            Ok(reply) => self.reply(call, zxid, reply),
            Err(code) => self.refuse(call, zxid, code),
        }
    }
}
