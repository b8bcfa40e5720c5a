//! What servers can do, as far as a client has asked them.
//!
//! A server that lacks an operation answers with `Unimplemented` and, for some, closes the connection. So the answer is
//! remembered for the server, and not for the ensemble: during a rolling upgrade its members differ.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zoolet_proto::OpCode;

use crate::locked::locked;

/// An operation that not all servers in use have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerFeature {
    /// Persistent watches: [`Client::add_watch`](crate::Client::add_watch). Since 3.6.
    AddWatch,
    /// [`Client::multi_read`](crate::Client::multi_read). Since 3.6.
    MultiRead,
    /// [`Create::ttl`](crate::Create::ttl). Since 3.5.3, if `zookeeper.extendedTypesEnabled` is set.
    CreateTtl,
    /// Creates whose reply has a `Stat`, and what came with them: containers and
    /// [`Client::remove_watches`](crate::Client::remove_watches). Since 3.5. A client creates without them at a server of 3.4;
    /// see [`Created::stat`](crate::Created::stat).
    Create2,
}

impl ServerFeature {
    pub(crate) fn of(op: OpCode) -> Option<Self> {
        Some(match op {
            OpCode::AddWatch | OpCode::SetWatches2 => Self::AddWatch,
            OpCode::MultiRead => Self::MultiRead,
            OpCode::CreateTtl => Self::CreateTtl,
            OpCode::Create2 | OpCode::RemoveWatches => Self::Create2,
            _ => return None,
        })
    }
}

/// A server, as in the connect string; a closure counts as one server.
type ServerName = Option<Arc<str>>;

/// Which features which servers are known to have, or not. Sessions with the same options share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownFeatures(Arc<Mutex<BTreeMap<(ServerName, ServerFeature), bool>>>);

impl KnownFeatures {
    pub(crate) fn get(&self, server: ServerName, feature: ServerFeature) -> Option<bool> {
        let known = locked(&self.0);
        known.get(&(server, feature)).copied()
    }

    pub(crate) fn note(&self, server: ServerName, feature: ServerFeature, has: bool) {
        let mut known = locked(&self.0);
        known.insert((server, feature), has);
    }
}
