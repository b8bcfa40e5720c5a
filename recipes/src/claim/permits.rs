//! The claim of a semaphore: the head of a queue waits until enough permits are free, and takes them in the transaction in
//! which it leaves the queue.
//!
//! As in Curator's `InterProcessSemaphoreV2`, only the first of `<dir>/locks` may add to `<dir>/leases`, so that nobody
//! else adds leases while it counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use zoolet_client::{ErrorCode, MultiOutcome, Stat};

use super::names::{self, LEASE, LOCK};
use super::queue_entry::{QueueEntry, QueuePlan};
use super::{Claim, WaitReport};
use crate::config::LockConfig;
use crate::error::LockError;
use crate::path::child;
use crate::state::{FencingToken, Grant};

/// How many permits are wanted.
#[derive(Debug, Clone)]
pub(crate) struct PermitPlan {
    pub(crate) wanted: usize,
    /// Whether the directory was seen to agree on the number of permits. It may have changed since, because the directory
    /// is removed when nobody is there.
    pub(crate) agreed: Arc<AtomicBool>,
}

/// One contender for permits.
pub(crate) struct PermitClaim {
    config: Arc<LockConfig>,
    plan: PermitPlan,
    data: Bytes,
    entry: QueueEntry,
    leases: Vec<String>,
    /// Whether there may be leases of ours that no reply has named.
    uncertain: bool,
}

/// The directory of the queue.
pub(crate) fn locks(config: &LockConfig) -> String {
    child(config.dir(), "locks")
}

/// The directory of the held permits.
pub(crate) fn leases(config: &LockConfig) -> String {
    child(config.dir(), "leases")
}

/// The data of the directory.
fn agreement(config: &LockConfig) -> Bytes {
    config.permits.to_string().into()
}

impl PermitPlan {
    /// Checks that the semaphore has as many permits as are wanted.
    fn check(&self, config: &LockConfig) -> Result<(), LockError> {
        let (wanted, limit) = (self.wanted, config.permits);
        if (1..=limit).contains(&wanted) {
            return Ok(());
        }
        Err(LockError::PermitLimit { dir: config.label.clone(), wanted, limit })
    }

    /// Whether enough permits are left while others hold `held`, who may use another number of permits.
    fn fits(&self, config: &LockConfig, held: usize) -> bool {
        self.wanted <= config.permits.saturating_sub(held)
    }

    /// Whether the permits are free and nobody waits, by a read.
    pub(crate) async fn looks_free(&self, config: &LockConfig) -> Result<bool, LockError> {
        self.check(config)?;
        let (locks, leases) = (locks(config), leases(config));
        let (waiting, held) = tokio::try_join!(config.list(&locks), config.list(&leases))?;
        Ok(waiting.is_empty() && self.fits(config, held.len()))
    }
}

impl PermitClaim {
    pub(crate) fn new(config: Arc<LockConfig>, plan: PermitPlan, data: Bytes, limit: Option<usize>) -> Self {
        let queue = QueuePlan::exclusive(vec![(locks(&config), LOCK)]);
        let mut entry = QueueEntry::new(Arc::clone(&config), queue, Bytes::new(), limit);
        entry.root = Some((config.dir().to_owned(), agreement(&config)));
        Self { config, plan, data, entry, leases: Vec::new(), uncertain: false }
    }

    /// Checks that the directory does not have another number of permits.
    async fn agree(&self) -> Result<(), LockError> {
        let config = &self.config;
        let read = config.retries().ask_if_exists(|| config.client.get_data(config.dir())).await?;
        // If it does not exist, the next contender that enters the queue creates it, with its number.
        let Some((data, _)) = read else { return Ok(()) };
        // Curator leaves the data empty, or stores something else there.
        let theirs = std::str::from_utf8(&data).ok().and_then(|text| text.trim().parse().ok());
        let differs = theirs.filter(|theirs| *theirs != config.permits);
        self.plan.agreed.store(differs.is_none(), Relaxed);
        differs.map_or(Ok(()), |theirs| {
            Err(LockError::PermitsDiffer { dir: config.label.clone(), ours: config.permits, theirs })
        })
    }

