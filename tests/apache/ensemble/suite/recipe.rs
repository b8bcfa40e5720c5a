//! The recipes, each with the same few verbs.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use zoolet::recipes::{
    Acquire, Algorithm, Compat, Contender, Election, Leadership, Markers, MultiLock, Permit, ReadGuard,
    RwLock, Semaphore, WriteGuard,
};
use zoolet::{Client, Guard, Lock, LockError};

use super::place::Place;
use super::room::{Role, SLOTS};

/// A recipe, and how it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// The fair lock.
    Predecessor,
    /// The same with guards that watch their own znode, and are given after one more write.
    Careful,
    ChildrenWatch,
    SingleNode,
    DualKazoo,
    RwLock(Markers),
    Semaphore,
    /// Two of three locks at a time.
    MultiLock,
    Election,
}

/// A lock that was acquired.
pub enum Held {
    Guard(Guard),
    Reader(ReadGuard),
    Writer(WriteGuard),
    Permit(Permit),
    Leader(Leadership),
}

impl Held {
    pub fn guard(&self) -> &Guard {
        match self {
            Self::Guard(guard) => guard,
            Self::Reader(guard) => guard,
            Self::Writer(guard) => guard,
            Self::Permit(guard) => guard,
            Self::Leader(guard) => guard,
        }
    }

    pub async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Reader(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Leader(leader) => leader.resign().await,
        }
        .map(drop)
    }

    /// Makes a reader of a writer, and a writer of a reader that is alone; whether that was done, and the error that
    /// says why not.
    pub async fn turn(self) -> (Self, Result<(), LockError>) {
        match self {
            Self::Writer(writer) => match writer.downgrade().await {
                Ok(reader) => (Self::Reader(reader), Ok(())),
                Err((writer, error)) => (Self::Writer(writer), Err(error)),
            },
            Self::Reader(reader) => match reader.try_upgrade().await {
                Ok(writer) => (Self::Writer(writer), Ok(())),
                Err((reader, error)) => (Self::Reader(reader), Err(error)),
            },
            other => (other, Ok(())),
        }
    }
}

impl Recipe {
    /// How many things there are to lock.
    pub fn places(self) -> usize {
        if self == Self::MultiLock { 3 } else { 1 }
    }

    /// Which of them a contender wants this time.
    pub fn choose(self, rng: &mut StdRng) -> Vec<usize> {
        (0..self.places()).sample(rng, if self == Self::MultiLock { 2 } else { 1 })
    }

    /// How it wants to be in there.
    pub fn role(self, rng: &mut StdRng) -> Role {
        match self {
            Self::RwLock(_) if rng.random_bool(0.6) => Role::Shared,
            Self::Semaphore => Role::Some(rng.random_range(1..SLOTS)),
            _ => Role::Alone,
        }
    }

    /// Whether an election is watched, too.
    pub fn election(self, zk: &Client, place: &Place) -> Option<Election> {
        (self == Self::Election).then(|| Election::new(zk, place.lock()))
    }

    fn lock(self, zk: &Client, place: &Place) -> Lock {
        let lock = Lock::builder(zk, place.lock());
        match self {
            Self::Careful => lock.watch_own_node(true),
            Self::ChildrenWatch => lock.algorithm(Algorithm::ChildrenWatch),
            Self::SingleNode => lock.algorithm(Algorithm::SingleNode),
            Self::DualKazoo => lock.compat(Compat::DualKazoo),
            _ => lock,
        }
        .build()
    }

    fn semaphore(zk: &Client, place: &Place) -> Semaphore {
        Semaphore::new(zk, place.lock(), SLOTS)
    }

    pub async fn acquire(
        self,
        zk: &Client,
        places: &[&Place],
        role: Role,
        limit: Option<Duration>,
    ) -> Result<Held, LockError> {
        fn within<G>(acquire: Acquire<G>, limit: Option<Duration>) -> Acquire<G> {
            limit.into_iter().fold(acquire, |acquire, limit| acquire.timeout(limit))
        }
        let dirs = places.iter().map(|place| place.lock());
        match (self, role) {
            (Self::RwLock(markers), _) => {
                let lock = RwLock::builder(zk, places[0].lock()).markers(markers).build();
                match role {
                    Role::Shared => within(lock.read(), limit).await.map(Held::Reader),
                    _ => within(lock.write(), limit).await.map(Held::Writer),
                }
            }
            (Self::Semaphore, Role::Some(permits)) => {
                let semaphore = Self::semaphore(zk, places[0]);
                within(semaphore.acquire(permits), limit).await.map(Held::Permit)
            }
            (Self::MultiLock, _) => within(MultiLock::over(zk, dirs).acquire(), limit).await.map(Held::Guard),
            (Self::Election, _) => {
                let campaign = Election::new(zk, places[0].lock()).campaign("candidate");
                within(campaign, limit).await.map(Held::Leader)
            }
            (Self::Careful, _) => {
                within(self.lock(zk, places[0]).acquire().confirmed(), limit).await.map(Held::Guard)
            }
            _ => within(self.lock(zk, places[0]).acquire(), limit).await.map(Held::Guard),
        }
    }

    /// `None` also where there is no such thing.
    pub async fn try_acquire(
        self,
        zk: &Client,
        places: &[&Place],
        role: Role,
    ) -> Result<Option<Held>, LockError> {
        let dirs = places.iter().map(|place| place.lock());
        Ok(match (self, role) {
            (Self::RwLock(markers), _) => {
                let lock = RwLock::builder(zk, places[0].lock()).markers(markers).build();
                match role {
                    Role::Shared => lock.try_read().await?.map(Held::Reader),
                    _ => lock.try_write().await?.map(Held::Writer),
                }
            }
            (Self::Semaphore, Role::Some(permits)) => {
                Self::semaphore(zk, places[0]).try_acquire(permits).await?.map(Held::Permit)
            }
            (Self::MultiLock, _) => MultiLock::over(zk, dirs).try_acquire().await?.map(Held::Guard),
            (Self::Election, _) => None,
            _ => self.lock(zk, places[0]).try_acquire().await?.map(Held::Guard),
        })
    }

    /// All holders and waiters.
    pub async fn contenders(self, zk: &Client, place: &Place) -> Result<Vec<Contender>, LockError> {
        match self {
            Self::RwLock(_) => RwLock::new(zk, place.lock()).contenders().await,
            Self::Semaphore => {
                let semaphore = Self::semaphore(zk, place);
                let mut all = semaphore.contenders().await?;
                all.extend(semaphore.holders().await?);
                Ok(all)
            }
            Self::Election => Election::new(zk, place.lock()).contenders().await,
            _ => self.lock(zk, place).contenders().await,
        }
    }
}
