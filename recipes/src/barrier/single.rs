//! [`Barrier`]: closed by a znode, open without it.

use zoolet_client::{Acl, Client, Error, ErrorCode, EventType, parent_of};

use super::error::BarrierError;
use crate::directory::create_all;
use crate::patience::Patience;

/// A barrier that somebody raises and lowers, and that others wait at while it is raised. As Curator's
/// `DistributedBarrier`: it is raised as long as there is a znode at its path, whoever created it.
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
/// The znode is persistent: a barrier stays raised when the session of whoever raised it is over.
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    path: String,
    acl: Vec<Acl>,
}

impl Barrier {
    /// The barrier at `path`. Asks no server.
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        Self { client: client.clone(), path: path.into(), acl: Acl::open() }
    }

    /// The ACL of the znode, and of what is created above it. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Raises the barrier. When it returns, it is raised, by this call or by another before.
    ///
    /// # Errors
    /// [`BarrierError::SessionOver`], [`BarrierError::NoAuth`], [`BarrierError::Client`]. It may be raised then: the outcome is
    /// unknown after a lost connection.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall the request.
    pub async fn raise(&self) -> Result<(), BarrierError> {
        let mut patience = Patience::new(&self.client);
        loop {
            let error = match self.client.create(&self.path, "").acl(self.acl.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match error.code() {
                Some(ErrorCode::NodeExists) => return Ok(()),
                Some(ErrorCode::NoNode) => {
                    let above = create_all(&self.client, parent_of(&self.path), &self.acl, true).await;
                    above.or_else(|error| self.passing(error))?;
                }
                _ => self.passing(error.clone())?,
            }
            patience.outlasts(error).await.map_err(|error| self.error(error))?;
        }
    }

    /// Lowers the barrier: everybody who waits at it goes on. When it returns, the barrier that was raised is lowered, by this
    /// call or by another; if a reply was lost, one that was raised since is left alone.
    ///
    /// # Errors
    /// As of [`raise`](Barrier::raise). It may be lowered then.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall the request.
    pub async fn lower(&self) -> Result<(), BarrierError> {
        let mut patience = Patience::new(&self.client);
        let mut raised = None;
        loop {
            // Behind a sync, as what was sent before may not be seen yet by another server.
            let synced = self.client.sync(&self.path).send();
            let stat = self.client.exists(&self.path).send();
            let stat = match (synced.await, stat.await) {
                (Ok(()), Ok(stat)) => stat,
                (Err(error), _) | (_, Err(error)) => {
                    self.passing(error.clone())?;
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                    continue;
                }
            };
            match stat {
                Some(stat) if *raised.get_or_insert(stat.czxid) == stat.czxid => {}
                // Gone, and perhaps another in its place.
                _ => return Ok(()),
            }
            match self.client.delete(&self.path).await {
                Ok(()) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => {
                    self.passing(error.clone())?;
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
            }
        }
    }

    /// Waits until the barrier is not raised, or was not for a moment: a lowering between two looks is not missed. Returns at
    /// once if it is not raised when this is called.
    ///
    /// # Errors
    /// [`BarrierError::SessionOver`] when the session ends first, [`BarrierError::NoAuth`], [`BarrierError::Client`].
    /// # Ordering and cancel safety
    /// What other clients had done when this was called is known: whoever was told that the barrier is raised waits.
    /// Dropping the future takes the watch back; so it may be given any timeout.
    pub async fn wait(&self) -> Result<(), BarrierError> {
        let mut patience = Patience::new(&self.client);
        let mut raised = None;
        loop {
            let synced = match raised {
                None => self.client.sync(&self.path).send().await,
                // The event is from this server, and what is read behind it is no older.
                Some(_) => Ok(()),
            };
            let read = match synced {
                // getData, not exists: where there is no znode no watch is left.
                Ok(()) => self.client.get_data(&self.path).watch().await,
                Err(error) => Err(error),
            };
            match read {
                Ok((_, stat, watch)) => {
                    if *raised.get_or_insert(stat.czxid) != stat.czxid {
                        return Ok(());
                    }
                    match watch.changed().await {
                        Ok(event) if event.kind == EventType::NodeDeleted => return Ok(()),
                        Ok(_) | Err(Error::WatchRemoved(_)) => patience.renew(),
                        Err(error) => return Err(self.error(error)),
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => {
                    self.passing(error.clone())?;
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
            }
        }
    }

    /// Ok if the same may succeed later.
    fn passing(&self, error: Error) -> Result<(), BarrierError> {
        if error.is_retryable() { Ok(()) } else { Err(self.error(error)) }
    }

    fn error(&self, error: Error) -> BarrierError {
        BarrierError::of(&self.path, error)
    }
}
