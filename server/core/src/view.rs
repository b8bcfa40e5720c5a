//! Reads without a connection: what a client with certain identities would see.

use std::net::IpAddr;

use zoolet_proto::{Acl, ErrorCode, Perms};

use crate::access::{allows, masked};
use crate::core::Core;
use crate::identity::Identity;
use crate::znode::Znode;

/// The identities of a reader without a connection. ACLs hold for it as for a client that has them.
#[derive(Clone)]
pub struct Viewer {
    peer: IpAddr,
    ids: Vec<Identity>,
}

impl Viewer {
    /// A reader at this address who has proved nothing else.
    pub fn new(peer: IpAddr) -> Self {
        Self { peer, ids: vec![Identity::Ip(peer)] }
    }
}

impl Core {
    /// Adds the identities that an addauth with these credentials gives. False, and nothing is added, if it would fail.
    #[must_use]
    pub fn authenticate_viewer(&self, viewer: &mut Viewer, scheme: &str, credentials: &[u8]) -> bool {
        let ids = self.config.authenticate(Some(scheme), Some(credentials), viewer.peer, &viewer.ids);
        ids.map(|ids| viewer.ids.extend(ids)).is_some()
    }

    /// Whether a client with these identities is served at all, where an authentication is required (`enforce.auth.schemes`).
    pub fn admits_viewer(&self, viewer: &Viewer) -> bool {
        self.config.auth.suffice(&viewer.ids)
    }

    /// The znode at `path`, as `getData` would find it.
    ///
    /// # Errors
    /// `NoNode`, `NoAuth`.
    pub fn view(&self, viewer: &Viewer, path: &str) -> Result<&Znode, ErrorCode> {
        self.readable(&viewer.ids, path)
    }

    /// The access control list of a znode, as `getACL` would return it: without the digests if the viewer may read the znode
    /// but not administer it.
    ///
    /// # Errors
    /// `NoNode`, `NoAuth`.
    pub fn view_acl(&self, viewer: &Viewer, path: &str) -> Result<Vec<Acl>, ErrorCode> {
        self.visible_acl(&viewer.ids, self.tree.get(path).ok_or(ErrorCode::NoNode)?)
    }

    /// The access control list of a znode as somebody with these identities sees it.
    pub(crate) fn visible_acl(&self, ids: &[Identity], node: &Znode) -> Result<Vec<Acl>, ErrorCode> {
        if self.may(ids, node, Perms::ADMIN) {
            Ok(node.acl().to_vec())
        } else if self.may(ids, node, Perms::READ) {
            Ok(masked(node.acl()))
        } else {
            Err(ErrorCode::NoAuth)
        }
    }

    pub(crate) fn may(&self, ids: &[Identity], node: &Znode, perms: Perms) -> bool {
        self.config.skip_acl || allows(&node.acl, perms, ids)
    }
}
