//! Long answers by the dozen: a client that takes them loses none, whatever holds it or them up.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zoolet_proto::{Request, records};
use zoolet_server::fault::request;
use zoolet_server::{Clock, InProcessStream, Server, ServerBuilder};

use crate::common::*;

const MANY: usize = 64;
const LONG: usize = 100_000;

/// 6 MB of answers where 1 MB may wait.
fn settings() -> ServerBuilder {
    Server::builder().clock(Clock::manual()).outbox_limit(1 << 20)
}

async fn with_a_long_znode(settings: ServerBuilder) -> (Zk, Peer<InProcessStream>) {
    let zk = Zk::with(settings).await;
    zk.set("/long", "x".repeat(LONG)).await.expect("a server that runs");
    let peer = zk.peer().await;
    (zk, peer)
}

fn asks() -> Vec<Request> {
    (0..MANY).map(|_| get("/long")).chain([create("/last")]).collect()
}

async fn hears_everything(peer: &mut Peer<InProcessStream>) {
    for n in 1..=MANY + 1 {
        assert_eq!(peer.hear().await, format!("{n} ok"));
    }
}

#[tokio::test]
async fn with_a_fixture_who_reads_may_ask_for_far_more_at_once_than_may_wait() {
    let (zk, mut peer) = with_a_long_znode(settings()).await;
    peer.send_all(asks()).await;
    hears_everything(&mut peer).await;
    zk.idle().await;
    assert!(!zk.holds_up(peer.conn()));
}

#[tokio::test]
async fn at_every_endpoint_who_reads_may_ask_for_far_more_at_once_than_may_wait() {
    let server = settings().simulated_ensemble(3).start().await.unwrap();
    for at in 0..3 {
        let mut peer = Peer::over(server.in_process_at(at)().into_inner().unwrap());
        assert_eq!(peer.open().await, "session");
        peer.send(create("/long")).await;
        peer.hear().await;
        assert_eq!(peer.ask(set("/long", &"x".repeat(LONG))).await, "2 ok");
        peer.send_all((0..MANY).map(|_| get("/long"))).await;
        for n in 3..3 + MANY {
            assert_eq!(peer.hear().await, format!("{n} ok"));
        }
    }
}

#[tokio::test]
async fn requests_that_a_delay_releases_together_wait_until_their_answers_are_taken() {
    let (zk, mut peer) = with_a_long_znode(settings()).await;
    zk.faults().on(request()).delay_request(secs(1)).unwrap();
    peer.send_all(asks()).await;
    zk.idle().await;
    zk.fixture.clock().advance(secs(1)).unwrap();
    hears_everything(&mut peer).await;
    zk.idle().await;
    assert!(!zk.holds_up(peer.conn()));
}

#[tokio::test]
async fn replies_that_a_delay_releases_together_wait_until_those_before_are_taken() {
    let (zk, mut peer) = with_a_long_znode(settings()).await;
    zk.faults().on(request()).delay_reply(secs(1)).unwrap();
    peer.send_all(asks()).await;
    zk.idle().await;
    zk.fixture.clock().advance(secs(1)).unwrap();
    hears_everything(&mut peer).await;
}

#[tokio::test]
async fn what_a_frozen_connection_has_asked_for_comes_whole_when_it_is_healed() {
    let (zk, mut peer) = with_a_long_znode(settings()).await;
    zk.freeze(peer.session()).await.unwrap();
    peer.send_all(asks()).await;
    zk.idle().await;
    zk.heal(peer.session()).await.unwrap();
    hears_everything(&mut peer).await;
}

#[tokio::test]
async fn what_a_lagging_endpoint_owes_comes_whole_when_it_catches_up() {
    let (zk, mut peer) = with_a_long_znode(settings().simulated_ensemble(2)).await;
    // Both, as either may be the peer's.
    for at in 0..2 {
        zk.endpoint(at).unwrap().lag().await.unwrap();
    }
    peer.send_all(
        [create("/first")].into_iter().chain((1..MANY).map(|_| get("/long"))).chain([create("/last")]),
    )
    .await;
    zk.idle().await;
    for at in 0..2 {
        zk.endpoint(at).unwrap().catch_up().await.unwrap();
    }
    hears_everything(&mut peer).await;
}

#[tokio::test]
async fn who_asks_for_much_and_goes_or_says_no_more_leaves_nothing_behind_and_all_it_asked_for_is_done() {
    for goes in [true, false] {
        let (zk, mut peer) = with_a_long_znode(settings()).await;
        zk.faults().on(request()).delay_request(secs(1)).unwrap();
        peer.send_all(asks()).await;
        zk.idle().await;
        zk.fixture.clock().advance(secs(1)).unwrap();
        let conn = peer.conn();
        assert_eq!(peer.hear().await, "1 ok");
        let mut stays = (!goes).then_some(peer);
        if let Some(peer) = &mut stays {
            // It has said its last word, and takes nothing.
            peer.stream.shutdown().await.unwrap();
        }
        zk.idle().await;
        assert!(!zk.holds_up(conn) && !zk.is_open(conn), "goes: {goes}");
        assert_eq!(zk.children("/"), ["last", "long", "zookeeper"], "goes: {goes}");
    }
}

