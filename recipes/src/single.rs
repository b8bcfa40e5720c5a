//! The lock that is one znode: whoever creates it holds it, and its deletion wakes everybody who waits.
//!
//! The name is used again by whoever comes next, so that a znode of this name proves nothing about whose it is. A second
//! znode beside it, `<path>.epoch`, is written in the transaction that creates the first: its data is the guid of the
//! holder, its version counts the holders. With a check of that version, a late release deletes nobody else's lock, and a
//! fenced write of a former holder is refused.
//!
//! A program that knows nothing of the epoch does not count in it. So that a late release does not delete its lock either,
//! the znode is written once more in the transaction that creates it: its version is never that of a fresh one. A fenced
//! write cannot go by that, as who revokes the lock writes to the znode too.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_client::{Error, ErrorCode, EventType, MultiOutcome, Stat, parent_of};

use crate::claim::{Change, Claim, Notice, Standing};
use crate::error::LockError;
use crate::guard::FencingToken;
use crate::setup::{ForeignPolicy, Parents, Setup};

/// The version in which the znode is created and written.
const WRITTEN: i32 = 1;

/// What refuses the delete of the znode, the second operation, because it has another version.
const WRITTEN_SINCE: (Option<usize>, Option<ErrorCode>) = (Some(1), Some(ErrorCode::BadVersion));

/// One contender for a znode.
pub(crate) struct Single {
    setup: Arc<Setup>,
    epoch: String,
    guid: String,
    data: Bytes,
    /// How many may be in front: none for who does not want to wait.
    limit: Option<usize>,
    /// The `Stat` of the epoch while the znode is ours.
    held: Option<Stat>,
    /// Whether it may be ours without our knowing.
    uncertain: bool,
}

impl Single {
    pub(crate) fn new(setup: Arc<Setup>, data: Bytes, limit: Option<usize>) -> Self {
        let (guid, epoch) = (setup.draw_guid(), format!("{}.epoch", setup.dir));
        Self { setup, epoch, guid, data, limit, held: None, uncertain: false }
    }

    /// Creates the znode, or says `None` if there is one.
    async fn create(&mut self) -> Result<Option<Standing>, LockError> {
        let setup = Arc::clone(&self.setup);
        let client = &setup.client;
        let above = parent_of(&setup.dir);
        let mut parents = Parents::new(&setup);
        loop {
            parents.take(parents.send(&setup, [(above, Bytes::new())].into_iter())).await;
            let create = client.create(&setup.dir, Bytes::new()).ephemeral().acl(setup.acl.clone());
            let doubt = std::mem::replace(&mut self.uncertain, true);
            let multi = client.multi().add(create).set_data(&self.epoch, self.guid.clone());
            let error = match multi.set_data(&setup.dir, self.data.clone()).commit().await {
                Ok(outcomes) => {
                    self.uncertain = doubt;
                    // The second one is that of the epoch.
                    return match outcomes.get(1).and_then(MultiOutcome::stat) {
                        Some(epoch) => Ok(Some(self.holds(epoch))),
                        None => self.find().await,
                    };
                }
                Err(error) => error,
            };
            self.uncertain = doubt || error.may_have_applied();
            match (error.code(), error.failed_operation()) {
                // There is one. It may be ours, where the reply to an earlier try was lost.
                (Some(ErrorCode::NodeExists), _) if self.uncertain => return self.find().await,
                (Some(ErrorCode::NodeExists), _) => return Ok(None),
                (Some(ErrorCode::NoNode), Some(1)) => self.create_epoch(&mut parents).await?,
                (Some(code @ (ErrorCode::NoNode | ErrorCode::NoChildrenForEphemerals)), _) => {
                    parents.missing(&setup, code)?;
                }
                _ => setup.retry(error).await?,
            }
        }
    }

    async fn create_epoch(&self, parents: &mut Parents) -> Result<(), LockError> {
        let setup = &self.setup;
        let created = setup.client.create(&self.epoch, Bytes::new()).acl(setup.acl.clone()).await;
        let Err(error) = created else { return Ok(()) };
        match error.code() {
            Some(ErrorCode::NodeExists) => Ok(()),
            // The container above was empty, and has been swept away in between.
            Some(code @ ErrorCode::NoNode) => parents.missing(setup, code),
            _ => setup.retry(error).await,
        }
    }

