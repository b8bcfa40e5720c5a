//! Requests over HTTP that are slow or without an end, and answers that nobody reads.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::attacks::{large, znode};
use crate::peer::Peer;
use crate::server::{Port, Settings};
use crate::trial::Trial;

const HEAD: &str = "GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n";
/// Everybody has all rights on the root, if it is somebody.
const SNAPSHOT: &str =
    "GET /commands/snapshot HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest mallory:mallory\r\n\r\n";

/// A trial at a port with HTTP.
fn at(port: Port, trial: Trial) -> Trial {
    Trial { settings: Settings { port, ..trial.settings }, ..trial }
}

/// So many connections. Those that the server refuses are closed soon.
fn connect_all(address: SocketAddr, count: usize) -> io::Result<Vec<Peer>> {
    (0..count).map(|_| Peer::tcp(address)).collect()
}

attack!(nobody_notices_1_000_requests_that_arrive_byte_by_byte, |trial| {
    at(Port::Admin, trial).run(
        |_| Ok(()),
        |address, ()| {
            let mut peers = connect_all(address, 1_000)?;
            let endless = HEAD.bytes().chain("X-Field: value\r\n".bytes().cycle());
            for byte in endless.take(3_000) {
                peers.iter_mut().for_each(|peer| drop(peer.send(&[byte])));
                // A refused one is replaced, so that all places are taken all the time.
                if let Some(first) = peers.first_mut() {
                    *first = Peer::tcp(address)?;
                }
            }
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_bodies_that_never_end, |trial| {
    at(Port::Admin, trial).run(
        |_| Ok(()),
        |address, ()| {
            let restore = SNAPSHOT.replace("GET /commands/snapshot", "POST /commands/restore");
            let fields = "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            let head = restore.replacen("\r\n\r\n", &format!("\r\n{fields}"), 1);
            let mut peers = connect_all(address, 100)?;
            peers.iter_mut().for_each(|peer| drop(peer.send(head.as_bytes())));
            let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
            for _ in 0..50 {
                peers.iter_mut().for_each(|peer| drop(peer.send(&chunk)));
            }
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_1_000_readers_of_metrics_that_never_read, |trial| {
    at(Port::Metrics, trial).run(
        |_| Ok(()),
        |address, ()| {
            let asked = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
            let mut held = Vec::new();
            for _ in 0..5 {
                let mut peers = connect_all(address, 1_000)?;
                peers.iter_mut().for_each(|peer| drop(peer.send(asked.as_bytes())));
                held = peers;
                thread::sleep(Duration::from_millis(200));
            }
            Ok(Box::new(held))
        },
    );
});

attack!(nobody_notices_readers_of_snapshots_that_never_read, |trial| {
    let state = |clients: SocketAddr| {
        let mut peer = Peer::connect(clients)?;
        (0..60).try_for_each(|at| znode(&mut peer, &format!("/large-{at}"), &[b'x'; large::LARGE]))
    };
    let trial = Trial { state, ..trial };
    at(Port::Admin, trial).run(
        |_| Ok(()),
        |address, ()| {
            let mut peers = connect_all(address, 1_000)?;
            peers.iter_mut().for_each(|peer| drop(peer.send(SNAPSHOT.as_bytes())));
            Ok(Box::new(peers))
        },
    );
});
