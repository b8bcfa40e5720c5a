//! [`Guard`]: a held lock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, SessionId, Zxid};

use crate::claim::{Change, Standing};
use crate::error::LockError;
use crate::fenced::FencedTxn;
use crate::hold::{Hold, Order};
use crate::revoke::{self, Present};
use crate::setup::Setup;

/// A number that rises with every acquisition of a lock, also when its directory was deleted in between: the
/// transaction that put the holder in the queue.
///
/// A store that keeps the highest token it has seen and refuses lower ones is safe from holders that do not know that they
/// are not. A new holder must write its token before it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(czxid: Zxid) -> Self {
        Self(czxid.0.unsigned_abs())
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is known of a held lock without asking the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Connected, and nothing speaks against it.
    Held,
    /// There is no connection, or only one to a server that is cut off itself. The lock is held still if the session
    /// is taken up again in time.
    Suspect {
        /// Since when, by [`Client::clock`](zoolet_client::Client::clock).
        since: Instant,
    },
    /// Not held any more. Final.
    Lost(LostReason),
}

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The server has expired the session. Open a new client.
    #[error("the session has expired")]
    SessionExpired,
    /// The client was closed, or its runtime is gone.
    #[error("the client is closed")]
    SessionClosed,
    /// The server has refused the client's credentials.
    #[error("authentication failed")]
    AuthFailed,
    /// Somebody deleted the znode of the holder.
    #[error("the znode of the holder was deleted")]
    NodeDeleted,
    /// No server was reached for so long that it may have expired the session.
    #[error("no server was reached for as long as the session lives")]
    LeaseElapsed,
    /// The connection was lost, and [`SuspendPolicy::Lost`](crate::SuspendPolicy::Lost) is set.
    #[error("the connection was lost")]
    Suspended,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lock was held until now.
    Deleted,
    /// It was lost before.
    AlreadyGone,
    /// It is held on, by another guard of the same acquisition; see [`Guard::reenter`].
    StillHeld,
}

/// A held lock, whatever kind of lock it is.
///
/// It belongs to one session and never moves to another. Dropping it releases the lock in the background, without
/// blocking and without a new task; [`Guard::release`] waits until that is done.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
}

/// What all guards of one acquisition share. Gone with the last of them.
struct Held {
    setup: Arc<Setup>,
    standing: Standing,
    present: Arc<Present>,
    hold: Arc<Hold>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hold.order(Order::Release(None));
    }
}

impl Guard {
    pub(crate) fn new(setup: Arc<Setup>, standing: Standing, hold: Arc<Hold>) -> Self {
        let present = Present::new(standing.clone());
        Self { held: Arc::new(Held { setup, standing, present, hold }) }
    }

    /// The fencing token.
    pub fn token(&self) -> FencingToken {
        self.held.standing.token
    }

    /// The path of the znode that holds the lock; the first, where there are several.
    pub fn node(&self) -> &str {
        self.held.standing.nodes.first().map_or("", String::as_str)
    }

    /// The paths of the znodes that hold the lock: one, but for [`MultiLock`](crate::MultiLock), several permits of a
    /// [`Semaphore`](crate::Semaphore) and [`Compat::DualKazoo`](crate::Compat::DualKazoo).
    pub fn nodes(&self) -> &[String] {
        &self.held.standing.nodes
    }

