//! Creates that also create missing parents.

use std::future::IntoFuture;

use bytes::Bytes;
use zoolet_client::{Acl, Client, Created, Error, ErrorCode, Perms};
use zoolet_proto::records::Create;
use zoolet_proto::{CreateMode, Reply, Request, Stat};

use crate::common::{Peer, connected, connected_with};

fn record(path: &str, data: &'static str, acl: Vec<Acl>, mode: CreateMode) -> Create {
    let (path, data) = (path.into(), Some(Bytes::from_static(data.as_bytes())));
    Create { path, data, acl: Some(acl.into()), flags: mode.code() }
}

fn plain(path: &str, data: &'static str) -> Request {
    Request::Create2(record(path, data, Acl::open(), CreateMode::Persistent))
}

fn container(path: &str) -> Request {
    Request::CreateContainer(record(path, "", Acl::open(), CreateMode::Container))
}

async fn created(peer: &mut Peer, xid: i32, path: &str) {
    peer.reply(xid, Reply::Created2(path.into(), Stat::default())).await;
}

async fn create(client: &Client) -> Result<Created, Error> {
    client.create("/a/b/c", "data").parents().await
}

#[tokio::test(start_paused = true)]
async fn an_existing_parent_costs_nothing() {
    let (client, mut peer, _listener) = connected().await;
    let server = async {
        let xid = peer.expect(plain("/a/b/c", "data")).await;
        created(&mut peer, xid, "/a/b/c").await;
        peer.expect_silence().await;
    };
    let (outcome, ()) = tokio::join!(create(&client), server);
    assert_eq!(outcome.unwrap().path, "/a/b/c");
}

#[tokio::test(start_paused = true)]
async fn missing_parents_and_the_znode_are_created_in_one_flight_from_the_top() {
    let (client, mut peer, _listener) = connected().await;
    let server = async {
        let xid = peer.expect(plain("/a/b/c", "data")).await;
        peer.error(xid, ErrorCode::NoNode).await;
        let a = peer.expect(plain("/a", "")).await;
        let b = peer.expect(plain("/a/b", "")).await;
        let c = peer.expect(plain("/a/b/c", "data")).await;
        // Another client created the first parent meanwhile.
        peer.error(a, ErrorCode::NodeExists).await;
        created(&mut peer, b, "/a/b").await;
        created(&mut peer, c, "/a/b/c").await;
    };
    let (outcome, ()) = tokio::join!(create(&client), server);
    assert_eq!(outcome.unwrap().path, "/a/b/c");
}

