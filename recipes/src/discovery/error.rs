//! [`DiscoveryError`].

use std::error::Error as StdError;
use std::sync::Arc;

use super::format::FormatError;
use crate::cache::CacheError;
use crate::keep_node::KeepError;

/// Why an instance cannot be registered, changed or looked up.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The instance or its payload cannot be written.
    #[error("an instance cannot be written: {0}")]
    Encode(Arc<dyn StdError + Send + Sync>),
    /// The payload is not what was asked for.
    #[error("a payload cannot be read: {0}")]
    Decode(Arc<dyn StdError + Send + Sync>),
    /// Name or id are not one component of a path.
    #[error("{what:?} cannot be the name of a znode")]
    InvalidName {
        /// The name.
        what: String,
    },
    /// An update would change the name of the znode, from this one. Register the new instance, wait until it is present, and close
    /// the old registration.
    #[error("the update belongs to another znode than {path}")]
    OtherNode {
        /// The path of the registered instance.
        path: String,
    },
    /// Of the znode.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Of the cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl DiscoveryError {
    pub(super) fn encode(reason: impl Into<FormatError>) -> Self {
        Self::Encode(reason.into().into())
    }

    pub(super) fn decode(error: serde_json::Error) -> Self {
        Self::Decode(Arc::new(error))
    }
}
