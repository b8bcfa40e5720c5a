//! What concurrent clients see of an ensemble whose leader is killed: the check of histories of the conformance kit.

use std::time::Duration;

use tokio::time::sleep;
use zoolet_conformance::{ANSWER_LIMIT, HistoryCheck, Runner};

use super::begin;
use super::members::{Ensemble, MEMBERS};
use rand::RngExt;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn clients_of_an_ensemble_see_one_order_while_its_leader_is_killed() {
    let mut rng = begin();
    let mut ensemble = Ensemble::start("history", &mut rng).await;
    ensemble.wait_until_served().await;
    let check = HistoryCheck {
        servers: (0..MEMBERS).map(|at| ensemble.address(at).to_string()).collect(),
        clients: 12,
        duration: Duration::from_secs(15),
        seed: rng.random(),
    };
    let runner = Runner::new(&check.servers[0], 1, ANSWER_LIMIT).await.expect("an ensemble that answers");
    let checking = tokio::spawn(async move { check.run(&runner).await });
    for _ in 0..2 {
        sleep(Duration::from_secs(2)).await;
        let leader = ensemble.wait_until_served().await;
        ensemble.kill(leader);
        ensemble.wait_for_leader_other_than(leader).await;
        ensemble.restart(leader);
    }
    ensemble.wait_until_served().await;
    let report = checking.await.expect("no panic").expect("an ensemble that answers");
    assert_eq!(report.checked, Ok(()), "{report:?}");
    assert!(report.answered > 1_000 && report.unanswered > 0, "{report:?}");
    println!("{} answered, {} not, {} cuts", report.answered, report.unanswered, report.cuts);
}
