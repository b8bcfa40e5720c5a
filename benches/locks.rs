//! The cost of a lock with server and clients on one thread, as in a test: uncontended, among eight contenders, and with a
//! long queue.
//!
//! `cargo bench --bench locks`; for a comparison with other clients see `benches/locks/run`, for an explanation
//! `benches/README.md`.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::error::Error;
use std::future::IntoFuture;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use zoolet::testing::TestServer;
use zoolet::{Client, Guard, Lock, LockError, Server};

const DIR: &str = "/locks/bench";
/// Rounds of each measurement; the median is reported.
const ROUNDS: usize = 5;
/// Operations per measurement and round.
const TIME: Duration = Duration::from_millis(400);
const CONTENDERS: usize = 8;
/// Queue lengths.
const QUEUES: [usize; 4] = [10, 100, 1_000, 3_000];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    // `cargo test` also runs benches, to check that they start.
    if !std::env::args().any(|arg| arg == "--bench") {
        println!("nothing measured; run `cargo bench --bench locks`");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        println!("server and clients on one thread; medians of {ROUNDS} rounds");
        println!(
            "\n{:<52} {:>8} {:>8} {:>9}",
            "acquire + release, nobody else there", "p50 us", "p99 us", "per s"
        );
        for (name, tcp, awaited, goal) in [
            ("in process, release awaited", false, true, Some(15.0)),
            ("in process, guard dropped", false, false, None),
            ("by TCP, release awaited", true, true, None),
            ("by TCP, guard dropped", true, false, None),
        ] {
            report(name, goal, median(async || alone(tcp, awaited).await).await?);
        }
        println!(
            "\n{:<52} {:>8} {:>8} {:>9}",
            "hand-off among 8, from release to grant", "p50 us", "p99 us", "per s"
        );
        for (name, tcp) in [("in process", false), ("by TCP", true)] {
            report(name, None, median(async || passed_on(tcp).await).await?);
        }
        queues().await
    })
}

/// The server of the lock, and how clients connect to it.
struct Place {
    server: Server,
    tcp: bool,
}

impl Place {
    async fn new(tcp: bool) -> Outcome<Self> {
        let server = if tcp { Server::builder().bind("127.0.0.1:0") } else { Server::builder() };
        Ok(Self { server: server.start().await?, tcp })
    }

    async fn client(&self) -> Outcome<Client> {
        Ok(if self.tcp {
            Client::connect(self.server.connect_string()).await?
        } else {
            Client::connect(self.server.in_process()).await?
        })
    }
}

/// The measurements of a round.
struct Round {
    took: Vec<Duration>,
    elapsed: Duration,
}

/// p50 and p99 in microseconds, and operations per second.
type Figures = (f64, f64, f64);

impl Round {
    fn figures(mut self) -> Figures {
        self.took.sort_unstable();
        let micros = |percent: usize| {
            let at = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
            self.took.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
        };
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        let rate = self.took.len() as f64 / self.elapsed.as_secs_f64();
        (micros(50), micros(99), rate)
    }
}

/// The median of each figure over the rounds.
async fn median(measure: impl AsyncFn() -> Outcome<Round>) -> Outcome<Figures> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        rounds.push(measure().await?.figures());
    }
    let of = |figure: fn(&Figures) -> f64| {
        let mut values: Vec<_> = rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok((of(|f| f.0), of(|f| f.1), of(|f| f.2)))
}

fn report(name: &str, goal: Option<f64>, (p50, p99, rate): Figures) {
    let goal = goal.map_or(String::new(), |goal| {
        format!("  p50 <= {goal}: {}", if p50 <= goal { "met" } else { "MISSED" })
    });
    println!("{name:<52} {p50:>8.1} {p99:>8.1} {rate:>9.0}{goal}");
}

/// One client acquires and releases the lock repeatedly.
async fn alone(tcp: bool, awaited: bool) -> Outcome<Round> {
    const LEAD_IN: usize = 500;
    let place = Place::new(tcp).await?;
    let client = place.client().await?;
    let lock = Lock::new(&client, DIR);
    for _ in 0..LEAD_IN {
        lock.acquire().await?.release().await?;
    }
    let mut took = Vec::new();
    let began = Instant::now();
    let mut now = began;
    while now - began < TIME {
        let before = now;
        let guard = lock.acquire().await?;
        if awaited {
            guard.release().await?;
        } else {
            drop(guard);
        }
        now = Instant::now();
        took.push(now - before);
    }
    Ok(Round { took, elapsed: began.elapsed() })
}

