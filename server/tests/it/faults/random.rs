//! Random faults under random load: nothing is dropped, late or twice without a word in the record. A failure names its
//! seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use zoolet_proto::{ErrorCode, OpCode, Request, SessionId};
use zoolet_server::fault::{Action, Matcher, connection, handshake, op, request};
use zoolet_server::fixture::RecordedEvent;
use zoolet_server::{Clock, InProcessStream, Server, ServerBuilder};

use crate::common::*;
use crate::faults::story::{Story, check_transactions};

const SEEDS: u64 = 30;
const STEPS: usize = 250;

pub(crate) fn settings() -> ServerBuilder {
    // Nobody expires by himself.
    let long = secs(100_000);
    let server = Server::builder().clock(Clock::manual()).all_four_letter_words();
    server.min_session_timeout(long).max_session_timeout(long)
}

/// A client, and everything that it was told and that it sent on one connection.
pub(crate) struct Client {
    pub(crate) peer: Peer<InProcessStream>,
    pub(crate) sent: i32,
    pub(crate) heard: Vec<String>,
    /// Whether it has closed its end, and is not owed anything more.
    pub(crate) left: bool,
}

impl Client {
    fn new(peer: Peer<InProcessStream>) -> Self {
        Self { peer, sent: 0, heard: Vec::new(), left: false }
    }

    fn is_over(&self) -> bool {
        self.heard.last().is_some_and(|last| last == "end" || last == "reset" || last.starts_with("cut"))
    }

    async fn listen(&mut self) {
        if !self.is_over() {
            let heard = self.peer.heard().await;
            self.heard.extend(heard);
        }
    }
}

pub(crate) struct World {
    pub(crate) zk: Zk,
    rng: StdRng,
    clients: Vec<Client>,
    created: u32,
    /// The times at which the clock stood, counted from the start: what is due in between happens at the next of them.
    pub(crate) stops: BTreeSet<Duration>,
}

impl World {
    async fn new(seed: u64, endpoints: usize) -> Self {
        let zk = Zk::with(settings().simulated_ensemble(endpoints)).await;
        zk.faults().seed(seed);
        Self { zk, rng: StdRng::seed_from_u64(seed), clients: Vec::new(), created: 0, stops: BTreeSet::new() }
    }

    async fn advance(&mut self, by: Duration) {
        let last = self.stops.last().copied().unwrap_or_default();
        self.stops.insert(last + by);
        self.zk.advance(by).await;
    }

