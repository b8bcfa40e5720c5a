//! What arrives in pieces.

use zoolet_proto::OpCode;
use zoolet_server::Server;
use zoolet_server::fault::op;

use crate::common::*;

#[tokio::test]
async fn a_drip_begins_with_its_reply_and_never_ends() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::SetData)).drip(30, secs(1)).unwrap();
    // Replies of 26, 88, 26 bytes.
    peer.send_all([create("/a"), set("/a", ""), create("/b")]).await;
    zk.idle().await;
    let mut arrived = vec![peer.bytes().await];
    for _ in 0..6 {
        zk.advance(secs(1)).await;
        arrived.push(peer.bytes().await);
    }
    assert_eq!(arrived, [26 + 30, 30, 30, 24, 0, 0, 0]);
    assert_eq!(peer.heard().await, ["1 ok", "2 ok", "3 ok"]);
    peer.send(ping()).await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["pong"], "20 bytes are one piece");
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_the_last_drop() {
    let zk = Zk::with(Server::builder()).await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::CloseSession)).drip(1, secs(3)).unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(peer.ask(close()).await, "1 ok");
    assert_eq!(began.elapsed(), secs(19 * 3));
    assert_eq!(peer.hear().await, "end");
}
