//! What the contenders of one lock have in common: its directory, its settings, and the requests that every recipe makes
//! in the same way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client, Create, Created, Error, ErrorCode, Reply, SessionState, Stat, parent_of};

use crate::error::LockError;
use crate::hold::SuspendPolicy;
use crate::warning::Warnings;

/// How long to wait before asking again what a server has refused for the moment, such as a write while it is cut off.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

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
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) client: Client,
    pub(crate) dir: String,
    pub(crate) acl: Vec<Acl>,
    pub(crate) parent: ParentMode,
    pub(crate) foreign: ForeignPolicy,
    pub(crate) max_queue: Option<usize>,
    pub(crate) policy: SuspendPolicy,
    pub(crate) watch_own_node: bool,
    pub(crate) strict: bool,
    pub(crate) warnings: Arc<Warnings>,
}

impl Setup {
    pub(crate) fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self {
            client: client.clone(),
            dir: dir.into(),
            acl: Acl::open(),
            parent: ParentMode::default(),
            foreign: ForeignPolicy::default(),
            max_queue: None,
            policy: SuspendPolicy::default(),
            watch_own_node: false,
            strict: false,
            warnings: Arc::default(),
        }
    }

    /// A name that no other contender has. Clients may have a seed in common and draw the same numbers, but never a
    /// session: with the guid of another a contender would take that one's znode for its own.
    pub(crate) fn draw_guid(&self) -> String {
        let drawn = self.client.random_u128() ^ u128::from(self.client.session_id().0 as u64);
        let mut bytes = drawn.to_be_bytes();
        // Without dashes it may begin a kazoo name, which Curator compares as a text with the numbers of its own
        // contenders: one that begins with 0, 1 or 2 could come before them.
        bytes[0] |= 0x80;
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// What a client's error means to this lock.
    pub(crate) fn error(&self, error: Error) -> LockError {
        LockError::of(&self.dir, error)
    }

    /// Whether what was asked is to be asked again, which is waited for where the server said "not now"; else the
    /// error. A connection that is lost needs no wait, as the next request waits for another.
    pub(crate) async fn retry(&self, error: Error) -> Result<(), LockError> {
        if !error.is_retryable() {
            return Err(self.error(error));
        }
        let refused = matches!(error, Error::Refused { .. } | Error::MultiRefused { .. });
        if error.code() == Some(ErrorCode::NotReadOnly) {
            // The client looks for a server that takes writes; to ask this one again is of no use.
            let mut states = self.client.states();
            while states.next().await == Some(SessionState::ConnectedReadOnly) {}
        } else if refused && error.code() != Some(ErrorCode::SessionMoved) {
            self.client.clock().sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The names in `dir`, as an earlier request has asked for them or as a new one finds them; none if there is no such
    /// directory.
    pub(crate) async fn listed(
        &self,
        dir: &str,
        mut asked: Reply<(Vec<String>, Stat)>,
    ) -> Result<Vec<String>, LockError> {
        loop {
            match asked.await {
                Ok((names, _)) => return Ok(names),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(Vec::new()),
                Err(error) => self.retry(error).await?,
            }
            asked = self.client.get_children(dir).send();
        }
    }

    /// The names in `dir`; none if there is no such directory.
    pub(crate) async fn list(&self, dir: &str) -> Result<Vec<String>, LockError> {
        self.listed(dir, self.client.get_children(dir).send()).await
    }

    /// Has the server of this connection know all that is under way, such as a create of ours at another one.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), LockError> {
        loop {
            match self.client.sync(path).await {
                Ok(()) => return Ok(()),
                Err(error) => self.retry(error).await?,
            }
        }
    }

    /// The `Stat` of a znode, or `None` if there is no such znode.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>, LockError> {
        loop {
            match self.client.exists(path).await {
                Ok(stat) => return Ok(stat),
                Err(error) => self.retry(error).await?,
            }
        }
    }

    /// Deletes a znode of ours. Its name is never used again, so it may be tried until it is known to be gone.
    pub(crate) async fn delete(&self, path: &str) -> Result<bool, LockError> {
        let mut may_be_done = false;
        loop {
            match self.client.delete(path).await {
                Ok(()) => return Ok(true),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(may_be_done),
                Err(error) => {
                    may_be_done |= error.may_have_applied();
                    self.retry(error).await?;
                }
            }
        }
    }

    /// Deletes several znodes of ours, in one transaction unless one of them is gone already.
    pub(crate) async fn delete_all(&self, paths: &[&str]) -> Result<bool, LockError> {
        if let [path] = paths {
            return self.delete(path).await;
        }
        let mut deleted = false;
        loop {
            let multi = paths.iter().fold(self.client.multi(), |multi, path| multi.delete(*path));
            match multi.commit().await {
                Ok(_) => return Ok(!paths.is_empty()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => break,
                Err(error) => {
                    deleted |= error.may_have_applied();
                    self.retry(error).await?;
                }
            }
        }
        for path in paths {
            deleted |= self.delete(path).await?;
        }
        Ok(deleted)
    }

    /// A create for the directory of a lock or one above it.
    pub(crate) fn directory<'c>(&'c self, path: &str, data: Bytes, containers: bool) -> Create<'c> {
        let create = self.client.create(path, data).acl(self.acl.clone());
        if containers { create.container() } else { create }
    }
}