#[tokio::test]
async fn one_that_takes_no_answers_keeps_nobody_else_waiting() {
    let (zk, mut peer) = with_a_long_znode(settings()).await;
    peer.send_all(asks()).await;
    let mut other = zk.peer().await;
    assert_eq!(other.ask(create("/other")).await, "1 ok");
    // Its pings are not read, so that it expires.
    for _ in 0..4 {
        zk.fixture.clock().advance(secs(4)).unwrap();
        assert_eq!(other.ask(ping()).await, "pong");
    }
    assert!(zk.sessions().iter().all(|session| session.id != peer.session()));
    assert_eq!(zk.children("/"), ["long", "other", "zookeeper"]);
}

/// Whether the server lets go of a connection within a minute of real time.
async fn goes(zk: &Zk, peer: &Peer<InProcessStream>) -> bool {
    for _ in 0..60 {
        tokio::time::sleep(secs(1)).await;
        if zk.traffic(peer.conn()).is_none() {
            return true;
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn an_expired_client_that_takes_nothing_is_closed_whatever_it_is_owed() {
    for reply in [false, true] {
        let (zk, mut peer) = with_a_long_znode(settings()).await;
        let delay = zk.faults().on(request());
        if reply { delay.delay_reply(secs(1)) } else { delay.delay_request(secs(1)) }.unwrap();
        peer.send_all(asks()).await;
        zk.idle().await;
        zk.fixture.clock().advance(secs(1)).unwrap();
        tokio::time::sleep(secs(1)).await;
        zk.expire_session(peer.session()).await.unwrap();
        assert!(goes(&zk, &peer).await, "replies: {reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_nothing_is_closed_when_its_endpoint_is_killed_that_had_lagged() {
    let (zk, mut peer) = with_a_long_znode(settings().simulated_ensemble(2)).await;
    for at in 0..2 {
        zk.endpoint(at).unwrap().lag().await.unwrap();
    }
    peer.send_all([create("/first")].into_iter().chain(asks())).await;
    zk.idle().await;
    for at in 0..2 {
        zk.endpoint(at).unwrap().catch_up().await.unwrap();
    }
    tokio::time::sleep(secs(1)).await;
    for at in 0..2 {
        zk.endpoint(at).unwrap().kill().await.unwrap();
    }
    assert!(goes(&zk, &peer).await);
}

#[tokio::test(start_paused = true)]
async fn events_that_are_not_taken_close_the_connection_whatever_waits_before_them() {
    for delayed in [false, true] {
        let (zk, mut peer) = with_a_long_znode(settings()).await;
        let every = records::AddWatch { path: Some("/".to_owned()), mode: 1 };
        peer.ask(Request::AddWatch(every)).await;
        let path = format!("/{}", "w".repeat(10_000));
        zk.set(&path, "").await.unwrap();
        assert!(peer.hear().await.starts_with("NodeCreated"));
        if delayed {
            zk.faults().on(request()).delay_reply(secs(1)).unwrap();
        }
        peer.send_all((0..8).map(|_| get("/long"))).await;
        tokio::time::sleep(secs(1)).await;
        zk.fixture.clock().advance(secs(1)).unwrap();
        tokio::time::sleep(secs(1)).await;
        let mut events = 0;
        while zk.traffic(peer.conn()).is_some() && events < 200 {
            zk.set(&path, "").await.unwrap();
            tokio::time::sleep(secs(1)).await;
            events += 1;
        }
        assert!((20..150).contains(&events), "{events} of 10 kB, where 1 MB may wait; delayed: {delayed}");
    }
}

#[tokio::test]
async fn an_operator_does_not_see_whether_there_is_a_fixture() {
    let mut seen = Vec::new();
    for fixture in [false, true] {
        let server = settings().start().await.unwrap();
        if fixture {
            server.fixture();
        }
        let mut peer = Peer::over(server.in_process()().into_inner().unwrap());
        assert_eq!(peer.open().await, "session");
        peer.ask(create("/long")).await;
        peer.ask(set("/long", &"x".repeat(LONG))).await;
        peer.ask(watch("/event")).await;
        // It takes nothing.
        peer.send_all((0..MANY).map(|_| get("/long"))).await;
        tokio::task::yield_now().await;
        let mut other = Peer::over(server.in_process()().into_inner().unwrap());
        assert_eq!(other.open().await, "session");
        other.ask(create("/event")).await;
        let mut word = Peer::over(server.in_process()().into_inner().unwrap());
        word.write(b"srvr").await;
        let mut text = String::new();
        word.stream.read_to_string(&mut text).await.unwrap();
        let counts =
            |line: &&str| ["Received", "Sent", "Outstanding"].iter().any(|word| line.starts_with(word));
        seen.push(text.lines().filter(counts).map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(seen[0], seen[1]);
}
