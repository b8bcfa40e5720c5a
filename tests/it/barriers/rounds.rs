//! The rounds of a double barrier, checked by the server's transactions, and seeded random schedules of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use zoolet::testing::FixtureExt as _;

use tokio::sync::watch;
use zoolet::recipes::{BarrierError, DoubleBarrier};
use zoolet::server::TxnOp;
use zoolet::testing::{TestServer, connection, request};
use zoolet::{Client, SessionState};
use zoolet_test_support::Dice;

use crate::common::test_server;

pub const PATH: &str = "/barriers/step";

/// How many schedules run by default.
const SCHEDULES: u64 = 100;

/// Nothing is left: no member, no sign of a round, no watch.
pub fn is_clean(zk: &TestServer, case: &str) {
    assert_eq!(zk.children(PATH), Vec::<String>::new(), "{case}");
    assert_eq!(zk.watches(), [], "{case}");
}

/// A round began only when as many members were there, and ended only when all of those had gone. Returns the number of rounds.
pub fn check_rounds(zk: &TestServer, members: usize, case: &str) -> usize {
    let mut check = Check { inside: None, there: BTreeSet::new(), members, rounds: 0 };
    for txn in zk.transactions() {
        check.apply(&txn.op, case);
    }
    check.rounds
}

struct Check {
    /// The members of the current round.
    inside: Option<BTreeSet<String>>,
    there: BTreeSet<String>,
    members: usize,
    rounds: usize,
}

impl Check {
    fn apply(&mut self, op: &TxnOp, case: &str) {
        match op {
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.apply(op, case)),
            TxnOp::Create { path, .. } => match name(path) {
                Some("ready") => {
                    assert!(self.there.len() >= self.members, "{case}: only {:?} are there", self.there);
                    self.inside = Some(self.there.clone());
                    self.rounds += 1;
                }
                Some(name) => _ = self.there.insert(name.to_owned()),
                None => {}
            },
            TxnOp::Delete { path } => self.delete(path, case),
            TxnOp::CloseSession { ephemerals } => ephemerals.iter().for_each(|path| self.delete(path, case)),
            _ => {}
        }
    }

    fn delete(&mut self, path: &str, case: &str) {
        match name(path) {
            Some("ready") => {
                let inside = self.inside.take().unwrap_or_else(|| panic!("{case}: no round is on"));
                let left: Vec<_> = inside.intersection(&self.there).collect();
                assert!(left.is_empty(), "{case}: the round is ended and {left:?} are inside");
            }
            Some(name) => _ = self.there.remove(name),
            None => {}
        }
    }
}

fn name(path: &str) -> Option<&str> {
    path.strip_prefix(PATH)?.strip_prefix('/')
}

/// A member that goes from round to round, with a new session whenever one is over.
struct Walker<'z> {
    zk: &'z TestServer,
    client: Client,
    dice: Dice,
    passed: &'z AtomicUsize,
    enough: &'z watch::Sender<bool>,
}

impl Walker<'_> {
    async fn walk(&mut self) {
        let mut enough = self.enough.subscribe();
        while !*enough.borrow() {
            let barrier = DoubleBarrier::new(&self.client, PATH, 3);
            let limit = match self.dice.chance(20) {
                true => Duration::from_millis(self.dice.below(200) as u64),
                false => Duration::from_secs(600),
            };
            let entered = tokio::select! {
                entered = self.zk.clock().timeout(limit, barrier.enter()) => entered,
                _ = enough.wait_for(|enough| *enough) => return,
            };
            let left = match entered {
                // Timed out.
                Err(_) => Ok(()),
                Ok(Err(error)) => Err(error),
                Ok(Ok(inside)) if self.dice.chance(10) => {
                    drop(inside);
                    Ok(())
                }
                Ok(Ok(inside)) => {
                    self.zk.clock().sleep(Duration::from_millis(self.dice.below(50) as u64)).await;
                    if self.dice.chance(5) {
                        let _ = self.zk.server().fixture().expire_session(self.client.session_id()).await;
                    }
                    let left = inside.leave().await;
                    if left.is_ok() && self.passed.fetch_add(1, SeqCst) + 1 >= 12 {
                        self.enough.send_replace(true);
                    }
                    left
                }
            };
            match left {
                Ok(()) => {}
                Err(BarrierError::SessionOver { .. }) => self.reconnect().await,
                Err(BarrierError::Client(error)) if error.is_retryable() => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn reconnect(&mut self) {
        while self.client.state() != SessionState::Connected {
            let options = self.zk.options().seed(self.dice.below(1 << 30) as u64);
            if let Ok(client) = options.connect(self.zk.connector()).await {
                self.client = client;
            }
        }
    }
}

/// Runs one schedule, and returns how many rounds there were.
async fn schedule(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let zk = test_server().seed(seed).start().await.unwrap();
    let (passed, (enough, _)) = (AtomicUsize::new(0), watch::channel(false));
    let mut walkers = Vec::new();
    for _ in 0..4 {
        let (client, dice) = (zk.client().await, dice.fork());
        walkers.push(Walker { zk: &zk, client, dice, passed: &passed, enough: &enough });
    }
    let share = |dice: &mut Dice| dice.below(8) as f64 / 100.0;
    zk.faults().on(request().probability(share(&mut dice))).lose_reply().unwrap();
    zk.faults().on(request().probability(share(&mut dice))).drop_request().unwrap();
    let delay = zk.faults().on(request().probability(share(&mut dice)));
    delay.delay_reply(Duration::from_millis(30)).unwrap();
    zk.faults().on(connection().probability(share(&mut dice))).refuse().unwrap();
    let [a, b, c, d] = &mut walkers[..] else { panic!("four of them") };
    let walk = async { tokio::join!(a.walk(), b.walk(), c.walk(), d.walk()) };
    zk.pass_time_until(walk).await.unwrap();
    zk.faults().clear();
    zk.advance(Duration::from_secs(30)).await.unwrap();
    let case = format!("seed {seed}");
    let rounds = check_rounds(&zk, 3, &case);
    // If all members of a round were lost, the next client removes the sign of that round.
    if zk.children(PATH) == ["ready"] {
        let client = zk.client().await;
        zk.pass_time_until(async { DoubleBarrier::new(&client, PATH, 1).enter().await?.leave().await })
            .await
            .unwrap()
            .unwrap();
    }
    is_clean(&zk, &case);
    rounds
}

/// `ZOOLET_SCHEDULES` sets how many run, `ZOOLET_SEED` the seed of the first; each has the next seed.
#[tokio::test]
async fn rounds_begin_and_end_together_whatever_happens() {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")),
        Err(_) => default,
    };
    let (first, schedules) = (number("ZOOLET_SEED", 1), number("ZOOLET_SCHEDULES", SCHEDULES));
    for seed in first..first.wrapping_add(schedules) {
        // The report of a server that is dropped in a panic prints its seed.
        let rounds = schedule(seed).await;
        assert!(rounds >= 3, "seed {seed}: {rounds}");
    }
}
