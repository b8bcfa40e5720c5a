//! The recipes under test: where the contenders of each queue, how one acquires, and what it then holds.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zoolet::recipes::{
    Acquire, Algorithm, Compat, Election, Leadership, MultiLock, Permit, ReadGuard, Released, RwLock,
    Semaphore, SuspendPolicy, WriteGuard,
};
use zoolet::{Client, Guard, HoldState, Lock, LockError};

use crate::locks::rules::Rule;

/// Where contenders queue.
pub const DIR: &str = "/locks/ledger";
/// A second lock that is taken together with the first.
pub const OTHER: &str = "/locks/journal";
/// Where a semaphore has its queue and its permits, and how many of these there are.
pub const QUEUE: &str = "/locks/ledger/locks";
pub const LEASES: &str = "/locks/ledger/leases";
pub const PERMITS: usize = 2;

/// How many children a directory has had whose counter is half used, and one whose counter is at its end.
pub const HALF: u32 = 1 << 30;
pub const END: u32 = i32::MAX as u32;

/// A recipe under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    Predecessor,
    ChildrenWatch,
    SingleNode,
    DualKazoo,
    ReadWrite,
    Semaphore,
    MultiLock,
    Election,
}

/// As what a contender takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Alone.
    Exclusive,
    /// Beside other readers.
    Shared,
    /// With so many permits.
    Permits(usize),
}

/// How a contender acquires.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub part: Part,
    pub timeout: Option<Duration>,
    pub confirmed: bool,
    pub watch_own_node: bool,
    pub strict: bool,
    pub on_suspend: SuspendPolicy,
    /// Whether to take it only if it is free.
    pub try_only: bool,
}

/// What was acquired.
#[derive(Debug)]
pub enum Held {
    Guard(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    Leadership(Leadership),
}

pub type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Held>, LockError>> + Send>>;
pub type Releasing = Pin<Box<dyn Future<Output = Result<Released, LockError>> + Send>>;

impl Recipe {
    pub const ALL: [Self; 8] = [
        Self::Predecessor,
        Self::ChildrenWatch,
        Self::SingleNode,
        Self::DualKazoo,
        Self::ReadWrite,
        Self::Semaphore,
        Self::MultiLock,
        Self::Election,
    ];

    /// What exists from the start, so that no contender has to create it.
    pub fn directories(self) -> &'static [&'static str] {
        match self {
            Self::SingleNode => &["/locks/ledger.epoch"],
            Self::Semaphore => &[QUEUE, LEASES],
            Self::MultiLock => &[DIR, OTHER],
            _ => &[DIR],
        }
    }

    /// The rule for who holds it, as the server sees it.
    pub fn rule(self) -> Rule {
        match self {
            Self::Predecessor | Self::Election => Rule::First,
            Self::ChildrenWatch => Rule::FirstOfAll,
            Self::SingleNode => Rule::Single,
            Self::DualKazoo => Rule::Together { dirs: &[DIR], znodes: 2 },
            Self::ReadWrite => Rule::ReadWrite,
            Self::Semaphore => Rule::Permits(PERMITS),
            Self::MultiLock => Rule::Together { dirs: &[OTHER, DIR], znodes: 2 },
        }
    }