/// The directories that contenders need, and how often they were made.
#[derive(Debug)]
pub(crate) struct Parents {
    containers: bool,
    attempts: usize,
    /// Whether the right to create one of them was missing. One that is there already may be refused so as well.
    denied: bool,
}

/// How often a directory that is gone again is made again before giving up. Containers go when they are empty, so it
/// may happen now and then; every time means that something else is wrong.
const ATTEMPTS: usize = 8;

impl Parents {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self { containers: setup.parent == ParentMode::Container, attempts: 0, denied: false }
    }

    /// Takes the refusal of a create for want of a directory. Ok if it makes sense to create that.
    pub(crate) fn missing(&mut self, setup: &Setup, code: ErrorCode) -> Result<(), LockError> {
        let may_help = code == ErrorCode::NoNode && setup.parent != ParentMode::MustExist;
        if !may_help || self.attempts == ATTEMPTS {
            return Err(LockError::NoParent { dir: setup.dir.clone(), code });
        }
        if self.denied {
            return Err(LockError::NoAuth { dir: setup.dir.clone() });
        }
        self.attempts += 1;
        Ok(())
    }

    /// Sends the creates of `dirs` and of everything above them, if one was missing; the data is for `dirs` alone.
    pub(crate) fn send<'d>(
        &self,
        setup: &Setup,
        dirs: impl Iterator<Item = (&'d str, Bytes)>,
    ) -> Vec<Reply<Created>> {
        let mut sent = Vec::new();
        if self.attempts == 0 {
            return sent;
        }
        for (dir, data) in dirs {
            let mut above = Vec::new();
            let mut path = parent_of(dir);
            while path != "/" {
                above.push(path);
                path = parent_of(path);
            }
            for path in above.into_iter().rev() {
                sent.push(setup.directory(path, Bytes::new(), self.containers).send());
            }
            if dir != "/" {
                sent.push(setup.directory(dir, data, self.containers).send());
            }
        }
        sent
    }

    /// Takes the answers. Whether a directory was created or is there decides the create behind it; only a server that
    /// knows no containers needs another way.
    pub(crate) async fn take(&mut self, sent: Vec<Reply<Created>>) {
        for reply in sent {
            match reply.await.map_err(|error| error.code()) {
                Err(Some(ErrorCode::Unimplemented)) => self.containers = false,
                Err(Some(ErrorCode::NoAuth)) => self.denied = true,
                _ => {}
            }
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("client", &self.client)
            .field("dir", &self.dir)
            .field("parent", &self.parent)
            .field("foreign", &self.foreign)
            .finish_non_exhaustive()
    }
}
