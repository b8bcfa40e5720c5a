//! Large replies that nobody reads.

use std::io;
use std::net::SocketAddr;

use zoolet_test_support::{get_data, multi_read};

use crate::attacks::znode;
use crate::peer::{Peer, connect_all, frames, repeated};

pub const LARGE: usize = 500_000;

/// So many sessions, and a znode of 500 KB.
pub fn crowd(address: SocketAddr, peers: usize) -> io::Result<Vec<Peer>> {
    let mut peers = connect_all(address, peers)?;
    znode(&mut peers[0], "/large", &vec![b'x'; LARGE])?;
    Ok(peers)
}

attack!(nobody_notices_1_000_clients_that_ask_for_500_mb_each_and_do_not_read, |trial| {
    trial.run(
        |address| crowd(address, 1_000),
        |_, mut peers| {
            let asked = repeated(&get_data("/large"), 1_000);
            peers.iter_mut().try_for_each(|peer| peer.send(&asked))?;
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_clients_that_ask_for_replies_of_gigabytes, |trial| {
    trial.run(
        |address| crowd(address, 20),
        |_, mut peers| {
            let asked = frames([&multi_read((0..10_000).map(|_| get_data("/large")))]);
            peers.iter_mut().try_for_each(|peer| peer.send(&asked))?;
            Ok(Box::new(peers))
        },
    );
});
