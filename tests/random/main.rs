//! Seeded random schedules of the whole system: clients that reconnect, requests of every kind, pipes that break at any
//! byte, sessions that expire. What the clients saw is then checked against the rules, and the tree against the model.
//!
//! `ZOOLET_SCHEDULES` says how many schedules are run, `ZOOLET_SEED` the seed of the first; each has the next seed.

mod actor;
mod dice;
mod fate;
mod rough;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use zoolet::server::{Clock, Server};
use zoolet::testing::{Checker, History, Verdict};
use zoolet::{Acl, Client, ErrorCode};

use actor::Actor;
use dice::Dice;
use rough::Way;

/// How many schedules are run unless the environment says otherwise.
const SCHEDULES: u64 = 30;

#[test]
fn what_clients_see_in_random_schedules_keeps_every_rule() {
    let given = number("ZOOLET_SEED");
    let first = given.unwrap_or(1);
    let count = number("ZOOLET_SCHEDULES").unwrap_or(if given.is_some() { 1 } else { SCHEDULES });
    for seed in first..first + count {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let failure = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure,
            Err(panic) => match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"a panic").to_string(),
            },
        };
        panic!("seed {seed}: {failure}\nonce more: ZOOLET_SEED={seed} cargo test --test random");
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs one schedule and checks it.
fn run(seed: u64) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(schedule(seed))
}

async fn schedule(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    // In a calm one nothing happens but what clients ask for, and everything is answered.
    let calm = dice.chance(25);
    let clock = Clock::tokio().starting_at(Duration::from_secs(1_767_225_600));
    let server = Server::builder()
        .clock(clock)
        .tick_time(Duration::from_secs(1))
        .extended_types(true)
        .container_check_interval(Duration::from_secs(if calm { 3600 } else { 2 }))
        .start()
        .await
        .expect("a server");
    let fixture = server.fixture();
    let history = History::new();

    let mut actors = JoinSet::new();
    for number in 0..2 + dice.below(4) {
        let way = Way::new(server.in_process(), dice.fork(), calm);
        let actor = Actor::new(history.clone(), way, dice.fork(), number as u64);
        actors.spawn(actor.run(20 + dice.below(60)));
    }
    let fate = (!calm).then(|| tokio::spawn(fate::run(fixture.clone(), dice.fork())));
    let acting = async { while actors.join_next().await.map(|end| end.expect("no panic")).is_some() {} };
    tokio::time::timeout(Duration::from_secs(3600), acting).await.map_err(|_| "a client hangs")?;
    if let Some(fate) = fate {
        fate.abort();
        let _ = fate.await;
        fixture.accept_connections();
    }

    let seen = read_back(&history, &server).await;
    let (txns, entries) = (fixture.transactions(), history.entries());
    let checker = Checker::new().extended_types(true);
    let told = |error: &dyn std::fmt::Display| format!("{error}\n{}", tail(&history));
    let verdict = checker.transactions(&txns).check(&entries).map_err(|error| told(&error))?;
    compare(&seen, &verdict)?;
    if calm {
        // What the server itself tells is not needed then.
        let verdict = checker.check(&entries).map_err(|error| told(&error))?;
        compare(&seen, &verdict)?;
    }
    Ok(())
}

/// Reads the whole tree, as one client more: what it reads is in the history too.
async fn read_back(history: &History, server: &Server) -> BTreeSet<String> {
    let zk = Client::connect(history.tap(server.in_process())).await.expect("a session");
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

fn compare(seen: &BTreeSet<String>, verdict: &Verdict) -> Result<(), String> {
    // The last client of the history owns nothing, so the tree is as it read it.
    let model: BTreeSet<String> = verdict.model.paths().map(str::to_owned).collect();
    if *seen == model { Ok(()) } else { Err(format!("the tree is {seen:?}, the model's {model:?}")) }
}

/// The last of what was seen.
fn tail(history: &History) -> String {
    let text = history.to_string();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(number("ZOOLET_TAIL").unwrap_or(60) as usize)..].join("\n")
}
