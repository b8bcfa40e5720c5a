//! What servers can do, as far as a client has asked them.
//!
//! A server that lacks an operation answers with `Unimplemented` and, for some, closes the connection. So the answer is
//! remembered for the server, and not for the ensemble: during a rolling upgrade its members differ.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zoolet_proto::{ErrorCode, OpCode};

/// An operation that not all servers in use have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    const COUNT: usize = 4;

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

/// What one server is known to have, by [`ServerFeature`].
type FeatureSet = [Option<bool>; ServerFeature::COUNT];

type FeaturesByServer = BTreeMap<Option<Arc<str>>, FeatureSet>;

/// By server, as in the connect string; a closure counts as one server. Sessions with the same options share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownFeatures(Arc<Mutex<FeaturesByServer>>);

impl KnownFeatures {
    fn servers(&self) -> MutexGuard<'_, FeaturesByServer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, server: &Option<Arc<str>>, feature: ServerFeature) -> Option<bool> {
        self.servers().get(server)?[feature as usize]
    }

    /// Notes what the answer to a request says about its server.
    pub(crate) fn note(
        &self,
        server: impl FnOnce() -> Option<Arc<str>>,
        op: OpCode,
        error: Option<ErrorCode>,
    ) {
        let Some(feature) = ServerFeature::of(op) else { return };
        let has = error != Some(ErrorCode::Unimplemented);
        self.servers().entry(server()).or_default()[feature as usize] = Some(has);
    }
}