    /// Finds out whether the znode is ours.
    async fn find(&mut self) -> Result<Option<Standing>, LockError> {
        let client = &self.setup.client;
        let (epoch, stat) = loop {
            // In this order: an epoch that is ours, and behind it a znode of the same transaction, is ours still then.
            let (epoch, znode) = (client.get_data(&self.epoch).send(), client.exists(&self.setup.dir).send());
            match (epoch.await, znode.await) {
                (Ok((data, stat)), Ok(znode)) => break (Some((data, stat)), znode),
                (Err(error), _) if error.code() == Some(ErrorCode::NoNode) => break (None, None),
                (Err(error), _) | (_, Err(error)) => self.setup.retry(error).await?,
            }
        };
        self.uncertain = false;
        let (Some((guid, epoch)), Some(znode)) = (epoch, stat) else { return Ok(None) };
        let ours = guid == self.guid.as_bytes()
            && znode.ephemeral_owner == client.session_id()
            && znode.czxid == epoch.mzxid;
        Ok(ours.then(|| self.holds(&epoch)))
    }

    /// Takes note that the znode is ours, by the `Stat` of the epoch.
    fn holds(&mut self, epoch: &Stat) -> Standing {
        self.held = Some(*epoch);
        Standing {
            nodes: vec![self.setup.dir.clone()],
            token: FencingToken::new(epoch.mzxid),
            epoch: Some((self.epoch.clone(), epoch.version)),
        }
    }

    /// Waits until the znode of somebody else is gone.
    async fn wait(&self, queued: &mut Option<Notice>) -> Result<(), LockError> {
        let setup = &self.setup;
        loop {
            match setup.client.get_data(&setup.dir).watch().await {
                Ok((_, stat, watch)) => {
                    if stat.ephemeral_owner.0 == 0 && setup.foreign == ForeignPolicy::Reject {
                        let name = setup.dir.rsplit('/').next().unwrap_or_default().to_owned();
                        return Err(LockError::Foreign { dir: setup.dir.clone(), name });
                    }
                    if let Some(notice) = queued.take() {
                        notice(1);
                    }
                    match watch.changed().await {
                        Ok(event) if event.kind != EventType::NodeDeleted => {}
                        Ok(_) | Err(Error::WatchRemoved(_)) => return Ok(()),
                        Err(error) => return Err(setup.error(error)),
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => setup.retry(error).await?,
            }
        }
    }
}

impl Claim for Single {
    fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    async fn win(&mut self, queued: &mut Option<Notice>) -> Result<Standing, LockError> {
        self.setup.warnings.look_at_session(&self.setup.client);
        loop {
            if let Some(standing) = self.create().await? {
                return Ok(standing);
            }
            if self.limit == Some(0) {
                return Err(LockError::QueueFull { dir: self.setup.dir.clone(), len: 1 });
            }
            self.wait(queued).await?;
        }
    }

    async fn leave(&mut self) -> Result<bool, LockError> {
        let setup = Arc::clone(&self.setup);
        if self.uncertain && self.held.is_none() {
            // Behind a sync, as another server of an ensemble may not have seen the create yet.
            setup.sync(&setup.dir).await?;
            self.find().await?;
        }
        let Some(epoch) = self.held else { return Ok(false) };
        let (mut version, mut may_be_done) = (WRITTEN, false);
        let deleted = loop {
            let delete = setup.client.delete(&setup.dir).version(version);
            let multi = setup.client.multi().check(&self.epoch, epoch.version).add(delete);
            match multi.commit().await {
                Ok(_) => break true,
                Err(error) if (error.failed_operation(), error.code()) == WRITTEN_SINCE => {
                    // By whoever asks for the lock, or by its holder; unless it is the lock of a program without epochs.
                    match setup.client.exists(&setup.dir).await {
                        Ok(Some(stat)) if stat.czxid == epoch.mzxid => version = stat.version,
                        Ok(_) => break may_be_done,
                        Err(error) => setup.retry(error).await?,
                    }
                }
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) => {
                    break may_be_done;
                }
                Err(error) => {
                    may_be_done |= error.may_have_applied();
                    setup.retry(error).await?;
                }
            }
        };
        self.held = None;
        Ok(deleted)
    }

    async fn change(&mut self, _: Change) -> Result<Standing, LockError> {
        Err(LockError::NotAlone { dir: self.setup.dir.clone() })
    }
}
