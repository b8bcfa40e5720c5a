//! [`Model`]: ZooKeeper's tree, written to be obviously correct. It shares only the records and the rules of paths with the
//! server.

mod tree;

use zoolet_proto::records::{Create, Op, OpResult, SetAcl};
use zoolet_proto::{
    Acl, CreateMode, ErrorCode, EventType, OpCode, Perms, Reply, Request, SessionId, Stat, Zxid, path,
};

use tree::{ModelNode, ModelOwner, ModelTree, SYSTEM};

/// The reply to a request: a body, or the error in the header.
pub type Outcome = Result<Reply, ErrorCode>;

/// A request that is beyond the [`Model`], and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmodelled(&'static str);

/// A naive tree of znodes: the state of a server of version 3.9 after the same writes.
///
/// It does not model ACLs of other schemes than `world`, quotas, and reconfig, and it deletes no container or TTL znode by
/// itself.
#[derive(Debug, Clone)]
pub struct Model {
    tree: ModelTree,
    extended_types: bool,
    /// The latest transaction and its time.
    zxid: Zxid,
    time: i64,
    /// The changes of the latest transaction, oldest first.
    pub(super) changes: Vec<TreeChange>,
}

/// A change that can trigger watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeChange {
    /// `NodeCreated`, `NodeDeleted` or `NodeDataChanged`.
    pub(super) kind: EventType,
    pub(super) path: String,
    /// Whether every client may read the znode, and so is notified.
    pub(super) readable: bool,
    /// The same of its parent.
    pub(super) parent_readable: bool,
}

enum Refusal {
    Code(ErrorCode),
    Unmodelled(Unmodelled),
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

type Decided<T> = Result<T, Refusal>;

impl Model {
    /// The tree of an empty database. With `extended_types` it accepts znodes with a time to live.
    pub fn new(extended_types: bool) -> Self {
        Self { tree: ModelTree::new(), extended_types, zxid: Zxid(0), time: 0, changes: Vec::new() }
    }

    /// The paths of all znodes, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.tree.paths()
    }

    /// Whether this request takes a zxid, successful or refused.
    pub fn takes_zxid(request: &Request) -> bool {
        match request {
            // The first malformed part decides how the whole multi is refused.
            Request::Multi(ops) => ops.iter().find_map(refused_whole).unwrap_or(true),
            _ => request.op().takes_zxid(),
        }
    }

    /// Applies `request` of `session` as transaction `zxid` at `time`, or refuses it.
    ///
    /// # Errors
    /// [`Unmodelled`]; a refusal is an [`Outcome`].
    pub fn write(
        &mut self,
        session: SessionId,
        zxid: Zxid,
        time: i64,
        request: &Request,
    ) -> Result<Outcome, Unmodelled> {
        self.begin(zxid, time);
        let decided = match request {
            Request::Multi(ops) => self.multi(session, ops),
            Request::SetAcl(record) => self.set_acl(record).map(Reply::Stat),
            Request::DeleteContainer(record) => self.delete_container(&record.path).map(|()| Reply::Empty),
            Request::CloseSession => {
                let paths: Vec<_> = self.tree.ephemerals(session).cloned().collect();
                paths.iter().for_each(|path| self.remove(path));
                Ok(Reply::Empty)
            }
            _ => {
                let op = as_part(request).ok_or(Unmodelled("a write that the model does not know"))?;
                self.step(session, &op, false).map(|result| match result {
                    OpResult::Create(path) => Reply::Created(path),
                    OpResult::Create2(path, stat) => Reply::Created2(path, stat),
                    OpResult::SetData(stat) => Reply::Stat(stat),
                    _ => Reply::Empty,
                })
            }
        };
        match decided {
            Ok(reply) => Ok(Ok(reply)),
            Err(Refusal::Code(code)) => Ok(Err(code)),
            Err(Refusal::Unmodelled(what)) => Err(what),
        }
    }

    /// Deletes an empty container or an expired TTL znode, as a server does by itself.
    ///
    /// # Errors
    /// Why the server may not delete it.
    pub fn clean_up(&mut self, path: &str, zxid: Zxid, time: i64) -> Result<(), ErrorCode> {
        self.begin(zxid, time);
        let node = self.tree.node(path, Perms::NONE)?;
        match node.owner {
            ModelOwner::Container => {}
            // It expires relative to the last setData, but that can follow the server's check.
            ModelOwner::Ttl(ttl) if time - node.stat.ctime > ttl => {}
            _ => return Err(ErrorCode::BadArguments),
        }
        self.childless(path)?;
        self.remove(path);
        Ok(())
    }

