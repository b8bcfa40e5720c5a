//! Connections that a network cuts off without a word, and lets through again.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zoolet_proto::{ErrorCode, OpCode};
use zoolet_server::fault::{handshake, op};
use zoolet_server::fixture::FixtureError;

use crate::common::*;

#[tokio::test]
async fn nothing_passes_a_frozen_connection_until_it_is_healed_and_then_everything_in_order() {
    let zk = Zk::start().await;
    let (mut peer, mut other) = (zk.peer().await, zk.peer().await);
    assert_eq!(peer.ask(watch("/x")).await, "1 NoNode");
    zk.freeze(peer.session()).await.unwrap();
    peer.send_all([create("/a"), create("/b")]).await;
    assert_eq!(other.ask(create("/x")).await, "1 ok");
    zk.idle().await;
    assert!(peer.heard().await.is_empty());
    assert_eq!(zk.children("/"), ["x", "zookeeper"]);
    zk.heal(peer.session()).await.unwrap();
    zk.idle().await;
    assert_eq!(peer.heard().await, ["NodeCreated /x", "2 ok", "3 ok"], "the event was under way before");
    assert_eq!(zk.fired(), ["!! the connection is frozen", "!! the connection is healed"]);
}

#[tokio::test]
async fn a_request_can_freeze_its_connection_and_is_executed_when_that_is_healed() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create).path("/b")).freeze().unwrap();
    peer.send_all(["/a", "/b", "/c"].map(create)).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 ok"]);
    assert_eq!(zk.children("/"), ["a", "zookeeper"]);
    zk.heal(peer.session()).await.unwrap();
    zk.idle().await;
    assert_eq!(peer.heard().await, ["2 ok", "3 ok"]);
    assert_eq!(zk.faults().fired().len(), 2, "the same request does not freeze it again");
}

#[tokio::test]
async fn a_session_may_expire_while_it_is_frozen_and_its_client_learns_it_when_it_is_healed() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    peer.ask(ephemeral("/e")).await;
    zk.freeze(peer.session()).await.unwrap();
    peer.send_all([ping(), create("/late")]).await;
    zk.idle().await;
    zk.advance(TIMEOUT + TICK).await;
    assert!(zk.sessions().is_empty());
    assert_eq!(zk.children("/"), ["zookeeper"]);
    assert!(peer.heard().await.is_empty(), "the end does not pass either");
    zk.heal(peer.session()).await.unwrap();
    zk.idle().await;
    assert_eq!(peer.heard().await, ["end"]);
    assert_eq!(zk.children("/"), ["zookeeper"]);
}

#[tokio::test]
async fn a_client_that_comes_back_by_another_way_finds_its_session() {
    let zk = Zk::start().await;
    let mut cut_off = zk.peer().await;
    zk.freeze(cut_off.session()).await.unwrap();
    cut_off.send(create("/old")).await;
    zk.idle().await;
    let mut again = zk.again(&cut_off.welcome).await;
    assert_eq!(again.ask(create("/new")).await, "1 ok");
    zk.heal(cut_off.session()).await.unwrap();
    zk.idle().await;
    assert_eq!(cut_off.heard().await, ["end"]);
    assert_eq!(zk.children("/"), ["new", "zookeeper"], "what was sent on the old connection came too late");
    assert_eq!(again.ask(ping()).await, "pong");
}

#[tokio::test]
async fn a_handshake_that_is_frozen_is_healed_with_all_others() {
    let zk = Zk::start().await;
    zk.faults().on(handshake().nth(1)).freeze().unwrap();
    let mut peer = zk.raw();
    peer.hello(zoolet_proto::SessionId(0), &bytes::Bytes::new()).await;
    zk.idle().await;
    assert!(zk.sessions().is_empty());
    zk.heal_all().await.unwrap();
    assert_eq!(peer.hear().await, "session");
    assert_eq!(zk.heal_all().await, Err(FixtureError::NothingFrozen));
}

