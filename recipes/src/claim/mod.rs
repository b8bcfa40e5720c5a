//! The lock algorithm, from the first request of a contender to its last.
//!
//! An [`Acquire`](crate::Acquire) makes a [`Claim`] and spawns a task that owns it: [`life::spawn`]. Read it in this order:
//!
//! 1. **Name.** The contender generates a guid before its first request ([`names`]). It recognises its znode by the guid,
//!    so a lost reply does no harm: it looks for the guid, keeps the first znode that has it and deletes the others.
//! 2. **Enter.** [`QueueEntry::enter`](queue_entry::QueueEntry::enter) creates an ephemeral sequential znode, or several in
//!    one multi, and lists the directory in the same flight. If the directory is missing, the same flight is repeated
//!    with the creates of the directory in front.
//! 3. **Find the position.** [`order`] sorts the children by their numbers, or by their transactions, which [`listing`] reads
//!    if the numbers are not reliable, and finds the contenders in the way. A contender that does not find its own znode was evicted; it never
//!    takes its own absence for its turn.
//! 4. **Wait.** It watches the nearest contender in the way, and no other. When that one is gone, go to 3.
//! 5. **Win.** Nobody is in the way: the [`Grant`] has the znodes and the fencing token, which is the transaction that
//!    created them. The task sends a [`Guard`](crate::Guard) and goes on as the task of a held lock, [`guard::task`](crate::guard::task).
//! 6. **Leave.** After a release, a dropped future or guard, an error or a loss, the task deletes every znode with the guid.
//!    If a create may still be in flight, it first sends a sync, so that the listing shows it.
//!
//! Variations: [`change`] turns a writer into a reader and back, [`permits`] has a queue whose first member waits for free
//! permits, [`single_node`] has no queue at all, and [`counter`] resets the counter of a directory before it ends.

pub(crate) mod change;
pub(crate) mod counter;
mod entry_node;
pub(crate) mod life;
pub(crate) mod listing;
pub(crate) mod names;
pub(crate) mod order;
pub(crate) mod permits;
pub(crate) mod queue_entry;
pub(crate) mod single_node;

use std::future::{Future, ready};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use zoolet_client::internal::locked;

use crate::config::LockConfig;
use crate::contender::Contender;
use crate::error::LockError;
use crate::state::Grant;

/// What a claim that has to wait reports to its [`Acquire`](crate::Acquire).
pub(crate) struct WaitReport {
    pub(crate) queued: Option<oneshot::Sender<usize>>,
    /// The nearest contender in front, as far as the claim knows it anyway.
    pub(crate) in_front: Arc<Mutex<Option<Box<Contender>>>>,
}

impl WaitReport {
    /// Reports, the first time, how many contenders are in front.
    fn queued(&mut self, ahead: usize) {
        if let Some(queued) = self.queued.take() {
            let _ = queued.send(ahead);
        }
    }

    fn set_in_front(&self, contender: Option<Contender>) {
        *locked(&self.in_front) = contender.map(Box::new);
    }
}

/// How a lock is won, changed and given up.
pub(crate) trait Claim: Send + Sized + 'static {
    fn config(&self) -> &Arc<LockConfig>;

    /// Wins the lock. Reports if it has to wait.
    ///
    /// # Cancel safety
    /// Whenever it is dropped, [`leave`](Claim::leave) undoes all of it.
    fn win(&mut self, report: &mut WaitReport) -> impl Future<Output = Result<Grant, LockError>> + Send;

    /// Gives up the lock, or the place in its queue. `Ok(false)` if there was nothing of ours.
    ///
    /// # Errors
    /// Why the znode may still exist. If the session is over, the znode is gone with it.
    fn leave(&mut self) -> impl Future<Output = Result<bool, LockError>> + Send;

    /// Changes what is held. Most kinds of locks cannot.
    ///
    /// # Cancel safety
    /// The same as for [`win`](Claim::win).
    fn change(&mut self, _: HoldChange) -> impl Future<Output = Result<Grant, LockError>> + Send {
        ready(Err(LockError::NotAlone { dir: self.config().label.clone() }))
    }
}

/// How a held lock can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldChange {
    /// A writer becomes a reader, with no other writer in between.
    Downgrade,
    /// A reader becomes a writer, if it is the only reader.
    Upgrade,
}
