//! The order of records, and how long a lookup lasts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Wake;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::oneshot;

use super::*;

const DRAWS: usize = 20_000;

fn record(priority: u16, weight: u16, target: &str) -> SrvRecord {
    SrvRecord { priority, weight, port: 2181, target: target.to_owned() }
}

/// How often each target is the first.
fn firsts(records: &[SrvRecord]) -> BTreeMap<String, usize> {
    let mut rng = StdRng::seed_from_u64(7);
    let mut firsts = BTreeMap::new();
    for _ in 0..DRAWS {
        let ordered = in_order(records.to_vec(), &mut rng);
        assert_eq!(ordered.len(), records.len());
        assert!(ordered.is_sorted_by_key(|record| record.priority));
        *firsts.entry(ordered[0].target.clone()).or_default() += 1;
    }
    firsts
}

#[test]
fn records_of_the_lowest_priority_come_first_as_often_as_their_weight_says() {
    let records = [record(2, 1000, "late"), record(1, 1, "light"), record(1, 3, "heavy")];
    let firsts = firsts(&records);
    // A draw from 0 to the sum of the weights, which the lighter one takes at 0 and 1 if it is the first in the list.
    let light = firsts["light"];
    assert!((DRAWS / 5..DRAWS * 2 / 5).contains(&light), "{firsts:?}");
    assert_eq!(light + firsts["heavy"], DRAWS);
}

#[test]
fn a_weight_of_zero_is_chosen_rarely_and_among_equals_everybody_is() {
    let firsts_of = |weights: [u16; 2]| firsts(&[record(1, weights[0], "a"), record(1, weights[1], "b")]);
    let rare = firsts_of([0, 99]);
    assert!((1..DRAWS / 50).contains(&rare["a"]), "{rare:?}");
    let equal = firsts_of([0, 0]);
    assert!(equal["a"].abs_diff(equal["b"]) < DRAWS / 20, "{equal:?}");
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn every_session_that_waits_for_a_lookup_is_woken_by_it() {
    let mut source = SrvSource::new("_zk._tcp.example.com");
    let (answer, lookup) = oneshot::channel();
    source.lookup = Some(Box::pin(async { lookup.await.expect("an answer") }));
    let sessions = [(); 2].map(|()| Arc::new(Woken(AtomicBool::new(false))));
    for session in &sessions {
        let waker = Arc::clone(session).into();
        assert!(source.poll_hosts(&mut Context::from_waker(&waker)).is_pending());
    }
    answer.send(Ok(vec![record(1, 1, "a")])).expect("it waits");
    assert!(sessions.iter().all(|session| session.0.load(SeqCst)));
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_is_silent_is_waited_for_by_the_clock_of_the_client() {
    let server = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let mut source = SrvSource::new("_zk._tcp.example.com");
    let clock = Clock::manual();
    source.clock = clock.clone();
    source.servers = vec![server.local_addr().expect("an address")];
    let mut hosts = std::pin::pin!(std::future::poll_fn(|cx| source.poll_hosts(cx)));
    let asked = async { server.recv(&mut [0; 512]).await.expect("a question") };
    tokio::select! {
        biased;
        _ = &mut hosts => panic!("no time has passed"),
        _ = asked => {}
    }
    tokio::select! {
        biased;
        _ = &mut hosts => panic!("no time has passed"),
        () = tokio::time::sleep(Duration::from_secs(100)) => {}
    }
    let advancing = async {
        loop {
            clock.advance(Duration::from_secs(1)).expect("a manual clock");
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        found = &mut hosts => assert_eq!(found.expect_err("no answer").kind(), io::ErrorKind::TimedOut),
        () = advancing => {}
    }
}
