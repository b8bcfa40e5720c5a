//! The machine of a durable server: its disk, the server that runs on it, and what the servers before that have decided.

use std::future::{Ready, ready};
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use zoolet::server::{Server, ServerBuilder, StartError, StorageError, Txn};
use zoolet::testing::{DiskExt as _, Fixture, FixtureExt as _, SimulatedDisk};
use zoolet_test_support::Dice;

/// A machine. Clones are the same one.
#[derive(Clone)]
pub struct Host {
    settings: ServerBuilder,
    state: Arc<Mutex<State>>,
    on_traffic: Hook,
}

/// Called before a client reads or writes.
pub type Hook = Arc<dyn Fn() + Send + Sync>;

struct State {
    disk: SimulatedDisk,
    /// `None` while none runs.
    server: Option<Running>,
    /// The transactions of the servers before.
    txns: Vec<Txn>,
    pub tally: Tally,
}

/// What has happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Starts of a server.
    pub starts: usize,
    /// How many of them began with a snapshot of something.
    pub snapshots: usize,
    /// Crashes of a server that went on by itself.
    pub crashes: usize,
    /// Crashes that took transactions which were decided.
    pub losses: usize,
}

#[derive(Clone)]
pub struct Running {
    pub server: Arc<Server>,
    pub fixture: Fixture,
}

impl Host {
    /// A machine whose server has these settings, one for storage among them. It does not run yet.
    pub fn new(settings: ServerBuilder, disk: SimulatedDisk, on_traffic: Hook) -> Self {
        let state = State { disk, server: None, txns: Vec::new(), tally: Tally::default() };
        Self { settings, state: Arc::new(Mutex::new(state)), on_traffic }
    }

    /// Opens a connection from another machine, whose sessions outlive the server.
    pub fn connect(&self) -> Ready<io::Result<Hooked>> {
        let Some(Running { server, .. }) = self.running() else {
            return ready(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        let (stream, servers) = duplex(64 << 10);
        server.serve_stream(servers, Ipv4Addr::LOCALHOST.into());
        ready(Ok(Hooked { stream, hook: Arc::clone(&self.on_traffic) }))
    }

    pub fn running(&self) -> Option<Running> {
        self.state().server.clone()
    }

    pub fn fixture(&self) -> Option<Fixture> {
        self.running().map(|running| running.fixture)
    }

    /// The disk, for its controls.
    pub fn disk(&self) -> SimulatedDisk {
        self.state().disk.clone()
    }

    pub fn tally(&self) -> Tally {
        self.state().tally
    }

    /// The transactions of all servers, without those that a crash has taken.
    pub fn transactions(&self) -> Vec<Txn> {
        let state = self.state();
        let mut txns = state.txns.clone();
        txns.extend(state.server.iter().flat_map(|running| running.fixture.transactions()));
        txns
    }

    /// Starts the server on what the disk has.
    pub async fn start(&self) -> Result<(), StartError> {
        let server = self.settings.clone().simulated_disk(&self.disk()).start().await?;
        let mut state = self.state();
        let last = server.initial_zxid();
        let decided = state.txns.len();
        state.txns.retain(|txn| txn.zxid <= last);
        let from = server.recovery().and_then(|report| report.snapshot.as_ref());
        state.tally.starts += 1;
        state.tally.snapshots += usize::from(from.is_some_and(|(_, zxid)| zxid.0 > 0));
        state.tally.losses += usize::from(state.txns.len() < decided);
        let fixture = server.fixture();
        state.server = Some(Running { server: Arc::new(server), fixture });
        Ok(())
    }

    /// Starts another server whenever one has failed, until it is aborted.
    pub async fn keep_running(self, mut dice: Dice) {
        loop {
            let running = self.running().expect("it was started");
            running.server.failed().await;
            self.stop(&running);
            drop(running);
            tokio::time::sleep(Duration::from_millis(dice.below(2_500) as u64)).await;
            self.start_again(&mut dice).await;
        }
    }

    /// Kills the server or cuts its power, and lets it go on by itself. False if it cannot.
    pub async fn crash_and_go_on(&self, running: &Running, kill: bool) -> bool {
        let decided = running.fixture.transactions().len();
        let crash = if kill { running.fixture.kill().await } else { running.fixture.power_loss().await };
        let mut state = self.state();
        state.tally.crashes += usize::from(crash.is_ok());
        state.tally.losses += usize::from(running.fixture.transactions().len() < decided);
        crash.is_ok()
    }

    fn stop(&self, running: &Running) {
        let mut state = self.state();
        state.server = None;
        state.txns.extend(running.fixture.transactions());
    }

    /// Starts the server after a crash, perhaps after others while it starts.
    async fn start_again(&self, dice: &mut Dice) {
        loop {
            self.crash(dice);
            let disk = self.disk();
            if dice.chance(25) {
                disk.crash_at(disk.steps() + 1 + dice.below(12) as u64);
            }
            match self.start().await {
                Ok(()) => return,
                // The next crash, or a fault that hits the start as well.
                Err(StartError::Storage(StorageError::Io { .. })) => disk.clear_faults(),
                Err(error) => panic!("{error}\n{}", disk.tree()),
            }
        }
    }

    /// Ends the process, and half of the time the power.
    fn crash(&self, dice: &mut Dice) {
        let mut state = self.state();
        state.disk = if dice.chance(50) {
            state.disk.kill()
        } else {
            state.disk.power_loss(dice.below(usize::MAX) as u64)
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the lock")
    }
}

/// A stream that calls a hook.
pub struct Hooked {
    stream: DuplexStream,
    hook: Hook,
}

impl AsyncRead for Hooked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        (self.hook)();
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Hooked {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        (self.hook)();
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
