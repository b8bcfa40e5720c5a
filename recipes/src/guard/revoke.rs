//! Requests to a holder to give its lock up.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Notify;
use zoolet_client::internal::{ClientExt as _, locked};
use zoolet_client::{Client, ErrorCode, path};

use crate::contender::Contender;
use crate::error::LockError;
use crate::requests::changed;
use crate::retry::{PAUSE, RecipeError as _};
use crate::state::Grant;

/// The data that requests a lock: Curator's word, and that of the recipe in ZooKeeper's documentation.
const REQUESTS: [&[u8]; 2] = [b"__REVOKE__", b"unlock"];

/// Asks a contender to give up the lock or its place in the queue, by writing Curator's `__REVOKE__` to its znode. It
/// learns that from [`Guard::revoke_requested`](crate::Guard::revoke_requested), or from a listener of Curator's, and
/// decides itself. To take the lock away, delete the znode: then the holder's [`fenced`](crate::Guard::fenced) writes
/// are refused.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client, lock: zoolet_recipes::Lock) -> Result<(), zoolet_recipes::LockError> {
/// if let Some(holder) = lock.contenders().await?.first() {
///     zoolet_recipes::revoke(&zk, holder).await?;
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`LockError::NodeDeleted`] if it has left; [`LockError::NoAuth`], [`LockError::SessionOver`], [`LockError::Client`].
/// # Cancel safety
/// Dropping the future does not recall the request.
pub async fn revoke(client: &Client, contender: &Contender) -> Result<(), LockError> {
    let path = &contender.path;
    client.set_data(path, REQUESTS[0]).await.map(drop).map_err(|error| match error.code() {
        Some(ErrorCode::NoNode) => LockError::NodeDeleted { dir: path::parent(path).to_owned() },
        _ => LockError::of(path::parent(path), error),
    })
}

/// The grant at present, for those who wait for a revocation: a change of the lock gives it another znode.
#[derive(Debug)]
pub(crate) struct CurrentGrant {
    grant: Mutex<Grant>,
    /// Not a `watch` channel, which would wake waiters in a random order.
    changed: Notify,
}

impl CurrentGrant {
    pub(crate) fn new(grant: Grant) -> Arc<Self> {
        Arc::new(Self { grant: Mutex::new(grant), changed: Notify::new() })
    }

    pub(crate) fn set(&self, grant: Grant) {
        *locked(&self.grant) = grant;
        self.changed.notify_waiters();
    }

    fn get(&self) -> Grant {
        locked(&self.grant).clone()
    }
}

/// Waits until somebody has requested a lock that is held.
pub(crate) async fn requested(client: Client, current: Arc<CurrentGrant>) {
    loop {
        // Registered before the look, so that no change is missed between the look and the wait.
        let changed = current.changed.notified();
        let grant = current.get();
        tokio::select! {
            biased;
            () = requested_of(&client, &grant) => return,
            () = changed => {}
        }
    }
}

async fn requested_of(client: &Client, grant: &Grant) {
    let requests = |data: &Bytes| REQUESTS.contains(&&data[..]);
    let Some(node) = grant.nodes.first() else { return std::future::pending().await };
    loop {
        match client.get_data(node).watch().await {
            Ok((_, stat, _)) if !grant.is_of(&stat) => break,
            Ok((data, ..)) if requests(&data) => return,
            Ok((_, _, watch)) => {
                if changed(watch).await.is_err() {
                    break;
                }
            }
            Err(error) if error.is_retryable() => client.clock().sleep(PAUSE).await,
            Err(_) => break,
        }
    }
    // The lock is lost, which `Guard::lost` reports, or about to be changed.
    std::future::pending().await
}
