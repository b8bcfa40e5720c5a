//! What a client sends depends only on its seed, its calls, the replies and the clock.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{AddWatchMode, Client, Clock, ErrorCode, Stat, WatchUpdate};
use zoolet_proto::{Reply, Request};

use crate::common::{Peer, TIMEOUT, advance_to_next, at_once, connected_with, listener, until};

/// The number of watches of each kind, with a task each: enough that no two orders are the same by chance.
const MANY: usize = 12;

/// What is observed in one run.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// Every frame on every connection.
    frames: Vec<Bytes>,
    /// When each connection was attempted.
    attempts: Vec<Duration>,
    /// The order in which tasks learned that the session is over.
    ended: Vec<String>,
}

type Log<T> = Arc<Mutex<Vec<T>>>;

fn take<T>(log: &Log<T>) -> Vec<T> {
    std::mem::take(&mut *log.lock().expect("no panic"))
}

/// Answers `requests` frames and records them.
async fn serve(peer: &mut Peer, requests: usize, frames: &mut Vec<Bytes>) {
    for _ in 0..requests {
        let frame = peer.frame().await.expect("a request");
        let incoming = zoolet_proto::Incoming::parse(&frame).expect("a header");
        frames.push(frame);
        let xid = incoming.xid.0;
        match incoming.body.expect("a request") {
            Request::GetData(_) => peer.reply(xid, Reply::Data(None, Stat::default())).await,
            Request::GetChildren2(_) => {
                peer.reply(xid, Reply::Children2([].into_iter().collect(), Stat::default())).await;
            }
            Request::Exists(_) => peer.error(xid, ErrorCode::NoNode).await,
            Request::SetData(_) => peer.reply(xid, Reply::Stat(Stat::default())).await,
            Request::AddWatch(_) => peer.reply(xid, Reply::WatchAdded).await,
            _ => peer.reply(xid, Reply::Empty).await,
        }
    }
}

/// Sets watches of every kind, each with a task that sends a request when the watch reports a gap, and logs its end.
/// Returns the number of watches that are set.
fn watch_many(zk: &Client, ended: &Log<String>) -> Arc<AtomicUsize> {
    let set = Arc::<AtomicUsize>::default();
    for n in 0..MANY {
        let data = zk.get_data(format!("/data-{n}")).watch().send();
        let exist = zk.exists(format!("/exist-{n}")).watch().send();
        let child = zk.get_children(format!("/child-{n}")).watch().send();
        let plain = zk.add_watch(format!("/plain-{n}"), AddWatchMode::Persistent).send();
        let deep = zk.add_watch(format!("/deep-{n}"), AddWatchMode::PersistentRecursive).send();
        let (ended, zk, stands) = (Arc::clone(ended), zk.clone(), Arc::clone(&set));
        let note = move |who: String| ended.lock().expect("no panic").push(who);
        let (ending, all_stand) = (note.clone(), Arc::clone(&stands));
        tokio::spawn(async move {
            let (data, exist, child) = (data.await?.2, exist.await?.1, child.await?.2);
            stands.fetch_add(3, SeqCst);
            for (kind, watch) in [("data", data), ("exist", exist), ("child", child)] {
                let note = note.clone();
                tokio::spawn(async move {
                    watch.changed().await.expect_err("nothing changes");
                    note(format!("{kind}-{n}"));
                });
            }
            Ok::<_, zoolet_client::Error>(())
        });
        for (kind, stream) in [("plain", plain), ("deep", deep)] {
            let (zk, note, stands) = (zk.clone(), ending.clone(), Arc::clone(&all_stand));
            tokio::spawn(async move {
                let mut stream = stream.await?;
                stands.fetch_add(1, SeqCst);
                while let Some(update) = next(&mut stream).await {
                    match update {
                        WatchUpdate::Missed => drop(zk.get_data(format!("/missed/{kind}-{n}")).send()),
                        _ => note(format!("{kind}-{n}")),
                    }
                }
                Ok::<_, zoolet_client::Error>(())
            });
        }
        let note = ending;
        tokio::spawn(async move {
            zk.ended().await;
            note(format!("session-{n}"));
        });
    }
    set
}

async fn next(stream: &mut (impl Stream<Item = WatchUpdate> + Unpin)) -> Option<WatchUpdate> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx)).await
}

/// A session that draws names, loses its connection twice, and is closed.
async fn run(seed: u64) -> Record {
    let clock = Clock::manual();
    let attempts = Log::default();
    let (mut frames, ended) = (Vec::new(), Log::default());
    let (connect, mut listener) = listener();
    let connect = {
        let (clock, start, attempts) = (clock.clone(), clock.now(), Arc::clone(&attempts));
        move || {
            let mut attempts = attempts.lock().expect("no panic");
            attempts.push(clock.now() - start);
            // Attempts that fail precede every connection except the first.
            if attempts.len() % 5 == 1 {
                connect()
            } else {
                std::future::ready(Err(io::Error::other("not yet")))
            }
        }
    };
    let options = Client::options().clock(clock.clone()).seed(seed);
    let (zk, mut peer) = tokio::join!(options.connect(connect), listener.accept());
    let zk = zk.expect("a session");
    for _ in 0..3 {
        drop(zk.set_data(format!("/{:032x}", zk.random_u128()), "").send());
    }
    let set = watch_many(&zk, &ended);
    serve(&mut peer, 3 + 5 * MANY, &mut frames).await;
    until(|| set.load(SeqCst) == 5 * MANY).await;
    for _ in 0..2 {
        drop(peer);
        peer = loop {
            match at_once(listener.connection()).await {
                Some(peer) => break peer,
                None => advance_to_next(&clock).await.expect("a client that tries again"),
            };
        };
        peer.grant_session().await;
        // The watches, and the requests of the tasks that missed something.
        serve(&mut peer, 2 + 2 * MANY, &mut frames).await;
    }
    let close = zk.close();
    serve(&mut peer, 1, &mut frames).await;
    close.await.expect("closed");
    until(|| ended.lock().expect("no panic").len() == 6 * MANY).await;
    Record { frames, attempts: take(&attempts), ended: take(&ended) }
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_seed_are_the_same_to_the_byte() {
    let first = run(1).await;
    assert_eq!(first.attempts.len(), 11);
    assert!(first.frames.len() > 7 * MANY);
    for _ in 0..3 {
        assert_eq!(run(1).await, first);
    }
}

#[tokio::test(start_paused = true)]
async fn another_seed_generates_other_numbers_and_pauses() {
    let (one, two) = (run(1).await, run(2).await);
    assert_ne!(one.frames[..3], two.frames[..3]);
    assert_ne!(one.attempts, two.attempts);
    assert_eq!(one.ended, two.ended);
}

#[tokio::test(start_paused = true)]
async fn clients_without_a_seed_generate_different_numbers() {
    let (one, _peer, _listener) = connected_with(Client::options()).await;
    let (two, _peer, _listener) = connected_with(Client::options()).await;
    let drawn = [one.random_u128(), one.random_u128(), two.random_u128(), two.random_u128()];
    let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
    assert_eq!(distinct.len(), drawn.len(), "{drawn:x?}");
    assert!(one.clock().now() <= tokio::time::Instant::now() + TIMEOUT);
}
