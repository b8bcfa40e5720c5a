//! Whatever future is dropped, at whatever poll: nothing stays behind on the server.

mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use common::door;
use common::model::{Held, serve};
use zoolet_client::{AddWatchMode, Client};

/// Polls `future` at most `polls` times, letting everything else run in between; whether it came to its end.
async fn poll_at_most<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    for poll in 0..polls {
        let ready = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if ready {
            return true;
        }
        // First in the smallest steps there are, then with time going by.
        match poll {
            0..20 => tokio::task::yield_now().await,
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    false
}

async fn settled(held: &Arc<Mutex<Held>>) -> Held {
    // In virtual time this is when nobody has anything left to do.
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.lock().expect("no panic").clone()
}

/// Drops what `make` gives after 0, 1, 2, … polls until it comes to its end by itself.
async fn drop_at_every_poll<F: Future>(make: impl Fn(Client) -> F) {
    let (connect, door) = door();
    let held = serve(door);
    let zk = Client::connect(connect).await.expect("a session");
    for polls in 0.. {
        let ended = poll_at_most(make(zk.clone()), polls).await;
        let held = settled(&held).await;
        assert!(held.watches.is_empty(), "after {polls} polls: {held:?}");
        assert_eq!(held.sessions, 1);
        if ended {
            assert!(polls > 1, "the test drops something on its way");
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
    let (connect, door) = door();
    let held = serve(door);
    let connect = Arc::new(connect);
    for polls in 0.. {
        let connect = Arc::clone(&connect);
        let ended = poll_at_most(Client::connect(move || connect()), polls).await;
        assert_eq!(settled(&held).await.sessions, 0, "after {polls} polls");
        if ended {
            assert!(polls > 1, "the test drops something on its way");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_does_not_recall_its_request() {
    let (connect, door) = door();
    let held = serve(door);
    let zk = Client::connect(connect).await.expect("a session");
    drop(zk.set_data("/a", "x").send());
    drop(zk.delete("/a").send());
    assert_eq!(settled(&held).await.requests, 2);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_closes_the_session_and_watches_do_not_hold_it() {
    let (connect, door) = door();
    let held = serve(door);
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

#[test]
fn handles_outlive_their_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (zk, watch, reply) = runtime.block_on(async {
        let (connect, door) = door();
        serve(door);
        let zk = Client::connect(connect).await.expect("a session");
        let (_, _, watch) = zk.get_data("/a").watch().await.expect("a watch");
        let reply = zk.get_data("/b").send();
        (zk, watch, reply)
    });
    drop(runtime);
    drop(watch);
    let late = zk.get_data("/c").send();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert!(runtime.block_on(reply).expect_err("nobody answers").is_session_over());
    assert!(runtime.block_on(late).expect_err("nobody listens").is_session_over());
    assert!(runtime.block_on(zk.close()).is_ok());
}