#[tokio::test(start_paused = true)]
async fn a_parent_has_the_acl_of_the_znode_unless_it_is_given_another() {
    let acl = || vec![Acl::new(Perms::READ, "world", "anyone")];
    for (parent_acl, expected) in [(None, acl()), (Some(Acl::open()), Acl::open())] {
        let (client, mut peer, _listener) = connected().await;
        let server = async {
            let mode = CreateMode::EphemeralSequential;
            let request = || Request::Create2(record("/a/", "", acl(), mode));
            let xid = peer.expect(request()).await;
            peer.error(xid, ErrorCode::NoNode).await;
            let parent = record("/a", "", expected, CreateMode::Persistent);
            let a = peer.expect(Request::Create2(parent)).await;
            let znode = peer.expect(request()).await;
            created(&mut peer, a, "/a").await;
            created(&mut peer, znode, "/a/0000000000").await;
        };
        let create = async {
            let create = client.create("/a/", "").acl(acl()).ephemeral().sequential().parents();
            match parent_acl {
                Some(acl) => create.parent_acl(acl).await,
                None => create.await,
            }
        };
        let (outcome, ()) = tokio::join!(create, server);
        assert_eq!(outcome.unwrap().path, "/a/0000000000");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_containers_gets_persistent_parents() {
    let (client, mut peer, _listener) = connected().await;
    let server = async {
        let xid = peer.expect(plain("/a/b", "")).await;
        peer.error(xid, ErrorCode::NoNode).await;
        let a = peer.expect(container("/a")).await;
        let b = peer.expect(plain("/a/b", "")).await;
        peer.error(a, ErrorCode::Unimplemented).await;
        peer.error(b, ErrorCode::NoNode).await;
        let a = peer.expect(plain("/a", "")).await;
        let b = peer.expect(plain("/a/b", "")).await;
        created(&mut peer, a, "/a").await;
        created(&mut peer, b, "/a/b").await;
    };
    let create = async { client.create("/a/b", "").parents().containers().await };
    let (outcome, ()) = tokio::join!(create, server);
    assert_eq!(outcome.unwrap().path, "/a/b");
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_may_not_be_created_is_reported() {
    let (client, mut peer, _listener) = connected().await;
    let server = async {
        let xid = peer.expect(plain("/a/b/c", "data")).await;
        peer.error(xid, ErrorCode::NoNode).await;
        for code in [ErrorCode::NoAuth, ErrorCode::NoNode, ErrorCode::NoNode] {
            let (xid, _) = peer.next().await.expect("a create");
            peer.error(xid, code).await;
        }
        peer.expect_silence().await;
    };
    let (outcome, ()) = tokio::join!(create(&client), server);
    let error = outcome.unwrap_err();
    assert_eq!((error.code(), error.context().unwrap().path()), (Some(ErrorCode::NoAuth), "/a"));
}

#[tokio::test(start_paused = true)]
async fn parents_that_vanish_again_and_again_are_an_error() {
    let (client, mut peer, _listener) = connected().await;
    let server = async {
        let mut requests = 0;
        while let Ok(Some((xid, request))) =
            tokio::time::timeout(std::time::Duration::from_millis(1), peer.next()).await
        {
            requests += 1;
            // The topmost parent stays.
            let topmost = matches!(request, Request::Create2(record) if record.path == "/a");
            peer.error(xid, if topmost { ErrorCode::NodeExists } else { ErrorCode::NoNode }).await;
        }
        requests
    };
    let (outcome, requests) = tokio::join!(create(&client), server);
    assert_eq!(outcome.unwrap_err().code(), Some(ErrorCode::NoNode));
    assert_eq!(requests, 1 + 8 * 3);
}

#[tokio::test(start_paused = true)]
async fn only_a_missing_parent_is_a_reason_to_try_again() {
    for code in [ErrorCode::NodeExists, ErrorCode::NoChildrenForEphemerals, ErrorCode::NoAuth] {
        let (client, mut peer, _listener) = connected().await;
        let server = async {
            let xid = peer.expect(plain("/a/b/c", "data")).await;
            peer.error(xid, code).await;
            peer.expect_silence().await;
        };
        let (outcome, ()) = tokio::join!(create(&client), server);
        assert_eq!(outcome.unwrap_err().code(), Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_sends_nothing_more() {
    let (client, mut peer, _listener) = connected().await;
    drop(client.create("/a/b/c", "data").parents().into_future());
    let xid = peer.expect(plain("/a/b/c", "data")).await;
    peer.error(xid, ErrorCode::NoNode).await;
    peer.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_chroot_is_not_created_and_is_reported_at_once() {
    let (client, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    let server = async {
        let xid = peer.expect(plain("/app/a", "data")).await;
        peer.error(xid, ErrorCode::NoNode).await;
        peer.expect_silence().await;
    };
    let create = async { client.create("/a", "data").parents().await };
    let (outcome, ()) = tokio::join!(create, server);
    assert_eq!(outcome.unwrap_err().to_string(), "create /a: no such znode; the chroot /app does not exist");
}

#[tokio::test(start_paused = true)]
async fn a_missing_chroot_above_missing_parents_is_reported_at_once() {
    let (client, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    let server = async {
        for _ in 0..4 {
            let (xid, _) = peer.next().await.expect("a create");
            peer.error(xid, ErrorCode::NoNode).await;
        }
        peer.expect_silence().await;
    };
    let (outcome, ()) = tokio::join!(create(&client), server);
    assert_eq!(outcome.unwrap_err().to_string(), "create /a: no such znode; the chroot /app does not exist");
}
