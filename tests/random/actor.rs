//! A client that asks for anything, in any order, and seldom waits.

use std::pin::Pin;
use std::time::Duration;

use zoolet::client::{Multi, Watch, WatchStream, WatcherType};
use zoolet::testing::History;
use zoolet::{Acl, AddWatchMode, Client, Error, Perms};

use crate::dice::Dice;
use crate::rough::Way;

/// Few, so that clients meet.
const PATHS: &[&str] =
    &["/a", "/b", "/a/x", "/a/y", "/a/x/p", "/b/q", "/c", "/c/r", "/c/r/s", "/zookeeper/config"];
const TOPS: &[&str] = &["/", "/a", "/b", "/c", "/zookeeper", "/none"];

/// What a watch leaves in the hand.
#[expect(dead_code, reason = "held only, as a watch that nobody holds is taken back")]
enum Held {
    Watch(Watch),
    Stream(WatchStream),
}

type Answer = Pin<Box<dyn Future<Output = Option<Held>> + Send>>;

pub struct Actor {
    history: History,
    way: Way,
    dice: Dice,
    number: u64,
    sessions: u64,
}

impl Actor {
    pub fn new(history: History, way: Way, dice: Dice, number: u64) -> Self {
        Self { history, way, dice, number, sessions: 0 }
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
        match self.dice.below(100) {
            0 | 1 => return true,
            2..=8 => settle(waiting, held).await,
            9..=13 => tokio::time::sleep(Duration::from_millis(self.dice.below(900) as u64)).await,
            14..=24 => tokio::task::yield_now().await,
            25 => waiting.clear(),
            26 => held.clear(),
            27..=59 => waiting.push(self.write(zk)),
            60..=69 => waiting.push(self.multi(zk)),
            70..=84 => waiting.push(self.read(zk)),
            _ => waiting.push(self.watch(zk)),
        }
        false
    }

    fn path(&mut self) -> &'static str {
        self.dice.of(PATHS)
    }

    fn version(&mut self) -> i32 {
        self.dice.of(&[-1, -1, -1, -1, 0, 1, 2])
    }

    fn data(&mut self) -> String {
        "x".repeat(self.dice.below(12))
    }

    fn write(&mut self, zk: &Client) -> Answer {
        let (path, data, version) = (self.path(), self.data(), self.version());
        match self.dice.below(16) {
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
            12..=14 => answer(zk.set_data(path, data).version(version).send()),
            _ => {
                let perms =
                    self.dice.of(&[Perms::ALL, Perms::ALL, Perms(31 & !1), Perms(31 & !4), Perms(31 & !2)]);
                let acl = vec![Acl::new(perms, "world", "anyone")];
                answer(zk.set_acl(path, acl).version(version).send())
            }
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
            2 => answer(zk.get_children(self.dice.of(TOPS)).send()),
            3 => answer(zk.get_acl(path).send()),
            4 => answer(zk.get_all_children_number(self.dice.of(TOPS)).send()),
            5 => answer(zk.get_ephemerals(self.dice.of(TOPS)).send()),
            6 => answer(zk.multi_read().get_data(path).get_children(self.dice.of(TOPS)).send()),
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
                let children = zk.get_children(self.dice.of(TOPS)).watch().send();
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

/// Waits for every answer, whatever it is.
async fn settle(waiting: &mut Vec<Answer>, held: &mut Vec<Held>) {
    for answer in waiting.drain(..) {
        held.extend(answer.await);
    }
}
