//! The order of records, and how long a lookup lasts.

use std::collections::BTreeMap;
use std::time::Duration;

use simple_dns::rdata::{RData, SRV};
use simple_dns::{CLASS, Name, Packet, ResourceRecord};
use tokio::net::UdpSocket;

use super::*;
use crate::connect_string::TargetSecurity;
use crate::server_list::ServerList;

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

/// The answer of a name server that knows one host.
fn answer_to(question: &[u8]) -> Vec<u8> {
    let mut answer = Packet::parse(question).expect("a question").into_reply();
    let name = answer.questions[0].qname.clone();
    let target = Name::new("a").expect("a name");
    let record = RData::SRV(SRV { priority: 1, weight: 1, port: 2181, target });
    answer.answers.push(ResourceRecord::new(name, CLASS::IN, 1, record));
    answer.build_bytes_vec().expect("an answer")
}

#[tokio::test]
async fn all_sessions_that_wait_for_a_lookup_share_it() {
    zoolet_test_support::limit();
    let server = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let hosts = ServerList::of_srv("_zk._tcp.example.com", "", TargetSecurity::default());
    let servers = vec![server.local_addr().expect("an address")];
    hosts.ask(servers, Clock::tokio(), &mut StdRng::seed_from_u64(7));
    let [one, other] = [(); 2].map(|()| hosts.lookup().expect("none is known yet").1);
    let mut question = [0; 512];
    let answering = async {
        let (length, from) = server.recv_from(&mut question).await.expect("a question");
        server.send_to(&answer_to(&question[..length]), from).await.expect("sent");
    };
    let (one, other, ()) = tokio::join!(one, other, answering);
    assert!(one.is_ok() && other.is_ok());
    assert!(hosts.lookup().is_none(), "there is a host to try");
    assert!(server.try_recv(&mut question).is_err(), "nobody has asked again");
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_is_silent_is_waited_for_by_the_clock_of_the_client() {
    let server = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let source = SrvSource::new("_zk._tcp.example.com");
    let clock = Clock::manual();
    let servers = vec![server.local_addr().expect("an address")];
    source.ask(servers, clock.clone(), &mut StdRng::seed_from_u64(7));
    let mut lookup = Lookup::default();
    let mut hosts = std::pin::pin!(source.hosts(&mut lookup));
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
