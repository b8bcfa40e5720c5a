//! The bound on requests that are sent and not answered.

use std::time::Duration;

use zoolet_client::{Client, ConnectOptions, Error};
use zoolet_proto::{Reply, Request, Stat};

use crate::common::{TIMEOUT, at_once, connected_with};

/// Room for four small requests.
fn options() -> ConnectOptions {
    Client::options().max_pending(4 * 600)
}

fn written(request: &Request) -> String {
    request.path().expect("a path").to_owned()
}

#[tokio::test(start_paused = true)]
async fn sending_fails_when_too_much_is_pending_and_works_again_after_replies() {
    let (zk, mut peer, _listener) = connected_with(options()).await;
    let sent: Vec<_> = (0..4).map(|n| zk.set_data(format!("/{n}"), "").send()).collect();
    let error = zk.set_data("/4", "").send().await.expect_err("no room");
    assert!(matches!(error, Error::QueueFull { max: 2400, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "setData /4: too many requests wait for a reply; the limit is 2400 bytes, `max_pending`"
    );
    assert!(error.is_retryable() && !error.may_have_applied());
    for reply in sent {
        let (xid, _) = peer.next().await.expect("a request");
        peer.reply(xid, Reply::Stat(Stat::default())).await;
        reply.await.expect("a stat");
    }
    let again = zk.set_data("/4", "").send();
    let (xid, request) = peer.next().await.expect("a request");
    assert_eq!(written(&request), "/4", "what was refused is not sent");
    peer.reply(xid, Reply::Stat(Stat::default())).await;
    again.await.expect("a stat");
}

#[tokio::test(start_paused = true)]
async fn awaiting_waits_for_room_in_order_and_a_dropped_future_sends_nothing() {
    let (zk, mut peer, _listener) = connected_with(options()).await;
    let sent: Vec<_> = (0..4).map(|n| zk.set_data(format!("/{n}"), "").send()).collect();
    let waiting: Vec<_> = (4..8)
        .map(|n| {
            let zk = zk.clone();
            tokio::spawn(async move { zk.set_data(format!("/{n}"), "").await })
        })
        .collect();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(at_once(async { zk.set_data("/dropped", "").await }).await.is_none(), "it waits, and is dropped");
    assert!(
        matches!(zk.set_data("/no", "").send().await, Err(Error::QueueFull { .. })),
        "others wait already"
    );
    waiting[1].abort();
    let mut arrived = Vec::new();
    for _ in 0..7 {
        let (xid, request) = peer.next().await.expect("a request");
        arrived.push(written(&request));
        peer.reply(xid, Reply::Stat(Stat::default())).await;
    }
    assert_eq!(arrived, ["/0", "/1", "/2", "/3", "/4", "/6", "/7"]);
    for reply in sent {
        reply.await.expect("a stat");
    }
    for (n, reply) in waiting.into_iter().enumerate() {
        match reply.await {
            Ok(outcome) => drop(outcome.expect("a stat")),
            Err(error) => assert!(error.is_cancelled() && n == 1),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_what_waits_is_bounded_and_room_comes_back_with_the_timeouts() {
    let (zk, peer, _listener) = connected_with(options()).await;
    drop(peer);
    let start = tokio::time::Instant::now();
    let refused = (0..10_000).filter(|n| {
        let sent = zk.set_data(format!("/{n}"), "").send();
        has_outcome(sent)
    });
    assert_eq!(refused.count(), 9_996);
    let late = zk.get_data("/late").timeout(Duration::from_secs(1)).await.expect_err("no connection");
    assert!(late.to_string().starts_with("getData /late: timed out; last connection error: "), "{late}");
    assert!(!late.may_have_applied());
    assert_eq!(start.elapsed().as_secs(), 1);
    let waited = zk.get_data("/waited").await.expect_err("no connection");
    assert!(matches!(waited, Error::ConnectionLoss(_)), "{waited:?}");
    assert!(start.elapsed() > TIMEOUT && start.elapsed() <= 2 * TIMEOUT, "{:?}", start.elapsed());
}

/// Whether the outcome is known at once.
fn has_outcome<T>(mut reply: zoolet_client::ReplyFuture<T>) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::future::Future::poll(std::pin::Pin::new(&mut reply), &mut cx).is_ready()
}

#[tokio::test(start_paused = true)]
async fn large_data_counts_with_its_size_and_one_request_of_any_size_fits() {
    let (zk, mut peer, _listener) = connected_with(Client::options().max_pending(100_000)).await;
    let huge = zk.multi().set_data("/a", vec![0; 150_000]).set_data("/b", vec![0; 150_000]).send();
    assert!(matches!(zk.get_data("/c").send().await, Err(Error::QueueFull { .. })));
    let (xid, _) = peer.next().await.expect("a request");
    let set = || zoolet_proto::records::OpResult::SetData(Stat::default());
    peer.reply(xid, Reply::Multi(vec![set(), set()])).await;
    huge.await.expect("outcomes");
    let large = zk.create("/d", vec![0; 60_000]).send();
    assert!(matches!(zk.set_data("/e", vec![0; 60_000]).send().await, Err(Error::QueueFull { .. })));
    assert!(!has_outcome(zk.get_data("/f").send()), "a small one fits beside it");
    drop(large);
}

#[tokio::test(start_paused = true)]
async fn small_requests_do_not_overtake_a_large_one_that_waits() {
    let (zk, mut peer, _listener) = connected_with(Client::options().max_pending(100_000)).await;
    let first = zk.set_data("/first", vec![0; 60_000]).send();
    let client = zk.clone();
    let large = tokio::spawn(async move { client.set_data("/large", vec![0; 60_000]).await });
    tokio::task::yield_now().await;
    let small = zk.set_data("/small", "").send().await;
    assert!(matches!(small, Err(Error::QueueFull { .. })), "{small:?}");
    for path in ["/first", "/large"] {
        let (xid, request) = peer.next().await.expect("a request");
        assert_eq!(written(&request), path);
        peer.reply(xid, Reply::Stat(Stat::default())).await;
    }
    first.await.expect("a stat");
    large.await.expect("no panic").expect("a stat");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_ends_those_that_wait_for_room() {
    let (zk, peer, mut listener) = connected_with(options()).await;
    let sent: Vec<_> = (0..4).map(|n| zk.set_data(format!("/{n}"), "").send()).collect();
    let client = zk.clone();
    let waiting = tokio::spawn(async move { client.get_data("/w").await });
    tokio::task::yield_now().await;
    drop(peer);
    listener.connection().await.refuse().await;
    assert!(matches!(waiting.await.expect("no panic"), Err(Error::SessionExpired(_))));
    drop(sent);
}
