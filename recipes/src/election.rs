//! [`Election`]: one leader at a time, whom everybody can see.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error, ErrorCode, SessionId};

use crate::acquire::{Acquire, Plan};
use crate::builder::LockBuilder;
use crate::contender::{Entry, Waiting};
use crate::error::LockError;
use crate::guard::{FencingToken, Guard, Released};
use crate::lock::{Contender, contenders};
use crate::name::LATCH;
use crate::queue::{Role, child};
use crate::setup::Setup;

/// An election: candidates queue, the first is the leader until it resigns or its session ends.
///
/// Its names are those of Curator's `LeaderLatch`, so that both may stand for the same office.
#[derive(Debug, Clone)]
pub struct Election {
    pub(crate) setup: Arc<Setup>,
}

/// An office that is held. Everything else is that of a [`Guard`].
#[derive(Debug)]
#[must_use = "the leader resigns when this is dropped"]
pub struct Leadership(Guard);

/// Who leads, as [`Election::observe`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What the leader said of itself when it campaigned.
    pub data: Bytes,
    /// The path of its znode.
    pub path: String,
    /// Its session.
    pub session: SessionId,
    /// The fencing token of its leadership.
    pub token: FencingToken,
}

impl Election {
    /// The election whose candidates queue in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self::builder(client, dir).build()
    }

    /// Settings for the election whose candidates queue in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>) -> LockBuilder<Election> {
        LockBuilder { lock: Self { setup: Arc::new(Setup::new(client, dir)) } }
    }

    /// Stands for election and waits to be the leader. `data` is what others see of this candidate, such as where it is
    /// reached; Curator takes it for the id of the participant.
    pub fn campaign(&self, data: impl Into<Bytes>) -> Acquire<Leadership> {
        let entry = Entry {
            places: vec![(self.setup.dir.clone(), LATCH)],
            role: Role::Exclusive,
            waiting: Waiting::ForNearest,
            limit: self.setup.max_queue,
        };
        Acquire::new(Arc::clone(&self.setup), Plan::Queue(entry)).data(data)
    }

    /// Tells who leads, and whenever that changes; `None` while nobody does. Of changes that follow each other quickly
    /// the later may be told alone. What it tells may be over when it is read: only the leader's own
    /// [`fenced`](Guard::fenced) writes are sure.
    ///
    /// # Ordering and cancel safety
    /// Leaders come in the order of their tokens. Ends with an error that nothing can be done about, such as the end of the
    /// session. Dropping it takes its watches back.
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn observe(&self) -> Leaders {
        let (told, next) = mpsc::channel(1);
        let setup = Arc::clone(&self.setup);
        setup.client.runtime().clone().spawn(async move {
            let over = tokio::select! {
                biased;
                () = told.closed() => return,
                over = follow(&setup, &told) => over,
            };
            if let Err(error) = over {
                let _ = told.send(Err(error)).await;
            }
        });
        Leaders(next)
    }

    /// The leader and the candidates behind it, in the order in which they come to lead.
    ///
    /// # Errors
    /// As of [`Lock::contenders`](crate::Lock::contenders).
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.setup, &self.setup.dir).await
    }
}

impl Leadership {
    /// Lets the next candidate lead, and waits until this one does not any more; see [`Guard::release`].
    pub fn resign(self) -> impl Future<Output = Result<Released, LockError>> + Send + 'static + use<> {
        self.0.release()
    }
}

impl From<Guard> for Leadership {
    fn from(guard: Guard) -> Self {
        Self(guard)
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// Who leads, one after the other; from [`Election::observe`]. A [`Stream`].
#[derive(Debug)]
#[must_use = "nothing is watched once this is dropped"]
pub struct Leaders(mpsc::Receiver<Result<Option<Leader>, LockError>>);

impl Leaders {
    /// The next change; at first what is so now. `None` behind an error.
    ///
    /// # Errors
    /// [`LockError::SessionOver`], [`LockError::NoAuth`], [`LockError::Client`].
    /// # Ordering and cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>, LockError>> {
        poll_fn(|cx| self.0.poll_recv(cx)).await
    }
}

impl Stream for Leaders {
    type Item = Result<Option<Leader>, LockError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

type Told = mpsc::Sender<Result<Option<Leader>, LockError>>;

/// Tells every leader, until there is an error.
async fn follow(setup: &Setup, told: &Told) -> Result<(), LockError> {
    let mut last = None;
    loop {
        let queue = setup.queue(&setup.dir, setup.list(&setup.dir).await?).await?;
        match queue.first() {
            Some(first) => follow_leader(setup, &child(&setup.dir, &first.name), &mut last, told).await?,
            None => follow_vacancy(setup, &mut last, told).await?,
        }
    }
}

/// Tells of a leader and what it says of itself, until it is gone.
async fn follow_leader(
    setup: &Setup,
    path: &str,
    last: &mut Option<Option<Leader>>,
    told: &Told,
) -> Result<(), LockError> {
    loop {
        let (data, stat, watch) = match setup.client.get_data(path).watch().await {
            Ok(read) => read,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
            Err(error) => {
                setup.retry(error).await?;
                continue;
            }
        };
        let leader = Leader {
            data,
            path: path.to_owned(),
            session: stat.ephemeral_owner,
            token: FencingToken::new(stat.czxid),
        };
        tell(Some(leader), last, told).await;
        match watch.changed().await {
            Ok(event) if event.kind == zoolet_client::EventType::NodeDeleted => return Ok(()),
            Ok(_) | Err(Error::WatchRemoved(_)) => {}
            Err(error) => return Err(setup.error(error)),
        }
    }
}

/// Waits for a candidate where there is none.
async fn follow_vacancy(
    setup: &Setup,
    last: &mut Option<Option<Leader>>,
    told: &Told,
) -> Result<(), LockError> {
    tell(None, last, told).await;
    let watch = match setup.client.get_children(&setup.dir).watch().await {
        Ok((names, _, watch)) => match setup.queue(&setup.dir, names).await?.is_empty() {
            true => watch,
            false => return Ok(()),
        },
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            match setup.client.exists(&setup.dir).watch().await {
                Ok((None, watch)) => watch,
                Ok((Some(_), _)) => return Ok(()),
                Err(error) => return setup.retry(error).await,
            }
        }
        Err(error) => return setup.retry(error).await,
    };
    match watch.changed().await {
        Ok(_) | Err(Error::WatchRemoved(_)) => Ok(()),
        Err(error) => Err(setup.error(error)),
    }
}

/// Tells it if it is news.
async fn tell(leader: Option<Leader>, last: &mut Option<Option<Leader>>, told: &Told) {
    if last.as_ref() != Some(&leader) {
        *last = Some(leader.clone());
        let _ = told.send(Ok(leader)).await;
    }
}
