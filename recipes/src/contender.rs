//! [`Contender`]: one entry in the queue of a lock.

use bytes::Bytes;
use zoolet_client::{SessionId, Stat, Zxid, path};

use crate::claim::listing;
use crate::config::LockConfig;
use crate::error::LockError;
use crate::path::child;
use crate::state::FencingToken;

/// A contender of a lock, as [`Lock::contenders`](crate::Lock::contenders) lists it.
///
/// ```no_run
/// # async fn example(lock: zoolet_recipes::Lock) -> Result<(), zoolet_recipes::LockError> {
/// for contender in lock.contenders().await? {
///     println!("{} of session {}: {:?}", contender.name, contender.session, contender.data);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The path of its znode.
    pub path: String,
    /// The name of its znode in the directory of the lock.
    pub name: String,
    /// The data of its znode.
    pub data: Bytes,
    /// The session whose end removes it; 0 if it is not ephemeral.
    pub session: SessionId,
    /// The transaction that put it in the queue.
    pub czxid: Zxid,
    /// When that was, in milliseconds since the Unix epoch by the server's clock.
    pub since: i64,
}

impl Contender {
    pub(crate) fn new(path: String, data: Bytes, stat: &Stat) -> Self {
        let name = path::name(&path).to_owned();
        let (session, czxid, since) = (stat.ephemeral_owner, stat.czxid, stat.ctime);
        Self { path, name, data, session, czxid, since }
    }

    /// The fencing token it has, or will have once it is its turn.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.czxid)
    }
}

/// The contenders that queue in `dir`.
pub(crate) async fn contenders(config: &LockConfig, dir: &str) -> Result<Vec<Contender>, LockError> {
    let queue = listing::queue(config, dir).await?;
    read(config, queue.into_iter().map(|queued| child(dir, &queued.name)).collect()).await
}

/// Reads the znodes of contenders, except those that have left meanwhile.
pub(crate) async fn read(config: &LockConfig, paths: Vec<String>) -> Result<Vec<Contender>, LockError> {
    let reads: Vec<_> = paths.iter().map(|path| config.client.get_data(path).into_future()).collect();
    let mut contenders = Vec::with_capacity(paths.len());
    for (path, read) in paths.into_iter().zip(reads) {
        if let Some((data, stat)) = config.retries().if_exists(read.await)? {
            contenders.push(Contender::new(path, data, &stat));
        }
    }
    Ok(contenders)
}
