//! The options of a kept znode.

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_client::internal::SessionsExt as _;
use zoolet_client::{Acl, Sessions};

use super::KeepNode;
use super::state::{KeepError, Progress};
use super::task::{Desired, Keeper};
use crate::config::ParentMode;

/// A znode that is not kept yet, from [`KeepNode::builder`].
#[derive(Debug)]
#[must_use = "a znode is kept by `.start()`"]
pub struct KeepNodeBuilder {
    sessions: Sessions,
    data: Bytes,
    config: KeepConfig,
}

/// What does not change while the znode is kept.
#[derive(Debug)]
pub(super) struct KeepConfig {
    pub(super) path: String,
    pub(super) acl: Vec<Acl>,
    pub(super) parent: ParentMode,
    pub(super) takeover: bool,
}

impl KeepNodeBuilder {
    pub(super) fn new(sessions: &Sessions, path: String) -> Self {
        let config = KeepConfig { path, acl: Acl::open(), parent: ParentMode::default(), takeover: false };
        Self { sessions: sessions.clone(), data: Bytes::new(), config }
    }

    /// The data of the znode.
    ///
    /// Default: none.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// The ACL of the znode and of the parents that are created. It should let our own identity read and write the znode.
    ///
    /// Default: [`Acl::open`].
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.config.acl = acl;
        self
    }

    /// How a missing parent is handled.
    ///
    /// Default: it is created as a container, as by Curator.
    pub fn parent(mut self, parent: ParentMode) -> Self {
        self.config.parent = parent;
        self
    }

    /// Replaces a [foreign](super::KeepState::Foreign) znode, in one transaction. Two that take over from each other do so for
    /// ever, more and more slowly.
    ///
    /// Default: no.
    pub fn takeover(mut self) -> Self {
        self.config.takeover = true;
        self
    }

    /// Begins to keep the znode, in a task on the runtime of the sessions.
    ///
    /// # Errors
    /// [`KeepError::InvalidPath`].
    pub fn start(self) -> Result<KeepNode, KeepError> {
        let Self { sessions, data, config } = self;
        sessions.check_path("keep", &config.path).map_err(KeepError::InvalidPath)?;
        let path = config.path.clone();
        let (desired, receiver) = watch::channel(Desired { data, number: 0 });
        let (publish, progress) = watch::channel(Progress::default());
        let runtime = sessions.runtime().clone();
        runtime.spawn(Keeper { sessions, config, desired: receiver, publish }.run());
        Ok(KeepNode { path, desired, progress })
    }
}
