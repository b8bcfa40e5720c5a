//! Dropping any future at any poll leaves nothing on the server.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zoolet_client::{AddWatchMode, Client, Error, SessionState, WatchUpdate};

use crate::common::listener;
use crate::common::model::{Held, serve};

/// Polls `future` at most `polls` times, and lets everything else run in between. Returns whether it completed.
async fn poll_at_most<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    for poll in 0..polls {
        let ready = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if ready {
            return true;
        }
        // First without advancing time, then with it.
        match poll {
            0..20 => tokio::task::yield_now().await,
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    false
}

async fn settled(held: &Arc<Mutex<Held>>) -> Held {
    // In virtual time, every task is idle by then.
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.lock().expect("no panic").clone()
}

/// Drops the future of `make` after 0, 1, 2, … polls, until it completes.
async fn drop_at_every_poll<F: Future>(make: impl Fn(Client) -> F) {
    let (connect, listener) = listener();
    let held = serve(listener);
    let zk = Client::connect(connect).await.expect("a session");
    for polls in 0.. {
        let ended = poll_at_most(make(zk.clone()), polls).await;
        let held = settled(&held).await;
        assert!(held.watches.is_empty(), "after {polls} polls: {held:?}");
        assert_eq!(held.sessions, 1);
        if ended {
            assert!(polls > 1, "the test drops a future in progress");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_get_data_with_watch_leaves_no_watch() {
    drop_at_every_poll(|zk| async move { zk.get_data("/a").watch().await.map(drop) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_exists_with_watch_leaves_no_watch() {
    drop_at_every_poll(|zk| async move { zk.exists("/a").watch().await.map(drop) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_get_children_with_watch_leaves_no_watch() {
    drop_at_every_poll(|zk| async move { zk.get_children("/a").watch().await.map(drop) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_add_watch_leaves_no_watch() {
    for mode in [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive] {
        drop_at_every_poll(|zk| async move { zk.add_watch("/a", mode).await.map(drop) }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_a_change_leaves_no_watch() {
    drop_at_every_poll(|zk| async move {
        let (_, _, watch) = zk.get_data("/a").watch().await.expect("a watch");
        let patience = Duration::from_millis(5);
        tokio::time::timeout(patience, watch.changed()).await.expect_err("nothing changes").to_string()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_the_next_event_leaves_no_watch() {
    drop_at_every_poll(|zk| async move {
        let mut stream = zk.add_watch("/a", AddWatchMode::Persistent).await.expect("a watch");
        let patience = Duration::from_millis(5);
        tokio::time::timeout(patience, stream.next()).await.expect_err("nothing changes").to_string()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_times_out_leaves_no_watch() {
    drop_at_every_poll(|zk| async move {
        zk.get_data("/a")
            .watch()
            .timeout(Duration::ZERO)
            .await
            .expect_err("no time is too little")
            .to_string()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connect_leaves_no_session() {
    let (connect, listener) = listener();
    let held = serve(listener);
    let connect = Arc::new(connect);
    for polls in 0.. {
        let connect = Arc::clone(&connect);
        let ended = poll_at_most(Client::connect(move || connect()), polls).await;
        assert_eq!(settled(&held).await.sessions, 0, "after {polls} polls");
        if ended {
            assert!(polls > 1, "the test drops a future in progress");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_does_not_cancel_its_request() {
    let (connect, listener) = listener();
    let held = serve(listener);
    let zk = Client::connect(connect).await.expect("a session");
    drop(zk.set_data("/a", "x").send());
    drop(zk.delete("/a").send());
    assert_eq!(settled(&held).await.requests, 2);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_the_session_and_watches_do_not_keep_it() {
    let (connect, listener) = listener();
    let held = serve(listener);
    let zk = Client::connect(connect).await.expect("a session");
    let (_, _, watch) = zk.get_data("/a").watch().await.expect("a watch");
    let clone = zk.clone();
    drop(zk);
    assert_eq!(settled(&held).await.sessions, 1);
    let write = clone.set_data("/a", "x").send();
    drop(clone);
    write.await.expect("what was sent before the close is answered");
    assert_eq!(settled(&held).await.sessions, 0);
    assert!(watch.changed().await.expect_err("the session is over").is_session_over());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

/// What `future` gives; in virtual time, so that one that never ends fails at once.
fn outcome<F: Future>(future: F) -> F::Output {
    let patience = Duration::from_secs(3600);
    runtime().block_on(async { tokio::time::timeout(patience, future).await.expect("an end") })
}

#[test]
fn handles_survive_their_runtime() {
    let runtime = runtime();
    let (zk, watch, reply) = runtime.block_on(async {
        let (connect, listener) = listener();
        serve(listener);
        let zk = Client::connect(connect).await.expect("a session");
        let (_, _, watch) = zk.get_data("/a").watch().await.expect("a watch");
        let reply = zk.get_data("/b").send();
        (zk, watch, reply)
    });
    drop(runtime);
    drop(watch);
    let late = zk.get_data("/c").send();
    assert!(outcome(reply).expect_err("the runtime is gone").is_session_over());
    assert!(outcome(late).expect_err("the runtime is gone").is_session_over());
    assert!(outcome(zk.close()).is_ok());
}

#[test]
fn streams_and_watches_end_when_the_runtime_of_their_session_is_dropped() {
    let runtime = runtime();
    let (zk, watch, mut stream, mut states) = runtime.block_on(async {
        let (connect, listener) = listener();
        serve(listener);
        let zk = Client::connect(connect).await.expect("a session");
        let (_, _, watch) = zk.get_data("/a").watch().await.expect("a watch");
        let stream = zk.add_watch("/a", AddWatchMode::Persistent).await.expect("a watch");
        let states = zk.states();
        (zk, watch, stream, states)
    });
    drop(runtime);
    assert_eq!(zk.state(), SessionState::Closed);
    assert_eq!(outcome(zk.ended()), SessionState::Closed);
    assert!(matches!(outcome(watch.changed()), Err(Error::Closed(_))));
    assert!(matches!(outcome(stream.next()), Some(WatchUpdate::Ended(Error::Closed(_)))));
    assert!(outcome(stream.next()).is_none());
    let seen = outcome(async { [states.next().await, states.next().await, states.next().await] });
    assert_eq!(seen, [Some(SessionState::Connected), Some(SessionState::Closed), None]);
}

#[test]
fn of_the_calls_whose_runtime_is_dropped_the_writes_that_were_sent_may_have_applied() {
    let runtime = runtime();
    let (write, read, close, unsent) = runtime.block_on(async {
        let (connect, mut listener) = listener();
        let (zk, mut peer) = tokio::join!(Client::connect(connect), listener.accept());
        let zk = zk.expect("a session");
        let (write, read) = (zk.set_data("/a", "x").send(), zk.get_data("/b").send());
        peer.next().await.expect("a request");
        let close = zk.close();
        peer.next().await.expect("a request");
        peer.next().await.expect("a request");
        (write, read, close, zk.set_data("/c", "x").send())
    });
    drop(runtime);
    let error = outcome(write).expect_err("the runtime is gone");
    assert!(error.is_session_over() && error.may_have_applied(), "{error:?}");
    assert_eq!(error.to_string(), "setData /a: the client is closed");
    assert!(!outcome(read).expect_err("the runtime is gone").may_have_applied());
    assert!(!outcome(unsent).expect_err("the runtime is gone").may_have_applied());
    assert!(matches!(outcome(close), Err(Error::ConnectionLoss(_))), "no server has confirmed it");
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_ends_the_session_for_everybody() {
    let (connect, mut listener) = listener();
    let connected = AtomicBool::new(false);
    let connect = move || {
        assert!(!connected.swap(true, SeqCst), "a closure that panics");
        connect()
    };
    let (zk, peer) = tokio::join!(Client::connect(connect), listener.accept());
    let zk = zk.expect("a session");
    drop(peer);
    let waiting = zk.get_data("/a").send();
    let patience = Duration::from_secs(3600);
    assert_eq!(tokio::time::timeout(patience, zk.ended()).await, Ok(SessionState::Closed));
    let error = waiting.await.expect_err("the runtime is gone");
    let text = "getData /a: the client is closed; the stream, or the closure that connects, has panicked, or the \
                clock of a test that stalled";
    assert_eq!(error.to_string(), text);
}
