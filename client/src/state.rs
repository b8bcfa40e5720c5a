//! The published state of a session: written by its driver, read by handles without a round trip to it.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::{SessionId, Zxid};

use crate::connection_error::ConnectionError;
use crate::context::{ErrorContext, ErrorDetail};
use crate::error::Error;
use crate::features::{KnownFeatures, ServerFeature};
use crate::locked::locked;
use crate::metrics::SessionCounters;
use crate::options::ConnectOptions;
use crate::pending::PendingRoom;
use crate::server_list::ServerList;
use crate::session_password::SessionPassword;
use crate::sessions::SessionObserver;
use crate::stream_queue::StreamQueue;

/// The state of a session.
///
/// It begins as `Connecting`, alternates between `Connected` (or `ConnectedReadOnly`) and `Disconnected`, may become
/// `Closing`, and ends as `Expired`, `AuthFailed` or `Closed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// No session yet, or the server has not yet accepted the identities of [`auth`](crate::ConnectOptions::auth) and
    /// [`sasl_digest_md5`](crate::ConnectOptions::sasl_digest_md5).
    Connecting,
    /// Connected to a server that takes reads and writes.
    Connected,
    /// Connected to a server that is cut off from its ensemble. It takes reads only, and their results may be stale.
    ConnectedReadOnly,
    /// The connection is lost and the client is reconnecting. The server may expire the session meanwhile; the client
    /// learns it when it reconnects.
    Disconnected,
    /// [`close`](crate::Client::close) was called, or the last handle dropped. Earlier requests are still executed. The
    /// session and its ephemerals may be gone at any moment from now on.
    Closing,
    /// The server has expired the session; its ephemerals are gone. Final.
    Expired,
    /// The server has refused credentials. Final; the server keeps the session until it times out.
    AuthFailed,
    /// The client was closed, its last handle dropped, or the runtime that drove it is gone. Final.
    Closed,
}

impl SessionState {
    /// Whether there is a connection, be it to a read-only server.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }

    /// Whether no other state can follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Expired | Self::AuthFailed | Self::Closed)
    }

    /// The error of a call that is made once the session has ended in this state.
    pub(crate) fn error(self, context: ErrorContext) -> Error {
        match self {
            Self::Expired => Error::SessionExpired(context),
            Self::AuthFailed => Error::AuthFailed(context),
            // In a state that is not final the driver is gone.
            Self::Closed
            | Self::Closing
            | Self::Connecting
            | Self::Connected
            | Self::ConnectedReadOnly
            | Self::Disconnected => Error::Closed(context),
        }
    }
}

/// What the driver of a session and its handles share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) pending: PendingRoom,
    pub(crate) clock: Clock,
    pub(crate) servers: Option<ServerList>,
    /// In an allocation of its own: the driver writes it, and callers use what is around it.
    pub(crate) counters: Box<SessionCounters>,
    /// For names that recipes generate; the driver has a generator of its own.
    rng: Mutex<StdRng>,
    progress: Mutex<PublishedState>,
    failures: Mutex<Failures>,
    id: AtomicI64,
    password: Mutex<SessionPassword>,
    timeout: AtomicU64,
    zxid: AtomicI64,
    origin: Instant,
    contact: AtomicU64,
    /// The server of the latest connection.
    server: Mutex<Option<Arc<str>>>,
    features: KnownFeatures,
}

/// The state, and who is notified of changes: in the order in which they subscribed. A `watch` channel would wake them in
/// random order.
#[derive(Debug)]
struct PublishedState {
    state: SessionState,
    end_detail: Option<ErrorDetail>,
    observer: Option<Arc<SessionObserver>>,
    listeners: Vec<Weak<StreamQueue<SessionState>>>,
}

/// Bounded by the number of hosts.
#[derive(Debug, Default)]
struct Failures {
    /// The host of the latest attempt.
    dialing: Option<Arc<str>>,
    /// The latest failure of each host; the latest of all is the last.
    of_hosts: Vec<ConnectionError>,
}

impl SharedState {
    pub(crate) fn new(options: &ConnectOptions, servers: Option<ServerList>, rng: StdRng) -> Self {
        Self {
            request_timeout: options.request_timeout,
            pending: PendingRoom::new(options.max_pending),
            clock: options.clock.clone(),
            servers,
            counters: Box::default(),
            rng: Mutex::new(rng),
            progress: Mutex::new(PublishedState {
                state: SessionState::Connecting,
                end_detail: None,
                observer: options.observer.clone(),
                listeners: Vec::new(),
            }),
            failures: Mutex::default(),
            id: AtomicI64::new(0),
            password: Mutex::new(SessionPassword(Bytes::new())),
            timeout: AtomicU64::new(options.session.session_timeout.as_millis() as u64),
            zxid: AtomicI64::new(options.session.last_zxid.0),
            origin: options.clock.now(),
            contact: AtomicU64::new(0),
            server: Mutex::default(),
            features: options.features.clone(),
        }
    }

