//! [`ListPermits`]: how much memory answers take that may be as large as the state.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::HttpRequest;
use super::limits::{LIST_TIME, LIST_WAIT, MAX_LISTS};

/// One for each list that is being made or sent.
#[derive(Debug, Clone)]
pub(crate) struct ListPermits(Arc<Semaphore>);

/// A text with its permit, which belongs to the memory and not to the body of a response: hyper drops a body as soon as it has queued
/// the bytes.
struct HeldText {
    text: Bytes,
    _permit: OwnedSemaphorePermit,
    _sent: DropGuard,
}

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

/// The same text, which keeps the permit until it is sent. The connection of the request is closed if that takes too long.
pub(super) fn held(text: Bytes, permit: OwnedSemaphorePermit, request: &HttpRequest) -> Bytes {
    let (sent, cut) = (CancellationToken::new(), request.client.cut.clone());
    let is_sent = sent.clone();
    request.tasks.spawn(async move {
        if timeout(LIST_TIME, is_sent.cancelled()).await.is_err() {
            cut.cancel();
        }
    });
    Bytes::from_owner(HeldText { text, _permit: permit, _sent: sent.drop_guard() })
}

impl AsRef<[u8]> for HeldText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}
