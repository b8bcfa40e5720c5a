//! The same frames to this server's state machine and to Apache ZooKeeper 3.9, answer by answer.
//!
//! `ZOOLET_UPSTREAM=host:port` names an Apache ZooKeeper with default settings, tickTime 2000 and an empty database;
//! `ZOOLET_UPSTREAM_EXTENDED` one started with the settings of [`Settings::extended`]. Where a variable is missing, its
//! comparison is shown as skipped. `ZOOLET_UPSTREAM_STEPS` and `ZOOLET_UPSTREAM_SEED` steer the random part.
//!
//! What may differ is replaced before the comparison: session ids, times, and the order of lists that have none. All
//! else, zxids included, must be equal to the byte.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "says what was skipped and what was compared")]

#[path = "../../server/core/tests/common/requests.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the core")]
mod requests;

mod apache;
mod duo;
mod normal;
mod ours;
mod random;
mod scripts;
mod settings;

use duo::Duo;
use scripts::Script;
use settings::Settings;

#[test]
fn apache_answers_as_we_do() {
    compare("ZOOLET_UPSTREAM", Settings::plain(), scripts::PLAIN);
}

#[test]
fn apache_with_everything_switched_on_answers_as_we_do() {
    compare("ZOOLET_UPSTREAM_EXTENDED", Settings::extended(), scripts::EXTENDED);
}

fn compare(variable: &str, settings: Settings, scripts: &[Script]) {
    let Ok(address) = std::env::var(variable) else {
        println!("skipped: {variable} names no server");
        return;
    };
    let mut duo = Duo::new(&settings, &address);
    for (name, script) in scripts {
        duo.begin(name);
        script(&mut duo);
        duo.end();
    }
    let (steps, findings) = duo.finish();
    eprintln!("{steps} steps compared with {address}");
    assert!(findings.is_empty(), "{} differences:\n{}", findings.len(), findings.join("\n"));
}
