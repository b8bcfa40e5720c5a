//! [`QueueEntry`]: a contender in the queue of a directory, or of several at once. Every recipe with a queue uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_client::{Error, ErrorCode, EventType, ReplyFuture, Stat};

use super::entry_node::{EntryNode, PendingCreate};
use super::names::{self, NameStyle};
use super::order::{LockMode, count};
use super::{Claim, HoldChange, WaitReport, counter, listing};
use crate::config::LockConfig;
use crate::contender::Contender;
use crate::error::LockError;
use crate::path::child;
use crate::retry::RetryPolicy;
use crate::state::{FencingToken, Grant};

/// What a contender watches while others are in its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    /// The nearest contender in the way: each deletion wakes one.
    #[default]
    Nearest,
    /// The directory: each change wakes all.
    Children,
}

/// How a contender queues.
#[derive(Debug, Clone)]
pub(crate) struct QueuePlan {
    /// The directories and the contender's name in each; created in one transaction.
    pub(crate) dirs: Vec<(String, NameStyle)>,
    pub(crate) mode: LockMode,
    pub(crate) watch: WatchTarget,
}

impl QueuePlan {
    /// An exclusive contender in these directories that watches the nearest one in the way.
    pub(crate) fn exclusive(dirs: Vec<(String, NameStyle)>) -> Self {
        Self { dirs, mode: LockMode::Exclusive, watch: WatchTarget::Nearest }
    }
}

/// One contender, from its first request to the deletion of its znodes.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(super) config: Arc<LockConfig>,
    pub(super) guid: String,
    pub(super) data: Bytes,
    pub(super) nodes: Vec<EntryNode>,
    pub(super) mode: LockMode,
    watch: WatchTarget,
    /// How many contenders may be in the way.
    pub(super) limit: Option<usize>,
    /// Whether there may be znodes with our guid that no reply has named.
    pub(super) uncertain: bool,
    /// The name of another contender of ours, which is never in the way. If it is missing, this one counts as evicted.
    pub(super) companion: Option<String>,
    /// A directory above, and its data if it is created.
    pub(super) root: Option<(String, Bytes)>,
    /// A second contender, while this one tries to become it.
    pub(super) replacement: Option<Box<QueueEntry>>,
}

/// A position in the queue.
#[derive(Debug)]
pub(crate) struct QueuePosition {
    /// How many contenders are in the way.
    ahead: usize,
    /// The path of the nearest of them, in the first of several directories that has one.
    nearest: Option<String>,
}

/// Listings in flight.
type Listings = Vec<ReplyFuture<(Vec<String>, Stat)>>;

impl QueueEntry {
    pub(crate) fn new(config: Arc<LockConfig>, plan: QueuePlan, data: Bytes, limit: Option<usize>) -> Self {
        let guid = config.generate_guid();
        let node = |(dir, style): (String, NameStyle)| {
            let prefix = style.prefix(&guid);
            EntryNode { dir, prefix, created: None }
        };
        Self {
            nodes: plan.dirs.into_iter().map(node).collect(),
            mode: plan.mode,
            watch: plan.watch,
            limit,
            config,
            guid,
            data,
            uncertain: false,
            companion: None,
            root: None,
            replacement: None,
        }
    }

    /// Enters the queue and finds the position in it: one round trip if the directory exists.
    pub(super) async fn enter(&mut self) -> Result<QueuePosition, LockError> {
        let config = Arc::clone(&self.config);
        let mut parents = config.missing_parents();
        // Limited, because the create itself may be the reason for lost connections.
        let mut retries = RetryPolicy::<LockError>::limited(&config.client, &config.label);
        loop {
            let root = self.root.iter().map(|(dir, data)| (dir.as_str(), data.clone()));
            let dirs = root.chain(self.dirs().map(|dir| (dir, Bytes::new())));
            let created_parents: Vec<_> = dirs.flat_map(|(dir, data)| parents.send(dir, data)).collect();
            // From here on there may be a znode of ours, even if this future is dropped.
            let was_uncertain = std::mem::replace(&mut self.uncertain, true);
            let creating = PendingCreate::send(&config, &self.nodes, &self.data);
            let listings = self.send_listings();
            parents.receive(created_parents).await;
            let error = match creating.created().await {
                Ok(created) => {
                    for (node, created) in self.nodes.iter_mut().zip(created) {
                        node.created = created;
                    }
                    self.uncertain = was_uncertain || self.nodes.iter().any(|node| node.created.is_none());
                    return self.position_in(listings).await;
                }
                Err(error) => error,
            };
            self.uncertain = was_uncertain || error.may_have_applied();
            if let Some(ErrorCode::NoNode | ErrorCode::NoChildrenForEphemerals) = error.code() {
                config.retry_with_parents(&mut parents, error)?;
                continue;
            }
            config.retries().retry(error.clone()).await?;
            let goes_on = match error {
                Error::ConnectionLoss(_) => retries.next_immediate(),
                _ => !error.may_have_applied() || retries.next().await,
            };
            if !goes_on {
                return Err(config.error(error));
            }
            // The create may have been executed. If it is executed later, after this look, the next listing shows both
            // znodes: every server executes the second create after the first.
            if self.uncertain && self.exists().await? {
                return self.position().await;
            }
        }
    }

