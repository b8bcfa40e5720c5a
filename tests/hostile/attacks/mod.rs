//! The attacks, by what they aim at.

use std::io;

use zoolet_test_support::{RequestExt as _, create, multi};

use crate::peer::{Peer, frames};

/// A test that `cargo test` ignores: a [`Trial`](crate::trial::Trial) with the name of the test.
macro_rules! attack {
    ($name:ident, $run:expr) => {
        #[test]
        #[ignore = "measures time; run by tests/hostile/run"]
        fn $name() {
            let run: fn($crate::trial::Trial) = $run;
            run($crate::trial::Trial::new(stringify!($name)));
        }
    };
}

mod connections;
mod departed;
mod fan_out;
mod identities;
mod kept;
mod large;
mod long;

/// Creates with short paths that fit into one multi.
const PARTS: usize = 8_000;

/// Creates a znode with data.
fn znode(peer: &mut Peer, path: &str, data: &[u8]) -> io::Result<()> {
    peer.call(&create(path).data(data)).map(drop)
}

/// Creates a znode and `count` children of it.
fn children(peer: &mut Peer, parent: &str, count: usize) -> io::Result<()> {
    znode(peer, parent, b"")?;
    let names: Vec<_> = (0..count).map(|at| format!("{parent}/{at}")).collect();
    // Two at a time: one is executed while the next is encoded.
    for names in names.chunks(2 * PARTS) {
        let multis = names.chunks(PARTS).map(|names| multi(names.iter().map(|name| create(name))));
        let multis: Vec<_> = multis.collect();
        peer.send(&frames(&multis))?;
        peer.replies(multis.len())?;
    }
    Ok(())
}
