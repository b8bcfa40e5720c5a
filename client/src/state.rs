//! What everybody may know of a session: written by its driver, read by handles without asking it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::{SessionId, Zxid};

use crate::chroot::Chroot;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::queue::Queue;

/// Where a session stands.
///
/// It begins as `Connecting`, goes between `Connected` (or `ConnectedReadOnly`) and `Disconnected` any number of
/// times, perhaps to `Closing`, and ends as `Expired`, `AuthFailed` or `Closed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// No session yet.
    Connecting,
    /// Connected to a server that answers everything.
    Connected,
    /// Connected to a server that is cut off from its ensemble and answers reads only, perhaps stale ones.
    ConnectedReadOnly,
    /// The connection is lost and being sought again. The server may expire the session meanwhile: only it decides,
    /// and only it tells.
    Disconnected,
    /// [`close`](crate::Client::close) was called, or the last handle dropped: what was asked before is still done. The session
    /// may be gone at any moment from here on, its ephemerals with it.
    Closing,
    /// The server has expired the session; its ephemerals are gone. Final.
    Expired,
    /// The server has refused credentials. Final; the session itself lives until it times out.
    AuthFailed,
    /// The client was closed, its last handle dropped, or the runtime that drove it is gone. Final.
    Closed,
}

impl SessionState {
    /// Whether a server answers at the moment, be it reads only.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }

    /// Whether nothing can follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Expired | Self::AuthFailed | Self::Closed)
    }

    /// What a call about `context` fails with once the session has ended in this state.
    pub(crate) fn error(self, context: ErrorContext) -> Error {
        match self {
            Self::Expired => Error::SessionExpired(context),
            Self::AuthFailed => Error::AuthFailed(context),
            _ => Error::Closed(context),
        }
    }
}

/// The published side of a session.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) chroot: Chroot,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) clock: Clock,
    pub(crate) hosts: usize,
    /// For whatever is random on top of the session; its driver has another.
    rng: Mutex<StdRng>,
    progress: Mutex<Progress>,
    last_failure: Mutex<Option<Arc<io::Error>>>,
    id: AtomicI64,
    timeout: AtomicU64,
    zxid: AtomicI64,
    origin: Instant,
    contact: AtomicU64,
}

/// Where the session stands, and who is told when that changes: in the order in which they asked, which is why it is
/// not a `watch` channel, as that wakes its receivers in random order.
#[derive(Debug)]
struct Progress {
    state: SessionState,
    listeners: Vec<Weak<Queue<SessionState>>>,
}

impl Shared {
    pub(crate) fn new(
        chroot: Chroot,
        request_timeout: Option<Duration>,
        session_timeout: Duration,
        clock: Clock,
        hosts: usize,
        rng: StdRng,
    ) -> Self {
        let now = clock.now();
        Self {
            chroot,
            request_timeout,
            clock,
            hosts,
            rng: Mutex::new(rng),
            progress: Mutex::new(Progress { state: SessionState::Connecting, listeners: Vec::new() }),
            last_failure: Mutex::default(),
            id: AtomicI64::new(0),
            timeout: AtomicU64::new(session_timeout.as_millis() as u64),
            zxid: AtomicI64::new(0),
            origin: now,
            contact: AtomicU64::new(0),
        }
    }

    pub(crate) fn state(&self) -> SessionState {
        self.progress().state
    }

    pub(crate) fn session_id(&self) -> SessionId {
        SessionId(self.id.load(Relaxed))
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Relaxed))
    }

    pub(crate) fn last_zxid(&self) -> Zxid {
        Zxid(self.zxid.load(Relaxed))
    }

    pub(crate) fn last_contact(&self) -> Instant {
        self.origin + Duration::from_nanos(self.contact.load(Relaxed))
    }

    pub(crate) fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn random_u128(&self) -> u128 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// Waits until `wanted` says so of a state, and gives the present one.
    pub(crate) async fn wait_for(&self, mut wanted: impl FnMut(SessionState) -> bool) -> SessionState {
        let mut states = self.states();
        while states.next().await.is_some_and(|state| !wanted(state)) {}
        self.state()
    }

    pub(crate) fn states(&self) -> States {
        let queue = Arc::new(Queue::default());
        let mut progress = self.progress();
        queue.push(progress.state);
        if progress.state.is_final() {
            queue.close();
        } else {
            progress.listeners.retain(|listener| listener.strong_count() > 0);
            progress.listeners.push(Arc::downgrade(&queue));
        }
        States(queue)
    }

    pub(crate) fn set_state(&self, state: SessionState) {
        let mut progress = self.progress();
        let standing = progress.state;
        // A session that is to be closed is so whatever connection it is on.
        if standing.is_final() || standing == state || standing == SessionState::Closing && !state.is_final()
        {
            return;
        }
        progress.state = state;
        let listeners: Vec<_> = progress.listeners.iter().filter_map(Weak::upgrade).collect();
        // Whoever comes in behind this begins with the new state.
        drop(progress);
        for listener in listeners {
            listener.push(state);
            if state.is_final() {
                listener.close();
            }
        }
    }

    pub(crate) fn set_session(&self, id: SessionId, timeout: Duration) {
        self.id.store(id.0, Relaxed);
        self.timeout.store(timeout.as_millis() as u64, Relaxed);
    }

    pub(crate) fn set_zxid(&self, zxid: Zxid) {
        self.zxid.store(zxid.0, Relaxed);
    }

    pub(crate) fn set_contact(&self, sent: Instant) {
        self.contact.store(sent.duration_since(self.origin).as_nanos() as u64, Relaxed);
    }

    pub(crate) fn set_failure(&self, error: io::Error) {
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(error));
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The states a session goes through, from [`Client::states`](crate::Client::states): a [`Stream`] that leaves none
/// out and ends behind the final one.
#[derive(Debug)]
pub struct States(Arc<Queue<SessionState>>);

impl States {
    /// The next state; at first the one that stood when this was made. `None` behind a final one.
    ///
    /// # Ordering and cancel safety
    /// A change of state is here before any call fails because of it. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<SessionState> {
        poll_fn(|cx| self.0.poll_next(cx)).await
    }
}

impl Stream for States {
    type Item = SessionState;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionState>> {
        self.0.poll_next(cx)
    }
}
