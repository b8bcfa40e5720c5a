//! A session that moves to another member: what its old connection receives.

use zoolet_test_support::{Hello, Request, create, get_data, ping, set_data, sync};

use super::{Got, STABLE, ask, check, open};

use crate::ensemble::begin;
use crate::ensemble::members::{Ensemble, MEMBERS};

type Question = (&'static str, fn() -> Request);

const READS: &[Question] = &[("ping", || ping()), ("sync", || sync("/")), ("getData", || get_data("/"))];
const WRITES: &[Question] =
    &[("create", || create("/moved")), ("setData", || set_data("/", "moved")), ("check", || check("/"))];

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn a_follower_goes_on_answering_reads_and_pings_of_a_session_that_has_moved_and_closes_at_a_write() {
    let mut rng = begin();
    let ensemble = Ensemble::start_with("moved", &mut rng, STABLE, &[]).await;
    let leader = ensemble.wait_until_served().await;
    let (one, other) = ((leader + 1) % MEMBERS, (leader + 2) % MEMBERS);
    for to in [other, leader] {
        for (what, question) in READS {
            assert_eq!(
                after_a_move(&ensemble, one, to, question()).await,
                Got::Answer,
                "{what}, {one} to {to}"
            );
        }
        for (what, question) in WRITES {
            assert_eq!(
                after_a_move(&ensemble, one, to, question()).await,
                Got::Closed,
                "{what}, {one} to {to}"
            );
        }
    }
    // The leader knows, and so does a member that is the old one and the new one.
    for (from, to) in [(leader, one), (one, one), (leader, leader)] {
        for (what, question) in READS.iter().chain(WRITES) {
            assert_eq!(
                after_a_move(&ensemble, from, to, question()).await,
                Got::Closed,
                "{what}, {from} to {to}"
            );
        }
    }
}

/// What the old connection of a session gets when it has moved.
async fn after_a_move(ensemble: &Ensemble, from: usize, to: usize, question: Request) -> Got {
    let mut old = open(ensemble, from, Hello::new()).await;
    let _new = open(ensemble, to, Hello::again(&old.welcome)).await;
    let got = ask(&mut old, question).await;
    // Whatever it received, the session exists. It is resumed once more, as on a busy machine the new connection was
    // seen closed as well.
    let mut again = open(ensemble, to, Hello::again(&old.welcome)).await;
    assert_eq!(
        ask(&mut again, get_data("/")).await,
        Got::Answer,
        "the session is at {to}, not {from}: {got:?}"
    );
    got
}
