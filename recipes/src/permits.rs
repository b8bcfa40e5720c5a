//! The claim behind a semaphore: the head of a queue waits until there are permits enough, and takes them in the
//! transaction in which it leaves the queue.
//!
//! As in Curator's `InterProcessSemaphoreV2` only the first of `<dir>/locks` may add to `<dir>/leases`, so that whoever
//! counts the leases there is the only one who does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use zoolet_client::{Error, ErrorCode, MultiOutcome, Reply, Stat, Watch};

use crate::claim::{Change, Claim, Notice, Standing};
use crate::contender::{Entrant, Entry, Waiting};
use crate::error::LockError;
use crate::guard::FencingToken;
use crate::name::{self, LEASE, LOCK};
use crate::queue::{Role, child};
use crate::setup::{Parents, Setup};

/// How many permits there are, and how many are wanted.
#[derive(Debug, Clone)]
pub(crate) struct PermitPlan {
    pub(crate) max: usize,
    pub(crate) wanted: usize,
    /// How many may be in front.
    pub(crate) limit: Option<usize>,
    /// Whether others were seen to agree on `max`. It may have changed since, as the directory goes when nobody is there.
    pub(crate) agreed: Arc<AtomicBool>,
}

/// One contender for permits.
pub(crate) struct Permits {
    setup: Arc<Setup>,
    plan: PermitPlan,
    data: Bytes,
    entrant: Entrant,
    leases: Vec<String>,
    /// Whether there may be leases of ours that no reply has named.
    uncertain: bool,
}

fn locks(setup: &Setup) -> String {
    child(&setup.dir, "locks")
}

fn leases(setup: &Setup) -> String {
    child(&setup.dir, "leases")
}

impl PermitPlan {
    /// What the directory says of it.
    fn told(&self) -> Bytes {
        self.max.to_string().into()
    }

    /// Whether so many can be had at all.
    fn check(&self, setup: &Setup) -> Result<(), LockError> {
        match (1..=self.max).contains(&self.wanted) {
            true => Ok(()),
            false => {
                let (dir, wanted, limit) = (setup.dir.clone(), self.wanted, self.max);
                Err(LockError::PermitLimit { dir, wanted, limit })
            }
        }
    }

    /// Whether so many are left where others hold `held`, who may go by another number.
    fn fits(&self, held: usize) -> bool {
        self.wanted <= self.max.saturating_sub(held)
    }

    pub(crate) async fn looks_free(&self, setup: &Setup) -> Result<bool, LockError> {
        self.check(setup)?;
        let (locks, leases) = (locks(setup), leases(setup));
        let (waiting, held) =
            (setup.client.get_children(&locks).send(), setup.client.get_children(&leases).send());
        let (waiting, held) = (setup.listed(&locks, waiting).await?, setup.listed(&leases, held).await?);
        Ok(waiting.is_empty() && self.fits(held.len()))
    }
}

impl Permits {
    pub(crate) fn new(setup: Arc<Setup>, plan: PermitPlan, data: Bytes) -> Self {
        let entry = Entry {
            places: vec![(locks(&setup), LOCK)],
            role: Role::Exclusive,
            waiting: Waiting::ForNearest,
            limit: plan.limit,
        };
        let mut entrant = Entrant::new(Arc::clone(&setup), entry, Bytes::new());
        entrant.above = Some((setup.dir.clone(), plan.told()));
        Self { setup, plan, data, entrant, leases: Vec::new(), uncertain: false }
    }

    fn ask(&self) -> Reply<(Bytes, Stat)> {
        self.setup.client.get_data(&self.setup.dir).send()
    }

    /// Sees to it that the directory says no other number of permits than we do.
    async fn agree(&self, mut asked: Reply<(Bytes, Stat)>) -> Result<(), LockError> {
        let (setup, plan) = (&self.setup, &self.plan);
        loop {
            match asked.await {
                // Curator leaves nothing there, or something of its own.
                Ok((data, _)) => {
                    let said = std::str::from_utf8(&data).ok().and_then(|text| text.trim().parse().ok());
                    let differs = said.filter(|theirs| *theirs != plan.max);
                    plan.agreed.store(differs.is_none(), Relaxed);
                    return differs.map_or(Ok(()), |theirs| {
                        Err(LockError::PermitsDiffer { dir: setup.dir.clone(), ours: plan.max, theirs })
                    });
                }
                // Whoever enters the queue makes it, with the number.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => setup.retry(error).await?,
            }
            asked = self.ask();
        }
    }

