//! What a client counts.

use std::time::Duration;

use zoolet_client::{ClientMetrics, ErrorCode, EventType};
use zoolet_proto::{Reply, Stat};

use crate::common::connected;

#[tokio::test(start_paused = true)]
async fn a_client_counts_what_it_sends_and_receives() {
    let (zk, mut peer, mut listener) = connected().await;
    let counted = |metrics: &ClientMetrics| (metrics.requests, metrics.replies, metrics.refusals);
    let (get, refused) = (zk.get_data("/a").watch().send(), zk.get_data("/b").send());
    for _ in 0..2 {
        peer.next().await.expect("a request");
    }
    let metrics = zk.metrics();
    assert_eq!((counted(&metrics), metrics.in_flight, metrics.connections), ((2, 0, 0), 2, 1));
    // A frame is its length, a header of 8 bytes, the length of the path, the path and a flag.
    assert_eq!(metrics.bytes_sent, 2 * (4 + 8 + 4 + 2 + 1));
    tokio::time::sleep(Duration::from_millis(20)).await;
    peer.reply(1, Reply::Data(None, Stat::default())).await;
    peer.error(2, ErrorCode::NoNode).await;
    peer.event(EventType::NodeDataChanged, "/a").await;
    let (_, _, watch) = get.await.expect("data");
    refused.await.expect_err("absent");
    watch.changed().await.expect("an event");
    let metrics = zk.metrics();
    assert_eq!((counted(&metrics), metrics.in_flight, metrics.events), ((2, 2, 1), 0, 1));
    assert_eq!(metrics.reply_time, Duration::from_millis(40));
    // The responses: to the handshake, data with a Stat, an error, an event.
    assert_eq!(metrics.bytes_received, 41 + (4 + 16 + 4 + 68) + (4 + 16) + (4 + 16 + 8 + 4 + 2));

    let lost = zk.set_data("/a", "").send();
    peer.next().await.expect("a request");
    drop(peer);
    lost.await.expect_err("lost");
    let mut peer = listener.accept().await;
    let sync = peer.next().await.expect("it begins with a sync").0;
    peer.reply(sync, Reply::Synced(Some("/".into()))).await;
    zk.states();
    let metrics = zk.metrics();
    assert_eq!((metrics.connections, metrics.connections_lost, metrics.calls_lost), (2, 1, 1));
    assert_eq!(metrics.attempts_failed, 0);
    tokio::time::sleep(zk.session_timeout() / 2).await;
    assert_eq!(zk.metrics().pings, 1);
}
