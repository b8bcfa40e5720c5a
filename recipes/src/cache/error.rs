//! The errors of a cache.

use zoolet_client::Error;

/// Why a cache cannot be opened, or has ended, or cannot be waited for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The root is not a valid path.
    #[error("{0}")]
    InvalidRoot(Error),
    /// There will be no other session.
    #[error("cache: {0}")]
    SessionsEnded(Error),
    /// The subtree has more znodes than [`max_nodes`](super::CacheBuilder::max_nodes). The cache has ended.
    #[error("cache of {root}: more than {max} znodes, the limit is `max_nodes`")]
    TooManyNodes {
        /// The root.
        root: String,
        /// The limit.
        max: usize,
    },
    /// The data of the subtree is longer than [`max_bytes`](super::CacheBuilder::max_bytes). The cache has ended.
    #[error("cache of {root}: more than {max} bytes of data, the limit is `max_bytes`")]
    TooMuchData {
        /// The root.
        root: String,
        /// The limit.
        max: usize,
    },
    /// The servers went back to an older state, so that the zxid that was waited for means nothing any more.
    #[error("cache: the servers went back to an older state")]
    Reset,
    /// The task of the cache is gone, with its runtime or because a decoder or filter has panicked.
    #[error("cache: its task is gone")]
    Gone,
}