    /// The number of hosts to choose from: 1 for a closure, 0 while SRV records are not known.
    pub(crate) fn hosts(&self) -> usize {
        self.servers.as_ref().map_or(1, ServerList::len)
    }

    pub(crate) fn state(&self) -> SessionState {
        locked(&self.progress).state
    }

    pub(crate) fn session_id(&self) -> SessionId {
        SessionId(self.id.load(Relaxed))
    }

    pub(crate) fn session_password(&self) -> SessionPassword {
        locked(&self.password).clone()
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

    /// Why the latest connection, or attempt at one, failed.
    pub(crate) fn last_failure(&self) -> Option<ConnectionError> {
        locked(&self.failures).of_hosts.last().cloned()
    }

    /// Why no host could be reached: the latest failure of each, and the attempt in progress.
    pub(crate) fn unreachable_hosts(&self) -> Vec<ConnectionError> {
        let failures = locked(&self.failures);
        let mut hosts = failures.of_hosts.clone();
        hosts.retain(|failure| self.may_dial(failure.host()));
        if let Some(host) = failures.dialing.as_deref().filter(|host| self.may_dial(Some(host))) {
            if hosts.iter().all(|failure| failure.host() != Some(host)) {
                let silent = io::Error::new(io::ErrorKind::TimedOut, "no answer yet");
                hosts.push(ConnectionError::new(Some(host.into()), &silent));
            }
        }
        hosts
    }

    /// Whether this host is still one of those to choose from. The list may be that of other sessions too, and of SRV records.
    fn may_dial(&self, host: Option<&str>) -> bool {
        self.servers.as_ref().zip(host).is_none_or(|(servers, host)| servers.has(host))
    }

    /// Why the session ended in its final state, as far as that is known.
    pub(crate) fn end_error(&self, context: ErrorContext) -> Error {
        let progress = locked(&self.progress);
        let detail = progress.end_detail.clone();
        progress.state.error(context.with(detail))
    }

    pub(crate) fn random_u128(&self) -> u128 {
        locked(&self.rng).random()
    }

    /// Waits for a state that is `wanted`, and returns the present one.
    pub(crate) async fn wait_for(&self, mut wanted: impl FnMut(SessionState) -> bool) -> SessionState {
        let mut states = self.states();
        while states.next().await.is_some_and(|state| !wanted(state)) {}
        self.state()
    }

    pub(crate) fn states(&self) -> States {
        let states = Arc::<StreamQueue<_>>::default();
        let mut progress = locked(&self.progress);
        push_state(&states, progress.state);
        if !progress.state.is_final() {
            progress.listeners.retain(|listener| listener.strong_count() > 0);
            progress.listeners.push(Arc::downgrade(&states));
        }
        States(states)
    }

    pub(crate) fn set_state(&self, state: SessionState) {
        self.set_state_because(state, None);
    }

    /// Sets the state, with the reason if that is a final one.
    pub(crate) fn set_state_because(&self, state: SessionState, detail: Option<ErrorDetail>) {
        let mut progress = locked(&self.progress);
        let old = progress.state;
        // A session that is closing remains so, whatever happens to its connection.
        if old.is_final() || old == state || old == SessionState::Closing && !state.is_final() {
            return;
        }
        progress.state = state;
        progress.end_detail = detail;
        self.tell_observer(&progress);
        let listeners =
            if state.is_final() { mem::take(&mut progress.listeners) } else { progress.listeners.clone() };
        drop(progress);
        for listener in listeners.iter().filter_map(Weak::upgrade) {
            push_state(&listener, state);
        }
    }

    /// Tells `observer` the present state and all that follow.
    pub(crate) fn observe(&self, observer: Arc<SessionObserver>) {
        let mut progress = locked(&self.progress);
        progress.observer = Some(observer);
        self.tell_observer(&progress);
    }

    /// Under the lock, so that no state is published twice, or after one that follows it.
    fn tell_observer(&self, progress: &PublishedState) {
        let Some(observer) = &progress.observer else { return };
        let reason = match progress.state {
            SessionState::Disconnected => self.last_failure().map(|failure| failure.to_string()),
            _ => progress.end_detail.as_ref().map(ErrorDetail::to_string),
        };
        observer.changed(progress.state, self.session_id(), self.clock.now(), self.server(), reason);
    }

    pub(crate) fn set_session(&self, id: SessionId, timeout: Duration, password: SessionPassword) {
        *locked(&self.password) = password;
        self.id.store(id.0, Relaxed);
        self.timeout.store(timeout.as_millis() as u64, Relaxed);
    }

    /// A connection to this server begins.
    pub(crate) fn set_server(&self, server: Option<Arc<str>>) {
        *locked(&self.server) = server;
    }

    /// The server of the latest connection; `None` without one, or for a closure.
    pub(crate) fn server(&self) -> Option<Arc<str>> {
        locked(&self.server).clone()
    }

    pub(crate) fn supports(&self, feature: ServerFeature) -> Option<bool> {
        self.features.get(self.server(), feature)
    }

    /// The server of this connection has shown whether it has this.
    pub(crate) fn note_feature(&self, feature: ServerFeature, has: bool) {
        self.features.note(self.server(), feature, has);
    }

    pub(crate) fn set_zxid(&self, zxid: Zxid) {
        self.zxid.store(zxid.0, Relaxed);
    }

    pub(crate) fn set_contact(&self, sent: Instant) {
        self.contact.store(sent.duration_since(self.origin).as_nanos() as u64, Relaxed);
    }

    /// An attempt at this host begins.
    pub(crate) fn set_dialing(&self, host: Option<Arc<str>>) {
        locked(&self.failures).dialing = host;
    }

    /// A connection, or an attempt at one, has failed. Returns whether that is news: the host did not fail so before.
    pub(crate) fn set_failure(&self, error: ConnectionError) -> bool {
        let failures = &mut locked(&self.failures).of_hosts;
        let before = failures.iter().position(|failure| failure.host() == error.host());
        let is_news = before.map(|at| failures.remove(at)).is_none_or(|before| before != error);
        failures.retain(|failure| self.may_dial(failure.host()));
        failures.push(error);
        is_news
    }
}

/// Most states that wait in [`States`]: a byte each.
const MAX_UNREAD: usize = 1024;

fn push_state(states: &StreamQueue<SessionState>, state: SessionState) {
    if state.is_final() {
        return states.end(state);
    }
    states.update(|unread| {
        // The oldest goes, so that the last one read is always the present one.
        if unread.len() == MAX_UNREAD {
            unread.pop_front();
        }
        unread.push_back(state);
    });
}

/// The states of a session, from [`Client::states`](crate::Client::states): a [`Stream`] that ends after the final one.
///
/// It skips none, unless it is not read while the session changes its state more than 1,024 times: then the oldest are
/// dropped.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) {
/// let mut states = zk.states();
/// while let Some(state) = states.next().await {
///     println!("{state:?}");
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct States(Arc<StreamQueue<SessionState>>);

impl States {
    /// Waits for the next state; the first is the one at the time of the call. `None` after a final one.
    ///
    /// # Ordering and cancel safety
    /// A change of state arrives before any call fails because of it. Dropping the future loses nothing.
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn states_that_nobody_reads_are_bounded_and_end_with_the_latest() {
        let shared = SharedState::new(
            &ConnectOptions::default().clock(Clock::manual()),
            None,
            StdRng::seed_from_u64(7),
        );
        let (read_late, dropped) = (shared.states(), shared.states());
        drop(dropped);
        for _ in 0..MAX_UNREAD {
            shared.set_state(SessionState::Connected);
            shared.set_state(SessionState::Disconnected);
        }
        drop(shared.states());
        assert_eq!(locked(&shared.progress).listeners.len(), 2, "the one that is read, and the last");
        shared.set_state(SessionState::Closed);
        let mut cx = Context::from_waker(Waker::noop());
        let mut unread = std::iter::from_fn(|| match read_late.0.poll_next(&mut cx) {
            Poll::Ready(state) => state,
            Poll::Pending => panic!("it ends with the session"),
        });
        let states: Vec<_> = unread.by_ref().collect();
        assert_eq!(states.len(), MAX_UNREAD + 1);
        let alternating = [SessionState::Connected, SessionState::Disconnected];
        assert!(states.chunks_exact(2).all(|pair| pair == alternating), "in order, without a gap");
        assert_eq!(states.last(), Some(&SessionState::Closed));
    }
}
