//! Seeded random schedules: programs that count, with faults, lost sessions and dropped calls.

use std::time::Duration;

use zoolet::Sessions;
use zoolet::testing::{TestServer, connection, request};
use zoolet_test_support::Dice;

use super::{hits, records, sessions, text};
use crate::common::test_server;

/// How many schedules run by default.
const SCHEDULES: u64 = 300;

/// What one program knows of its calls.
#[derive(Debug, Default)]
struct Tally {
    /// The numbers that its calls have returned, and what each has added.
    acknowledged: Vec<(i64, i64)>,
    /// What calls that were dropped may have added.
    in_doubt: i64,
}

struct Program<'z> {
    zk: &'z TestServer,
    sessions: Sessions,
    dice: Dice,
}

impl Program<'_> {
    async fn count(&mut self) -> Tally {
        let mut tally = Tally::default();
        let mut counter = hits(&self.sessions);
        for _ in 0..4 {
            let delta = 1 + self.dice.below(9) as i64;
            if self.dice.chance(15) {
                let limit = Duration::from_millis(self.dice.below(40) as u64);
                match self.zk.clock().timeout(limit, counter.add(delta)).await {
                    Ok(added) => tally.acknowledged.push((added.unwrap().after, delta)),
                    Err(_) => tally.in_doubt += delta,
                }
            } else {
                let added = counter.add(delta).await.unwrap();
                assert_eq!(added.after - added.before, delta);
                tally.acknowledged.push((added.after, delta));
            }
            if self.dice.chance(10) {
                let session = self.sessions.client().await.unwrap().session_id();
                let _ = self.zk.expire_session(session).await;
            }
            if self.dice.chance(10) {
                // Another process takes over.
                self.sessions = sessions(self.zk);
                counter = hits(&self.sessions);
            }
        }
        tally
    }
}

fn place_faults(zk: &TestServer, dice: &mut Dice) {
    let faults = zk.faults();
    faults.seed(dice.below(1 << 30) as u64);
    let share = |dice: &mut Dice| dice.below(12) as f64 / 100.0;
    faults.on(request().probability(share(dice))).lose_reply().unwrap();
    faults.on(request().probability(share(dice))).drop_request().unwrap();
    faults.on(request().probability(share(dice) / 2.0)).cut_reply(dice.below(40)).unwrap();
    faults.on(request().probability(share(dice) / 2.0)).delay_reply(Duration::from_millis(30)).unwrap();
    faults.on(connection().probability(share(dice))).refuse().unwrap();
}

/// Sessions expire in the middle of calls.
async fn expire_some(zk: &TestServer, sessions: Vec<Sessions>, mut dice: Dice) {
    for _ in 0..6 {
        zk.clock().sleep(Duration::from_millis(dice.below(40) as u64)).await;
        let session = sessions[dice.below(sessions.len())].state().session;
        // There may be none now.
        let _ = zk.expire_session(session).await;
    }
}

/// Runs one schedule, and returns how many faults fired.
async fn schedule(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let zk = test_server().seed(seed).start().await.unwrap();
    let mut programs = Vec::new();
    for _ in 0..3 {
        programs.push(Program { zk: &zk, sessions: sessions(&zk), dice: dice.fork() });
    }
    place_faults(&zk, &mut dice);
    let expiries =
        expire_some(&zk, programs.iter().map(|program| program.sessions.clone()).collect(), dice.fork());
    let [one, two, three] = &mut programs[..] else { panic!("three of them") };
    let calls = async { tokio::join!(one.count(), two.count(), three.count(), expiries) };
    let (a, b, c, ()) = zk.pass_time_until(calls).await.unwrap();
    let fired = zk.faults().fired().len();
    zk.faults().clear();
    zk.wait_until_idle().await.unwrap();

    let value: i64 = text(&zk, super::HITS).map_or(0, |text| text.parse().unwrap());
    let in_doubt = a.in_doubt + b.in_doubt + c.in_doubt;
    let mut acknowledged: Vec<_> = [a, b, c].into_iter().flat_map(|tally| tally.acknowledged).collect();
    let sum: i64 = acknowledged.iter().map(|(_, delta)| delta).sum();
    assert!((sum..=sum + in_doubt).contains(&value), "{sum} <= {value} <= {sum} + {in_doubt}");
    // Each has a place of its own in the order of all.
    acknowledged.sort();
    for pair in acknowledged.windows(2) {
        assert!(pair[1].0 - pair[1].1 >= pair[0].0, "{acknowledged:?}");
    }

    // What crashed programs and lost replies have left is collected.
    drop(programs);
    let late = hits(&sessions(&zk));
    zk.pass_time_until(late.add(0)).await.unwrap().unwrap();
    zk.advance(Duration::from_secs(600)).await.unwrap();
    zk.pass_time_until(late.collect(Duration::ZERO)).await.unwrap().unwrap();
    assert_eq!(records(&zk), Vec::<String>::new());
    fired
}

/// `ZOOLET_SCHEDULES` sets how many run, `ZOOLET_SEED` the seed of the first; each has the next seed.
#[allow(clippy::print_stdout, reason = "how much it has shown")]
#[tokio::test]
async fn a_counter_is_the_sum_of_what_was_added_whatever_happens() {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")),
        Err(_) => default,
    };
    let (first, schedules) = (number("ZOOLET_SEED", 1), number("ZOOLET_SCHEDULES", SCHEDULES));
    let mut faults = 0;
    for seed in first..first.wrapping_add(schedules) {
        // The report of a test server that is dropped in a panic prints its seed.
        faults += schedule(seed).await;
    }
    println!("{schedules} schedules from seed {first}: {faults} faults");
    assert!(faults as u64 >= schedules, "{faults}");
}
