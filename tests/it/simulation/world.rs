//! The world: hosts on a simulated network, one of which runs the server, and a time that they share.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use turmoil::net::{TcpListener, TcpStream};
use turmoil::{Builder, Sim};
use zoolet::client::{Clock, Error};
use zoolet::testing::{DiskExt as _, Fixture, FixtureExt as _, History, SimulatedDisk, Tap};
use zoolet::{Client, Server};

use crate::simulation::trace::{Event, Trace};

/// The name of the server's host.
pub const SERVER: &str = "server";
const PORT: u16 = 2181;

/// The session timeout, and the tick to which it is rounded up.
pub const TIMEOUT: Duration = Duration::from_secs(2);
pub const TICK: Duration = Duration::from_millis(500);

/// When the simulation begins: 2026-01-01. By default it would be now, and no two runs alike.
pub const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// The slowest message, unless something slows it down further.
pub const LATENCY: Duration = Duration::from_millis(50);

/// The unit of the simulation: hosts run one after the other, each for so long. No message is faster, or it could arrive
/// before the time at which it was sent.
const STEP: Duration = Duration::from_millis(10);

/// A simulation with a server in it. Everything that is random in it follows from its seed.
pub struct World {
    pub sim: Sim<'static>,
    pub site: Site,
}

/// What the hosts of a world share with the test. Clones are the same one.
#[derive(Clone)]
pub struct Site {
    seed: u64,
    /// Where the server keeps its state, if not in memory.
    disk: Option<SimulatedDisk>,
    trace: Trace,
    lives: Arc<Mutex<Vec<Life>>>,
    restart: Rc<Notify>,
}

/// A server from its start to its crash, if it comes to that.
#[derive(Clone)]
pub struct Life {
    pub server: Fixture,
    /// What all its clients saw.
    pub history: History,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::with(seed, None)
    }

    /// A world whose server keeps its state on a disk.
    pub fn durable(seed: u64) -> Self {
        Self::with(seed, Some(SimulatedDisk::new(seed)))
    }

    fn with(seed: u64, disk: Option<SimulatedDisk>) -> Self {
        zoolet_test_support::limit();
        let mut sim = Builder::new()
            .rng_seed(seed)
            .epoch(SystemTime::UNIX_EPOCH + EPOCH)
            .tick_duration(STEP)
            .enable_random_order()
            .min_message_latency(STEP)
            .max_message_latency(LATENCY)
            .simulation_duration(Duration::from_secs(600))
            .build();
        let site = Site {
            seed,
            disk,
            trace: Trace::default(),
            lives: Arc::default(),
            restart: Rc::new(Notify::new()),
        };
        let host = site.clone();
        sim.host(SERVER, move || host.clone().serve());
        Self { sim, site }
    }

    /// Runs until every client has ended or `script` returns true; it is called between any two steps.
    pub fn run(&mut self, mut script: impl FnMut(&mut Sim<'static>, &Site)) {
        loop {
            script(&mut self.sim, &self.site);
            match self.sim.step() {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => panic!("the simulation ends at {:?}: {error}", self.sim.elapsed()),
            }
        }
    }
}

impl Site {
    /// The software of the server's host.
    async fn serve(self) -> turmoil::Result {
        // A server that comes back is a later one: its zxids and session ids begin with the time of its start.
        let clock = Clock::tokio().starting_at(turmoil::since_epoch().ok_or("no simulation")?);
        let mut server = Server::builder().tick_time(TICK).clock(clock);
        if let Some(disk) = &self.disk {
            server = server.simulated_disk(disk);
        }
        let server = server.start().await?;
        let fixture = server.fixture();
        let history = History::starting_at(server.initial_zxid());
        self.lives.lock().unwrap().push(Life { server: fixture.clone(), history });
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
        loop {
            tokio::select! {
                biased;
                () = self.restart.notified() => match self.disk {
                    Some(_) => fixture.power_loss().await?,
                    None => fixture.restart().await?,
                },
                accepted = listener.accept() => {
                    let (stream, peer) = accepted?;
                    server.serve_stream(self.trace.of(stream)?, peer.ip());
                }
            }
        }
    }

    /// Opens a session, with the `nth` seed of its host.
    pub async fn connect(&self, host: u64, nth: u64) -> Result<Client, Error> {
        let (trace, lives) = (self.trace.clone(), Arc::clone(&self.lives));
        let connect = move || {
            let (trace, lives) = (trace.clone(), Arc::clone(&lives));
            async move {
                let stream = trace.of(TcpStream::connect((SERVER, PORT)).await?)?;
                let life = lives.lock().unwrap().last().cloned().expect("a server has accepted it");
                Ok(Tap::new(stream).recording(&life.history))
            }
        };
        let options = Client::options().session_timeout(TIMEOUT).connect_timeout(TIMEOUT);
        // Of its own, or all would come back in step after every fault.
        options.seed(self.rng(host << 32 | nth).random()).connect(connect).await
    }

    /// A generator for one purpose of its own.
    pub fn rng(&self, purpose: u64) -> StdRng {
        StdRng::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
    }

    /// Whether the server can lose its state: without a disk, in each crash of its host.
    pub fn forgets(&self) -> bool {
        self.disk.is_none()
    }

    /// Every byte so far.
    pub fn take_trace(&self) -> Vec<Event> {
        self.trace.take()
    }

    /// What the server does and did, one for each time it was started with nothing.
    pub fn lives(&self) -> Vec<Life> {
        self.lives.lock().unwrap().clone()
    }

    /// The server that runs.
    pub fn server(&self) -> Fixture {
        self.lives().pop().expect("a server that has started").server
    }

    /// Restarts the server with its state, or by a power loss if it has a disk: every connection ends, every session survives.
    pub fn restart(&self) {
        self.restart.notify_one();
    }
}

/// How long the simulation has run, as hosts see it.
pub fn now() -> Duration {
    turmoil::sim_elapsed().expect("called inside of the simulation")
}
