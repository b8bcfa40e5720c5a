//! The same clients at an Apache ZooKeeper: the rules and the model must be its own.

use tokio::net::TcpStream;
use tokio::runtime::Builder;
use zoolet::Client;
use zoolet::testing::{Checker, History};
use zoolet_test_support::Dice;

use crate::random::rough::Way;
use crate::random::{Manner, clients, explain, number, read_back};

/// How many schedules run by default, one after the other.
const SCHEDULES: u64 = 6;

#[test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run differential"]
fn what_clients_see_of_an_apache_zookeeper_keeps_every_rule_too() {
    let address = std::env::var("ZOOLET_UPSTREAM_RANDOM").expect("ZOOLET_UPSTREAM_RANDOM names a server");
    // Not paused: the server has a clock of its own.
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome = runtime.block_on(schedules(address, number("ZOOLET_SEED").unwrap_or(1)));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// All in one history, as a history begins with an empty server.
async fn schedules(address: String, seed: u64) -> Result<(), String> {
    let history = History::new();
    let connect = move || TcpStream::connect(address.clone());
    let mut dice = Dice::new(seed);
    for _ in 0..number("ZOOLET_SCHEDULES").unwrap_or(SCHEDULES) {
        let way = |dice| Way::new(connect.clone(), dice, Manner::Apache);
        let mut clients = clients(&history, &mut dice, Manner::Apache, way);
        while clients.join_next().await.map(|end| end.expect("no panic")).is_some() {}
    }
    let zk = Client::connect(history.tap(connect)).await.map_err(|error| error.to_string())?;
    let seen = read_back(zk).await;
    let entries = history.entries();
    let verdict = Checker::new().extended_types(true).check(&entries);
    let verdict = verdict.map_err(|error| explain(&error, &entries))?;
    assert!(seen.iter().map(String::as_str).eq(verdict.model.paths()), "{seen:?}");
    assert!(verdict.writes > 100 && verdict.reads > 100 && verdict.events > 10, "{verdict:?}");
    Ok(())
}
