//! Several endpoints on one tree: what clients meet when they fail over, without a cluster.

use std::future::IntoFuture;
use std::pin::pin;
use std::time::Duration;

use zoolet::recipes::LockError;
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Client, ErrorCode, EventType, Lock, Semaphore, SessionState, Sessions};
use zoolet_test_support::{Hello, RequestExt as _, Wire, ping};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn test_server(endpoints: usize) -> TestServer {
    crate::common::test_ensemble(endpoints).znode("/a", "old").start().await.expect("an ensemble")
}

async fn text(zk: &Client, path: &str) -> String {
    let (data, _) = zk.get_data(path).await.expect("a znode");
    String::from_utf8(data.to_vec()).expect("text")
}

#[tokio::test]
async fn an_endpoint_that_lags_shows_the_past_until_sync_has_caught_up() {
    let zk = test_server(2).await;
    let (here, there) = (zk.client_at(0).await, zk.client_at(1).await);
    let late = zk.endpoint(1).unwrap();
    late.lag().await.unwrap();
    here.set_data("/a", "new").await.unwrap();
    assert_eq!(text(&here, "/a").await, "new");
    assert_eq!(text(&there, "/a").await, "old");
    assert_eq!((late.view().behind, late.tree().get("/a").expect("there").text()), (1, "old"));

    let synced = there.sync("/a").send();
    zk.wait_until_idle().await.unwrap();
    let mut synced = pin!(synced);
    assert!(now(synced.as_mut()).await.is_none(), "it has not caught up");
    assert_eq!(late.apply_next(5).await.unwrap(), 1);
    synced.await.unwrap();
    assert_eq!(text(&there, "/a").await, "new");
}

#[tokio::test]
async fn a_watch_at_an_endpoint_that_lags_fires_when_the_endpoint_catches_up() {
    let zk = test_server(2).await;
    let there = zk.client_at(1).await;
    let (_, _, watch) = there.get_data("/a").watch().await.unwrap();
    let late = zk.endpoint(1).unwrap();
    late.lag().await.unwrap();
    zk.set("/a", "new").await.unwrap();
    assert_eq!(late.watches().len(), 1);
    late.catch_up().await.unwrap();
    assert_eq!(watch.changed().await.unwrap().kind, EventType::NodeDataChanged);
    assert_eq!(late.watches(), []);
}

#[tokio::test]
async fn a_client_that_has_seen_more_than_an_endpoint_is_refused_there_and_tries_the_next() {
    let zk = test_server(3).await;
    let client = zk.client_at(0).await;
    let id = client.session_id();
    zk.endpoint(1).unwrap().lag().await.unwrap();
    client.set_data("/a", "new").await.unwrap();
    zk.endpoint(0).unwrap().kill().await.unwrap();
    zk.advance(secs(2)).await.unwrap();
    assert_eq!((client.state(), client.session_id()), (SessionState::Connected, id));
    assert_eq!(text(&client, "/a").await, "new", "time does not go back");
    let conn = zk.sessions().iter().find(|session| session.id == id).and_then(|session| session.conn);
    assert_eq!(conn.map(|conn| conn.0 > 2), Some(true), "by a connection after the refused one");
}

#[tokio::test]
async fn a_session_outlives_the_endpoint_it_was_opened_at_with_its_ephemerals() {
    for tcp in [false, true] {
        let builder = crate::common::test_ensemble(2);
        let zk = if tcp { builder.tcp() } else { builder }.start().await.unwrap();
        let (a, b) = (zk.client_at(0).await, zk.client_at(1).await);
        a.create("/mine", "").ephemeral().await.unwrap();
        zk.endpoint(0).unwrap().kill().await.unwrap();
        zk.advance(secs(60)).await.unwrap();
        assert_eq!(a.state(), SessionState::Connected);
        assert_eq!(b.exists("/mine").await.unwrap().expect("it exists").ephemeral_owner, a.session_id());
    }
}

#[tokio::test]
async fn an_endpoint_without_a_leader_serves_reads_to_read_only_clients() {
    let zk = test_server(2).await;
    zk.endpoint(1).unwrap().set_read_only(true).await.unwrap();
    let reader = zk.connect_at(1, zk.options().read_only(true)).await.unwrap();
    assert_eq!(reader.state(), SessionState::ConnectedReadOnly);
    zk.set("/a", "new").await.unwrap();
    assert_eq!(text(&reader, "/a").await, "old");
    let refused = reader.set_data("/a", "x").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NotReadOnly));
    let writer = zk.client_at(1).await;
    assert_eq!(writer.state(), SessionState::Connected, "refused there, it went on to the other");
}

