//! [`DoubleBarrier`]: a number of members begin together and end together.

use std::fmt;
use std::future::Future;

use tokio::sync::oneshot;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client};

use super::error::BarrierError;
use super::member::Member;
use crate::retry::RetryPolicy;
use crate::shared_task::SharedTask;
use crate::state::LostReason;

/// A barrier that a number of members enter together and leave together, round after round.
///
/// [`enter`](DoubleBarrier::enter) waits until all are there, [`BarrierGuard::leave`] until all have left. Members are
/// ephemeral children of the znode at its path, and a child `ready` marks that a round has begun: as in Curator's
/// `DistributedDoubleBarrier`, with whose members it works. A member that comes during a round, even as others leave,
/// waits for the next one.
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
/// As in Curator, every child except `ready` counts as a member, whoever created it and of whatever kind: a persistent
/// one is a member of every round, and one that nobody deletes keeps the others from leaving. Store nothing else there.
///
/// A member whose session ends counts as gone. Before the round it is as if it had not come, and during the round the
/// others do not wait for it to leave. Watch [`Client::ended`] to notice that it happened to you.
#[derive(Debug, Clone)]
pub struct DoubleBarrier {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) members: usize,
    pub(super) acl: Vec<Acl>,
}

/// A member inside a [`DoubleBarrier`]; from [`DoubleBarrier::enter`]. Dropping it leaves without waiting for the others: the
/// delete of its znode is sent before the drop returns.
#[must_use = "the member leaves when this is dropped"]
pub struct BarrierGuard {
    node: String,
    path: String,
    /// If it is dropped unused, the member's task leaves without waiting.
    leave: Option<oneshot::Sender<oneshot::Sender<Result<(), BarrierError>>>>,
    task: SharedTask,
}

impl DoubleBarrier {
    /// The barrier at `path` for `members` members, at least one. All of them must agree on the number. Sends no request.
    pub fn new(client: &Client, path: impl Into<String>, members: usize) -> Self {
        Self { client: client.clone(), path: path.into(), members: members.max(1), acl: Acl::open() }
    }

    /// The ACL of all znodes that are created. It must grant every member all rights except ADMIN. Default: open to
    /// everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    pub(super) fn retries(&self) -> RetryPolicy<'_, BarrierError> {
        RetryPolicy::limited(&self.client, &self.path)
    }

    /// Enters: waits until all members are there at the same time.
    ///
    /// # Errors
    /// The documentation of each [`BarrierError`] says what to do. Nothing is left behind.
    /// # Ordering and cancel safety
    /// At the transaction that begins the round all members exist, this one among them. Dropping the future at any time
    /// removes the member: no znode and no watch is left. So you can add a timeout.
    pub async fn enter(&self) -> Result<BarrierGuard, BarrierError> {
        let (sender, guard) = oneshot::channel();
        // A task of its own, so that everything is completed or undone even if this future is dropped.
        let member = Member::new(self.clone());
        let task = SharedTask::spawn(self.client.runtime(), |task| run(member, sender, task));
        task.output(guard).await.unwrap_or_else(|_| Err(task_gone(&self.path)))
    }
}

impl BarrierGuard {
    /// The path of this member's znode.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Leaves, and waits until all members of this round have left or are gone.
    ///
    /// # Errors
    /// [`BarrierError::SessionOver`], [`BarrierError::NoAuth`], [`BarrierError::Client`]. This member has left nevertheless,
    /// or is removed with its session.
    /// # Ordering and cancel safety
    /// It begins when this is called. Dropping the future leaves without waiting for the others.
    pub fn leave(self) -> impl Future<Output = Result<(), BarrierError>> + Send + 'static + use<> {
        let mut guard = self;
        let (sender, left) = oneshot::channel();
        // If the member's task is gone, its runtime was shut down, and the session with it.
        let _ = guard.leave.take().map(|leave| leave.send(sender));
        let (path, left) = (guard.path.clone(), guard.task.clone().output(left));
        async move { left.await.unwrap_or_else(|_| Err(task_gone(&path))) }
    }
}

impl Drop for BarrierGuard {
    fn drop(&mut self) {
        drop(self.leave.take());
        self.task.advance();
    }
}

impl fmt::Debug for BarrierGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierGuard").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A task that ended without an outcome was shut down with its runtime, and so was the session.
fn task_gone(path: &str) -> BarrierError {
    BarrierError::SessionOver { path: path.to_owned(), reason: LostReason::SessionClosed }
}

/// The task of a member from its first request to its last. Cleans up if a future or the guard is dropped.
async fn run(
    mut member: Member,
    mut guard: oneshot::Sender<Result<BarrierGuard, BarrierError>>,
    task: SharedTask,
) {
    let entered = tokio::select! {
        biased;
        () = guard.closed() => None,
        entered = member.enter() => Some(entered),
    };
    match entered {
        None => member.withdraw().await,
        Some(Err(error)) => {
            member.withdraw().await;
            let _ = guard.send(Err(error));
        }
        Some(Ok(())) => {
            let (leave, leaving) = oneshot::channel();
            let (node, path) = (member.node(), member.barrier.path.clone());
            // If nobody receives the guard, it is dropped here and the member leaves below.
            let _ = guard.send(Ok(BarrierGuard { node, path, leave: Some(leave), task }));
            let Ok(mut sender) = leaving.await else { return member.withdraw().await };
            let left = tokio::select! {
                biased;
                () = sender.closed() => None,
                left = member.leave() => Some(left),
            };
            if !matches!(left, Some(Ok(()))) {
                member.withdraw().await;
            }
            if let Some(left) = left {
                let _ = sender.send(left);
            }
        }
    }
}
