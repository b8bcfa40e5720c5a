//! The options of a cache.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use zoolet_client::Sessions;
use zoolet_client::internal::SessionsExt as _;

use super::entry::Undecodable;
use super::error::CacheError;
use super::mirror::{Decoder, MirrorConfig};
use super::publish::Board;
use super::scope::Scope;
use super::worker::Worker;
use super::{Cache, CacheHandle};

/// A cache that is not open yet, from [`Cache::builder`].
#[must_use = "a cache is opened by `.open()`"]
pub struct CacheBuilder<T> {
    sessions: Sessions,
    config: MirrorConfig<T>,
}

impl CacheBuilder<Bytes> {
    pub(super) fn new(sessions: &Sessions, root: String) -> Self {
        let scope =
            Scope { skip_system: root == "/", root: root.into(), max_depth: usize::MAX, filter: None };
        let config = MirrorConfig {
            scope,
            decode: Arc::new(|_, data| Ok(Bytes::copy_from_slice(data))),
            reads_data: true,
            max_nodes: 1_000_000,
            max_bytes: 1 << 30,
        };
        Self { sessions: sessions.clone(), config }
    }

    /// Keeps no data, and does not read it: only what the Stat says.
    pub fn without_data(self) -> CacheBuilder<()> {
        let config = self.config.with_decoder(Arc::new(|_, _| Ok(())), false);
        CacheBuilder { sessions: self.sessions, config }
    }

    /// Keeps what `decode` makes of path and data. A znode whose data cannot be decoded is there all the same, with the error
    /// as its [value](super::Entry::value).
    ///
    /// ```no_run
    /// # async fn example(sessions: zoolet_client::Sessions) -> Result<(), Box<dyn std::error::Error>> {
    /// let ports = zoolet_recipes::Cache::builder(&sessions, "/ports")
    ///     .decode(|_path, data| Ok(std::str::from_utf8(data)?.parse::<u16>()?))
    ///     .open()
    ///     .await?;
    /// let port = ports.snapshot().get("/ports/web").and_then(|entry| entry.value().ok().copied());
    /// # Ok(()) }
    /// ```
    pub fn decode<U>(
        self,
        decode: impl Fn(&str, &[u8]) -> Result<U, Box<dyn StdError + Send + Sync>> + Send + Sync + 'static,
    ) -> CacheBuilder<U> {
        let decode: Decoder<U> = Arc::new(move |path, data| decode(path, data).map_err(Undecodable::new));
        CacheBuilder { sessions: self.sessions, config: self.config.with_decoder(decode, true) }
    }

    /// Keeps the data as values of a type that serde reads from JSON; see [`decode`](CacheBuilder::decode).
    ///
    /// ```no_run
    /// #[derive(serde::Deserialize)]
    /// struct Limits {
    ///     rate: u32,
    /// }
    ///
    /// # async fn example(sessions: zoolet_client::Sessions) -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = zoolet_recipes::Cache::builder(&sessions, "/limits").json::<Limits>().open().await?;
    /// for entry in limits.snapshot().children("/limits") {
    ///     println!("{}: {:?}", entry.name(), entry.value().map(|limits| limits.rate));
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "serde")]
    pub fn json<U: serde::de::DeserializeOwned>(self) -> CacheBuilder<U> {
        self.decode(|_, data| Ok(serde_json::from_slice(data)?))
    }
}

impl<T: Send + Sync + 'static> CacheBuilder<T> {
    /// The levels below the root: 0 is the root alone, 1 its children too.
    ///
    /// Default: all.
    pub fn max_depth(mut self, levels: usize) -> Self {
        self.config.scope.max_depth = levels;
        self
    }

    /// Leaves out each znode below the root for whose path `keeps` is false, with all that is below it. It must depend on the
    /// path alone.
    ///
    /// Default: none is left out.
    pub fn filter(mut self, keeps: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.config.scope.filter = Some(Arc::new(keeps));
        self
    }

    /// The most znodes. A subtree with more ends the cache with `TooManyNodes`: a part of it would be wrong.
    ///
    /// Default: 1,000,000.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.config.max_nodes = nodes;
        self
    }

    /// The most bytes of data. A subtree with more ends the cache with `TooMuchData`. Paths, Stats and the memory of decoded
    /// values come on top.
    ///
    /// Default: 1 GiB.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.config.max_bytes = bytes;
        self
    }

    /// Opens the cache and waits for its first snapshot. Without a connection it waits for one.
    ///
    /// # Errors
    /// `InvalidRoot`; `TooManyNodes` and `TooMuchData`; `SessionsEnded`.
    /// # Ordering and cancel safety
    /// Dropping the future closes the cache.
    pub async fn open(self) -> Result<Cache<T>, CacheError> {
        let Self { sessions, config } = self;
        sessions.check_path("cache", &config.scope.root).map_err(CacheError::InvalidRoot)?;
        let board = Arc::new(Board::new());
        let (syncs, receiver) = mpsc::unbounded_channel();
        let worker = Worker::new(sessions.clone(), config, Arc::clone(&board), receiver);
        sessions.runtime().spawn(worker.run());
        let cache = Cache(Arc::new(CacheHandle { sessions, board, syncs }));
        cache.0.board.wait_for(|_| true).await?;
        Ok(cache)
    }
}

impl<T> MirrorConfig<T> {
    fn with_decoder<U>(self, decode: Decoder<U>, reads_data: bool) -> MirrorConfig<U> {
        let Self { scope, max_nodes, max_bytes, .. } = self;
        MirrorConfig { scope, decode, reads_data, max_nodes, max_bytes }
    }
}

impl<T> fmt::Debug for CacheBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scope { root, max_depth, .. } = &self.config.scope;
        let mut debug = f.debug_struct("CacheBuilder");
        debug.field("root", root).field("max_depth", max_depth).finish_non_exhaustive()
    }
}
