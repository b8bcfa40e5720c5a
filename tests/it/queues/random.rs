//! Seeded random schedules: programs that put and take, with faults, lost sessions and dropped calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zoolet::Sessions;
use zoolet::recipes::{Queue, QueueError};
use zoolet::testing::{TestServer, connection, request};
use zoolet_test_support::Dice;

use super::{RESULTS, data, finish, finish_all_within, items, results, sessions};
use crate::common::test_server;

/// How many schedules run by default.
const SCHEDULES: u64 = 300;

/// What one program knows.
#[derive(Debug, Default)]
struct Tally {
    put: Vec<String>,
    /// Those of calls that were dropped.
    maybe_put: Vec<String>,
    done: Vec<String>,
}

struct Program<'z> {
    zk: &'z TestServer,
    name: char,
    sessions: Sessions,
    dice: Dice,
}

impl Program<'_> {
    async fn queue(&self) -> Queue {
        // Never dead: what is lost shows.
        Queue::builder(&self.sessions, super::JOBS).open().await.unwrap()
    }

    async fn work(&mut self) -> Tally {
        let mut tally = Tally::default();
        let mut queue = self.queue().await;
        for n in 0..6 {
            let limit = Duration::from_millis(self.dice.below(60) as u64);
            let gives_up = self.dice.chance(20);
            if self.dice.chance(50) {
                let item = format!("{}{n}", self.name);
                let mut put = queue.put(item.clone()).priority(self.dice.below(3) as u16);
                if self.dice.chance(30) {
                    put = put.delay(Duration::from_millis(self.dice.below(100) as u64));
                }
                match gives_up {
                    false => put.await.unwrap(),
                    true => match self.zk.clock().timeout(limit, put.into_future()).await {
                        Ok(put) => put.unwrap(),
                        Err(_) => {
                            tally.maybe_put.push(item);
                            continue;
                        }
                    },
                }
                tally.put.push(item);
            } else {
                self.take(&queue, gives_up.then_some(limit), &mut tally).await;
            }
            if self.dice.chance(10) {
                let session = self.sessions.client().await.unwrap().session_id();
                let _ = self.zk.expire_session(session).await;
            }
            if self.dice.chance(10) {
                // Another process takes over.
                self.sessions = sessions(self.zk);
                queue = self.queue().await;
            }
        }
        tally
    }

    async fn take(&mut self, queue: &Queue, limit: Option<Duration>, tally: &mut Tally) {
        let taken = match limit {
            Some(limit) => match self.zk.clock().timeout(limit, queue.take()).await {
                Ok(taken) => Some(taken.unwrap()),
                Err(_) => None,
            },
            None => queue.try_take().await.unwrap(),
        };
        let Some(mut delivery) = taken else { return };
        let item = String::from_utf8(delivery.data().to_vec()).unwrap();
        let settled = match self.dice.below(10) {
            0 => delivery.nack().await,
            1 => delivery.nack_after(Duration::from_millis(self.dice.below(50) as u64)).await,
            2 => return drop(delivery),
            _ => {
                // Its session may be over, which the queue finds out.
                let client = self.sessions.client().await.unwrap();
                match finish(&mut delivery, &client).await {
                    Ok(()) => {
                        tally.done.push(item);
                        Ok(())
                    }
                    error => error,
                }
            }
        };
        match settled {
            Ok(()) | Err(QueueError::NotHeld { .. } | QueueError::Unknown { .. }) => {}
            Err(error) => panic!("{error}"),
        }
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
    let zk = test_server().seed(seed).znode(RESULTS, "").start().await.unwrap();
    let mut programs = Vec::new();
    for name in ['a', 'b', 'c'] {
        programs.push(Program { zk: &zk, name, sessions: sessions(&zk), dice: dice.fork() });
    }
    place_faults(&zk, &mut dice);
    let expiries =
        expire_some(&zk, programs.iter().map(|program| program.sessions.clone()).collect(), dice.fork());
    let [one, two, three] = &mut programs[..] else { panic!("three of them") };
    let calls = async { tokio::join!(one.work(), two.work(), three.work(), expiries) };
    let (a, b, c, ()) = zk.pass_time_until(calls).await.unwrap();
    let fired = zk.faults().fired().len();
    zk.faults().clear();
    drop(programs);
    zk.wait_until_idle().await.unwrap();
    finish_all_within(&zk, u32::MAX, "").await;

    assert_eq!(items(&zk).len() + data(&zk, "/jobs/delayed").len() + data(&zk, "/jobs/dead").len(), 0);
    let tallies = [a, b, c];
    let put: BTreeSet<_> = tallies.iter().flat_map(|tally| &tally.put).collect();
    let maybe: BTreeSet<_> = tallies.iter().flat_map(|tally| &tally.maybe_put).collect();
    let mut times = BTreeMap::<String, usize>::new();
    for result in results(&zk) {
        *times.entry(result).or_default() += 1;
    }
    for (item, times) in &times {
        assert_eq!(*times, 1, "{item} was done so often");
        assert!(put.contains(item) || maybe.contains(item), "{item} was put");
    }
    for item in put.into_iter().chain(tallies.iter().flat_map(|tally| &tally.done)) {
        assert!(times.contains_key(item), "{item} is lost: {times:?}");
    }
    fired
}

/// `ZOOLET_SCHEDULES` sets how many run, `ZOOLET_SEED` the seed of the first; each has the next seed.
#[allow(clippy::print_stdout, reason = "how much it has shown")]
#[tokio::test]
async fn every_item_that_was_put_is_done_once_whatever_happens() {
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
