//! The options of a partition.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use zoolet_client::internal::SessionsExt as _;
use zoolet_client::{Acl, Sessions};

use super::share::{PartitionError, PartitionProgress};
use super::worker::PartitionWorker;
use super::{PartitionItem, Partitioner};
use crate::path::child;

/// A member that has not joined yet, from [`Partitioner::builder`].
#[derive(Debug)]
#[must_use = "a member joins by `.start()`"]
pub struct PartitionerBuilder {
    sessions: Sessions,
    config: PartitionConfig,
}

/// What does not change while the member is there.
#[derive(Debug)]
pub(super) struct PartitionConfig {
    pub(super) dir: String,
    pub(super) member: String,
    pub(super) items: BTreeSet<Arc<str>>,
    pub(super) acl: Vec<Acl>,
}

impl PartitionConfig {
    pub(super) fn members_dir(&self) -> String {
        child(&self.dir, "members")
    }

    pub(super) fn member_path(&self) -> String {
        child(&self.members_dir(), &self.member)
    }

    pub(super) fn lock_dir(&self, item: &str) -> String {
        child(&child(&self.dir, "locks"), item)
    }
}

impl PartitionerBuilder {
    pub(super) fn new(sessions: &Sessions, dir: String, member: String) -> Self {
        let config = PartitionConfig { dir, member, items: BTreeSet::new(), acl: Acl::open() };
        Self { sessions: sessions.clone(), config }
    }

    /// The items, by names that are valid as names of znodes. Default: none.
    pub fn items<I: Into<Arc<str>>>(mut self, items: impl IntoIterator<Item = I>) -> Self {
        self.config.items = items.into_iter().map(Into::into).collect();
        self
    }

    /// The ACL of all znodes. It must grant every member READ, CREATE and DELETE. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.config.acl = acl;
        self
    }

    /// Joins the group, in the background, and runs `work` for each item that this member holds, in a task on the runtime of
    /// the sessions. It is dropped when the item belongs to another member or its lock is lost. If it ends before, the member
    /// keeps the item.
    ///
    /// # Errors
    /// [`PartitionError::InvalidDir`], [`PartitionError::InvalidName`].
    pub fn start<F>(
        self,
        work: impl Fn(PartitionItem) -> F + Send + Sync + 'static,
    ) -> Result<Partitioner, PartitionError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { sessions, config } = self;
        sessions.check_path("partition", &config.dir).map_err(PartitionError::InvalidDir)?;
        for name in config.items.iter().map(|item| &**item).chain([config.member.as_str()]) {
            let path = child(&config.dir, name);
            if name.contains('/') || sessions.check_path("partition", &path).is_err() {
                return Err(PartitionError::InvalidName(name.to_owned()));
            }
        }
        let (publish, progress) = watch::channel(PartitionProgress::default());
        let (leave, leaving) = watch::channel(());
        let runtime = sessions.runtime().clone();
        runtime.spawn(PartitionWorker::new(sessions, config, work, publish).run(leaving));
        Ok(Partitioner { progress, seen: None, leave })
    }
}
