//! Identities that a server refuses.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use zoolet_client::{Client, Error, ErrorCode, SessionState};
use zoolet_proto::{Reply, Request, records};

use crate::common::{connected, connected_with, listener};

fn auth(credentials: &'static str) -> Request {
    let scheme = Some("digest".into());
    Request::Auth(records::AuthPacket { kind: 0, scheme, auth: Some(credentials.into()) })
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_fail_what_comes_after_them() {
    let (zk, mut peer, _listener) = connected().await;
    let auth = zk.add_auth("digest", "u:secret").send();
    let (xid, request) = peer.next().await.expect("a request");
    assert!(!format!("{request:?} {zk:?}").contains("secret"));
    peer.error(xid, ErrorCode::AuthFailed).await;
    assert!(matches!(auth.await, Err(Error::AuthFailed(_))));
    assert_eq!(zk.state(), SessionState::AuthFailed);
    assert!(matches!(zk.get_data("/a").await, Err(Error::AuthFailed(_))));
}

/// What connecting with two identities gives, if the server refuses the second; it answers after `delay`.
async fn connect_with_a_refused_identity(delay: Duration, lose_the_first: bool) -> Result<Client, Error> {
    let (connect, mut listener) = listener();
    let options = Client::options().auth("digest", "first:1").auth("digest", "secret:2");
    let serve = async {
        if lose_the_first {
            let mut lost = listener.accept().await;
            lost.next().await.expect("an identity");
        }
        let mut peer = listener.accept().await;
        let first = peer.expect(auth("first:1")).await;
        let second = peer.expect(auth("secret:2")).await;
        tokio::time::sleep(delay).await;
        peer.reply(first, Reply::Empty).await;
        tokio::time::sleep(delay).await;
        peer.error(second, ErrorCode::AuthFailed).await;
    };
    tokio::join!(options.connect(connect), serve).0
}

#[tokio::test(start_paused = true)]
async fn a_refused_identity_is_always_an_error_of_connect() {
    for delay in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(1)] {
        for lose_the_first in [false, true] {
            let error = connect_with_a_refused_identity(delay, lose_the_first).await.expect_err("refused");
            assert!(matches!(error, Error::AuthFailed(_)), "{delay:?}: {error:?}");
            assert_eq!(
                error.to_string(),
                "connect: authentication failed; the server refused the identity of scheme \"digest\""
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_identity_is_the_error_whatever_failed_before() {
    let (connect, mut listener) = listener();
    let dials = AtomicUsize::new(0);
    let connect = move || {
        let dialing = (dials.fetch_add(1, Relaxed) != 1).then(&connect);
        async move { dialing.ok_or(io::ErrorKind::Unsupported)?.await }
    };
    let server = async {
        let mut peer = listener.accept().await;
        peer.next().await.expect("the identity");
        drop(peer);
        let mut peer = listener.accept().await;
        let (xid, _) = peer.next().await.expect("the identity");
        peer.error(xid, ErrorCode::AuthFailed).await;
    };
    let (refused, ()) = tokio::join!(Client::options().auth("digest", "u:p").connect(connect), server);
    assert!(matches!(refused, Err(Error::AuthFailed(_))));
}

#[tokio::test(start_paused = true)]
async fn limits_leave_room_for_what_every_session_sends_and_reads() {
    let (zk, mut peer, _listener) = connected_with(Client::options().max_request(0).max_reply(0)).await;
    tokio::join!(async { zk.close().await.expect("closed") }, peer.expect_close());
}