/// Eight clients contend for the lock. Measures the time from the call that releases it to the next grant.
async fn passed_on(tcp: bool) -> Outcome<Round> {
    let place = Place::new(tcp).await?;
    let released = Rc::new(Cell::new(None::<Instant>));
    let took = Rc::new(RefCell::new(Vec::new()));
    let began = Instant::now();
    let mut tasks = Vec::with_capacity(CONTENDERS);
    for _ in 0..CONTENDERS {
        let lock = Lock::new(&place.client().await?, DIR);
        let (released, took) = (Rc::clone(&released), Rc::clone(&took));
        tasks.push(spawn_local(async move {
            while began.elapsed() < TIME {
                let guard = lock.acquire().await?;
                let now = Instant::now();
                if let Some(released) = released.take() {
                    took.borrow_mut().push(now - released);
                }
                released.set(Some(now));
                guard.release().await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(Round { took: took.take(), elapsed: began.elapsed() })
}

/// How the cost of a hand-off depends on the queue length: the next holder lists the queue, and the rest should not depend
/// on its length.
async fn queues() -> Outcome {
    println!(
        "\n{:<10} {:>12} {:>9} {:>13} {:>12} {:>16} {:>9} {:>7}",
        "hand-off,",
        "p50 us",
        "p99 us",
        "bare list us",
        "the rest us",
        "rest ns / name",
        "requests",
        "events"
    );
    let mut first = None;
    for waiting in QUEUES {
        let place = Place::new(false).await?;
        let mut clients = Vec::with_capacity(waiting + 1);
        for _ in 0..=waiting {
            clients.push(place.client().await?);
        }
        let mut queue = Queue::new(clients).await?;
        // Alternate, so that other load on the machine affects both.
        let (mut hand_offs, mut lists) = (Vec::new(), Vec::new());
        for _ in 0..(400_000 / (waiting + 100)).clamp(100, 1_000) {
            let (took, last) = queue.pass_on().await?;
            hand_offs.push(took);
            queue.enter(last).await?;
            // By a client that has not listed for as long as the next holder.
            let (lister, _) = queue.waiting.get(waiting / 2).ok_or("nobody waits")?;
            let began = Instant::now();
            let (names, _) = lister.get_children(DIR).await?;
            let listed = names.len();
            drop(names);
            lists.push(began.elapsed());
            assert_eq!(listed, waiting + 1, "a queue as long as at first");
        }
        let (p50, p99, _) = Round { took: hand_offs, elapsed: TIME }.figures();
        let (list, ..) = Round { took: lists, elapsed: TIME }.figures();
        let rest = p50 - list;
        let (few, shortest) = *first.get_or_insert((waiting, rest));
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        let per_name = (rest - shortest) * 1e3 / (waiting - few).max(1) as f64;
        let (requests, events) = counted(waiting).await?;
        println!(
            "{:<10} {p50:>12.1} {p99:>9.1} {list:>13.1} {rest:>12.1} {per_name:>16.1} {requests:>9.2} {events:>7.2}",
            format!("{waiting} wait")
        );
    }
    Ok(())
}

/// Requests and events of the server per hand-off at this queue length.
async fn counted(waiting: usize) -> Outcome<(f64, f64)> {
    const TIMES: u32 = 20;
    let zk = TestServer::start().await;
    let mut clients = Vec::with_capacity(waiting + 1);
    for _ in 0..=waiting {
        clients.push(zk.client().await);
    }
    let mut queue = Queue::new(clients).await?;
    let (mut requests, mut events) = (0, 0);
    for _ in 0..TIMES {
        zk.wait_until_idle().await?;
        let before = zk.counters();
        let (_, last) = queue.pass_on().await?;
        zk.wait_until_idle().await?;
        let after = zk.counters();
        requests += after.requests_but_pings() - before.requests_but_pings();
        events += after.events - before.events;
        queue.enter(last).await?;
    }
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    let each = |count: u64| count as f64 / f64::from(TIMES);
    Ok((each(requests), each(events)))
}

/// A holder and its waiting contenders, each with a client of its own.
struct Queue {
    holder: Option<(Client, Guard)>,
    waiting: VecDeque<(Client, JoinHandle<Result<Guard, LockError>>)>,
}

impl Queue {
    async fn new(clients: Vec<Client>) -> Outcome<Self> {
        let mut clients = clients.into_iter();
        let first = clients.next().ok_or("nobody")?;
        let guard = Lock::new(&first, DIR).acquire().await?;
        let mut queue = Self { holder: Some((first, guard)), waiting: VecDeque::new() };
        for client in clients {
            queue.enter(client).await?;
        }
        Ok(queue)
    }

    /// Adds a contender, and waits until it is in the queue with its watch set.
    async fn enter(&mut self, client: Client) -> Outcome {
        let (queued, told) = oneshot::channel();
        let acquire = Lock::new(&client, DIR).acquire().on_queued(move |_| _ = queued.send(()));
        let waiter = spawn_local(acquire.into_future());
        told.await?;
        // The request for the watch follows the notification directly, so its reply comes before this one.
        client.exists(DIR).await?;
        self.waiting.push_back((client, waiter));
        Ok(())
    }

    /// Hands the lock over. Returns the time from the call that releases it to the next grant, and the former holder.
    async fn pass_on(&mut self) -> Outcome<(Duration, Client)> {
        let (last, guard) = self.holder.take().ok_or("nobody holds it")?;
        let (next, waiter) = self.waiting.pop_front().ok_or("nobody waits")?;
        let began = Instant::now();
        let released = guard.release();
        let guard = waiter.await??;
        let took = began.elapsed();
        released.await?;
        self.holder = Some((next, guard));
        Ok((took, last))
    }
}
