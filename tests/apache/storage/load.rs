//! Clients that write at random and come and go, until they have done enough or their server is killed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use zoolet_proto::jute;
use zoolet_test_support::{Dice, Hello, Request, Wire, close_session, create};

use crate::storage::operations::{Limits, Operations, TOPS};

/// Session timeouts in milliseconds: of those that expire under the load, and of those that are there afterwards.
const TIMEOUTS: [i32; 3] = [400, 100_000, 3_000_000];
const CLIENTS: usize = 5;

/// Clients at work. Dropping it ends their connections but not their sessions.
pub struct Load {
    clients: JoinSet<()>,
    answered: Arc<AtomicUsize>,
}

impl Load {
    /// Starts clients; each sends so many requests. With several servers a client that loses one goes on with another.
    pub fn start(servers: &[SocketAddr], dice: &mut Dice, limits: Limits, requests: usize) -> Self {
        let (mut clients, answered) = (JoinSet::new(), Arc::<AtomicUsize>::default());
        for _ in 0..CLIENTS {
            let operations = Operations::new(dice.fork(), limits);
            let (servers, answered) = (servers.to_vec(), Arc::clone(&answered));
            clients.spawn(Client { servers, operations, wire: None, left: requests, answered }.run());
        }
        Self { clients, answered }
    }

    /// How many requests were answered until now.
    pub fn answered(&self) -> usize {
        self.answered.load(Relaxed)
    }

    /// Whether all have done their part, or lost their only server.
    pub fn is_done(&self) -> bool {
        // Each client has one as well.
        Arc::strong_count(&self.answered) == 1
    }

    /// Waits until all have done their part, or lost their only server. Returns how many requests were answered.
    pub async fn finish(mut self) -> usize {
        while let Some(client) = self.clients.join_next().await {
            client.expect("a client that does not fail");
        }
        self.answered()
    }
}

struct Client {
    servers: Vec<SocketAddr>,
    operations: Operations,
    wire: Option<Wire>,
    left: usize,
    answered: Arc<AtomicUsize>,
}

/// The server is gone.
struct Gone;

impl Client {
    async fn run(mut self) {
        while self.left > 0 {
            if self.turn().await.is_ok() {
                continue;
            }
            if self.servers.len() == 1 {
                break;
            }
            self.left -= 1;
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn turn(&mut self) -> Result<(), Gone> {
        if self.wire.is_none() {
            self.connect(Hello::new()).await?;
        }
        let most = [2, 40][self.operations.dice().below(2)];
        let batch = 1 + self.operations.dice().below(most);
        let requests = (0..batch).map(|_| self.operations.request()).collect();
        self.left = self.left.saturating_sub(batch);
        self.ask(requests).await?;
        match self.operations.dice().below(30) {
            0 => {
                self.ask(vec![close_session()]).await?;
                self.wire = None;
            }
            // The session expires, or is there for ever.
            1 => self.wire = None,
            2 => {
                let hello = self.wire.take().map(|wire| Hello::again(&wire.welcome));
                self.connect(hello.unwrap_or_default()).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn connect(&mut self, hello: Hello) -> Result<(), Gone> {
        let server = self.operations.dice().of(&self.servers);
        let timeout = self.operations.dice().of(&TIMEOUTS);
        let stream = TcpStream::connect(server).await.map_err(|_| Gone)?;
        let mut wire = Wire::over(stream);
        wire.try_send_bytes(&hello.timeout_ms(timeout).bytes()).await.map_err(|_| Gone)?;
        let payload = wire.payload_or_end().await.ok_or(Gone)?;
        wire.welcome = jute::parse(&payload).expect("a connect response");
        if wire.welcome.is_refusal() {
            // The session has expired meanwhile.
            return Ok(());
        }
        self.wire = Some(wire);
        self.ask([Operations::login()].into_iter().chain(TOPS.map(create)).collect()).await
    }

    /// Sends requests in one go and waits for their answers.
    async fn ask(&mut self, requests: Vec<Request>) -> Result<(), Gone> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        let (count, mut bytes) = (requests.len(), BytesMut::new());
        for request in requests {
            wire.encode(request, &mut bytes);
        }
        wire.try_send_bytes(&bytes).await.map_err(|_| Gone)?;
        for _ in 0..count {
            if wire.payload_or_end().await.is_none() {
                // Of a session that has expired, or of a server that is gone: the next connection shows which.
                self.wire = None;
                break;
            }
            self.answered.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
