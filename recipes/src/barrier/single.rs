//! [`Barrier`]: raised while there is a znode at its path.

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client, ErrorCode, EventType};

use super::error::BarrierError;
use crate::requests::{if_exists, none_if};
use crate::retry::RetryPolicy;

/// A barrier that anybody may raise and lower, and that others wait at while it is raised. As Curator's
/// `DistributedBarrier`, it is raised as long as there is a znode at its path, whoever created it.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::BarrierError> {
/// let maintenance = zoolet_recipes::Barrier::new(&zk, "/barriers/maintenance");
/// maintenance.raise().await?;
/// // Elsewhere, by another client: waits until it is lowered.
/// let waiting = maintenance.wait();
/// # drop(waiting);
/// maintenance.lower().await?;
/// # Ok(()) }
/// ```
///
/// The znode is persistent: a barrier stays raised after the session that raised it is over.
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    path: String,
    acl: Vec<Acl>,
}

impl Barrier {
    /// The barrier at `path`. Sends no request.
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        Self { client: client.clone(), path: path.into(), acl: Acl::open() }
    }

    /// The ACL of the znode, and of missing parents. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Raises the barrier. It may already be raised.
    ///
    /// # Errors
    /// [`BarrierError::SessionOver`], [`BarrierError::NoAuth`], [`BarrierError::Client`]. The barrier may be raised then,
    /// because the outcome is unknown after a lost connection.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall the request.
    pub async fn raise(&self) -> Result<(), BarrierError> {
        let create = || self.client.create(&self.path, "").acl(self.acl.clone()).parents().containers();
        let mut retries = self.retries();
        let created = retries.ask(create).await;
        none_if(&[ErrorCode::NodeExists], created).map(drop).map_err(|error| retries.error(error))
    }

    /// Lowers the barrier: all waiters continue. It may already be lowered. If a reply was lost and the barrier was raised
    /// again meanwhile, that one is left alone.
    ///
    /// # Errors
    /// The same as for [`raise`](Barrier::raise). The barrier may be lowered then.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall the request.
    pub async fn lower(&self) -> Result<(), BarrierError> {
        // Requests that wait for room overtake each other.
        let (ordered, mut retries) = (self.client.unlimited(), self.retries());
        let mut raised = None;
        loop {
            // After a sync, because this server may not have seen an earlier request yet.
            let error = match tokio::join!(ordered.sync(&self.path), ordered.exists(&self.path)) {
                (Ok(()), Ok(Some(stat))) if *raised.get_or_insert(stat.czxid) == stat.czxid => {
                    match if_exists(self.client.delete(&self.path).await) {
                        Ok(_) => return Ok(()),
                        Err(error) => error,
                    }
                }
                // Lowered, and perhaps raised again.
                (Ok(()), Ok(_)) => return Ok(()),
                (Err(error), _) | (_, Err(error)) => error,
            };
            retries.retry(error).await?;
        }
    }

    /// Waits until the barrier is not raised, or was not for a moment: it misses no lowering between two looks. Returns at
    /// once if it is not raised when this is called.
    ///
    /// # Errors
    /// [`BarrierError::SessionOver`] when the session ends first, [`BarrierError::NoAuth`], [`BarrierError::Client`].
    /// # Ordering and cancel safety
    /// It sees everything that other clients had done before this call: if you learned from another process that the
    /// barrier is raised, you wait. Dropping the future removes the watch, so you can add a timeout.
    pub async fn wait(&self) -> Result<(), BarrierError> {
        let mut retries = self.retries();
        let mut raised = None;
        loop {
            let read = retries.ask_if_exists(|| async {
                // Later the event came from this server, where no read that follows is older.
                if raised.is_none() {
                    self.client.sync(&self.path).await?;
                }
                // getData and not exists, which would leave a watch if there is no znode.
                self.client.get_data(&self.path).watch().await
            });
            let Some((_, stat, watch)) = read.await? else { return Ok(()) };
            if *raised.get_or_insert(stat.czxid) != stat.czxid
                || retries.changed(watch).await? == Some(EventType::NodeDeleted)
            {
                return Ok(());
            }
            retries.reset();
        }
    }

    fn retries(&self) -> RetryPolicy<'_, BarrierError> {
        RetryPolicy::limited(&self.client, &self.path)
    }
}
