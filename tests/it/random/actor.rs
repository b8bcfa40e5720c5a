//! A client that asks for anything, in any order, and seldom waits.

use std::pin::Pin;
use std::time::Duration;

use zoolet::client::{Multi, Watch, WatchStream, WatcherType};
use zoolet::testing::History;
use zoolet::{Acl, AddWatchMode, Client, Error, Perms};
use zoolet_test_support::Dice;

use crate::random::Manner;
use crate::random::rough::Way;

/// Few, so that clients meet; each schedule has some of them.
const PATHS: &[&str] =
    &["/a", "/b", "/a/x", "/a/y", "/a/x/p", "/b/q", "/c", "/c/r", "/c/r/s", "/zookeeper/config"];
const TOPS: &[&str] = &["/", "/a", "/b", "/c", "/zookeeper", "/none"];

/// What a watch leaves in the hand.
#[expect(dead_code, reason = "held only, as a watch is removed when it is dropped")]
enum Held {
    Watch(Watch),
    Stream(WatchStream),
}

type Answer = Pin<Box<dyn Future<Output = Option<Held>> + Send>>;

/// What the clients of a schedule are given to. Each schedule is one-sided in its own way: what is rare among
/// everything is common somewhere.
#[derive(Clone)]
pub struct Habits {
    paths: Vec<&'static str>,
    /// How often each kind of request is made, beside the others.
    writes: usize,
    multis: usize,
    reads: usize,
    watches: usize,
    /// Of a hundred writes.
    acls: usize,
    /// Of a hundred steps.
    waits: usize,
    /// The bytes of data, at most.
    longest: usize,
}

impl Habits {
    pub fn new(dice: &mut Dice, manner: Manner) -> Self {
        let mut paths: Vec<_> = PATHS.iter().copied().filter(|_| dice.chance(60)).collect();
        paths.push("/a");
        let mut often = || dice.of(&[1, 4, 16]);
        let (writes, multis, reads, watches) = (often() + 2, often(), often(), often());
        Self {
            paths,
            writes,
            multis,
            reads,
            watches,
            // A write after a setACL is checked against the new list here, and against the old one in Apache.
            acls: if manner == Manner::Apache { 0 } else { dice.of(&[0, 3, 30]) },
            waits: dice.of(&[3, 10, 40]),
            longest: dice.of(&[12, 12, 2_000]),
        }
    }
}

pub struct Actor {
    history: History,
    way: Way,
    dice: Dice,
    habits: Habits,
    number: u64,
    sessions: u64,
}

impl Actor {
    pub fn new(history: History, way: Way, dice: Dice, habits: Habits, number: u64) -> Self {
        Self { history, way, dice, habits, number, sessions: 0 }
    }

    /// Does so many steps, in as many sessions as it takes.
    pub async fn run(mut self, mut steps: usize) {
        while steps > 0 {
            let zk = self.connect().await;
            let (mut waiting, mut held) = (Vec::new(), Vec::new());
            while steps > 0 && !zk.state().is_final() {
                steps -= 1;
                if self.step(&zk, &mut waiting, &mut held).await {
                    break;
                }
            }
            match self.dice.below(4) {
                0 => drop(zk),
                1 => {
                    let closing = zk.close();
                    settle(&mut waiting, &mut held).await;
                    _ = closing.await;
                }
                _ => {
                    settle(&mut waiting, &mut held).await;
                    // The answer shows that every event before it has come.
                    _ = zk.sync("/").await;
                    _ = zk.close().await;
                }
            }
        }
    }

    async fn connect(&mut self) -> Client {
        self.sessions += 1;
        let seed = self.number * 1000 + self.sessions;
        loop {
            let way = self.way.clone();
            let options = Client::options().seed(seed).session_timeout(Duration::from_secs(4));
            if let Ok(zk) = options.connect(self.history.tap(move || way.open())).await {
                return zk;
            }
        }
    }

    /// One step; true to end the session.
    async fn step(&mut self, zk: &Client, waiting: &mut Vec<Answer>, held: &mut Vec<Held>) -> bool {
        let Habits { writes, multis, reads, watches, waits, .. } = self.habits;
        match self.dice.below(100) {
            0 | 1 => return true,
            2 => waiting.clear(),
            3 => held.clear(),
            4..=9 => tokio::time::sleep(Duration::from_millis(self.dice.below(900) as u64)).await,
            10..=19 => tokio::task::yield_now().await,
            _ if self.dice.chance(waits) => settle(waiting, held).await,
            _ => waiting.push(match self.dice.below(writes + multis + reads + watches) {
                n if n < writes => self.write(zk),
                n if n < writes + multis => self.multi(zk),
                n if n < writes + multis + reads => self.read(zk),
                _ => self.watch(zk),
            }),
        }
        false
    }

