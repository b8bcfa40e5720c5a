//! Decides writes: makes every check in the order of `PrepRequestProcessor`, then chooses every open value. The result is
//! an operation that cannot fail.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use zoolet_proto::records::{CheckVersion, Delete, DeleteContainer, SetAcl, SetData};
use zoolet_proto::{AclList, ErrorCode, Perms, path};

use crate::access::{AclCheckCache, fix_up, take_room};
use crate::config::CoreConfig;
use crate::identity::Identity;
use crate::paths::{CONFIG, QUOTA, ROOT, SYSTEM};
use crate::pending::{NodeState, Pending};
use crate::quota::signed;
use crate::tree::Tree;
use crate::txn::TxnOp;
use crate::znode::Owner;

/// A write to decide, after its opcode and flags are resolved.
#[derive(Debug)]
pub(crate) enum Write {
    Create { path: String, data: Option<Bytes>, acl: Option<AclList>, owner: Owner, sequential: bool },
    Delete(Delete),
    DeleteContainer(DeleteContainer),
    SetData(SetData),
    SetAcl(SetAcl),
    Check(CheckVersion),
}

/// The author of a request of writes, and the rules for it.
pub(crate) struct Actor<'a> {
    ids: &'a [Identity],
    config: &'a CoreConfig,
    acl_checks: AclCheckCache,
    /// The lists of this request as they are stored, by the lists as they were sent. Equal lists of a multi are one.
    lists: Option<HashMap<AclList, AclList>>,
    /// How many bytes more lists of this request may have.
    acl_room: usize,
}

impl<'a> Actor<'a> {
    /// Somebody with these identities.
    pub(crate) fn new(ids: &'a [Identity], config: &'a CoreConfig) -> Self {
        Self {
            ids,
            config,
            acl_checks: AclCheckCache::default(),
            lists: None,
            // A request and its lists must fit into one entry of a log: about two frames.
            acl_room: if config.logged { config.max_acl_bytes / 2 } else { config.max_acl_bytes },
        }
    }