    /// Whether there is a znode of ours that no reply has named.
    async fn exists(&self) -> Result<bool, LockError> {
        let dir = &self.nodes[0].dir;
        // Another server of an ensemble may not have seen the create yet.
        self.config.sync(dir).await?;
        Ok(self.config.list(dir).await?.iter().any(|name| names::is_of(name, &self.guid)))
    }

    /// Finds the current position.
    async fn position(&mut self) -> Result<QueuePosition, LockError> {
        let listings = self.send_listings();
        self.position_in(listings).await
    }

    async fn position_in(&mut self, listings: Listings) -> Result<QueuePosition, LockError> {
        let config = Arc::clone(&self.config);
        let mut found = BTreeMap::new();
        let dirs: Vec<_> = self.listed_dirs().into_iter().map(str::to_owned).collect();
        for (dir, listing) in dirs.into_iter().zip(listings) {
            let names = config.listed(&dir, listing).await?;
            let ahead = self.find_in(&dir, names).await?;
            // A later listing of the same directory replaces the earlier one.
            found.insert(dir, ahead);
        }
        let (ahead, nearest): (Vec<_>, Vec<_>) = found.into_values().unzip();
        let nearest = nearest.into_iter().flatten().next();
        let position = QueuePosition { ahead: count(ahead.concat()), nearest };
        self.check_one_transaction()?;
        self.uncertain = false;
        match self.limit {
            Some(limit) if position.ahead > limit => {
                Err(LockError::QueueFull { dir: config.label.clone(), len: position.ahead })
            }
            _ => Ok(position),
        }
    }

    /// Several znodes must be of one transaction: that keeps contenders from waiting for each other. They are not if a
    /// create was sent twice and somebody deleted a part of the first.
    fn check_one_transaction(&self) -> Result<(), LockError> {
        let mut created =
            self.nodes.iter().filter_map(|node| node.created.as_ref()).map(|node| node.stat.czxid);
        let first = created.next();
        if created.all(|czxid| Some(czxid) == first) { Ok(()) } else { Err(self.evicted()) }
    }

    /// Finds the contenders in the way of our znodes in this directory, and the path of the nearest. Deletes our duplicates.
    async fn find_in(
        &mut self,
        dir: &str,
        names: Vec<String>,
    ) -> Result<(Vec<Option<u128>>, Option<String>), LockError> {
        let config = Arc::clone(&self.config);
        let here = self.nodes.iter().filter(|node| node.dir == dir);
        let prefixes: Vec<_> = here.map(|node| node.prefix.as_str()).collect();
        let found =
            listing::find(&config, dir, names, &prefixes, self.mode, self.companion.as_deref()).await?;
        let Some(found) = found.filter(|found| found.has_companion || self.companion.is_none()) else {
            return Err(LockError::NodeDeleted { dir: dir.to_owned() });
        };
        for duplicate in found.duplicates {
            config.delete(&child(dir, &duplicate)).await?;
        }
        let here = self.nodes.iter_mut().filter(|node| node.dir == dir);
        for (node, name) in here.zip(found.own) {
            node.adopt(&config, &name).await?;
        }
        Ok((found.ahead, found.nearest.map(|nearest| child(dir, &nearest))))
    }

    async fn wait_for_nearest(
        &mut self,
        mut position: QueuePosition,
        report: &WaitReport,
    ) -> Result<(), LockError> {
        while let Some(nearest) = &position.nearest {
            if let Some((data, stat, watch)) = self.config.watch_data(nearest).await? {
                report.set_in_front(Some(Contender::new(nearest.clone(), data, &stat)));
                let event = self.config.retries().changed(watch).await?;
                if event.is_some_and(|event| event != EventType::NodeDeleted) {
                    // Its data has changed, for example by a revocation. It is still in front.
                    continue;
                }
            }
            report.set_in_front(None);
            position = self.position().await?;
        }
        Ok(())
    }

