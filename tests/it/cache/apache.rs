//! The same promise at an Apache ZooKeeper, with and without a recursive watch: every snapshot is one cut, whatever happens to
//! the connection.

#![allow(clippy::print_stdout, reason = "the number of snapshots is what this is run for")]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;
use zoolet::recipes::Snapshot;
use zoolet::{Cache, Client, Error, Sessions};
use zoolet_test_support::Dice;

/// How many snapshots are compared by default.
const SNAPSHOTS: usize = 10_000;
const ROOT: &str = "/cut";

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run caches"]
async fn every_snapshot_of_a_cache_of_an_apache_zookeeper_is_one_cut() {
    let address = std::env::var("ZOOLET_UPSTREAM_CACHE").expect("ZOOLET_UPSTREAM_CACHE names a server");
    let address: SocketAddr = address.parse().expect("an address");
    let wanted = std::env::var("ZOOLET_SNAPSHOTS").map_or(SNAPSHOTS, |text| text.parse().expect("a number"));
    let seed = std::env::var("ZOOLET_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    let zk = Client::connect(address.to_string()).await.unwrap();
    plant(&zk).await.unwrap();
    let done = Arc::<AtomicBool>::default();
    let writers: Vec<_> = (0..3)
        .map(|kind| {
            let (done, dice) = (Arc::clone(&done), dice.fork());
            tokio::spawn(write(address.to_string(), kind, dice, done))
        })
        .collect();
    let cuts = Arc::<Notify>::default();
    let mut checked = 0;
    let mut repairs = 0;
    while checked < wanted {
        // A new walk under load, then repairs.
        let connector = cut_connector(address, Arc::clone(&cuts));
        let sessions = Sessions::open(Client::options(), connector).unwrap();
        let cache = Cache::builder(&sessions, ROOT).open().await.unwrap();
        let mut changes = cache.changes();
        for _ in 0..10 {
            let until = sleep(Duration::from_millis(20 + dice.below(300) as u64));
            tokio::pin!(until);
            loop {
                tokio::select! {
                    change = changes.next() => drop(change.expect("it goes on")),
                    () = &mut until => break,
                }
                check(changes.snapshot());
                checked += 1;
            }
            cuts.notify_waiters();
            repairs += 1;
        }
        let fresh = cache.fresh().await.unwrap();
        check(&fresh);
        sessions.close().await;
    }
    done.store(true, SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    println!("{checked} snapshots, {repairs} connections cut, none wrong");
}

/// A token in one of ten places, an amount in two halves, and a directory of three that is there as a whole or not at all.
async fn plant(zk: &Client) -> Result<(), Error> {
    zk.create(ROOT, "").await?;
    for place in 0..10 {
        zk.create(format!("{ROOT}/{place}"), if place == 0 { "token" } else { "" }).await?;
    }
    zk.create(format!("{ROOT}/left"), "50").await?;
    zk.create(format!("{ROOT}/right"), "50").await?;
    Ok(())
}

async fn write(address: String, kind: usize, mut dice: Dice, done: Arc<AtomicBool>) {
    let zk = Client::connect(address).await.unwrap();
    let (mut at, mut there) = (0, false);
    while !done.load(SeqCst) {
        match kind {
            0 => {
                let next = (at + 1 + dice.below(9)) % 10;
                let (from, to) = (format!("{ROOT}/{at}"), format!("{ROOT}/{next}"));
                let moves = zk.multi().set_data(&from, "");
                let moves = match dice.chance(30) {
                    true => moves.delete(&to).create(&to, "token"),
                    false => moves.set_data(&to, "token"),
                };
                moves.await.unwrap();
                at = next;
            }
            1 => {
                let left = dice.below(101) as i64;
                let (one, other) = (left.to_string(), (100 - left).to_string());
                zk.multi()
                    .set_data(format!("{ROOT}/left"), one)
                    .set_data(format!("{ROOT}/right"), other)
                    .await
                    .unwrap();
            }
            _ => {
                let dir = format!("{ROOT}/dir");
                let multi = zk.multi();
                let multi = match there {
                    false => {
                        multi.create(&dir, "").create(format!("{dir}/a"), "").create(format!("{dir}/b"), "")
                    }
                    true => multi.delete(format!("{dir}/a")).delete(format!("{dir}/b")).delete(&dir),
                };
                multi.await.unwrap();
                there = !there;
            }
        }
        sleep(Duration::from_millis(dice.below(4) as u64)).await;
    }
}

fn check<T: AsRef<[u8]>>(snapshot: &Snapshot<T>) {
    let value = |path: &str| {
        let entry = snapshot.get(&format!("{ROOT}/{path}")).expect(path);
        String::from_utf8_lossy(entry.value().expect("bytes").as_ref()).into_owned()
    };
    let tokens = (0..10).filter(|place| value(&place.to_string()) == "token").count();
    assert_eq!(tokens, 1, "as of {}", snapshot.as_of());
    let amount = |path: &str| value(path).parse::<i64>().expect("a number");
    assert_eq!(amount("left") + amount("right"), 100, "as of {}", snapshot.as_of());
    let dir =
        ["dir", "dir/a", "dir/b"].iter().filter(|path| snapshot.contains(&format!("{ROOT}/{path}"))).count();
    assert!(dir == 0 || dir == 3, "{dir} of 3, as of {}", snapshot.as_of());
}

/// Connects through a stream that is cut when it is notified.
fn cut_connector(
    address: SocketAddr,
    cuts: Arc<Notify>,
) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> + Send + 'static {
    move || {
        let cuts = Arc::clone(&cuts);
        Box::pin(async move {
            let mut server = TcpStream::connect(address).await?;
            server.set_nodelay(true)?;
            let (ours, mut theirs) = duplex(1 << 16);
            tokio::spawn(async move {
                tokio::select! {
                    _ = copy_bidirectional(&mut theirs, &mut server) => {}
                    () = cuts.notified() => {}
                }
            });
            Ok(ours)
        })
    }
}
