//! From one connection to the next, through the public API.

use std::future::{Future, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_core::Stream;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{AddWatchMode, Client, Error, EventType, SessionState, Stat, WatchUpdate, Zxid};
use zoolet_proto::{Reply, Request, SessionId, records};

use crate::common::{Listener, Peer, SESSION, TIMEOUT, Watched, connected, listener};

fn get(path: &str, watch: bool) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch })
}

fn set(path: &str, data: &'static str) -> Request {
    Request::SetData(records::SetData { path: path.into(), data: Some(data.into()), version: -1 })
}

fn auth(credentials: &'static str) -> Request {
    let scheme = Some("digest".into());
    Request::Auth(records::AuthPacket { kind: 0, scheme, auth: Some(credentials.into()) })
}

fn data(text: &'static str) -> Reply {
    Reply::Data(Some(text.into()), Stat::default())
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_in_order() {
    let (connect, mut listener) = listener();
    let options = Client::options().auth("digest", "first:1");
    let (zk, mut peer) = tokio::join!(options.connect(connect), async {
        let mut peer = listener.accept().await;
        let xid = peer.expect(auth("first:1")).await;
        peer.reply(xid, Reply::Empty).await;
        peer
    });
    let zk = zk.expect("a session");
    let mut states = zk.states();

    let added = zk.add_auth("digest", "second:2").send();
    let watched = zk.get_data("/w").watch().send();
    let xid = peer.expect(auth("second:2")).await;
    peer.reply(xid, Reply::Empty).await;
    let xid = peer.expect(get("/w", true)).await;
    peer.reply(xid, data("1")).await;
    added.await.expect("an identity");
    let (_, _, watch) = watched.await.expect("data");
    let seen = zk.last_zxid();

    let lost_read = zk.get_data("/r").send();
    let lost_write = zk.set_data("/x", "lost").send();
    peer.expect(get("/r", false)).await;
    peer.expect(set("/x", "lost")).await;
    drop(peer);
    let error = lost_write.await.expect_err("the connection is lost");
    assert_eq!(
        error.to_string(),
        "setData /x: connection lost; last connection error: the server closed the connection"
    );
    assert!(error.may_have_applied() && error.is_retryable());
    assert_eq!(zk.state(), SessionState::Disconnected, "visible before the first call fails");
    let waiting = zk.set_data("/y", "new").send();

    let mut peer = listener.connection().await;
    let greeting = peer.grant_session().await;
    assert_eq!((greeting.session, greeting.last_zxid_seen), (SESSION, seen));
    peer.expect(auth("first:1")).await;
    peer.expect(auth("second:2")).await;
    let watches =
        records::SetWatches { relative_zxid: seen, data: vec!["/w".into()], exist: vec![], child: vec![] };
    peer.expect(Request::SetWatches(watches)).await;
    let sync = peer.expect(Request::Sync(records::Sync { path: Some("/".into()) })).await;
    let read = peer.expect(get("/r", false)).await;
    let write = peer.expect(set("/y", "new")).await;
    peer.zxid = seen.0;
    for xid in [-4, -4] {
        peer.reply(xid, Reply::Empty).await;
    }
    peer.event(EventType::NodeDeleted, "/w").await;
    peer.reply(-8, Reply::Empty).await;
    peer.reply(sync, Reply::Synced(Some("/".into()))).await;
    peer.reply(read, data("r")).await;
    peer.reply(write, Reply::Stat(Stat::default())).await;
    assert_eq!(lost_read.await.expect("data").0, "r");
    waiting.await.expect("a stat");
    assert_eq!(watch.changed().await.expect("an event").kind, EventType::NodeDeleted);

    for state in [SessionState::Connected, SessionState::Disconnected, SessionState::Connected] {
        assert_eq!(states.next().await, Some(state));
    }
    peer.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn replies_before_a_connection_was_lost_count_although_requests_were_unsent() {
    let (zk, mut peer, _listener) = connected().await;
    let answered = zk.set_data("/a", "1").send();
    let xid = peer.expect(set("/a", "1")).await;
    peer.reply(xid, Reply::Stat(Stat::default())).await;
    drop(peer);
    let lost = zk.set_data("/a", "2").send();
    answered.await.expect("a stat");
    let error = lost.await.expect_err("the connection is lost");
    assert!(error.may_have_applied(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_read_after_a_failed_write_counts() {
    let (connect, mut listener) = listener();
    let torn = Arc::new(AtomicBool::new(false));
    let whole = Arc::clone(&torn);
    let connect = move || {
        // As a socket that has received a reset: reading still works.
        let torn = Arc::clone(&whole);
        let before_write =
            move || if torn.load(SeqCst) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) };
        ready(connect().into_inner().map(|stream| Watched { stream, before_write }))
    };
    let (zk, mut peer) = tokio::join!(Client::connect(connect), listener.accept());
    let zk = zk.expect("a session");
    let answered = zk.set_data("/a", "1").send();
    let xid = peer.expect(set("/a", "1")).await;
    torn.store(true, SeqCst);
    let lost = zk.set_data("/a", "2").send();
    tokio::task::yield_now().await;
    torn.store(false, SeqCst);
    peer.reply(xid, Reply::Stat(Stat::default())).await;
    drop(peer);
    answered.await.expect("a stat");
    assert!(lost.await.expect_err("the connection is lost").may_have_applied());

    // A silent one is given up like any other.
    let mut peer = listener.accept().await;
    torn.store(true, SeqCst);
    let lost = zk.set_data("/a", "3").send();
    tokio::task::yield_now().await;
    torn.store(false, SeqCst);
    let began = tokio::time::Instant::now();
    assert!(lost.await.expect_err("the connection is lost").may_have_applied());
    assert!(began.elapsed() <= TIMEOUT, "{:?}", began.elapsed());
    assert_eq!(peer.frame().await, None, "nothing was written, and the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_is_awaited_without_polling() {
    let (connect, mut listener) = listener();
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let connect = move || {
        let writes = Arc::clone(&counted);
        let before_write = move || {
            writes.fetch_add(1, SeqCst);
            Ok(())
        };
        ready(connect().into_inner().map(|stream| Watched { stream, before_write }))
    };
    let (zk, mut peer) = tokio::join!(Client::connect(connect), listener.accept());
    let zk = zk.expect("a session");
    let large = "x".repeat(400_000);
    let calls: Vec<_> = (0..4).map(|_| zk.set_data("/a", large.clone()).send()).collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(writes.load(SeqCst) < 10, "{} writes", writes.load(SeqCst));
    for call in calls {
        let (xid, _) = peer.next().await.expect("a request");
        peer.reply(xid, Reply::Stat(Stat::default())).await;
        call.await.expect("a stat");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expiry_is_the_servers_decision_and_ends_everything() {
    let (zk, peer, mut listener) = connected().await;
    let mut states = zk.states();
    drop(peer);
    let call = zk.get_data("/a").send();
    listener.connection().await.refuse().await;
    assert!(matches!(call.await, Err(Error::SessionExpired(_))));
    assert_eq!(zk.ended().await, SessionState::Expired);
    let error = zk.create("/a", "").await.expect_err("the session is over");
    assert_eq!(error.to_string(), "create /a: session expired");
    let mut seen = Vec::new();
    while let Some(state) = std::future::poll_fn(|cx| pin!(&mut states).poll_next(cx)).await {
        seen.push(state);
    }
    assert_eq!(seen, [SessionState::Connected, SessionState::Disconnected, SessionState::Expired]);
}

#[tokio::test(start_paused = true)]
async fn every_one_of_many_calls_fails_with_the_end_of_the_session() {
    let (zk, peer, mut listener) = connected().await;
    drop(peer);
    let mut peer = listener.connection().await;
    peer.refuse().await;
    let calls: Vec<_> = (0..1000).map(|_| zk.delete("/a").send()).collect();
    for call in calls {
        let error = call.await.expect_err("the session is over");
        assert!(matches!(error, Error::SessionExpired(_)), "{error:?}");
        assert_eq!(error.to_string(), "delete /a: session expired");
    }
}

#[tokio::test(start_paused = true)]
async fn another_session_than_the_one_asked_for_is_an_expiry() {
    let (zk, peer, mut listener) = connected().await;
    drop(peer);
    listener.connection().await.grant_session_as(SessionId(0x99), TIMEOUT).await;
    let ended = tokio::time::timeout(TIMEOUT, zk.ended()).await;
    assert_eq!(ended, Ok(SessionState::Expired));
}

#[tokio::test(start_paused = true)]
async fn the_server_decides_the_session_timeout() {
    let (connect, mut listener) = listener();
    let options = Client::options().session_timeout(Duration::from_secs(100));
    let (zk, greeting) = tokio::join!(options.connect(connect), async {
        let mut peer = listener.connection().await;
        let greeting = peer.grant_session_as(SESSION, Duration::from_secs(40)).await;
        (greeting, peer)
    });
    let zk = zk.expect("a session");
    assert_eq!(greeting.0.timeout, 100_000);
    assert_eq!(zk.session_timeout(), Duration::from_secs(40));
    assert_eq!(zk.session_id(), SESSION);
}

#[tokio::test(start_paused = true)]
async fn a_session_timeout_is_clamped_to_the_limits_of_the_wire() {
    for (timeout, said) in [(Duration::ZERO, 1), (Duration::MAX, i32::MAX)] {
        let (connect, mut listener) = listener();
        let options = Client::options().session_timeout(timeout);
        let (zk, greeting) = tokio::join!(options.connect(connect), async {
            let mut peer = listener.connection().await;
            let greeting = peer.grant_session().await;
            (greeting, peer)
        });
        assert_eq!(greeting.0.timeout, said);
        assert_eq!(zk.expect("a session").session_timeout(), TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_fails_at_its_timeout_with_the_last_error() {
    let refuse = || async { Err::<tokio::io::DuplexStream, _>(io::Error::other("no route")) };
    let start = tokio::time::Instant::now();
    let options = Client::options().connect_timeout(Duration::from_secs(5));
    let error = options.connect(refuse).await.expect_err("no server");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(error.to_string(), "connect: no session within 5s; no route");
    assert!(error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_stays_silent_does_not_stop_the_attempts() {
    let (connect, mut listener) = listener();
    let connecting = tokio::spawn(Client::options().connect(connect));
    let silent = listener.connection().await;
    let _peer = listener.accept().await;
    connecting.await.expect("no panic").expect("a session");
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_pings_and_an_unanswered_ping_ends_the_connection() {
    let (zk, mut peer, _listener) = connected().await;
    let start = tokio::time::Instant::now();
    peer.expect(Request::Ping).await;
    assert_eq!(start.elapsed().as_secs(), TIMEOUT.as_secs() / 3);
    peer.reply(-2, Reply::Empty).await;
    peer.expect(Request::Ping).await;
    assert_eq!(start.elapsed().as_secs(), 2 * TIMEOUT.as_secs() / 3);
    assert!(zk.last_contact() < start + TIMEOUT / 3 + Duration::from_millis(10));
    assert_eq!(peer.next().await, None);
    assert_eq!(start.elapsed().as_secs(), TIMEOUT.as_secs());
    assert_eq!(zk.state(), SessionState::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_servers_confirmation() {
    let (zk, mut peer, _listener) = connected().await;
    let close = zk.close();
    peer.expect_close().await;
    close.await.expect("closed");
    assert_eq!(zk.state(), SessionState::Closed);
    zk.close().await.expect("closed is closed");
}

#[tokio::test(start_paused = true)]
async fn a_persistent_watch_ends_with_its_session_and_says_why() {
    let (zk, mut peer, mut listener) = connected().await;
    let stream = zk.add_watch("/p", AddWatchMode::Persistent).send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::WatchAdded).await;
    let mut stream = stream.await.expect("a stream");
    peer.event(EventType::NodeCreated, "/p").await;
    drop(peer);
    let mut peer = listener.accept().await;
    assert!(matches!(peer.next().await, Some((-8, Request::SetWatches2(_)))));
    drop(peer);
    listener.connection().await.refuse().await;
    let Some(WatchUpdate::Event(event)) = stream.next().await else { panic!("an event first") };
    assert_eq!((event.kind, event.path.as_str()), (EventType::NodeCreated, "/p"));
    assert!(event.zxid > Some(Zxid(0)));
    assert!(matches!(stream.next().await, Some(WatchUpdate::Missed)));
    let Some(WatchUpdate::Ended(error)) = stream.next().await else { panic!("the end last") };
    assert_eq!(error.to_string(), "watch /p: session expired");
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_arrives_before_the_reply_that_follows_it() {
    let (zk, mut peer, _listener) = connected().await;
    let watched = zk.get_data("/a").watch().send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, data("old")).await;
    let (_, _, mut watch) = watched.await.expect("data");
    let read = zk.get_data("/a").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.event(EventType::NodeDataChanged, "/a").await;
    peer.reply(xid, data("new")).await;
    assert_eq!(read.await.expect("data").0, "new");
    let now = std::future::poll_fn(|cx| std::task::Poll::Ready(pin!(&mut watch).poll(cx))).await;
    assert!(matches!(now, std::task::Poll::Ready(Ok(_))), "{now:?}");
}

/// Accepts TCP connections and plays nothing but the handshake on them.
async fn greet_one(listener: TcpListener) -> u16 {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut greeting = [0; 49];
    stream.read_exact(&mut greeting).await.expect("a connect request");
    let mut out = bytes::BytesMut::new();
    let password = bytes::Bytes::from_static(&[1; 16]);
    records::ConnectResponse {
        protocol_version: 0,
        timeout: 9000,
        session: SESSION,
        password,
        read_only: Some(false),
    }
    .encode_frame(&mut out);
    tokio::io::AsyncWriteExt::write_all(&mut stream, &out).await.expect("a written response");
    std::mem::forget(stream);
    listener.local_addr().expect("an address").port()
}

#[tokio::test]
async fn every_host_gets_its_turn() {
    let alive = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = alive.local_addr().expect("an address").port();
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed = dead.local_addr().expect("an address").port();
    drop(dead);
    let target = format!("127.0.0.1:{closed},127.0.0.1:{closed},localhost:{port}/app");
    let (zk, _) = tokio::join!(Client::connect(&target), greet_one(alive));
    assert_eq!(zk.expect("a session").state(), SessionState::Connected);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_connect_string_fails_at_once() {
    for target in ["", "host:port", "host:1/app/", "host:1//"] {
        let error = Client::connect(target).await.expect_err(target);
        assert!(matches!(error, Error::InvalidTarget(_)), "{target}: {error}");
    }
}

#[allow(dead_code, reason = "says that these are the types users name")]
fn types_can_be_sent(zk: &Client) {
    fn send<T: Send + 'static>(_: T) {}
    fn sync<T: Send + Sync + Clone + 'static>(_: T) {}
    sync(zk.clone());
    send(zk.get_data("/a").send());
    send(zk.get_data("/a").watch().send());
    send(zk.states());
    send(Client::connect(String::new().as_str()));
    let _: fn(Listener, Peer) = |_, _| {};
}
