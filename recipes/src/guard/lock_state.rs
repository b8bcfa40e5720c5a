//! [`LockState`]: the state of a held lock, and the channel between its guards and its task.

use std::future::pending;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use zoolet_client::Client;
use zoolet_client::internal::{ClientExt as _, locked};

use crate::claim::HoldChange;
use crate::error::LockError;
use crate::state::{Grant, HoldState, LostReason, Released};

/// Who waits for the outcome of a release; `None` if the guard was dropped.
pub(crate) type ReleaseWaiter = Option<oneshot::Sender<Result<Released, LockError>>>;

/// A command of a guard to the task of its lock.
#[derive(Debug)]
pub(crate) enum LockCommand {
    /// Release the lock and report the outcome.
    Release(ReleaseWaiter),
    /// Give the lock up: a guard has found out that it is lost.
    Lost(LostReason),
    /// Change the lock.
    Change(HoldChange, oneshot::Sender<Result<Grant, LockError>>),
}

/// The state of a held lock, written by its task and read by its guards, and the commands of the guards.
#[derive(Debug)]
pub(crate) struct LockState {
    inner: Mutex<StateInner>,
    /// Notifies of a loss and of another grant. A `Notify` wakes waiters in the order in which they came; a `watch` channel
    /// would use a random order.
    pub(super) changed: Notify,
    commands: mpsc::UnboundedSender<LockCommand>,
}

#[derive(Debug)]
struct StateInner {
    state: HoldState,
    grant: Grant,
    /// When the latest write was sent that has shown the session to be alive, if only writes extend the lease.
    proven: Option<Instant>,
    /// Whether a release was commanded.
    released: bool,
}

impl LockState {
    /// The state, and the commands for the lock's task.
    pub(crate) fn new(grant: Grant, proven: Option<Instant>) -> (Arc<Self>, CommandReceiver) {
        let inner = Mutex::new(StateInner { state: HoldState::Held, grant, proven, released: false });
        let (sender, commands) = mpsc::unbounded_channel();
        let lock = Arc::new(Self { inner, changed: Notify::new(), commands: sender });
        (Arc::clone(&lock), CommandReceiver { lock, commands })
    }

    pub(crate) fn get(&self) -> HoldState {
        locked(&self.inner).state
    }

    /// Waits until the lock is lost.
    pub(crate) async fn lost(&self) -> LostReason {
        loop {
            // Registered before the look, so that no notification is missed between the look and the wait.
            let changed = self.changed.notified();
            if let HoldState::Lost(reason) = self.get() {
                return reason;
            }
            changed.await;
        }
    }

    pub(super) fn grant(&self) -> Grant {
        locked(&self.inner).grant.clone()
    }

    pub(super) fn set_grant(&self, grant: Grant) {
        locked(&self.inner).grant = grant;
        self.changed.notify_waiters();
    }

    /// Sends a command. It is dropped if the task has ended, which its sender notices.
    pub(crate) fn send(&self, command: LockCommand) {
        locked(&self.inner).released |= matches!(command, LockCommand::Release(_));
        let _ = self.commands.send(command);
    }

    /// Until when the session cannot have expired, if this machine's clock runs like the server's. A tenth of the timeout
    /// is reserved for clock drift, and for the time that it takes to notice.
    pub(crate) fn lease_end(&self, client: &Client) -> Instant {
        let timeout = client.session_timeout();
        let contact = self.proven().unwrap_or_else(|| client.last_contact());
        contact + (timeout - timeout / 10)
    }

    pub(super) fn proven(&self) -> Option<Instant> {
        locked(&self.inner).proven
    }

    pub(super) fn prove(&self, sent: Instant) {
        locked(&self.inner).proven = Some(sent);
    }

    /// The state, as far as guards can tell without waiting for the task, which may not have run since the connection was lost,
    /// or the lease has ended while the machine was suspended.
    pub(crate) fn current(&self, client: &Client) -> HoldState {
        let (state, now) = (self.get(), client.clock().now());
        match state {
            HoldState::Lost(_) => state,
            _ if self.lease_end(client) <= now => {
                self.give_up(LostReason::LeaseElapsed);
                self.get()
            }
            HoldState::Held if !client.state().is_connected() => HoldState::Suspect { since: now },
            state => state,
        }
    }

    /// The lock is lost, as a guard has found out.
    pub(crate) fn give_up(&self, reason: LostReason) {
        self.lose(reason);
        self.send(LockCommand::Lost(reason));
    }

    /// Sets the state, unless the lock is lost, which is final.
    pub(super) fn set(&self, state: HoldState) {
        let mut inner = locked(&self.inner);
        if !matches!(inner.state, HoldState::Lost(_)) {
            inner.state = state;
        }
    }

    pub(super) fn lose(&self, reason: LostReason) -> LostReason {
        self.set(HoldState::Lost(reason));
        self.changed.notify_waiters();
        reason
    }

    /// The task has ended. If no release was commanded its runtime was shut down, and the session with it.
    fn close(&self) {
        if !locked(&self.inner).released {
            self.lose(LostReason::SessionClosed);
        }
    }
}

/// The task's reference to the [`LockState`]. Closes it when the task ends, also by a shutdown of the runtime.
pub(crate) struct CommandReceiver {
    pub(super) lock: Arc<LockState>,
    commands: mpsc::UnboundedReceiver<LockCommand>,
}

impl CommandReceiver {
    pub(super) async fn next_command(&mut self) -> LockCommand {
        match self.commands.recv().await {
            Some(command) => command,
            // Not before this is dropped, which has a sender itself.
            None => pending().await,
        }
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        // In this order: a command that comes later is dropped, and its sender then sees why.
        self.commands.close();
        self.lock.close();
    }
}
