//! Writes that are executed only while a lock is held.

use tokio::time::Instant;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Error, ErrorCode, Multi, MultiOutcome, MultiWrite};

use super::lock_state::LockState;
use crate::config::LockConfig;
use crate::error::LockError;
use crate::state::{Grant, HoldState, LostReason};

/// Writes that are executed only if the lock is held, and then all of them; from [`Guard::fenced`](crate::Guard::fenced).
///
/// ```no_run
/// # async fn example(guard: zoolet_recipes::Guard) -> Result<(), zoolet_recipes::LockError> {
/// guard.fenced().set_data("/accounts/ann", "70").create("/log/17", "ann -30").commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "it is sent by `.commit()`"]
pub struct FencedTxn<'g> {
    config: &'g LockConfig,
    multi: Multi<'g>,
    /// How many checks of the lock precede the writes.
    checks: usize,
    /// The state of the lock, once there is a guard.
    state: Option<&'g LockState>,
}

impl<'g> FencedTxn<'g> {
    pub(crate) fn new(config: &'g LockConfig, grant: &Grant, state: Option<&'g LockState>) -> Self {
        let mut txn = Self { config, multi: config.client.multi(), checks: 0, state };
        for (path, version) in grant.checks() {
            txn.multi = txn.multi.check(path, version);
            txn.checks += 1;
        }
        txn
    }

    /// Creates a persistent znode that is open to everybody. For any other, [`add`](FencedTxn::add) a create.
    pub fn create(self, path: impl Into<String>, data: impl Into<bytes::Bytes>) -> Self {
        self.with(|multi| multi.create(path, data))
    }

    /// Deletes a znode, whatever its version.
    pub fn delete(self, path: impl Into<String>) -> Self {
        self.with(|multi| multi.delete(path))
    }

    /// Replaces data, whatever its version.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<bytes::Bytes>) -> Self {
        self.with(|multi| multi.set_data(path, data))
    }

    /// Requires that the data of the znode has this version; `None` only requires that the znode exists.
    pub fn check(self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Self {
        self.with(|multi| multi.check(path, version))
    }

    /// Adds a create, delete or setData with options of its own.
    #[expect(clippy::should_implement_trait, reason = "adds to a list, not a sum")]
    pub fn add(self, write: impl Into<MultiWrite>) -> Self {
        self.with(|multi| multi.add(write))
    }

    /// Sends the writes and waits: one outcome for each, in order.
    ///
    /// # Errors
    /// [`LockError::NotHeld`] if the lock is not held any more, without a request if that is known already; the guard
    /// counts as lost from then on. [`LockError::Client`] with the write that was refused, and its number among these
    /// writes. [`LockError::NoAuth`] if the check of the lock's own znodes was refused. After these nothing was executed.
    ///
    /// After a lost connection, a timeout or the end of the session ([`LockError::SessionOver`]) the outcome may be unknown:
    /// see [`LockError::may_have_applied`]. The writes are not sent again, because they could be executed twice. If they
    /// must be executed once, use [`Tickets::run_under`](crate::Tickets::run_under).
    /// # Ordering and cancel safety
    /// Sent at the first poll. Dropping the future does not recall it.
    pub async fn commit(self) -> Result<Vec<MultiOutcome>, LockError> {
        if let Some(HoldState::Lost(reason)) = self.state.map(LockState::get) {
            return Err(LockError::NotHeld { dir: self.config.label.clone(), reason });
        }
        match self.multi.commit().await {
            Ok(mut outcomes) => {
                // The checks of the lock are ours, not the caller's.
                outcomes.drain(..self.checks);
                Ok(outcomes)
            }
            Err(error)
                if error.failed_operation().is_some_and(|at| at < self.checks)
                    && matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) =>
            {
                self.state.inspect(|state| state.give_up(LostReason::NodeDeleted));
                Err(LockError::NotHeld { dir: self.config.label.clone(), reason: LostReason::NodeDeleted })
            }
            Err(Error::MultiRefused { index, context, code }) => Err(match index.checked_sub(self.checks) {
                // One of the caller's own writes. Even NoAuth concerns another znode than the lock's.
                Some(index) => LockError::Client(Error::MultiRefused { index, context, code }),
                // A check of the lock, which has no number among the caller's writes.
                None => self.config.error(Error::Refused { context, code }),
            }),
            Err(error) => Err(self.config.error(error)),
        }
    }

    fn with(self, add: impl FnOnce(Multi<'g>) -> Multi<'g>) -> Self {
        Self { multi: add(self.multi), ..self }
    }
}

/// Proves by a write that changes nothing that the lock is held. It is sent until there is a reply. Returns when the one that
/// was answered was sent.
pub(crate) async fn prove(
    config: &LockConfig,
    grant: &Grant,
    state: Option<&LockState>,
) -> Result<Instant, LockError> {
    loop {
        let sent = config.client.clock().now();
        match FencedTxn::new(config, grant, state).commit().await {
            Err(LockError::Client(error)) => config.retries().retry(error).await?,
            proven => return proven.map(|_| sent),
        }
    }
}
