//! What is lost, cut or refused, and what is not.

use zoolet_proto::{ErrorCode, OpCode};
use zoolet_server::fault::{Action, connection, handshake, op, request};

use crate::common::*;

#[tokio::test]
async fn a_dropped_request_changes_nothing_and_what_was_answered_before_arrives() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create).path("/b")).drop_request().unwrap();
    peer.send_all([create("/a"), create("/b"), create("/c")]).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 ok", "end"]);
    assert_eq!(zk.children("/"), ["a", "zookeeper"]);
    assert_eq!(zk.last_zxid().0, 2);
    assert_eq!(zk.sessions()[0].conn, None);
}

#[tokio::test]
async fn a_lost_reply_belongs_to_a_request_that_was_executed() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create).path("/b")).lose_reply().unwrap();
    peer.send_all([create("/a"), create("/b"), create("/c")]).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 ok", "end"]);
    assert_eq!(zk.children("/"), ["a", "b", "zookeeper"]);
}

#[tokio::test]
async fn a_withheld_reply_leaves_a_connection_that_is_one_reply_short() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create).nth(2)).withhold_reply().unwrap();
    peer.send_all(["/a", "/b", "/c"].map(create)).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 ok", "3 ok"]);
    assert_eq!(zk.children("/"), ["a", "b", "c", "zookeeper"]);
}

#[tokio::test]
async fn events_are_not_lost_with_the_reply_that_they_come_before() {
    let zk = Zk::start().await;
    zk.set("/a", "").await.unwrap();
    for action in [Action::LoseReply, Action::WithholdReply] {
        let mut peer = zk.peer().await;
        let id = zk.faults().place(op(OpCode::SetData), action).unwrap();
        peer.send_all([watch("/a"), set("/a", "x")]).await;
        zk.idle().await;
        assert_eq!(peer.heard().await[..2], ["1 ok", "NodeDataChanged /a"]);
        zk.faults().remove(id);
    }
}

#[tokio::test]
async fn a_session_that_is_closed_ends_its_connection_once_whatever_becomes_of_the_reply() {
    let cases: [(Action, &[&str]); 6] = [
        (Action::LoseReply, &["end"]),
        (Action::WithholdReply, &["end"]),
        (Action::CutReply(7), &["cut, with 7 bytes of a frame"]),
        (Action::CutReply(20), &["1 ok", "end"]),
        (Action::DelayReply(secs(1)), &["1 ok", "end"]),
        (Action::Drip { bytes: 7, every: millis(100) }, &["1 ok", "end"]),
    ];
    for (action, expected) in cases {
        let zk = Zk::start().await;
        let mut peer = zk.peer().await;
        zk.faults().place(op(OpCode::CloseSession), action).unwrap();
        peer.send(close()).await;
        zk.idle().await;
        for _ in 0..30 {
            zk.advance(millis(100)).await;
        }
        assert_eq!(peer.heard().await, expected);
        assert!(zk.sessions().is_empty());
        let ends = zk.said(peer.conn()).iter().filter(|line| *line == "the server closes it").count();
        assert_eq!(ends, 1, "{:#?}", zk.said(peer.conn()));
    }
}

#[tokio::test]
async fn a_reply_is_cut_at_the_byte() {
    for (bytes, heard) in [
        (0, vec!["end"]),
        (1, vec!["cut, with 1 bytes of a frame"]),
        (4, vec!["cut, with 4 bytes of a frame"]),
        (25, vec!["cut, with 25 bytes of a frame"]),
        (26, vec!["1 ok", "end"]),
        (1000, vec!["1 ok", "end"]),
    ] {
        let zk = Zk::start().await;
        let mut peer = zk.peer().await;
        zk.faults().on(op(OpCode::Create)).cut_reply(bytes).unwrap();
        peer.send(create("/a")).await;
        zk.idle().await;
        assert_eq!(peer.heard().await, heard, "{bytes}");
        assert!(zk.get("/a").is_some());
        let told = zk.said(peer.conn()).iter().any(|line| line.starts_with("<- 1 ok"));
        assert_eq!(told, bytes >= 26, "only a whole reply counts as sent");
    }
}

#[tokio::test]
async fn a_reset_is_an_error_to_the_peer_and_takes_what_is_held_up_with_it() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create).path("/a")).delay_reply(secs(1)).unwrap();
    zk.faults().on(op(OpCode::Create).path("/b")).reset().unwrap();
    peer.send_all([create("/a"), create("/b")]).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["reset"]);
    zk.advance(secs(2)).await;
    assert_eq!(zk.children("/"), ["a", "zookeeper"]);
    assert_eq!(zk.said(peer.conn()).last().unwrap(), "the server closes it");
}

#[tokio::test]
async fn an_injected_error_takes_no_zxid_and_is_a_sign_of_life() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(request()).fail(ErrorCode::NotEmpty).unwrap();
    let before = zk.last_zxid();
    for xid in 1..10 {
        zk.advance(secs(4)).await;
        assert_eq!(peer.ask(create("/a")).await, format!("{xid} NotEmpty"));
    }
    assert_eq!(peer.ask(ping()).await, "-2 NotEmpty");
    assert_eq!((zk.last_zxid(), zk.get("/a")), (before, None));
    assert_eq!(zk.counters().errors[&ErrorCode::NotEmpty.code()], 10);
}

#[tokio::test]
async fn a_refused_connection_is_reset_before_anything_is_read_from_it() {
    let zk = Zk::start().await;
    zk.faults().on(connection().nth(2)).refuse().unwrap();
    let (_one, mut two) = (zk.peer().await, zk.raw());
    zk.idle().await;
    assert_eq!(two.heard().await, ["reset"]);
    assert_eq!(
        zk.said(two.conn()),
        ["connected from 127.0.0.1", "!! fault 1: refuse", "the server closes it"]
    );
    zk.peer().await;
    assert_eq!(zk.sessions().len(), 2);
}

#[tokio::test]
async fn handshakes_can_be_lost_delayed_and_cut_too() {
    let zk = Zk::start().await;
    zk.faults().on(handshake().nth(1)).lose_reply().unwrap();
    zk.faults().on(handshake().nth(2)).drop_request().unwrap();
    zk.faults().on(handshake().nth(3)).delay_request(secs(1)).unwrap();
    zk.faults().on(handshake().nth(4)).withhold_reply().unwrap();
    assert_eq!(zk.raw().open().await, "end");
    assert_eq!(zk.sessions().len(), 1, "its client does not know of it");
    // The second fault saw no handshake before: the first had met it.
    assert_eq!(zk.raw().open().await, "session");
    assert_eq!(zk.raw().open().await, "end");
    assert_eq!(zk.sessions().len(), 2);
}
