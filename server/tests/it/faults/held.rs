//! What becomes of what is held up when its connection ends.

use zoolet_proto::OpCode;
use zoolet_server::fault::op;
use zoolet_server::{Clock, Server};

use crate::common::*;

#[tokio::test]
async fn what_a_client_sent_before_it_left_is_executed_when_its_time_has_come() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create)).delay_request(secs(1)).unwrap();
    peer.send_all([ephemeral("/a"), get("/a")]).await;
    zk.idle().await;
    let (conn, session) = (peer.conn(), peer.session());
    drop(peer);
    zk.idle().await;
    assert_eq!(zk.session_of(conn), Some(session), "its end is behind its request");
    zk.advance(secs(1)).await;
    assert_eq!(zk.get("/a").unwrap().owner(), Some(session));
    assert_eq!(zk.session_of(conn), None);
    assert_eq!(zk.said(conn).last().unwrap(), "closed");
}

#[tokio::test]
async fn a_reply_that_is_late_for_its_client_is_not_recorded_as_sent() {
    for cut in [false, true] {
        let zk = Zk::start().await;
        let mut peer = zk.peer().await;
        zk.faults().on(op(OpCode::Create)).delay_reply(secs(1)).unwrap();
        zk.faults().on(op(OpCode::GetData)).lose_reply().unwrap();
        peer.send(create("/a")).await;
        if cut {
            peer.send(get("/a")).await;
        }
        zk.idle().await;
        let conn = peer.conn();
        drop(peer);
        zk.idle().await;
        zk.advance(secs(2)).await;
        let said = zk.said(conn);
        assert!(!said.iter().any(|line| line.starts_with("<- 1")), "{said:#?}");
        assert_eq!(said.last().unwrap(), "closed");
    }
}

#[tokio::test]
async fn nothing_stays_outstanding_of_a_connection_that_is_cut() {
    let zk = Zk::with(Server::builder().clock(Clock::manual()).all_four_letter_words()).await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::Create)).delay_request(secs(1)).unwrap();
    peer.send_all(["/a", "/b", "/c"].map(create)).await;
    zk.idle().await;
    assert!(zk.word("srvr").await.contains("\nOutstanding: 3\n"));
    zk.disconnect(peer.session()).await.unwrap();
    zk.idle().await;
    assert!(zk.word("srvr").await.contains("\nOutstanding: 0\n"));
}

#[tokio::test]
async fn what_a_connection_takes_along_that_waits_for_its_turn_is_not_outstanding() {
    /// More than the server lets wait.
    const MANY: usize = 1_100;
    let zk = Zk::with(Server::builder().clock(Clock::manual()).all_four_letter_words()).await;
    let mut peers = Vec::new();
    for _ in 0..MANY {
        peers.push(zk.peer().await);
    }
    zk.idle().await;
    // All at once, before anybody else runs.
    let sending = async {
        for peer in &mut peers {
            peer.send(get("/")).await;
        }
    };
    tokio::task::unconstrained(sending).await;
    // It is cut while its request waits behind those of the others for a place.
    zk.disconnect(peers[MANY - 1].session()).await.unwrap();
    zk.idle().await;
    let said = zk.said(peers[MANY - 1].conn());
    assert_eq!(said.last().unwrap(), "the server closes it");
    assert!(!said.iter().any(|line| line.contains("getData")), "{said:#?}");
    let words = zk.word("srvr").await;
    assert!(words.contains("\nOutstanding: 0\n"), "{words}");
}
