//! Requests of clients that do not wait for the replies.

use std::io;
use std::net::SocketAddr;

use zoolet_test_support::get_children;

use crate::attacks::children;
use crate::peer::{Peer, connect_all, repeated};

/// So many sessions, and a znode with so many children.
fn crowd(address: SocketAddr, peers: usize, many: usize) -> io::Result<Vec<Peer>> {
    let mut peers = connect_all(address, peers)?;
    children(&mut peers[0], "/many", many)?;
    Ok(peers)
}

fn ask_all(peers: &mut [Peer], requests: usize) -> io::Result<()> {
    let asked = repeated(&get_children("/many"), requests);
    peers.iter_mut().try_for_each(|peer| peer.send(&asked))
}

attack!(nobody_notices_sixty_clients_that_ask_for_100_000_children_and_leave, |trial| {
    trial.run(
        |address| crowd(address, 60, 100_000),
        |_, mut peers| {
            ask_all(&mut peers, 50)?;
            Ok(Box::new(()))
        },
    );
});

attack!(nobody_notices_sixty_clients_that_ask_for_100_000_children_and_do_not_read, |trial| {
    trial.run(
        |address| crowd(address, 60, 100_000),
        |_, mut peers| {
            ask_all(&mut peers, 50)?;
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_100_clients_that_ask_for_a_million_children_and_leave, |trial| {
    trial.run(
        |address| crowd(address, 100, 1_000_000),
        |_, mut peers| {
            ask_all(&mut peers, 20)?;
            // The first replies are on their way when they leave.
            std::thread::sleep(std::time::Duration::from_millis(500));
            Ok(Box::new(()))
        },
    );
});

attack!(sigterm_is_obeyed_while_sixty_clients_ask_for_100_000_children, |trial| {
    trial.terminate(
        |address| crowd(address, 60, 100_000),
        |_, mut peers| {
            ask_all(&mut peers, 50)?;
            Ok(Box::new(peers))
        },
    );
});