    async fn wait_for_children(&mut self, mut position: QueuePosition) -> Result<(), LockError> {
        while position.nearest.is_some() {
            let dir = &self.nodes[0].dir;
            let watched = self.config.watch_children(dir).await?;
            let (_, watch) = watched.ok_or_else(|| LockError::NodeDeleted { dir: dir.clone() })?;
            position = self.position().await?;
            if position.nearest.is_some() {
                self.config.retries().changed(watch).await?;
            }
        }
        Ok(())
    }

    /// Deletes every znode with our guid. `Ok(false)` if there was none.
    pub(super) async fn leave_queue(&mut self) -> Result<bool, LockError> {
        let config = Arc::clone(&self.config);
        let named = self.nodes.iter().filter_map(|node| node.created.as_ref());
        let paths: Vec<_> = named.map(|created| created.path.as_str()).collect();
        let mut deleted = match paths[..] {
            [path] if self.nodes.len() == 1 => counter::delete(&config, &self.nodes[0].dir, path).await?,
            _ => config.delete_all(&paths).await?,
        };
        self.nodes.iter_mut().for_each(|node| node.created = None);
        if self.uncertain {
            // Another server of an ensemble may not have seen the create yet.
            config.sync(&self.nodes[0].dir).await?;
            for dir in self.dirs() {
                for name in config.list(dir).await? {
                    if names::is_of(&name, &self.guid) {
                        deleted |= config.delete(&child(dir, &name)).await?;
                    }
                }
            }
            self.uncertain = false;
        }
        Ok(deleted)
    }

    /// What a guard needs to know of a contender whose turn it is.
    pub(super) fn grant(&self) -> Result<Grant, LockError> {
        let created: Option<Vec<_>> = self.nodes.iter().map(|node| node.created.as_ref()).collect();
        let nodes = created.ok_or_else(|| self.evicted())?;
        Ok(Grant {
            token: FencingToken::new(nodes[0].stat.czxid),
            nodes: nodes.iter().map(|created| created.path.clone()).collect(),
            epoch: None,
        })
    }

    pub(super) fn evicted(&self) -> LockError {
        LockError::NodeDeleted { dir: self.config.label.clone() }
    }

    /// The directories. The znodes of one are next to each other.
    fn dirs(&self) -> impl Iterator<Item = &str> {
        let same_dir = self.nodes.chunk_by(|one, other| one.dir == other.dir);
        same_dir.map(|nodes| nodes[0].dir.as_str())
    }

    /// The directories to list, in order. All but the last of several are listed twice: once nobody is in front that stays
    /// so, but a znode of ours may go, and all must exist at one moment.
    fn listed_dirs(&self) -> Vec<&str> {
        let mut dirs: Vec<_> = self.dirs().collect();
        dirs.extend_from_within(..dirs.len() - 1);
        dirs
    }

    fn send_listings(&self) -> Listings {
        let dirs = self.listed_dirs().into_iter();
        dirs.map(|dir| self.config.client.get_children(dir).into_future()).collect()
    }
}

impl Claim for QueueEntry {
    fn config(&self) -> &Arc<LockConfig> {
        &self.config
    }

    async fn win(&mut self, report: &mut WaitReport) -> Result<Grant, LockError> {
        self.config.warnings.check_session(&self.config.client);
        let position = self.enter().await?;
        if let Some(created) = &self.nodes[0].created {
            let number = names::parse(&created.path).map_or(0, |parsed| parsed.sequence);
            self.config.warnings.check_number(&self.nodes[0].dir, number);
        }
        if position.ahead > 0 {
            report.queued(position.ahead);
        }
        // After a lost connection the client sets the watch again.
        match self.watch {
            WatchTarget::Nearest => self.wait_for_nearest(position, report).await?,
            WatchTarget::Children => self.wait_for_children(position).await?,
        }
        self.grant()
    }

    async fn leave(&mut self) -> Result<bool, LockError> {
        if let Some(replacement) = &mut self.replacement {
            replacement.leave_queue().await?;
        }
        self.leave_queue().await
    }

    async fn change(&mut self, change: HoldChange) -> Result<Grant, LockError> {
        match change {
            HoldChange::Downgrade => self.downgrade().await,
            HoldChange::Upgrade => self.upgrade().await,
        }
    }
}
