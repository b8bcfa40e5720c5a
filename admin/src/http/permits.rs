//! [`ListPermits`]: how much memory answers take that may be as large as the state.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::HttpRequest;
use super::limits::{LIST_TIME, LIST_WAIT, MAX_LISTS};

/// One for each list that is being made or sent.
#[derive(Debug, Clone)]
pub(crate) struct ListPermits(Arc<Semaphore>);

impl ListPermits {
    /// Why an answer has none.
    pub(crate) const NONE: &str = "too many lists are being sent";

    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LISTS)))
    }

    /// A permit for one more; `None` if others keep theirs for too long.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        timeout(LIST_WAIT, Arc::clone(&self.0).acquire_owned()).await.ok()?.ok()
    }
}

/// The permit, until this is dropped. The connection of the request is closed if that takes too long.
pub(super) fn bounded(
    permit: OwnedSemaphorePermit,
    request: &HttpRequest,
) -> (OwnedSemaphorePermit, DropGuard) {
    let (sent, connection) = (CancellationToken::new(), Arc::clone(&request.client.connection));
    let is_sent = sent.clone();
    request.tasks.spawn(async move {
        if timeout(LIST_TIME, is_sent.cancelled()).await.is_err() {
            connection.cut();
        }
    });
    (permit, sent.drop_guard())
}
