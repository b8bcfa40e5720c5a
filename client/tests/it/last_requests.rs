//! What a client writes when its runtime is dropped, frame by frame. The server that the test plays has a runtime of its own.

use tokio::runtime::{Builder, Runtime};
use zoolet_client::{Client, Clock, SessionState};
use zoolet_proto::Request;
use zoolet_proto::records::Delete;

use crate::common::{Listener, Peer, connected_with, listener};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs `test` on each kind of runtime.
fn on_each_runtime(test: impl Fn(Runtime)) {
    test(current_thread());
    test(Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime"));
}

/// A client that the runtime drives, with a clock that stands still, and its server.
fn client_of(runtime: &Runtime) -> (Client, Peer, Listener) {
    runtime.block_on(connected_with(Client::options().clock(Clock::manual())))
}

fn delete(path: &str) -> Request {
    Request::Delete(Delete { path: path.into(), version: -1 })
}

/// All requests until the end of the connection.
fn rest_of(mut peer: Peer) -> Vec<Request> {
    current_thread().block_on(async {
        let mut requests = Vec::new();
        while let Some((_, request)) = peer.next().await {
            requests.push(request);
        }
        requests
    })
}

#[test]
fn what_was_submitted_before_the_runtime_is_dropped_is_written_and_then_one_close() {
    on_each_runtime(|runtime| {
        let (zk, peer, _listener) = client_of(&runtime);
        let app = zk.chroot("/app").expect("a path");
        runtime.block_on(async {
            drop(zk.delete("/a").send());
            drop(app.delete("/b").send());
        });
        drop(runtime);
        assert_eq!(rest_of(peer), [delete("/a"), delete("/app/b"), Request::CloseSession]);
        assert_eq!(zk.state(), SessionState::Closed);
    });
}

#[test]
fn a_client_that_is_dropped_just_before_its_runtime_closes_its_session_once() {
    on_each_runtime(|runtime| {
        let (zk, peer, _listener) = client_of(&runtime);
        runtime.block_on(async {
            drop(zk.delete("/a").send());
            drop(zk);
        });
        drop(runtime);
        assert_eq!(rest_of(peer), [delete("/a"), Request::CloseSession]);
    });
}

#[test]
fn a_close_that_was_called_is_not_sent_again_and_nothing_follows_it() {
    on_each_runtime(|runtime| {
        let (zk, peer, _listener) = client_of(&runtime);
        runtime.block_on(async {
            drop(zk.close());
            drop(zk.delete("/late").send());
        });
        drop(runtime);
        assert_eq!(rest_of(peer), [Request::CloseSession]);
    });
}

#[test]
fn without_a_session_on_the_connection_nothing_is_written() {
    let runtime = current_thread();
    let (zk, peer, mut listener) = client_of(&runtime);
    drop(peer);
    let (peer, sent) = runtime.block_on(async {
        let peer = listener.connection().await;
        (peer, zk.delete("/a").send())
    });
    drop(runtime);
    let left = current_thread().block_on(async {
        let mut peer = peer;
        // At most the connect request, and no request after it.
        while let Some(frame) = peer.frame().await {
            assert!(frame.len() > 40, "{frame:?}");
        }
        sent.await.expect_err("the runtime is gone")
    });
    assert!(!left.may_have_applied(), "{left}");
}

/// As those that wait for a reply when a client closes; no other end of a session would know their outcome either.
#[test]
fn a_write_that_was_submitted_last_may_have_applied() {
    let runtime = current_thread();
    let (zk, _peer, _listener) = client_of(&runtime);
    let write = zk.set_data("/a", "x").send();
    drop(runtime);
    let error = current_thread().block_on(write).expect_err("the runtime is gone");
    assert!(error.may_have_applied() && error.is_session_over(), "{error}");
}

#[test]
fn later_calls_are_told_that_the_runtime_is_gone() {
    let runtime = current_thread();
    let (zk, _peer, _listener) = client_of(&runtime);
    drop(runtime);
    let error = current_thread().block_on(zk.sync("/").into_future()).expect_err("the runtime is gone");
    let text = "sync /: the client is closed; the tokio runtime that drove it was shut down";
    assert_eq!(error.to_string(), text);
}

/// It takes a few bytes and then no more.
#[test]
fn a_stream_that_is_full_does_not_delay_the_end() {
    zoolet_test_support::limit();
    let runtime = current_thread();
    let (ours, theirs) = tokio::io::duplex(64);
    let ours = std::sync::Mutex::new(Some(ours));
    let connect = move || std::future::ready(Ok(ours.lock().expect("no panic").take().expect("one")));
    let (zk, _peer) = runtime.block_on(async {
        let mut peer = Peer::over(theirs);
        let options = Client::options().clock(Clock::manual());
        let (zk, _) = tokio::join!(options.connect(connect), peer.grant_session());
        (zk.expect("a session"), peer)
    });
    runtime.block_on(async { drop(zk.set_data("/a", vec![0; 10_000]).send()) });
    drop(runtime);
    assert_eq!(zk.state(), SessionState::Closed);
}

/// In a simulation a runtime is dropped to crash its host.
#[test]
fn a_runtime_whose_time_is_paused_is_dropped_without_a_word() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let (connect, mut listener) = listener();
    let (zk, peer) = runtime.block_on(async { tokio::join!(Client::connect(connect), listener.accept()) });
    runtime.block_on(async { drop(zk.as_ref().expect("a session").delete("/a").send()) });
    drop(runtime);
    assert_eq!(rest_of(peer), []);
}
