//! The task of a member: follows the members, and holds the items of its share.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use zoolet_client::internal::SessionsExt as _;
use zoolet_client::{Client, SessionId, Sessions};

use super::PartitionItem;
use super::assign::MemberWeights;
use super::builder::PartitionConfig;
use super::share::{PartitionError, PartitionProgress, PartitionShare};
use crate::cache::{Cache, Snapshot};
use crate::error::LockError;
use crate::guard::Guard;
use crate::keep_node::{KeepNode, KeepState};
use crate::lock::Lock;
use crate::over_sessions::hold_over_sessions;
use crate::state::FencingToken;

pub(super) struct PartitionWorker<W> {
    sessions: Sessions,
    config: PartitionConfig,
    work: Arc<W>,
    publish: watch::Sender<PartitionProgress>,
    /// The tasks of the items of this member's share, and those that are ending.
    tasks: JoinSet<(Arc<str>, LockError)>,
    /// Those of the share.
    share: BTreeMap<Arc<str>, AbortHandle>,
}

impl<W, F> PartitionWorker<W>
where
    W: Fn(PartitionItem) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    pub(super) fn new(
        sessions: Sessions,
        config: PartitionConfig,
        work: W,
        publish: watch::Sender<PartitionProgress>,
    ) -> Self {
        let work = Arc::new(work);
        Self { sessions, config, work, publish, tasks: JoinSet::new(), share: BTreeMap::new() }
    }

    /// Is a member until the handle is gone or another attempt at something would not help.
    pub(super) async fn run(mut self, mut leaving: watch::Receiver<()>) {
        let member =
            KeepNode::builder(&self.sessions, self.config.member_path()).acl(self.config.acl.clone());
        let error = match member.start() {
            Ok(member) => {
                let error = tokio::select! {
                    biased;
                    // It only fails: nothing is sent.
                    _ = leaving.changed() => PartitionError::Left,
                    error = self.follow(&member) => error,
                };
                // First the work and its locks, so that the next owners need not wait.
                self.tasks.shutdown().await;
                if let Err(error) = member.close().await {
                    tracing::debug!(%error, "the znode of a member of a partition remains until its session ends");
                }
                error
            }
            Err(error) => PartitionError::Member(error),
        };
        self.publish.send_modify(|progress| progress.ended = Some(error));
    }

    /// Follows the members, and holds what belongs to this one.
    async fn follow(&mut self, member: &KeepNode) -> PartitionError {
        let members = Cache::builder(&self.sessions, self.config.members_dir()).max_depth(1).without_data();
        let members = match members.open().await {
            Ok(members) => members,
            Err(error) => return PartitionError::Members(error),
        };
        let (mut changes, mut states) = (members.changes(), member.states());
        loop {
            tokio::select! {
                change = changes.next() => if change.is_none() {
                    let error = members.fresh().await.err();
                    return error.map_or(PartitionError::Gone, PartitionError::Members);
                },
                state = states.next() => match state {
                    Some(KeepState::Ended(error)) => return PartitionError::Member(error),
                    Some(_) => {}
                    None => return PartitionError::Gone,
                },
                Some(ended) = self.tasks.join_next() => if let Some(error) = self.failure(ended) {
                    return error;
                },
            }
            self.assign(&members.snapshot());
        }
    }

    /// Begins with the items that belong to this member now, and gives up those that do not any more.
    fn assign(&mut self, snapshot: &Snapshot<()>) {
        let dir = self.config.members_dir();
        // What is not ephemeral is no member, and would keep its share for ever.
        let members = snapshot.children(&dir).filter(|entry| entry.stat().ephemeral_owner != SessionId(0));
        let members = Arc::new(MemberWeights::new(members.map(|entry| entry.name().to_owned())));
        if self.publish.borrow().share.members == members {
            return;
        }
        let is_own = |item: &&Arc<str>| members.owner(item) == Some(&self.config.member);
        let own: BTreeSet<_> = self.config.items.iter().filter(is_own).cloned().collect();
        self.share.retain(|item, task| {
            let keeps = own.contains(item);
            if !keeps {
                task.abort();
            }
            keeps
        });
        for item in own {
            if !self.share.contains_key(&item) {
                let task = self.hold(Arc::clone(&item));
                self.share.insert(item, task);
            }
        }
        change_share(&self.publish, |share| share.members = members);
    }

    /// Holds an item, in a task that is aborted to give it up.
    fn hold(&mut self, item: Arc<str>) -> AbortHandle {
        let (sessions, publish) = (self.sessions.clone(), self.publish.clone());
        let (dir, acl) = (self.config.lock_dir(&item), self.config.acl.clone());
        let (member, work) = (self.config.member.clone(), Arc::clone(&self.work));
        let task = async move {
            let acquire = |zk: &Client| {
                let lock = Lock::builder(zk, &dir).acl(acl.clone()).build();
                lock.acquire().data(member.clone())
            };
            let named = Arc::clone(&item);
            let work_on = |guard: Guard| {
                let held = HeldItem::new(&publish, Arc::clone(&named), guard.token());
                let working = work(PartitionItem { name: Arc::clone(&named), guard });
                async move {
                    // Dropped last.
                    let _held = held;
                    working.await;
                    // The item stays ours, whether there is work on it or not.
                    pending().await
                }
            };
            let ended = hold_over_sessions(&sessions, acquire, work_on).await;
            let Err(error) = ended.map(|never: Infallible| match never {});
            (item, error)
        };
        self.tasks.spawn_on(task, self.sessions.runtime())
    }

    /// Why the task of an item has ended, unless it was aborted.
    fn failure(&self, ended: Result<(Arc<str>, LockError), JoinError>) -> Option<PartitionError> {
        match ended {
            Ok((item, cause)) => Some(PartitionError::Lock { item, cause }),
            Err(error) if error.is_panic() => {
                let of_it = |task: &AbortHandle| task.id() == error.id();
                let item = self.share.iter().find(|(_, task)| of_it(task)).map(|(item, _)| Arc::clone(item));
                // One that was given up has panicked while it was dropped.
                item.map(|item| PartitionError::WorkPanicked { item })
            }
            Err(_) => None,
        }
    }
}

/// An item that is published as held while the work on it runs.
struct HeldItem {
    publish: watch::Sender<PartitionProgress>,
    item: Arc<str>,
}

impl HeldItem {
    fn new(publish: &watch::Sender<PartitionProgress>, item: Arc<str>, token: FencingToken) -> Self {
        change_share(publish, |share| _ = share.items.insert(Arc::clone(&item), token));
        Self { publish: publish.clone(), item }
    }
}

impl Drop for HeldItem {
    fn drop(&mut self) {
        change_share(&self.publish, |share| _ = share.items.remove(&self.item));
    }
}

/// Publishes a share that differs from the present one.
fn change_share(publish: &watch::Sender<PartitionProgress>, change: impl FnOnce(&mut PartitionShare)) {
    publish.send_modify(|progress| change(Arc::make_mut(&mut progress.share)));
}
