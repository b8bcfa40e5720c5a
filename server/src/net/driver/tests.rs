//! Turns without a network: which task takes them, in which order, and what follows a panic.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use std::time::Duration;

use tokio::task::JoinSet;
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{Core, CoreConfig, StateMachine};

use super::*;
use crate::bus::Bus;
use crate::net::outbox::Outbox;
use crate::net::registry::Peer;
use crate::net::stats::ServerStats;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A driver that does not run yet.
fn server() -> (Driver, Inbox) {
    let clock = Clock::manual();
    let now = Millis(clock.unix_millis());
    let core = Box::new(Core::new(CoreConfig::default(), now));
    let registry = Arc::<Registry>::default();
    let engine = Engine::new(Bus::new(core, Arc::clone(&registry), Arc::new(ServerStats::new(now))));
    Driver::new(Arc::new(Mutex::new(engine)), registry, clock, CancellationToken::new(), Span::none())
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
    assert!(inbox.send(ConnId(1), &mut open()).await);
    assert!(is_open(&inbox, ConnId(1)));
}

#[tokio::test]
async fn a_batch_waits_for_the_driver_if_something_before_it_does() {
    let (driver, inbox) = server();
    let mut asked = pin!(inbox.ask(|core| core.is_open(ConnId(1))));
    assert!(poll_once(asked.as_mut()).await.is_pending());
    assert!(inbox.send(ConnId(1), &mut open()).await);
    assert!(!is_open(&inbox, ConnId(1)) && !inbox.is_quiet());
    tokio::spawn(driver.run());
    assert_eq!(asked.await, Some(false), "it was asked first");
    assert_eq!(inbox.ask(|core| core.is_open(ConnId(1))).await, Some(true));
    assert!(inbox.send(ConnId(1), &mut Batch::from_iter([Input::Closed])).await);
    assert!(!is_open(&inbox, ConnId(1)), "nothing waits any more");
}

#[tokio::test]
async fn a_batch_that_moves_the_deadline_is_pending_until_the_driver_has_set_its_timer() {
    let (driver, inbox) = server();
    tokio::spawn(driver.run());
    assert_eq!(inbox.ask(StateMachine::next_timeout).await, Some(locked(&inbox.turns.engine).timer));
    let before = locked(&inbox.turns.engine).timer;
    assert!(inbox.send(ConnId(1), &mut open()).await);
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
    assert!(!inbox.send(ConnId(1), &mut open()).await);
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
    assert!(inbox.send(ConnId(1), &mut open()).await);
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
    let peer = || Peer::new((PEER, 1).into(), 0, Millis(0), Outbox::new(1 << 20), Span::none());
    let members: Vec<_> = (0..MANY).map(|_| registry.enter(peer(), None)).collect();
    tokio::spawn(driver.run());
    for member in &members {
        assert!(inbox.send(member.id, &mut open()).await);
    }
    while !inbox.is_quiet() {
        tokio::task::yield_now().await;
    }
    // The driver is woken first, to close those that have opened no session.
    inbox.turns.clock.advance(Duration::from_secs(60)).expect("a manual clock");
    let mut sending = JoinSet::new();
    for member in &members {
        let (inbox, id) = (inbox.clone(), member.id);
        sending.spawn(async move { inbox.send(id, &mut connect()).await });
    }
    assert!(sending.join_all().await.into_iter().all(|sent| sent));
    let sessions = inbox.ask(|core| core.sessions().len()).await;
    assert_eq!(sessions, Some(MANY));
}