    /// As what its contenders may take part.
    pub fn parts(self) -> &'static [Part] {
        match self {
            Self::ReadWrite => &[Part::Exclusive, Part::Shared],
            Self::Semaphore => &[Part::Permits(1), Part::Permits(2)],
            _ => &[Part::Exclusive],
        }
    }

    /// Whether a contender in this role holds it alone.
    pub fn is_exclusive(self, part: Part) -> bool {
        part == Part::Exclusive || part == Part::Permits(PERMITS)
    }

    /// How many znodes a waiter has.
    pub fn znodes_of_waiter(self) -> usize {
        match self {
            Self::SingleNode => 0,
            Self::DualKazoo | Self::MultiLock => 2,
            _ => 1,
        }
    }

    /// Acquires it, or tries to: `None` if it is not free then.
    pub fn acquire(self, zk: &Client, terms: Terms, name: String) -> Acquiring {
        // What is common to all, though they have no type in common.
        macro_rules! build {
            ($builder:expr) => {
                $builder
                    .watch_own_node(terms.watch_own_node)
                    .strict(terms.strict)
                    .on_suspend(terms.on_suspend)
                    .build()
            };
        }
        macro_rules! take {
            ($held:expr, $acquire:expr, $attempt:expr) => {
                Box::pin(async move {
                    if terms.try_only {
                        return Ok($attempt.await?.map($held));
                    }
                    let acquire = terms.dress($acquire, name);
                    Ok(Some($held(acquire.await?)))
                })
            };
        }
        let plain = |algorithm, compat| build!(Lock::builder(zk, DIR).algorithm(algorithm).compat(compat));
        let lock = match self {
            Self::Predecessor => plain(Algorithm::Predecessor, Compat::Curator),
            Self::ChildrenWatch => plain(Algorithm::ChildrenWatch, Compat::Curator),
            Self::SingleNode => plain(Algorithm::SingleNode, Compat::Curator),
            Self::DualKazoo => plain(Algorithm::Predecessor, Compat::DualKazoo),
            Self::ReadWrite => {
                let lock = build!(RwLock::builder(zk, DIR));
                return match terms.part {
                    Part::Shared => take!(Held::Read, lock.read(), lock.try_read()),
                    _ => take!(Held::Write, lock.write(), lock.try_write()),
                };
            }
            Self::Semaphore => {
                let Part::Permits(permits) = terms.part else { panic!("permits of a semaphore") };
                let semaphore = build!(Semaphore::builder(zk, DIR, PERMITS));
                return take!(Held::Permit, semaphore.acquire(permits), semaphore.try_acquire(permits));
            }
            Self::MultiLock => {
                let locks = build!(MultiLock::builder(zk, [DIR, OTHER]));
                return take!(Held::Guard, locks.acquire(), locks.try_acquire());
            }
            Self::Election => {
                let election = build!(Election::builder(zk, DIR));
                let terms = Terms { try_only: false, ..terms };
                return Box::pin(async move {
                    let campaign = terms.dress(election.campaign(name.clone()), name);
                    Ok(Some(Held::Leadership(campaign.await?)))
                });
            }
        };
        take!(Held::Guard, lock.acquire(), lock.try_acquire())
    }
}

impl Terms {
    fn dress<G>(self, acquire: Acquire<G>, name: String) -> Acquire<G> {
        let acquire = acquire.data(name);
        let acquire = match self.timeout {
            Some(timeout) => acquire.timeout(timeout),
            None => acquire,
        };
        if self.confirmed { acquire.confirmed() } else { acquire }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            part: Part::Exclusive,
            timeout: None,
            confirmed: false,
            watch_own_node: false,
            strict: false,
            on_suspend: SuspendPolicy::default(),
            try_only: false,
        }
    }
}

impl Held {
    pub fn guard(&self) -> &Guard {
        match self {
            Self::Guard(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permit(permit) => permit,
            Self::Leadership(leadership) => leadership,
        }
    }

    pub fn is_lost(&self) -> bool {
        matches!(self.guard().state(), HoldState::Lost(_))
    }

    pub fn release(self) -> Releasing {
        match self {
            Self::Guard(guard) => Box::pin(guard.release()),
            Self::Read(guard) => Box::pin(guard.release()),
            Self::Write(guard) => Box::pin(guard.release()),
            Self::Permit(permit) => Box::pin(permit.release()),
            Self::Leadership(leadership) => Box::pin(leadership.resign()),
        }
    }

    /// Makes a reader of a writer and a writer of a reader; everything else stays what it is.
    pub async fn change(self) -> (Self, Result<(), LockError>) {
        match self {
            Self::Write(guard) => match guard.downgrade().await {
                Ok(guard) => (Self::Read(guard), Ok(())),
                Err((guard, error)) => (Self::Write(guard), Err(error)),
            },
            Self::Read(guard) => match guard.try_upgrade().await {
                Ok(guard) => (Self::Write(guard), Ok(())),
                Err((guard, error)) => (Self::Read(guard), Err(error)),
            },
            other => (other, Ok(())),
        }
    }
}
