//! [`Sessions`]: one session after the other, for a program that goes on.

mod changes;
mod epoch;
mod supervisor;

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use zoolet_clock::Clock;
use zoolet_proto::{Zxid, path};

use crate::client::{Client, invalid_path, no_servers};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::internal::SessionsExt;
use crate::options::ConnectOptions;
use crate::server_list::ServerList;
use crate::transport::IntoTransport;

pub(crate) use changes::{Broadcast, SessionObserver};
pub use changes::{SessionsChange, SessionsChanges, SessionsState};
use supervisor::Supervisor;

/// A session that is replaced when it is over. A handle is cheap to clone.
///
/// A [`Client`] is one session and ends with it, because a program that holds something by a session must learn that it is
/// lost. `Sessions` is for what goes on all the same: it opens the next session, with pauses that grow while no server can be
/// reached, and tells what happened ([`changes`](Sessions::changes)). Caches and other things that are made anew on each
/// session are built on it; a program does the same with [`term_after`](Sessions::term_after).
///
/// A session begins with the zxid of the one before ([`ConnectOptions::last_zxid`]), so that nobody sees an older state than
/// before. If the servers themselves went back, as after a restore from an older backup, none would accept the session ever
/// again. That is an [*epoch reset*](SessionsState::EpochReset): it is proven by a session that shows the older state,
/// reported, and the next session begins from there. An old session that waits for the servers is ended as `Expired` then.
///
/// Nothing else ends a session early: while no server can be reached, the present one stays, however long that takes, unless
/// [`expire_locally`](ConnectOptions::expire_locally) is set. Refused credentials end `Sessions`, as they would be refused again. So
/// do a closure that panics, and at the first attempt all else that is `InvalidTarget`, as files of TLS that cannot be used.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
///
/// # async fn work(zk: &Client) -> Result<(), zoolet_client::Error> { Ok(()) }
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181/app")?;
/// let mut number = 0;
/// loop {
///     // Each session once: the first, and then the one after it.
///     let term = sessions.term_after(number).await?;
///     number = term.number;
///     match work(&term.client).await {
///         Err(error) if error.is_session_over() => continue,
///         ended => return ended,
///     }
/// }
/// # }
/// ```
///
/// Dropping the last handle closes the session in the background; clients of it then end as `Closed`.
#[derive(Clone)]
pub struct Sessions(Arc<SessionsHandle>);

struct SessionsHandle {
    terms: watch::Receiver<Standing>,
    broadcast: Arc<Broadcast>,
    /// Closed when the last handle is dropped.
    closes: mpsc::UnboundedSender<()>,
    clock: Clock,
    runtime: Handle,
    /// `None` for a closure.
    servers: Option<ServerList>,
}

/// One session of [`Sessions`].
#[derive(Debug, Clone)]
pub struct SessionTerm {
    /// The session. Closing it ends the session, and the next one is opened.
    pub client: Client,
    /// Counts the sessions, from 1.
    pub number: u64,
    /// Counts the times that the servers went back to an older state, from 0. Zxids of different epochs cannot be compared.
    pub epoch: u64,
}

/// What the supervisor publishes.
#[derive(Debug, Clone, Default)]
enum Standing {
    /// There is no session.
    #[default]
    Between,
    Open(SessionTerm),
    /// There will be none.
    Ended(Error),
}

impl Sessions {
    /// Opens the first session in the background. The task that supervises the sessions runs on the current tokio runtime.
    ///
    /// # Errors
    /// `InvalidTarget`, and `NoRuntime` outside of a tokio runtime. If no server can be reached, it waits.
    pub fn open(options: ConnectOptions, target: impl IntoTransport) -> Result<Self, Error> {
        let transport = target.into_transport()?;
        let servers = transport.servers();
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let clock = options.clock.clone();
        let (publish, terms) = watch::channel(Standing::default());
        let (closes, close_requests) = mpsc::unbounded_channel();
        let broadcast = Arc::new(Broadcast::new(clock.now()));
        let supervisor = Supervisor::new(options, transport, Arc::clone(&broadcast), publish, close_requests);
        runtime.spawn(supervisor.run());
        Ok(Self(Arc::new(SessionsHandle { terms, broadcast, closes, clock, runtime, servers })))
    }

    /// The client of the present session; waits until there is one that is not over. It may be disconnected.
    ///
    /// # Errors
    /// `AuthFailed`, `InvalidTarget` or `Closed` once there will be no other session.
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn client(&self) -> Result<Client, Error> {
        self.term_after(0).await.map(|term| term.client)
    }

    /// The present session if its number is higher than `number`; otherwise waits for the next one. 0 is for any.
    ///
    /// # Errors
    /// As [`client`](Sessions::client).
    /// # Ordering and cancel safety
    /// Sessions that came and went meanwhile are skipped. Dropping the future has no effect.
    pub async fn term_after(&self, number: u64) -> Result<SessionTerm, Error> {
        let mut terms = self.0.terms.clone();
        loop {
            match &*terms.borrow_and_update() {
                Standing::Open(term) if term.number > number && !term.client.state().is_final() => {
                    return Ok(term.clone());
                }
                Standing::Ended(error) => return Err(error.clone()),
                _ => {}
            }
            if terms.changed().await.is_err() {
                // The runtime of the supervisor is gone.
                return Err(Error::Closed(ErrorContext::local("connect", "")));
            }
        }
    }

    /// Every change of state from now on, over all sessions; the first is the present state.
    pub fn changes(&self) -> SessionsChanges {
        self.0.broadcast.subscribe()
    }

    /// The present state, and since when.
    pub fn state(&self) -> SessionsChange {
        self.0.broadcast.present()
    }

    /// The highest zxid that any session of this epoch has seen in a reply.
    pub fn last_zxid(&self) -> Zxid {
        let present = match &*self.0.terms.borrow() {
            Standing::Open(term) => term.client.last_zxid(),
            Standing::Between | Standing::Ended(_) => Zxid(0),
        };
        present.max(self.0.broadcast.seen())
    }

    /// As [`Client::update_servers`], for the present session and all later ones.
    ///
    /// # Errors
    /// As [`Client::update_servers`].
    pub fn update_servers(&self, target: &str) -> Result<(), Error> {
        let servers = self.0.servers.as_ref().ok_or_else(no_servers)?;
        match &*self.0.terms.borrow() {
            Standing::Open(term) => term.client.update_servers(target),
            Standing::Between | Standing::Ended(_) => {
                servers.update(target, None, &mut rand::rng()).map(drop)
            }
        }
    }

    /// Closes the present session, after everything sent so far, and opens no other.
    ///
    /// # Ordering and cancel safety
    /// The close is in progress when this is first polled, and dropping the future does not cancel it.
    pub async fn close(&self) {
        let _ = self.0.closes.send(());
        let mut changes = self.changes();
        while changes.next().await.is_some() {}
    }
}

impl SessionsExt for Sessions {
    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    fn check_path(&self, operation: &'static str, path: &str) -> Result<(), Error> {
        path::validate(path).map_err(|reason| invalid_path(operation, path.to_owned(), reason))
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sessions").field(&self.state()).finish()
    }
}
