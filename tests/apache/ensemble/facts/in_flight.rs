//! A create that is in flight while its session moves to another member: whether a client that looks for it there finds it.

use std::time::Duration;

use rand::RngExt;
use tokio::task::yield_now;
use tokio::time::Instant;
use zoolet::{Client, Lock};
use zoolet_test_support::{Hello, create, get_children, sync};

use super::{STABLE, dial, open};

use crate::ensemble::begin;
use crate::ensemble::line::Line;
use crate::ensemble::members::{Ensemble, MEMBERS};

/// How often it is tried from each member to each.
const TRIES: usize = 100;
/// How long after the create its session moves, at most.
const LATE: Duration = Duration::from_micros(1500);

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn a_create_in_flight_may_be_missing_from_a_listing_elsewhere_but_not_after_a_sync() {
    let mut rng = begin();
    let ensemble = Ensemble::start_with("in-flight", &mut rng, STABLE, &[]).await;
    let leader = ensemble.wait_until_served().await;
    open(&ensemble, leader, Hello::new()).await.ask(create("/queue")).await;
    let (one, other) = ((leader + 1) % MEMBERS, (leader + 2) % MEMBERS);
    for (from, to) in [(one, other), (leader, one), (one, leader)] {
        let (mut seen, mut missed, mut refused) = (0, 0, 0);
        for number in 0..TRIES {
            let path = format!("/queue/{from}-{to}-{number}");
            let mut old = open(&ensemble, from, Hello::new()).await;
            let mut new = dial(&ensemble, to).await;
            old.send(create(&path)).await;
            pause(rng.random_range(Duration::ZERO..LATE)).await;
            assert!(!new.hello(Hello::again(&old.welcome)).await.is_refusal());
            let has = |names: Vec<String>| names.iter().any(|name| path.ends_with(&format!("/{name}")));
            let first = has(new.ask(get_children("/queue")).await.names());
            new.ask(sync("/queue")).await;
            let second = has(new.ask(get_children("/queue")).await.names());
            // A write is ordered after all that the leader has received of this session, so nothing can follow it.
            new.ask(create(&format!("{path}-again"))).await;
            let last = has(new.ask(get_children("/queue")).await.names());
            assert_eq!(second, last, "{path} came after a sync");
            match (first, last) {
                (true, _) => seen += 1,
                (false, true) => missed += 1,
                (false, false) => refused += 1,
            }
        }
        let way = |member| if member == leader { "leader" } else { "follower" };
        println!(
            "from {} to {}: {seen} creates in the first listing, {missed} only in a later one, {refused} not done",
            way(from),
            way(to)
        );
    }
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn a_lock_has_one_znode_though_its_create_is_under_way_when_the_client_moves() {
    let mut rng = begin();
    let ensemble = Ensemble::start_with("one-znode", &mut rng, STABLE, &[]).await;
    let observer = Client::connect(ensemble.connect_string()).await.expect("a session");
    observer.create("/lock", "").await.expect("a directory");
    for number in 0..TRIES {
        let line = Line::new(ensemble.addresses(), number);
        let zk = Client::connect(line.connector()).await.expect("a session");
        let acquiring = tokio::spawn(Lock::new(&zk, "/lock").acquire().into_future());
        pause(rng.random_range(Duration::ZERO..LATE)).await;
        line.drop_connections();
        let guard = acquiring.await.expect("no panic").expect("the lock");
        guard.verify().await.expect("it is held");
        let (names, _) = zk.get_children("/lock").await.expect("a listing");
        assert_eq!(names.len(), 1, "{names:?} for {}", guard.node());
        guard.release().await.expect("a release");
        zk.close().await.expect("a close");
    }
    observer.sync("/lock").await.expect("an answer");
    let stat = observer.exists("/lock").await.expect("an answer").expect("the directory");
    let created = (stat.cversion + stat.num_children) as usize / 2;
    println!("{created} znodes were created for {TRIES} locks");
    assert_eq!(stat.num_children, 0);
}

/// Spins for a time that is too short for a timer.
async fn pause(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        yield_now().await;
    }
}