    fn path(&mut self) -> &'static str {
        self.dice.of(&self.habits.paths)
    }

    /// Something that may well have children.
    fn top(&mut self) -> &'static str {
        if self.dice.chance(50) { self.path() } else { self.dice.of(TOPS) }
    }

    fn version(&mut self) -> Option<i32> {
        self.dice.of(&[None, None, None, None, Some(0), Some(1), Some(2)])
    }

    fn data(&mut self) -> String {
        "x".repeat(self.dice.below(self.habits.longest))
    }

    fn write(&mut self, zk: &Client) -> Answer {
        let (path, data, version) = (self.path(), self.data(), self.version());
        if self.dice.chance(self.habits.acls) {
            let perms =
                self.dice.of(&[Perms::ALL, Perms(31 & !1), Perms(31 & !4), Perms(31 & !8), Perms(31 & !2)]);
            let acl = vec![Acl::new(perms, "world", "anyone")];
            return answer(zk.set_acl(path, acl).version(version).send());
        }
        match self.dice.below(15) {
            0..=3 => answer(zk.create(path, data).send()),
            4 => answer(zk.create(path, data).ephemeral().send()),
            5 | 6 => {
                let create = zk.create(format!("{path}/n-"), data).sequential();
                answer(if self.dice.chance(50) { create.ephemeral().send() } else { create.send() })
            }
            7 => answer(zk.create(path, data).container().send()),
            8 => {
                let ttl = Duration::from_millis(1 + self.dice.below(3_000) as u64);
                answer(zk.create(path, data).ttl(ttl).send())
            }
            9..=11 => answer(zk.delete(path).version(version).send()),
            _ => answer(zk.set_data(path, data).version(version).send()),
        }
    }

    fn multi(&mut self, zk: &Client) -> Answer {
        let mut multi: Multi<'_> = zk.multi();
        for _ in 0..self.dice.below(5) {
            let (path, data, version) = (self.path(), self.data(), self.version());
            multi = match self.dice.below(8) {
                0 | 1 => multi.create(path, data),
                2 => multi.add(zk.create(path, data).ephemeral()),
                3 => multi.add(zk.create(format!("{path}/m-"), data).sequential()),
                4 => multi.delete(path),
                5 => multi.check(path, version),
                _ => multi.add(zk.set_data(path, data).version(version)),
            };
        }
        answer(multi.send())
    }

    fn read(&mut self, zk: &Client) -> Answer {
        let path = self.path();
        match self.dice.below(9) {
            0 => answer(zk.exists(path).send()),
            1 => answer(zk.get_data(path).send()),
            2 => answer(zk.get_children(self.top()).send()),
            3 => answer(zk.get_acl(path).send()),
            4 => answer(zk.get_all_children_number(self.top()).send()),
            5 => answer(zk.get_ephemerals(self.top()).send()),
            6 => answer(zk.multi_read().get_data(path).get_children(self.top()).send()),
            7 => answer(zk.who_am_i().send()),
            _ => answer(zk.sync(path).send()),
        }
    }

    fn watch(&mut self, zk: &Client) -> Answer {
        let path = self.path();
        let kind = self.dice.of(&[
            WatcherType::Any,
            WatcherType::Data,
            WatcherType::Children,
            WatcherType::Persistent,
            WatcherType::PersistentRecursive,
        ]);
        match self.dice.below(10) {
            0..=2 => holding(zk.get_data(path).watch().send(), |(_, _, watch)| Held::Watch(watch)),
            3 | 4 => holding(zk.exists(path).watch().send(), |(_, watch)| Held::Watch(watch)),
            5 | 6 => {
                let children = zk.get_children(self.top()).watch().send();
                holding(children, |(_, _, watch)| Held::Watch(watch))
            }
            7 => {
                let mode = self.dice.of(AddWatchMode::ALL);
                holding(zk.add_watch(self.dice.of(TOPS), mode).send(), Held::Stream)
            }
            8 => answer(zk.check_watches(path, kind).send()),
            _ => answer(zk.remove_watches(path, kind).send()),
        }
    }
}

fn answer<T>(reply: impl Future<Output = Result<T, Error>> + Send + 'static) -> Answer {
    Box::pin(async move {
        _ = reply.await;
        None
    })
}

fn holding<T: 'static>(
    reply: impl Future<Output = Result<T, Error>> + Send + 'static,
    hold: fn(T) -> Held,
) -> Answer {
    Box::pin(async move { reply.await.ok().map(hold) })
}

/// Waits for every answer.
async fn settle(waiting: &mut Vec<Answer>, held: &mut Vec<Held>) {
    for answer in waiting.drain(..) {
        held.extend(answer.await);
    }
}
