//! Connections that are refused, slow, or speak nonsense.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use zoolet_test_support::Hello;

use crate::peer::{PATIENCE, Peer, connect_all};
use crate::server::Settings;
use crate::trial::Trial;

attack!(nobody_notices_refused_connections_that_fill_a_log_which_is_not_read, |trial| {
    let settings = Settings { max_client_cnxns: 60, stderr_unread: true, ..trial.settings };
    Trial { settings, ..trial }.run(
        |_| Ok(()),
        |address, ()| {
            let mut held = Vec::new();
            // One who is refused finds the connection closed.
            while let Ok(peer) = Peer::connect(address) {
                held.push(peer);
            }
            for _ in 0..5_000 {
                // One that the server has closed already is as good.
                let _ = Peer::tcp(address);
            }
            Ok(Box::new(held))
        },
    );
});

attack!(nobody_notices_more_connections_than_there_are_descriptors, |trial| {
    let settings = Settings { descriptors: 100, ..trial.settings };
    Trial { settings, ..trial }.run(
        |_| Ok(()),
        |address, ()| {
            let held: Vec<_> = (0..300).map_while(|_| Peer::tcp(address).ok()).collect();
            thread::sleep(Duration::from_secs(3));
            Ok(Box::new(held))
        },
    );
});

attack!(nobody_notices_handshakes_that_arrive_byte_by_byte, |trial| {
    trial.run(
        |_| Ok(()),
        |address, ()| {
            let mut peers = (0..2_000).map(|_| Peer::tcp(address)).collect::<io::Result<Vec<_>>>()?;
            for byte in Hello::new().bytes().iter().take(10) {
                for peer in &mut peers {
                    let _ = peer.send(&[*byte]);
                }
                thread::sleep(Duration::from_millis(200));
            }
            Ok(Box::new(peers))
        },
    );
});

/// Sends bytes on new connections that have sessions, and waits until each was closed.
fn each_is_closed(address: SocketAddr, all: &[&[u8]]) -> io::Result<()> {
    for bytes in all {
        for mut peer in connect_all(address, 20)? {
            peer.send(bytes)?;
            match peer.read(PATIENCE) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

attack!(nobody_notices_lengths_that_lie, |trial| {
    trial.run(
        |_| Ok(()),
        |address, ()| {
            let lengths = [-1, 0, i32::MAX, i32::MIN, 1_048_576].map(i32::to_be_bytes);
            each_is_closed(address, &lengths.each_ref().map(|length| &length[..]))?;
            Ok(Box::new(()))
        },
    );
});

attack!(nobody_notices_500_half_frames_of_a_megabyte, |trial| {
    trial.run(
        |address| connect_all(address, 500),
        |_, mut peers| {
            let mut half = 1_000_000_i32.to_be_bytes().to_vec();
            half.resize(100_000, 0);
            peers.iter_mut().try_for_each(|peer| peer.send(&half))?;
            Ok(Box::new(peers))
        },
    );
});