    /// What a multi checks to be sure that the lock is held when it is executed: paths and versions.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        self.held.standing.checks()
    }

    /// The session that holds the lock.
    pub fn session_id(&self) -> SessionId {
        self.client().session_id()
    }

    /// The client whose session that is.
    pub fn client(&self) -> &Client {
        &self.held.setup.client
    }

    /// What is known without asking the server. [`HoldState::Held`] is no proof: an ensemble may have given the lock to
    /// another while the server this client talks to did not know. [`Guard::verify`] and [`Guard::fenced`] are.
    pub fn state(&self) -> HoldState {
        let client = self.client();
        // The holder's task may not have run since the connection was lost.
        match self.held.hold.state() {
            HoldState::Held if !client.state().is_connected() => {
                HoldState::Suspect { since: client.clock().now() }
            }
            state => state,
        }
    }

    /// The lease: how long the server cannot have expired the session, by the client's clock. It is the session timeout,
    /// counted from the sending of the last request that was answered, less a tenth for clocks that run apart. Advice,
    /// as an ensemble may count otherwise.
    pub fn lease_left(&self) -> Duration {
        let client = self.client();
        match self.state() {
            HoldState::Lost(_) => Duration::ZERO,
            _ => self.held.hold.lease_end(client).saturating_duration_since(client.clock().now()),
        }
    }

    /// Waits until the lock is lost, and says how. The future borrows nothing and may be asked for any number of times.
    /// After a release it never ends.
    ///
    /// # How late it may be
    /// It ends when the [lease](Guard::lease_left) does, if not before, however alive the connection looks; and until then
    /// no server expires the session and lets the next one in, unless its clock runs faster by a tenth. That bounds how
    /// late this is, but for three things. A program that does not run when the lease ends learns of it when it runs again,
    /// which may be after the next holder has begun. A member of an ensemble that has lost its leader does not know it for
    /// up to `syncLimit` × `tickTime`, and answers as before: this may be late by so much and half a tick more, unless the
    /// lock is [`strict`](crate::LockBuilder::strict). And whoever deletes the znode of the holder ends no session: that is
    /// noticed with [`watch_own_node`](crate::LockBuilder::watch_own_node), else by the next [`fenced`](Guard::fenced)
    /// write. So effects that must not overlap are fenced.
    ///
    /// # Ordering and cancel safety
    /// A lost connection alone does not end it, unless [`SuspendPolicy::Lost`](crate::SuspendPolicy::Lost) is
    /// set. Dropping it changes nothing.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        let hold = Arc::clone(&self.held.hold);
        async move { hold.lost().await }
    }

    /// Asks the ensemble whether the lock is held, by a write that changes nothing: the one honest answer. It was true when
    /// that was executed. Asks again where the answer is lost, until there is one or the lock is lost.
    ///
    /// # Errors
    /// [`LockError::NotHeld`]; [`LockError::NoAuth`] and [`LockError::Client`] if the server does not answer that.
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<(), LockError> {
        let asking = async {
            loop {
                match self.fenced().commit().await {
                    Ok(_) => return Ok(()),
                    Err(LockError::Client(error)) => self.held.setup.retry(error).await?,
                    Err(LockError::SessionOver { dir, reason, .. }) => {
                        return Err(LockError::NotHeld { dir, reason });
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let not_held = |reason| LockError::NotHeld { dir: self.held.setup.dir.clone(), reason };
        self.run(asking).await.unwrap_or_else(|reason| Err(not_held(reason)))
    }

    /// Writes that happen only if the lock is still held when they do: a multi that begins with a check of the holder's
    /// znode. No token is needed for effects inside ZooKeeper.
    pub fn fenced(&self) -> FencedTxn<'_> {
        FencedTxn::new(&self.held.setup, &self.held.standing, Some(&self.held.hold))
    }

    /// Another guard of the same acquisition, for code that is called under the lock and asks for a guard of its own: the
    /// reentrant lock. The lock is released with the last of them, whichever that is; they may be in different tasks.
    ///
    /// Who may enter again is who has a guard, not who runs in some thread: a task of tokio moves between threads, and
    /// many share one. Whoever acquires the lock anew while it holds it waits for itself.
    pub fn reenter(&self) -> Guard {
        Guard { held: Arc::clone(&self.held) }
    }

    /// Replaces the data of the znode that holds the lock, which others see by `contenders`.
    ///
    /// # Errors
    /// As of [`FencedTxn::commit`].
    /// # Cancel safety
    /// Dropping the future does not recall the write.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), LockError> {
        let data = data.into();
        let mut txn = self.fenced();
        for node in self.nodes() {
            txn = txn.set_data(node, data.clone());
        }
        txn.commit().await.map(|_| ())
    }

    /// Waits until somebody asks for the lock by [`revoke`](crate::revoke()), as Curator's `Revoker` and the recipe of the
    /// documentation do as well. It is a request: what the holder does about it is its own decision. Never ends if nobody asks, nor
    /// when the lock is lost.
    ///
    /// # Cancel safety
    /// Watches the znode as long as the future lives; dropping it takes the watch back.
    pub fn revoke_requested(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        revoke::requested(self.client().clone(), Arc::clone(&self.held.present))
    }

    /// Runs `work` until it is done or the lock is lost, whichever comes first; `work` is dropped then. How late that may
    /// be is said at [`lost`](Guard::lost).
    ///
    /// # Errors
    /// How the lock was lost.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LostReason> {
        tokio::select! {
            biased;
            reason = self.lost() => Err(reason),
            output = work => Ok(output),
        }
    }

    /// Releases the lock and waits until its znode is gone; with another guard of the same acquisition, only drops this one. Without a server it waits until the lock is lost, which is
    /// within the session timeout; the znode is deleted in the background then, if the session is taken up again.
    ///
    /// # Errors
    /// What keeps the znode there. It goes with the session in any case.
    /// # Ordering and cancel safety
    /// The release is under way when this is called; dropping the future only ends the waiting.
    pub fn release(self) -> impl Future<Output = Result<Released, LockError>> + Send + 'static + use<> {
        let waiting = Arc::into_inner(self.held).map(|held| {
            let (done, outcome) = oneshot::channel();
            held.hold.order(Order::Release(Some(done)));
            outcome
        });
        async move {
            match waiting {
                // If the task behind the guard is gone, so is its runtime, and the session with it.
                Some(outcome) => outcome.await.unwrap_or(Ok(Released::AlreadyGone)),
                None => Ok(Released::StillHeld),
            }
        }
    }

    /// Takes note that a server has said that the lock is not held any more.
    pub(crate) fn note_eviction(&self) {
        self.held.hold.evicted();
    }

    /// Has the task behind the guard make something else of the lock.
    pub(crate) async fn change(mut self, change: Change) -> Result<Self, (Self, LockError)> {
        let dir = || self.held.setup.dir.clone();
        if let HoldState::Lost(reason) = self.held.hold.state() {
            let error = LockError::NotHeld { dir: dir(), reason };
            return Err((self, error));
        }
        let (done, changed) = oneshot::channel();
        let gone = LockError::NotHeld { dir: dir(), reason: LostReason::SessionClosed };
        // Nobody else may count on what it is now; and nobody can come to, as long as it is in here.
        if Arc::get_mut(&mut self.held).is_none() {
            let error = LockError::Reentered { dir: self.held.setup.dir.clone() };
            return Err((self, error));
        }
        self.held.hold.order(Order::Change(change, done));
        let changed = changed.await.unwrap_or(Err(gone));
        match (changed, Arc::get_mut(&mut self.held)) {
            (Ok(standing), Some(held)) => {
                held.present.set(standing.clone());
                held.standing = standing;
            }
            (Ok(_), None) => {}
            (Err(error), _) => {
                if matches!(error, LockError::NodeDeleted { .. }) {
                    self.note_eviction();
                }
                return Err((self, error));
            }
        }
        Ok(self)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("node", &self.node())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