    fn needs(&mut self, perms: Perms, acl: &AclList) -> Result<(), ErrorCode> {
        let allowed = self.config.skip_acl || self.acl_checks.allows(acl, perms, self.ids);
        if allowed { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// The list as it is stored, shared with znodes that have the same. None is refused like an empty one.
    fn fix_up(&mut self, tree: &Tree, acl: Option<AclList>) -> Result<AclList, ErrorCode> {
        let acl = acl.ok_or(ErrorCode::InvalidAcl)?;
        if acl.is_open() {
            return Ok(acl);
        }
        let lists = self.lists.get_or_insert_default();
        if let Some(list) = lists.get(&acl) {
            if self.config.logged {
                // In its entry of the log each znode has its list.
                take_room(list, &mut self.acl_room)?;
            }
            return Ok(list.clone());
        }
        let list = tree.acls.shared(fix_up(&acl, self.ids, &self.config.auth, &mut self.acl_room)?);
        lists.insert(acl, list.clone());
        Ok(list)
    }

    fn within_quota(&self, view: &Pending<'_>, path: &str, count: i64, bytes: i64) -> Result<(), ErrorCode> {
        if !self.config.enforce_quota {
            return Ok(());
        }
        let Some((usage, limits)) = view.quota(path) else { return Ok(()) };
        let after = usage.plus(count, bytes);
        let too_many = count > 0 && limits.count.is_some_and(|limit| after.count > limit);
        let too_big = bytes != 0 && limits.bytes.is_some_and(|limit| after.bytes > limit);
        if too_many || too_big { Err(ErrorCode::QuotaExceeded) } else { Ok(()) }
    }
}

/// Decides `write`.
///
/// # Errors
/// The first check that fails; their order is what clients of a real server see.
pub(crate) fn decide(view: &Pending<'_>, actor: &mut Actor<'_>, write: Write) -> Result<TxnOp, ErrorCode> {
    match write {
        Write::Create { path, data, acl, owner, sequential } => {
            create(view, actor, path, data, acl, owner, sequential)
        }
        Write::Delete(Delete { path, version }) => {
            not_a_system_path(&path)?;
            let parent = view.get(path::parent(&path)).ok_or(ErrorCode::NoNode)?;
            actor.needs(Perms::DELETE, parent.acl)?;
            let node = view.get(&path).ok_or(ErrorCode::NoNode)?;
            expect_version(version, node.state.version)?;
            has_no_children(node.state)?;
            Ok(TxnOp::Delete { path: Arc::clone(node.path) })
        }
        Write::DeleteContainer(DeleteContainer { path }) => {
            not_a_system_path(&path)?;
            let node = view.get(&path).ok_or(ErrorCode::NoNode)?;
            // A real server checks no ACL here, and so lets any client delete any leaf.
            let parent = view.get(path::parent(&path)).ok_or(ErrorCode::NoNode)?;
            actor.needs(Perms::DELETE, parent.acl)?;
            has_no_children(node.state)?;
            if node.state.owner.as_session().is_some() {
                return Err(ErrorCode::BadVersion);
            }
            Ok(TxnOp::Delete { path: Arc::clone(node.path) })
        }
        Write::SetData(SetData { path, data, version }) => {
            path::validate(&path).map_err(|_| ErrorCode::BadArguments)?;
            let node = view.get(&path).ok_or(ErrorCode::NoNode)?;
            actor.needs(Perms::WRITE, node.acl)?;
            // Before the version: clients see the quota's error first.
            let len = data.as_ref().map_or(0, Bytes::len);
            actor.within_quota(view, &path, 0, signed(len) - signed(node.state.data_len))?;
            expect_version(version, node.state.version)?;
            let version = node.state.version.wrapping_add(1);
            Ok(TxnOp::SetData { path: Arc::clone(node.path), data, version })
        }
        Write::SetAcl(SetAcl { path, acl, version }) => {
            path::validate(&path).map_err(|_| ErrorCode::BadArguments)?;
            // Before the znode is looked up: a bad list is refused even if there is no znode.
            let acl = actor.fix_up(view.tree, acl)?;
            let node = view.get(&path).ok_or(ErrorCode::NoNode)?;
            actor.needs(Perms::ADMIN, node.acl)?;
            expect_version(version, node.state.aversion)?;
            let aversion = node.state.aversion.wrapping_add(1);
            Ok(TxnOp::SetAcl { path: Arc::clone(node.path), acl, aversion })
        }
        Write::Check(CheckVersion { path, version }) => {
            path::validate(&path).map_err(|_| ErrorCode::BadArguments)?;
            let node = view.get(&path).ok_or(ErrorCode::NoNode)?;
            actor.needs(Perms::READ, node.acl)?;
            expect_version(version, node.state.version)?;
            Ok(TxnOp::Check { path: Arc::clone(node.path) })
        }
    }
}

fn create(
    view: &Pending<'_>,
    actor: &mut Actor<'_>,
    mut path: String,
    data: Option<Bytes>,
    acl: Option<AclList>,
    owner: Owner,
    sequential: bool,
) -> Result<TxnOp, ErrorCode> {
    looks_like_a_path(&path)?;
    let acl = actor.fix_up(view.tree, acl)?;
    let parent = view.get(path::parent(&path)).ok_or(ErrorCode::NoNode)?;
    actor.needs(Perms::CREATE, parent.acl)?;
    // A name such as `/a/` becomes a path only with its number, so the path is validated after it.
    if sequential {
        path.push_str(&format!("{:010}", parent.state.creates));
    }
    path::validate(&path).map_err(|_| ErrorCode::BadArguments)?;
    if view.get(&path).is_some() {
        return Err(ErrorCode::NodeExists);
    }
    if parent.state.owner.as_session().is_some() {
        return Err(ErrorCode::NoChildrenForEphemerals);
    }
    actor.within_quota(view, &path, 1, signed(data.as_ref().map_or(0, Bytes::len)))?;
    let parent_creates = parent.state.creates + 1;
    let path: Arc<str> = path.into();
    Ok(TxnOp::Create { path, data, acl, owner, parent_creates })
}

/// The weak check that comes first (`PrepRequestProcessor.validatePathForCreate`).
fn looks_like_a_path(path: &str) -> Result<(), ErrorCode> {
    if path.contains('/') && !path.contains('\0') { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

fn not_a_system_path(path: &str) -> Result<(), ErrorCode> {
    looks_like_a_path(path)?;
    if [ROOT, SYSTEM, QUOTA, CONFIG].contains(&path) { Err(ErrorCode::BadArguments) } else { Ok(()) }
}

fn expect_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

fn has_no_children(node: NodeState) -> Result<(), ErrorCode> {
    if node.children == 0 { Ok(()) } else { Err(ErrorCode::NotEmpty) }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::{SessionId, Xid, Zxid};

    use super::*;
    use crate::message::Millis;
    use crate::txn::Txn;

    fn apply(tree: &mut Tree, op: TxnOp) {
        let (session, xid, zxid) = (SessionId(1), Xid(1), tree.last_zxid().next());
        tree.apply(&Txn { session, xid, zxid, time: Millis(0), op, digest: None }, &mut |_, _| {});
    }

    /// The next sequential name below the root, created.
    fn next_name(tree: &mut Tree) -> Arc<str> {
        let config = CoreConfig::default();
        let mut actor = Actor::new(&[], &config);
        let (path, data, acl) = ("/n-".to_owned(), None, Some(AclList::OPEN));
        let write = Write::Create { path, data, acl, owner: Owner::PERSISTENT, sequential: true };
        let op = decide(&Pending::new(tree), &mut actor, write).unwrap();
        let TxnOp::Create { path, .. } = &op else { panic!("{op:?}") };
        let name = Arc::clone(path);
        apply(tree, op);
        name
    }

    #[test]
    fn past_the_end_of_a_32_bit_counter_no_two_names_are_equal() {
        let mut tree = Tree::default();
        let (path, data, acl) = ("/last".into(), None, AclList::OPEN);
        let parent_creates = i64::from(i32::MAX);
        apply(&mut tree, TxnOp::Create { path, data, acl, owner: Owner::PERSISTENT, parent_creates });
        assert_eq!(tree.last_zxid(), Zxid(1));
        let names: Vec<_> = (0..3).map(|_| next_name(&mut tree)).collect();
        assert_eq!(
            names.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["/n-2147483647", "/n-2147483648", "/n-2147483649"]
        );
    }
}