#[tokio::test]
async fn a_read_only_client_finds_an_endpoint_that_takes_writes_by_itself() {
    for tcp in [false, true] {
        let builder = crate::common::test_ensemble(3).znode("/a", "old");
        let zk = if tcp { builder.tcp() } else { builder }.start().await.unwrap();
        for cut_off in [0, 1, 2] {
            zk.endpoint(cut_off).unwrap().set_read_only(true).await.unwrap();
        }
        let reader = zk.options().read_only(true).connect(zk.connector_at(1)).await.unwrap();
        let watch = reader.get_data("/a").watch().await.unwrap().2;
        zk.advance(secs(3)).await.unwrap();
        assert_eq!(reader.state(), SessionState::ConnectedReadOnly, "there is no other");
        zk.endpoint(0).unwrap().set_read_only(false).await.unwrap();
        zk.advance(secs(20)).await.unwrap();
        assert_eq!(reader.state(), SessionState::Connected);
        reader.set_data("/a", "new").await.unwrap();
        assert_eq!(watch.changed().await.unwrap().kind, EventType::NodeDataChanged);
        assert!(zk.endpoint(1).unwrap().view().read_only, "it has left that");
    }
}

#[tokio::test]
async fn at_an_endpoint_that_is_cut_off_a_lock_waits_without_asking_and_a_try_fails_at_once() {
    let zk = test_server(2).await;
    for at in 0..2 {
        zk.endpoint(at).unwrap().set_read_only(true).await.unwrap();
    }
    let client = zk.options().read_only(true).connect(zk.connector()).await.unwrap();
    let (lock, slots) = (Lock::new(&client, "/lock"), Semaphore::new(&client, "/slots", 2));
    let not_there = |error: LockError| match error {
        LockError::Client(error) => error.code(),
        other => panic!("{other}"),
    };
    assert_eq!(lock.try_acquire().await.map_err(not_there).unwrap_err(), Some(ErrorCode::NotReadOnly));
    assert_eq!(slots.try_acquire(1).await.map_err(not_there).unwrap_err(), Some(ErrorCode::NotReadOnly));
    let late = lock.acquire().timeout(secs(30));
    assert!(matches!(zk.pass_time_until(late).await.unwrap(), Err(LockError::Timeout { .. })));
    let creates = zk.counters().requests.get(&OpCode::Create2).copied();
    assert!(creates <= Some(2), "{creates:?} in 30 s");

    let waits = tokio::spawn(lock.acquire().into_future());
    zk.advance(secs(60)).await.unwrap();
    assert!(!waits.is_finished());
    zk.endpoint(0).unwrap().set_read_only(false).await.unwrap();
    let guard = zk.pass_time_until(waits).await.unwrap().unwrap().unwrap();
    assert_eq!(client.state(), SessionState::Connected);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_session_that_expires_is_alive_to_an_endpoint_that_lags() {
    let zk = test_server(2).await;
    let (a, b) = (zk.client_at(0).await, zk.client_at(1).await);
    a.create("/leader", "").ephemeral().await.unwrap();
    let late = zk.endpoint(1).unwrap();
    late.lag().await.unwrap();
    zk.expire_session(a.session_id()).await.unwrap();
    assert_eq!(a.state(), SessionState::Expired);
    assert!(
        b.exists("/leader").await.unwrap().is_some(),
        "two that believe they hold it, as long as this one lags"
    );
    late.catch_up().await.unwrap();
    assert_eq!(b.exists("/leader").await.unwrap(), None);
}

/// A client that waits for the next change of `/a`.
trait Waiting {
    async fn wait(&mut self);
    /// What it does when its endpoint is gone.
    async fn fail_over(&mut self);
    /// Whether it has heard of it.
    async fn has_heard(&mut self) -> bool;
}

struct Ours {
    client: Client,
    watch: Option<zoolet::client::Watch>,
}

impl Waiting for Ours {
    async fn wait(&mut self) {
        self.watch = Some(self.client.get_data("/a").watch().await.expect("a znode").2);
    }

    async fn fail_over(&mut self) {
        assert_eq!(self.client.state(), SessionState::Connected, "it did so by itself");
    }

    async fn has_heard(&mut self) -> bool {
        let watch = self.watch.take().expect("it waits");
        now(pin!(watch.changed())).await.is_some()
    }
}

/// It resumes its session at the next endpoint, as it should, and forgets that its watches went with the connection.
struct Forgetful<'k> {
    zk: &'k TestServer,
    wire: Wire,
}

impl<'k> Forgetful<'k> {
    async fn new(zk: &'k TestServer) -> Self {
        let wire = Wire::open(zk.in_process_at(0)().into_inner().expect("a connection"), Hello::new()).await;
        Self { zk, wire }
    }
}

impl Waiting for Forgetful<'_> {
    async fn wait(&mut self) {
        self.wire.ask(zoolet_test_support::get_data("/a").watch()).await;
    }

    async fn fail_over(&mut self) {
        self.wire.expect_end().await;
        let stream = self.zk.in_process_at(1)().into_inner().expect("a connection");
        self.wire = Wire::open(stream, Hello::again(&self.wire.welcome)).await;
    }

    async fn has_heard(&mut self) -> bool {
        self.wire.send(ping()).await;
        // The event comes before the reply to a request sent after the change.
        matches!(self.wire.next().await, zoolet_test_support::Frame::Event(_))
    }
}

