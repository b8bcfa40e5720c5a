//! A session of an earlier process, resumed by its id and password.

use std::time::Duration;

use zoolet_client::{Client, ConnectOptions, Error, SessionId, SessionState};
use zoolet_proto::Request;

use crate::common::{SESSION, TIMEOUT, connected, connected_with, listener, until};

const PASSWORD: &[u8] = b"sixteen bytes...";

fn resuming() -> ConnectOptions {
    Client::options().resume(SESSION, PASSWORD)
}

#[tokio::test(start_paused = true)]
async fn the_first_connect_request_has_the_id_and_the_password() {
    let (before, _peer, _listener) = connected().await;
    let stored = (before.session_id(), before.session_password().as_bytes().to_vec());
    let (connect, mut listener) = listener();
    let connecting = Client::options().resume(stored.0, stored.1).connect(connect);
    let server = async {
        let mut peer = listener.connection().await;
        (peer.grant_session().await, peer)
    };
    let (zk, (request, _peer)) = tokio::join!(connecting, server);
    assert_eq!((request.session, request.password.as_deref()), (SESSION, Some(PASSWORD)));
    let zk = zk.expect("the session");
    assert_eq!((zk.session_id(), zk.state()), (SESSION, SessionState::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_server_does_not_know_is_an_error_and_no_other_is_opened() {
    let (connect, mut listener) = listener();
    let server = async {
        listener.connection().await.refuse().await;
        assert!(listener.next_connection().await.is_none(), "it asked again");
    };
    let (refused, ()) = tokio::join!(resuming().connect(connect), server);
    let error = refused.expect_err("expired");
    assert!(matches!(error, Error::SessionExpired(_)), "{error}");
    let text = "connect: session expired; no server knows session 0x77 with this password any more";
    assert_eq!(error.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn another_session_than_the_one_asked_for_is_not_accepted() {
    let (connect, mut listener) = listener();
    let server = async {
        let mut peer = listener.connection().await;
        peer.grant_session_as(SessionId(0x78), TIMEOUT).await;
        peer.next().await
    };
    let (refused, next) = tokio::join!(resuming().connect(connect), server);
    assert!(matches!(refused, Err(Error::SessionExpired(_))));
    assert_eq!(next, None);
}

/// A second attempt must find the session.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_does_not_close_the_session() {
    for expire_locally in [false, true] {
        let (connect, mut listener) = listener();
        let options = resuming().connect_timeout(Duration::from_secs(60)).expire_locally(expire_locally);
        let refused = options.connect(connect).await.expect_err("nobody answers");
        assert!(matches!(refused, Error::Unreachable { .. }), "{refused}");
        // The attempts so far, of which none has closed anything, and no other.
        while let Some(mut peer) = listener.next_connection().await {
            assert!(peer.frame().await.is_none_or(|frame| frame.len() > 40), "a connect request");
            assert_eq!(peer.frame().await, None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_does_not_close_the_session_that_it_is_granted_later() {
    let (connect, mut listener) = listener();
    let connecting = tokio::spawn(resuming().connect(connect));
    let mut peer = listener.connection().await;
    connecting.abort();
    until(|| connecting.is_finished()).await;
    peer.grant_session().await;
    assert_eq!(peer.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_before_its_identity_is_accepted_does_not_close_the_session() {
    let (connect, mut listener) = listener();
    let options = resuming().auth("digest", "u:p").connect_timeout(Duration::from_secs(2));
    let server = async {
        let mut peer = listener.accept().await;
        assert!(matches!(peer.next().await, Some((_, Request::Auth(_)))));
        assert_eq!(peer.next().await, None);
    };
    let (refused, ()) = tokio::join!(options.connect(connect), server);
    assert!(matches!(refused, Err(Error::Unreachable { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_is_closed_like_any_other() {
    let (zk, mut peer, _listener) = connected_with(resuming()).await;
    let closing = zk.close();
    let xid = peer.expect(Request::CloseSession).await;
    peer.reply(xid, zoolet_proto::Reply::Empty).await;
    closing.await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn zero_is_refused_because_it_would_open_a_new_session() {
    let (connect, _listener) = listener();
    let refused = Client::options().resume(SessionId(0), PASSWORD).connect(connect).await;
    assert_eq!(refused.expect_err("0").to_string(), "connect: resume: 0 is not the id of a session");
}

#[tokio::test(start_paused = true)]
async fn the_password_is_not_in_debug_output() {
    let (zk, _peer, _listener) = connected_with(resuming()).await;
    // As text, and as a list of numbers: the first alone may stand in a time.
    for shown in [format!("{:?}", resuming()), format!("{zk:?}"), format!("{:?}", zk.session_password())] {
        assert!(!shown.contains("sixteen") && !shown.contains("115, 105"), "{shown}");
    }
}
