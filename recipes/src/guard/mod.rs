//! [`Guard`]: a held lock; [`lock_state`], its state; [`task`], which watches over it.

pub(crate) mod fenced;
pub(crate) mod lock_state;
pub(crate) mod revoke;
pub(crate) mod task;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, SessionId};

use crate::claim::HoldChange;
use crate::config::LockConfig;
use crate::error::LockError;
use crate::shared_task::SharedTask;
use crate::state::{FencingToken, Grant, HoldState, LostReason, Released};
use fenced::FencedTxn;
use lock_state::{LockCommand, LockState};

/// A held lock of any kind.
///
/// It belongs to one session and never moves to another. Dropping it releases the lock without blocking: the delete of its
/// znode is sent before the drop returns, in order with the other requests of the client, and what else must be done is
/// done in the background. [`Guard::release`] waits until the lock is released.
///
/// A program that ends right after a drop has sent the delete as well, if its runtime is dropped, as at the end of
/// `#[tokio::main]`: the client then writes what it has queued, and closes the session. `std::process::exit`, an abort and a
/// kill leave no time for that. After those the lock stays held until the session times out, so call
/// [`Client::close`] before [`std::process::exit`].
///
/// ```no_run
/// # async fn example(guard: zoolet_recipes::Guard) -> Result<(), zoolet_recipes::LockError> {
/// // Inside ZooKeeper: executed only if the lock is still held.
/// guard.fenced().set_data("/ledger", "v2").commit().await?;
/// // Outside: the store rejects lower tokens.
/// println!("write with token {}", guard.token());
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    held: Arc<HeldLock>,
}

/// What all guards of one acquisition share. Dropped with the last of them.
struct HeldLock {
    config: Arc<LockConfig>,
    grant: Grant,
    state: Arc<LockState>,
    task: SharedTask,
}

impl Drop for HeldLock {
    /// Releases the lock, unless the guard has done so. The delete is sent when this returns.
    fn drop(&mut self) {
        self.state.send(LockCommand::Release(None));
        self.task.advance();
    }
}

/// Implements what the guards of the recipes have in common, and names their release.
macro_rules! typed_guard {
    ($guard:ident, $release:ident) => {
        impl $guard {
            /// As [`Guard::release`].
            pub fn $release(
                self,
            ) -> impl Future<Output = Result<crate::Released, LockError>> + Send + 'static + use<> {
                self.0.release()
            }

            /// As [`Guard::reenter`].
            pub fn reenter(&self) -> Self {
                Self(self.0.reenter())
            }
        }

        impl std::ops::Deref for $guard {
            type Target = Guard;

            fn deref(&self) -> &Guard {
                &self.0
            }
        }
    };
}
pub(crate) use typed_guard;

impl Guard {
    pub(crate) fn new(
        config: Arc<LockConfig>,
        grant: Grant,
        state: Arc<LockState>,
        task: SharedTask,
    ) -> Self {
        Self { held: Arc::new(HeldLock { config, grant, state, task }) }
    }

    /// The fencing token.
    pub fn token(&self) -> FencingToken {
        self.held.grant.token
    }

    /// The path of the znode that holds the lock; the first of several.
    pub fn node(&self) -> &str {
        self.held.grant.nodes.first().map_or("", String::as_str)
    }

    /// The paths of the znodes that hold the lock. There are several for a [`MultiLock`](crate::MultiLock), several permits
    /// of a [`Semaphore`](crate::Semaphore), and [`Compat::DualKazoo`](crate::Compat::DualKazoo).
    pub fn nodes(&self) -> &[String] {
        &self.held.grant.nodes
    }

