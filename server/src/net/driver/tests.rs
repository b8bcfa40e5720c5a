//! Turns without a network: who takes them, in which order, and what follows a panic.

use std::future::{pending, poll_fn};
use std::mem;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zoolet_clock::Clock;
use zoolet_proto::records::{ConnectRequest, GetChildren, GetData, SetData};
use zoolet_proto::{Incoming, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{ConnId, Core, CoreConfig, Effects, Input, Millis, Output, StateMachine};

use super::*;
use crate::bus::Bus;
use crate::durable::{CommitQueue, DurabilityGate};
use crate::engine::{Batch, Engine};
use crate::net::flow::outbox::Outbox;
use crate::net::registry::{Peer, PeerState, Registration};
use crate::net::stats::ServerStats;
use crate::net::stream::Link;

mod with_log;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A driver that does not run yet.
fn server() -> (Driver, Arc<Turns>) {
    let clock = Clock::manual();
    let core = Box::new(Core::new(CoreConfig::default(), Millis(clock.unix_millis())));
    server_of(clock, core, None)
}

fn server_of(
    clock: Clock,
    core: Box<dyn StateMachine>,
    log: Option<(DurabilityGate, Arc<CommitQueue>)>,
) -> (Driver, Arc<Turns>) {
    let now = Millis(clock.unix_millis());
    let registry = Arc::<Registry>::default();
    let stats = Arc::new(ServerStats::new(now));
    let (gate, commits) = log.unzip();
    let engine = Engine::new(Bus::new(core, Arc::clone(&registry), Arc::clone(&stats), clock.clone(), gate));
    let engine = Arc::new(Mutex::new(engine));
    let (turns, slow) = Turns::new(engine, commits, stats, clock, CancellationToken::new(), Span::none());
    (Driver { turns: Arc::clone(&turns), slow, registry }, turns)
}

/// A new connection.
fn enter(driver: &Driver) -> Registration {
    let outbox = Outbox::new(1 << 20, &driver.registry.budget);
    let peer = Peer {
        addr: (PEER, 1).into(),
        link: Link::default(),
        replica: 0,
        established: Millis(0),
        outbox,
        span: Span::none(),
        state: PeerState::default(),
    };
    driver.registry.enter(peer, None)
}

fn open() -> Batch {
    Batch::from_iter([Input::Open(PEER.into())])
}

fn is_open(turns: &Turns, conn: ConnId) -> bool {
    locked(&turns.engine).bus.core().is_open(conn)
}

#[tokio::test]
async fn a_batch_is_processed_by_who_submits_it() {
    let (driver, turns) = server();
    let member = enter(&driver);
    assert!(turns.submit(&member, &mut open()).await);
    assert!(is_open(&turns, member.id));
}

#[tokio::test]
async fn a_batch_that_moves_the_deadline_is_pending_until_the_driver_has_set_its_timer() {
    let (driver, turns) = server();
    let member = enter(&driver);
    tokio::spawn(driver.run());
    assert_eq!(turns.read(StateMachine::next_timeout), Some(locked(&turns.engine).timer));
    let before = locked(&turns.engine).timer;
    assert!(turns.submit(&member, &mut open()).await);
    // One that opens no session is closed in time.
    let due = locked(&turns.engine).next_timeout();
    assert!(due < before && !turns.is_quiet());
    while !turns.is_quiet() {
        tokio::task::yield_now().await;
    }
    assert_eq!(locked(&turns.engine).timer, due);
}

#[tokio::test]
async fn after_a_turn_that_panics_there_is_no_other_and_the_server_stops() {
    let (driver, turns) = server();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        turns.take(|_, _| panic!("as if there were a bug"));
    }));
    assert!(broken.is_err() && turns.stop.is_cancelled());
    let member = enter(&driver);
    assert!(!turns.submit(&member, &mut open()).await);
    assert!(!is_open(&turns, member.id));
    driver.run().await;
}

