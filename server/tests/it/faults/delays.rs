//! What comes late, and in which order.

use zoolet_proto::OpCode;
use zoolet_server::fault::{op, request};

use crate::common::*;

#[tokio::test]
async fn delayed_requests_keep_their_order_and_are_each_as_late_as_said() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(request()).delay_request(secs(1)).unwrap();
    peer.send_all(["/a", "/a/b", "/a/b/c"].map(create)).await;
    zk.idle().await;
    zk.advance(millis(400)).await;
    peer.send(create("/a/b/c/d")).await;
    zk.idle().await;
    zk.advance(millis(599)).await;
    assert!(peer.heard().await.is_empty());
    zk.advance(millis(1)).await;
    assert_eq!(peer.heard().await, ["1 ok", "2 ok", "3 ok"]);
    zk.advance(millis(399)).await;
    assert!(peer.heard().await.is_empty());
    zk.advance(millis(1)).await;
    assert_eq!(peer.heard().await, ["4 ok"]);
    assert_eq!(zk.faults().fired().len(), 4);
}

#[tokio::test]
async fn a_request_that_waits_behind_a_delay_and_meets_its_own_stays_where_it_is() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create).path("/a")).delay_request(secs(1)).unwrap();
    zk.faults().on(op(OpCode::Create).path("/b")).delay_request(secs(2)).unwrap();
    peer.send_all([create("/a"), create("/b"), get("/b"), get("/b")]).await;
    zk.idle().await;
    zk.advance(secs(1)).await;
    assert_eq!(peer.heard().await, ["1 ok"]);
    zk.advance(secs(1)).await;
    assert_eq!(peer.heard().await, ["2 ok", "3 ok", "4 ok"]);
}

#[tokio::test]
async fn what_was_delayed_comes_before_what_arrives_when_it_is_due() {
    let zk = Zk::start().await;
    let (mut one, mut two) = (zk.peer().await, zk.peer().await);
    zk.faults().on(op(OpCode::Create).path("/one")).delay_request(secs(1)).unwrap();
    one.send(create("/one")).await;
    zk.idle().await;
    two.send(create("/two")).await;
    zk.advance(secs(1)).await;
    let czxid = |path| zk.get(path).unwrap().stat.czxid;
    assert!(czxid("/one") < czxid("/two"));
}

#[tokio::test]
async fn only_the_connection_of_a_delayed_request_waits_for_it() {
    let zk = Zk::start().await;
    let (mut slow, mut other) = (zk.peer().await, zk.peer().await);
    zk.faults().on(op(OpCode::Create).path("/slow")).delay_request(secs(1)).unwrap();
    slow.send_all([create("/slow"), create("/behind")]).await;
    assert_eq!(other.ask(create("/other")).await, "1 ok");
    assert_eq!(zk.children("/"), ["other", "zookeeper"]);
    zk.advance(secs(1)).await;
    assert_eq!(slow.heard().await, ["1 ok", "2 ok"]);
}

#[tokio::test]
async fn a_delayed_request_is_no_sign_of_life_before_it_is_executed() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Ping)).delay_request(secs(60)).unwrap();
    for _ in 0..3 {
        peer.send(ping()).await;
        zk.idle().await;
        zk.advance(secs(4)).await;
    }
    assert_eq!(peer.heard().await, ["end"]);
    assert!(zk.sessions().is_empty());
}

#[tokio::test]
async fn a_delayed_reply_holds_up_what_is_behind_it_and_nothing_else() {
    let zk = Zk::start().await;
    let (mut peer, mut other) = (zk.peer().await, zk.peer().await);
    zk.faults().on(op(OpCode::Create)).delay_reply(secs(1)).unwrap();
    peer.send_all([watch("/x"), create("/a"), get("/a")]).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 NoNode"]);
    zk.set("/x", "by the test").await.unwrap();
    assert_eq!(other.ask(get("/a")).await, "1 ok");
    assert!(peer.heard().await.is_empty());
    zk.advance(secs(1)).await;
    assert_eq!(peer.heard().await, ["2 ok", "3 ok", "NodeCreated /x"]);
}

#[tokio::test]
async fn the_end_of_a_connection_does_not_overtake_a_delayed_reply() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(request().nth(1)).delay_reply(secs(1)).unwrap();
    zk.faults().on(op(OpCode::SetData)).lose_reply().unwrap();
    peer.send_all([create("/a"), set("/a", "x"), set("/a", "y")]).await;
    zk.idle().await;
    assert!(peer.heard().await.is_empty());
    zk.advance(secs(1)).await;
    assert_eq!(peer.heard().await, ["1 ok", "end"]);
    assert_eq!(zk.get("/a").unwrap().text(), "x", "what comes behind a cut never arrives");
    let said = zk.said(peer.conn());
    let said: Vec<_> = said.iter().map(String::as_str).skip(3).collect();
    assert_eq!(
        said,
        [
            "-> 1 Create /a",
            "!! fault 1: delay the reply by 1s",
            "-> 2 SetData /a",
            "!! fault 2: lose the reply",
            "<- 1 ok, zxid 0x2",
            "the server closes it",
        ]
    );
}

#[tokio::test]
async fn a_delay_of_less_than_a_millisecond_is_one() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(request()).delay_request(std::time::Duration::from_micros(1)).unwrap();
    peer.send(create("/a")).await;
    zk.idle().await;
    assert!(peer.heard().await.is_empty());
    zk.advance(millis(1)).await;
    assert_eq!(peer.heard().await, ["1 ok"]);
}
