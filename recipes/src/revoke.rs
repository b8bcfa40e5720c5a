//! Asking a holder to give its lock up.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error};

use crate::claim::Standing;
use crate::error::LockError;
use crate::lock::Contender;
use crate::setup::PAUSE;

/// What asks for a lock: Curator's word, and that of the recipe of the documentation.
const REQUESTS: [&[u8]; 2] = [b"__REVOKE__", b"unlock"];

/// Asks a contender to give up the lock or its place in the queue, by writing Curator's `__REVOKE__` to its znode: it
/// learns that by [`Guard::revoke_requested`](crate::Guard::revoke_requested), or by a listener of Curator's, and
/// decides itself. To take the lock from it, delete its znode: its writes are refused from then on if they are
/// [`fenced`](crate::Guard::fenced).
///
/// # Errors
/// [`LockError::NodeDeleted`] if it has left; [`LockError::NoAuth`], [`LockError::SessionOver`], [`LockError::Client`].
/// # Cancel safety
/// Dropping the future does not recall the request.
pub async fn revoke(client: &Client, contender: &Contender) -> Result<(), LockError> {
    let path = &contender.path;
    match client.set_data(path, REQUESTS[0]).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(zoolet_client::ErrorCode::NoNode) => {
            Err(LockError::NodeDeleted { dir: zoolet_client::parent_of(path).to_owned() })
        }
        Err(error) => Err(LockError::of(zoolet_client::parent_of(path), error)),
    }
}

/// What is held at present, for those who wait to be asked for it: a change of the lock gives it another znode.
#[derive(Debug)]
pub(crate) struct Present {
    standing: Mutex<Standing>,
    changed: Notify,
}

impl Present {
    pub(crate) fn new(standing: Standing) -> Arc<Self> {
        Arc::new(Self { standing: Mutex::new(standing), changed: Notify::new() })
    }

    pub(crate) fn set(&self, standing: Standing) {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
        self.changed.notify_waiters();
    }

    fn get(&self) -> Standing {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Waits until somebody has asked for a lock that is held.
pub(crate) async fn requested(client: Client, present: Arc<Present>) {
    loop {
        // Told of everything from here on, so that no change is missed between the look and the wait.
        let changed = present.changed.notified();
        let standing = present.get();
        tokio::select! {
            biased;
            () = requested_of(&client, &standing) => return,
            () = changed => {}
        }
    }
}

async fn requested_of(client: &Client, standing: &Standing) {
    let asks = |data: &Bytes| REQUESTS.contains(&&data[..]);
    let Some(node) = standing.nodes.first() else { return std::future::pending().await };
    loop {
        match client.get_data(node).watch().await {
            Ok((_, stat, _)) if !standing.is_of(&stat) => break,
            Ok((data, ..)) if asks(&data) => return,
            Ok((_, _, watch)) => match watch.changed().await {
                Ok(_) | Err(Error::WatchRemoved(_)) => {}
                Err(_) => break,
            },
            Err(error) if error.is_retryable() => client.clock().sleep(PAUSE).await,
            Err(_) => break,
        }
    }
    // It is lost, which is for `Guard::lost` to tell, or about to be changed.
    std::future::pending().await
}
