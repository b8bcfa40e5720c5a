//! The same frames to this server and to Apache ZooKeeper 3.9, answer by answer.
//!
//! `ZOOLET_UPSTREAM=host:port` names an Apache ZooKeeper with an empty database, set up as beside [`settings::plain`];
//! `ZOOLET_UPSTREAM_EXTENDED` one as beside [`settings::extended`]. `tests/apache/run frames` starts both.
//! `ZOOLET_UPSTREAM_STEPS` and `ZOOLET_UPSTREAM_SEED` steer the random part.
//!
//! `ZOOLET_TEST_STORAGE=disk` keeps our server's state in a data directory.
//!
//! What may differ is replaced before the comparison: session ids, times, and the order of lists that have none. All
//! else, zxids included, must be equal to the byte.

#![allow(clippy::print_stderr, reason = "reports what was compared")]

mod duo;
mod normal;
mod random;
mod scripts;
mod settings;
mod socket;

use duo::Duo;
use scripts::Script;
use zoolet::server::ServerBuilder;
use zoolet_test_support::stored;

#[test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run frames"]
fn apache_answers_as_we_do() {
    compare("ZOOLET_UPSTREAM", settings::plain(), scripts::PLAIN);
}

#[test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run frames"]
fn apache_with_everything_switched_on_answers_as_we_do() {
    compare("ZOOLET_UPSTREAM_EXTENDED", settings::extended(), scripts::EXTENDED);
}

fn compare(variable: &str, ours: ServerBuilder, scripts: &[Script]) {
    let address = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names no server"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ours = runtime.block_on(stored(ours).start()).expect("our server");
    let mut duo = Duo::new(&ours.connect_string(), &address);
    for (name, script) in scripts {
        duo.begin(name);
        script(&mut duo);
        duo.end();
    }
    let (steps, findings) = duo.finish();
    eprintln!("{steps} steps compared with {address}");
    assert!(findings.is_empty(), "{} differences:\n{}", findings.len(), findings.join("\n"));
}
