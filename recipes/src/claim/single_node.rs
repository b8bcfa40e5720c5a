//! The lock that is a single znode: the contender that creates it holds the lock, and its deletion wakes all waiters.
//!
//! The next holder uses the same name, so a znode with this name does not prove whose it is. A second znode beside it,
//! `<path>.epoch`, is written in the transaction that creates the first: its data is the guid of the holder, its version
//! counts the holders. By a check of that version, a late release never deletes the lock of another, and a fenced write
//! of a former holder is rejected.
//!
//! A program that does not know the epoch does not count in it. To keep a late release from deleting its lock, the znode is
//! also written in the transaction that creates it, so that its version is never that of a fresh znode. Fenced
//! writes cannot check that version, because a revocation writes to the znode too.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_client::internal::{ClientExt as _, MissingParents};
use zoolet_client::{ErrorCode, EventType, MultiOutcome, Stat, path};

use super::{Claim, WaitReport};
use crate::config::{ForeignPolicy, LockConfig};
use crate::contender::Contender;
use crate::error::LockError;
use crate::state::{FencingToken, Grant};

/// The version of the znode after it is created and written.
const WRITTEN: i32 = 1;

/// The delete of the znode, the second operation, was refused because the znode has another version.
const WRITTEN_SINCE: (Option<usize>, Option<ErrorCode>) = (Some(1), Some(ErrorCode::BadVersion));

/// One contender for a single znode.
pub(crate) struct SingleNodeClaim {
    config: Arc<LockConfig>,
    epoch: String,
    guid: String,
    data: Bytes,
    /// How many contenders may be in the way: 0 if it must not wait.
    limit: Option<usize>,
    /// The `Stat` of the epoch while the znode is ours.
    held: Option<Stat>,
    /// Whether the znode may be ours without our knowing.
    uncertain: bool,
}

impl SingleNodeClaim {
    pub(crate) fn new(config: Arc<LockConfig>, data: Bytes, limit: Option<usize>) -> Self {
        let (guid, epoch) = (config.generate_guid(), format!("{}.epoch", config.dir()));
        Self { config, epoch, guid, data, limit, held: None, uncertain: false }
    }

    /// Creates the znode; `None` if it exists.
    async fn create(&mut self) -> Result<Option<Grant>, LockError> {
        let config = Arc::clone(&self.config);
        let (client, path) = (&config.client, config.dir());
        let mut parents = config.missing_parents();
        loop {
            let created_parents = parents.send(path::parent(path), Bytes::new());
            parents.receive(created_parents).await;
            let create = client.create(path, Bytes::new()).ephemeral().acl(config.acl.clone());
            let was_uncertain = std::mem::replace(&mut self.uncertain, true);
            let multi = client.multi().add(create).set_data(&self.epoch, self.guid.clone());
            let error = match multi.set_data(path, self.data.clone()).commit().await {
                Ok(outcomes) => {
                    self.uncertain = was_uncertain;
                    // The second outcome is that of the epoch.
                    return match outcomes.get(1).and_then(MultiOutcome::stat) {
                        Some(epoch) => Ok(Some(self.holds(epoch))),
                        None => self.find().await,
                    };
                }
                Err(error) => error,
            };
            self.uncertain = was_uncertain || error.may_have_applied();
            match (error.code(), error.failed_operation()) {
                // It may be ours, if the reply to an earlier attempt was lost.
                (Some(ErrorCode::NodeExists), _) if self.uncertain => return self.find().await,
                (Some(ErrorCode::NodeExists), _) => return Ok(None),
                (Some(ErrorCode::NoNode), Some(1)) => self.create_epoch(&mut parents).await?,
                (Some(ErrorCode::NoNode | ErrorCode::NoChildrenForEphemerals), _) => {
                    config.retry_with_parents(&mut parents, error)?;
                }
                _ => config.retries().retry(error).await?,
            }
        }
    }

    async fn create_epoch(&self, parents: &mut MissingParents<'_>) -> Result<(), LockError> {
        let config = &self.config;
        let created = config.client.create(&self.epoch, Bytes::new()).acl(config.acl.clone()).await;
        let Err(error) = created else { return Ok(()) };
        match error.code() {
            Some(ErrorCode::NodeExists) => Ok(()),
            // The server removed the empty container above meanwhile.
            Some(ErrorCode::NoNode) => config.retry_with_parents(parents, error),
            _ => config.retries().retry(error).await,
        }
    }

