//! [`DoubleBarrier`]: a number of members begin together and end together.

use std::fmt;
use std::future::Future;

use tokio::sync::oneshot;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client};

use super::error::BarrierError;
use super::member::Member;
use crate::LostReason;

/// A barrier that a number of members enter together and leave together, round after round.
///
/// [`enter`](DoubleBarrier::enter) waits until so many are there, [`Inside::leave`] until all have left. Members are
/// ephemeral children of the znode at its path, and `ready` beside them is the sign that a round has begun: as in
/// Curator's `DistributedDoubleBarrier`, with whose members it works. Who comes while a round is on, even as its members
/// leave, waits for the next one.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::BarrierError> {
/// let barrier = zoolet_recipes::DoubleBarrier::new(&zk, "/barriers/step-1", 3);
/// let inside = barrier.enter().await?;                // until three are there
/// // .. compute
/// inside.leave().await?;                              // until all three are done
/// # Ok(()) }
/// ```
///
/// Every child but `ready` counts as a member, whoever created it and of whatever kind, as to Curator: a persistent one is a
/// member of every round, and one that nobody deletes keeps the others from leaving. Keep nothing else there.
///
/// A member whose session ends counts as gone: before the round it is waited for no more than if it had not come, and in
/// it the others do not wait for it to leave. Watch [`Client::ended`] to know when that happens to you.
#[derive(Debug, Clone)]
pub struct DoubleBarrier {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) members: usize,
    pub(super) acl: Vec<Acl>,
}

/// A member inside of a [`DoubleBarrier`]; from [`DoubleBarrier::enter`]. Dropping it leaves in the background, without
/// waiting for the others.
#[must_use = "it leaves when it is dropped"]
pub struct Inside {
    node: String,
    path: String,
    /// Dropped with the member, which its task takes for the order to leave without waiting.
    order: oneshot::Sender<oneshot::Sender<Result<(), BarrierError>>>,
}

impl DoubleBarrier {
    /// The barrier at `path` for so many members; for none it is as for one. All of them must agree on the number. Asks no
    /// server.
    pub fn new(client: &Client, path: impl Into<String>, members: usize) -> Self {
        Self { client: client.clone(), path: path.into(), members: members.max(1), acl: Acl::open() }
    }

    /// The ACL of all znodes that are created. Every member needs all rights but ADMIN by it. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Enters: waits until as many members are there at one time.
    ///
    /// # Errors
    /// [`BarrierError`] says of each what to do. Nothing is left behind.
    /// # Ordering and cancel safety
    /// At the transaction that begins the round as many members are there, this one among them. Dropping the future at
    /// any time takes the member away again, in the background: no znode and no watch is left. So it may be given any
    /// timeout.
    /// # Panics
    /// When awaited outside of a tokio runtime.
    pub async fn enter(&self) -> Result<Inside, BarrierError> {
        let (give, given) = oneshot::channel();
        // A task of its own, so that what was begun is brought to an end whatever becomes of this future.
        self.client.runtime().spawn(own(Member::new(self.clone()), give));
        given.await.unwrap_or_else(|_| Err(gone(&self.path)))
    }
}

impl Inside {
    /// The path of this member's znode.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Leaves, and waits until all members of this round have left or are gone.
    ///
    /// # Errors
    /// [`BarrierError::SessionOver`], [`BarrierError::NoAuth`], [`BarrierError::Client`]. This member has left all the same, or
    /// goes with its session.
    /// # Ordering and cancel safety
    /// It is under way when this is called. Dropping the future leaves without waiting for the others.
    pub fn leave(self) -> impl Future<Output = Result<(), BarrierError>> + Send + 'static + use<> {
        let Self { path, order, .. } = self;
        let (done, outcome) = oneshot::channel();
        // If the member's task is gone, so is its runtime, and the session with it.
        let _ = order.send(done);
        async move { outcome.await.unwrap_or_else(|_| Err(gone(&path))) }
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A task that is gone without a word went with its runtime, and so did the session.
fn gone(path: &str) -> BarrierError {
    BarrierError::SessionOver { path: path.to_owned(), reason: LostReason::SessionClosed }
}

/// The owner of one member from its first request to its last: cleans up when whoever waits for it is gone.
async fn own(mut member: Member, mut give: oneshot::Sender<Result<Inside, BarrierError>>) {
    let entered = tokio::select! {
        biased;
        () = give.closed() => None,
        entered = member.enter() => Some(entered),
    };
    match entered {
        None => member.withdraw().await,
        Some(Err(error)) => {
            member.withdraw().await;
            let _ = give.send(Err(error));
        }
        Some(Ok(())) => {
            let (order, ordered) = oneshot::channel();
            let (node, path) = (member.node(), member.barrier().path.clone());
            // A member that nobody takes is dropped here, and so leaves below.
            let _ = give.send(Ok(Inside { node, path, order }));
            let Ok(mut done) = ordered.await else { return member.withdraw().await };
            let left = tokio::select! {
                biased;
                () = done.closed() => None,
                left = member.leave() => Some(left),
            };
            if !matches!(left, Some(Ok(()))) {
                member.withdraw().await;
            }
            if let Some(left) = left {
                let _ = done.send(left);
            }
        }
    }
}