#[tokio::test]
async fn a_turn_in_a_thread_that_panics_does_not_stop_the_server() {
    struct Turn(Arc<Turns>);
    impl Drop for Turn {
        fn drop(&mut self) {
            drop(self.0.take(|_, _| {}));
        }
    }
    let (driver, turns) = server();
    let turn = Turn(Arc::clone(&turns));
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let _turn = turn;
        panic!("as in a test that fails");
    }));
    assert!(broken.is_err() && !turns.stop.is_cancelled());
    assert!(turns.submit(&enter(&driver), &mut open()).await);
}

fn connect() -> Batch {
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 30_000,
        session: SessionId(0),
        password: None,
        read_only: None,
    };
    Batch::from_iter([Input::Connect(connect)])
}

#[tokio::test]
async fn requests_of_more_connections_than_the_turns_holds_count_before_a_deadline() {
    const MANY: usize = 3 * EVENTS;
    let (driver, turns) = server();
    let members: Vec<_> = (0..MANY).map(|_| enter(&driver)).collect();
    tokio::spawn(driver.run());
    for member in &members {
        assert!(turns.submit(member, &mut open()).await);
    }
    while !turns.is_quiet() {
        tokio::task::yield_now().await;
    }
    // The driver is woken first, to close those that have opened no session.
    turns.clock.advance(Duration::from_secs(60)).expect("a manual clock");
    let mut sending = JoinSet::new();
    for member in members {
        let turns = turns.clone();
        sending.spawn(async move { (turns.submit(&member, &mut connect()).await, member) });
    }
    let sent = sending.join_all().await;
    assert!(sent.iter().all(|(sent, _)| *sent));
    let sessions = turns.read(|core| core.sessions().len());
    assert_eq!(sessions, Some(MANY));
}

/// A state machine that needs a millisecond for each request, and notes whose they were.
struct Laborious {
    core: Core,
    clock: Clock,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    executed: Mutex<Vec<ConnId>>,
}

impl Seen {
    /// The connections whose requests were executed since this was asked last.
    fn executed(&self) -> Vec<ConnId> {
        mem::take(&mut self.executed.lock().expect("a list"))
    }
}

impl StateMachine for Laborious {
    fn handle(&mut self, now: Millis, conn: ConnId, input: Input) {
        if matches!(input, Input::Request(_)) {
            self.clock.advance(Duration::from_millis(1)).expect("a manual clock");
            self.seen.executed.lock().expect("a list").push(conn);
        }
        self.core.handle(now, conn, input);
    }

    fn handle_timeout(&mut self, now: Millis) {
        self.core.handle_timeout(now);
    }

    fn next_timeout(&self) -> Millis {
        self.core.next_timeout()
    }

    fn take_effects(&mut self) -> Effects {
        self.core.take_effects()
    }

