//! The way of one client to the ensemble. It can be cut, and what is on it can be held up, so that a request arrives when
//! its session has long gone on over another connection.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::ensemble::suite::SESSION;

const BUFFER: usize = 16 * 1024;

#[derive(Debug, Clone)]
pub struct Line {
    hosts: Arc<[SocketAddr]>,
    dialed: Arc<AtomicUsize>,
    state: watch::Sender<State>,
}

/// What is the matter with it. Connections are counted as they are made.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    /// Nothing moves on connections before this one.
    held_before: usize,
    /// There are no connections before this one any more.
    cut_before: usize,
    /// No connection can be made.
    down: bool,
}

impl State {
    /// Lets nothing move any more.
    pub fn hold_all(&mut self) {
        self.held_before = usize::MAX;
    }
}

/// Forwards connections from `listener` to `target`.
pub async fn relay(listener: TcpListener, target: SocketAddr, state: watch::Sender<State>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(target).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
        tokio::spawn(carry(from_client, to_server, state.subscribe(), 0));
        tokio::spawn(carry(from_server, to_client, state.subscribe(), 0));
    }
}

type Dialing = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

impl Line {
    /// A way that leads to one of `hosts` after the other, from the one with that number on.
    pub fn new(hosts: Arc<[SocketAddr]>, first: usize) -> Self {
        Self { hosts, dialed: Arc::new(AtomicUsize::new(first)), state: watch::Sender::default() }
    }

    /// For a client.
    pub fn connector(&self) -> impl Fn() -> Dialing + Send + 'static + use<> {
        let line = self.clone();
        move || Box::pin(line.clone().dial())
    }

    async fn dial(self) -> io::Result<DuplexStream> {
        if self.state.borrow().down {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let number = self.dialed.fetch_add(1, Relaxed);
        let server = TcpStream::connect(self.hosts[number % self.hosts.len()]).await?;
        server.set_nodelay(true)?;
        let (client, end) = duplex(BUFFER);
        let ((from_client, to_client), (from_server, to_server)) = (split(end), split(server));
        // Each for itself: what the client has sent arrives, though it may have given the connection up.
        tokio::spawn(carry(from_client, to_server, self.state.subscribe(), number));
        tokio::spawn(carry(from_server, to_client, self.state.subscribe(), number));
        Ok(client)
    }

    /// Makes trouble now and then, until it is dropped.
    pub async fn trouble(self, mut rng: StdRng) {
        loop {
            sleep(SESSION.mul_f64(rng.random_range(0.1..0.9))).await;
            match rng.random_range(0..10) {
                0..5 => self.cut(SESSION.mul_f64(rng.random_range(0.0..0.1))).await,
                5..9 => self.hold_up(SESSION.mul_f64(rng.random_range(0.3..1.2))).await,
                // The session does not survive this.
                _ => self.cut(SESSION.mul_f64(1.3)).await,
            }
        }
    }

    /// Cuts the connections that there are.
    pub fn drop_connections(&self) {
        let cut_before = self.dialed.load(Relaxed);
        self.state.send_modify(|state| state.cut_before = cut_before);
    }

    /// Cuts it, for so long.
    async fn cut(&self, time: Duration) {
        self.state.send_modify(|state| state.down = true);
        self.drop_connections();
        sleep(time).await;
        self.state.send_modify(|state| state.down = false);
    }

    /// Holds up the connections that there are, for so long. New ones can be made.
    async fn hold_up(&self, time: Duration) {
        let held_before = self.dialed.load(Relaxed);
        self.state.send_modify(|state| state.held_before = held_before);
        sleep(time).await;
        self.mend();
    }

    /// Everything is well again.
    pub fn mend(&self) {
        self.state.send_modify(|state| (state.held_before, state.down) = (0, false));
    }
}

/// Carries bytes one way until either end closes or the connection is cut.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    number: usize,
) {
    let mut cut = state.clone();
    let carrying = async {
        let mut bytes = vec![0; BUFFER];
        loop {
            let length = from.read(&mut bytes).await?;
            let _ = state.wait_for(|state| number >= state.held_before).await;
            if length == 0 {
                return to.shutdown().await;
            }
            to.write_all(&bytes[..length]).await?;
        }
    };
    tokio::select! {
        _ = carrying => {}
        _ = cut.wait_for(|state| number < state.cut_before) => {}
    }
}
