//! [`KeepNode`]: an ephemeral znode that is there as long as its handle, over all sessions.

mod builder;
mod connection;
mod state;
mod task;

use std::future::Future;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_client::{Sessions, Zxid};

pub use builder::KeepNodeBuilder;
use state::Progress;
pub use state::{KeepError, KeepState, KeepStates};
use task::Desired;

/// Keeps an ephemeral znode: creates it, and creates it again when it was deleted or its session has expired, until this is
/// [closed](KeepNode::close) or dropped. Service registration and membership are built on it.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::KeepNode;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let worker = KeepNode::builder(&sessions, "/workers/7").data("idle").start()?;
/// let czxid = worker.present().await?;
/// worker.update("busy").await?;
/// worker.close().await?;
/// # Ok(()) }
/// ```
///
/// # Whose znode it is
/// The server knows the owner of an ephemeral: its session. A znode at the path that belongs to another session, or to none, is
/// [foreign](KeepState::Foreign): it is watched, never changed, and never deleted. When it goes, ours is created. So it is with
/// the znode of our own earlier session, which lives until the server expires that session. Only
/// [`takeover`](KeepNodeBuilder::takeover) replaces a foreign znode.
///
/// Two of these with one path in one session share the znode. That is a mistake: each sets its own data, more and more slowly.
///
/// # What is certain
/// - A lost connection does not make the znode flap: it stays, with its czxid, and is looked at on the next connection.
/// - A lost reply is not a special case: each write is followed by a read in the same flight, and only the read decides what to
///   do next. The owner in its Stat says whether the create was executed.
/// - An update is a setData, never a delete and a create.
/// - What a server refuses, such as a create without the right or without a parent, is the [state](KeepState::Pending), and
///   is tried again, with pauses that grow to 5 seconds.
///
/// # What it cannot know
/// ZooKeeper compares data versions, and not czxids. If somebody deletes our znode, and another session creates one at the path
/// while our delete or update is in flight, and both have the same version, it meets the wrong znode. A takeover gives its
/// znode another version than the one that it replaces had, so this needs a third party.
#[derive(Debug)]
#[must_use = "the znode is deleted when this is dropped"]
pub struct KeepNode {
    path: String,
    /// Closed when this is dropped: the znode is to go.
    desired: watch::Sender<Desired>,
    progress: watch::Receiver<Progress>,
}

impl KeepNode {
    /// Begins to configure an ephemeral znode at `path`.
    pub fn builder(sessions: &Sessions, path: impl Into<String>) -> KeepNodeBuilder {
        KeepNodeBuilder::new(sessions, path.into())
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The latest state. While there is no connection it remains as it was last seen.
    pub fn state(&self) -> KeepState {
        self.progress.borrow().state.clone()
    }

    /// The state, and its changes.
    pub fn states(&self) -> KeepStates {
        KeepStates { progress: self.progress.clone(), seen: 0 }
    }

    /// Waits until the znode is there, and returns the transaction that has created it.
    ///
    /// # Errors
    /// Why it will never be: [`KeepError::SessionsEnded`], [`KeepError::Gone`]. Everything else is a [state](KeepNode::state),
    /// and may pass.
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn present(&self) -> Result<Zxid, KeepError> {
        let seen = decided(self.progress.clone(), |progress| match &progress.state {
            KeepState::Present { czxid, .. } => Some(Ok(*czxid)),
            KeepState::Ended(error) => Some(Err(error.clone())),
            KeepState::Pending(_) | KeepState::Foreign { .. } => None,
        });
        seen.await
    }

    /// Gives the znode other data. The returned future waits until it has that, or what a later update has set.
    ///
    /// If the znode was changed by somebody else, this replaces that.
    ///
    /// # Errors
    /// As [`present`](KeepNode::present).
    /// # Ordering and cancel safety
    /// The update takes effect with the call, if need be in the next session. Dropping the future does not cancel it.
    pub fn update<D: Into<Bytes>>(&self, data: D) -> impl Future<Output = Result<(), KeepError>> + use<D> {
        let mut number = 0;
        self.desired.send_modify(|desired| {
            desired.data = data.into();
            desired.number += 1;
            number = desired.number;
        });
        decided(self.progress.clone(), move |progress| match &progress.state {
            _ if progress.written >= Some(number) => Some(Ok(())),
            KeepState::Ended(error) => Some(Err(error.clone())),
            _ => None,
        })
    }

    /// Deletes the znode if it is ours, and keeps it no longer. Dropping this does the same in the background.
    ///
    /// # Errors
    /// [`KeepError::Refused`] if the server refuses the delete: the znode then remains until its session ends. Without a
    /// connection this waits for one, or for the end of the session, with which the znode goes.
    /// # Ordering and cancel safety
    /// Begins with the call. Dropping the future does not cancel it.
    pub fn close(self) -> impl Future<Output = Result<(), KeepError>> + use<> {
        let Self { desired, progress, .. } = self;
        drop(desired);
        decided(progress, |progress| match &progress.state {
            KeepState::Ended(KeepError::Closed) => Some(Ok(())),
            KeepState::Ended(error) => Some(Err(error.clone())),
            _ => None,
        })
    }
}

/// Waits until what the task publishes decides.
async fn decided<T>(
    mut progress: watch::Receiver<Progress>,
    decide: impl Fn(&Progress) -> Option<Result<T, KeepError>>,
) -> Result<T, KeepError> {
    loop {
        if let Some(decision) = decide(&progress.borrow_and_update()) {
            return decision;
        }
        progress.changed().await.map_err(|_| KeepError::Gone)?;
    }
}
