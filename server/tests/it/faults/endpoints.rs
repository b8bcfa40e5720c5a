//! Faults at an endpoint of a simulated ensemble, whose replies may come long after what they answer.

use zoolet_proto::{ErrorCode, OpCode, Zxid};
use zoolet_server::fault::{Action, op, request};
use zoolet_server::fixture::RecordedEvent;
use zoolet_server::{Clock, InProcessStream, Server};

use crate::common::*;

/// A server of two endpoints, and a peer at the second, which lags.
async fn lagging() -> (Zk, Peer<InProcessStream>) {
    let zk = Zk::with(Server::builder().clock(Clock::manual()).simulated_ensemble(2)).await;
    let mut peer = zk.raw_at(1);
    assert_eq!(peer.open().await, "session");
    let endpoint = zk.endpoint(1).expect("an endpoint");
    endpoint.lag().await.expect("a server that runs");
    (zk, peer)
}

#[tokio::test]
async fn what_happens_to_a_reply_happens_when_the_endpoint_sends_it() {
    let cases: [(Action, &[&str]); 6] = [
        (Action::LoseReply, &["1 ok", "end"]),
        (Action::WithholdReply, &["1 ok", "3 ok"]),
        (Action::CutReply(5), &["1 ok", "cut, with 5 bytes of a frame"]),
        (Action::DelayReply(secs(1)), &["1 ok"]),
        (Action::Drip { bytes: 5, every: secs(1) }, &["1 ok"]),
        (Action::Fail(ErrorCode::NoAuth), &["1 ok", "2 NoAuth", "3 ok"]),
    ];
    for (action, expected) in cases {
        let (zk, mut peer) = lagging().await;
        zk.faults().place(op(OpCode::SetData), action).unwrap();
        peer.send_all([create("/a"), set("/a", "x"), get("/a")]).await;
        zk.idle().await;
        assert!(peer.heard().await.is_empty(), "{action}");
        zk.endpoint(1).unwrap().catch_up().await.unwrap();
        zk.idle().await;
        assert_eq!(peer.heard().await, expected, "{action}");
        let executed = !matches!(action, Action::Fail(_));
        assert_eq!(zk.get("/a").unwrap().text(), if executed { "x" } else { "" });
    }
}

#[tokio::test]
async fn a_delayed_reply_is_late_from_when_it_would_have_come() {
    let (zk, mut peer) = lagging().await;
    zk.faults().on(request()).delay_reply(secs(1)).unwrap();
    peer.send(create("/a")).await;
    zk.advance(secs(5)).await;
    zk.endpoint(1).unwrap().catch_up().await.unwrap();
    zk.advance(millis(999)).await;
    assert!(peer.heard().await.is_empty());
    zk.advance(millis(1)).await;
    assert_eq!(peer.heard().await, ["1 ok"]);
}

#[tokio::test]
async fn an_injected_error_shows_no_more_than_the_endpoint_has_seen() {
    let (zk, mut peer) = lagging().await;
    let seen = zk.endpoint(1).unwrap().view().zxid;
    zk.set("/a", "").await.unwrap();
    zk.faults().on(op(OpCode::GetData)).fail(ErrorCode::NoAuth).unwrap();
    assert_eq!(peer.ask(get("/a")).await, "1 NoAuth");
    let replied = |what: &RecordedEvent| match what {
        RecordedEvent::Reply { zxid, .. } => Some(*zxid),
        _ => None,
    };
    let zxids: Vec<Zxid> = zk.entries(peer.conn()).iter().filter_map(|entry| replied(&entry.what)).collect();
    assert_eq!(zxids, [seen], "or no lagging endpoint would take its client again");
    assert!(zk.last_zxid() > seen);
}

#[tokio::test]
async fn what_is_done_to_an_endpoint_stands_in_the_record() {
    let (zk, mut peer) = lagging().await;
    let endpoint = zk.endpoint(1).unwrap();
    zk.set("/a", "").await.unwrap();
    endpoint.apply_next(1).await.unwrap();
    endpoint.catch_up().await.unwrap();
    endpoint.set_read_only(true).await.unwrap();
    endpoint.set_read_only(false).await.unwrap();
    endpoint.kill().await.unwrap();
    endpoint.revive().await.unwrap();
    assert_eq!(
        zk.fired(),
        [
            "!! endpoint 1 lags",
            "!! endpoint 1 applies the next 1",
            "!! endpoint 1 catches up",
            "!! endpoint 1 is cut off",
            "!! endpoint 1 finds the leader",
            "!! endpoint 1 is killed",
            "!! endpoint 1 is revived",
        ]
    );
    zk.idle().await;
    assert_eq!(peer.heard().await, ["end"]);
    assert_eq!(zk.said(peer.conn()).last().unwrap(), "the server closes it");
}

#[tokio::test]
async fn each_endpoint_tells_operators_and_clients_of_itself() {
    let (zk, mut peer) = lagging().await;
    peer.send_all([watch("/a"), get("/a")]).await;
    let ask = |at: usize, word: &'static str| zk.word_at(at, word);
    zk.set("/a", "").await.unwrap();
    let znodes = async |at| ask(at, "srvr").await.rsplit_once("Node count: ").unwrap().1.trim().to_owned();
    assert_eq!((znodes(0).await, znodes(1).await), ("6".to_owned(), "5".to_owned()), "the second lags");
    assert!(ask(1, "srvr").await.contains("\nMode: follower\n"));
    // Where endpoints may be cut off clients may ask, whatever else is allowed.
    assert_eq!(ask(1, "isro").await, "rw");
    zk.endpoint(1).unwrap().set_read_only(true).await.unwrap();
    assert_eq!((ask(0, "isro").await.as_str(), ask(1, "isro").await.as_str()), ("rw", "ro"));
    let cut_off = ask(1, "srvr").await;
    assert!(cut_off.contains("\nREAD-ONLY mode; serving only read-only clients\nLatency"), "{cut_off}");
    assert!(cut_off.contains("\nMode: read-only\n"));
    assert!(ask(1, "ruok").await.contains("not in the whitelist"));
}

#[tokio::test]
async fn the_watches_and_connections_of_an_endpoint_are_its_own() {
    let settings = Server::builder().clock(Clock::manual()).simulated_ensemble(2).all_four_letter_words();
    let zk = Zk::with(settings).await;
    let mut peer = zk.raw_at(1);
    assert_eq!(peer.open().await, "session");
    peer.ask(watch("/a")).await;
    let ask = |at: usize, word: &'static str| zk.word_at(at, word);
    let session = format!("{}", peer.session());
    assert_eq!(ask(0, "wchc").await, "\n");
    assert_eq!(ask(1, "wchc").await, format!("{session}\n\t/a\n\n"));
    assert!(!ask(0, "cons").await.contains(&session));
    assert!(ask(1, "cons").await.contains(&format!("sid={session}")));
    assert!(ask(1, "mntr").await.contains("zk_server_state\tfollower\n"));
    assert!(ask(0, "srvr").await.contains("\nConnections: 1\n"), "that of the word");
    assert!(ask(1, "srvr").await.contains("\nConnections: 2\n"));
}
