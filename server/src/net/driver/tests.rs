//! Turns without a network: which task takes them, in which order, and what follows a panic.

use std::any::Any;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use std::time::Duration;

use tokio::task::JoinSet;
use zoolet_proto::records::{ConnectRequest, Create, GetAcl, GetChildren};
use zoolet_proto::{Acl, Incoming, Perms, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{Core, CoreConfig, Effects, Output, StateMachine};

use super::*;
use crate::bus::Bus;
use crate::net::outbox::Outbox;
use crate::net::registry::{Peer, Registration};
use crate::net::stats::ServerStats;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A driver that does not run yet.
fn server() -> (Driver, Inbox) {
    let clock = Clock::manual();
    let core = Box::new(Core::new(CoreConfig::default(), Millis(clock.unix_millis())));
    server_of(clock, core)
}

fn server_of(clock: Clock, core: Box<dyn StateMachine>) -> (Driver, Inbox) {
    let now = Millis(clock.unix_millis());
    let registry = Arc::<Registry>::default();
    let stats = Arc::new(ServerStats::new(now));
    let engine = Engine::new(Bus::new(core, Arc::clone(&registry), stats, clock.clone(), None));
    Driver::new(Arc::new(Mutex::new(engine)), registry, None, clock, CancellationToken::new(), Span::none())
}

fn open() -> Batch {
    Batch::from_iter([Input::Open { peer: PEER }])
}

fn is_open(inbox: &Inbox, conn: ConnId) -> bool {
    locked(&inbox.turns.engine).bus.core().is_open(conn)
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[tokio::test]
async fn a_batch_that_comes_alone_is_processed_before_the_driver_runs() {
    let (_driver, inbox) = server();
    assert!(inbox.send(ConnId(1), &mut open(), false).await);
    assert!(is_open(&inbox, ConnId(1)));
}

#[tokio::test]
async fn a_batch_waits_for_the_driver_if_something_before_it_does() {
    let (driver, inbox) = server();
    let mut asked = pin!(inbox.ask(|core| core.is_open(ConnId(1))));
    assert!(poll_once(asked.as_mut()).await.is_pending());
    assert!(inbox.send(ConnId(1), &mut open(), false).await);
    assert!(!is_open(&inbox, ConnId(1)) && !inbox.is_quiet());
    tokio::spawn(driver.run());
    assert_eq!(asked.await, Some(false), "it was asked first");
    assert_eq!(inbox.ask(|core| core.is_open(ConnId(1))).await, Some(true));
    assert!(inbox.send(ConnId(1), &mut Batch::from_iter([Input::Closed]), false).await);
    assert!(!is_open(&inbox, ConnId(1)), "nothing waits any more");
}

#[tokio::test]
async fn a_batch_that_moves_the_deadline_is_pending_until_the_driver_has_set_its_timer() {
    let (driver, inbox) = server();
    tokio::spawn(driver.run());
    assert_eq!(inbox.ask(StateMachine::next_timeout).await, Some(locked(&inbox.turns.engine).timer));
    let before = locked(&inbox.turns.engine).timer;
    assert!(inbox.send(ConnId(1), &mut open(), false).await);
    // One that opens no session is closed in time.
    let due = locked(&inbox.turns.engine).next_timeout();
    assert!(due < before && !inbox.is_quiet());
    while !inbox.is_quiet() {
        tokio::task::yield_now().await;
    }
    assert_eq!(locked(&inbox.turns.engine).timer, due);
}

#[tokio::test]
async fn after_a_turn_that_panics_there_is_no_other_and_the_server_stops() {
    let (driver, inbox) = server();
    let turns = Arc::clone(&inbox.turns);
    let broken = catch_unwind(AssertUnwindSafe(|| {
        turns.take(|_, _| panic!("as if there were a bug"));
    }));
    assert!(broken.is_err() && turns.stop.is_cancelled());
    assert!(!inbox.send(ConnId(1), &mut open(), false).await);
    assert!(!is_open(&inbox, ConnId(1)));
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
    let (_driver, inbox) = server();
    let turn = Turn(Arc::clone(&inbox.turns));
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let _turn = turn;
        panic!("as in a test that fails");
    }));
    assert!(broken.is_err() && !inbox.turns.stop.is_cancelled());
    assert!(inbox.send(ConnId(1), &mut open(), false).await);
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
async fn requests_of_more_connections_than_the_inbox_holds_count_before_a_deadline() {
    const MANY: usize = 3 * INBOX;
    let (driver, inbox) = server();
    let registry = Arc::clone(&driver.registry);
    let peer =
        || Peer::new((PEER, 1).into(), 0, Millis(0), Outbox::new(1 << 20, &registry.budget), Span::none());
    let members: Vec<_> = (0..MANY).map(|_| registry.enter(peer(), None)).collect();
    tokio::spawn(driver.run());
    for member in &members {
        assert!(inbox.send(member.id, &mut open(), false).await);
    }
    while !inbox.is_quiet() {
        tokio::task::yield_now().await;
    }
    // The driver is woken first, to close those that have opened no session.
    inbox.turns.clock.advance(Duration::from_secs(60)).expect("a manual clock");
    let mut sending = JoinSet::new();
    for member in &members {
        let (inbox, id) = (inbox.clone(), member.id);
        sending.spawn(async move { inbox.send(id, &mut connect(), false).await });
    }
    assert!(sending.join_all().await.into_iter().all(|sent| sent));
    let sessions = inbox.ask(|core| core.sessions().len()).await;
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
    /// How often outputs were taken to be delivered.
    deliveries: AtomicUsize,
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
        self.seen.deliveries.fetch_add(usize::from(!self.core.outputs().is_empty()), Ordering::Relaxed);
        self.core.take_effects()
    }

    fn outputs(&self) -> &[Output] {
        self.core.outputs()
    }

    fn is_open(&self, conn: ConnId) -> bool {
        self.core.is_open(conn)
    }

    fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        self.core.session_of(conn)
    }

    fn renew(&mut self, now: Millis, session: SessionId) -> bool {
        self.core.renew(now, session)
    }

    fn expire(&mut self, now: Millis, session: SessionId) -> bool {
        self.core.expire(now, session)
    }

    fn move_session(&mut self, session: SessionId) -> bool {
        self.core.move_session(session)
    }

    fn set_counter(&mut self, path: &str, children: i64) -> bool {
        self.core.set_counter(path, children)
    }

    fn restart(&mut self, now: Millis) {
        self.core.restart(now);
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A server that needs a millisecond for each request, two connections with sessions, and the requests it has executed.
async fn laborious() -> (Driver, Inbox, [Registration; 2], Arc<Seen>) {
    let (clock, seen) = (Clock::manual(), Arc::<Seen>::default());
    let core = Core::new(CoreConfig::default(), Millis(clock.unix_millis()));
    let machine = Laborious { core, clock: clock.clone(), seen: Arc::clone(&seen) };
    let (driver, inbox) = server_of(clock, Box::new(machine));
    let registry = Arc::clone(&driver.registry);
    let peer =
        || Peer::new((PEER, 1).into(), 0, Millis(0), Outbox::new(1 << 20, &registry.budget), Span::none());
    let members = [(); 2].map(|()| registry.enter(peer(), None));
    for member in &members {
        member.peer.begin_requests(1);
        for mut batch in [open(), connect()] {
            assert!(inbox.send(member.id, &mut batch, false).await);
            // As the driver does, which does not run yet.
            inbox.turns.open.store(0, Ordering::Relaxed);
        }
    }
    assert!(poll_once(pin!(inbox.turns.moved.notified())).await.is_ready());
    (driver, inbox, members, seen)
}

fn requests(request: &Request, count: i32) -> Batch {
    let one =
        |xid| Input::Request(Incoming { xid: Xid(xid), op: request.op().code(), body: Ok(request.clone()) });
    (1..=count).map(one).collect()
}

fn listing() -> Request {
    Request::GetChildren(GetChildren { path: "/".into(), watch: false })
}

async fn quiet(inbox: &Inbox) {
    while !inbox.is_quiet() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_turn_ends_by_time_and_returns_what_it_did_not_reach() {
    let (driver, inbox, [member, _], seen) = laborious().await;
    tokio::spawn(driver.run());
    for (request, reached) in [(listing(), 2), (Request::Ping, 16)] {
        member.peer.set_slow(false);
        member.peer.begin_requests(20);
        assert!(inbox.send(member.id, &mut requests(&request, 20), false).await);
        quiet(&inbox).await;
        assert_eq!(seen.executed().len(), reached);
        assert_eq!(member.peer.outbox.room().await, 20 - reached);
        assert!(member.peer.is_slow());
    }
}

#[tokio::test]
async fn batches_of_a_slow_connection_wait_for_those_of_others_until_one_is_quick() {
    let (driver, inbox, [slow, other], seen) = laborious().await;
    slow.peer.set_slow(true);
    for (member, is_slow) in [(&slow, true), (&other, false), (&other, false)] {
        member.peer.begin_requests(1);
        let mut batch = requests(&Request::Ping, 1);
        if is_slow {
            assert!(inbox.send(member.id, &mut batch, true).await);
            // Its end waits for it.
            assert!(inbox.send(member.id, &mut Batch::from_iter([Input::Closed]), true).await);
        } else {
            assert!(inbox.send(member.id, &mut batch, false).await);
        }
    }
    assert_eq!(seen.executed().len(), 0, "a slow connection leaves its turns to the driver");
    tokio::spawn(driver.run());
    quiet(&inbox).await;
    assert_eq!(seen.executed(), [other.id, other.id, slow.id]);
    assert!(!slow.peer.is_slow() && !is_open(&inbox, slow.id));
}

#[tokio::test]
async fn long_replies_to_many_connections_are_not_held_until_all_are_made() {
    let (driver, inbox, members, seen) = laborious().await;
    let acl = (0..20_000).map(|n| Acl::new(Perms::ALL, "ip", format!("10.0.{}.{}", n >> 8, n & 255)));
    let acl = Some(acl.chain(Acl::open()).collect());
    let create = Request::Create(Create { path: "/a".into(), data: None, acl, flags: 0 });
    assert!(inbox.send(members[0].id, &mut requests(&create, 1), false).await);
    let before = seen.deliveries.load(Ordering::Relaxed);
    // Something before them, so that the driver gets both at once.
    let asked = pin!(inbox.ask(|_| ()));
    assert!(poll_once(asked).await.is_pending());
    let get = Request::GetAcl(GetAcl { path: "/a".into() });
    for member in &members {
        assert!(inbox.send(member.id, &mut requests(&get, 1), false).await);
    }
    tokio::spawn(driver.run());
    quiet(&inbox).await;
    assert_eq!(seen.deliveries.load(Ordering::Relaxed) - before, 2);
}

#[tokio::test]
async fn a_session_does_not_expire_while_its_requests_wait_for_those_of_others() {
    let (driver, inbox, [slow, other], _) = laborious().await;
    slow.peer.set_slow(true);
    slow.peer.begin_requests(1);
    inbox.turns.clock.advance(Duration::from_secs(60)).expect("a manual clock");
    locked(&inbox.turns.engine).take_due(inbox.turns.now());
    let session = |conn| locked(&inbox.turns.engine).bus.core().session_of(conn);
    assert!(session(slow.id).is_some() && session(other.id).is_none());
    drop(driver);
}

#[tokio::test]
async fn of_a_connection_that_is_gone_only_what_has_an_effect_is_executed() {
    let (driver, inbox, [member, _], seen) = laborious().await;
    tokio::spawn(driver.run());
    member.peer.outbox.writer_is_gone();
    for (request, count) in
        [(listing(), 0), (Request::WhoAmI, 0), (Request::Ping, 1), (Request::CloseSession, 1)]
    {
        member.peer.begin_requests(1);
        assert!(inbox.send(member.id, &mut requests(&request, 1), false).await);
        quiet(&inbox).await;
        assert_eq!(seen.executed().len(), count, "{request:?}");
        assert_eq!(member.peer.outbox.room().await, 0, "it counts as answered");
    }
}

#[tokio::test]
async fn a_call_that_was_given_up_is_not_made() {
    let (driver, inbox) = server();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let mut asked = Box::pin(inbox.act(move |_, _| count.fetch_add(1, Ordering::Relaxed)));
    assert!(poll_once(asked.as_mut()).await.is_pending());
    drop(asked);
    tokio::spawn(driver.run());
    quiet(&inbox).await;
    assert_eq!(made.load(Ordering::Relaxed), 0);
}
