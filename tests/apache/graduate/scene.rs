//! A program that stays connected through moves: znodes of every kind, a lock that is held and a client that waits for it, a
//! leader, a watch, and a counter that is incremented all the time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zoolet::client::Watch;
use zoolet::recipes::{Guard, HoldState, Leadership};
use zoolet::{Acl, Client, Election, Error, Lock, Perms, SessionId, SessionState, Stat};

use crate::graduate::LIMIT;
use crate::graduate::counter::Counter;

/// Longer than any move of the test takes, and in the bounds of all servers.
const SESSION: Duration = Duration::from_secs(60);
const LOCK: &str = "/app/lock";
/// What a server itself, or this scene, changes meanwhile.
const CHANGING: [&str; 3] = ["/zookeeper/config", "/app/counter", "/app/watched"];

pub struct Scene {
    /// Reads everything.
    observer: Client,
    holder: Client,
    waiter: Client,
    guard: Option<Guard>,
    waiting: Option<JoinHandle<Guard>>,
    leadership: Leadership,
    watch: Watch,
    counter: Counter,
}

/// What must be the same after a move.
#[derive(Debug, PartialEq)]
pub struct Shown {
    znodes: BTreeMap<String, (Vec<u8>, Vec<Acl>, Stat)>,
    sessions: [SessionId; 3],
    token: u64,
}

impl Scene {
    pub async fn begin(servers: &str) -> Self {
        let [observer, holder, waiter, counter] =
            [connect(servers).await, connect(servers).await, connect(servers).await, connect(servers).await];
        create_znodes(&holder).await.expect("znodes of every kind");
        let guard = Lock::new(&holder, LOCK).acquire().await.expect("the lock");
        let guard = Some(guard);
        let leadership = Election::new(&holder, "/app/leader").campaign("holder").await.expect("the lead");
        let waiting = Some(queue(&waiter).await);
        let (_, _, watch) = observer.get_data("/app/watched").watch().await.expect("a watch");
        let counter = Counter::start(counter, "/app/counter");
        Self { observer, holder, waiter, guard, waiting, leadership, watch, counter }
    }

    /// What must be the same after a move that begins now.
    pub async fn shown(&self) -> Shown {
        let (mut znodes, mut left) = (BTreeMap::new(), vec!["/".to_owned()]);
        while let Some(path) = left.pop() {
            let (data, stat) = self.observer.get_data(&path).await.expect("a znode");
            let (acl, _) = self.observer.get_acl(&path).await.expect("a znode");
            let (names, _) = self.observer.get_children(&path).await.expect("a znode");
            let parent = if path == "/" { "" } else { &path };
            left.extend(names.iter().map(|name| format!("{parent}/{name}")));
            if !CHANGING.contains(&&*path) {
                znodes.insert(path, (data.to_vec(), acl, stat));
            }
        }
        let sessions = [&self.observer, &self.holder, &self.waiter].map(Client::session_id);
        Shown { znodes, sessions, token: self.guard().token().get() }
    }

    fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("the lock")
    }

    /// After a move: everybody is back, nothing is lost, and all go on.
    pub async fn check(&mut self, before: &Shown) {
        for client in [&self.observer, &self.holder, &self.waiter] {
            let connected = async {
                let mut states = client.states();
                while client.state() != SessionState::Connected {
                    states.next().await.expect("a session that is not over");
                }
            };
            timeout(LIMIT, connected).await.expect("every client finds a server");
        }
        self.observer.sync("/").await.expect("an answer");
        let after = self.shown().await;
        for (path, znode) in &before.znodes {
            assert_eq!(after.znodes.get(path), Some(znode), "{path}");
        }
        assert_eq!(&after, before);
        self.guard().verify().await.expect("the lock is held");
        self.leadership.verify().await.expect("the leader leads");
        assert_eq!((self.guard().state(), self.leadership.state()), (HoldState::Held, HoldState::Held));
        let waiting = self.waiting.as_ref().expect("somebody who waits");
        assert!(!waiting.is_finished(), "nobody else has the lock");
        self.counter.goes_on(LIMIT).await;

        self.holder.set_data("/app/watched", "changed").await.expect("the znode");
        let (_, _, next) = self.observer.get_data("/app/watched").watch().await.expect("a watch");
        let watch = std::mem::replace(&mut self.watch, next);
        timeout(LIMIT, watch.changed()).await.expect("an event").expect("of a watch that came along");
    }

    /// The lock goes to the client that waits for it, with a higher token. The one that held it waits from then on.
    pub async fn pass_on(&mut self) {
        let (guard, waiting) =
            (self.guard.take().expect("the lock"), self.waiting.take().expect("somebody who waits"));
        let token = guard.token();
        guard.release().await.expect("a lock that is held");
        let next = timeout(LIMIT, waiting).await.expect("the lock in time").expect("the lock");
        assert!(next.token() > token, "{} after {token}", next.token());
        std::mem::swap(&mut self.holder, &mut self.waiter);
        self.guard = Some(next);
        self.waiting = Some(queue(&self.waiter).await);
    }

    /// Ends all sessions; the ephemerals go with them.
    pub async fn end(self) {
        self.counter.end().await;
        self.waiting.into_iter().for_each(|waiting| waiting.abort());
        self.waiter.close().await.expect("a session");
        self.holder.close().await.expect("a session");
        let (names, _) = self.observer.get_children(LOCK).await.expect("the directory of the lock");
        assert_eq!(names.len(), 0, "nobody is left: {names:?}");
        self.observer.close().await.expect("a session");
    }
}

async fn connect(servers: &str) -> Client {
    let options = Client::options().session_timeout(SESSION).auth("digest", "app:secret");
    timeout(LIMIT, options.connect(servers)).await.expect("in time").expect("a session")
}

async fn create_znodes(zk: &Client) -> Result<(), Error> {
    zk.create("/app", "").await?;
    let secret = vec![Acl::digest(Perms::ALL, "app", "secret"), Acl::new(Perms::READ, "ip", "127.0.0.0/8")];
    zk.create("/app/secret", "s").acl(secret).await?;
    zk.set_data("/app/secret", "s2").await?;
    zk.create("/app/container", "").container().await?;
    zk.create("/app/container/child", "c").await?;
    zk.create("/app/ttl", "t").ttl(Duration::from_secs(3_600)).await?;
    zk.create("/app/ephemeral", "e").ephemeral().await?;
    let created = zk.create("/app/seq-", "").sequential().await?;
    zk.create("/app/seq-", "").sequential().await?;
    zk.delete(created.path).await?;
    zk.multi().create("/app/multi", "m").set_data("/app", "changed").commit().await?;
    zk.create("/app/watched", "").await?;
    zk.create("/app/counter", "0").await?;
    Ok(())
}

/// A client that waits for the lock, which is taken.
async fn queue(client: &Client) -> JoinHandle<Guard> {
    let (lock, (queued, is_queued)) = (Lock::new(client, LOCK), oneshot::channel());
    let acquire = lock.acquire().on_queued(move |_| _ = queued.send(()));
    let waiting = tokio::spawn(async { acquire.await.expect("the lock") });
    timeout(LIMIT, is_queued).await.expect("a place in the queue").expect("a place in the queue");
    waiting
}
