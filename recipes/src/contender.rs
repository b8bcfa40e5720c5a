//! A contender: stands in the queue of a directory and waits until nobody is in front of it. What every recipe with a
//! queue is made of.
//!
//! What holds here: a contender takes no reply for granted. It knows its znode by a guid that it drew before the first
//! request, so a lost reply costs it nothing; it keeps the first of several znodes with its guid and deletes the others;
//! and it never takes its own absence for its turn.

use bytes::Bytes;
use zoolet_client::{Acl, Client, Created, Error, ErrorCode, EventType, Reply, Stat, parent_of};

use crate::error::LockError;
use crate::name;

/// How often a directory that is gone again is made again before giving up. Containers go when they are empty, so it
/// may happen now and then; every time means that something else is wrong.
const PARENT_ATTEMPTS: usize = 8;

/// What becomes of a directory that is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ParentMode {
    /// It is created as a container, as are those above it, and goes some time after its last contender.
    /// Persistent on servers before 3.5.3, which have no containers.
    #[default]
    Container,
    /// It is created persistent, as are those above it.
    Persistent,
    /// Acquiring fails with [`LockError::NoParent`].
    MustExist,
}

/// What is thought of children that no client known here would have made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ForeignPolicy {
    /// Those that end in a number are contenders and wait their turn; others are ignored. The safe choice.
    #[default]
    Exclusive,
    /// They are ignored.
    Ignore,
    /// Acquiring fails with [`LockError::Foreign`].
    Reject,
}

/// How contenders of a lock behave.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) client: Client,
    pub(crate) dir: String,
    pub(crate) acl: Vec<Acl>,
    pub(crate) parent: ParentMode,
    pub(crate) foreign: ForeignPolicy,
    pub(crate) max_queue: Option<usize>,
}

/// One contender, from its first request to the deletion of its znode.
#[derive(Debug)]
pub(crate) struct Entrant {
    setup: Setup,
    guid: String,
    data: Bytes,
    /// The znode, once a reply has named it.
    node: Option<Created>,
    /// Whether there may be a znode with our guid that no reply has named.
    uncertain: bool,
}

/// A place in the queue.
#[derive(Debug)]
pub(crate) struct Place {
    /// How many contenders are in front.
    pub(crate) ahead: usize,
    /// The path of the nearest of them.
    nearest: Option<String>,
}

/// A child of the directory that is in line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queued {
    key: i64,
    pub(crate) name: String,
}

impl Setup {
    fn child(&self, name: &str) -> String {
        if self.dir == "/" { format!("/{name}") } else { format!("{}/{name}", self.dir) }
    }

    pub(crate) fn error(&self, error: Error) -> LockError {
        LockError::of(&self.dir, error)
    }

