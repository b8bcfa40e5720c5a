//! Watches: when an event comes, and before and after what. A watch belongs to a connection.

use zoolet_proto::EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
use zoolet_test_support::*;

#[tokio::test(start_paused = true)]
async fn the_event_comes_before_the_reply_that_shows_the_change() {
    let zk = Zk::start().await;
    zk.create("/a", "old").await;
    let mut wire = zk.wire().await;
    wire.send(get_data("/a").watch().xid(1)).await;
    wire.expect(reply(1).data("old")).await;
    zk.set("/a", "new").await;
    wire.send(get_data("/a").xid(2)).await;
    wire.expect(event(NodeDataChanged, "/a")).await;
    wire.expect(reply(2).data("new")).await;
}

#[tokio::test(start_paused = true)]
async fn the_event_comes_first_also_where_the_change_and_the_read_come_at_once() {
    let zk = Zk::start().await;
    zk.create("/a", "0").await;
    let (mut writer, mut wire) = (zk.wire().await, zk.wire().await);
    for n in 1..=100 {
        let data = n.to_string();
        wire.ask(exists("/a").watch()).await;
        // Both are in flight before the server reads either.
        writer.send(set_data("/a", &data)).await;
        let xid = wire.send(get_data("/a")).await;
        wire.expect(event(NodeDataChanged, "/a")).await;
        wire.expect(reply(xid.0).data(&data)).await;
        writer.next().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_own_write_comes_before_its_reply_and_under_its_zxid() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.ask(exists("/a").watch()).await;
    wire.send(create("/a").xid(10)).await;
    wire.expect(event(NodeCreated, "/a").zxid(2)).await;
    wire.expect(reply(10).zxid(2)).await;
}

/// A reader that asks again and again while another connection writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reply_on_any_connection_overtakes_the_event_of_what_it_shows() {
    let zk = Zk::start_tcp().await;
    zk.create("/a", "0").await;
    let (mut writer, mut reader) = (zk.tcp_wire().await, zk.tcp_wire().await);
    reader.ask(add_watch("/a", PERSISTENT)).await;
    let writing = tokio::spawn(async move {
        writer.pipeline((1..=1_000).map(|n| set_data("/a", n.to_string())).collect::<Vec<_>>()).await
    });
    let (mut told, mut shown) = (0, 0);
    while shown < 1_000 {
        reader.send(get_data("/a")).await;
        loop {
            match reader.next().await {
                Frame::Event(event) => {
                    assert_eq!((event.kind, event.path.as_str()), (NodeDataChanged, "/a"));
                    told += 1;
                }
                Frame::Answer(answer) => {
                    shown = answer.stat().version;
                    break;
                }
            }
        }
        assert_eq!(told, shown, "every change that is shown was notified, and none too early");
    }
    assert_eq!(writing.await.expect("a writer").len(), 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_that_sets_a_watch_comes_before_its_event() {
    let zk = Zk::start_tcp().await;
    zk.create("/a", "0").await;
    let (mut writer, mut watcher) = (zk.tcp_wire().await, zk.tcp_wire().await);
    let writing = tokio::spawn(async move {
        writer.pipeline((1..=2_000).map(|n| set_data("/a", n.to_string())).collect::<Vec<_>>()).await
    });
    let mut events = 0;
    while !writing.is_finished() {
        // An event in front of this reply would be one of a watch that is not set yet.
        let answer = watcher.ask(get_data("/a").watch()).await;
        if answer.stat().version == 2_000 {
            break;
        }
        let event = watcher.next().await.event();
        assert!(event.zxid > answer.stat().mzxid.0, "the notified change comes after what was read");
        events += 1;
    }
    writing.await.expect("a writer");
    assert!(events > 0);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_multi_come_in_its_order_with_its_zxid_before_its_reply() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.ask(add_watch("/", RECURSIVE)).await;
    let parts = [create("/a"), create("/a/b"), set_data("/a", "x"), delete("/a/b")];
    wire.send(multi(parts).xid(9)).await;
    for (kind, path) in
        [(NodeCreated, "/a"), (NodeCreated, "/a/b"), (NodeDataChanged, "/a"), (NodeDeleted, "/a/b")]
    {
        wire.expect(event(kind, path).zxid(2)).await;
    }
    wire.expect(reply(9).zxid(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_multi_fires_no_watch() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.ask(add_watch("/", RECURSIVE)).await;
    wire.send(multi([create("/a"), delete("/none")]).xid(9)).await;
    wire.expect(reply(9)).await;
    wire.expect_nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_fires_once_and_a_persistent_one_every_time() {
    let zk = Zk::start().await;
    zk.create("/a", "").await;
    let (mut once, mut always) = (zk.wire().await, zk.wire().await);
    once.ask(get_data("/a").watch()).await;
    once.ask(exists("/a").watch()).await;
    always.ask(add_watch("/a", PERSISTENT)).await;
    for data in ["1", "2", "3"] {
        zk.set("/a", data).await;
    }
    once.expect(event(NodeDataChanged, "/a")).await;
    once.expect_nothing_more().await;
    for _ in 0..3 {
        always.expect(event(NodeDataChanged, "/a")).await;
    }
    always.expect_nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_connection_though_the_session_survives() {
    let zk = Zk::start().await;
    zk.create("/a", "").await;
    let mut wire = zk.wire().await;
    wire.ask(get_data("/a").watch()).await;
    wire.ask(add_watch("/", RECURSIVE)).await;
    let mut again = zk.connect(Hello::again(&wire.welcome)).await;
    zk.set("/a", "x").await;
    again.expect_nothing_more().await;
    wire.expect_closed().await;
    assert_eq!(again.ask(check_watches("/a", 2)).await.error, Some(ErrorCode::NoWatcher));
}

#[tokio::test(start_paused = true)]
async fn watches_set_again_fire_for_missed_changes_before_their_reply() {
    let zk = Zk::start().await;
    for path in ["/changed", "/same", "/gone", "/born"] {
        if path != "/born" {
            zk.create(path, "").await;
        }
    }
    let mut wire = zk.wire().await;
    let seen = wire.ask(ping()).await.zxid;
    drop(wire);
    zk.set("/changed", "x").await;
    zk.delete("/gone").await;
    zk.create("/born", "").await;

    let mut wire = zk.wire().await;
    wire.send(set_watches(seen, &["/changed", "/same", "/gone"], &["/born"], &["/"]).xid(-8)).await;
    wire.expect(event(NodeDataChanged, "/changed").zxid(-1)).await;
    wire.expect(event(NodeDeleted, "/gone").zxid(-1)).await;
    wire.expect(event(NodeCreated, "/born").zxid(-1)).await;
    wire.expect(event(NodeChildrenChanged, "/").zxid(-1)).await;
    wire.expect(reply(-8)).await;
    zk.set("/changed", "y").await;
    zk.set("/same", "y").await;
    wire.expect(event(NodeDataChanged, "/same")).await;
    wire.expect_nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_closing_session_are_sent_before_its_reply() {
    let zk = Zk::start().await;
    zk.create("/p", "").await;
    let mut wire = zk.wire().await;
    wire.ask(create("/p/e").ephemeral()).await;
    wire.ask(exists("/p/e").watch()).await;
    wire.ask(get_children("/p").watch()).await;
    wire.send(close_session().xid(9)).await;
    wire.expect(event(NodeDeleted, "/p/e")).await;
    wire.expect(event(NodeChildrenChanged, "/p")).await;
    wire.expect(reply(9)).await;
    wire.expect_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_read_a_znode_gets_no_event_of_it() {
    let zk = Zk::start().await;
    let mut owner = zk.wire().await;
    owner.ask(auth("digest", "bob:pw")).await;
    let mut other = zk.wire().await;
    other.ask(add_watch("/", RECURSIVE)).await;
    owner.ask(create("/secret").acl(zoolet_proto::Acl::creator_all())).await;
    owner.ask(create("/open")).await;
    owner.ask(set_data("/secret", "x")).await;
    other.expect(event(NodeCreated, "/open")).await;
    other.expect_nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn every_one_of_many_watchers_is_notified_once() {
    let zk = Zk::start().await;
    zk.create("/a", "").await;
    let mut watchers = Vec::new();
    for _ in 0..500 {
        let mut wire = zk.wire().await;
        wire.ask(get_data("/a").watch()).await;
        wire.ask(get_children("/a").watch()).await;
        watchers.push(wire);
    }
    zk.delete("/a").await;
    for watcher in &mut watchers {
        watcher.expect(event(NodeDeleted, "/a")).await;
        watcher.expect_nothing_more().await;
    }
}
