//! One session after the other: what is carried over, what is reported, and when the past has changed.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zoolet_client::{
    Client, ConnectOptions, Error, ErrorCode, SessionId, SessionState, Sessions, SessionsChange,
    SessionsChanges, SessionsState, Zxid,
};
use zoolet_proto::{Reply, Request, records};

use crate::common::{Listener, Peer, SESSION, TIMEOUT, listener};

const SECOND: SessionId = SessionId(0x78);

fn options() -> ConnectOptions {
    Client::options().session_timeout(TIMEOUT).connect_timeout(Duration::from_secs(5)).seed(7)
}

fn open(options: ConnectOptions) -> (Sessions, Listener) {
    let (connect, listener) = listener();
    (Sessions::open(options, connect).expect("a runtime"), listener)
}

/// The next `count` changes in short, with the number of the session.
async fn next(changes: &mut SessionsChanges, count: usize) -> Vec<(u64, SessionsState)> {
    let mut states = Vec::new();
    while states.len() < count {
        let SessionsChange { number, state, skipped, .. } = changes.next().await.expect("a change");
        assert_eq!(skipped, 0);
        states.push((number, state));
    }
    states
}

/// Answers a read, so that the session has seen this zxid.
async fn show(zk: &Client, peer: &mut Peer, zxid: i64) {
    let read = zk.exists("/").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.zxid = zxid - 1;
    peer.reply(xid, Reply::Stat(Default::default())).await;
    read.await.expect("a reply");
}

/// Answers what a session is asked that was opened as if nothing had been seen.
async fn answer_with(peer: &mut Peer, zxid: i64) {
    let (sync, request) = peer.next().await.expect("a request");
    assert_eq!(request, Request::Sync(records::Sync { path: Some("/".into()) }));
    peer.zxid = zxid - 1;
    peer.reply(sync, Reply::Synced(Some("/".into()))).await;
    let (exists, _) = peer.next().await.expect("a request");
    peer.error(exists, ErrorCode::NoNode).await;
}

