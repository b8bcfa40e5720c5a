//! The states of [`Sessions`](super::Sessions), and who learns of them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::time::Instant;
use zoolet_proto::{SessionId, Zxid};

use crate::locked::locked;
use crate::state::SessionState;
use crate::stream_queue::StreamQueue;

/// Most changes that wait to be read.
const MAX_UNREAD: usize = 1024;

/// The state of [`Sessions`](super::Sessions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionsState {
    /// There is no session; servers are asked for the next one.
    Opening,
    /// The session is served by a server that takes reads and writes.
    Connected,
    /// The session is served by a server that is cut off from its ensemble.
    ConnectedReadOnly,
    /// The connection is lost. The session may go on.
    Disconnected,
    /// The session is over, with this final state: its ephemerals are gone, or will be. The next one is opened.
    Lost(SessionState),
    /// The servers have gone back to a state that is older than what an earlier session has seen: a session that has
    /// seen nothing was accepted, and shows `found`. Everything that was read is void, whatever its zxid.
    EpochReset {
        /// The highest zxid that was seen before.
        seen: Zxid,
        /// The zxid of the servers.
        found: Zxid,
    },
    /// There will be no other session. Final.
    Ended,
}

/// A change of the state of [`Sessions`](super::Sessions).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionsChange {
    /// The new state.
    pub state: SessionsState,
    /// The number of the session, from 1; while one is opened, the number that it will have.
    pub number: u64,
    /// The id of the session; 0 while there is none.
    pub session: SessionId,
    /// When it changed, by the clock of the sessions.
    pub since: Instant,
    /// The server of the connection, or of the lost one, as in the connect string; `None` if the target is a closure.
    pub server: Option<Arc<str>>,
    /// Why it changed, if that is known: the error of the connection, or what ended the session.
    pub reason: Option<Arc<str>>,
    /// The number of changes before this one that were dropped, because 1,024 waited to be read. Those that only a lost
    /// connection brought are dropped first.
    pub skipped: u64,
}

impl SessionsChange {
    /// Whether it is about a connection only.
    fn is_minor(&self) -> bool {
        use SessionsState::*;
        matches!(self.state, Opening | Connected | ConnectedReadOnly | Disconnected)
    }
}

/// The changes of [`Sessions`](super::Sessions): a [`Stream`] that ends after [`SessionsState::Ended`].
///
/// No change is lost: one that is dropped is counted ([`SessionsChange::skipped`]).
///
/// ```no_run
/// # async fn example(sessions: zoolet_client::Sessions) {
/// let mut changes = sessions.changes();
/// while let Some(change) = changes.next().await {
///     println!("{:?} at {:?}: {:?}", change.state, change.server, change.reason);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct SessionsChanges(Arc<StreamQueue<SessionsChange>>);

impl SessionsChanges {
    /// Waits for the next change; the first is the state at the time of the call. `None` after the final one.
    ///
    /// # Ordering and cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<SessionsChange> {
        poll_fn(|cx| self.0.poll_next(cx)).await
    }
}

impl Stream for SessionsChanges {
    type Item = SessionsChange;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionsChange>> {
        self.0.poll_next(cx)
    }
}

/// The present state, and the readers of its changes.
#[derive(Debug)]
pub(crate) struct Broadcast {
    progress: Mutex<Progress>,
    /// The highest zxid of the sessions that are over, in this epoch.
    seen: AtomicI64,
}

#[derive(Debug)]
struct Progress {
    present: SessionsChange,
    readers: Vec<Weak<StreamQueue<SessionsChange>>>,
}

impl Broadcast {
    pub(super) fn new(now: Instant) -> Self {
        let present = SessionsChange {
            state: SessionsState::Opening,
            number: 1,
            session: SessionId(0),
            since: now,
            server: None,
            reason: None,
            skipped: 0,
        };
        Self { progress: Mutex::new(Progress { present, readers: Vec::new() }), seen: AtomicI64::new(0) }
    }

    pub(super) fn present(&self) -> SessionsChange {
        locked(&self.progress).present.clone()
    }

    pub(super) fn seen(&self) -> Zxid {
        Zxid(self.seen.load(Relaxed))
    }

    pub(super) fn set_seen(&self, seen: Zxid) {
        self.seen.store(seen.0, Relaxed);
    }

    pub(super) fn subscribe(&self) -> SessionsChanges {
        let reader = Arc::<StreamQueue<_>>::default();
        let mut progress = locked(&self.progress);
        push(&reader, progress.present.clone());
        progress.readers.retain(|reader| reader.strong_count() > 0);
        progress.readers.push(Arc::downgrade(&reader));
        SessionsChanges(reader)
    }

