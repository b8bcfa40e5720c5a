//! [`Services`]: the instances of services, as they are registered.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use zoolet_client::internal::{ClientExt as _, SessionsExt as _};
use zoolet_client::{Clock, Sessions, Zxid};

use super::error::DiscoveryError;
use super::format::{CuratorFormat, InstanceFormat};
use super::instance::Instance;
use super::selector::{SelectorBuilder, Strategy};
use crate::cache::{Cache, CacheError, Entry, Snapshot, Undecodable, UnreadableReason};
use crate::path::child;

/// The cache below a base. A znode that is not an instance, such as that of a service, has the value `None`.
pub type InstanceCache = Cache<Option<Arc<Instance>>>;

/// The instances of all services below a base, or of some, in memory.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::discovery::{Services, Strategy};
///
/// # async fn call(uri: String) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let services = Services::builder(&sessions, "/services").open().await?;
/// let web = services.selector("web", Strategy::LeastLoaded).build();
/// // `chosen` counts as a call in flight until it is dropped.
/// let chosen = web.select().ok_or("no instance of web")?;
/// if call(chosen.uri()).await.is_err() {
///     chosen.note_error();
/// }
/// # Ok(()) }
/// ```
///
/// They are a [`Cache`]: never a mix of two states, and never wrong for ever after a reconnect. While there is no connection the last
/// state stays: that the registry cannot be reached says nothing about the services. What one instance has written, whatever that
/// is, only concerns that instance ([`ServiceInstances::undecodable`]).
#[derive(Debug, Clone)]
pub struct Services {
    base: Arc<str>,
    cache: InstanceCache,
    clock: Clock,
    seed: u64,
}

/// Services that are not looked up yet, from [`Services::builder`].
#[derive(Debug)]
#[must_use = "services are looked up by `.open()`"]
pub struct ServicesBuilder {
    sessions: Sessions,
    base: String,
    format: Arc<dyn InstanceFormat>,
    only: Option<BTreeSet<String>>,
}

impl Services {
    /// Begins to configure a lookup of the services below `base`, which need not exist.
    pub fn builder(sessions: &Sessions, base: impl Into<String>) -> ServicesBuilder {
        let format = Arc::new(CuratorFormat::default());
        ServicesBuilder { sessions: sessions.clone(), base: base.into(), format, only: None }
    }

    /// The names of the services, sorted. One whose last instance is gone remains for a while.
    pub fn names(&self) -> Vec<String> {
        self.cache.snapshot().children(&self.base).map(|entry| entry.name().to_owned()).collect()
    }

    /// The instances of a service; none if it is unknown.
    pub fn service(&self, name: &str) -> ServiceInstances {
        ServiceInstances::of(&self.cache.snapshot(), &self.dir(name))
    }

    /// Begins to configure how an instance of the service is chosen for each call.
    pub fn selector(&self, name: &str, strategy: Strategy) -> SelectorBuilder {
        SelectorBuilder::new(self.cache.clone(), self.dir(name), self.clock.clone(), self.seed, strategy)
    }

    /// The cache: its [changes](Cache::changes), and how [fresh](Cache::fresh) it is.
    pub fn cache(&self) -> &InstanceCache {
        &self.cache
    }

    fn dir(&self, name: &str) -> String {
        child(&self.base, name)
    }
}

impl ServicesBuilder {
    /// How instances are written.
    ///
    /// Default: [`CuratorFormat`], which reads both modes.
    pub fn format(mut self, format: impl InstanceFormat) -> Self {
        self.format = Arc::new(format);
        self
    }

    /// Only these services. Others are not read and not kept.
    ///
    /// Default: all.
    pub fn only<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.only = Some(names.into_iter().map(S::into).collect());
        self
    }

    /// Reads the services. Without a connection it waits for one.
    ///
    /// # Errors
    /// `Cache`, as [`CacheBuilder::open`](crate::CacheBuilder::open).
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn open(self) -> Result<Services, DiscoveryError> {
        let Self { sessions, base, format, only } = self;
        let client = sessions.client().await.map_err(CacheError::SessionsEnded)?;
        let seed = client.random_u128() as u64;
        let prefix = child(&base, "");
        let mut cache = Cache::builder(&sessions, &base).max_depth(2);
        if let Some(only) = only {
            let prefix = prefix.clone();
            cache = cache.filter(move |path| {
                let service = path.strip_prefix(&prefix).and_then(|below| below.split('/').next());
                service.is_some_and(|service| only.contains(service))
            });
        }
        let cache = cache.decode(move |path, data| {
            let Some((service, node)) = path.strip_prefix(&prefix).and_then(|below| below.split_once('/'))
            else {
                return Ok(None);
            };
            Ok(format.decode(service, node, data)?.map(Arc::new))
        });
        let cache = cache.open().await?;
        Ok(Services { base: base.into(), cache, clock: sessions.clock().clone(), seed })
    }
}

/// The instances of a service at one zxid, sorted by the names of their znodes: with Curator's format, by their ids.
#[derive(Debug, Clone)]
pub struct ServiceInstances {
    instances: Vec<Arc<Instance>>,
    undecodable: Vec<(String, Undecodable)>,
    unreadable: Vec<(String, UnreadableReason)>,
    as_of: Zxid,
    stale_since: Option<Instant>,
}

impl ServiceInstances {
    fn of(snapshot: &Snapshot<Option<Arc<Instance>>>, dir: &str) -> Self {
        let (mut instances, mut undecodable) = (Vec::new(), Vec::new());
        for entry in snapshot.children(dir) {
            match entry.value() {
                Ok(Some(instance)) => instances.push(Arc::clone(instance)),
                Ok(None) => {}
                Err(error) => undecodable.push((entry.name().to_owned(), error)),
            }
        }
        let prefix = child(dir, "");
        let below = |(path, reason): (&str, _)| Some((path.strip_prefix(&prefix)?.to_owned(), reason));
        let unreadable = snapshot.unreadable().filter_map(below).collect();
        let (as_of, stale_since) = (snapshot.as_of(), snapshot.stale_since());
        Self { instances, undecodable, unreadable, as_of, stale_since }
    }

    /// The instances, enabled or not.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.instances.iter()
    }

    /// The number of instances.
    pub fn len(&self) -> usize {
        self.instances.len()
    }

    /// Whether there is no instance.
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// The znodes whose data is not an instance, each with the reason.
    pub fn undecodable(&self) -> &[(String, Undecodable)] {
        &self.undecodable
    }

    /// The znodes that may not be read, each with the reason.
    pub fn unreadable(&self) -> &[(String, UnreadableReason)] {
        &self.unreadable
    }

    /// As [`Snapshot::as_of`].
    pub fn as_of(&self) -> Zxid {
        self.as_of
    }

    /// As [`Snapshot::stale_since`].
    pub fn stale_since(&self) -> Option<Instant> {
        self.stale_since
    }
}

/// The instance of an entry, if it has one.
pub(super) fn instance_of(entry: &Entry<Option<Arc<Instance>>>) -> Option<&Arc<Instance>> {
    entry.value().ok()?.as_ref()
}
