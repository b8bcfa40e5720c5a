//! Requests to a holder to give its lock up.

use std::sync::Arc;

use zoolet_client::{Client, ErrorCode, path};

use super::lock_state::LockState;
use crate::config::LockConfig;
use crate::contender::Contender;
use crate::error::LockError;
use crate::requests::changed;
use crate::retry::RecipeError as _;
use crate::state::{Grant, HoldState};

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

/// Waits until somebody has requested a lock that is held.
pub(crate) async fn requested(config: Arc<LockConfig>, lock: Arc<LockState>) {
    loop {
        // Registered before the look, so that no change is missed between the look and the wait. A change of the lock gives
        // it another znode.
        let changed = lock.changed.notified();
        if let HoldState::Lost(_) = lock.get() {
            // Which `Guard::lost` reports.
            return std::future::pending().await;
        }
        let grant = lock.grant();
        tokio::select! {
            biased;
            () = requested_of(&config, &grant) => return,
            () = changed => {}
        }
    }
}

async fn requested_of(config: &LockConfig, grant: &Grant) {
    let Some(node) = grant.nodes.first() else { return std::future::pending().await };
    while let Ok(Some((data, stat, watch))) = config.watch_data(node).await {
        if !grant.is_of(&stat) {
            break;
        }
        if REQUESTS.contains(&&data[..]) {
            return;
        }
        if changed(watch).await.is_err() {
            break;
        }
    }
    // The lock is lost, which `Guard::lost` reports, or about to be changed.
    std::future::pending().await
}