    /// Waits until enough permits are free. Nobody else takes any meanwhile, because we are first in the queue.
    async fn wait_for_permits(&self, report: &mut WaitReport) -> Result<(), LockError> {
        let (config, dir) = (&self.config, leases(&self.config));
        let fits = |held| self.plan.fits(config, held);
        // Read again, now that our place in the queue keeps the directory from being created anew.
        // First without a watch, which would have to be removed again.
        let ((), mut held) = tokio::try_join!(self.agree(), config.list(&dir))?;
        while !fits(held.len()) {
            if self.entry.limit == Some(0) {
                return Err(LockError::QueueFull { dir: config.label.clone(), len: held.len() });
            }
            report.queued(0);
            match config.watch_children(&dir).await? {
                Some((names, watch)) if !fits(names.len()) => config.retries().changed(watch).await?,
                _ => break,
            };
            held = config.list(&dir).await?;
        }
        Ok(())
    }

    /// Takes the permits and leaves the queue, in one transaction. Because it leaves the queue, the transaction can be
    /// repeated: a second one finds nothing to delete, and changes nothing.
    async fn take(&mut self) -> Result<Grant, LockError> {
        let config = Arc::clone(&self.config);
        let dir = leases(&config);
        let place = self.entry.grant()?.nodes.remove(0);
        let path = child(&dir, &LEASE.prefix(&self.entry.guid));
        let mut parents = config.missing_parents();
        let mut created: Option<Stat> = None;
        loop {
            let dirs = [(config.dir(), agreement(&config)), (dir.as_str(), Bytes::new())];
            let sent = dirs.into_iter().flat_map(|(dir, data)| parents.send(dir, data)).collect();
            parents.receive(sent).await;
            self.uncertain = true;
            let mut multi = config.client.multi().delete(&place);
            for _ in 0..self.plan.wanted {
                let create = config.client.create(&path, self.data.clone());
                multi = multi.add(create.ephemeral().sequential().acl(config.acl.clone()));
            }
            match multi.commit().await {
                Ok(outcomes) => {
                    let leases = outcomes.iter().filter_map(MultiOutcome::path);
                    self.leases = leases.map(str::to_owned).collect();
                    // Servers before 3.9 do not send it.
                    created = outcomes.iter().find_map(MultiOutcome::stat).cloned();
                    break;
                }
                Err(error) => match (error.code(), error.failed_operation()) {
                    // By an earlier attempt whose reply was lost; or somebody deleted our place in the queue.
                    (Some(ErrorCode::NoNode), Some(0)) => {
                        self.leases = self.find(&dir).await?;
                        break;
                    }
                    (Some(ErrorCode::NoNode), _) => config.retry_with_parents(&mut parents, error)?,
                    _ => config.retries().retry(error).await?,
                },
            }
        }
        self.entry.nodes[0].created = None;
        if self.leases.len() != self.plan.wanted {
            return Err(self.entry.evicted());
        }
        // All leases are of one transaction.
        let stat = match created {
            Some(stat) => stat,
            None => config.stat(&self.leases[0]).await?.ok_or_else(|| self.entry.evicted())?,
        };
        self.uncertain = false;
        Ok(Grant { nodes: self.leases.clone(), token: FencingToken::new(stat.czxid), epoch: None })
    }

    /// The leases with our guid.
    async fn find(&self, dir: &str) -> Result<Vec<String>, LockError> {
        let names = self.config.list(dir).await?;
        let own = names.into_iter().filter(|name| names::is_of(name, &self.entry.guid));
        Ok(own.map(|name| child(dir, &name)).collect())
    }
}

impl Claim for PermitClaim {
    fn config(&self) -> &Arc<LockConfig> {
        &self.config
    }

    async fn win(&mut self, report: &mut WaitReport) -> Result<Grant, LockError> {
        self.plan.check(&self.config)?;
        // A different number is reported before the wait, if it is known by then.
        if !self.plan.agreed.load(Relaxed) {
            self.agree().await?;
        }
        self.entry.win(report).await?;
        self.wait_for_permits(report).await?;
        self.take().await
    }

    async fn leave(&mut self) -> Result<bool, LockError> {
        let config = Arc::clone(&self.config);
        if self.uncertain {
            // Another server of an ensemble may not have seen the multi yet.
            config.sync(config.dir()).await?;
            self.leases = self.find(&leases(&config)).await?;
            self.uncertain = false;
        }
        let paths: Vec<_> = self.leases.iter().map(String::as_str).collect();
        let held = config.delete_all(&paths).await?;
        self.leases.clear();
        // A place in the queue is not a permit.
        self.entry.leave().await?;
        Ok(held)
    }
}
