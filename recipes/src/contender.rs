//! A contender: stands in the queue of a directory, or of several at once, and waits until nobody is in its way. What
//! every recipe with a queue is made of.
//!
//! What holds here: a contender takes no reply for granted. It knows its znodes by a guid that it drew before the first
//! request, so a lost reply costs it nothing; it keeps the first of several znodes with its guid and deletes the others;
//! and it never takes its own absence for its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_client::{Created, Error, ErrorCode, EventType, Reply, Stat, Watch};

use crate::claim::{Change, Claim, Notice, Standing};
use crate::counter;
use crate::creating::Creating;
use crate::error::LockError;
use crate::guard::FencingToken;
use crate::name::{self, Style};
use crate::patience::Patience;
use crate::queue::{Role, child, count};
use crate::setup::{Parents, Setup};

/// What a contender waits for while somebody is in its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The deletion of the nearest in its way: each deletion wakes one.
    #[default]
    ForNearest,
    /// Any change of the directory.
    ForChildren,
}

/// Where a contender stands, or several at once, and how.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The directories and how the contender is called in each; created in one transaction.
    pub(crate) places: Vec<(String, Style)>,
    pub(crate) role: Role,
    pub(crate) waiting: Waiting,
    /// How many may be in front.
    pub(crate) limit: Option<usize>,
}

/// One contender, from its first request to the deletion of its znodes.
#[derive(Debug)]
pub(crate) struct Entrant {
    pub(crate) setup: Arc<Setup>,
    pub(crate) guid: String,
    pub(crate) data: Bytes,
    pub(crate) slots: Vec<Slot>,
    pub(crate) role: Role,
    waiting: Waiting,
    limit: Option<usize>,
    /// Whether there may be znodes with our guid that no reply has named.
    pub(crate) uncertain: bool,
    /// The name of a contender that is ours as well, and not in our own way. If it is gone so is what we count on.
    pub(crate) beside: Option<String>,
    /// A directory above, and the data it gets if it is made.
    pub(crate) above: Option<(String, Bytes)>,
    /// A second contender, while this one tries to become it.
    pub(crate) rival: Option<Box<Entrant>>,
}

/// A znode of a contender: one, but for those who stand in several queues or under two names.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) dir: String,
    pub(crate) prefix: String,
    /// The znode, once a reply has named it.
    pub(crate) node: Option<Created>,
}

/// A place in the queue.
#[derive(Debug)]
pub(crate) struct Place {
    /// How many contenders are in the way.
    ahead: usize,
    /// The path of the nearest of them; of several queues, of the first that has one.
    nearest: Option<String>,
}

/// A flight of listings that is under way.
type Listings = Vec<Reply<(Vec<String>, Stat)>>;

impl Entrant {
    pub(crate) fn new(setup: Arc<Setup>, entry: Entry, data: Bytes) -> Self {
        let guid = setup.draw_guid();
        let slot = |(dir, style): (String, Style)| Slot { dir, prefix: style.prefix(&guid), node: None };
        Self {
            slots: entry.places.into_iter().map(slot).collect(),
            role: entry.role,
            waiting: entry.waiting,
            limit: entry.limit,
            setup,
            guid,
            data,
            uncertain: false,
            beside: None,
            above: None,
            rival: None,
        }
    }