    /// Answers a read of `session`, without setting a watch.
    ///
    /// # Errors
    /// [`Unmodelled`] for a request that depends on more than the tree.
    pub fn read(&self, session: SessionId, request: &Request) -> Result<Outcome, Unmodelled> {
        let tree = &self.tree;
        let found = |path: &str, perms| tree.node(path, perms).map(|node| (node, tree.stat(path, node)));
        let data = |path: &str| found(path, Perms::READ).map(|(node, stat)| (node.data.clone(), stat));
        let children =
            |path: &str| found(path, Perms::READ).map(|(_, stat)| (tree.names(path).collect(), stat));
        Ok(match request {
            Request::Exists(get) if get.path.contains('\0') => Err(ErrorCode::BadArguments),
            Request::Exists(get) => found(&get.path, Perms::READ).map(|(_, stat)| Reply::Stat(stat)),
            Request::GetData(get) => data(&get.path).map(|(data, stat)| Reply::Data(data, stat)),
            Request::GetAcl(get) => found(&get.path, Perms::READ | Perms::ADMIN)
                .map(|(node, stat)| Reply::Acl(node.acl.clone(), stat)),
            Request::GetChildren(get) => children(&get.path).map(|(names, _)| Reply::Children(names)),
            Request::GetChildren2(get) => {
                children(&get.path).map(|(names, stat)| Reply::Children2(names, stat))
            }
            Request::GetAllChildrenNumber(get) => {
                // With the empty path, its alias, the root counts itself.
                let itself = i32::from(get.path.is_empty());
                found(&get.path, Perms::READ).map(|_| Reply::Count(tree.descendants(&get.path) + itself))
            }
            Request::GetEphemerals(get) => {
                let prefix = get.prefix.as_deref().unwrap_or_default();
                let all = ["", "/"].contains(&prefix.trim_matches(|c| c <= ' '));
                let wanted = tree.ephemerals(session).filter(|path| all || path.starts_with(prefix));
                Ok(Reply::Ephemerals(wanted.cloned().collect()))
            }
            Request::MultiRead(ops) if ops.iter().all(Op::is_read) => {
                let part = |op: &Op| match op {
                    Op::GetData(get) => data(&get.path).map(|(data, stat)| OpResult::GetData(data, stat)),
                    Op::GetChildren(get) => {
                        children(&get.path).map(|(names, _)| OpResult::GetChildren(names))
                    }
                    _ => Err(ErrorCode::MarshallingError),
                };
                let parts = ops.iter().map(|op| part(op).unwrap_or_else(|code| OpResult::Error(Some(code))));
                Ok(Reply::Multi(parts.collect()))
            }
            Request::MultiRead(_) | Request::Multi(_) => Err(ErrorCode::MarshallingError),
            Request::Sync(sync) => Ok(Reply::Synced(sync.path.clone())),
            Request::Ping => Ok(Reply::Empty),
            _ => return Err(Unmodelled("a request that depends on more than the tree")),
        })
    }

    /// The zxids of the last changes of a znode's data and list of children, if it exists.
    pub(super) fn last_changed(&self, path: &str) -> Option<(Zxid, Zxid)> {
        self.tree.node(path, Perms::NONE).ok().map(|node| (node.stat.mzxid, node.stat.pzxid))
    }

    fn begin(&mut self, zxid: Zxid, time: i64) {
        (self.zxid, self.time) = (zxid, time);
        self.tree.begin();
        self.changes.clear();
    }

    fn multi(&mut self, session: SessionId, ops: &[Op]) -> Decided<Reply> {
        if ops.iter().any(|op| refused_whole(op).is_some()) {
            return Err(ErrorCode::MarshallingError.into());
        }
        let mut results = Vec::new();
        for op in ops {
            match self.step(session, op, true) {
                Ok(result) => results.push(result),
                Err(unmodelled @ Refusal::Unmodelled(_)) => return Err(unmodelled),
                Err(Refusal::Code(code)) => {
                    self.tree.roll_back();
                    self.changes.clear();
                    results.fill(OpResult::Error(None));
                    results.push(OpResult::Error(Some(code)));
                    results.resize(ops.len(), OpResult::Error(Some(ErrorCode::RuntimeInconsistency)));
                    break;
                }
            }
        }
        Ok(Reply::Multi(results))
    }

