//! [`EntryNode`]: a znode of a contender, and the creates of all of them.

use bytes::Bytes;
use zoolet_client::{Create, Created, Error, MultiOutcome, ReplyFuture};

use crate::config::LockConfig;
use crate::error::LockError;
use crate::path::child;

/// A znode of a contender. There are several if it queues in several directories or under two names.
#[derive(Debug)]
pub(super) struct EntryNode {
    pub(super) dir: String,
    pub(super) prefix: String,
    /// The znode, once a reply has named it.
    pub(super) created: Option<Created>,
}

impl EntryNode {
    /// Takes the child `name` for our znode. If no reply has named it, reads its `Stat`, which has the token.
    pub(super) async fn adopt(&mut self, config: &LockConfig, name: &str) -> Result<(), LockError> {
        if self.created.as_ref().is_some_and(|created| created.path.ends_with(name)) {
            return Ok(());
        }
        let path = child(&self.dir, name);
        let stat = config.stat(&path).await?;
        let stat = stat.ok_or_else(|| LockError::NodeDeleted { dir: self.dir.clone() })?;
        self.created = Some(Created::new(path, stat));
        Ok(())
    }
}

/// The creates of a contender's znodes in flight: a single one, or several as one transaction.
pub(super) enum PendingCreate {
    One(ReplyFuture<Created>),
    Several(ReplyFuture<Vec<MultiOutcome>>),
}

impl PendingCreate {
    pub(super) fn send(config: &LockConfig, nodes: &[EntryNode], data: &Bytes) -> Self {
        let create = |node: &EntryNode| -> Create<'_> {
            let path = child(&node.dir, &node.prefix);
            config.client.create(path, data.clone()).ephemeral().sequential().acl(config.acl.clone())
        };
        match nodes {
            [node] => Self::One(create(node).into_future()),
            _ => Self::Several(
                nodes.iter().fold(config.client.multi(), |multi, node| multi.add(create(node))).into_future(),
            ),
        }
    }

    /// What was created; `None` for a znode without `Stat`, which servers before 3.9 do not send in a multi.
    pub(super) async fn created(self) -> Result<Vec<Option<Created>>, Error> {
        Ok(match self {
            Self::One(reply) => vec![Some(reply.await?)],
            Self::Several(reply) => {
                let created = |outcome| match outcome {
                    MultiOutcome::Created { path, stat: Some(stat) } => Some(Created::new(path, stat)),
                    _ => None,
                };
                reply.await?.into_iter().map(created).collect()
            }
        })
    }
}
