//! The server of a test: the test controls the time and sees the state, and every run repeats.

use std::collections::HashSet;
use std::time::Duration;
use zoolet::testing::EnsembleExt as _;

use zoolet::client::internal::ClientExt as _;
use zoolet::server::{Clock, Server};
use zoolet::testing::{
    Action, FixtureError, OpCode, TestServerError, WatchKind, connection, handshake, op, request,
};
use zoolet::{Client, EventType, Lock, SessionState};

use crate::common::{test_ensemble, test_server};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test]
async fn a_thousand_seconds_of_pings_expire_no_session_in_process_or_by_tcp() {
    for builder in [test_server(), test_server().tcp()] {
        let zk = builder.start().await.unwrap();
        let clients = [zk.client().await, zk.client().await];
        zk.advance(secs(1_000)).await.unwrap();
        assert!(clients.iter().all(|client| client.state() == SessionState::Connected));
        let counters = zk.counters();
        assert_eq!(counters.connections, 2, "no client reconnected");
        assert!(counters.requests[&OpCode::Ping] >= 2 * 250);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_waits_for_clients_on_other_threads_too() {
    for builder in [test_server(), test_server().tcp()] {
        let zk = builder.start().await.unwrap();
        let clients = [zk.client().await, zk.client().await, zk.client().await];
        zk.advance(secs(100)).await.unwrap();
        assert!(clients.iter().all(|client| client.state() == SessionState::Connected));
        assert_eq!(zk.counters().connections, 3, "no client reconnected");
    }
}

#[tokio::test]
async fn a_session_that_expires_deletes_its_ephemerals_and_fires_their_watches() {
    let zk = test_server().start().await.unwrap();
    let (a, b) = (zk.client().await, zk.client().await);
    a.create("/leader", "a").ephemeral().await.unwrap();
    let (_, gone) = b.exists("/leader").watch().await.unwrap();
    zk.expire_session(a.session_id()).await.unwrap();
    assert_eq!(gone.changed().await.unwrap().kind, EventType::NodeDeleted);
    assert_eq!(zk.get("/leader"), None);
    assert_eq!(a.state(), SessionState::Expired, "and its client knows");
    assert_eq!(b.state(), SessionState::Connected);
}

#[tokio::test]
async fn a_client_that_is_cut_off_for_longer_than_its_timeout_expires_by_time_alone() {
    let zk = test_server().start().await.unwrap();
    let (a, b) = (zk.client().await, zk.client().await);
    a.create("/leader", "a").ephemeral().await.unwrap();
    zk.freeze(a.session_id()).await.unwrap();
    zk.refuse_connections();
    zk.advance(secs(9)).await.unwrap();
    assert!(zk.get("/leader").is_some());
    zk.advance(secs(6)).await.unwrap();
    assert_eq!(zk.get("/leader"), None);
    assert_eq!((a.state(), b.state()), (SessionState::Disconnected, SessionState::Connected));
    zk.accept_connections();
    zk.advance(secs(2)).await.unwrap();
    assert_eq!(a.state(), SessionState::Expired, "it learns it when it reconnects");
}

#[tokio::test]
async fn time_stops_at_each_moment_that_somebody_waits_for() {
    let zk = test_server().start().await.unwrap();
    let a = zk.client().await;
    let before = zk.clock().now();
    let moved = zk.advance_to_next_timeout().await.unwrap().expect("a ping is due");
    assert!(moved <= secs(4), "{moved:?}");
    assert_eq!(zk.clock().now() - before, moved);
    assert_eq!(zk.counters().requests.get(&OpCode::Ping), Some(&1));
    drop(a);
}

#[tokio::test]
async fn without_a_pending_timer_the_clock_does_not_move() {
    let zk = test_server().start().await.unwrap();
    zk.pause().await.unwrap();
    let before = zk.clock().now();
    assert_eq!(zk.advance_to_next_timeout().await.unwrap(), None);
    assert_eq!(zk.clock().now(), before);
    let beyond = secs(40_000 * 365 * 24 * 3_600);
    assert!(matches!(zk.advance(beyond).await, Err(FixtureError::TooFar(_))), "no clock goes so far");
    zk.resume().await.unwrap();
    zk.client().await.create("/a", "").await.unwrap();
}

#[tokio::test]
async fn the_session_of_direct_writes_never_expires() {
    let zk = test_server().start().await.unwrap();
    zk.set("/a", "1").await.unwrap();
    zk.advance(secs(3_600)).await.unwrap();
    assert_eq!(zk.get("/a").expect("it stays").text(), "1");
    zk.set("/a", "2").await.unwrap();
    assert_eq!(zk.sessions().len(), 1);
}

#[tokio::test]
async fn the_state_is_in_sight() {
    let zk = test_server().tree("/app/config \"v1\"\n/app/bin x'00ff'").start().await.unwrap();
    let (a, b) = (zk.client().await, zk.client().await);
    a.create("/app/a", "").ephemeral().await.unwrap();
    let (_, _, watch) = b.get_children("/app").watch().await.unwrap();
    assert_eq!(zk.children("/app"), ["a", "bin", "config"]);
    assert_eq!(zk.get("/app/a").expect("created").owner(), Some(a.session_id()));
    let listing = zk.tree().to_string();
    assert!(listing.contains("/app/bin x'00ff'\n/app/config \"v1\"\n"), "{listing}");
    let watches = zk.watches();
    assert_eq!(watches.len(), 1);
    assert_eq!((watches[0].path.as_str(), watches[0].kind), ("/app", WatchKind::Child));
    assert_eq!(watches[0].session, Some(b.session_id()));
    let session = zk.sessions().into_iter().find(|session| session.id == a.session_id()).expect("it exists");
    assert_eq!(session.ephemerals, ["/app/a"]);
    let zxids: Vec<_> = zk.transactions().iter().map(|txn| txn.zxid.0).collect();
    assert_eq!(zxids, (1..=zk.last_zxid().0).collect::<Vec<_>>());
    drop(watch);
}

#[tokio::test]
async fn a_tree_dump_can_be_the_initial_tree_of_another_server() {
    let one =
        test_server().tree("/a/b \"x\\n\\\"y\\\"\"\n/c x'80'\n/d\n\"/e f\" \"g\"").start().await.unwrap();
    let listing = one.tree().to_string();
    let two = test_server().tree(&listing).start().await.unwrap();
    assert_eq!(two.tree().to_string(), listing);
}

#[tokio::test]
async fn the_first_tree_may_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# from a bug report\n/a/b \"x\"\n").unwrap();
    let zk = test_server().tree_file(file.path()).start().await.unwrap();
    assert_eq!(zk.get("/a/b").expect("from the file").text(), "x");
}

#[tokio::test]
async fn waiting_for_a_znode_needs_no_time() {
    let zk = test_server().start().await.unwrap();
    let a = zk.client().await;
    let writer = tokio::spawn(async move {
        a.create("/done", "no").await.unwrap();
        a.set_data("/done", "yes").await.unwrap();
        a
    });
    zk.wait_for("/done", |node| node.is_some_and(|node| node.text() == "yes")).await.unwrap();
    assert_eq!(zk.get("/done").expect("it was seen").text(), "yes");
    drop(writer.await.unwrap());
}

#[tokio::test]
async fn a_restart_keeps_port_tree_and_sessions_and_clients_go_on() {
    let zk = test_server().tcp().start().await.unwrap();
    let a = zk.client().await;
    let (id, address) = (a.session_id(), zk.connect_string());
    a.create("/mine", "").ephemeral().await.unwrap();
    let (_, watch) = a.exists("/mine").watch().await.unwrap();
    zk.restart().await.unwrap();
    assert_eq!((a.session_id(), a.state()), (id, SessionState::Connected));
    assert_eq!(zk.connect_string(), address);
    zk.set("/mine", "x").await.unwrap();
    assert_eq!(watch.changed().await.unwrap().kind, EventType::NodeDataChanged, "it was set again");
}

/// What happens in a test with this seed, to the byte.
async fn run(seed: u64) -> (String, String) {
    let zk = test_server().seed(seed).start().await.expect("a server");
    zk.faults().on(request().probability(0.2)).lose_reply().expect("a fault");
    let clients = [zk.client().await, zk.client().await, zk.client().await];
    for client in &clients {
        for _ in 0..10 {
            // It may fail: that is drawn too.
            let _ = zk.pass_time_until(client.create("/q-", "").sequential()).await.expect("an outcome");
        }
        let guard = zk.pass_time_until(Lock::new(client, "/lock").acquire()).await.expect("an outcome");
        drop(guard);
        zk.advance(secs(5)).await.expect("a manual clock");
    }
    let record: Vec<_> = zk.record().iter().map(ToString::to_string).collect();
    (zk.tree().to_string(), record.join("\n"))
}

#[tokio::test]
async fn the_same_seed_gives_the_same_run() {
    let (tree, record) = run(11).await;
    assert_eq!(run(11).await, (tree, record.clone()));
    assert_ne!(run(12).await.1, record);
}

#[tokio::test]
async fn neighbouring_seeds_have_nothing_in_common() {
    let mut drawn = HashSet::new();
    for seed in 0..8 {
        let zk = test_server().seed(seed).start().await.unwrap();
        for nth in 0..8 {
            assert!(drawn.insert(zk.client().await.random_u128()), "client {nth} of seed {seed}");
        }
    }
}

#[tokio::test]
async fn the_number_of_endpoints_is_that_of_the_server_builder_or_of_its_own() {
    let three = || zoolet::Server::builder().simulated_ensemble(3);
    let zk = test_ensemble(3).server(three()).tcp().start().await.unwrap();
    assert_eq!((zk.endpoints(), zk.server().addrs().len()), (3, 3));
    zk.client_at(2).await;
    assert_eq!(test_ensemble(2).server(three()).start().await.unwrap().endpoints(), 2);
}

#[tokio::test]
async fn time_passes_while_a_future_is_awaited() {
    let zk = test_server().start().await.unwrap();
    let a = zk.client().await;
    zk.refuse_connections();
    zk.disconnect(a.session_id()).await.unwrap();
    let lost = zk.pass_time_until(a.create("/a", "")).await.unwrap();
    assert!(!lost.unwrap_err().may_have_applied(), "the server was unreachable for a whole session timeout");
}

#[tokio::test]
async fn bad_use_is_an_error_that_names_the_mistake() {
    let zk = test_server().clock(Clock::tokio()).start().await.unwrap();
    let a = zk.client().await;
    let told = |error: FixtureError| error.to_string();
    assert_eq!(
        told(zk.advance(secs(1)).await.unwrap_err()),
        "the tokio clock cannot be moved unless it is paused: write `#[tokio::test(start_paused = true)]` \
        if the program under test sleeps with tokio; start with `Clock::manual()` to move time by hand"
    );
    let far = zk.advance(Duration::MAX).await.unwrap_err();
    assert!(matches!(far, FixtureError::TooFar(Duration::MAX)), "{far}");
    zk.expire_session(a.session_id()).await.unwrap();
    assert_eq!(
        told(zk.expire_session(a.session_id()).await.unwrap_err()),
        format!("unknown session {}: it was never opened, was closed, or has expired", a.session_id())
    );
    assert_eq!(
        told(zk.endpoint(1).expect_err("none")),
        "no endpoint 1: there are 0, counted from 0; ask for more with `endpoints(n)` of a `TestServer` or `simulated_ensemble(n)` of a server"
    );
    let builders = [
        (test_server().tree("/a\nb"), "initial tree: line 2: a line must begin with the path of a znode: b"),
        (test_server().znode("a", ""), "initial tree: direct set a: bad arguments"),
        (
            test_server().fault(connection(), Action::LoseReply),
            "fault: cannot lose the reply on a connection: \
            a new connection can only be refused; match `handshake()` or `request()`",
        ),
        (
            test_server().fault(op(OpCode::Ping).path("/a"), Action::LoseReply),
            "fault: a Ping has no path; leave `path` out, or match a request that has one",
        ),
        (
            test_server().fault(request().path("/a").path("/b"), Action::Reset),
            "fault: a fault has one path: give it once, or place a fault for each",
        ),
        (
            test_server().fault(handshake().nth(1).times(2), Action::Reset),
            "fault: `nth` and `times` contradict each other; keep one of them",
        ),
    ];
    for (builder, expected) in builders {
        let error: TestServerError = builder.start().await.expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
    let nowhere = zk.in_process_at(1)().await.unwrap_err();
    assert_eq!(nowhere.to_string(), "there is no endpoint 1: there are 1, counted from 0");
    let missing = test_server().tree_file("no/such/file").start().await.expect_err("no file");
    assert!(missing.to_string().starts_with("initial tree no/such/file: "), "{missing}");
}

#[tokio::test]
async fn a_client_that_comes_by_its_own_way_is_served_as_well() {
    let zk = test_server().tcp().clock(Clock::system()).start().await.unwrap();
    let client = Client::connect(zk.connect_string()).await.unwrap();
    client.create("/from-outside", "").await.unwrap();
    assert!(zk.get("/from-outside").is_some());
    let server: &Server = zk.server();
    assert_eq!(server.addrs().len(), 1);
}

#[tokio::test]
async fn a_connection_that_its_client_has_given_up_may_be_held_up_still() {
    let zk = test_server().start().await.unwrap();
    let client = zk.client().await;
    zk.pause().await.unwrap();
    // It hears nothing, and comes by another connection. Of what it sent by the first something is frozen then.
    zk.faults().on(op(OpCode::GetData).nth(2)).freeze().unwrap();
    zk.faults().on(handshake().nth(1)).freeze().unwrap();
    let (_, read) = (client.get_data("/").send(), client.get_data("/").send());
    zk.advance(secs(8)).await.unwrap();
    zk.resume().await.unwrap();
    zk.wait_until_idle().await.unwrap();
    zk.unfreeze_all().await.unwrap();
    zk.pass_time_until(read).await.unwrap().unwrap();
}
