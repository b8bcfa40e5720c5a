//! The recipes on a real ensemble: three Apache ZooKeepers, in peace, while their leader is killed again and again, and
//! while followers are stopped.
//!
//! `tests/apache/run ensemble` fetches Apache ZooKeeper and runs this. `ZOOLET_SEED` seeds what contenders do, though no
//! run on real servers is the same as another.

#![allow(clippy::print_stdout, reason = "reports what was seen")]

mod facts;
mod history;
mod line;
pub mod members;
mod suite;
mod words;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use members::{Ensemble, MEMBERS};
use suite::{SESSION, Suite};

/// How often the leader is killed, and followers are stopped.
const FAULTS: usize = 4;

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn the_recipes_hold_on_a_real_ensemble() {
    let mut rng = begin();
    let ensemble = Ensemble::start("quiet", &mut rng).await;
    let mut suite = Suite::start(&ensemble, &mut rng, false).await;
    suite.rounds(300).await;
    print!("{}", suite.finish(&ensemble).await);
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn the_recipes_hold_while_the_leader_is_killed_and_started_again() {
    let mut rng = begin();
    let mut ensemble = Ensemble::start("leader", &mut rng).await;
    let mut suite = Suite::start(&ensemble, &mut rng, true).await;
    for _ in 0..FAULTS {
        suite.rounds(20).await;
        let leader = ensemble.wait_until_served().await;
        let killed = Instant::now();
        ensemble.kill(leader);
        let next = ensemble.wait_for_leader_other_than(leader).await;
        println!("leader {leader} killed, {next} leads after {:?}", killed.elapsed());
        suite.rounds(5).await;
        ensemble.restart(leader);
        ensemble.wait_until_served().await;
    }
    print!("{}", suite.finish(&ensemble).await);
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn the_recipes_hold_while_a_follower_is_stopped() {
    let mut rng = begin();
    let ensemble = Ensemble::start("follower", &mut rng).await;
    let mut suite = Suite::start(&ensemble, &mut rng, true).await;
    for fault in 0..FAULTS {
        suite.rounds(20).await;
        let leader = ensemble.wait_until_served().await;
        let follower = (leader + rng.random_range(1..MEMBERS)) % MEMBERS;
        // Every other time so long that its clients must move or lose their sessions.
        let pause =
            if fault % 2 == 0 { SESSION * 3 / 2 } else { SESSION.mul_f64(rng.random_range(0.05..0.7)) };
        ensemble.pause(follower);
        sleep(pause).await;
        ensemble.resume(follower);
        println!("follower {follower} stopped for {pause:?}");
        ensemble.wait_until_served().await;
    }
    print!("{}", suite.finish(&ensemble).await);
}

/// Seeds the random numbers of a test, and prints the seed.
pub fn begin() -> StdRng {
    let seed = std::env::var("ZOOLET_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("ZOOLET_SEED={seed}");
    StdRng::seed_from_u64(seed)
}
