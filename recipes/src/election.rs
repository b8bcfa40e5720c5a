//! [`Election`]: one leader at a time, visible to everybody.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, EventType, SessionId, Sessions};

use crate::acquire::{Acquire, ClaimPlan};
use crate::claim::listing;
use crate::claim::names::LATCH;
use crate::claim::queue_entry::QueuePlan;
use crate::config::{LockBuilder, LockConfig};
use crate::contender::{Contender, contenders};
use crate::error::LockError;
use crate::guard::{Guard, typed_guard};
use crate::over_sessions::hold_over_sessions;
use crate::path::child;
use crate::state::FencingToken;

/// An election: candidates queue, and the first is the leader until it resigns or its session ends.
///
/// The names are those of Curator's `LeaderLatch`, so that both may campaign in the same directory.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let election = zoolet_recipes::Election::new(&zk, "/election");
/// let leadership = election.campaign("10.0.0.7:80").await?;
/// leadership.fenced().set_data("/plan", "v2").commit().await?;
/// leadership.resign().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    config: Arc<LockConfig>,
}

/// The leadership of an [`Election`]. Dereferences to a [`Guard`].
#[derive(Debug)]
#[must_use = "the leader resigns when this is dropped"]
pub struct Leadership(Guard);

typed_guard!(Leadership, resign);

/// The leader, as [`Election::observe`] reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The data that the leader campaigned with, or has set since.
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
        LockBuilder::new(LockConfig::new(client, vec![dir.into()]), |config| Self { config })
    }

    /// Becomes a candidate and waits to be the leader. `data` is what others see of this candidate, such as its address;
    /// Curator takes it for the id of the participant.
    pub fn campaign(&self, data: impl Into<Bytes>) -> Acquire<Leadership> {
        let dirs = vec![(self.config.dir().to_owned(), LATCH)];
        let plan = QueuePlan::exclusive(dirs);
        Acquire::new(&self.config, ClaimPlan::Queue(plan), Leadership).data(data)
    }

    /// Leads over sessions: campaigns, runs `work` while this program leads, resigns, and campaigns again.
    ///
    /// `campaign` is called for each candidacy, with the client of the present session. `work` gets the leadership and decides
    /// what follows when it ends: [`ControlFlow::Break`] returns its value from here, [`ControlFlow::Continue`] resigns and
    /// queues again after the other candidates. If the leadership is lost, `work` is dropped where it is, and this campaigns
    /// again: in the same session if that goes on, with pauses that grow up to half a second if it happens repeatedly, or
    /// else in the next one.
    ///
    /// ```no_run
    /// use std::ops::ControlFlow;
    /// use zoolet_client::{Client, Sessions};
    /// use zoolet_recipes::{Election, Leadership, LockError};
    ///
    /// # async fn next_job() -> Option<String> { None }
    /// async fn lead(leadership: Leadership) -> ControlFlow<()> {
    ///     while let Some(job) = next_job().await {
    ///         // Executed only if this program still leads.
    ///         if leadership.fenced().set_data("/plan", job).commit().await.is_err() {
    ///             return ControlFlow::Continue(());
    ///         }
    ///     }
    ///     ControlFlow::Break(())
    /// }
    ///
    /// # async fn example() -> Result<(), LockError> {
    /// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181,zk3:2181")?;
    /// let campaign = |zk: &Client| Election::new(zk, "/election").campaign("10.0.0.7:80");
    /// Election::run(&sessions, campaign, lead).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Every run of `work` has a leadership of its own: no token occurs twice, and tokens rise. `work` is not polled once it is
    /// known that the leadership is lost; [`Guard::lost`] tells how late that may be. So effects that must not overlap are
    /// fenced, by [`Guard::fenced`] or by the token. A handle on the leadership that `work` has given to another task keeps
    /// the place of the leader, until it is dropped too.
    ///
    /// # Errors
    /// What another attempt does not change: [`LockError::NoAuth`], [`LockError::NoParent`], [`LockError::Foreign`],
    /// [`LockError::Timeout`] if `campaign` sets one; [`LockError::Client`] once the [`Sessions`] have ended.
    /// # Ordering and cancel safety
    /// Dropping the future drops `work`, and then resigns or leaves the queue, as by dropping a [`Leadership`].
    pub async fn run<T, F>(
        sessions: &Sessions,
        campaign: impl Fn(&Client) -> Acquire<Leadership>,
        work: impl FnMut(Leadership) -> F,
    ) -> Result<T, LockError>
    where
        F: Future<Output = ControlFlow<T>>,
    {
        hold_over_sessions(sessions, campaign, work).await
    }

    /// Reports the leader, and every change; `None` while there is none. If changes follow each other quickly, only the
    /// latest may be reported. A report may be out of date when it is read; only the leader's own
    /// [`fenced`](Guard::fenced) writes are certain.
    ///
    /// ```no_run
    /// # async fn example(election: zoolet_recipes::Election) -> Result<(), zoolet_recipes::LockError> {
    /// let mut leaders = election.observe();
    /// while let Some(leader) = leaders.next().await {
    ///     println!("{:?}", leader?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Ordering and cancel safety
    /// Leaders come in the order of their tokens. Ends with an error that a retry does not change, such as the end of the
    /// session. Dropping it removes its watches.
    pub fn observe(&self) -> Leaders {
        let (leaders, receiver) = mpsc::channel(1);
        let config = Arc::clone(&self.config);
        config.client.runtime().clone().spawn(async move {
            let mut observer = LeaderObserver { config: &config, leaders: &leaders, last: None };
            tokio::select! {
                biased;
                () = leaders.closed() => {}
                Err(error) = observer.run() => drop(leaders.send(Err(error)).await),
            }
        });
        Leaders(receiver)
    }

    /// The leader and the candidates after it, in the order in which they come to lead.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`](crate::Lock::contenders).
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.config, self.config.dir()).await
    }
}

