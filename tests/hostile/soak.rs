//! The part of `tests/hostile/soak` that is not a foreign client: churn, attacks in between, and what bystanders notice.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use zoolet_test_support::{
    RECURSIVE, RequestExt as _, add_watch, close_session, create, delete, ephemeral, exists, get_children,
    get_data, set_data,
};

use crate::attacks::SOAKED;
use crate::bystander::{Bystander, Idle, Waits};
use crate::peer::{Peer, frames};
use crate::trial::Trial;

/// The addresses of a server that is attacked, of one that is not, and how many seconds all of it takes.
const ADDRESS: &str = "ZOOLET_SOAK_ADDRESS";
const CONTROL: &str = "ZOOLET_SOAK_CONTROL";
const SECONDS: &str = "ZOOLET_SOAK_SECONDS";

const MINUTE: Duration = Duration::from_secs(60);
const BETWEEN_ATTACKS: Duration = Duration::from_secs(10);

#[test]
#[ignore = "run by tests/hostile/soak"]
fn bystanders_of_a_soak() {
    let address = |name| std::env::var(name).expect(name).parse::<SocketAddr>().expect("an address");
    let (attacked, control) = (address(ADDRESS), address(CONTROL));
    let seconds = std::env::var(SECONDS).expect(SECONDS).parse().expect("seconds");
    let end = Instant::now() + Duration::from_secs(seconds);
    thread::spawn(move || churn(attacked));
    thread::spawn(move || attack(attacked));
    while Instant::now() < end {
        let bystanders = Bystander::start(attacked).expect("a bystander");
        let controls = Bystander::start(control).expect("a bystander");
        let idle = Idle::start(attacked).expect("idle sessions");
        thread::sleep(MINUTE.min(end.saturating_duration_since(Instant::now())));
        controls.finish();
        let (attacked, control) = (bystanders.stop(), controls.stop());
        let lost = idle.stop() + usize::from(attacked.lost);
        let text = |Waits { operations, p99, longest, .. }: &Waits| {
            format!("{operations} {:.2} {:.2}", p99.as_secs_f64() * 1e3, longest.as_secs_f64() * 1e3)
        };
        report(&format!("minute {} {} {lost}", text(&attacked), text(&control)));
    }
}

/// A line for the script. What a test prints is captured, unless it goes past the macros.
fn report(line: &str) {
    use io::Write as _;
    writeln!(io::stdout(), "{line}").expect("stdout");
}

/// One attack after another. What they create stays, so only the first round makes the state grow.
fn attack(address: SocketAddr) {
    for attack in SOAKED.iter().cycle() {
        thread::sleep(BETWEEN_ATTACKS);
        attack(Trial { at: Some(address), ..Trial::new("soak") });
    }
}

/// Sessions come and go, with watches, ephemeral znodes and writes. Half of them end without a word.
fn churn(address: SocketAddr) {
    for round in 0.. {
        if let Err(error) = one_round(address, round) {
            report(&format!("churn: {error}"));
            thread::sleep(Duration::from_secs(1));
        }
    }
}

fn one_round(address: SocketAddr, round: u32) -> io::Result<()> {
    let mut peers = (0..20)
        .map(|_| Peer::with_timeout(address, Duration::from_secs(2)))
        .collect::<io::Result<Vec<_>>>()?;
    peers[0].call(&create("/churn"))?;
    for (at, peer) in peers.iter_mut().enumerate() {
        let own = format!("/churn/{round}-{at}");
        let requests = [
            ephemeral(&own),
            get_data(&own).watch(),
            get_children("/churn").watch(),
            exists(&format!("{own}-never")).watch(),
            add_watch("/churn", RECURSIVE),
            set_data(&own, "data"),
            create(&format!("{own}-persistent")),
            delete(&format!("{own}-persistent")),
        ];
        peer.send(&frames(&requests))?;
    }
    // Each of them gets the events of all; those that do not read them end as well.
    thread::sleep(Duration::from_millis(200));
    let close = frames([&close_session()]);
    peers.iter_mut().step_by(2).try_for_each(|peer| peer.send(&close))
}