    /// The paths and versions that a multi checks to ensure that the lock is held when it is executed.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        self.held.grant.checks()
    }

    /// The session that holds the lock.
    pub fn session_id(&self) -> SessionId {
        self.client().session_id()
    }

    /// The client of that session.
    pub fn client(&self) -> &Client {
        &self.held.config.client
    }

    /// The state of the lock, without asking the server. [`HoldState::Held`] is not a proof: an ensemble may have given the lock to
    /// another contender before the server of this client noticed. [`Guard::verify`] and [`Guard::fenced`] are proofs.
    ///
    /// If the [lease](Guard::lease_left) has ended, the lock is lost from this call on, even if no task of this program has run
    /// since, as after a suspension of the machine; [`Clock::now`](zoolet_client::Clock::now) says where those are counted.
    pub fn state(&self) -> HoldState {
        self.held.state.current(self.client())
    }

    /// The remaining lease: how long the server cannot have expired the session, by the client's clock. It is the session
    /// timeout, counted from the sending of the last request that was answered, less a tenth for clock drift. Advisory, as
    /// an ensemble may count otherwise.
    pub fn lease_left(&self) -> Duration {
        let client = self.client();
        match self.state() {
            HoldState::Lost(_) => Duration::ZERO,
            _ => self.held.state.lease_end(client).saturating_duration_since(client.clock().now()),
        }
    }

    /// Waits until the lock is lost, and returns the reason. The future borrows nothing, and there may be any number of
    /// them. It does not complete after a release.
    ///
    /// # How late it may be
    /// It completes when the [lease](Guard::lease_left) ends at the latest, however alive the connection looks. Until then
    /// no server expires the session and lets the next contender in, unless its clock is faster by a tenth. There are three
    /// exceptions:
    ///
    /// - A program that does not run when the lease ends notices when it runs again, possibly after the next holder has
    ///   begun. If the machine was suspended, the timers of the program go on where they were: this completes up to a third of
    ///   the session timeout after the machine has resumed, or up to the session timeout if there was no connection before.
    ///   [`state`](Guard::state) knows at once.
    /// - A member of an ensemble that has lost its leader does not know it for up to `syncLimit` × `tickTime`, and replies
    ///   as before. Then this may be late by as much and half a tick more, unless the lock is
    ///   [`strict`](crate::LockBuilder::strict).
    /// - Deleting the znode of the holder ends no session. It is noticed with
    ///   [`watch_own_node`](crate::LockBuilder::watch_own_node), or else by the next [`fenced`](Guard::fenced) write.
    ///
    /// So fence effects that must not overlap.
    ///
    /// # Ordering and cancel safety
    /// A lost connection alone does not complete it, unless [`SuspendPolicy::Lost`](crate::SuspendPolicy::Lost) is set.
    /// Dropping it changes nothing.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        let state = Arc::clone(&self.held.state);
        async move { state.lost().await }
    }

    /// Asks the ensemble whether the lock is held, by a write that changes nothing: the only certain answer. It was true
    /// when the write was executed. If the reply is lost it asks again, until there is one or the lock is lost.
    ///
    /// # Errors
    /// [`LockError::NotHeld`]; [`LockError::NoAuth`] and [`LockError::Client`] if the server refuses to answer.
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<(), LockError> {
        let held = &self.held;
        match self.run(fenced::prove(&held.config, &held.grant, Some(&held.state))).await {
            Ok(Ok(_)) => Ok(()),
            Err(reason) | Ok(Err(LockError::SessionOver { reason, .. })) => Err(self.not_held(reason)),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Writes that are executed only if the lock is still held: a multi that begins with a check of the holder's znode.
    /// Effects inside ZooKeeper need no token.
    pub fn fenced(&self) -> FencedTxn<'_> {
        FencedTxn::new(&self.held.config, &self.held.grant, Some(&self.held.state))
    }

    /// Another guard of the same acquisition, for code that is called under the lock and needs a guard of its own: the
    /// reentrant lock. The lock is released with the last of them; they may be in different tasks.
    ///
    /// What allows entering again is a guard, not a thread: a tokio task moves between threads, and many tasks share one.
    /// Acquiring the lock again while holding it waits forever.
    pub fn reenter(&self) -> Guard {
        Guard { held: Arc::clone(&self.held) }
    }

    /// Replaces the data of the znode that holds the lock, which `contenders` shows to others.
    ///
    /// # Errors
    /// The same as for [`FencedTxn::commit`].
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

    /// Waits until somebody requests the lock by [`revoke`](crate::revoke()), by Curator's `Revoker`, or in the way of the
    /// recipe in ZooKeeper's documentation. The holder decides what to do about it. Does not complete if nobody asks, nor
    /// when the lock is lost.
    ///
    /// # Cancel safety
    /// The future watches the znode; dropping it removes the watch.
    pub fn revoke_requested(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        revoke::requested(Arc::clone(&self.held.config), Arc::clone(&self.held.state))
    }

    /// Runs `work` until it completes or the lock is lost, whichever is first; `work` is dropped then. For how late that
    /// may be see [`lost`](Guard::lost).
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

    /// Releases the lock and waits until its znode is gone. If there is another guard of the same acquisition, only drops
    /// this one. Without a server it waits until the lock is lost, which is within the session timeout; then the znode is
    /// deleted in the background if the session is resumed.
    ///
    /// # Errors
    /// Why the znode may still exist. It is removed with the session in any case.
    /// # Ordering and cancel safety
    /// The release begins when this is called; dropping the future only ends the wait.
    pub fn release(self) -> impl Future<Output = Result<Released, LockError>> + Send + 'static + use<> {
        let released = Arc::into_inner(self.held).map(|held| {
            let (sender, released) = oneshot::channel();
            held.state.send(LockCommand::Release(Some(sender)));
            released
        });
        async move {
            match released {
                // If the lock's task is gone, its runtime was shut down, and the session with it.
                Some(released) => released.await.unwrap_or(Ok(Released::AlreadyGone)),
                None => Ok(Released::StillHeld),
            }
        }
    }

    /// Notes that a server has replied that the lock is not held any more.
    pub(crate) fn note_eviction(&self) {
        self.held.state.give_up(LostReason::NodeDeleted);
    }

    /// Changes the lock.
    pub(crate) async fn change(mut self, change: HoldChange) -> Result<Self, (Self, LockError)> {
        if let HoldState::Lost(reason) = self.held.state.get() {
            let error = self.not_held(reason);
            return Err((self, error));
        }
        // Other guards rely on what the lock is now. No new ones can be made, because this one is borrowed until the end.
        if Arc::get_mut(&mut self.held).is_none() {
            let error = LockError::Reentered { dir: self.held.config.label.clone() };
            return Err((self, error));
        }
        let (sender, changed) = oneshot::channel();
        self.held.state.send(LockCommand::Change(change, sender));
        match changed.await.unwrap_or_else(|_| Err(self.not_held(LostReason::SessionClosed))) {
            Ok(grant) => {
                if let Some(held) = Arc::get_mut(&mut self.held) {
                    held.grant = grant;
                }
                Ok(self)
            }
            Err(error) => {
                if matches!(error, LockError::NodeDeleted { .. }) {
                    self.note_eviction();
                }
                Err((self, error))
            }
        }
    }

    fn not_held(&self, reason: LostReason) -> LockError {
        LockError::NotHeld { dir: self.held.config.label.clone(), reason }
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