    /// Applies one write, alone or as a part of a multi.
    fn step(&mut self, session: SessionId, op: &Op, in_multi: bool) -> Decided<OpResult> {
        match op {
            Op::Create(record) => self.create(session, OpCode::Create, record, 0, in_multi),
            Op::Create2(record) => self.create(session, OpCode::Create2, record, 0, in_multi),
            Op::CreateContainer(record) => self.create(session, OpCode::CreateContainer, record, 0, in_multi),
            Op::CreateTtl(record) => {
                let (path, data, acl) = (record.path.clone(), record.data.clone(), record.acl.clone());
                let create = Create { path, data, acl, flags: record.flags };
                self.create(session, OpCode::CreateTtl, &create, record.ttl, in_multi)
            }
            Op::Delete(record) => {
                not_a_system_path(&record.path)?;
                self.tree.node(path::parent(&record.path), Perms::DELETE)?;
                let node = self.tree.node(&record.path, Perms::NONE)?;
                expect_version(record.version, node.stat.version)?;
                self.childless(&record.path)?;
                self.remove(&record.path);
                Ok(OpResult::Delete)
            }
            Op::SetData(record) => {
                valid(&record.path)?;
                let mut node = self.tree.node(&record.path, Perms::WRITE)?.clone();
                expect_version(record.version, node.stat.version)?;
                node.data = record.data.clone();
                node.stat.version = node.stat.version.wrapping_add(1);
                (node.stat.mzxid, node.stat.mtime) = (self.zxid, self.time);
                let stat = self.tree.stat(&record.path, &node);
                self.tree.put(&record.path, Some(node));
                self.record_change(EventType::NodeDataChanged, &record.path);
                Ok(OpResult::SetData(stat))
            }
            Op::Check(record) => {
                valid(&record.path)?;
                expect_version(record.version, self.tree.node(&record.path, Perms::READ)?.stat.version)?;
                Ok(OpResult::Check)
            }
            Op::GetData(_) | Op::GetChildren(_) => Err(ErrorCode::MarshallingError.into()),
        }
    }

    fn create(
        &mut self,
        session: SessionId,
        op: OpCode,
        record: &Create,
        ttl: i64,
        in_multi: bool,
    ) -> Decided<OpResult> {
        let mode = CreateMode::from_code(record.flags).ok_or(ErrorCode::BadArguments)?;
        let plain = if mode.is_ephemeral() { ModelOwner::Session(session) } else { ModelOwner::None };
        let (owner, with_stat) = match op {
            _ if mode.is_ttl() && !self.extended_types => return Err(ErrorCode::Unimplemented.into()),
            OpCode::CreateTtl if mode.is_ttl() && (1..1 << 40).contains(&ttl) => (ModelOwner::Ttl(ttl), true),
            OpCode::CreateTtl if !in_multi => return Err(ErrorCode::BadArguments.into()),
            _ if mode.is_ttl() => return Err(ErrorCode::BadArguments.into()),
            OpCode::CreateContainer => (ModelOwner::Container, true),
            _ if mode == CreateMode::Container && in_multi => (ModelOwner::Container, true),
            _ => (plain, op == OpCode::Create2),
        };
        let mut path = record.path.clone();
        looks_like_a_path(&path)?;
        let acl = checked_acl(record.acl.as_deref().unwrap_or_default())?;
        let parent_path = path::parent(&path).to_owned();
        let mut parent_node = self.tree.node(&parent_path, Perms::CREATE)?.clone();
        if mode.is_sequential() {
            path += &format!("{:010}", parent_node.creates);
        }
        valid(&path)?;
        if self.tree.node(&path, Perms::NONE).is_ok() {
            return Err(ErrorCode::NodeExists.into());
        }
        if matches!(parent_node.owner, ModelOwner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals.into());
        }
        if path.starts_with("/zookeeper/quota/") {
            return Err(Refusal::Unmodelled(Unmodelled("it can set a quota")));
        }
        parent_node.creates += 1;
        parent_node.stat.pzxid = self.zxid;
        self.tree.put(&parent_path, Some(parent_node));
        let node = ModelNode::new(record.data.clone(), acl, owner, self.zxid, self.time);
        let stat = self.tree.stat(&path, &node);
        self.tree.put(&path, Some(node));
        self.record_change(EventType::NodeCreated, &path);
        Ok(if with_stat { OpResult::Create2(path, stat) } else { OpResult::Create(path) })
    }

    fn delete_container(&mut self, path: &str) -> Decided<()> {
        not_a_system_path(path)?;
        let node = self.tree.node(path, Perms::NONE)?;
        self.tree.node(path::parent(path), Perms::DELETE)?;
        self.childless(path)?;
        if matches!(node.owner, ModelOwner::Session(_)) {
            return Err(ErrorCode::BadVersion.into());
        }
        self.remove(path);
        Ok(())
    }

    fn set_acl(&mut self, SetAcl { path, acl, version }: &SetAcl) -> Decided<Stat> {
        valid(path)?;
        let acl = checked_acl(acl.as_deref().unwrap_or_default())?;
        let mut node = self.tree.node(path, Perms::ADMIN)?.clone();
        expect_version(*version, node.stat.aversion)?;
        node.acl = acl;
        node.stat.aversion = node.stat.aversion.wrapping_add(1);
        let stat = self.tree.stat(path, &node);
        self.tree.put(path, Some(node));
        Ok(stat)
    }

    fn remove(&mut self, path: &str) {
        self.record_change(EventType::NodeDeleted, path);
        self.tree.put(path, None);
        if let Ok(parent_node) = self.tree.node(path::parent(path), Perms::NONE) {
            let mut parent_node = parent_node.clone();
            parent_node.stat.pzxid = self.zxid;
            self.tree.put(path::parent(path), Some(parent_node));
        }
    }

    fn record_change(&mut self, kind: EventType, path: &str) {
        let readable = |path| self.tree.node(path, Perms::READ).is_ok();
        let (readable, parent_readable) = (readable(path), readable(path::parent(path)));
        self.changes.push(TreeChange { kind, path: path.to_owned(), readable, parent_readable });
    }

    fn childless(&self, path: &str) -> Result<(), ErrorCode> {
        if self.tree.names(path).next().is_none() { Ok(()) } else { Err(ErrorCode::NotEmpty) }
    }
}

