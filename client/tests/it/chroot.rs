//! Handles on one session that see a part of the tree.

use zoolet_client::{
    AddWatchMode, Client, Error, ErrorCode, EventType, SessionState, WatchUpdate, WatcherType,
};
use zoolet_proto::{Reply, Request, Stat, records};

use crate::common::{connected, connected_with};

fn get(path: &str, watch: bool) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch })
}

fn data() -> Reply {
    Reply::Data(None, Stat::default())
}

#[tokio::test(start_paused = true)]
async fn requests_results_and_errors_have_the_paths_of_their_handle() {
    let (zk, mut peer, _listener) = connected_with(Client::options().chroot("/root")).await;
    let app = zk.chroot("/app").expect("a path");
    let nested = app.chroot("/a/b").expect("a path");
    let same = app.chroot("/").expect("a path");
    let created = nested.create("/x-", "").sequential().send();
    let (xid, request) = peer.next().await.expect("a request");
    assert_eq!(request.path(), Some("/root/app/a/b/x-"));
    peer.reply(xid, Reply::Created2("/root/app/a/b/x-0000000003".into(), Stat::default())).await;
    let created = created.await.expect("a znode");
    assert_eq!((created.path.as_str(), created.sequence()), ("/x-0000000003", Some(3)));

    let reads = [zk.get_data("/c").send(), app.get_data("/c").send(), same.get_data("/").send()];
    let paths = [("/root/c", "/c"), ("/root/app/c", "/c"), ("/root/app", "/")];
    for ((path, shown), reply) in paths.into_iter().zip(reads) {
        let xid = peer.expect(get(path, false)).await;
        peer.error(xid, ErrorCode::NoNode).await;
        let error = reply.await.expect_err("absent");
        assert_eq!(error.context().map(|context| context.path()), Some(shown));
        assert!(error.to_string().ends_with(&format!("with the chroot, its path is {path}")), "{error}");
    }

    let ephemerals = app.get_ephemerals("/").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Ephemerals(vec!["/root/app/e".into(), "/root/e".into()])).await;
    assert_eq!(ephemerals.await.expect("paths"), ["/e"]);

    let multi = app.multi().delete("/x").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Multi(vec![records::OpResult::Error(Some(ErrorCode::NoNode))])).await;
    let error = multi.await.expect_err("refused");
    assert!(error.to_string().starts_with("multi, operation 0, delete /x: no such znode"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_watch_at_the_server_reports_to_each_handle_the_path_that_it_sees() {
    let (zk, mut peer, mut listener) = connected().await;
    let app = zk.chroot("/app").expect("a path");
    let (outer, inner) = (zk.get_data("/app/x").watch().send(), app.get_data("/x").watch().send());
    for _ in 0..2 {
        let xid = peer.expect(get("/app/x", true)).await;
        peer.reply(xid, data()).await;
    }
    let (_, _, outer) = outer.await.expect("data");
    let (_, _, inner) = inner.await.expect("data");
    let stream = app.add_watch("/", AddWatchMode::PersistentRecursive).send();
    let (xid, request) = peer.next().await.expect("a request");
    assert_eq!(request.path(), Some("/app"));
    peer.reply(xid, Reply::WatchAdded).await;
    let mut stream = stream.await.expect("a stream");

    drop(peer);
    let mut peer = listener.accept().await;
    let Some((_, Request::SetWatches(all))) = peer.next().await else { panic!("watches are restored") };
    assert_eq!(all.data, ["/app/x"]);
    let Some((_, Request::SetWatches2(all))) = peer.next().await else { panic!("watches are restored") };
    assert_eq!(all.recursive, ["/app"]);
    peer.reply(-8, Reply::Empty).await;
    peer.reply(-8, Reply::Empty).await;
    peer.event(EventType::NodeDataChanged, "/app/x").await;
    assert_eq!(outer.changed().await.expect("an event").path, "/app/x");
    assert_eq!(inner.changed().await.expect("an event").path, "/x");
    assert!(matches!(stream.next().await, Some(WatchUpdate::Missed)));
    let Some(WatchUpdate::Event(event)) = stream.next().await else { panic!("an event") };
    assert_eq!(event.path, "/x");

    let removed = zk.remove_watches("/app", WatcherType::PersistentRecursive).send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Empty).await;
    removed.await.expect("removed");
    let Some(WatchUpdate::Ended(error)) = stream.next().await else { panic!("the end") };
    assert_eq!(error.to_string(), "watch /: the watch was removed");
}

#[tokio::test(start_paused = true)]
async fn handles_share_the_session_which_ends_with_the_last_of_them() {
    let (zk, mut peer, _listener) = connected().await;
    let app = zk.chroot("/app").expect("a path");
    assert_eq!((app.session_id(), app.state()), (zk.session_id(), SessionState::Connected));
    drop(zk);
    let read = app.get_data("/x").send();
    let xid = peer.expect(get("/app/x", false)).await;
    peer.reply(xid, data()).await;
    read.await.expect("data");
    drop(app);
    peer.expect_close().await;
}

#[tokio::test(start_paused = true)]
async fn a_chroot_must_be_a_path() {
    let (zk, _peer, _listener) = connected().await;
    for path in ["app", "/app/", "//", "/a/../b"] {
        let error = zk.chroot(path).expect_err(path);
        assert!(matches!(error, Error::InvalidPath { .. }), "{error:?}");
    }
    assert!(zk.chroot("app").expect_err("relative").to_string().ends_with("did you mean /app?"));
}