    /// The names in the directory; none if there is no directory. Asks again after a lost connection.
    pub(crate) async fn list(&self) -> Result<Vec<String>, LockError> {
        loop {
            match self.client.get_children(&self.dir).await {
                Ok((names, _)) => return Ok(names),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(Vec::new()),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    /// Who of `names` is in line, first in line first.
    pub(crate) async fn queue(&self, names: Vec<String>) -> Result<Vec<Queued>, LockError> {
        let mut queue = Vec::with_capacity(names.len());
        for name in names {
            let parsed = name::parse(&name);
            let counts = match self.foreign {
                ForeignPolicy::Exclusive => parsed.is_some(),
                ForeignPolicy::Ignore => parsed.is_some_and(|parsed| parsed.known),
                ForeignPolicy::Reject if parsed.is_some_and(|parsed| parsed.known) => true,
                ForeignPolicy::Reject => return Err(LockError::Foreign { dir: self.dir.clone(), name }),
            };
            if let (true, Some(parsed)) = (counts, parsed) {
                queue.push(Queued { key: parsed.sequence, name });
            }
        }
        if !name::is_ordered(queue.iter().map(|queued| queued.key)) {
            self.use_czxids(&mut queue).await?;
        }
        queue.sort_unstable();
        Ok(queue)
    }

    /// Puts the transaction that made each znode in the place of its number, which does not tell the order any more.
    /// Contenders that are gone leave the queue.
    async fn use_czxids(&self, queue: &mut Vec<Queued>) -> Result<(), LockError> {
        let replies: Vec<_> =
            queue.iter().map(|queued| self.client.exists(self.child(&queued.name)).send()).collect();
        let mut stats = Vec::with_capacity(replies.len());
        for (reply, queued) in replies.into_iter().zip(queue.iter()) {
            let mut outcome = reply.await;
            while outcome.as_ref().is_err_and(Error::is_retryable) {
                outcome = self.client.exists(self.child(&queued.name)).await;
            }
            stats.push(outcome.map_err(|error| self.error(error))?);
        }
        let mut stats = stats.into_iter();
        queue.retain_mut(|queued| match stats.next().flatten() {
            Some(stat) => {
                queued.key = stat.czxid.0;
                true
            }
            None => false,
        });
        Ok(())
    }

    /// Deletes a znode of ours. Its name is never used again, so it may be tried until it is known to be gone.
    async fn delete(&self, path: &str) -> Result<bool, LockError> {
        loop {
            match self.client.delete(path).await {
                Ok(()) => return Ok(true),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(false),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(self.error(error)),
            }
        }
    }
}

impl Entrant {
    pub(crate) fn new(setup: Setup, data: Bytes) -> Self {
        let guid = guid(&setup.client);
        Self { setup, guid, data, node: None, uncertain: false }
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The znode of a contender whose turn it is.
    pub(crate) fn node(&self) -> Option<&Created> {
        self.node.as_ref()
    }

    /// Enters the queue and finds its place in it: one round trip if the directory is there.
    pub(crate) async fn enter(&mut self) -> Result<Place, LockError> {
        let mut missing_parents = 0;
        loop {
            let parents = if missing_parents > 0 { self.send_parents() } else { Vec::new() };
            // From here on there may be a znode of ours, whatever becomes of this future.
            let doubt = std::mem::replace(&mut self.uncertain, true);
            let path = self.setup.child(&name::prefix(&self.guid));
            let create = self.setup.client.create(path, self.data.clone()).ephemeral().sequential();
            let created = create.acl(self.setup.acl.clone()).send();
            let listed = self.setup.client.get_children(&self.setup.dir).send();
            self.await_parents(parents).await?;
            match created.await {
                Ok(created) => {
                    self.node = Some(created);
                    self.uncertain = doubt;
                    return self.place_after(listed).await;
                }
                // Once more with the same guid. If the first one did arrive, the listing shows both: the second is
                // executed behind it, on whatever server.
                Err(error) if error.is_retryable() => self.uncertain = doubt || error.may_have_applied(),
                Err(error) => match error.code() {
                    Some(code @ (ErrorCode::NoNode | ErrorCode::NoChildrenForEphemerals)) => {
                        let may_help =
                            code == ErrorCode::NoNode && self.setup.parent != ParentMode::MustExist;
                        if !may_help || missing_parents == PARENT_ATTEMPTS {
                            return Err(LockError::NoParent { dir: self.setup.dir.clone(), code });
                        }
                        missing_parents += 1;
                        self.uncertain = doubt;
                    }
                    _ => {
                        self.uncertain = doubt || error.may_have_applied();
                        return Err(self.setup.error(error));
                    }
                },
            }
        }
    }

    async fn place_after(&mut self, listed: Reply<(Vec<String>, Stat)>) -> Result<Place, LockError> {
        match listed.await {
            Ok((names, _)) => self.place_in(names).await,
            Err(error) if error.is_retryable() => self.place().await,
            Err(error) => Err(self.setup.error(error)),
        }
    }

    /// Finds its place anew.
    pub(crate) async fn place(&mut self) -> Result<Place, LockError> {
        let names = self.setup.list().await?;
        self.place_in(names).await
    }

    async fn place_in(&mut self, names: Vec<String>) -> Result<Place, LockError> {
        let queue = self.setup.queue(names).await?;
        let mut mine = (0..queue.len()).filter(|at| name::is_of(&queue[*at].name, &self.guid));
        let Some(ahead) = mine.next() else {
            self.node = None;
            self.uncertain = false;
            return Err(LockError::NodeDeleted { dir: self.setup.dir.clone() });
        };
        for duplicate in mine {
            self.setup.delete(&self.setup.child(&queue[duplicate].name)).await?;
        }
        self.adopt(self.setup.child(&queue[ahead].name)).await?;
        if self.setup.max_queue.is_some_and(|max| ahead > max) {
            return Err(LockError::QueueFull { dir: self.setup.dir.clone(), len: ahead });
        }
        let nearest = ahead.checked_sub(1).map(|before| self.setup.child(&queue[before].name));
        Ok(Place { ahead, nearest })
    }

    /// Takes `path` for our znode. If no reply has named it, its `Stat` is still to be read: the token is in it.
    async fn adopt(&mut self, path: String) -> Result<(), LockError> {
        self.uncertain = false;
        if self.node.as_ref().is_some_and(|node| node.path == path) {
            return Ok(());
        }
        let stat = loop {
            match self.setup.client.exists(&path).await {
                Ok(Some(stat)) => break stat,
                Ok(None) => {
                    self.node = None;
                    return Err(LockError::NodeDeleted { dir: self.setup.dir.clone() });
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(self.setup.error(error)),
            }
        };
        self.node = Some(Created { path, stat });
        Ok(())
    }

    /// Waits until nobody is in front. A lost connection wakes nobody: the watch is set again by the client.
    pub(crate) async fn wait(&mut self, mut place: Place) -> Result<(), LockError> {
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
                Err(error) if error.is_retryable() => continue,
                Err(error) => return Err(self.setup.error(error)),
            }
            place = self.place().await?;
        }
        Ok(())
    }

    /// Leaves the queue: deletes every znode with our guid. `Ok(false)` if there was none.
    ///
    /// # Errors
    /// What keeps the znode there; if that is the end of the session, it goes with it.
    pub(crate) async fn leave(&mut self) -> Result<bool, LockError> {
        let mut deleted = false;
        if let Some(node) = &self.node {
            deleted = self.setup.delete(&node.path).await?;
            self.node = None;
        }
        if self.uncertain {
            // Behind a sync, as another server of an ensemble may not have seen the create yet.
            let _ = self.setup.client.sync(&self.setup.dir).await;
            for name in self.setup.list().await? {
                if name::is_of(&name, &self.guid) {
                    deleted |= self.setup.delete(&self.setup.child(&name)).await?;
                }
            }
            self.uncertain = false;
        }
        Ok(deleted)
    }

    /// Sends the creates of the directory and of everything above it.
    fn send_parents(&self) -> Vec<Reply<Created>> {
        let mut paths = Vec::new();
        let mut path = self.setup.dir.as_str();
        while path != "/" {
            paths.push(path);
            path = parent_of(path);
        }
        let send = |path: &&str| {
            let create = self.setup.client.create(*path, Bytes::new()).acl(self.setup.acl.clone());
            let container = self.setup.parent == ParentMode::Container;
            if container { create.container().send() } else { create.send() }
        };
        paths.iter().rev().map(send).collect()
    }

    /// Whether a parent was created or is there decides the create behind it. Only a server that knows no containers
    /// needs another way.
    async fn await_parents(&mut self, parents: Vec<Reply<Created>>) -> Result<(), LockError> {
        for parent in parents {
            match parent.await {
                Err(error) if error.code() == Some(ErrorCode::Unimplemented) => {
                    self.setup.parent = ParentMode::Persistent;
                }
                Err(error) if error.code() == Some(ErrorCode::NoAuth) => return Err(self.setup.error(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A name that no other contender has. Clients may have a seed in common and draw the same numbers, but never a
/// session: with the guid of another a contender would take that one's znode for its own.
fn guid(client: &Client) -> String {
    let drawn = client.random_u128() ^ u128::from(client.session_id().0 as u64);
    uuid::Builder::from_random_bytes(drawn.to_be_bytes()).into_uuid().to_string()
}
