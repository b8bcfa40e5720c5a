//! Feeds: one order of replies, events and connections, and what a lost connection does to it.

use super::*;
use crate::features::ServerFeature;
use crate::feed::{FEED_CAPACITY, Feed, FeedItem, FeedRequest};

impl Harness {
    fn feed_below(&mut self, chroot: &str) -> Feed {
        let chroot = Chroot::new(chroot).expect("a chroot");
        let feed = Feed::open(&self.handles, &self.shared, &chroot);
        self.settle();
        feed
    }

    fn ask(&mut self, feed: &Feed, generation: u64, tag: u64, request: FeedRequest) {
        feed.send(generation, tag, request);
        self.settle();
    }
}

fn data_of(path: &str) -> FeedRequest {
    FeedRequest::GetData(records::GetData { path: path.into(), watch: false })
}

fn tree(path: &str) -> FeedRequest {
    FeedRequest::WatchTree(path.into())
}

/// The unread items, each in short.
fn read(feed: &mut Feed) -> Vec<String> {
    let mut items = Vec::new();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = std::pin::pin!(feed.fill(&mut items)).poll(&mut cx);
    items.iter().map(short).collect()
}

fn short(item: &FeedItem) -> String {
    match item {
        FeedItem::Connected { generation } => format!("connected {generation}"),
        FeedItem::Reply(reply) => {
            let answer = match &reply.outcome {
                Ok(Reply::Data(..)) => "data".to_owned(),
                Ok(answer) => format!("{answer:?}"),
                Err(error) => error.to_string(),
            };
            format!("{} at {}: {answer}", reply.tag, reply.zxid.map_or(-1, |zxid| zxid.0))
        }
        FeedItem::Event(event) => format!("{:?} {}", event.kind, event.path),
        FeedItem::Reached(zxid) => format!("reached {}", zxid.0),
        FeedItem::Ended(error) => format!("ended: {error}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_feed_has_replies_and_events_in_the_order_of_the_wire_with_the_paths_of_its_handle() {
    let mut harness = Harness::up();
    let mut feed = harness.feed_below("/app");
    assert_eq!(read(&mut feed), ["connected 0"]);
    for (tag, request) in [(7, tree("/")), (8, data_of("/a")), (9, data_of("/b"))] {
        harness.ask(&feed, 0, tag, request);
    }
    assert_eq!(harness.sent(), [add_watch("/app", 1), get("/app/a"), get("/app/b")]);
    harness.reply(1, 10, Reply::WatchAdded);
    harness.event(11, EventType::NodeDataChanged, "/app/a");
    harness.reply(2, 11, data());
    harness.refuse_at(3, 12, ErrorCode::NoNode);
    harness.event(13, EventType::NodeCreated, "/app");
    harness.pass(THIRD);
    harness.reply(-2, 14, Reply::Empty);
    harness.pass(THIRD);
    harness.reply(-2, 15, Reply::Empty);
    assert_eq!(
        read(&mut feed),
        [
            "7 at 10: WatchAdded",
            "NodeDataChanged /a",
            "8 at 11: data",
            "9 at 12: getData /b: no such znode",
            "NodeCreated /",
            "reached 15",
        ]
    );
}

#[test]
fn requests_of_a_feed_are_not_resent_and_its_watches_not_restored_by_the_session() {
    let mut harness = Harness::up();
    let mut feed = harness.feed_below("");
    let mut other = harness.call(add_watch("/tree", 1));
    harness.ask(&feed, 0, 1, tree("/tree"));
    harness.reply(1, 1, Reply::WatchAdded);
    harness.reply(2, 1, Reply::WatchAdded);
    let other = other.stream();
    harness.ask(&feed, 0, 2, data_of("/a"));
    let mut plain = harness.call(get("/b"));
    harness.sent();
    harness.cut();
    // Read late: only what matters is left of the first connection.
    harness.ask(&feed, 0, 3, data_of("/late"));
    harness.connect();
    let restored = Request::SetWatches2(Box::new(records::SetWatches2 {
        relative_zxid: Zxid(1),
        recursive: vec!["/tree".into()],
        ..records::SetWatches { relative_zxid: Zxid(1), data: vec![], exist: vec![], child: vec![] }.into()
    }));
    assert_eq!(
        harness.sent(),
        [restored, get("/b")],
        "the watch of the other handle, and the call that waits"
    );
    assert_eq!(read(&mut feed), ["Lost", "connected 1"]);
    harness.ask(&feed, 0, 4, data_of("/old"));
    assert_eq!(harness.sent(), [], "it names a connection that is gone");
    harness.event(5, EventType::NodeDataChanged, "/tree/x");
    assert_eq!(read(&mut feed), Vec::<String>::new(), "it has set no watch here");
    harness.ask(&feed, 1, 5, tree("/tree"));
    assert_eq!(harness.sent(), [add_watch("/tree", 1)]);
    harness.reply(-8, 5, Reply::Empty);
    harness.reply(harness.last_xid() - 1, 5, data());
    harness.reply(harness.last_xid(), 6, Reply::WatchAdded);
    harness.event(7, EventType::NodeDataChanged, "/tree/x");
    assert_eq!(read(&mut feed), ["5 at 6: WatchAdded", "NodeDataChanged /tree/x"]);
    assert!(plain.outcome().expect("an outcome").is_ok());
    assert!(matches!(next(&other), Some(WatchUpdate::Missed)));
}

#[test]
fn one_shot_watches_of_a_feed_are_set_by_reads_and_in_bulk() {
    let mut harness = Harness::up();
    let mut feed = harness.feed_below("/app");
    harness.ask(&feed, 0, 1, FeedRequest::GetData(records::GetData { path: "/a".into(), watch: true }));
    harness.ask(&feed, 0, 2, FeedRequest::Exists(records::Exists { path: "/b".into(), watch: true }));
    harness.sent();
    harness.reply(1, 3, data());
    harness.refuse_at(2, 3, ErrorCode::NoNode);
    harness.event(4, EventType::NodeDataChanged, "/app/a");
    harness.event(5, EventType::NodeDataChanged, "/app/a");
    harness.event(6, EventType::NodeCreated, "/app/b");
    let absent = "2 at 3: exists /b: no such znode";
    assert_eq!(
        read(&mut feed),
        ["connected 0", "1 at 3: data", absent, "NodeDataChanged /a", "NodeCreated /b"]
    );
    let (data, exist, child) = (vec!["/a".into()], vec!["/b".into()], vec!["/".into()]);
    let set = records::SetWatches { relative_zxid: Zxid(6), data, exist, child };
    harness.ask(&feed, 0, 3, FeedRequest::SetWatches(set));
    let expected = records::SetWatches {
        relative_zxid: Zxid(6),
        data: vec!["/app/a".into()],
        exist: vec!["/app/b".into()],
        child: vec!["/app".into()],
    };
    assert_eq!(harness.sent(), [Request::SetWatches(expected)]);
    // What has changed since comes first, and uses up the watch.
    harness.event(-1, EventType::NodeDataChanged, "/app/a");
    harness.reply(-8, 6, Reply::Empty);
    harness.event(7, EventType::NodeDataChanged, "/app/a");
    assert_eq!(read(&mut feed), ["NodeDataChanged /a", "3 at 6: Empty"]);
    for (kind, path) in [(EventType::NodeChildrenChanged, "/app"), (EventType::NodeCreated, "/app/b")] {
        harness.event(7, kind, path);
        harness.event(8, kind, path);
    }
    assert_eq!(read(&mut feed), ["NodeChildrenChanged /", "NodeCreated /b"]);
}

#[test]
fn a_request_of_a_feed_that_is_too_long_ends_no_watch_of_another_handle() {
    let mut harness = Harness::up();
    let mut feed = harness.feed_below("");
    let mut call = harness.call(get_watched("/w"));
    harness.reply(1, 1, data());
    let mut watch = call.watch();
    let data = vec!["/w".into(), "/long".repeat(200)];
    let set = records::SetWatches { relative_zxid: Zxid(1), data, exist: vec![], child: vec![] };
    harness.ask(&feed, 0, 1, FeedRequest::SetWatches(set));
    assert!(read(&mut feed)[1].contains("the limit is"));
    assert!(event_of(&mut watch).is_none());
}

#[test]
fn a_feed_that_is_not_read_is_bounded_and_says_where_events_are_missing() {
    let mut harness = Harness::up();
    let mut feed = harness.feed_below("");
    harness.ask(&feed, 0, 1, tree("/"));
    harness.reply(1, 1, Reply::WatchAdded);
    for zxid in 0..FEED_CAPACITY as i64 + 100 {
        harness.event(zxid + 2, EventType::NodeDataChanged, "/a");
    }
    harness.ask(&feed, 0, 2, data_of("/a"));
    harness.reply(2, 30_000, data());
    harness.event(30_001, EventType::NodeDataChanged, "/a");
    for ping in 0..10 {
        harness.event(30_002 + ping, EventType::NodeDataChanged, "/a");
        harness.pass(THIRD);
        harness.reply(-2, 30_002 + ping, Reply::Empty);
    }
    let items = read(&mut feed);
    assert_eq!(items.len(), FEED_CAPACITY + 3);
    assert_eq!(items[FEED_CAPACITY..], ["Missed", "2 at 30000: data", "Missed"]);
    for _ in 0..1_000 {
        harness.cut();
        harness.connect();
    }
    assert_eq!(read(&mut feed), ["Lost", "connected 1000"]);
}

#[test]
fn a_dropped_feed_leaves_no_persistent_watch_whenever_it_is_dropped() {
    for answered_before in [true, false] {
        let mut harness = Harness::up();
        let feed = harness.feed_below("");
        harness.ask(&feed, 0, 1, tree("/a"));
        harness.sent();
        if answered_before {
            harness.reply(1, 1, Reply::WatchAdded);
        }
        drop(feed);
        harness.settle();
        if !answered_before {
            assert_eq!(harness.sent(), []);
            harness.reply(1, 1, Reply::WatchAdded);
        }
        assert_eq!(harness.sent(), [remove("/a", 5)], "{answered_before}");
    }
}

#[test]
fn a_feed_learns_that_another_handle_has_removed_its_watch_and_that_the_session_is_over() {
    let mut harness = Harness::up();
    let mut feed = harness.feed_below("");
    harness.ask(&feed, 0, 1, tree("/a"));
    harness.reply(1, 1, Reply::WatchAdded);
    harness.call(remove("/a", 3));
    harness.reply(2, 1, Reply::Empty);
    assert_eq!(read(&mut feed)[2..], ["Disarmed"]);
    let closed = harness.close();
    harness.reply(harness.last_xid(), 1, Reply::Empty);
    drop(closed);
    assert_eq!(read(&mut feed), ["ended: feed: the client is closed"]);
    let mut late = harness.feed_below("");
    assert_eq!(read(&mut late), ["ended: feed: the client is closed"]);
}

#[test]
fn what_a_server_can_do_is_learned_for_each_server_by_itself() {
    let mut harness = Harness::with_two_hosts(settings());
    let connect = |harness: &mut Harness, host: &str| {
        while harness.session.wanted_link() != WantedLink::Dialing {
            harness.now = harness.session.next_timeout().expect("a time for the next attempt");
            harness.session.handle_timeout(harness.now);
        }
        harness.session.handle_dialing(Some(host.into()));
        harness.connect();
    };
    let supports = |harness: &Harness| harness.shared.supports(ServerFeature::AddWatch);
    connect(&mut harness, "old");
    assert_eq!(supports(&harness), None);
    harness.call(add_watch("/a", 1));
    harness.refuse_at(1, -1, ErrorCode::Unimplemented);
    assert_eq!(supports(&harness), Some(false));
    harness.cut();
    connect(&mut harness, "new");
    assert_eq!(supports(&harness), None);
    harness.call(add_watch("/a", 1));
    harness.reply(harness.last_xid(), 1, Reply::WatchAdded);
    assert_eq!(supports(&harness), Some(true));
    assert_eq!(harness.shared.supports(ServerFeature::MultiRead), None);
    harness.cut();
    connect(&mut harness, "old");
    assert_eq!(supports(&harness), Some(false));
    assert_eq!(harness.shared.server().as_deref(), Some("old"));
}