    /// Waits until there are permits enough. Nobody else takes any meanwhile, as we are first in the queue.
    async fn wait_for_permits(&self, queued: &mut Option<Notice>) -> Result<(), LockError> {
        let (setup, dir) = (&self.setup, leases(&self.setup));
        let fits = |held| self.plan.fits(held);
        // Asked again, now that our place in the queue keeps the directory from being made anew.
        let (said, mut listing) = (self.ask(), setup.client.get_children(&dir).send());
        self.agree(said).await?;
        loop {
            // Without a watch at first, which would have to be taken back.
            let held = setup.listed(&dir, listing).await?.len();
            if fits(held) {
                return Ok(());
            }
            if self.plan.limit == Some(0) {
                return Err(LockError::QueueFull { dir: setup.dir.clone(), len: held });
            }
            if let Some(notice) = queued.take() {
                notice(0);
            }
            let watch: Watch = match setup.client.get_children(&dir).watch().await {
                Ok((names, ..)) if fits(names.len()) => return Ok(()),
                Ok((_, _, watch)) => watch,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => {
                    setup.retry(error).await?;
                    listing = setup.client.get_children(&dir).send();
                    continue;
                }
            };
            match watch.changed().await {
                Ok(_) | Err(Error::WatchRemoved(_)) => {}
                Err(error) => return Err(setup.error(error)),
            }
            listing = setup.client.get_children(&dir).send();
        }
    }

    /// Takes the permits and leaves the queue, in one transaction. That it leaves the queue is what makes it safe to send
    /// again: a second one finds nothing to leave, and changes nothing.
    async fn take(&mut self) -> Result<Standing, LockError> {
        let setup = Arc::clone(&self.setup);
        let dir = leases(&setup);
        let mutex = self.entrant.standing()?.nodes.remove(0);
        let path = child(&dir, &LEASE.prefix(&self.entrant.guid));
        let mut parents = Parents::new(&setup);
        let mut made: Option<Stat> = None;
        loop {
            let dirs = [(setup.dir.as_str(), self.plan.told()), (dir.as_str(), Bytes::new())];
            parents.take(parents.send(&setup, dirs.into_iter())).await;
            self.uncertain = true;
            let mut multi = setup.client.multi().delete(&mutex);
            for _ in 0..self.plan.wanted {
                let create = setup.client.create(&path, self.data.clone());
                multi = multi.add(create.ephemeral().sequential().acl(setup.acl.clone()));
            }
            match multi.commit().await {
                Ok(outcomes) => {
                    let leases = outcomes.iter().filter_map(MultiOutcome::path);
                    self.leases = leases.map(str::to_owned).collect();
                    // Servers before 3.9 do not tell it.
                    made = outcomes.iter().find_map(MultiOutcome::stat).cloned();
                    break;
                }
                Err(error) => match (error.code(), error.failed_operation()) {
                    // Done before, by a try whose reply was lost; or somebody deleted our place in the queue.
                    (Some(ErrorCode::NoNode), Some(0)) => {
                        self.leases = self.find(&dir).await?;
                        break;
                    }
                    (Some(code @ ErrorCode::NoNode), _) => parents.missing(&setup, code)?,
                    _ => setup.retry(error).await?,
                },
            }
        }
        self.entrant.slots[0].node = None;
        let evicted = || LockError::NodeDeleted { dir: setup.dir.clone() };
        if self.leases.len() != self.plan.wanted {
            return Err(evicted());
        }
        // All of them are of one transaction.
        let stat = match made {
            Some(stat) => stat,
            None => setup.stat(&self.leases[0]).await?.ok_or_else(evicted)?,
        };
        self.uncertain = false;
        Ok(Standing { nodes: self.leases.clone(), token: FencingToken::new(stat.czxid), epoch: None })
    }

    /// The leases with our guid.
    async fn find(&self, dir: &str) -> Result<Vec<String>, LockError> {
        let names = self.setup.list(dir).await?;
        let ours = names.into_iter().filter(|name| name::is_of(name, &self.entrant.guid));
        Ok(ours.map(|name| child(dir, &name)).collect())
    }
}

impl Claim for Permits {
    fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    async fn win(&mut self, queued: &mut Option<Notice>) -> Result<Standing, LockError> {
        self.plan.check(&self.setup)?;
        // Said before it has waited for its turn, if it is known by then.
        if !self.plan.agreed.load(Relaxed) {
            self.agree(self.ask()).await?;
        }
        self.entrant.win(queued).await?;
        self.wait_for_permits(queued).await?;
        self.take().await
    }

    async fn leave(&mut self) -> Result<bool, LockError> {
        let setup = Arc::clone(&self.setup);
        if self.uncertain {
            // Behind a sync, as another server of an ensemble may not have seen the multi yet.
            setup.sync(&setup.dir).await?;
            self.leases = self.find(&leases(&setup)).await?;
            self.uncertain = false;
        }
        let paths: Vec<_> = self.leases.iter().map(String::as_str).collect();
        let held = !paths.is_empty() && setup.delete_all(&paths).await?;
        self.leases.clear();
        // A place in the queue is no permit.
        self.entrant.leave().await?;
        Ok(held)
    }

    async fn change(&mut self, _: Change) -> Result<Standing, LockError> {
        Err(LockError::NotAlone { dir: self.setup.dir.clone() })
    }
}
