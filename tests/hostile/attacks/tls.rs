//! Handshakes that are many, slow, large or nonsense, and what may follow a handshake. None of the attackers has a certificate that
//! the server trusts.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zoolet::server::tls::rustls::{ClientConfig, ClientConnection, StreamOwned};
use zoolet::server::tls::{ClientTls, Store, TlsSettings};
use zoolet_test_support::certificates::Authority;
use zoolet_test_support::{Dice, Hello, ping};

use crate::peer::{PATIENCE, Peer, frames};
use crate::server::{Port, Settings};
use crate::trial::Trial;

/// A trial at a port with TLS.
fn secured(trial: Trial) -> Trial {
    Trial { settings: Settings { port: Port::Tls, ..trial.settings }, ..trial }
}

fn settings() -> ClientTls {
    ClientTls::new().dangerously_accept_any_certificate()
}

fn session(tls: &ClientTls) -> io::Result<ClientConnection> {
    let config: Arc<ClientConfig> = tls.load().map_err(io::Error::other)?;
    let name = "localhost".try_into().map_err(io::Error::other)?;
    ClientConnection::new(config, name).map_err(io::Error::other)
}

/// What a client sends first.
fn client_hello() -> io::Result<Vec<u8>> {
    let (mut session, mut bytes) = (session(&settings())?, Vec::new());
    session.write_tls(&mut bytes)?;
    Ok(bytes)
}

/// A connection with a session of ZooKeeper.
fn connect(address: SocketAddr) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let peer = Peer::tcp(address)?;
    peer.stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(session(&settings())?, peer.stream);
    stream.write_all(&Hello::new().bytes())?;
    io::Read::read_exact(&mut stream, &mut [0; 41])?;
    Ok(stream)
}

attack!(nobody_notices_1_000_stalled_tls_handshakes, |trial| {
    secured(trial).run(
        |_| client_hello(),
        |address, hello| {
            let mut peers = Vec::new();
            // More than may be under way at a time.
            for at in 0..1_500 {
                let mut peer = Peer::tcp(address)?;
                let sent = [0, 3, hello.len() / 2][at % 3];
                let _ = peer.send(&hello[..sent]);
                peers.push(peer);
            }
            thread::sleep(Duration::from_secs(3));
            // A client that comes meanwhile is served.
            drop(connect(address)?);
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_a_flood_of_tls_handshakes, |trial| {
    secured(trial).run(
        |_| client_hello(),
        |address, hello| {
            let mut held = Vec::new();
            for _ in 0..10 {
                let mut peers = (0..1_000).map(|_| Peer::tcp(address)).collect::<io::Result<Vec<_>>>()?;
                // The server signs for each; this costs an attacker nothing.
                peers.iter_mut().for_each(|peer| drop(peer.send(&hello)));
                held = peers;
            }
            Ok(Box::new(held))
        },
    );
});

attack!(nobody_notices_garbage_at_a_port_with_tls, |trial| {
    secured(trial).run(
        |_| client_hello(),
        |address, hello| {
            let mut dice = Dice::new(7);
            for at in 0..2_000 {
                let mut peer = Peer::tcp(address)?;
                let mut bytes: Vec<u8> = (0..1_000).map(|_| dice.below(256) as u8).collect();
                match at % 4 {
                    // A record of any type with any length.
                    0 => bytes[..5].copy_from_slice(&[20 + (at % 5) as u8, 3, 3, 0x3f, 0xff]),
                    1 => bytes.splice(..0, hello[..hello.len() / 2].iter().copied()).for_each(drop),
                    2 => bytes.splice(..0, hello.iter().copied()).for_each(drop),
                    _ => {}
                }
                let _ = peer.send(&bytes);
            }
            Ok(Box::new(()))
        },
    );
});

attack!(nobody_notices_tls_handshakes_in_records_of_one_byte, |trial| {
    secured(trial).run(
        |_| Ok(()),
        |address, ()| {
            // The begin of a ClientHello of 64 kB, and no end of it.
            let record = |byte| [0x16, 3, 1, 0, 1, byte];
            let begin = [1, 0, 0xff, 0xf0, 3, 3].into_iter().chain((0..0xfff0).map(|_| 7));
            let bytes: Vec<u8> = begin.flat_map(record).collect();
            let mut peers = (0..500).map(|_| Peer::tcp(address)).collect::<io::Result<Vec<_>>>()?;
            for part in bytes.chunks(6_000) {
                peers.iter_mut().for_each(|peer| drop(peer.send(part)));
            }
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_requests_in_records_of_one_byte, |trial| {
    secured(trial).run(
        |address| (0..50).map(|_| connect(address)).collect::<io::Result<Vec<_>>>(),
        |_, mut peers| {
            let pings = frames([&ping()]).repeat(1_000);
            for bytes in pings.chunks(100) {
                for peer in &mut peers {
                    let mut records = Vec::new();
                    for byte in bytes {
                        peer.conn.writer().write_all(&[*byte])?;
                        peer.conn.write_tls(&mut records)?;
                    }
                    peer.sock.write_all(&records)?;
                }
            }
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_certificates_of_100_kb, |trial| {
    secured(trial).run(
        |_| {
            let authority = Authority::new("another authority");
            let chain = authority.issue("mallory") + &authority.pem().repeat(250);
            Ok(settings().key_store(Store::pem(chain)))
        },
        |address, tls| {
            let mut held = Vec::new();
            for _ in 0..300 {
                let mut peer = StreamOwned::new(session(&tls)?, Peer::tcp(address)?.stream);
                // It is refused, sooner or later.
                let _ = peer.conn.complete_io(&mut peer.sock);
                held.push(peer);
            }
            Ok(Box::new(held))
        },
    );
});

attack!(nobody_notices_new_keys_without_end, |trial| {
    secured(trial).run(
        |address| (0..20).map(|_| connect(address)).collect::<io::Result<Vec<_>>>(),
        |_, mut peers| {
            for _ in 0..1_000 {
                for peer in &mut peers {
                    let mut updates = Vec::new();
                    for _ in 0..10 {
                        let _ = peer.conn.refresh_traffic_keys();
                        peer.conn.write_tls(&mut updates)?;
                    }
                    // The server may have had enough.
                    let _ = peer.sock.write_all(&updates);
                }
            }
            Ok(Box::new(peers))
        },
    );
});
