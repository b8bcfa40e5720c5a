//! What all locks have in common, however they queue: they are won, held, perhaps changed, and given up. One task owns
//! each claim from its first request to its last, so that whatever becomes of futures and guards, what was begun is
//! brought to an end.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_client::Stat;
use zoolet_client::internal::ClientExt as _;

use crate::error::LockError;
use crate::fenced::FencedTxn;
use crate::guard::{FencingToken, Guard};
use crate::hold::{Hold, Holder};
use crate::setup::Setup;

/// Told how many contenders are in front.
pub(crate) type Notice = Box<dyn FnOnce(usize) + Send>;

/// How a lock is won, changed and given up.
pub(crate) trait Claim: Send + Sized + 'static {
    fn setup(&self) -> &Arc<Setup>;

    /// Wins the lock. Tells `queued` once if it has to wait for it.
    ///
    /// # Cancel safety
    /// Whenever it is dropped, [`leave`](Claim::leave) undoes all of it.
    fn win(
        &mut self,
        queued: &mut Option<Notice>,
    ) -> impl Future<Output = Result<Standing, LockError>> + Send;

    /// Gives up the lock, or the place in its queue. `Ok(false)` if there was nothing of ours.
    ///
    /// # Errors
    /// What keeps the znode there; if that is the end of the session, it goes with it.
    fn leave(&mut self) -> impl Future<Output = Result<bool, LockError>> + Send;

    /// Makes something else of what is held.
    ///
    /// # Cancel safety
    /// As of [`win`](Claim::win).
    fn change(&mut self, change: Change) -> impl Future<Output = Result<Standing, LockError>> + Send;
}

/// What a guard holds: written once the lock is won, and again when it is changed.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The znodes; more than one for several locks or permits at once.
    pub(crate) nodes: Vec<String>,
    pub(crate) token: FencingToken,
    /// A znode besides, and the version it has as long as the lock is ours: where the name of the lock's own znode is
    /// used again by whoever comes next, and so proves nothing.
    pub(crate) epoch: Option<(String, i32)>,
}

impl Standing {
    /// Whether a znode with the name of ours, and this `Stat`, is ours: not that of whoever came next to the same name.
    pub(crate) fn is_of(&self, stat: &Stat) -> bool {
        self.epoch.is_none() || FencingToken::new(stat.czxid) == self.token
    }

    /// What a multi checks to be sure that the lock is held when it is executed: paths and versions.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        let epoch = self.epoch.iter().map(|(path, version)| (path.as_str(), Some(*version)));
        epoch.chain(self.nodes.iter().map(|node| (node.as_str(), None)))
    }
}

/// What can be made of a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A reader of a writer, with no writer in between.
    Downgrade,
    /// A writer of a reader, if it is the only one.
    Upgrade,
}

/// Brings a claim from its first request to its last: wins, hands out the guard, and cleans up when the guard or whoever
/// waited for it is gone.
pub(crate) async fn own<C: Claim>(
    mut claim: C,
    confirmed: bool,
    mut queued: Option<Notice>,
    mut give: oneshot::Sender<Result<Guard, LockError>>,
) {
    let won = tokio::select! {
        biased;
        () = give.closed() => None,
        won = win(&mut claim, confirmed, &mut queued) => Some(won),
    };
    let error = match won {
        Some(Ok((standing, proven))) => {
            let hold = Arc::new(Hold::new(proven.filter(|_| claim.setup().strict)));
            let guard = Guard::new(Arc::clone(claim.setup()), standing.clone(), Arc::clone(&hold));
            let holder = Holder::new(claim, standing, hold);
            // A guard that nobody takes is dropped here, and so released below.
            let _ = give.send(Ok(guard));
            return holder.run().await;
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    if let Err(error) = claim.leave().await {
        let dir = &claim.setup().dir;
        tracing::debug!(dir, %error, "cannot leave the queue; the znode goes with the session");
    }
    if let Some(error) = error {
        let _ = give.send(Err(error));
    }
}

/// Wins, and has that confirmed if it is wanted; the time is when what has confirmed it was sent.
async fn win<C: Claim>(
    claim: &mut C,
    confirmed: bool,
    queued: &mut Option<Notice>,
) -> Result<(Standing, Option<Instant>), LockError> {
    let standing = claim.win(queued).await?;
    let setup = claim.setup();
    if !confirmed && !setup.strict {
        return Ok((standing, None));
    }
    loop {
        let sent = setup.client.clock().now();
        // It changes nothing, so it may be asked again.
        match FencedTxn::new(setup, &standing, None).commit().await {
            Ok(_) => return Ok((standing, Some(sent))),
            Err(LockError::Client(error)) => setup.retry(error).await?,
            Err(LockError::NotHeld { dir, .. }) => return Err(LockError::NodeDeleted { dir }),
            Err(error) => return Err(error),
        }
    }
}