    /// Enters the queue and finds its place in it: one round trip if the directory is there.
    pub(crate) async fn enter(&mut self) -> Result<Place, LockError> {
        let setup = Arc::clone(&self.setup);
        let mut parents = Parents::new(&setup);
        // What the create is may be what connections are lost for.
        let mut patience = Patience::new(&setup.client);
        loop {
            let above = self.above.iter().map(|(dir, data)| (dir.as_str(), data.clone()));
            let made = parents.send(&setup, above.chain(self.dirs().map(|dir| (dir, Bytes::new()))));
            // From here on there may be a znode of ours, whatever becomes of this future.
            let doubt = std::mem::replace(&mut self.uncertain, true);
            let creating = Creating::send(&setup, &self.slots, &self.data);
            let listings = self.send_listings();
            parents.take(made).await;
            match creating.created().await {
                Ok(created) => {
                    for (slot, created) in self.slots.iter_mut().zip(created) {
                        slot.node = created;
                    }
                    self.uncertain = doubt || self.slots.iter().any(|slot| slot.node.is_none());
                    return self.place_after(listings).await;
                }
                Err(error) => {
                    self.uncertain = doubt || error.may_have_applied();
                    match error.code() {
                        Some(code @ (ErrorCode::NoNode | ErrorCode::NoChildrenForEphemerals)) => {
                            parents.missing(&setup, code)?;
                        }
                        _ => {
                            setup.retry(error.clone()).await?;
                            let lasts = match error {
                                Error::ConnectionLoss(_) => patience.counts(),
                                _ => !error.may_have_applied() || patience.lasts().await,
                            };
                            if !lasts {
                                return Err(setup.error(error));
                            }
                            // It may have arrived. If it does so later, behind the look, the listing shows both: the next
                            // one is executed behind it, on whatever server.
                            if self.uncertain && self.is_there().await? {
                                return self.place().await;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Whether there is a znode of ours that no reply has named.
    async fn is_there(&self) -> Result<bool, LockError> {
        let dir = &self.slots[0].dir;
        // Another server of an ensemble may not have seen the create yet.
        self.setup.sync(dir).await?;
        Ok(self.setup.list(dir).await?.iter().any(|name| name::is_of(name, &self.guid)))
    }

    /// Finds its place anew.
    pub(crate) async fn place(&mut self) -> Result<Place, LockError> {
        let listings = self.send_listings();
        self.place_after(listings).await
    }

    async fn place_after(&mut self, listings: Listings) -> Result<Place, LockError> {
        let setup = Arc::clone(&self.setup);
        let mut found = BTreeMap::new();
        for (at, listing) in self.listed_slots().into_iter().zip(listings) {
            let dir = self.slots[at].dir.clone();
            let names = setup.listed(&dir, listing).await?;
            found.insert(at, self.find_in(at, names).await?);
        }
        let (ahead, nearest): (Vec<_>, Vec<_>) = found.into_values().unzip();
        let nearest = nearest.into_iter().flatten().next();
        let place = Place { ahead: count(ahead.concat()), nearest };
        self.check_that_they_belong_together()?;
        self.uncertain = false;
        match self.limit {
            Some(most) if place.ahead > most => {
                Err(LockError::QueueFull { dir: setup.dir.clone(), len: place.ahead })
            }
            _ => Ok(place),
        }
    }

    /// Of several znodes all must be of one transaction, which is what keeps contenders from waiting for each other. They are
    /// not where a create was sent twice and somebody deleted a part of the first.
    fn check_that_they_belong_together(&self) -> Result<(), LockError> {
        let mut made = self.slots.iter().filter_map(|slot| slot.node.as_ref()).map(|node| node.stat.czxid);
        let first = made.next();
        match made.all(|czxid| Some(czxid) == first) {
            true => Ok(()),
            false => Err(LockError::NodeDeleted { dir: self.setup.dir.clone() }),
        }
    }

    /// Finds who is in the way of those slots that are in the directory of the slot `leading`, and the path of the nearest.
    async fn find_in(
        &mut self,
        leading: usize,
        names: Vec<String>,
    ) -> Result<(Vec<Option<u128>>, Option<String>), LockError> {
        let setup = Arc::clone(&self.setup);
        let dir = self.slots[leading].dir.clone();
        let here = self.slots.iter().filter(|slot| slot.dir == dir);
        let prefixes: Vec<_> = here.map(|slot| slot.prefix.as_str()).collect();
        let found = setup.find(&dir, names, &prefixes, self.role, self.beside.as_deref()).await?;
        let Some(found) = found.filter(|found| found.beside || self.beside.is_none()) else {
            return Err(LockError::NodeDeleted { dir });
        };
        for duplicate in found.duplicates {
            setup.delete(&child(&dir, &duplicate)).await?;
        }
        let here = self.slots.iter_mut().filter(|slot| slot.dir == dir);
        for (slot, name) in here.zip(found.mine) {
            slot.adopt(&setup, &name).await?;
        }
        Ok((found.ahead, found.nearest.map(|nearest| child(&dir, &nearest))))
    }

    /// Waits until nobody is in the way. A lost connection wakes nobody: the watch is set again by the client.
    pub(crate) async fn wait(&mut self, place: Place) -> Result<(), LockError> {
        match self.waiting {
            Waiting::ForNearest => self.wait_for_nearest(place).await,
            Waiting::ForChildren => self.wait_for_children(place).await,
        }
    }

    async fn wait_for_nearest(&mut self, mut place: Place) -> Result<(), LockError> {
        while let Some(nearest) = &place.nearest {
            // getData, not exists: where the znode is gone by now no watch is left.
            match self.setup.client.get_data(nearest).watch().await {
                Ok((_, _, watch)) => match watch.changed().await {
                    // Its data has changed, as when it was asked to give the lock up. It is still in front.
                    Ok(event) if event.kind != EventType::NodeDeleted => continue,
                    Ok(_) | Err(Error::WatchRemoved(_)) => {}
                    Err(error) => return Err(self.setup.error(error)),
                },
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => {
                    self.setup.retry(error).await?;
                    continue;
                }
            }
            place = self.place().await?;
        }
        Ok(())
    }

    async fn wait_for_children(&mut self, mut place: Place) -> Result<(), LockError> {
        while place.nearest.is_some() {
            let watch = self.watch_children().await?;
            place = self.place().await?;
            if place.nearest.is_some() {
                match watch.changed().await {
                    Ok(_) | Err(Error::WatchRemoved(_)) => {}
                    Err(error) => return Err(self.setup.error(error)),
                }
            }
        }
        Ok(())
    }

    async fn watch_children(&mut self) -> Result<Watch, LockError> {
        let dir = &self.slots[0].dir;
        loop {
            match self.setup.client.get_children(dir).watch().await {
                Ok((_, _, watch)) => return Ok(watch),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(LockError::NodeDeleted { dir: dir.clone() });
                }
                Err(error) => self.setup.retry(error).await?,
            }
        }
    }

    /// Deletes every znode with our guid. `Ok(false)` if there was none.
    pub(crate) async fn leave_queue(&mut self) -> Result<bool, LockError> {
        let setup = Arc::clone(&self.setup);
        let mut deleted = false;
        let named: Vec<_> = self.slots.iter().filter_map(|slot| slot.node.as_ref()).collect();
        if !named.is_empty() {
            let paths: Vec<_> = named.iter().map(|node| node.path.as_str()).collect();
            deleted = match named[..] {
                [node] if self.slots.len() == 1 => {
                    counter::delete(&setup, &self.slots[0].dir, &node.path).await?
                }
                _ => setup.delete_all(&paths).await?,
            };
        }
        self.slots.iter_mut().for_each(|slot| slot.node = None);
        if self.uncertain {
            // Behind a sync, as another server of an ensemble may not have seen the create yet.
            setup.sync(&self.slots[0].dir).await?;
            for at in self.leading_slots() {
                let dir = self.slots[at].dir.clone();
                for name in setup.list(&dir).await? {
                    if name::is_of(&name, &self.guid) {
                        deleted |= setup.delete(&child(&dir, &name)).await?;
                    }
                }
            }
            self.uncertain = false;
        }
        Ok(deleted)
    }

    /// What a guard is told of the znodes of a contender whose turn it is.
    pub(crate) fn standing(&self) -> Result<Standing, LockError> {
        let nodes: Vec<_> = self.slots.iter().filter_map(|slot| slot.node.as_ref()).collect();
        let Some(first) = nodes.first().filter(|_| nodes.len() == self.slots.len()) else {
            return Err(LockError::NodeDeleted { dir: self.setup.dir.clone() });
        };
        Ok(Standing {
            token: FencingToken::new(first.stat.czxid),
            nodes: nodes.iter().map(|node| node.path.clone()).collect(),
            epoch: None,
        })
    }

    /// The first slot of each directory.
    fn leading_slots(&self) -> Vec<usize> {
        let is_first = |at: &usize| self.slots[..*at].iter().all(|slot| slot.dir != self.slots[*at].dir);
        (0..self.slots.len()).filter(is_first).collect()
    }

    /// The slots whose directories are listed, in order. Of several all but the last are listed again: that nobody is in front
    /// stays so, but a znode of ours may go, and all must be there at one moment.
    fn listed_slots(&self) -> Vec<usize> {
        let mut slots = self.leading_slots();
        slots.extend_from_within(..slots.len() - 1);
        slots
    }

    fn dirs(&self) -> impl Iterator<Item = &str> {
        self.leading_slots().into_iter().map(|at| self.slots[at].dir.as_str())
    }

    fn send_listings(&self) -> Listings {
        let dirs = self.listed_slots().into_iter().map(|at| &self.slots[at].dir);
        dirs.map(|dir| self.setup.client.get_children(dir).send()).collect()
    }
}

impl Claim for Entrant {
    fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    async fn win(&mut self, queued: &mut Option<Notice>) -> Result<Standing, LockError> {
        self.setup.warnings.look_at_session(&self.setup.client);
        let place = self.enter().await?;
        if let Some(node) = &self.slots[0].node {
            let number = name::parse(&node.path).map_or(0, |parsed| parsed.sequence);
            self.setup.warnings.look_at_number(&self.slots[0].dir, number);
        }
        if place.ahead > 0 {
            if let Some(notice) = queued.take() {
                notice(place.ahead);
            }
        }
        self.wait(place).await?;
        self.standing()
    }

    async fn leave(&mut self) -> Result<bool, LockError> {
        if let Some(rival) = &mut self.rival {
            rival.leave_queue().await?;
        }
        self.leave_queue().await
    }

    async fn change(&mut self, change: Change) -> Result<Standing, LockError> {
        match change {
            Change::Downgrade => self.downgrade().await,
            Change::Upgrade => self.upgrade().await,
        }
    }
}

impl Slot {
    /// Takes the child `name` for our znode. If no reply has named it, its `Stat` is still to be read: the token is in it.
    async fn adopt(&mut self, setup: &Setup, name: &str) -> Result<(), LockError> {
        if self.node.as_ref().is_some_and(|node| node.path.ends_with(name)) {
            return Ok(());
        }
        let path = child(&self.dir, name);
        let stat = setup.stat(&path).await?;
        let stat = stat.ok_or_else(|| LockError::NodeDeleted { dir: self.dir.clone() })?;
        self.node = Some(Created::new(path, stat));
        Ok(())
    }
}