    /// Finds out whether the znode is ours.
    async fn find(&mut self) -> Result<Option<Grant>, LockError> {
        // Requests that wait for room overtake each other.
        let (client, path) = (self.config.client.unlimited(), self.config.dir());
        let (epoch, stat) = loop {
            // In this order: if the epoch is ours, and the znode read after it is of the same transaction, then the
            // znode is still ours.
            match tokio::join!(client.get_data(&self.epoch), client.exists(path)) {
                (Ok((data, stat)), Ok(znode)) => break (Some((data, stat)), znode),
                (Err(error), _) if error.code() == Some(ErrorCode::NoNode) => break (None, None),
                (Err(error), _) | (_, Err(error)) => self.config.retries().retry(error).await?,
            }
        };
        self.uncertain = false;
        let (Some((guid, epoch)), Some(znode)) = (epoch, stat) else { return Ok(None) };
        let ours = guid == self.guid.as_bytes()
            && znode.ephemeral_owner == client.session_id()
            && znode.czxid == epoch.mzxid;
        Ok(ours.then(|| self.holds(&epoch)))
    }

    /// Notes that the znode is ours, with the `Stat` of the epoch.
    fn holds(&mut self, epoch: &Stat) -> Grant {
        self.held = Some(*epoch);
        Grant {
            nodes: self.config.dirs.clone(),
            token: FencingToken::new(epoch.mzxid),
            epoch: Some((self.epoch.clone(), epoch.version)),
        }
    }

    /// Waits until the znode of another contender is gone.
    async fn wait(&self, report: &mut WaitReport) -> Result<(), LockError> {
        let (config, path) = (&self.config, self.config.dir());
        while let Some((data, stat, watch)) = config.watch_data(path).await? {
            report.set_in_front(Some(Contender::new(path.to_owned(), data, &stat)));
            if stat.ephemeral_owner.0 == 0 && config.foreign == ForeignPolicy::Reject {
                let name = path::name(path).to_owned();
                return Err(LockError::Foreign { dir: path.to_owned(), name });
            }
            report.queued(1);
            if let None | Some(EventType::NodeDeleted) = config.retries().changed(watch).await? {
                break;
            }
        }
        Ok(())
    }
}

impl Claim for SingleNodeClaim {
    fn config(&self) -> &Arc<LockConfig> {
        &self.config
    }

    async fn win(&mut self, report: &mut WaitReport) -> Result<Grant, LockError> {
        self.config.warnings.check_session(&self.config.client);
        loop {
            if let Some(grant) = self.create().await? {
                return Ok(grant);
            }
            if self.limit == Some(0) {
                return Err(LockError::QueueFull { dir: self.config.label.clone(), len: 1 });
            }
            self.wait(report).await?;
        }
    }

    async fn leave(&mut self) -> Result<bool, LockError> {
        let config = Arc::clone(&self.config);
        let path = config.dir();
        if self.uncertain && self.held.is_none() {
            // Another server of an ensemble may not have seen the create yet.
            config.sync(path).await?;
            self.find().await?;
        }
        let Some(epoch) = self.held else { return Ok(false) };
        let (mut version, mut may_have_applied) = (WRITTEN, false);
        let deleted = loop {
            let multi = || {
                let delete = config.cleanup.delete(path).version(version);
                config.cleanup.multi().check(&self.epoch, epoch.version).add(delete)
            };
            match config.retries().ask_write(&mut may_have_applied, multi).await {
                Ok(_) => break true,
                Err(error) if (error.failed_operation(), error.code()) == WRITTEN_SINCE => {
                    // By a revocation or by the holder; unless it is the znode of a program that does not know epochs.
                    match config.stat(path).await? {
                        Some(stat) if stat.czxid == epoch.mzxid => version = stat.version,
                        _ => break may_have_applied,
                    }
                }
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) => {
                    break may_have_applied;
                }
                Err(error) => return Err(config.error(error)),
            }
        };
        self.held = None;
        Ok(deleted)
    }
}
