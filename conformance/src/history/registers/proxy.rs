//! [`Proxy`]: stands between clients and a server, and cuts connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::Log;
use crate::wire::connection::is_local;

/// How many bytes pass before a connection is cut. A frame takes about 50.
const BYTES: std::ops::Range<usize> = 100..60_000;

/// How long it takes until a client is accepted again after one could not be.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// A listener whose connections are cut after a random number of bytes, in the middle of a frame as well. It ends when it is
/// dropped.
pub(super) struct Proxy {
    address: String,
    cuts: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(super) async fn start(server: String, seed: u64, log: Arc<Log>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let cuts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&cuts);
        let mut random = StdRng::seed_from_u64(seed);
        let task = tokio::spawn(async move {
            // They end with the proxy.
            let mut links = JoinSet::new();
            loop {
                while links.try_join_next().is_some() {}
                let client = match listener.accept().await {
                    Ok((client, _)) => client,
                    Err(error) => {
                        log.hinder(format!("a client cannot be let in: {error}"));
                        sleep(ACCEPT_AGAIN).await;
                        continue;
                    }
                };
                let bytes = random.random_range(BYTES);
                let (server, counted, log) = (server.clone(), Arc::clone(&counted), Arc::clone(&log));
                links.spawn(async move {
                    match TcpStream::connect(&server).await {
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
                });
            }
        });
        Ok(Self { address, cuts, task })
    }

    /// The address for clients.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// How many connections have been cut.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forwards so many bytes, counting both directions. False if one end has closed before.
async fn forward(mut client: TcpStream, mut server: TcpStream, mut left: usize) -> io::Result<bool> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
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

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn its_connections_end_with_it() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("its address").to_string();
        let proxy = Proxy::start(address, 1, Arc::default()).await.expect("a port");
        let mut client = TcpStream::connect(proxy.address()).await.expect("a connection");
        let (_served, _) = server.accept().await.expect("the same to the server");
        drop(proxy);
        let ended = timeout(Duration::from_secs(10), client.read(&mut [0])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
}
