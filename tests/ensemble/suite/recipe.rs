//! The recipes, each behind the same few verbs.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use zoolet::{Client, Guard, Lock, LockError};

use super::place::{Place, Role};

/// A recipe, and how it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// The fair lock.
    Predecessor,
    /// The same with guards that watch their own znode, and are given after one more write.
    Careful,
}

/// A lock that was acquired.
pub enum Held {
    Guard(Guard),
}

impl Held {
    pub fn guard(&self) -> &Guard {
        match self {
            Self::Guard(guard) => guard,
        }
    }

    pub async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.release().await.map(drop),
        }
    }
}

impl Recipe {
    /// What a contender wants this time.
    pub fn role(self, _rng: &mut StdRng) -> Role {
        Role::Alone
    }

    /// How many things there are to lock.
    pub fn places(self) -> usize {
        1
    }

    /// Which of so many places it wants.
    pub fn choose(self, places: usize, rng: &mut StdRng) -> Vec<usize> {
        vec![rng.random_range(0..places)]
    }

    fn lock(self, zk: &Client, place: &Place) -> Lock {
        let builder = Lock::builder(zk, place.lock());
        match self {
            Self::Predecessor => builder,
            Self::Careful => builder.watch_own_node(true),
        }
        .build()
    }

    pub async fn acquire(
        self,
        zk: &Client,
        places: &[&Place],
        _role: Role,
        patience: Option<Duration>,
    ) -> Result<Held, LockError> {
        let mut acquire = self.lock(zk, places[0]).acquire();
        if let Some(patience) = patience {
            acquire = acquire.timeout(patience);
        }
        if self == Self::Careful {
            acquire = acquire.confirmed();
        }
        acquire.await.map(Held::Guard)
    }

    pub async fn try_acquire(
        self,
        zk: &Client,
        places: &[&Place],
        _role: Role,
    ) -> Result<Option<Held>, LockError> {
        Ok(self.lock(zk, places[0]).try_acquire().await?.map(Held::Guard))
    }

    /// The paths of the znodes of all contenders.
    pub async fn contenders(self, zk: &Client, place: &Place) -> Result<Vec<String>, LockError> {
        let contenders = self.lock(zk, place).contenders().await?;
        Ok(contenders.into_iter().map(|contender| format!("{}/{}", place.lock(), contender.name)).collect())
    }
}
