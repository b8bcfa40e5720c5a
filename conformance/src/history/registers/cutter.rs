//! [`Cutter`]: stands between clients and a server, and cuts connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Log;
use crate::wire::connection::is_local;
use crate::wire::proxy::{Proxy, connect};

/// How many bytes pass before a connection is cut. A frame takes about 50.
const BYTES: std::ops::Range<usize> = 100..60_000;

/// A proxy whose connections are cut after a random number of bytes, in the middle of a frame as well.
pub(super) struct Cutter {
    proxy: Proxy,
    cuts: Arc<AtomicU64>,
}

impl Cutter {
    pub(super) async fn start(server: String, seed: u64, log: Arc<Log>) -> io::Result<Self> {
        let cuts = Arc::new(AtomicU64::new(0));
        let (counted, failed) = (Arc::clone(&cuts), Arc::clone(&log));
        let mut random = StdRng::seed_from_u64(seed);
        let proxy = Proxy::start(
            "127.0.0.1:0",
            move |error| failed.hinder(format!("a client cannot be let in: {error}")),
            move |client| {
                let bytes = random.random_range(BYTES);
                let (server, counted, log) = (server.clone(), Arc::clone(&counted), Arc::clone(&log));
                async move {
                    match connect(&client, &server).await {
                        Ok(server) => {
                            if forward(client, server, bytes).await.is_ok_and(|is_cut| is_cut) {
                                counted.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        Err(error) if is_local(&error) => {
                            log.hinder(format!("a client cannot be connected to {server}: {error}"));
                        }
                        // A server of an ensemble may be away.
                        Err(_) => {}
                    }
                }
            },
        );
        Ok(Self { proxy: proxy.await?, cuts })
    }

    /// The address for clients.
    pub(super) fn address(&self) -> String {
        self.proxy.address.to_string()
    }

    /// How many connections have been cut.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

/// Forwards `left` bytes, counting both directions. False if one end has closed before.
async fn forward(mut client: TcpStream, mut server: TcpStream, mut left: usize) -> io::Result<bool> {
    let (mut up, mut down) = ([0; 4096], [0; 4096]);
    while left > 0 {
        let count = tokio::select! {
            read = client.read(&mut up) => {
                let count = read?.min(left);
                server.write_all(&up[..count]).await?;
                count
            }
            read = server.read(&mut down) => {
                let count = read?.min(left);
                client.write_all(&down[..count]).await?;
                count
            }
        };
        if count == 0 {
            return Ok(false);
        }
        left -= count;
    }
    Ok(true)
}