    /// Publishes a change. Under the lock, so that all readers have the same order: a session that is over and the
    /// supervisor that opens the next one are different tasks.
    pub(super) fn publish(&self, change: SessionsChange) {
        let mut progress = locked(&self.progress);
        if progress.present.state == SessionsState::Ended {
            return;
        }
        for reader in progress.readers.iter().filter_map(Weak::upgrade) {
            push(&reader, change.clone());
        }
        if change.state == SessionsState::Ended {
            drop(mem::take(&mut progress.readers));
        }
        progress.present = change;
    }
}

fn push(reader: &StreamQueue<SessionsChange>, change: SessionsChange) {
    if change.state == SessionsState::Ended {
        return reader.end(change);
    }
    reader.update(|unread| {
        if unread.len() == MAX_UNREAD {
            drop_one(unread);
        }
        unread.push_back(change);
    });
}

/// Drops the oldest change of a connection, or else the oldest, and counts it in the one after it.
fn drop_one(unread: &mut VecDeque<SessionsChange>) {
    let at = unread.iter().position(SessionsChange::is_minor).unwrap_or(0);
    let Some(dropped) = unread.remove(at) else { return };
    if let Some(next) = unread.get_mut(at) {
        next.skipped += 1 + dropped.skipped;
    }
}

/// What a session tells the [`Broadcast`] of its changes, as its driver makes them.
#[derive(Debug)]
pub(crate) struct SessionObserver {
    broadcast: Arc<Broadcast>,
    number: u64,
    /// Whether a server has served the session. An attempt that fails before does not lose a session.
    served: AtomicBool,
}

impl SessionObserver {
    pub(super) fn new(broadcast: &Arc<Broadcast>, number: u64) -> Arc<Self> {
        Arc::new(Self { broadcast: Arc::clone(broadcast), number, served: AtomicBool::new(false) })
    }

    /// The session is in another state.
    pub(crate) fn changed(
        &self,
        state: SessionState,
        session: SessionId,
        since: Instant,
        server: Option<Arc<str>>,
        reason: Option<String>,
    ) {
        let state = match state {
            SessionState::Connected => SessionsState::Connected,
            SessionState::ConnectedReadOnly => SessionsState::ConnectedReadOnly,
            SessionState::Disconnected => SessionsState::Disconnected,
            SessionState::Expired | SessionState::AuthFailed | SessionState::Closed => {
                SessionsState::Lost(state)
            }
            // Whoever closes it learns when it is closed.
            SessionState::Connecting | SessionState::Closing => return,
        };
        let served = self.served.swap(true, Relaxed);
        if !served && matches!(state, SessionsState::Lost(_)) {
            return;
        }
        let reason = reason.map(Arc::from);
        let number = self.number;
        self.broadcast.publish(SessionsChange { state, number, session, since, server, reason, skipped: 0 });
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn change(state: SessionsState, number: u64) -> SessionsChange {
        SessionsChange { state, number, ..Broadcast::new(Instant::now()).present() }
    }

    #[test]
    fn changes_that_are_not_read_are_bounded_and_counted_and_lost_sessions_stay_longest() {
        let broadcast = Broadcast::new(Instant::now());
        let reader = broadcast.subscribe();
        let mut published = 1;
        for number in 1..=500 {
            for _ in 0..3 {
                broadcast.publish(change(SessionsState::Connected, number));
                broadcast.publish(change(SessionsState::Disconnected, number));
                published += 2;
            }
            broadcast.publish(change(SessionsState::Lost(SessionState::Expired), number));
            published += 1;
        }
        broadcast.publish(change(SessionsState::Ended, 501));
        let mut cx = Context::from_waker(Waker::noop());
        let mut unread = Vec::new();
        while let Poll::Ready(Some(change)) = reader.0.poll_next(&mut cx) {
            unread.push(change);
        }
        assert_eq!(unread.len(), MAX_UNREAD + 1);
        let counted: u64 = unread[..MAX_UNREAD].iter().map(|change| 1 + change.skipped).sum();
        assert_eq!(counted, published, "each change is there, or counted");
        let lost = unread.iter().filter(|change| matches!(change.state, SessionsState::Lost(_)));
        assert_eq!(lost.map(|change| change.number).collect::<Vec<_>>(), (1..=500).collect::<Vec<_>>());
        assert_eq!(unread[MAX_UNREAD].state, SessionsState::Ended);
    }
}