/// A write as the part of a multi that does the same.
pub(super) fn as_part(request: &Request) -> Option<Op> {
    Some(match request.clone() {
        Request::Create(record) => Op::Create(record),
        Request::Create2(record) => Op::Create2(record),
        Request::CreateContainer(record) => Op::CreateContainer(record),
        Request::CreateTtl(record) => Op::CreateTtl(record),
        Request::Delete(record) => Op::Delete(record),
        Request::SetData(record) => Op::SetData(record),
        _ => return None,
    })
}

/// If this part makes a server refuse the whole multi: whether that takes a zxid.
fn refused_whole(op: &Op) -> Option<bool> {
    match op {
        Op::Create(record) | Op::Create2(record) | Op::CreateContainer(record) => {
            let mode = CreateMode::from_code(record.flags);
            let no_acl = record.acl.is_none().then_some(false);
            if mode.is_none_or(CreateMode::is_ttl) { Some(true) } else { no_acl }
        }
        other => other.is_read().then_some(true),
    }
}

fn looks_like_a_path(path: &str) -> Result<(), ErrorCode> {
    if path.contains('/') && !path.contains('\0') { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

fn not_a_system_path(path: &str) -> Result<(), ErrorCode> {
    looks_like_a_path(path)?;
    if SYSTEM.contains(&path) { Err(ErrorCode::BadArguments) } else { Ok(()) }
}

fn valid(path: &str) -> Result<(), ErrorCode> {
    path::validate(path).map_err(|_| ErrorCode::BadArguments)
}

fn expect_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

/// The list without duplicates. The model knows only entries that apply to every client.
fn checked_acl(acl: &[Acl]) -> Decided<Vec<Acl>> {
    let mut checked: Vec<Acl> = Vec::new();
    for entry in acl {
        match (entry.scheme.as_str(), entry.id.as_str()) {
            ("world", "anyone") if checked.contains(entry) => {}
            ("world", "anyone") => checked.push(entry.clone()),
            ("auth" | "digest" | "ip" | "sasl" | "x509", _) => {
                return Err(Refusal::Unmodelled(Unmodelled("its ACL depends on the client's identity")));
            }
            _ => return Err(ErrorCode::InvalidAcl.into()),
        }
    }
    if checked.is_empty() { Err(ErrorCode::InvalidAcl.into()) } else { Ok(checked) }
}
