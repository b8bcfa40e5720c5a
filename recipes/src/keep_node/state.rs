//! What a kept znode is like, as its task reports it.

use tokio::sync::watch;
use zoolet_client::{Error, SessionId, Zxid};

/// The state of a [`KeepNode`](super::KeepNode).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum KeepState {
    /// The znode is not as it should be, and that is being worked on: it is created for the first time or for the next session,
    /// or after somebody has deleted it. With the latest attempt's error, if it failed; the next one follows after a pause.
    Pending(Option<KeepError>),
    /// The znode is there, and ours.
    Present {
        /// The transaction that created it.
        czxid: Zxid,
        /// The session that owns it.
        session: SessionId,
    },
    /// There is a znode that is not ours; ours is created when it goes.
    Foreign {
        /// The session that owns it; 0 if it is not ephemeral.
        owner: SessionId,
    },
    /// It is kept no longer. Final.
    Ended(KeepError),
}

/// Why a znode is not there, or kept no longer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The path is not valid.
    #[error("{0}")]
    InvalidPath(Error),
    /// The server refuses it, or there was no reply.
    #[error("keep {path}: {cause}")]
    Refused {
        /// The path of the kept znode.
        path: String,
        /// The error of the request.
        cause: Error,
    },
    /// There will be no other session.
    #[error("keep: {0}")]
    SessionsEnded(Error),
    /// It was closed.
    #[error("keep: closed")]
    Closed,
    /// The task that keeps it is gone, with its runtime.
    #[error("keep: its task is gone")]
    Gone,
}

/// What the task publishes.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) state: KeepState,
    /// Counts the states.
    pub(super) step: u64,
    /// The number of the data that the znode is known to have had.
    pub(super) written: Option<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { state: KeepState::Pending(None), step: 1, written: None }
    }
}

/// The states of a [`KeepNode`](super::KeepNode), one after the other. If changes follow each other quickly, only the latest may be
/// reported.
#[derive(Debug)]
pub struct KeepStates {
    pub(super) progress: watch::Receiver<Progress>,
    /// The step of the state that was returned last; the highest number after [`KeepError::Gone`].
    pub(super) seen: u64,
}

impl KeepStates {
    /// The state at first, then the next change. `None` after [`KeepState::Ended`].
    ///
    /// # Ordering and cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<KeepState> {
        loop {
            {
                let progress = self.progress.borrow_and_update();
                if progress.step > self.seen {
                    self.seen = progress.step;
                    return Some(progress.state.clone());
                }
                if self.seen == u64::MAX || matches!(progress.state, KeepState::Ended(_)) {
                    return None;
                }
            }
            if self.progress.changed().await.is_err() {
                self.seen = u64::MAX;
                return Some(KeepState::Ended(KeepError::Gone));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_states_end_once_when_the_task_is_gone() {
        let (publish, progress) = watch::channel(Progress::default());
        let mut states = KeepStates { progress, seen: 0 };
        assert!(matches!(states.next().await, Some(KeepState::Pending(None))));
        drop(publish);
        assert!(matches!(states.next().await, Some(KeepState::Ended(KeepError::Gone))));
        assert!(states.next().await.is_none());
    }
}
