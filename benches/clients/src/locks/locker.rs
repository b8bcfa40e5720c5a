//! A common interface to the two locks.

use std::error::Error;
use std::mem;
use std::rc::Rc;

use clap::ValueEnum;
use zookeeper_client::{Acls, CreateMode, LockPrefix};
use zoolet_client::ErrorCode;
use zoolet_recipes::Lock;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The lock's implementation.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// Our lock.
    Zoolet,
    /// That of the crate zookeeper-client, with Curator's names.
    ZookeeperClient,
    /// The same, with names without a guid.
    ZookeeperClientShared,
}

/// How the lock is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// Awaited: until the znode is deleted. The crate zookeeper-client has no such release: its guard is forgotten, and the
    /// znode deleted by its client.
    Awaited,
    /// The guard is dropped.
    Dropped,
}

impl std::str::FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "awaited" => Ok(Self::Awaited),
            "dropped" => Ok(Self::Dropped),
            _ => Err(format!("no way to release: {text}")),
        }
    }
}

/// A session and its lock. Clones share both.
#[derive(Clone)]
pub(crate) enum Locker {
    Zoolet { client: zoolet_client::Client, lock: Lock },
    ZookeeperClient { client: zookeeper_client::Client, prefix: Prefix },
}

/// The prefix of names in the directory.
#[derive(Clone)]
pub(crate) enum Prefix {
    Curator(Rc<str>),
    Shared(Rc<str>),
}

impl Prefix {
    fn get(&self) -> Result<LockPrefix<'_>, zookeeper_client::Error> {
        match self {
            Self::Curator(dir) => LockPrefix::new_curator(dir, "lock-"),
            Self::Shared(prefix) => LockPrefix::new_shared(prefix),
        }
    }
}

impl Locker {
    /// Opens a session and creates the directory, which remains.
    pub(crate) async fn open(kind: Kind, addr: &str, dir: &str) -> Outcome<Self> {
        let prefix = match kind {
            Kind::Zoolet => {
                let client = zoolet_client::Client::connect(addr).await?;
                match client.create(dir, "").await {
                    Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(error.into()),
                    _ => {}
                }
                let lock = Lock::new(&client, dir);
                return Ok(Self::Zoolet { client, lock });
            }
            Kind::ZookeeperClient => Prefix::Curator(dir.into()),
            Kind::ZookeeperClientShared => Prefix::Shared(format!("{dir}/lock-").into()),
        };
        let client = zookeeper_client::Client::connect(addr).await?;
        match client.create(dir, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
            Err(error) if error != zookeeper_client::Error::NodeExists => Err(error.into()),
            _ => Ok(Self::ZookeeperClient { client, prefix }),
        }
    }

    /// Acquires the lock, calls `held`, and releases it.
    pub(crate) async fn turn(&self, release: Release, held: impl FnOnce()) -> Outcome {
        match self {
            Self::Zoolet { lock, .. } => {
                let guard = lock.acquire().await?;
                held();
                if release == Release::Awaited {
                    guard.release().await?;
                }
            }
            Self::ZookeeperClient { client, prefix } => {
                let lock = client.lock(prefix.get()?, b"", Acls::anyone_all()).await?;
                held();
                if release == Release::Awaited {
                    client.delete(lock.lock_path(), None).await?;
                    // A drop would delete the znode again.
                    mem::forget(lock);
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn close(self) -> Outcome {
        if let Self::Zoolet { client, .. } = self {
            client.close().await?;
        }
        Ok(())
    }
}
