//! Writes that many watch.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use zoolet_test_support::RequestExt as _;
use zoolet_test_support::{RECURSIVE, add_watch, create, delete, exists, get_children, multi, set_data};

use crate::peer::{Peer, connect_all, frames};
use crate::trial::{Bounds, Trial};

/// One who writes, and so many who watch everything and read nothing.
fn watched(address: SocketAddr, watchers: usize) -> io::Result<Vec<Peer>> {
    let mut peers = connect_all(address, watchers + 1)?;
    for peer in &mut peers[1..] {
        peer.call(&add_watch("/", RECURSIVE))?;
    }
    peers[0].call(&create("/w"))?;
    Ok(peers)
}

fn one_multi(trial: Trial, watchers: usize) {
    trial.run(
        |address| watched(address, watchers),
        move |_, mut peers| {
            let parts = (0..40_000).map(|_| set_data("/w", ""));
            peers[0].call(&multi(parts))?;
            Ok(Box::new(peers))
        },
    );
}

attack!(nobody_notices_a_multi_of_40_000_writes_under_200_recursive_watches, |trial| one_multi(trial, 200));

attack!(a_multi_of_40_000_writes_under_2_000_recursive_watches_is_survived, |trial| {
    let wait = Duration::from_secs(2);
    let bounds = Bounds { wait, peak: 512, end: 512 };
    one_multi(Trial { bounds, ..trial }, 2_000);
});

attack!(nobody_notices_the_end_of_a_znode_that_4_000_watch_in_two_ways, |trial| {
    let watching = |address| {
        let mut peers = connect_all(address, 4_000)?;
        peers[0].call(&create("/w"))?;
        let watches = frames([&exists("/w").watch(), &get_children("/w").watch()]);
        for peer in &mut peers {
            peer.send(&watches)?;
            peer.replies(2)?;
        }
        Ok(peers)
    };
    trial.run(watching, |_, mut peers| {
        peers[0].send(&frames([&delete("/w")]))?;
        Ok(Box::new(peers))
    });
});