    fn outputs(&self) -> &[Output] {
        self.core.outputs()
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

/// A server that needs a millisecond for each request, two connections with sessions, and the requests it has executed.
async fn laborious() -> (Driver, Arc<Turns>, [Registration; 2], Arc<Seen>) {
    let (clock, seen) = (Clock::manual(), Arc::<Seen>::default());
    let core = Core::new(CoreConfig::default(), Millis(clock.unix_millis()));
    let machine = Laborious { core, clock: clock.clone(), seen: Arc::clone(&seen) };
    let (driver, turns) = server_of(clock, Box::new(machine), None);
    let members = sessions(&driver, &turns).await;
    (driver, turns, members, seen)
}

/// Two connections with sessions.
async fn sessions(driver: &Driver, turns: &Turns) -> [Registration; 2] {
    let members = [(); 2].map(|()| enter(driver));
    for member in &members {
        for mut batch in [open(), connect()] {
            assert!(turns.submit(member, &mut batch).await);
        }
    }
    members
}

fn requests(request: &Request, count: i32) -> Batch {
    let one =
        |xid| Input::Request(Incoming { xid: Xid(xid), op: request.op().code(), body: Ok(request.clone()) });
    (1..=count).map(one).collect()
}

fn listing() -> Request {
    Request::GetChildren(GetChildren { path: "/".into(), watch: false })
}

fn set_root(len: usize) -> Request {
    Request::SetData(SetData { path: "/".into(), data: Some(vec![0; len].into()), version: -1 })
}

fn read_root() -> Request {
    Request::GetData(GetData { path: "/".into(), watch: false })
}

async fn quiet(turns: &Turns) {
    while !turns.is_quiet() {
        tokio::task::yield_now().await;
    }
}

/// How many of its requests a connection has to submit again, as its task learns it.
async fn unprocessed(member: &Registration) -> usize {
    let outbox = &member.peer.outbox;
    let (mut writing, mut reading) = (pin!(pending()), pin!(outbox.ready_for_requests()));
    poll_fn(|cx| outbox.poll_loops(cx, writing.as_mut(), reading.as_mut())).await.expect("no failed write")
}

#[tokio::test]
async fn a_turn_ends_by_time_and_returns_what_it_did_not_reach() {
    let (driver, turns, [member, _], seen) = laborious().await;
    tokio::spawn(driver.run());
    for (request, reached) in [(listing(), 2), (Request::Ping, 16)] {
        member.peer.state.slow.store(false, Ordering::Relaxed);
        assert!(turns.submit(&member, &mut requests(&request, 20)).await);
        quiet(&turns).await;
        assert_eq!(seen.executed().len(), reached);
        assert_eq!(unprocessed(&member).await, 20 - reached);
        assert!(member.peer.state.slow.load(Ordering::Relaxed));
    }
}

#[tokio::test]
async fn batches_of_a_slow_connection_wait_for_those_of_others_until_one_is_quick() {
    let (driver, turns, [slow, other], seen) = laborious().await;
    slow.peer.state.slow.store(true, Ordering::Relaxed);
    for (member, is_slow) in [(&slow, true), (&other, false), (&other, false)] {
        let mut batch = requests(&Request::Ping, 1);
        assert!(turns.submit(member, &mut batch).await);
        if is_slow {
            // Its end waits for it.
            assert!(turns.submit(member, &mut Batch::from_iter([Input::Closed])).await);
        }
    }
    assert_eq!(seen.executed(), [other.id, other.id], "a slow connection leaves its turns to the driver");
    tokio::spawn(driver.run());
    quiet(&turns).await;
    assert_eq!(seen.executed(), [slow.id]);
    assert!(!slow.peer.state.slow.load(Ordering::Relaxed) && !is_open(&turns, slow.id));
}

#[tokio::test]
async fn a_session_does_not_expire_while_its_requests_wait_for_those_of_others() {
    let (driver, turns, [slow, other], _) = laborious().await;
    slow.peer.state.slow.store(true, Ordering::Relaxed);
    slow.peer.begin_requests(1);
    turns.clock.advance(Duration::from_secs(60)).expect("a manual clock");
    locked(&turns.engine).take_due(Millis(turns.clock.unix_millis()));
    let session = |conn| locked(&turns.engine).bus.core().session_of(conn);
    assert!(session(slow.id).is_some() && session(other.id).is_none());
    drop(driver);
}

#[tokio::test]
async fn of_a_connection_that_is_gone_only_what_has_an_effect_is_executed() {
    let (driver, turns, [member, _], seen) = laborious().await;
    tokio::spawn(driver.run());
    member.peer.outbox.abort();
    for (request, count) in
        [(listing(), 0), (Request::WhoAmI, 0), (Request::Ping, 1), (Request::CloseSession, 1)]
    {
        assert!(turns.submit(&member, &mut requests(&request, 1)).await);
        quiet(&turns).await;
        assert_eq!(seen.executed().len(), count, "{request:?}");
        assert_eq!(unprocessed(&member).await, 0, "it counts as answered");
    }
}

#[tokio::test]
async fn a_reply_that_overflows_its_connection_is_not_counted_as_sent() {
    let (driver, turns) = server();
    let [member, _] = sessions(&driver, &turns).await;
    let sent = || locked(&turns.engine).bus.stats.sent.load(Ordering::Relaxed);
    let before = sent();
    for (request, overflows) in [(set_root(1 << 20), false), (read_root(), true)] {
        assert!(turns.submit(&member, &mut requests(&request, 1)).await);
        assert_eq!((sent() - before, member.peer.outbox.has_overflowed()), (1, overflows));
    }
}
