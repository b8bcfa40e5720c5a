//! A writer becomes a reader and a reader becomes a writer, without a release in between.

use std::sync::Arc;

use zoolet_client::{Created, ErrorCode};

use super::names::{self, KAZOO_LOCK, NameStyle, READ, WRITE};
use super::order::LockMode;
use super::queue_entry::{QueueEntry, QueuePlan};
use crate::error::LockError;
use crate::path::child;
use crate::state::Grant;
use crate::warning::is_low;

impl QueueEntry {
    /// Replaces this writer by a reader with the same number.
    pub(super) async fn downgrade(&mut self) -> Result<Grant, LockError> {
        let config = Arc::clone(&self.config);
        let node = &mut self.nodes[0];
        let dir = node.dir.clone();
        let evicted = || LockError::NodeDeleted { dir: dir.clone() };
        let Some(reader) = names::reader_of(&node.prefix, &self.guid) else {
            return Err(LockError::NotAlone { dir });
        };
        let writer = node.created.clone().ok_or_else(evicted)?;
        let number = writer.path.strip_prefix(&child(&dir, &node.prefix)).unwrap_or_default();
        if names::parse(&writer.path).is_none_or(|parsed| is_low(parsed.sequence)) {
            // Near the end of the counter transactions give the order, and that of the reader would be a late one.
            return Err(LockError::CounterLow { dir });
        }
        let path = format!("{}{number}", child(&dir, &reader));
        // From here on the znode may have either name.
        self.uncertain = true;
        let multi = || {
            let create = config.client.create(&path, self.data.clone()).ephemeral().acl(config.acl.clone());
            config.client.multi().add(create).delete(&writer.path)
        };
        match config.retries().ask(multi).await {
            Ok(_) => {}
            // By an earlier attempt whose reply was lost: nobody else has this name.
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(evicted()),
            Err(error) => return Err(config.error(error)),
        }
        // The token is still the transaction of the writer.
        node.created = Some(Created::new(path, writer.stat));
        node.prefix = reader;
        self.mode = LockMode::Shared;
        self.uncertain = false;
        self.grant()
    }

    /// Replaces this reader by a writer, if nobody else is in the queue.
    pub(super) async fn upgrade(&mut self) -> Result<Grant, LockError> {
        let config = Arc::clone(&self.config);
        let node = &self.nodes[0];
        let writer: NameStyle = if node.prefix == READ.prefix(&self.guid) { WRITE } else { KAZOO_LOCK };
        let dirs = vec![(node.dir.clone(), writer)];
        let reader = node.created.as_ref().map(|created| created.path.clone());
        let mut writer = QueueEntry::new(config, QueuePlan::exclusive(dirs), self.data.clone(), Some(0));
        writer.companion = reader.as_deref().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
        // Stored where `leave` finds it, even if this future is dropped.
        let writer = self.replacement.insert(Box::new(writer));
        let entered = async {
            writer.enter().await?;
            writer.take_over(reader.as_deref()).await
        };
        if let Err(error) = entered.await {
            writer.leave_queue().await?;
            self.replacement = None;
            return Err(match error {
                LockError::QueueFull { dir, .. } => LockError::NotAlone { dir },
                error => error,
            });
        }
        if let Some(writer) = self.replacement.take() {
            *self = *writer;
            self.companion = None;
        }
        self.grant()
    }

    /// Deletes the reader that this writer replaces, unless the writer itself was deleted.
    async fn take_over(&self, reader: Option<&str>) -> Result<(), LockError> {
        let writer = self.grant()?.nodes.remove(0);
        let (config, Some(reader)) = (&self.config, reader) else { return Ok(()) };
        match config.retries().ask(|| config.client.multi().check(&writer, None).delete(reader)).await {
            Err(error) if error.code() != Some(ErrorCode::NoNode) => Err(config.error(error)),
            Err(error) if error.failed_operation() == Some(0) => Err(self.evicted()),
            // Or deleted by an earlier attempt or by somebody else. The writer was in the queue, so nobody came between.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
