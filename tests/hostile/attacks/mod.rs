//! The attacks, by what they aim at.

use std::io;

use zoolet_test_support::{RequestExt as _, create, multi};

use crate::peer::{Peer, frames};
use crate::trial::Trial;

/// A test that `cargo test` ignores: a [`Trial`](crate::trial::Trial) with the name of the test.
macro_rules! attack {
    ($name:ident, $run:expr) => {
        #[test]
        #[ignore = "measures time; run by tests/hostile/run"]
        pub fn $name() {
            $name::run($crate::trial::Trial::new(stringify!($name)));
        }

        pub mod $name {
            use super::*;

            pub fn run(trial: $crate::trial::Trial) {
                let run: fn($crate::trial::Trial) = $run;
                run(trial);
            }
        }
    };
}

mod connections;
mod departed;
mod fan_out;
mod http;
mod identities;
mod kept;
mod large;
mod long;
mod tls;

/// The attacks that `tests/hostile/soak` repeats. Their state is small, and the same each time.
pub const SOAKED: &[fn(Trial)] = &[
    identities::nobody_notices_an_acl_of_many_entries_for_many_identities::run,
    identities::nobody_notices_sixty_clients_that_ask_for_31_identities_and_do_not_read::run,
    departed::nobody_notices_sixty_clients_that_ask_for_100_000_children_and_leave::run,
    departed::nobody_notices_sixty_clients_that_ask_for_100_000_children_and_do_not_read::run,
    large::nobody_notices_1_000_clients_that_ask_for_500_mb_each_and_do_not_read::run,
    fan_out::nobody_notices_a_multi_of_40_000_writes_under_200_recursive_watches::run,
    connections::nobody_notices_handshakes_that_arrive_byte_by_byte::run,
    connections::nobody_notices_lengths_that_lie::run,
    connections::nobody_notices_500_half_frames_of_a_megabyte::run,
    long::nobody_notices_who_writes_10_000_levels_deep_below_a_recursive_watch::run,
];

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