#[tokio::test(start_paused = true)]
async fn the_session_after_one_that_has_expired_begins_with_its_zxid_and_every_change_is_told() {
    let (sessions, mut listener) = open(options());
    let mut changes = sessions.changes();
    let mut peer = listener.accept().await;
    let first = sessions.term_after(0).await.expect("a session");
    show(&first.client, &mut peer, 40).await;
    drop(peer);
    listener.connection().await.refuse().await;
    assert_eq!(first.client.ended().await, SessionState::Expired);
    assert_eq!(sessions.last_zxid(), Zxid(40));
    let mut peer = listener.connection().await;
    let request = peer.grant_session_as(SECOND, TIMEOUT).await;
    assert_eq!((request.session, request.last_zxid_seen), (SessionId(0), Zxid(40)));
    let second = sessions.term_after(first.number).await.expect("the next session");
    assert_eq!((second.number, second.epoch, second.client.session_id()), (2, 0, SECOND));
    assert_eq!(sessions.client().await.expect("the same").session_id(), SECOND);
    assert_eq!(
        next(&mut changes, 6).await,
        [
            (1, SessionsState::Opening),
            (1, SessionsState::Connected),
            (1, SessionsState::Disconnected),
            (1, SessionsState::Lost(SessionState::Expired)),
            (2, SessionsState::Opening),
            (2, SessionsState::Connected),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_has_its_time_its_session_and_its_reason() {
    let (sessions, mut listener) = open(options());
    let began = Instant::now();
    let mut changes = sessions.changes();
    let peer = listener.accept().await;
    next(&mut changes, 1).await;
    let connected = changes.next().await.expect("a change");
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(peer);
    let lost = changes.next().await.expect("a change");
    assert_eq!(lost.since - began, Duration::from_secs(1));
    assert_eq!((lost.session, lost.session), (connected.session, SESSION));
    assert_eq!(lost.reason.as_deref(), Some("the server closed the connection"));
    assert_eq!(sessions.state().state, SessionsState::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn servers_that_went_back_before_a_session_is_opened_are_an_epoch_reset_proven_by_a_session() {
    for (found, is_reset) in [(39, true), (40, false), (41, false)] {
        let (sessions, mut listener) = open(options().last_zxid(Zxid(40)));
        let mut changes = sessions.changes();
        let servers = async {
            loop {
                let mut peer = listener.connection().await;
                let request = peer.grant_if(|request| request.last_zxid_seen == Zxid(0)).await;
                if request {
                    answer_with(&mut peer, found).await;
                    return (peer, listener);
                }
            }
        };
        let ((_peer, _listener), term) = tokio::join!(servers, sessions.term_after(0));
        let term = term.expect("a session");
        assert_eq!((term.number, term.epoch), (1, u64::from(is_reset)), "found {found}");
        let mut expected = vec![(1, SessionsState::Opening), (1, SessionsState::Connected)];
        if is_reset {
            expected.insert(1, (1, SessionsState::EpochReset { seen: Zxid(40), found: Zxid(39) }));
        }
        assert_eq!(next(&mut changes, expected.len()).await, expected);
        assert_eq!(sessions.last_zxid(), Zxid(found));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_servers_went_back_is_ended_and_the_next_one_begins_a_new_epoch() {
    let (sessions, mut listener) = open(options());
    let mut changes = sessions.changes();
    let mut peer = listener.accept().await;
    let first = sessions.term_after(0).await.expect("a session");
    show(&first.client, &mut peer, 40).await;
    drop(peer);
    let lost = Instant::now();
    let servers = async {
        loop {
            let mut peer = listener.connection().await;
            if peer.grant_if(|request| request.last_zxid_seen == Zxid(0)).await {
                answer_with(&mut peer, 12).await;
                return (peer, listener);
            }
        }
    };
    let ((_peer, _listener), second) = tokio::join!(servers, sessions.term_after(1));
    let second = second.expect("the next session");
    assert!(lost.elapsed() >= TIMEOUT, "servers may be late");
    assert_eq!((second.number, second.epoch), (2, 1));
    assert_eq!(first.client.state(), SessionState::Expired);
    let error = first.client.get_data("/a").await.expect_err("over").to_string();
    assert_eq!(error, "getData /a: session expired; the servers went back to an older state");
    assert_eq!(
        next(&mut changes, 6).await[3..],
        [
            (1, SessionsState::Lost(SessionState::Expired)),
            (2, SessionsState::EpochReset { seen: Zxid(40), found: Zxid(12) }),
            (2, SessionsState::Connected),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_outlives_a_long_time_without_servers() {
    let (sessions, mut listener) = open(options());
    let mut peer = listener.accept().await;
    let term = sessions.term_after(0).await.expect("a session");
    show(&term.client, &mut peer, 40).await;
    drop(peer);
    let down = Instant::now();
    // Connections that close without an answer, as of servers that are behind.
    let mut probes = 0;
    while down.elapsed() < Duration::from_secs(600) {
        let mut peer = listener.connection().await;
        probes += u32::from(peer.connects_with().await.last_zxid_seen == Zxid(0));
    }
    assert!(probes >= 10, "it looks whether the servers went back: {probes}");
    let mut peer = listener.accept_if(|request| request.last_zxid_seen == Zxid(40)).await;
    show(&term.client, &mut peer, 41).await;
    assert_eq!(sessions.term_after(0).await.expect("the same").number, 1);
}

#[tokio::test(start_paused = true)]
async fn a_close_closes_the_session_and_opens_no_other() {
    let (sessions, mut listener) = open(options());
    let mut changes = sessions.changes();
    let mut peer = listener.accept().await;
    let client = sessions.client().await.expect("a session");
    tokio::join!(sessions.close(), peer.expect_close());
    assert_eq!(client.state(), SessionState::Closed);
    assert!(matches!(sessions.client().await, Err(Error::Closed(_))));
    assert!(listener.next_connection().await.is_none(), "it opened another");
    let ended = [(1, SessionsState::Lost(SessionState::Closed)), (1, SessionsState::Ended)];
    assert_eq!(next(&mut changes, 4).await[2..], ended);
    assert!(changes.next().await.is_none());
    sessions.close().await;
    assert!(sessions.changes().next().await.is_some_and(|change| change.state == SessionsState::Ended));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_the_session() {
    let (sessions, mut listener) = open(options());
    let mut peer = listener.accept().await;
    let other = sessions.clone();
    let client = sessions.client().await.expect("a session");
    drop(sessions);
    peer.expect_silence().await;
    drop(other);
    peer.expect_close().await;
    assert_eq!(client.ended().await, SessionState::Closed);
    assert!(listener.next_connection().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_end_it_and_unreachable_servers_do_not() {
    let (sessions, mut listener) = open(options().auth("digest", "user:secret"));
    for _ in 0..20 {
        drop(listener.connection().await);
    }
    let mut peer = listener.accept().await;
    let (xid, _) = peer.next().await.expect("the identity");
    peer.error(xid, ErrorCode::AuthFailed).await;
    let ended = timeout(Duration::from_secs(60), sessions.client()).await.expect("it tries again");
    assert!(matches!(ended, Err(Error::AuthFailed(_))));
    let change = sessions.state();
    assert_eq!(change.state, SessionsState::Ended);
    assert!(change.reason.expect("a reason").contains("digest"));
}

#[tokio::test(start_paused = true)]
async fn sessions_that_end_as_soon_as_they_begin_follow_each_other_with_growing_pauses() {
    let (sessions, mut listener) = open(options());
    let began = Instant::now();
    for number in 0..20 {
        let mut peer = listener.connection().await;
        peer.grant_session_as(SessionId(0x100 + number), TIMEOUT).await;
        drop(peer);
        listener.connection().await.refuse().await;
    }
    assert!(began.elapsed() > Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(sessions.state().number, 20);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_resumed_is_resumed_once() {
    let (sessions, mut listener) = open(options().resume(SECOND, b"sixteen bytes...".to_vec()));
    let mut changes = sessions.changes();
    listener.connection().await.refuse().await;
    let request = listener.connection().await.grant_session().await;
    assert_eq!(request.session, SessionId(0));
    let (opening, lost) = (SessionsState::Opening, SessionsState::Lost(SessionState::Expired));
    assert_eq!(next(&mut changes, 3).await, [(1, opening), (1, lost), (1, SessionsState::Connected)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_to_be_resumed_is_replaced_by_no_other_unless_the_servers_went_back() {
    for found in [40, 39] {
        let options = options().resume(SESSION, b"sixteen bytes...".to_vec()).last_zxid(Zxid(40));
        let (sessions, mut listener) = open(options);
        let mut changes = sessions.changes();
        let mut peer = listener.accept_if(|request| request.last_zxid_seen == Zxid(0)).await;
        answer_with(&mut peer, found).await;
        let (opening, connected) = ((1, SessionsState::Opening), (1, SessionsState::Connected));
        if found == 40 {
            peer.expect_close().await;
            let _peer = listener.accept_if(|request| request.session == SESSION).await;
            assert_eq!(next(&mut changes, 2).await, [opening, connected]);
        } else {
            let lost = (1, SessionsState::Lost(SessionState::Expired));
            let reset = (1, SessionsState::EpochReset { seen: Zxid(40), found: Zxid(39) });
            assert_eq!(next(&mut changes, 4).await, [opening, lost, reset, connected]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_before_its_identity_is_accepted_is_followed_by_another() {
    let (sessions, mut listener) = open(options().auth("digest", "user:secret"));
    let mut peer = listener.accept().await;
    peer.next().await.expect("the identity");
    drop(peer);
    listener.connection().await.refuse().await;
    let mut peer = listener.connection().await;
    assert_eq!(peer.grant_session_as(SECOND, TIMEOUT).await.session, SessionId(0));
    let (xid, _) = peer.next().await.expect("the identity");
    peer.reply(xid, Reply::Empty).await;
    assert_eq!(sessions.client().await.expect("a session").session_id(), SECOND);
}

/// As files of TLS that are in the middle of a change.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_valid_once_ends_nothing_later() {
    let (connect, mut listener) = listener();
    let dials = AtomicUsize::new(0);
    let connect = move || {
        let dialing = (dials.fetch_add(1, Relaxed) != 2).then(&connect);
        async move { dialing.ok_or(io::ErrorKind::Unsupported)?.await }
    };
    let sessions = Sessions::open(options(), connect).expect("a runtime");
    drop(listener.accept().await);
    listener.connection().await.refuse().await;
    listener.connection().await.grant_session_as(SECOND, TIMEOUT).await;
    assert_eq!(sessions.term_after(1).await.expect("a session").client.session_id(), SECOND);
}

#[test]
fn the_end_of_the_runtime_ends_the_changes() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let first = runtime().expect("a runtime");
    let (sessions, mut changes, _peer) = first.block_on(async {
        let (sessions, mut listener) = open(options());
        let peer = listener.accept().await;
        sessions.client().await.expect("a session");
        let changes = sessions.changes();
        (sessions, changes, peer)
    });
    drop(first);
    runtime().expect("a runtime").block_on(async {
        let all = async { while changes.next().await.is_some() {} };
        timeout(TIMEOUT, all).await.expect("they end");
        assert_eq!(sessions.state().state, SessionsState::Ended);
        assert!(matches!(sessions.client().await, Err(Error::Closed(_))));
    });
}
