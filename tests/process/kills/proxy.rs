//! The way of a foreign client to the server: a port that stays while the server is killed and started again, and a record of
//! what passes.
//!
//! The record is that of a client in place of the proxy: a request is sent when the proxy sends it, and acknowledged when the proxy
//! has the reply. That is later and earlier than for the client behind it, so the check is the stricter one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use zoolet::testing::{History, Tap, TapCounts};

/// How often a server that is down is tried.
const RETRY: Duration = Duration::from_millis(2);

/// The address of the server while it is up.
#[derive(Clone, Default)]
pub struct Upstream(Arc<Mutex<Option<SocketAddr>>>);

impl Upstream {
    pub fn set(&self, address: Option<SocketAddr>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    fn get(&self) -> Option<SocketAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens for one client program.
pub struct Proxy {
    pub address: SocketAddr,
    counts: Arc<TapCounts>,
    _listening: JoinSet<()>,
}

impl Proxy {
    pub async fn start(upstream: Upstream, history: History) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let counts = Arc::<TapCounts>::default();
        let mut listening = JoinSet::new();
        listening.spawn(listen(listener, upstream, history, Arc::clone(&counts)));
        Ok(Self { address, counts, _listening: listening })
    }

    /// How many bytes the server has sent to the client.
    pub fn received(&self) -> u64 {
        self.counts.read()
    }
}

async fn listen(listener: TcpListener, upstream: Upstream, history: History, counts: Arc<TapCounts>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (upstream, history, counts) = (upstream.clone(), history.clone(), Arc::clone(&counts));
        // However a connection ends, its client opens another one.
        connections.spawn(async move { drop(pass(client, &upstream, &history, &counts).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn pass(
    mut client: TcpStream,
    upstream: &Upstream,
    history: &History,
    counts: &Arc<TapCounts>,
) -> io::Result<()> {
    // A client that is refused waits for longer than this.
    let server = loop {
        match upstream.get() {
            Some(address) => match TcpStream::connect(address).await {
                Ok(server) => break server,
                Err(_) => sleep(RETRY).await,
            },
            None => sleep(RETRY).await,
        }
    };
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let tap = Tap::new(server).counting(counts).recording(history);
    let (mut replies, mut requests) = tokio::io::split(tap);
    let (mut from_client, mut to_client) = client.split();
    // Neither server nor clients make use of half-closed connections: the first end closes both.
    tokio::select! {
        sent = tokio::io::copy(&mut from_client, &mut requests) => sent.map(drop),
        received = tokio::io::copy(&mut replies, &mut to_client) => received.map(drop),
    }
}
