//! Sessions that are cut off, expired or moved while their clients think that all is well.

use tokio::time::{sleep, timeout};
use zoolet::testing::FixtureExt as _;
use zoolet::{ErrorCode, HoldState, Lock, LostReason, SessionState};
use zoolet_test_support::{RequestExt as _, Zk, create, ping, secs, set_data};

use crate::faults::naive::*;

#[tokio::test(start_paused = true)]
async fn freeze_a_client_that_waits_for_a_silent_server_expires_unnoticed() {
    let zk = Zk::start().await;
    let fixture = zk.fixture();

    let mut naive = Naive::open(&zk).await;
    naive.call(create("/naive").ephemeral()).await.expect("a leader");
    let session = naive.wire.welcome.session;
    fixture.freeze(session).await.unwrap();
    let asked = timeout(LONG - secs(1), naive.call(ping())).await;
    assert!(asked.is_err(), "it still waits, and believes that it leads");
    assert!(fixture.get("/naive").is_none());
    fixture.unfreeze(session).await.unwrap();

    let (client, other) = (ours(&zk).await, ours(&zk).await);
    let guard = Lock::new(&client, "/lock").acquire().await.expect("the lock");
    fixture.freeze(client.session_id()).await.unwrap();
    let rival = Lock::new(&other, "/lock");
    assert!(
        rival.acquire().timeout(LONG).await.is_err(),
        "the session came back by another connection in time"
    );
    assert_eq!(guard.state(), HoldState::Held);
    guard.verify().await.expect("a lock that is held");
    fixture.unfreeze(client.session_id()).await.unwrap();
    guard.verify().await.expect("what comes on the old connection does no harm");

    let (freeze, unfreeze) = ("the connection is frozen", "the connection is unfrozen");
    assert_eq!(fired(&zk), [freeze, unfreeze, freeze, unfreeze]);
}

#[tokio::test(start_paused = true)]
async fn expire_session_a_client_that_silently_opens_another_loses_its_ephemerals() {
    let zk = Zk::start().await;
    let fixture = zk.fixture();

    let mut naive = Naive::open(&zk).await;
    naive.call(create("/naive").ephemeral()).await.expect("a member");
    fixture.expire_session(naive.wire.welcome.session).await.unwrap();
    naive.insist(set_data("/", "as if nothing had happened")).await;
    assert!(fixture.get("/naive").is_none(), "it goes on, and is no member any more");

    let client = ours(&zk).await;
    let guard = Lock::new(&client, "/lock").acquire().await.expect("the lock");
    let lost = guard.lost();
    fixture.expire_session(client.session_id()).await.unwrap();
    assert_eq!(soon(lost).await, LostReason::SessionExpired);
    assert_eq!(client.state(), SessionState::Expired);
    let error = client.set_data("/", "").await.expect_err("a session that is over");
    assert!(error.is_session_over() && !error.is_retryable(), "{error}");
    assert!(guard.verify().await.is_err());

    assert_eq!(fired(&zk), ["the session is expired", "the session is expired"]);
}

#[tokio::test(start_paused = true)]
async fn move_session_a_client_that_takes_it_for_an_error_keeps_using_a_closed_connection() {
    let zk = Zk::start().await;
    zk.create("/a", "old").await;
    let fixture = zk.fixture();

    let mut naive = Naive::open(&zk).await;
    fixture.move_session(naive.wire.welcome.session).await.unwrap();
    let answer = naive.call(set_data("/a", "naive")).await.expect("an answer");
    assert_eq!(answer[12..16], ErrorCode::SessionMoved.code().to_be_bytes());
    assert!(naive.call(set_data("/a", "naive")).await.is_none(), "and gets nothing more on it");
    assert_eq!(fixture.get("/a").unwrap().text(), "old");

    let client = ours(&zk).await;
    client.create("/member", "").ephemeral().await.expect("a member");
    let session = client.session_id();
    fixture.move_session(session).await.unwrap();
    let error = client.set_data("/a", "ours").await.expect_err("a session that has moved");
    assert!(error.is_retryable() && !error.may_have_applied(), "{error}");
    client.set_data("/a", "ours").await.expect("the session follows");
    assert_eq!((client.session_id(), fixture.get("/a").unwrap().text()), (session, "ours"));
    assert_eq!(fixture.get("/member").unwrap().owner(), Some(session));

    assert_eq!(fired(&zk), ["the session is moved away", "the session is moved away"]);
}

#[tokio::test(start_paused = true)]
async fn disconnect_a_client_that_returns_with_a_new_session_loses_its_ephemeral() {
    let zk = Zk::start().await;
    let fixture = zk.fixture();

    let mut naive = Naive::open(&zk).await;
    naive.call(create("/naive").ephemeral()).await.expect("a member");
    fixture.disconnect(naive.wire.welcome.session).await.unwrap();
    for _ in 0..20 {
        naive.insist(ping()).await;
        sleep(secs(1)).await;
    }
    assert!(fixture.get("/naive").is_none(), "it was there all the time, and is no member any more");

    let client = ours(&zk).await;
    client.create("/member", "").ephemeral().await.expect("a member");
    fixture.disconnect(client.session_id()).await.unwrap();
    sleep(secs(20)).await;
    assert_eq!(fixture.get("/member").unwrap().owner(), Some(client.session_id()));

    assert_eq!(fired(&zk), ["the connection is closed", "the connection is closed"]);
}
