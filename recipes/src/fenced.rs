//! Writes that happen only while a lock is held.

use zoolet_client::{Error, ErrorCode, Multi, MultiOutcome, MultiWrite};

use crate::claim::Standing;
use crate::error::LockError;
use crate::guard::{HoldState, LostReason};
use crate::hold::Hold;
use crate::setup::Setup;

/// Writes that happen only if the lock is held when they do, and then all of them; from
/// [`Guard::fenced`](crate::Guard::fenced).
#[derive(Debug)]
#[must_use = "it is sent by `.commit()`"]
pub struct FencedTxn<'g> {
    setup: &'g Setup,
    multi: Multi<'g>,
    /// How many checks of the lock stand in front of the writes.
    checks: usize,
    /// The guard's knowledge of the lock, once there is a guard.
    hold: Option<&'g Hold>,
}

impl<'g> FencedTxn<'g> {
    pub(crate) fn new(setup: &'g Setup, standing: &Standing, hold: Option<&'g Hold>) -> Self {
        let mut txn = Self { setup, multi: setup.client.multi(), checks: 0, hold };
        for (path, version) in standing.checks() {
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

    /// Adds a create, delete or setData with all that can be chosen for it.
    #[expect(clippy::should_implement_trait, reason = "it adds to a list, it is no sum")]
    pub fn add(self, write: impl Into<MultiWrite>) -> Self {
        self.with(|multi| multi.add(write))
    }

    /// Sends it and waits: one outcome per write, in order.
    ///
    /// # Errors
    /// [`LockError::NotHeld`] if the lock was not held any more, without a request if that is known; nothing has happened
    /// then, and the guard counts as lost from then on. [`LockError::Client`] with what was refused, and its number among
    /// these writes; nothing has happened then either, nor after [`LockError::NoAuth`], which is of the lock's own znodes.
    /// After a lost connection, a timeout or the end of the session ([`LockError::SessionOver`]) the outcome may be unknown,
    /// as [`LockError::may_have_applied`] says: it is not sent again, as that could be done twice. What must be done once
    /// is done by [`Tickets::run_under`](crate::Tickets::run_under).
    /// # Ordering and cancel safety
    /// Sent at the first poll. Dropping the future does not recall it.
    pub async fn commit(self) -> Result<Vec<MultiOutcome>, LockError> {
        if let Some(HoldState::Lost(reason)) = self.hold.map(Hold::state) {
            return Err(LockError::NotHeld { dir: self.setup.dir.clone(), reason });
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
                self.hold.inspect(|hold| hold.evicted());
                Err(LockError::NotHeld { dir: self.setup.dir.clone(), reason: LostReason::NodeDeleted })
            }
            Err(Error::MultiRefused { index, context, code }) => Err(match index.checked_sub(self.checks) {
                // Of the caller's own writes, whatever the reason: also an ACL is that of another znode than the lock's.
                Some(index) => LockError::Client(Error::MultiRefused { index, context, code }),
                // Of a check of the lock, which has no number among the caller's writes.
                None => self.setup.error(Error::Refused { context, code }),
            }),
            Err(error) => Err(self.setup.error(error)),
        }
    }

    fn with(self, add: impl FnOnce(Multi<'g>) -> Multi<'g>) -> Self {
        Self { multi: add(self.multi), ..self }
    }
}