/// The leaders, one after the other; from [`Election::observe`]. A [`Stream`].
#[derive(Debug)]
#[must_use = "nothing is watched once this is dropped"]
pub struct Leaders(mpsc::Receiver<Result<Option<Leader>, LockError>>);

impl Leaders {
    /// The current leader at first, then the next change. `None` after an error.
    ///
    /// # Errors
    /// [`LockError::SessionOver`], [`LockError::NoAuth`], [`LockError::Client`].
    /// # Ordering and cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>, LockError>> {
        self.0.recv().await
    }
}

impl Stream for Leaders {
    type Item = Result<Option<Leader>, LockError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// The task of [`Election::observe`].
struct LeaderObserver<'o> {
    config: &'o LockConfig,
    leaders: &'o mpsc::Sender<Result<Option<Leader>, LockError>>,
    /// The latest report.
    last: Option<Option<Leader>>,
}

impl LeaderObserver<'_> {
    /// Reports every leader, until there is an error.
    async fn run(&mut self) -> Result<(), LockError> {
        let (config, dir) = (self.config, self.config.dir());
        loop {
            let queue = listing::queue(config, dir).await?;
            match queue.first() {
                Some(first) => self.follow_leader(&child(dir, &first.name)).await?,
                None => self.follow_vacancy().await?,
            }
        }
    }

    /// Reports a leader and its data, until it is gone.
    async fn follow_leader(&mut self, path: &str) -> Result<(), LockError> {
        let config = self.config;
        loop {
            let read = config.watch_data(path).await?;
            let Some((data, stat, watch)) = read else { return Ok(()) };
            let (session, token) = (stat.ephemeral_owner, FencingToken::new(stat.czxid));
            self.report(Some(Leader { data, path: path.to_owned(), session, token })).await;
            if config.retries().changed(watch).await? == Some(EventType::NodeDeleted) {
                return Ok(());
            }
        }
    }

    /// Waits for a candidate while there is none.
    async fn follow_vacancy(&mut self) -> Result<(), LockError> {
        self.report(None).await;
        let (config, dir) = (self.config, self.config.dir());
        let watch = match config.watch_children(dir).await? {
            Some((names, watch)) => match listing::ordered(config, dir, names).await?.is_empty() {
                true => watch,
                false => return Ok(()),
            },
            None => match config.retries().ask(|| config.client.exists(dir).watch()).await {
                Ok((None, watch)) => watch,
                Ok((Some(_), _)) => return Ok(()),
                Err(error) => return Err(config.error(error)),
            },
        };
        config.retries().changed(watch).await.map(drop)
    }

    /// Reports the leader if it is another one than before, or has other data.
    async fn report(&mut self, leader: Option<Leader>) {
        if self.last.as_ref() != Some(&leader) {
            self.last = Some(leader.clone());
            let _ = self.leaders.send(Ok(leader)).await;
        }
    }
}
