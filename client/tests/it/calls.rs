//! Requests and replies, through the public API.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use zoolet_client::{
    Client, Error, ErrorCode, EventType, MultiOutcome, ReadOutcome, Stat, WatcherType, Zxid,
};
use zoolet_proto::records::{self, Op, OpResult};
use zoolet_proto::{AclList, Reply, Request};

use crate::common::{connected, connected_with};

fn stat(czxid: i64) -> Stat {
    Stat { czxid: Zxid(czxid), ..Stat::default() }
}

fn create(path: &str, flags: i32) -> records::Create {
    records::Create { path: path.into(), data: Some("x".into()), acl: Some(AclList::OPEN), flags }
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_in_the_order_of_the_calls_not_of_the_polls() {
    let (zk, mut peer, _listener) = connected().await;
    let replies: Vec<_> = (0..100).map(|n| zk.get_data(format!("/{n}")).send()).collect();
    for n in 0..100 {
        let (xid, request) = peer.next().await.expect("a request");
        assert_eq!(request, Request::GetData(records::GetData { path: format!("/{n}"), watch: false }));
        peer.reply(xid, Reply::Data(Some(n.to_string().into()), stat(n))).await;
    }
    for (n, reply) in replies.into_iter().enumerate().rev() {
        assert_eq!(reply.await.expect("data").0, n.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_has_the_zxid_of_its_header_and_so_has_a_refusal() {
    let (zk, mut peer, _listener) = connected().await;
    let (data, absent, unknown, lost) = (
        zk.get_data("/a").send().with_zxid(),
        zk.get_data("/b").send().with_zxid(),
        zk.who_am_i().send().with_zxid(),
        zk.set_data("/a", "").send().with_zxid(),
    );
    for _ in 0..4 {
        peer.next().await.expect("a request");
    }
    peer.zxid = 40;
    peer.reply(1, Reply::Data(None, stat(3))).await;
    peer.zxid = 50;
    peer.error(2, ErrorCode::NoNode).await;
    // Servers that do not know an operation answer so, and then close the connection.
    peer.zxid = -1;
    peer.error(3, ErrorCode::Unimplemented).await;
    drop(peer);
    let (data, zxid) = data.await;
    assert_eq!((data.expect("data").1, zxid), (stat(3), Some(Zxid(41))));
    let (absent, zxid) = absent.await;
    assert_eq!((absent.expect_err("absent").code(), zxid), (Some(ErrorCode::NoNode), Some(Zxid(50))));
    assert_eq!(unknown.await.1, None, "it names no state");
    let (lost, zxid) = lost.await;
    assert!(lost.expect_err("no reply").may_have_applied());
    assert_eq!(zxid, None);
}

#[tokio::test(start_paused = true)]
async fn many_requests_are_sent_at_once() {
    let (zk, mut peer, _listener) = connected().await;
    let began = Instant::now();
    let replies: Vec<_> = (0..3_000).map(|n| zk.get_data(format!("/{n}")).send()).collect();
    for _ in &replies {
        peer.next().await.expect("a request");
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "something else had to wake the client");
}

#[tokio::test(start_paused = true)]
async fn every_mode_of_create_has_its_opcode_and_flags() {
    let (zk, mut peer, _listener) = connected().await;
    let ttl = Duration::from_millis(1500);
    let with_ttl = |path: &str, flags| {
        let records::Create { path, data, acl, .. } = create(path, flags);
        Request::CreateTtl(records::CreateTtl { path, data, acl, flags, ttl: 1500 })
    };
    let creates = [
        (zk.create("/p", "x").send(), Request::Create2(create("/p", 0))),
        (zk.create("/e", "x").ephemeral().send(), Request::Create2(create("/e", 1))),
        (zk.create("/s/", "x").sequential().send(), Request::Create2(create("/s/", 2))),
        (zk.create("/-", "x").ephemeral().sequential().send(), Request::Create2(create("/-", 3))),
        (zk.create("/c", "x").container().send(), Request::CreateContainer(create("/c", 4))),
        (zk.create("/t", "x").ttl(ttl).send(), with_ttl("/t", 5)),
        (zk.create("/t", "x").ttl(ttl).sequential().send(), with_ttl("/t", 6)),
    ];
    for (n, (reply, request)) in creates.into_iter().enumerate() {
        let xid = peer.expect(request).await;
        peer.reply(xid, Reply::Created2(format!("/made-{n}"), stat(7))).await;
        let created = reply.await.expect("a znode");
        assert_eq!((created.path, created.stat), (format!("/made-{n}"), stat(7)));
    }
}

#[tokio::test(start_paused = true)]
async fn contradictory_modes_of_create_are_an_error_that_names_both_and_nothing_is_sent() {
    let (zk, mut peer, _listener) = connected().await;
    let second = Duration::from_secs(1);
    let create = || zk.create("/a", "");
    for (create, both) in [
        (create().ttl(second).ephemeral(), "`.ttl(..)` and `.ephemeral()`"),
        (create().ephemeral().ttl(second), "`.ephemeral()` and `.ttl(..)`"),
        (create().container().ephemeral(), "`.container()` and `.ephemeral()`"),
        (create().sequential().container().ttl(second), "`.container()` and `.ttl(..)`"),
        (create().container().sequential(), "`.container()` and `.sequential()`"),
        (create().sequential().container(), "`.container()` and `.sequential()`"),
    ] {
        let message = format!("create /a: {both} exclude each other");
        for error in [
            zk.multi().add(create.clone()).commit().await.expect_err("contradictory"),
            create.clone().parents().containers().await.expect_err("contradictory"),
            create.await.expect_err("contradictory"),
        ] {
            assert!(matches!(error, Error::InvalidOptions { .. }), "{error:?}");
            assert_eq!(error.to_string(), message);
            assert!(!error.may_have_applied() && !error.is_retryable());
        }
    }
    peer.expect_silence().await;
    drop(create().ttl(second).ttl(2 * second).ephemeral());
    let twice = create().ephemeral().sequential().ephemeral().send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Created2("/a0000000000".into(), stat(1))).await;
    twice.await.expect("the same choice twice is no contradiction");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_a_sequential_znode_is_a_value() {
    let (zk, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    for (name, created, number) in [
        ("/job-", "/job-0000000007", Some(7)),
        ("/job-", "/job-2147483647", Some(i32::MAX)),
        ("/job-", "/job--2147483648", Some(i32::MIN)),
        ("/job", "/job-000000001", Some(-1)),
        ("/7", "/71000000000", Some(1_000_000_000)),
        ("/", "/0000000000", Some(0)),
        ("/job-", "/other-0000000007", None),
    ] {
        let numbered = zk.create(name, "").sequential().send();
        let (xid, _) = peer.next().await.expect("a request");
        peer.reply(xid, Reply::Created2(format!("/app{created}"), stat(1))).await;
        let numbered = numbered.await.expect("a znode");
        assert_eq!((numbered.path.as_str(), numbered.sequence()), (created, number));
    }
    let plain = zk.create("/job-0000000007", "").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Created2("/app/job-0000000007".into(), stat(1))).await;
    assert_eq!(plain.await.expect("a znode").sequence(), None);
}

#[tokio::test(start_paused = true)]
async fn refusals_name_operation_path_and_reason() {
    let (zk, mut peer, _listener) = connected().await;
    let call = zk.set_data("/a", "x").version(3).send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.error(xid, ErrorCode::BadVersion).await;
    let error = call.await.expect_err("refused");
    assert_eq!(error.to_string(), "setData /a: version mismatch; version 3 was expected");
    assert_eq!(error.code(), Some(ErrorCode::BadVersion));
    assert!(!error.is_retryable() && !error.may_have_applied());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_path_is_not_sent() {
    let (zk, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    for path in ["", "a", "/a/", "//a", "/a\0", "/.."] {
        let error = zk.get_data(path).await.expect_err(path);
        assert!(matches!(error, Error::InvalidPath { .. }), "{path}: {error}");
    }
    assert!(zk.create("/a/", "").await.is_err(), "only a sequential name may be empty");
    assert!(zk.multi().delete("/a").check("b", 1).commit().await.is_err());
    peer.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn only_an_absent_version_matches_any_version() {
    let (zk, mut peer, _listener) = connected().await;
    for version in [None, Some(0), Some(i32::MIN)] {
        let delete = zk.delete("/a").version(version).send();
        let version = version.unwrap_or(-1);
        let xid = peer.expect(Request::Delete(records::Delete { path: "/a".into(), version })).await;
        peer.reply(xid, Reply::Empty).await;
        delete.await.expect("deleted");
    }
    // −1 on the wire would make these writes unconditional.
    for error in [
        zk.delete("/a").version(-1).await.expect_err("no version"),
        zk.set_data("/a", "x").version(-1).await.expect_err("no version"),
        zk.set_acl("/a", Vec::new()).version(-1).await.expect_err("no version"),
        zk.multi().delete("/b").check("/a", -1).await.expect_err("no version"),
    ] {
        assert_eq!(error.code(), Some(ErrorCode::BadVersion), "{error}");
        assert!(!error.may_have_applied(), "{error}");
    }
    peer.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_reconfig_carries_what_was_chosen() {
    let (zk, mut peer, _listener) = connected().await;
    let server = "server.4=zk4:2888:3888:participant;2181";
    let change = zk.reconfig().joining(server).leaving("2,5").send();
    let members = zk.reconfig().members(server).from_config(0x1_0000_0003).send();
    for (joining, leaving, new_members, config) in [
        (Some(server.to_owned()), Some("2,5".to_owned()), None, -1),
        (None, None, Some(server.to_owned()), 0x1_0000_0003),
    ] {
        let record = records::Reconfig { joining, leaving, new_members, config };
        let xid = peer.expect(Request::Reconfig(record)).await;
        peer.reply(xid, Reply::Data(Some("version=100000004".into()), stat(1))).await;
    }
    assert_eq!(change.await.expect("a configuration").0, "version=100000004");
    assert_eq!(members.await.expect("a configuration").0, "version=100000004");
}

#[tokio::test(start_paused = true)]
async fn a_chroot_is_added_and_stripped_in_every_operation() {
    let (zk, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    let created = zk.create("/a-", "x").sequential().send();
    let xid = peer.expect(Request::Create2(create("/app/a-", 2))).await;
    peer.reply(xid, Reply::Created2("/app/a-0000000001".into(), stat(1))).await;
    assert_eq!(created.await.expect("a znode").path, "/a-0000000001");

    let below_root = zk.create("/", "x").sequential().send();
    let xid = peer.expect(Request::Create2(create("/app/", 2))).await;
    peer.reply(xid, Reply::Created2("/app/0000000002".into(), stat(1))).await;
    assert_eq!(below_root.await.expect("a znode").path, "/0000000002");

    let root = zk.get_data("/").watch().send();
    let xid = peer.expect(Request::GetData(records::GetData { path: "/app".into(), watch: true })).await;
    peer.reply(xid, Reply::Data(None, stat(1))).await;
    let (data, _, watch) = root.await.expect("data");
    assert_eq!(data, Bytes::new(), "null reads as empty");
    peer.event(EventType::NodeDeleted, "/app").await;
    assert_eq!(watch.changed().await.expect("an event").path, "/");

    let ephemerals = zk.get_ephemerals("/").send();
    let xid =
        peer.expect(Request::GetEphemerals(records::GetEphemerals { prefix: Some("/app".into()) })).await;
    peer.reply(xid, Reply::Ephemerals(vec!["/app".into(), "/app/e".into(), "/apple".into()])).await;
    assert_eq!(ephemerals.await.expect("paths"), ["/", "/e"]);

    let multi = zk.multi().delete("/x").send();
    let delete = Op::Delete(records::Delete { path: "/app/x".into(), version: -1 });
    let xid = peer.expect(Request::Multi(vec![delete])).await;
    peer.reply(xid, Reply::Multi(vec![OpResult::Error(Some(ErrorCode::NoNode))])).await;
    let error = multi.await.expect_err("refused");
    assert_eq!(
        error.to_string(),
        "multi, operation 0, delete /x: no such znode; with the chroot, its path is /app/x"
    );
}

#[tokio::test(start_paused = true)]
async fn a_multi_is_one_request_with_an_outcome_for_each_part() {
    let (zk, mut peer, _listener) = connected().await;
    let multi = zk
        .multi()
        .check("/lock", 3)
        .set_data("/a", "x")
        .delete("/b")
        .add(zk.create("/c-", "x").ephemeral().sequential())
        .send();
    let xid = peer
        .expect(Request::Multi(vec![
            Op::Check(records::CheckVersion { path: "/lock".into(), version: 3 }),
            Op::SetData(records::SetData { path: "/a".into(), data: Some("x".into()), version: -1 }),
            Op::Delete(records::Delete { path: "/b".into(), version: -1 }),
            Op::Create2(create("/c-", 3)),
        ]))
        .await;
    let created = OpResult::Create2("/c-0000000000".into(), stat(9));
    peer.reply(
        xid,
        Reply::Multi(vec![OpResult::Check, OpResult::SetData(stat(1)), OpResult::Delete, created]),
    )
    .await;
    let outcomes = multi.await.expect("outcomes");
    let made = MultiOutcome::Created { path: "/c-0000000000".into(), stat: Some(stat(9)) };
    let expected = [MultiOutcome::Checked, MultiOutcome::DataSet(stat(1)), MultiOutcome::Deleted, made];
    assert_eq!(outcomes, expected);
}

#[tokio::test(start_paused = true)]
async fn reads_of_a_multi_read_fail_independently() {
    let (zk, mut peer, _listener) = connected().await;
    let reads = zk.multi_read().get_data("/a").get_children("/b").get_data("/c").send();
    let (xid, _) = peer.next().await.expect("a request");
    let results = vec![
        OpResult::GetData(Some("x".into()), stat(1)),
        OpResult::GetChildren(["k"].into_iter().collect()),
        OpResult::Error(Some(ErrorCode::NoNode)),
    ];
    peer.reply(xid, Reply::Multi(results)).await;
    let expected = [
        Ok(ReadOutcome::Data("x".into(), stat(1))),
        Ok(ReadOutcome::Children(vec!["k".into()])),
        Err(ErrorCode::NoNode),
    ];
    assert_eq!(reads.await.expect("outcomes"), expected);
}

#[tokio::test(start_paused = true)]
async fn absence_is_a_result_of_exists_and_check_watches() {
    let (zk, mut peer, _listener) = connected().await;
    let (exists, check) = (zk.exists("/a").send(), zk.check_watches("/a", WatcherType::Any).send());
    for code in [ErrorCode::NoNode, ErrorCode::NoWatcher] {
        let (xid, _) = peer.next().await.expect("a request");
        peer.error(xid, code).await;
    }
    assert_eq!(exists.await.expect("an answer"), None);
    assert!(!check.await.expect("an answer"));
}

#[tokio::test(start_paused = true)]
async fn a_call_times_out_by_its_own_or_the_general_timeout() {
    let general = Duration::from_secs(2);
    let (zk, mut peer, _listener) = connected_with(Client::options().request_timeout(general)).await;
    let start = tokio::time::Instant::now();
    let (own, other) = (zk.get_data("/a").timeout(Duration::from_secs(1)).send(), zk.delete("/b").send());
    let error = own.await.expect_err("no answer");
    assert_eq!((error.to_string().as_str(), start.elapsed().as_secs()), ("getData /a: timed out", 1));
    let error = other.await.expect_err("no answer");
    assert_eq!((error.to_string().as_str(), start.elapsed().as_secs()), ("delete /b: timed out", 2));
    assert!(error.may_have_applied());

    // Late replies are ignored.
    let late = [peer.next().await.expect("a request").0, peer.next().await.expect("a request").0];
    let next = zk.exists("/c").send();
    peer.reply(late[0], Reply::Data(None, stat(1))).await;
    peer.reply(late[1], Reply::Empty).await;
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Stat(stat(5))).await;
    assert_eq!(next.await.expect("an answer"), Some(stat(5)));
}

#[tokio::test(start_paused = true)]
async fn a_long_listing_is_read_however_it_arrives() {
    let (zk, mut peer, _listener) = connected().await;
    let listing = zk.get_children("/many").send();
    let (xid, _) = peer.next().await.expect("a request");
    let names: Vec<String> = (0..100_000).map(|n| format!("a-rather-long-name-of-a-child-{n:010}")).collect();
    let sender = tokio::spawn(async move {
        let names = names.iter().map(String::as_str).collect();
        peer.reply(xid, Reply::Children2(names, stat(1))).await;
        peer
    });
    assert_eq!(listing.await.expect("a listing").0.len(), 100_000);
    let mut peer = sender.await.expect("no panic");

    // A small reply, one byte at a time.
    let read = zk.get_data("/a").send();
    let (xid, _) = peer.next().await.expect("a request");
    let mut wire = bytes::BytesMut::new();
    let header = zoolet_proto::ReplyHeader::ok(zoolet_proto::Xid(xid), Zxid(3));
    Reply::Data(Some("slow".into()), stat(1)).encode_frame(header, &mut wire);
    for byte in wire {
        peer.write_raw(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(read.await.expect("data").0, "slow");
}

#[tokio::test(start_paused = true)]
async fn a_reply_past_the_limit_fails_its_call_alone() {
    let (zk, mut peer, _listener) = connected_with(Client::options().max_reply(1000)).await;
    let (large, small) = (zk.get_data("/large").watch().send(), zk.get_data("/small").send());
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Data(Some(vec![0; 100_000].into()), stat(1))).await;
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Data(Some("fits".into()), stat(1))).await;
    let error = large.await.expect_err("too large");
    assert!(matches!(error, Error::ReplyTooLarge { max: 1000, .. }), "{error:?}");
    assert_eq!(small.await.expect("data").0, "fits");
    let remove = records::RemoveWatches { path: Some("/large".into()), kind: 2 };
    peer.expect(Request::RemoveWatches(remove)).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_frame_lengths_close_the_connection_and_allocate_nothing() {
    for length in [0i32, -1, i32::MIN, i32::MAX] {
        let (zk, mut peer, mut listener) = connected().await;
        let read = zk.get_data("/a").send();
        peer.next().await.expect("a request");
        peer.write_raw(&length.to_be_bytes()).await;
        peer.write_raw(&[0; 16]).await;
        assert_eq!(peer.next().await, None, "length {length}");
        let mut peer = listener.accept().await;
        let (xid, _) = peer.next().await.expect("the read once more");
        peer.reply(xid, Reply::Data(None, stat(1))).await;
        read.await.expect("data");
    }
}
