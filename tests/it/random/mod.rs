//! Seeded random schedules of the whole system: clients that reconnect, requests of every kind, pipes that break at any
//! byte, sessions that expire. What the clients saw is then checked against the rules, and the tree against the model.
//!
//! On a durable server ([`crashes`]) the process is killed and the power is lost as well, and [`steps`] loses the power at every step
//! of the disk.
//!
//! `ZOOLET_SCHEDULES` sets how many schedules run, `ZOOLET_SEED` the seed of the first; each has the next seed.
//! `ZOOLET_UPSTREAM_RANDOM=host:port` names an unused Apache ZooKeeper, set up as in
//! `tests/apache/run differential`: what clients see of it is checked too, which shows that the rules and the model are right.

mod actor;
mod apache;
mod crashes;
mod faults;
mod host;
mod rough;
mod steps;
mod wire;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use zoolet::testing::FixtureExt as _;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use zoolet::server::{Clock, Server, ServerBuilder, Txn};
use zoolet::testing::{CheckError, Checker, History, HistoryEntry, decided};
use zoolet::{Acl, Client, ErrorCode};
use zoolet_test_support::{Dice, limit};

use actor::{Actor, Habits};
use rough::Way;
use wire::Wire;

/// How many schedules run by default.
const SCHEDULES: u64 = 60;

/// When schedules begin: at the first of 2026.
const START: Duration = Duration::from_secs(1_767_225_600);

/// What clients may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Anything, on connections that break.
    Wild,
    /// Nothing that ends a connection: everything is answered.
    Quiet,
    /// Besides, nothing that an Apache ZooKeeper dies of or that we answer differently on purpose.
    Apache,
}

/// How much of a history that is not good is shown: the last of the connections concerned.
const LINES: usize = 120;

#[test]
fn what_clients_see_in_random_schedules_keeps_every_rule() {
    each_seed(SCHEDULES, |seed| run(schedule(seed)).map(drop));
}

#[test]
fn a_schedule_repeats_from_its_seed() {
    for seed in 1..4 {
        let [one, other] = [(); 2].map(|()| run(schedule(seed)).expect("a good schedule"));
        assert_eq!(one.to_string(), other.to_string(), "seed {seed}");
    }
}

/// Runs so many schedules, unless the environment says otherwise.
fn each_seed(schedules: u64, mut run: impl FnMut(u64) -> Result<(), String>) {
    let given = number("ZOOLET_SEED");
    let first = given.unwrap_or(1);
    let count = number("ZOOLET_SCHEDULES").unwrap_or(if given.is_some() { 1 } else { schedules });
    for seed in first..first + count {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            Err(panic.downcast_ref::<String>().cloned().or(text).unwrap_or_default())
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}\nonce more: ZOOLET_SEED={seed} cargo test --test it random");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs one schedule, in a time of its own.
fn run<T>(schedule: impl Future<Output = T>) -> T {
    limit();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(schedule)
}

/// Settings of the server of a schedule.
fn settings() -> ServerBuilder {
    settings_at(START)
}

/// As these, for a server that starts at another time.
fn settings_at(start: Duration) -> ServerBuilder {
    Server::builder()
        .clock(Clock::tokio().starting_at(start))
        .tick_time(Duration::from_secs(1))
        .extended_types(true)
}

/// One schedule on a server in memory.
async fn schedule(seed: u64) -> Result<History, String> {
    let mut dice = Dice::new(seed);
    let manner = if dice.chance(25) { Manner::Quiet } else { Manner::Wild };
    let quiet = manner == Manner::Quiet;
    let server = settings()
        .container_check_interval(Duration::from_secs(if quiet { 3600 } else { 2 }))
        .start()
        .await
        .expect("a server");
    let fixture = server.fixture();
    let history = History::new();
    let clients = clients(&history, &mut dice, manner, |dice| Way::new(server.in_process(), dice, manner));
    let fixture_now = fixture.clone();
    let faults = faults::run(move || Some(fixture_now.clone()), dice.fork());
    let faults = (manner == Manner::Wild).then(|| tokio::spawn(faults));
    all_end(clients).await?;
    if let Some(faults) = faults {
        faults.abort();
        _ = faults.await;
        fixture.accept_connections();
    }
    let zk = Client::connect(history.tap(server.in_process())).await.expect("a session");
    let seen = read_back(zk).await;

    let (txns, entries) = (fixture.transactions(), history.entries());
    judge(Some(&txns), &entries, &seen)?;
    if quiet {
        // That needs no transactions of the server.
        judge(None, &entries, &seen)?;
    }
    Ok(history)
}

/// Waits until all clients are done.
async fn all_end(mut clients: JoinSet<()>) -> Result<(), String> {
    let playing = async { while clients.join_next().await.map(|end| end.expect("no panic")).is_some() {} };
    tokio::time::timeout(Duration::from_secs(3600), playing).await.map_err(|_| "a client hangs".to_owned())
}

/// Starts the clients of a schedule.
fn clients(history: &History, dice: &mut Dice, manner: Manner, way: impl Fn(Dice) -> Way) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let habits = Habits::new(dice, manner);
    for number in 0..2 + dice.below(4) {
        let way = way(dice.fork());
        let actor = Actor::new(history.clone(), way, dice.fork(), habits.clone(), number as u64);
        clients.spawn(actor.run(20 + dice.below(50)));
    }
    if dice.chance(50) {
        let way = way(dice.fork());
        clients.spawn(Wire::new(history.clone(), way, dice.fork(), manner).run(150));
    }
    clients
}

fn judge(txns: Option<&[Txn]>, entries: &[HistoryEntry], seen: &BTreeSet<String>) -> Result<(), String> {
    let mut checker = Checker::new().extended_types(true);
    if let Some(txns) = txns {
        checker = checker.transactions(decided(txns));
    }
    let verdict = checker.check(entries).map_err(|error| explain(&error, entries))?;
    // The last client of the history owns nothing, so the tree is as it read it.
    let model: BTreeSet<String> = verdict.model.paths().map(str::to_owned).collect();
    if *seen == model { Ok(()) } else { Err(format!("the tree is {seen:?}, the model's {model:?}")) }
}

/// An error with what led to it.
fn explain(error: &CheckError, entries: &[HistoryEntry]) -> String {
    let lines: Vec<String> = entries.iter().filter(|entry| concerns(error, entry)).map(brief).collect();
    format!("{error}\n{}", lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

/// Whether an entry is of a connection that an error names.
fn concerns(error: &CheckError, entry: &HistoryEntry) -> bool {
    let CheckError::Violation(violation) = error else { return true };
    let other = violation.other.as_ref().and_then(|other| other.conn);
    [violation.operation.conn, other].contains(&Some(entry.conn))
}

fn brief(entry: &HistoryEntry) -> String {
    entry.to_string().chars().take(240).collect()
}

/// Reads the whole tree: what it reads is in the history too.
async fn read_back(zk: Client) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        if zk.get_data(&path).await.is_err_and(|error| error.code() == Some(ErrorCode::NoAuth)) {
            zk.set_acl(&path, Acl::open()).await.expect("a znode whose ACL may be set");
        }
        zk.get_data(&path).await.expect("a znode that is listed");
        zk.get_acl(&path).await.expect("a znode that is listed");
        let (names, _) = zk.get_children(&path).await.expect("a znode that is listed");
        let above = if path == "/" { "" } else { &path };
        below.extend(names.iter().map(|name| format!("{above}/{name}")));
        seen.insert(path);
    }
    zk.close().await.expect("a session that ends");
    seen
}