async fn hears_of_a_change(zk: &TestServer, client: &mut impl Waiting) -> bool {
    client.wait().await;
    if zk.endpoints() > 1 {
        zk.endpoint(0).expect("the first").kill().await.expect("it exists");
        zk.advance(secs(1)).await.expect("a manual clock");
        client.fail_over().await;
    }
    zk.set("/a", "new").await.expect("an endpoint that takes writes");
    client.has_heard().await
}

#[tokio::test]
async fn a_client_that_forgets_its_watches_passes_on_one_endpoint_and_is_found_out_on_two() {
    let zk = test_server(1).await;
    assert!(hears_of_a_change(&zk, &mut Forgetful::new(&zk).await).await);
    let zk = test_server(2).await;
    assert!(!hears_of_a_change(&zk, &mut Forgetful::new(&zk).await).await);

    for endpoints in [1, 2] {
        let zk = test_server(endpoints).await;
        let client = zk.client().await;
        assert!(hears_of_a_change(&zk, &mut Ours { client, watch: None }).await, "{endpoints} endpoints");
    }
}

/// What a future has without waiting.
async fn now<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match future.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_read_shows_the_write_whose_reply_was_lost_and_what_a_dropped_sync_covered() {
    for synced in [false, true] {
        let zk = test_server(2).await;
        let (here, other) = (zk.client_at(0).await, zk.client_at(0).await);
        let behind = zk.endpoint(1).unwrap();
        behind.lag().await.unwrap();
        let (write, read) = if synced {
            other.set_data("/a", "new").await.unwrap();
            zk.faults().on(op(OpCode::Sync).session(here.session_id()).nth(1)).reset().unwrap();
            drop(here.sync("/a").send());
            (None, here.get_data("/a").send())
        } else {
            zk.faults().on(op(OpCode::SetData)).lose_reply().unwrap();
            (Some(here.set_data("/a", "new").send()), here.get_data("/a").send())
        };
        zk.wait_until_idle().await.unwrap();
        zk.advance(Duration::from_millis(100)).await.unwrap();
        behind.catch_up().await.unwrap();
        if let Some(write) = write {
            assert!(write.await.unwrap_err().may_have_applied());
        }
        assert_eq!(read.await.unwrap().0, "new", "after a sync: {synced}");
    }
}

/// Waits until the client is connected to one of these.
async fn connected_to(client: &Client, hosts: &[&str]) {
    let mut states = client.states();
    while states.next().await.is_some() {
        let server = client.server();
        if client.state().is_connected() && server.is_some_and(|server| hosts.contains(&&*server)) {
            return;
        }
    }
    panic!("the session is over: {:?}", client.state());
}

#[tokio::test]
async fn a_client_whose_list_of_servers_is_updated_moves_with_its_session_and_without_a_failed_request() {
    let zk = crate::common::test_ensemble(3).tcp().start().await.unwrap();
    let all = zk.connect_string();
    let hosts: Vec<_> = all.split(',').collect();
    let client = zk.options().connect(hosts[0]).await.unwrap();
    client.create("/mine", "").ephemeral().await.unwrap();
    let session = client.session_id();
    let writes: Vec<_> = (0..100).map(|number| client.set_data("/mine", number.to_string()).send()).collect();
    client.update_servers(&format!("{},{}", hosts[1], hosts[2])).unwrap();
    for write in writes {
        write.await.unwrap();
    }
    connected_to(&client, &hosts[1..]).await;
    assert_eq!(client.session_id(), session);
    assert_eq!(text(&client, "/mine").await, "99");
    // The same list in another order moves nobody.
    let server = client.server();
    client.update_servers(&format!("{},{}", hosts[2], hosts[1])).unwrap();
    client.sync("/").await.unwrap();
    assert_eq!((client.server(), client.state()), (server, SessionState::Connected));
}

#[tokio::test]
async fn sessions_whose_list_of_servers_is_updated_open_the_next_one_there() {
    let zk = crate::common::test_ensemble(2).tcp().start().await.unwrap();
    let all = zk.connect_string();
    let hosts: Vec<_> = all.split(',').collect();
    let sessions = Sessions::open(zk.options(), format!("{}/", hosts[0])).unwrap();
    let first = sessions.client().await.unwrap();
    sessions.update_servers(hosts[1]).unwrap();
    connected_to(&first, &hosts[1..]).await;
    zk.expire_session(first.session_id()).await.unwrap();
    zk.pass_time_until(first.ended()).await.unwrap();
    let second = zk.pass_time_until(sessions.client()).await.unwrap().unwrap();
    assert_ne!(second.session_id(), first.session_id());
    assert_eq!(second.server().as_deref(), Some(hosts[1]));

    let by_closure = zk.client().await;
    assert!(matches!(by_closure.update_servers(&all), Err(zoolet::Error::InvalidTarget(_))));
    assert!(matches!(sessions.update_servers("a/other"), Err(zoolet::Error::InvalidTarget(_))));
}