    async fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..6 => self.connect(SessionId(0)).await,
            6..10 => self.come_back().await,
            10..70 => self.ask().await,
            70..76 => self.place(),
            76..80 => self.zk.faults().clear(),
            80..82 => self.leave().await,
            82..88 => self.do_something().await,
            88..90 => self.do_something_to_an_endpoint().await,
            _ => {
                let by = millis(self.rng.random_range(1..800));
                self.advance(by).await;
            }
        }
        if self.rng.random_bool(0.3) {
            self.zk.idle().await;
            for client in &mut self.clients {
                client.listen().await;
            }
        }
    }

    async fn connect(&mut self, session: SessionId) {
        let known = self.clients.iter().find(|client| client.peer.session() == session);
        let password = known.map_or_else(bytes::Bytes::new, |client| client.peer.welcome.password.clone());
        let endpoint = self.rng.random_range(0..3);
        let Ok(stream) = self.zk.server.in_process_at(endpoint)().into_inner() else { return };
        let mut peer = Peer::over(stream);
        peer.hello(session, &password).await;
        self.clients.push(Client::new(peer));
    }

    async fn come_back(&mut self) {
        let sessions: BTreeSet<_> = self.clients.iter().map(|client| client.peer.session()).collect();
        if let Some(session) = sessions.into_iter().collect::<Vec<_>>().choose(&mut self.rng) {
            self.connect(*session).await;
        }
    }

    async fn ask(&mut self) {
        let requests: Vec<_> = (0..self.rng.random_range(1..6)).map(|_| self.request()).collect();
        let alive: Vec<_> = (0..self.clients.len()).filter(|at| !self.clients[*at].is_over()).collect();
        let Some(at) = alive.choose(&mut self.rng) else { return };
        let client = &mut self.clients[*at];
        let mut bytes = bytes::BytesMut::new();
        for request in requests {
            client.sent += i32::from(!matches!(request, Request::Ping));
            client.peer.encode(request, &mut bytes);
        }
        // It may have been cut off meanwhile; nobody has told it yet.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.peer.stream, &bytes).await;
    }

    fn request(&mut self) -> Request {
        let path = format!("/{}", self.rng.random_range(0..8));
        match self.rng.random_range(0..10) {
            0..3 => {
                self.created += 1;
                create(&format!("/new-{}", self.created))
            }
            3 => create(&path),
            4..6 => set(&path, "x"),
            6 => delete(&path),
            7 => watch(&path),
            8 => get(&path),
            _ => ping(),
        }
    }

    fn place(&mut self) {
        let rng = &mut self.rng;
        let by = millis(rng.random_range(1..900));
        let actions = [
            Action::Refuse,
            Action::DropRequest,
            Action::LoseReply,
            Action::WithholdReply,
            Action::DelayRequest(by),
            Action::DelayReply(by),
            Action::CutReply(rng.random_range(0..30)),
            Action::Reset,
            Action::Drip { bytes: rng.random_range(10..100), every: by },
            Action::Fail(ErrorCode::NoAuth),
            Action::Freeze,
        ];
        let action = *actions.choose(rng).expect("an action");
        let what: Matcher = match rng.random_range(0..6) {
            0 => connection(),
            1 => handshake(),
            2 => op(OpCode::Create),
            3 => request().path("/new-*"),
            4 => op(OpCode::Ping),
            _ => request(),
        };
        let is_handshake = what == handshake();
        let what = match rng.random_range(0..3) {
            0 => what.nth(rng.random_range(1..6)),
            1 => what.times(rng.random_range(1..4)),
            _ => what.probability(rng.random_range(0.05..0.5)),
        };
        // A client here does not wait for its handshake, and would take the next reply for it.
        if is_handshake && action == Action::WithholdReply {
            return;
        }
        // Some are contradictory, and refused.
        let _ = self.zk.faults().place(what, action);
    }

    async fn leave(&mut self) {
        if let Some(at) = (0..self.clients.len()).collect::<Vec<_>>().choose(&mut self.rng) {
            let client = &mut self.clients[*at];
            client.listen().await;
            client.left = true;
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut client.peer.stream).await;
        }
    }

    async fn do_something(&mut self) {
        let sessions: Vec<_> = self.zk.sessions().iter().map(|session| session.id).collect();
        let id = sessions.choose(&mut self.rng).copied().unwrap_or_default();
        // Whoever asks for what cannot be is told so; that is tested elsewhere.
        let _ = match self.rng.random_range(0..16) {
            0..4 => self.zk.freeze(id).await,
            4..6 => self.zk.heal(id).await,
            6 => self.zk.heal_all().await,
            7..9 => self.zk.disconnect(id).await,
            9 => self.zk.expire_session(id).await,
            10 => self.zk.move_session(id).await,
            11 => self.zk.pause().await,
            12..14 => self.zk.resume().await,
            14 => self.zk.restart().await,
            _ => {
                self.zk.refuse_connections();
                self.connect(SessionId(0)).await;
                self.zk.accept_connections();
                self.zk.set("/3", "by the test").await
            }
        };
    }

    /// Nothing unless it is a simulated ensemble.
    async fn do_something_to_an_endpoint(&mut self) {
        let Ok(endpoint) = self.zk.endpoint(self.rng.random_range(0..3)) else { return };
        match self.rng.random_range(0..6) {
            0..2 => endpoint.lag().await,
            2 => endpoint.catch_up().await,
            3 => endpoint.apply_next(3).await.map(|_| ()),
            4 => endpoint.kill().await,
            _ => endpoint.revive().await,
        }
        .expect("a server that runs");
    }

    fn written(&self) -> u64 {
        let conns = self.clients.iter().filter_map(|client| self.zk.traffic(client.peer.conn()));
        conns.map(|traffic| traffic.written).sum()
    }

    /// Takes everything away that holds anything up.
    async fn settle(&mut self) {
        self.zk.faults().clear();
        let _ = self.zk.resume().await;
        let _ = self.zk.heal_all().await;
        for endpoint in 0..self.zk.endpoints() {
            let endpoint = self.zk.endpoint(endpoint).expect("an endpoint");
            endpoint.revive().await.expect("a server that runs");
            endpoint.catch_up().await.expect("a server that runs");
        }
        self.zk.idle().await;
        let mut quiet = 0;
        while quiet < 3 {
            let before = self.written();
            self.advance(secs(1)).await;
            quiet = if self.written() == before { quiet + 1 } else { 0 };
        }
        for client in &mut self.clients {
            client.listen().await;
        }
    }
}

/// What was tried, and how often.
async fn run(seeds: std::ops::Range<u64>, endpoints: usize) -> BTreeMap<String, usize> {
    let mut tried = BTreeMap::new();
    for seed in seeds {
        let mut world = World::new(seed, endpoints).await;
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        let record = world.zk.record();
        assert!(record.iter().enumerate().all(|(at, entry)| entry.seq == at as u64), "seed {seed}");
        for client in &world.clients {
            Story::of(&world, &record, client.peer.conn(), seed).check(client);
        }
        check_transactions(&world, &record, seed);
        for entry in world.zk.faults().fired() {
            let name = match &entry.what {
                RecordedEvent::Fault { action, .. } => format!("{action:?}"),
                other => format!("{other:?}"),
            };
            let name: String = name.chars().filter(|c| c.is_alphabetic()).collect();
            *tried.entry(name).or_default() += 1;
        }
    }
    tried
}

#[tokio::test]
async fn nothing_is_dropped_late_or_twice_that_the_record_does_not_tell_of() {
    let tried = run(0..SEEDS, 1).await;
    // Every action, and everything that a test can do.
    assert!(tried.len() >= 11 + 10, "{tried:#?}");
}

#[tokio::test]
async fn at_the_endpoints_of_a_pretend_ensemble_neither() {
    let tried = run(0..SEEDS, 3).await;
    assert!(tried.len() >= 11 + 10 + 5, "{tried:#?}");
}