#[tokio::test]
async fn a_delay_begins_when_its_connection_is_healed() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create)).delay_request(secs(1)).unwrap();
    zk.freeze(peer.session()).await.unwrap();
    peer.send_all([create("/a"), create("/b")]).await;
    zk.idle().await;
    zk.advance(secs(5)).await;
    zk.heal(peer.session()).await.unwrap();
    zk.idle().await;
    zk.advance(millis(999)).await;
    assert!(peer.heard().await.is_empty());
    zk.advance(millis(1)).await;
    assert_eq!(peer.heard().await, ["1 ok", "2 ok"]);
}

#[tokio::test]
async fn a_disconnect_gets_through_to_a_frozen_client() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.freeze(peer.session()).await.unwrap();
    peer.send(create("/a")).await;
    zk.idle().await;
    zk.disconnect(peer.session()).await.unwrap();
    zk.idle().await;
    assert_eq!(peer.heard().await, ["end"]);
    assert_eq!(zk.heal(peer.session()).await, Err(FixtureError::NotFrozen(peer.session())));
    assert!(zk.get("/a").is_none());
}

#[tokio::test]
async fn a_frozen_connection_is_not_read_and_loses_nothing() {
    const REQUESTS: i32 = 10_000;
    let zk = Zk::start().await;
    for by_fault in [true, false] {
        let mut peer = zk.peer().await;
        let (conn, session) = (peer.conn(), peer.session());
        if by_fault {
            zk.faults().on(op(OpCode::Exists).nth(1)).freeze().unwrap();
        } else {
            zk.freeze(session).await.unwrap();
        }
        let mut bytes = bytes::BytesMut::new();
        (0..REQUESTS).for_each(|_| peer.encode(watch("/none"), &mut bytes));
        let (mut reading, mut writing) = tokio::io::split(peer.stream);
        let write = tokio::spawn(async move { writing.write_all(&bytes).await });
        zk.idle().await;
        assert!(!write.is_finished(), "the server took everything of a peer that nothing is heard of");
        zk.heal(session).await.unwrap();
        let mut replies = Vec::new();
        while replies.len() < REQUESTS as usize * 20 {
            reading.read_buf(&mut replies).await.expect("replies");
        }
        write.await.unwrap().expect("a connection that takes bytes");
        let xid = |reply: &[u8]| i32::from_be_bytes(reply[4..8].try_into().unwrap());
        let xids: Vec<_> = replies.chunks(20).map(xid).collect();
        assert_eq!(xids, (1..=REQUESTS).collect::<Vec<_>>());
        assert_eq!(zk.requests(session).len(), REQUESTS as usize);
        assert_eq!(zk.session_of(conn), Some(session));
    }
}

#[tokio::test]
async fn freezing_twice_and_healing_what_is_not_frozen_are_mistakes() {
    let zk = Zk::start().await;
    let peer = zk.peer().await;
    let id = peer.session();
    assert_eq!(zk.heal(id).await, Err(FixtureError::NotFrozen(id)));
    zk.freeze(id).await.unwrap();
    assert_eq!(zk.freeze(id).await, Err(FixtureError::AlreadyFrozen(id)));
    zk.heal(id).await.unwrap();
    assert_eq!(zk.heal(id).await, Err(FixtureError::NotFrozen(id)));
    assert_eq!(zk.faults().fired().len(), 2, "what failed did not happen");
}

#[tokio::test]
async fn an_error_is_injected_into_a_frozen_connection_only_when_it_is_healed() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.freeze(peer.session()).await.unwrap();
    zk.faults().on(op(OpCode::Create)).fail(ErrorCode::NoAuth).unwrap();
    peer.send(create("/a")).await;
    zk.idle().await;
    assert_eq!(zk.faults().fired().len(), 1);
    zk.heal(peer.session()).await.unwrap();
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 NoAuth"]);
}
